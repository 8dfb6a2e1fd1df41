"""Change notices to one client: what happens within a short time becomes one notice each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from mcp_trio.errors import SessionLost

if TYPE_CHECKING:
    from mcp_trio.runtime.session import Session

__all__ = ["ChangeNotices"]


class ChangeNotices:
    """The notices that wait to be sent on one session, at most one for each list or URI.

    The session is named with each call and not kept: a server finds these by their session for
    as long as that lives, and what kept it would keep it for ever.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: dict[tuple[str, str], dict[str, Any] | None] = {}

    def put(self, session: Session, method: str, uri: str = "") -> None:
        """Send *method* on *session* soon, once, however often it is put until then."""
        if session.error is not None or not session.operating:
            return
        if not self._pending:
            session.start_soon(self._flush, session)
        self._pending[method, uri] = {"uri": uri} if uri else None

    async def _flush(self, session: Session) -> None:
        await trio.sleep(session.limits.debounce)
        pending, self._pending = self._pending, {}
        try:
            for (method, uri), params in pending.items():
                await session.route.wait_room()
                if not uri or uri in session.state.subscriptions:
                    session.notify_nowait(method, params)
        except SessionLost:
            return  # nobody is left to be told
