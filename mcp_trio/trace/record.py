"""Recording what one or both sides of a session see, in the order in which they see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

import trio
from attrs import field, frozen

from mcp_trio.wire.jsonrpc import (
    Failure,
    Message,
    Notification,
    Request,
    Result,
    Unencodable,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Entry", "Recorder", "Recording", "Side", "other"]

Side: TypeAlias = Literal["client", "server"]

_MESSAGES: Final = (Request, Notification, Result, Failure)


def other(side: Side) -> Side:
    """Return the side at the other end."""
    return "server" if side == "client" else "client"


@final
@frozen(kw_only=True)
class Entry:
    """One event of the engine (``mcp_trio.abc.Tracer`` has their names).

    Attributes:
        time: when, on trio's clock.
        side: at which side of the session.
        session: the session's label.
        fields: what else the event says.
    """

    time: float
    name: str
    side: Side
    session: str = ""
    fields: Mapping[str, Any] = field(factory=dict)

    @property
    def message(self) -> Message | None:
        """The JSON-RPC message that was sent or received; None for every other event."""
        message = self.fields.get("message")
        return message if isinstance(message, _MESSAGES) else None

    @property
    def sender(self) -> Side:
        """The side whose doing this is: for what was received, the other one."""
        return other(self.side) if self.name == "message.received" else self.side


@final
@frozen
class Recording:
    """Entries without a gap, from the first one on.

    Attributes:
        entries: in the order in which they happened.
        dropped: how many came after them and were not kept.
    """

    entries: tuple[Entry, ...]
    dropped: int = 0

    @property
    def sides(self) -> tuple[Side, ...]:
        """The sides that were recorded, the client first."""
        found = {entry.side for entry in self.entries}
        return tuple(side for side in ("client", "server") if side in found)

    def seen_by(self, side: Side) -> tuple[Entry, ...]:
        """Return the entries of one side."""
        return tuple(entry for entry in self.entries if entry.side == side)


@final
class Recorder:
    """A tracer (``tracer=`` of every ``connect_*`` and ``serve_*``) for one session.

    Give it to one side, or to both where they are in one process. It keeps the beginning:
    past *events* entries, or past *size* bytes of messages as mcp_trio would write them, it
    keeps nothing more and only counts. What it has then is a session without a gap, cut
    short, of which every law that held can still be seen to hold.
    """

    __slots__ = ("_dropped", "_entries", "_events", "_room")

    def __init__(self, *, events: int = 10_000, size: int = 16 * 1024 * 1024) -> None:
        self._events: Final = events
        self._room = size
        self._entries: list[Entry] = []
        self._dropped = 0

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """Keep the event, or count it."""
        about = {key: value for key, value in fields.items() if key not in ("session", "role")}
        entry = Entry(
            time=trio.current_time(),
            name=name,
            side=fields.get("role", "client"),  # a transport that tells is the client's
            session=fields.get("session", ""),
            fields=about,
        )
        self._room -= _size_of(entry)
        if self._dropped or self._room < 0 or len(self._entries) >= self._events:
            self._dropped += 1
        else:
            self._entries.append(entry)

    def recording(self) -> Recording:
        """Return what has been recorded so far."""
        return Recording(tuple(self._entries), self._dropped)


def _size_of(entry: Entry) -> int:
    message = entry.message
    if message is None:
        return 0
    try:
        return len(encode(message))
    except Unencodable:
        return 0
