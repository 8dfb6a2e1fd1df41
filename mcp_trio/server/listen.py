"""Listening: what changes, on the response to a request that stays open.

Source: 2026-07-28 basic/patterns/subscriptions. The acknowledgement comes first and says what
is honoured; then only that is sent, each kind at most once in a short time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.wire.envelope import ACKNOWLEDGED, SUBSCRIPTION_ID

if TYPE_CHECKING:
    from collections.abc import Container

    from mcp_trio.runtime.calls import Serving
    from mcp_trio.types import SubscriptionFilter

__all__ = ["Listener", "Listeners"]

_UPDATED: Final = "notifications/resources/updated"


class Listener:
    """One open subscription: what it wants to hear, and what it has not been told yet."""

    __slots__ = ("_ended", "_lists", "_pending", "_uris", "_wake")

    def __init__(self, wanted: SubscriptionFilter, offered: Container[str]) -> None:
        asked = {
            "tools": wanted.tools_list_changed,
            "prompts": wanted.prompts_list_changed,
            "resources": wanted.resources_list_changed,
        }
        kinds = [kind for kind, yes in asked.items() if yes and kind in offered]
        self._lists = {f"notifications/{kind}/list_changed": f"{kind}ListChanged" for kind in kinds}
        uris = wanted.resource_subscriptions or ()
        self._uris = dict.fromkeys(uris) if "resources" in offered else {}
        self._pending: dict[tuple[str, str], None] = {}
        self._wake = trio.Event()
        self._ended = False

    @property
    def honoured(self) -> dict[str, Any]:
        """What it will be told of, as a filter."""
        kinds: dict[str, Any] = dict.fromkeys(self._lists.values(), True)
        return {**kinds, "resourceSubscriptions": list(self._uris)} if self._uris else kinds

    def put(self, method: str, uri: str = "") -> None:
        """Tell it of a change soon, if it wants to hear of it."""
        if method in self._lists or (method == _UPDATED and uri in self._uris):
            self._pending[method, uri] = None
            self._wake.set()

    def end(self) -> None:
        """The server stops: let the subscription come to its regular end."""
        self._ended = True
        self._wake.set()

    async def run(self, serving: Serving) -> dict[str, Any]:
        """Acknowledge, and tell until `end` or a cancellation; return the result. A checkpoint."""
        session, route = serving.session, serving.route
        about = {SUBSCRIPTION_ID: serving.id}  # of the same JSON type as the request's id
        session.notify_nowait(
            ACKNOWLEDGED, {"notifications": self.honoured, "_meta": about}, route=route
        )
        while True:
            await self._wake.wait()
            if not self._ended:
                await trio.sleep(session.limits.debounce)
            self._wake = trio.Event()
            pending, self._pending = self._pending, {}
            for method, uri in pending:
                await route.wait_room()
                params = {"uri": uri, "_meta": about} if uri else {"_meta": about}
                session.notify_nowait(method, params, route=route)
            if self._ended:
                return {"_meta": about}


class Listeners:
    """The open subscriptions of one server."""

    def __init__(self, most_uris: int) -> None:
        self._most_uris = most_uris
        self._open: set[Listener] = set()

    def put(self, method: str, uri: str = "") -> None:
        """Tell everyone who wants to hear of it."""
        for listener in self._open:
            listener.put(method, uri)

    def end(self) -> None:
        """The server stops."""
        for listener in self._open:
            listener.end()

    async def serve(
        self, serving: Serving, wanted: SubscriptionFilter, offered: Container[str]
    ) -> dict[str, Any]:
        """Serve one subscription to its end. A checkpoint.

        Raises:
            Refusal: it watches too many resources.
        """
        if len(wanted.resource_subscriptions or ()) > self._most_uris:
            reason = f"a subscription watches at most {self._most_uris} resources"
            raise Refusal(ErrorCode.INVALID_PARAMS, reason)
        listener = Listener(wanted, offered)
        self._open.add(listener)
        try:
            return await listener.run(serving)
        finally:
            self._open.discard(listener)
