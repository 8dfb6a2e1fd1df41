"""Pings on an idle connection, and its end when nobody answers them."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Final

import trio

from mcp_trio.errors import PeerError, SessionLost

if TYPE_CHECKING:
    from .session import Session

__all__ = ["run_keep_alive"]

_log: Final = logging.getLogger("mcp_trio.runtime")


async def run_keep_alive(session: Session, interval: float) -> None:  # noqa: ASYNC910 - for ever, but for a lost session
    """Ping whenever nothing came in for *interval* seconds; run it in the session's nursery.

    When a ping is not answered, and nothing else comes in, within *interval*, the session
    ends: each waiting call raises `SessionLost`. Source: 2025-11-25 basic/utilities/ping.
    """
    heard = session.statistics().received
    while session.error is None:
        await trio.sleep(interval)
        idle = session.statistics().received == heard
        if idle and not await _is_alive(session, interval) and session.error is None:
            reason = f"the peer has not answered a ping within {interval:g} s"
            _log.warning("%s: %s", session.label or "a session", reason)
            session.lose(SessionLost(reason))
            session.close()
        heard = session.statistics().received


async def _is_alive(session: Session, patience: float) -> bool:
    """Ping; anything that comes in meanwhile is a sign of life too."""
    heard = session.statistics().received
    with trio.move_on_after(patience), contextlib.suppress(PeerError, SessionLost):
        await session.call("ping")
    return session.statistics().received != heard  # noqa: ASYNC910 - a ping has a checkpoint in every case
