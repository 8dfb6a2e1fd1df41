"""Change notices to one client: what happens within a short time becomes one notice each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from mcp_trio.errors import SessionLost

if TYPE_CHECKING:
    from mcp_trio.runtime.session import Session

__all__ = ["ChangeNotices"]


class ChangeNotices:
    """The notices that wait to be sent on one session, at most one for each list or URI."""

    __slots__ = ("_pending", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._pending: dict[tuple[str, str], dict[str, Any] | None] = {}

    def put(self, method: str, uri: str = "") -> None:
        """Send *method* soon, once, however often it is put until then."""
        if self._session.error is not None or not self._session.operating:
            return
        if not self._pending:
            self._session.start_soon(self._flush)
        self._pending[method, uri] = {"uri": uri} if uri else None

    async def _flush(self) -> None:
        await trio.sleep(self._session.limits.debounce)
        pending, self._pending = self._pending, {}
        try:
            for (method, uri), params in pending.items():
                await self._session.route.wait_room()
                if not uri or uri in self._session.state.subscriptions:
                    self._session.notify_nowait(method, params)
        except SessionLost:
            return  # nobody is left to be told
