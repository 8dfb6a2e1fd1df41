"""Every public async function of the runtime is a checkpoint, in every case."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.client import Client, connect_memory
from mcp_trio.errors import (
    InvalidMessage,
    OriginSettled,
    PeerError,
    ProtocolViolation,
    SessionClosed,
    SessionLost,
)
from mcp_trio.limits import Deadline
from mcp_trio.runtime.admission import Admission, ThreadShare
from mcp_trio.runtime.context import Context, HandlerContext, Push
from mcp_trio.runtime.keepalive import run_keep_alive
from mcp_trio.runtime.session import Session
from mcp_trio.server import Server
from tests.peers import NEWEST, Endpoint, against_raw, joined, transports

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Cancel points that are full checkpoints only once a millisecond: a handler may call them in
#: a loop. `test_a_handler_that_only_reports_progress_can_be_cancelled` stands for them.
HOT = {"HandlerContext.progress"}

#: Run by the engine, or no more than what they are given to run.
EXEMPT = {"Context.once", "Context.send", "Session.answer", "Session.run"}

#: Shown to be checkpoints below.
SHOWN = {
    "Context.ask",
    "Context.call",
    "Context.elicit",
    "Context.elicit_url",
    "Context.elicitation_complete",
    "Context.list_roots",
    "Context.log",
    "Context.sample",
    "HandlerContext.notify",
    "Push.notify",
    "Session.aclose",
    "Session.call",
    "Session.serve",  # in test_serve_here
    "Session.wait_ended",
    "ThreadShare.acquire_on_behalf_of",
}


def test_every_public_async_function_is_listed() -> None:
    """A new one has to be shown to be a checkpoint, or to be named with a reason."""
    found = set()
    for kind in (Context, HandlerContext, Push, Session, ThreadShare):
        for base in kind.__mro__:
            if base.__module__.startswith("mcp_trio"):
                found |= {
                    f"{kind.__name__}.{name}"
                    for name, member in vars(base).items()
                    if inspect.iscoroutinefunction(member) and not name.startswith("_")
                    if base is kind or kind is Session
                }

    assert found == HOT | EXEMPT | SHOWN


async def echo(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
    return params


async def refuse(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
    raise ValueError


@pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])
async def test_a_call_is_a_checkpoint_however_it_ends(*, typed: bool) -> None:
    """Answered, refused, not sent at all."""
    kept: list[HandlerContext] = []

    async def keep(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        kept.append(ctx)
        return {}

    endpoint = Endpoint({"echo": echo, "refuse": refuse, "keep": keep})
    async with joined(endpoint, typed=typed) as (client, server):
        with trio.testing.assert_checkpoints():
            await client.call("echo")
        with trio.testing.assert_checkpoints():
            await client.call("echo", deadline=Deadline())
        with trio.testing.assert_checkpoints(), pytest.raises(PeerError):
            await client.call("refuse")
        with trio.testing.assert_checkpoints(), pytest.raises(InvalidMessage):
            await client.call("echo", {"bad": object()})
        await client.call("keep")
        with trio.testing.assert_checkpoints(), pytest.raises(OriginSettled):
            await server.call("ask", origin=kept[0].serving)
        with trio.testing.assert_checkpoints():
            await client.aclose()
        for wait in (client.aclose, client.wait_ended):
            with trio.testing.assert_checkpoints():
                await wait()
        with trio.testing.assert_checkpoints(), pytest.raises(SessionClosed):
            await client.call("echo")


async def test_a_call_before_the_handshake_is_a_checkpoint() -> None:
    """It is refused here and now."""
    ours, _ = transports(typed=True)
    session = Session("client", Endpoint(), ours)

    with trio.testing.assert_checkpoints(), pytest.raises(ProtocolViolation):
        await session.call("tools/list")


async def test_running_a_session_is_a_checkpoint() -> None:
    """Even one that was closed before."""
    ours, _ = transports(typed=True)
    session = Session("client", Endpoint(), ours)
    session.close()

    with trio.testing.assert_checkpoints():
        await session.run()


async def test_keep_alive_is_a_checkpoint(autojump_clock: trio.testing.MockClock) -> None:
    """Until its session has ended."""
    async with against_raw() as (session, peer):
        with trio.testing.assert_checkpoints():
            await run_keep_alive(session, 1)
        assert session.error is not None
        await peer.hang_up()


async def test_waiting_for_a_thread_is_a_checkpoint() -> None:
    """Though there is one at once."""
    share = ThreadShare(
        Admission(Session("client", Endpoint(), transports(typed=True)[0]).limits).threads, 1
    )

    with trio.testing.assert_checkpoints():
        await share.acquire_on_behalf_of("me")
    share.release_on_behalf_of("me")


async def test_notifying_is_a_checkpoint(nursery: trio.Nursery) -> None:
    """From a request and from detached work, also where the session has ended."""
    pushes: list[Push] = []

    async def later(push: Push) -> None:
        pushes.append(push)
        with trio.testing.assert_checkpoints():
            await push.notify("x/later")

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        with trio.testing.assert_checkpoints():
            await ctx.notify("x/now")
        with trio.testing.assert_checkpoints(), pytest.raises(InvalidMessage):
            await ctx.notify("x/now", {"bad": object()})
        ctx.detach(nursery, later)
        return {}

    async with joined(Endpoint({"t": handler})) as (client, _):
        await client.call("t")
        await trio.testing.wait_all_tasks_blocked()
    with trio.testing.assert_checkpoints(), pytest.raises(SessionLost):
        await pushes[0].notify("x/too late")


FORM: dict[str, Any] = {"type": "object", "properties": {}}
WAYS: dict[str, Callable[[Context], Awaitable[Any]]] = {
    "ask": lambda ctx: ctx.ask({}),
    "call": lambda ctx: ctx.call("ping"),
    "elicit": lambda ctx: ctx.elicit(FORM, "?"),
    "elicit_url": lambda ctx: ctx.elicit_url("https://example.org", "?"),
    "elicitation_complete": lambda ctx: ctx.elicitation_complete("e"),
    "list_roots": lambda ctx: ctx.list_roots(),
    "log": lambda ctx: ctx.log("info", 1),
    "sample": lambda ctx: ctx.sample("?", 1),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("able", [True, False], ids=["able", "unable"])
async def test_what_a_context_offers_is_a_checkpoint(way: str, *, able: bool) -> None:
    """Whether the client can do it or not, the first time and the second."""
    server = Server("s")
    client = Client("c", version="1", roots=["file:///a"] if able else None)
    if able:

        @client.elicitation(url=True)
        async def dialog(_: Any, question: Any) -> Any:
            return {} if question.mode == "form" else None

        @client.sampling
        async def think(_: Any, __: Any) -> str:
            return "hm"

    seen: list[str] = []

    @server.tool
    async def use(ctx: Context) -> str:
        """Use it twice."""
        for _ in range(2):
            with trio.testing.assert_checkpoints():
                try:
                    await WAYS[way](ctx)
                except Exception as exc:  # noqa: BLE001 - it may fail, but not without a checkpoint
                    seen.append(type(exc).__name__)
        return "ok"

    async with connect_memory(server, client=client) as session:
        assert session.revision.version == NEWEST
        result = await session.call_tool("use")

    assert result.is_error is not True, result
    assert result.content[0].text == "ok"  # type: ignore[union-attr]  # it is text
