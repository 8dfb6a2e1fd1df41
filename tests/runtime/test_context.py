"""What a handler holds: progress, notifications, detached work, roots."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.client import Client, connect_memory
from mcp_trio.errors import InvalidMessage, OriginSettled, SessionClosed, SessionLost
from mcp_trio.limits import Limits
from mcp_trio.runtime.context import Context  # noqa: TC001 - read from signatures
from mcp_trio.server import Server
from tests.client.scripted import Outcome
from tests.peers import CANCELLED, NEWEST, OLDEST, PROGRESS, Endpoint, against_raw, joined, request

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext, Push

TOKEN = {"_meta": {"progressToken": "p"}}


async def progress_of(fn: Any, *, version: str = NEWEST, params: Any = TOKEN) -> list[Any]:
    """The params of all progress that a handler sends before its answer, and of none after."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        await fn(ctx)
        return {}

    async with against_raw(Endpoint({"t": handler}), version=version) as (_, peer):
        await peer.request(1, "t", params)
        *reports, answer = await peer.everything()
        assert answer["id"] == 1
        assert {report["method"] for report in reports} <= {PROGRESS}
    return [report["params"] for report in reports]


# ---------------------------------------------------------------- progress


@pytest.mark.spec("P-1", "P-3")
async def test_progress_carries_the_token_as_it_was_sent() -> None:
    """And what there is of total and message."""

    async def report(ctx: HandlerContext) -> None:
        await ctx.progress(0.5, 2, "half")
        await ctx.progress(1)

    assert await progress_of(report) == [
        {"progressToken": "p", "progress": 0.5, "total": 2, "message": "half"},
        {"progressToken": "p", "progress": 1},
    ]


async def test_a_revision_without_progress_messages_gets_none() -> None:
    """The member came with 2025-03-26."""

    async def report(ctx: HandlerContext) -> None:
        await ctx.progress(1, message="half")

    assert await progress_of(report, version=OLDEST) == [{"progressToken": "p", "progress": 1}]


@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": True}, 7])
async def test_nobody_is_told_who_did_not_ask(meta: Any) -> None:
    """Or whose token is none."""

    async def report(ctx: HandlerContext) -> None:
        await ctx.progress(1)
        ctx.progress_nowait(2)

    assert await progress_of(report, params={"_meta": meta}) == []


@pytest.mark.spec("P-2")
async def test_progress_that_does_not_increase_is_not_sent() -> None:
    """Whichever way it is reported; a number that JSON cannot hold is an error."""

    async def report(ctx: HandlerContext) -> None:
        with pytest.raises(InvalidMessage):
            await ctx.progress(math.nan)
        for value in (1, 1, 0.5, 2, math.nan, 1.5):
            await ctx.progress(value)
        ctx.progress_nowait(2)
        ctx.progress_nowait(3)

    assert [params["progress"] for params in await progress_of(report)] == [1, 2, 3]


