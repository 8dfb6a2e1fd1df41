"""The event store as a server's connections use it: its faults cost resumability, nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from mcp_trio.abc import SessionRecord, Tail
from mcp_trio.errors import EventsExpired, UnknownStream

if TYPE_CHECKING:
    from mcp_trio.abc import EventStore
    from mcp_trio.wire.http import ResumeStream

    from .http_sessions import HttpSession

__all__ = ["SafeStore"]

_log: Final = logging.getLogger("mcp_trio.transports")


class SafeStore:
    """Asks *events*, and logs what goes wrong there. All methods are checkpoints.

    Attributes:
        events: the store itself, for the streams, which have their own way to do without it.
    """

    def __init__(self, events: EventStore) -> None:
        self.events: Final = events

    async def open_session(self, session: HttpSession) -> None:
        """Remember *session*."""
        record = SessionRecord(
            revision=session.session.revision.version, principal=session.principal
        )
        try:
            await self.events.open_session(session.id, record)
        except Exception:  # noqa: BLE001 - whatever a store does, the session goes on
            _log.exception("the event store failed; a session cannot be resumed")

    async def session(self, session_id: str) -> SessionRecord | None:
        """Return what is known of a session, None where nothing is."""
        try:
            return await self.events.session(session_id)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("the event store failed; nothing is known of a session")
            return None

    async def read(self, session_id: str, resume: ResumeStream, *, live: bool) -> Tail | None:
        """Return what came after an event, None where that is no help.

        A stream that is *live* may have nothing stored yet. To any other nothing will be
        added: a tail that neither says anything nor is finished is no answer.
        """
        try:
            tail = await self.events.read(session_id, resume.stream, resume.after)
        except UnknownStream:
            return Tail((), finished=False) if live else None
        except EventsExpired:
            return None
        except Exception:  # noqa: BLE001 - as above
            _log.exception("the event store failed; a stream cannot be resumed")
            return None
        return tail if live or tail.finished or tail.events else None

    async def forget_session(self, session_id: str) -> None:
        """Drop a session and all its streams."""
        try:
            await self.events.forget_session(session_id)
        except Exception:  # noqa: BLE001 - as above
            _log.exception("the event store failed; an ended session stays in it")
