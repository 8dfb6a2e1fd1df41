"""A request served in its reader's own task obeys the session as one in a task of the session."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.errors import OriginSettled, SessionLost
from mcp_trio.runtime.isolation import in_own_context
from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result
from tests.peers import CANCELLED, Endpoint, ask, joined

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Log:
    """A route that keeps what is sent on it."""

    full = False

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.skipped = 0

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:  # noqa: ARG002 - a Route
        self.sent.append(message)
        return 0

    def unsend(self, ticket: int) -> bool:  # noqa: ARG002 - a Route
        return False

    def skip(self) -> None:
        self.skipped += 1

    def hang_up(self) -> bool:
        return False

    async def wait_room(self) -> None:
        await trio.lowlevel.checkpoint()


async def echo(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
    return params


async def test_it_is_answered_before_serve_returns_which_is_a_checkpoint() -> None:
    async with joined(Endpoint({"echo": echo})) as (_, server):
        route = Log()
        for id_, method in ((7, "echo"), (8, "ping"), (9, "unknown")):
            with trio.testing.assert_checkpoints():
                await server.serve(Request(id_, method, {"a": 1}), route)
        assert route.sent[:2] == [Result(7, {"a": 1}), Result(8, {})]
        assert type(route.sent[2]) is Failure


async def test_what_a_handler_sets_ends_with_it() -> None:
    seen: list[str] = []

    async def sets(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        seen.append(WHO.get())
        WHO.set("the handler")
        await trio.lowlevel.checkpoint()
        seen.append(WHO.get())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            nursery.start_soon(look)
        with trio.move_on_after(0):
            await trio.sleep_forever()
        seen.append(WHO.get())
        return {}

    async def look() -> None:
        seen.append(WHO.get())

    WHO.set("the reader")
    async with joined(Endpoint({"sets": sets})) as (_, server):
        await server.serve(Request(1, "sets"), Log())
    assert seen == ["the reader", *["the handler"] * 4]
    assert WHO.get() == "the reader"


async def test_exceptions_and_cancellation_pass_both_ways() -> None:
    async def raises() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError("mine")

    async def catches() -> str:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            WHO.set("cleaned up")
            raise
        return "never"

    with pytest.raises(ValueError, match="mine"):
        await in_own_context(raises())
    with trio.move_on_after(0) as scope:
        await in_own_context(catches())
    assert scope.cancelled_caught
    assert WHO.get() == "nobody"


@pytest.mark.parametrize("shielded", [False, True])
async def test_the_end_of_the_session_cancels_it_and_waits_for_it(
    *, shielded: bool, nursery: trio.Nursery
) -> None:
    unwinding, may_end = trio.Event(), trio.Event()

    async def hold(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            unwinding.set()
            if shielded:
                with trio.CancelScope(shield=True):
                    await may_end.wait()
        return {}

    route = Log()
    async with joined(Endpoint({"hold": hold})) as (_, server):
        nursery.start_soon(server.serve, Request(1, "hold"), route)
        await trio.testing.wait_all_tasks_blocked()
        server.close()
        await unwinding.wait()
        await trio.testing.wait_all_tasks_blocked()
        if shielded:
            with trio.move_on_after(0) as impatience:
                await server.wait_ended()
            assert impatience.cancelled_caught
            may_end.set()
        await server.wait_ended()
        assert [type(each) for each in route.sent] == [Failure]


async def test_the_peer_cancels_it_with_its_reverse_calls(nursery: trio.Nursery) -> None:
    ended: list[type] = []

    async def asks(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        try:
            with trio.CancelScope(shield=True):
                await ask(ctx)
        except (OriginSettled, SessionLost) as exc:
            ended.append(type(exc))
        return {}

    async def never(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep_forever()
        return {}

    route = Log()
    async with joined(Endpoint({"asks": asks, "hold": never})) as (_, server):
        nursery.start_soon(server.serve, Request(1, "hold"), route)
        nursery.start_soon(server.serve, Request(2, "asks"), route)
        await trio.testing.wait_all_tasks_blocked()
        (question,) = [each for each in route.sent if type(each) is Request]
        for id_ in (1, 2):
            server.deliver(Notification(CANCELLED, {"requestId": id_}), route)
        server.deliver(Result(question.id, {}), route)  # its shield is the handler's own affair
        await trio.testing.wait_all_tasks_blocked()
        assert server.calls() == ()
        assert route.skipped == 2
    assert ended == []