@pytest.mark.spec("P-4", "P-5")
async def test_progress_after_the_answer_or_a_cancel_is_dropped(nursery: trio.Nursery) -> None:
    """Quietly: whoever reports it may not know."""
    kept: list[HandlerContext] = []

    async def handler(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        kept.append(ctx)
        if params.get("hold"):
            with trio.CancelScope(shield=True):
                await trio.lowlevel.checkpoint()
                await ctx.progress(5)
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(1, "t", TOKEN)
        await peer.answer_to(1)
        await kept[0].progress(1)
        kept[0].progress_nowait(2)
        assert await peer.everything() == []

        await peer.send(
            request(2, "t", {**TOKEN, "hold": True}),
            {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": 2}},
        )
        assert await peer.everything() == []
        assert session.calls() == ()


async def test_progress_waits_for_room_and_loses_nothing(nursery: trio.Nursery) -> None:
    """A slow reader blocks its own handler, and nobody else's."""
    far = 0

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        nonlocal far
        for n in range(1, 201):
            await ctx.progress(n)
            far = n
        return {}

    limits = Limits(outbox_bytes=500)
    async with against_raw(Endpoint({"t": handler}), limits=limits, capacity=500) as (_, peer):
        await peer.request(1, "t", TOKEN)
        await trio.testing.wait_all_tasks_blocked()
        assert 0 < far < 30
        *reports, answer = await peer.everything()

        assert [report["params"]["progress"] for report in reports] == list(range(1, 201))
        assert answer["id"] == 1


async def test_a_report_that_waited_is_not_replaced_by_one_that_does_not(
    nursery: trio.Nursery,
) -> None:
    """Only reports that do not wait give way, to each other."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        for n in range(0, 90, 3):
            await ctx.progress(n)
            ctx.progress_nowait(n + 1)
            ctx.progress_nowait(n + 2)
        return {}

    async with against_raw(Endpoint({"t": handler}), capacity=10) as (_, peer):
        await peer.request(1, "t", TOKEN)
        *reports, _ = await peer.everything()
        values = [report["params"]["progress"] for report in reports]

        assert set(range(0, 90, 3)) < set(values)
        assert values == sorted(set(values))


async def test_progress_that_does_not_wait_coalesces(nursery: trio.Nursery) -> None:
    """A report that is still unsent gives way to the next; the last one is always told."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        for n in range(1, 1_001):
            ctx.progress_nowait(n)
        return {}

    limits = Limits(outbox_bytes=500)
    async with against_raw(Endpoint({"t": handler}), limits=limits, capacity=200) as (_, peer):
        await peer.request(1, "t", TOKEN)
        *reports, answer = await peer.everything()

        assert len(reports) < 20
        assert reports[-1]["params"]["progress"] == 1_000
        assert answer["id"] == 1


@pytest.mark.spec("P-2", "P-5")
async def test_reports_that_waited_for_room_are_looked_at_again(nursery: trio.Nursery) -> None:
    """Several tasks may wait at once: what was overtaken, or comes too late, is not sent."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        ctx.serving.session.notify_nowait("x/fill", {"text": "x" * 2_000})
        async with trio.open_nursery() as inner:
            for n in range(20):
                inner.start_soon(ctx.progress, n)
        for n in range(20, 40):
            nursery.start_soon(ctx.progress, n)
        return {}

    limits = Limits(outbox_bytes=500)
    async with against_raw(Endpoint({"t": handler}), limits=limits, capacity=500) as (_, peer):
        await peer.request(1, "t", TOKEN)
        _, *reports, answer = await peer.everything()
        values = [report["params"]["progress"] for report in reports]

        assert values
        assert values == sorted(set(values))
        assert answer["id"] == 1


async def test_a_report_that_waits_for_room_is_dropped_when_its_request_is_cancelled(
    nursery: trio.Nursery,
) -> None:
    """Though a shield lets it wait on."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        ctx.serving.session.notify_nowait("x/fill", {"text": "x" * 2_000})
        with trio.CancelScope(shield=True):
            await ctx.progress(1)
        return {}

    limits = Limits(outbox_bytes=500)
    async with against_raw(Endpoint({"t": handler}), limits=limits, capacity=500) as (_, peer):
        await peer.request(1, "t", TOKEN)
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify(CANCELLED, {"requestId": 1})

        assert [message["method"] for message in await peer.everything()] == ["x/fill"]


async def test_a_handler_that_only_reports_progress_can_be_cancelled(
    nursery: trio.Nursery,
) -> None:
    """It yields at least every millisecond, by the clock: other sessions are served meanwhile."""
    laps = 0

    async def busy(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        nonlocal laps
        until = time.perf_counter() + 2
        while time.perf_counter() < until:
            await ctx.progress(0)  # no token: nothing is sent, and nothing waits
            laps += 1
        raise AssertionError("it was never cancelled")

    async def echo(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        return params

    async with (
        joined(Endpoint({"t": busy})) as (client, server),
        joined(Endpoint({"echo": echo})) as (other, _),
    ):
        call = Outcome(nursery, lambda: client.call("t"))
        await trio.sleep(0.01)
        assert laps > 0
        began = time.perf_counter()
        await other.call("echo")
        call.scope.cancel()
        while server.statistics().in_flight:  # noqa: ASYNC110 - it is the yielding that is tried
            await trio.lowlevel.checkpoint()

        assert time.perf_counter() - began < 0.5


# ---------------------------------------------------------------- notifications


async def test_a_notification_waits_for_room(nursery: trio.Nursery) -> None:
    """In order, and nothing is lost."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        for n in range(100):
            await ctx.notify("x/n", {"n": n})
        return {}

    limits = Limits(outbox_bytes=500)
    async with against_raw(Endpoint({"t": handler}), limits=limits, capacity=500) as (
        session,
        peer,
    ):
        await peer.request(1, "t")
        await trio.testing.wait_all_tasks_blocked()
        assert session.statistics().sent < 50
        *told, _ = await peer.everything()

        assert [message["params"]["n"] for message in told] == list(range(100))


async def test_an_answer_waits_for_room_too(nursery: trio.Nursery) -> None:
    """The request is in flight until its answer is committed; its sender may still cancel it."""

    async def handler(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        return {"text": "x" * 400}

    limits = Limits(outbox_bytes=500)
    async with against_raw(Endpoint({"t": handler}), limits=limits, capacity=100) as (
        session,
        peer,
    ):
        await peer.send(*(request(n, "t") for n in range(10)))
        await trio.testing.wait_all_tasks_blocked()
        waiting = [row.id for row in session.calls()]
        assert len(waiting) > 5
        await peer.notify(CANCELLED, {"requestId": waiting[0]})
        answers = await peer.everything()

        assert {answer["id"] for answer in answers} == set(range(10)) - {waiting[0]}


async def test_after_the_end_of_input_a_handler_may_still_speak(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The peer that sends no more may read on: progress must not cost a request its answer."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        for n in range(3):
            await trio.sleep(0.1)
            await ctx.progress(n)
        await ctx.notify("x/done")
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(1, "t", TOKEN)
        peer.stream._out.closed = True  # half of it: we go on reading
        peer.stream._out.lot.unpark_all()
        messages = [await peer.next() for _ in range(5)]
        await session.wait_ended()

        assert [m.get("method", "answer") for m in messages] == [PROGRESS] * 3 + [
            "x/done",
            "answer",
        ]
        assert messages[-1]["result"] == {}
        with pytest.raises(SessionLost):
            session.notify_nowait("x/late")


# ---------------------------------------------------------------- detached work


async def test_detached_work_outlives_its_request_and_ends_with_the_session(
    nursery: trio.Nursery,
) -> None:
    """It can notify, and it can ask nothing."""
    pushes: list[Push] = []
    ended = trio.Event()

    async def later(push: Push, text: str) -> None:
        pushes.append(push)
        try:
            await trio.lowlevel.checkpoint()
            await push.notify("x/later", {"text": text})
            await trio.sleep_forever()
        finally:
            ended.set()

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        ctx.detach(nursery, later, "hello")
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(1, "t")
        await peer.answer_to(1)
        assert (await peer.next_of("x/later"))["params"] == {"text": "hello"}
        assert session.calls() == ()
        assert not hasattr(pushes[0], "call")
        await session.aclose()
        await ended.wait()
        with pytest.raises(SessionClosed):
            await pushes[0].notify("x/too late")


async def test_work_that_is_detached_as_the_session_ends_is_cancelled_at_once(
    nursery: trio.Nursery,
) -> None:
    """It never gets beyond its first checkpoint."""
    reached: list[str] = []

    async def later(_: Push) -> None:
        reached.append("begins")
        await trio.lowlevel.checkpoint()
        reached.append("goes on")

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        session: Any = ctx.serving.session
        session.close()
        ctx.detach(nursery, later)
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(1, "t")
        await session.wait_ended()
        await trio.testing.wait_all_tasks_blocked()

    assert reached == ["begins"]


async def test_a_reverse_call_from_an_ended_request_is_never_sent() -> None:
    """OriginSettled, also while the handler of a cancelled one unwinds."""
    kept: list[HandlerContext] = []
    unwinding: list[type[BaseException]] = []

    async def handler(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        kept.append(ctx)
        try:
            await trio.sleep(math.inf if params.get("hold") else 0)
        finally:
            if params.get("hold"):
                try:
                    with trio.CancelScope(shield=True):
                        await ctx.serving.session.call("ask", origin=ctx.serving)
                except OriginSettled as exc:
                    unwinding.append(type(exc))
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(1, "t")
        await peer.answer_to(1)
        with pytest.raises(OriginSettled, match=r"ask comes from request 1 \(t\)"):
            await session.call("ask", origin=kept[0].serving)
        await peer.request(2, "t", {"hold": True})
        await trio.testing.wait_all_tasks_blocked()
        await peer.notify(CANCELLED, {"requestId": 2})

        assert await peer.everything() == []
        assert unwinding == [OriginSettled]


# ---------------------------------------------------------------- roots


async def test_roots_are_fetched_once_and_kept_up_to_date() -> None:
    """`ctx.roots` is None before; a change is fetched again when the client tells of it."""
    server = Server("s")
    seen: list[Any] = []
    fetched = 0

    @server.tool
    async def look(ctx: Context) -> str:
        """Look at the roots, twice."""
        seen.append(ctx.roots)
        seen.append([root.uri for root in await ctx.list_roots()])
        seen.append([root.uri for root in await ctx.list_roots()])
        return "ok"

    client = Client("c", version="1")
    roots = ["file:///a"]

    @client.roots
    async def list_roots(_: Any) -> list[str]:
        nonlocal fetched
        fetched += 1
        return roots

    async with connect_memory(server, client=client) as session:
        await session.call_tool("look")
        assert seen == [None, ["file:///a"], ["file:///a"]]
        assert fetched == 1
        roots[:] = ["file:///b"]
        await session.notify("notifications/roots/list_changed")
        await trio.testing.wait_all_tasks_blocked()
        assert fetched == 2
        seen.clear()
        await session.call_tool("look")

        assert seen[1:] == [["file:///b"]] * 2
        assert fetched == 2


async def test_roots_that_change_while_they_are_fetched_are_not_kept() -> None:
    """What was on its way when the client told of a change may be what was before it."""
    server = Server("s")
    seen: list[list[str]] = []

    @server.tool
    async def look(ctx: Context) -> str:
        """Look at the roots."""
        seen.append([root.uri for root in await ctx.list_roots()])
        return "ok"

    client = Client("c", version="1")
    roots = ["file:///a"]
    changing = True

    @client.roots
    async def list_roots(_: Any) -> list[str]:
        nonlocal changing
        found = list(roots)
        if changing:
            changing = False
            roots[:] = ["file:///b"]
            await session.notify("notifications/roots/list_changed")
        return found

    async with connect_memory(server, client=client) as session:
        await session.call_tool("look")
        await trio.testing.wait_all_tasks_blocked()
        await session.call_tool("look")

    assert seen == [["file:///a"], ["file:///b"]]
