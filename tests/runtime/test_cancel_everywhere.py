"""Cancelled at any step whatever, a session leaves nothing behind."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.client import Client, connect_memory
from mcp_trio.errors import PeerError, SessionLost
from mcp_trio.limits import Deadline, Limits
from mcp_trio.runtime.context import Context  # noqa: TC001 - read from signatures
from mcp_trio.runtime.session import Session
from mcp_trio.server import Server
from mcp_trio.server.serve import serve_transport
from tests.peers import BATCHING, Endpoint, RawPeer, ask, raw_pair, request, shake_hands, transports
from tests.runtime.recording import Recording, assert_lawful

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_trio.runtime.context import HandlerContext, Push

pytestmark = pytest.mark.usefixtures("quiet")

TYPED = pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])


class Bomb(trio.abc.Instrument):
    """Cancels a scope before the k-th step of any task."""

    def __init__(self, k: int) -> None:
        self.k, self.steps = k, 0
        self.scope: trio.CancelScope | None = None

    def aim(self) -> trio.CancelScope:
        """Return a scope to be cancelled, which is entered at once."""
        self.scope = trio.CancelScope()
        return self.scope

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.steps += 1
            if self.steps == self.k:
                self.scope.cancel(reason="the bomb")


def cancel_everywhere(
    scenario: Callable[..., Awaitable[object]],
    check: Callable[[], object],
    *,
    aims: bool = False,
) -> int:
    """Run *scenario* again and again, cancelled one step later each time, until it gets through.

    One that *aims* takes the bomb and says which part of it is cancelled. After each run *check*
    is called, and no task of it is left. Returns how many runs there were.
    """
    k = 0
    while True:
        k += 1
        bomb = Bomb(k)

        async def main(bomb: Bomb = bomb) -> None:
            tasks = trio.lowlevel.current_statistics().tasks_living
            with trio.fail_after(1_000):
                if aims:
                    await scenario(bomb)
                else:
                    with bomb.aim():
                        await scenario()
            bomb.scope = None
            assert trio.lowlevel.current_statistics().tasks_living == tasks

        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(main, clock=clock, instruments=[bomb])
        check()
        if bomb.steps < k:
            return k


# ---------------------------------------------------------------- scenarios


class Pair:
    """The sessions of one run, both owned by the nursery that is cancelled."""

    def __init__(self, server: Endpoint, client: Endpoint | None = None) -> None:
        self._endpoints = server, client or Endpoint()
        self.recording = Recording()

    @asynccontextmanager
    async def open(self, *, typed: bool) -> AsyncIterator[tuple[Session, Session]]:
        """Run both; closing the client ends them."""
        self.build(typed=typed)
        async with trio.open_nursery() as nursery:
            for session in (self.server, self.client):
                nursery.start_soon(session.run)  # noqa: ASYNC113 - the handshake waits for both
            await shake_hands(self.client)
            yield self.client, self.server
            self.client.close()

    def build(self, *, typed: bool) -> None:
        """Make new sessions, and a new recording of them."""
        self.recording = Recording()
        ours, theirs = transports(typed=typed)
        server, client = self._endpoints
        self.server = Session(
            "server", server, self.recording.tap(theirs, "server"), tracer=self.recording
        )
        self.client = Session(
            "client", client, self.recording.tap(ours, "client"), tracer=self.recording
        )

    def check(self) -> None:
        """Both sides have kept the laws, and have ended."""
        assert self.client.error is not None
        assert self.server.error is not None
        assert not self.client._enclosed
        assert not self.server._enclosed
        assert_lawful(self.recording, self.client, self.server)


async def work(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
    """Progress, reverse calls one after the other and at once, and clean-up that takes time."""
    await ctx.progress(1)
    await ask(ctx, params={"origin": ctx.request_id})
    try:
        async with trio.open_nursery() as nursery:
            for _count in range(2):
                nursery.start_soon(ask, ctx, "ask", {"origin": ctx.request_id})
        with trio.CancelScope(shield=True):
            await ask(ctx, params={"origin": ctx.request_id})
        ctx.progress_nowait(2)
        await ctx.notify("x/nearly")
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
    return {}


async def think(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep(1)
    return {}


@TYPED
def test_a_call_with_progress_and_reverse_calls(*, typed: bool) -> None:
    """Of both sides together."""
    pair = Pair(Endpoint({"work": work}), Endpoint({"ask": think}))

    async def scenario() -> None:
        async with pair.open(typed=typed) as (client, _):
            await client.call("work", on_progress=print, deadline=Deadline())
            with trio.move_on_after(0.5):
                await client.call("work")

    assert cancel_everywhere(scenario, pair.check) > 40


@TYPED
@pytest.mark.parametrize("role", ["client", "server"])
def test_one_side_alone_is_cancelled(*, typed: bool, role: str) -> None:
    """The other one ends by itself, and nobody waits for ever."""
    pair = Pair(Endpoint({"work": work}), Endpoint({"ask": think}))

    async def scenario(bomb: Bomb) -> None:
        pair.build(typed=typed)
        sides = [pair.client, pair.server]
        chosen = sides.pop(role == "server")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sides[0].run)
            nursery.start_soon(use, pair.client)
            with bomb.aim():
                await chosen.run()

    async def use(client: Session) -> None:
        try:
            await shake_hands(client)
            await client.call("work", on_progress=print)
        except (SessionLost, PeerError):
            return
        client.close()

    assert cancel_everywhere(scenario, pair.check, aims=True) > 20


@TYPED
def test_connecting_and_closing(*, typed: bool) -> None:
    """Through the whole house: a server, a client, a tool, a question."""
    server, client = Server("s"), Client("c", version="1")

    @server.tool
    async def sure(ctx: Context) -> str:
        """Ask, with everything that goes with it."""
        await ctx.log("info", "now")
        await ctx.progress(1)
        return str(await ctx.elicit({"type": "object", "properties": {}}, "sure?"))

    @client.elicitation
    async def dialog(_: Any, __: Any) -> dict[str, Any]:
        await trio.sleep(0.1)
        return {}

    async def scenario() -> None:
        async with connect_memory(server, client=client, typed=typed) as session:
            assert [tool.name async for tool in session.list_tools()] == ["sure"]
            result = await session.call_tool("sure", progress=print)
            assert result.is_error is not True
            await session.aclose()

    def check() -> None:
        assert server.sessions() == ()
        assert server.admission.in_flight == 0
        assert server._running == 0

    assert cancel_everywhere(scenario, check) > 30


def test_a_batch() -> None:
    """Served in part, or not at all, or done."""
    sessions: list[Session] = []
    written: list[Any] = []

    async def nap(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(params["seconds"])
        return params

    async def scenario() -> None:
        written.clear()
        transport, peer = raw_pair()
        session = Session("server", Endpoint({"nap": nap}), transport)
        sessions[:] = [session]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run)
            await converse(peer)
            session.close()

    async def converse(peer: RawPeer) -> None:
        await peer.request(0, "initialize", {"protocolVersion": BATCHING})
        await peer.answer_to(0)
        await peer.notify("notifications/initialized")
        await peer.send(
            [
                request(1, "nap", {"seconds": 1}),
                request(2, "ping"),
                request(3, "nap", {"seconds": 2}),
            ]
        )
        written.append(await peer.next())

    def check() -> None:
        assert sessions[0].calls() == ()
        for answers in written:
            assert sorted(answer["id"] for answer in answers) == [1, 2, 3]

    assert cancel_everywhere(scenario, check) > 10
    assert written


@TYPED
def test_detached_work(*, typed: bool) -> None:
    """In the nursery of the program, which is cancelled as a whole."""
    ended: list[str] = []
    begun: list[str] = []

    async def later(push: Push) -> None:
        begun.append("later")
        try:
            await trio.sleep(1)
            await push.notify("x/later")
            await trio.sleep_forever()
        finally:
            ended.append("later")

    nurseries: list[trio.Nursery] = []

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        ctx.detach(nurseries[0], later)
        return {}

    pair = Pair(Endpoint({"t": handler}))

    async def scenario() -> None:
        begun.clear()
        ended.clear()
        async with trio.open_nursery() as nursery:
            nurseries[:] = [nursery]
            async with pair.open(typed=typed) as (client, _):
                await client.call("t")
                await trio.sleep(2)

    def check() -> None:
        assert begun == ended
        pair.check()

    assert cancel_everywhere(scenario, check) > 10
    assert begun


def test_serving_a_transport() -> None:
    """Its owner is cancelled while requests are served, and while it ends."""
    server = Server("s", limits=Limits(eof_grace=1, drain=1))
    ends: list[RawPeer] = []

    @server.tool
    async def nap(seconds: float) -> str:
        """Take a while."""
        await trio.sleep(seconds)
        return "slept"

    async def scenario() -> None:
        transport, peer = raw_pair(capacity=300)
        ends[:] = [peer]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_transport, server, transport)
            hello = {
                "protocolVersion": BATCHING,
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            }
            await peer.request(0, "initialize", hello)
            await peer.notify("notifications/initialized")
            for id_, seconds in ((1, 0.5), (2, 60)):
                params = {"name": "nap", "arguments": {"seconds": seconds}}
                await peer.request(id_, "tools/call", params)
            await peer.answer_to(0)
            await peer.answer_to(1)
            await peer.hang_up()

    def check() -> None:
        assert server.sessions() == ()
        assert server.admission.in_flight == 0
        assert server._running == 0

    assert cancel_everywhere(scenario, check) > 10
