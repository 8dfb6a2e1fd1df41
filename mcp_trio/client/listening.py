"""Listening to a server: what changes there, while a block runs, on every revision.

Where requests carry an envelope a subscription is a request that stays open
(2026-07-28 basic/patterns/subscriptions); before, resources were subscribed to one by one and
lists told of their changes unasked.
"""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, final

import trio
from attrs import frozen

from mcp_trio.errors import McpError
from mcp_trio.runtime.service import run_beside
from mcp_trio.wire.envelope import ACKNOWLEDGED, LISTEN, SUBSCRIPTION_ID

from .registry import PROMPTS_CHANGED, RESOURCE_UPDATED, RESOURCES_CHANGED, TOOLS_CHANGED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from mcp_trio.runtime.session import Session
    from mcp_trio.wire.jsonrpc import Notification

    from .calls import ClientSession
    from .peer import ServerPeer

__all__ = ["Change", "Listening", "listen"]

_KINDS: Final = {
    TOOLS_CHANGED: "tools",
    PROMPTS_CHANGED: "prompts",
    RESOURCES_CHANGED: "resources",
    RESOURCE_UPDATED: "resource",
}


@final
@frozen
class Change:
    """Something has changed: ``kind`` is a list (``"tools"``), or ``"resource"`` with its *uri*."""

    kind: str
    uri: str | None = None


@final
class Listening:
    """The changes of ``session.listen``: ``async for change in listening``.

    Holds each change once until it is read, however often it happens; of more than
    ``limits.notifications`` the oldest are dropped, and counted. Ends when the server ends the
    subscription, regularly or not.

    Attributes:
        honoured: what the server said that it will tell; None on revisions that do not say so.
        uris: the resources it watches.
    """

    __slots__ = (
        "_ended",
        "_id",
        "_kinds",
        "_pending",
        "_readers",
        "_session",
        "begun",
        "honoured",
        "uris",
    )

    def __init__(self, session: Session, kinds: Sequence[str], uris: Sequence[str]) -> None:
        self._session = session
        self._kinds = frozenset(kinds)
        self.uris: Final = frozenset(uris)
        self._id: int | str | None = None
        self._pending: dict[Change, None] = {}
        self._readers = trio.lowlevel.ParkingLot()
        self._ended = False
        self.begun = trio.Event()
        self.honoured: dict[str, Any] | None = None

    def named(self, id_: int | str) -> None:
        """Its request has this id, by which its notifications are known."""
        self._id = id_

    def hear(self, message: Notification) -> None:
        """Take a notification, if it is one of this subscription's."""
        params = message.params or {}
        meta = params.get("_meta")
        about = meta.get(SUBSCRIPTION_ID) if type(meta) is dict else None
        if (type(about), about) != (type(self._id), self._id):
            return
        if message.method == ACKNOWLEDGED:
            honoured = params.get("notifications")
            self.honoured = honoured if type(honoured) is dict else {}
            self.begun.set()
            return
        kind = _KINDS.get(message.method)
        uri = params.get("uri") if kind == "resource" else None
        if kind is None or (kind != "resource" and kind not in self._kinds):
            return
        # Not held to the very URIs: a server may name what is below a watched resource.
        if kind == "resource" and (not self.uris or type(uri) is not str):
            return
        self._pending[Change(kind, uri)] = None
        if len(self._pending) > self._session.limits.notifications:
            del self._pending[next(iter(self._pending))]
            self._session.count_dropped()
        self._readers.unpark()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self.begun.set()
        self._readers.unpark_all()

    def __aiter__(self) -> Listening:
        return self

    async def __anext__(self) -> Change:
        await trio.lowlevel.checkpoint()
        while not self._pending:
            if self._ended:
                raise StopAsyncIteration
            await self._readers.park()
        change = next(iter(self._pending))
        del self._pending[change]
        return change


@asynccontextmanager
async def listen(
    session: ClientSession, peer: ServerPeer, kinds: Sequence[str], uris: Sequence[str]
) -> AsyncIterator[Listening]:
    """Do what ``session.listen`` says."""
    listening = Listening(session.session, kinds, uris)
    peer.listening.add(listening)
    try:
        if peer.envelope is None:
            async with _subscribed(session, peer, listening, uris):
                yield listening
        else:
            async with _open(session, peer, listening, kinds, uris):
                yield listening
    finally:
        peer.listening.discard(listening)
        listening.end()


@asynccontextmanager
async def _subscribed(
    session: ClientSession, peer: ServerPeer, listening: Listening, uris: Sequence[str]
) -> AsyncIterator[None]:
    """Subscribe to each resource; lists tell by themselves. Others who listen keep theirs."""
    subscribed: list[str] = []
    try:
        for uri in uris:
            await session.subscribe(uri)
            subscribed.append(uri)
        yield
    finally:
        drain = session.session.limits.drain
        with trio.move_on_after(drain, shield=True), suppress(McpError):
            others = [other.uris for other in peer.listening if other is not listening]
            for uri in subscribed:
                if not any(uri in each for each in others):
                    await session.unsubscribe(uri)


@asynccontextmanager
async def _open(
    session: ClientSession,
    peer: ServerPeer,
    listening: Listening,
    kinds: Sequence[str],
    uris: Sequence[str],
) -> AsyncIterator[None]:
    """Keep the request open beside the block; it has begun when the server says so."""
    wanted: dict[str, Any] = {f"{kind}ListChanged": True for kind in kinds}
    if uris:
        wanted["resourceSubscriptions"] = list(uris)
    scope = trio.CancelScope()
    failure: list[Exception] = []

    async def run(*, task_status: trio.TaskStatus[None]) -> None:  # noqa: ASYNC910 - a task of its own
        task_status.started()
        try:
            with scope:
                params = {"notifications": wanted, "_meta": dict(peer.envelope or {})}
                await session.session.call(LISTEN, params, on_open=listening.named)
        except Exception as exc:  # noqa: BLE001 - raised in the block's task, if it never began
            failure.append(exc)
        finally:
            listening.end()

    async with run_beside(run, scope.cancel):
        await listening.begun.wait()
        if failure and listening.honoured is None:
            raise failure[0]
        yield
