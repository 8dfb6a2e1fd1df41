"""Reported faults of other implementations, each kept away by a test on a session in memory."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.client import Client, connect_memory
from mcp_trio.errors import (
    DeadlineExceeded,
    ErrorCode,
    OriginSettled,
    SessionClosed,
    SessionLost,
)
from mcp_trio.limits import Deadline, Limits
from mcp_trio.runtime.context import Context  # noqa: TC001 - read from signatures
from mcp_trio.runtime.session import Session
from mcp_trio.server import Server
from tests.client.scripted import Outcome
from tests.peers import (
    CANCELLED,
    NEWEST,
    Endpoint,
    RawPeer,
    against_raw,
    ask,
    joined,
    notification,
    raw_pair,
    request,
    shake_hands,
    transports,
)
from tests.runtime.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.runtime.context import HandlerContext

TYPED = pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])


async def echo(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
    return params


async def hold(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep_forever()
    raise AssertionError


async def asking(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
    return await ask(ctx)


def cancel(id_: object, **more: Any) -> dict[str, Any]:
    return notification(CANCELLED, {"requestId": id_, **more})


# ---------------------------------------------------------------- 01


async def ask_one(ctx: HandlerContext) -> None:
    await ask(ctx)


async def ask_three(ctx: HandlerContext) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(ask, ctx)


async def ask_from_a_child(ctx: HandlerContext) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, ctx)
        await trio.sleep_forever()


async def ask_and_swallow(ctx: HandlerContext) -> None:
    try:
        await ask(ctx)
    except trio.Cancelled:  # noqa: ASYNC103 - a handler that does not know better
        await trio.lowlevel.cancel_shielded_checkpoint()


@pytest.mark.case("01")
@pytest.mark.spec("C-1", "C-5")
@pytest.mark.parametrize(
    ("handle", "asked"),
    [(ask_one, 1), (ask_three, 3), (ask_from_a_child, 1), (ask_and_swallow, 1)],
)
async def test_cancelling_a_forward_call_cancels_its_reverse_calls(
    handle: Callable[[HandlerContext], Awaitable[None]], asked: int
) -> None:
    """One cancellation for each, and no answer to the forward call; late answers are dropped."""

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        await handle(ctx)
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(10, "t")
        ids = {(await peer.next_of("ask"))["id"] for _ in range(asked)}
        await peer.send(cancel(10, reason="user"))
        told = await peer.everything()
        await peer.answer(min(ids), {"late": True})
        assert await peer.everything() == []

        assert [message["method"] for message in told] == [CANCELLED] * asked
        assert {message["params"]["requestId"] for message in told} == ids
        assert session.calls() == ()
        assert session.statistics().late_answers == 1


@pytest.mark.case("01")
@pytest.mark.parametrize("end", ["return", "raise", "deadline"])
async def test_a_forward_call_that_ends_otherwise_takes_its_reverse_calls_with_it(
    end: str, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Started in a nursery that outlives the handler: cancelled first, then comes the answer."""
    reverse: list[Outcome] = []

    async def handler(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        reverse.append(Outcome(nursery, lambda: ask(ctx)))
        await trio.sleep(1)
        if end == "raise":
            raise ValueError
        if end == "deadline":
            with trio.move_on_after(1):
                await ask(ctx)
        return {}

    async with against_raw(Endpoint({"t": handler})) as (session, peer):
        await peer.request(10, "t")
        asked = [(await peer.next_of("ask"))["id"] for _ in range(1 + (end == "deadline"))]
        for id_ in reversed(asked):
            assert (await peer.next_of(CANCELLED))["params"]["requestId"] == id_
        answer = await peer.answer_to(10)
        with pytest.raises(OriginSettled):
            await reverse[0].wait()

        assert ("error" in answer) is (end == "raise")
        assert await peer.everything() == []
        assert session.calls() == ()


@pytest.mark.case("01")
async def test_a_dialog_of_the_client_ends_when_its_call_is_given_up() -> None:
    """From one end to the other: a server's tool that asks, a user who does not answer."""
    server, client = Server("s"), Client("c", version="1")
    shown, gone = trio.Event(), trio.Event()

    @server.tool
    async def sure(ctx: Context) -> str:
        """Ask."""
        return str(await ctx.elicit({"type": "object", "properties": {}}, "sure?"))

    @client.elicitation
    async def dialog(_: Any, __: Any) -> None:
        shown.set()
        try:
            await trio.sleep_forever()
        finally:
            gone.set()

    async with connect_memory(server, client=client, typed=False) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "sure")
            await shown.wait()
            nursery.cancel_scope.cancel()
        await gone.wait()
        await trio.testing.wait_all_tasks_blocked()

        assert session.calls() == ()


# ---------------------------------------------------------------- 02


@pytest.mark.case("02")
@TYPED
async def test_cancellation_runs_through_two_levels(*, typed: bool, nursery: trio.Nursery) -> None:
    """Outer call, the question it caused, the call that the question caused: in this order."""
    ended: list[str] = []

    async def outer(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        try:
            return await ask(ctx)
        finally:
            ended.append("outer")

    async def inner(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("inner")
        raise AssertionError

    async def think(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        try:
            return await ask(ctx, "inner")
        finally:
            ended.append("think")

    recording = Recording()
    ours, theirs = transports(typed=typed)
    server = Session(
        "server",
        Endpoint({"outer": outer, "inner": inner}),
        recording.tap(theirs, "server"),
        tracer=recording,
    )
    client = Session(
        "client", Endpoint({"ask": think}), recording.tap(ours, "client"), tracer=recording
    )
    async with trio.open_nursery() as running:
        await running.start(server.run)
        await running.start(client.run)
        await shake_hands(client)
        call = Outcome(nursery, lambda: client.call("outer"))
        await trio.testing.wait_all_tasks_blocked()
        recording.events.clear()
        call.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        told = [
            (event.side, event.message.params["requestId"])
            for event in recording.events
            if event.what == "sent"
        ]

        assert told == [("client", 2), ("server", 1), ("client", 3)]
        assert sorted(ended) == ["inner", "outer", "think"]
        assert client.calls() == server.calls() == ()
        client.close()


@pytest.mark.case("02")
async def test_a_peer_that_ignores_cancels_holds_nobody_up(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Each level settles by itself, and does not wait for the next."""
    async with against_raw(Endpoint({"t": asking})) as (session, peer):
        await peer.request(1, "t")
        await peer.next_of("ask")
        await peer.send(cancel(1))
        await peer.next_of(CANCELLED)
        await trio.testing.wait_all_tasks_blocked()

        assert session.calls() == ()


# ---------------------------------------------------------------- 03


@pytest.mark.case("03")
@pytest.mark.spec("C-8", "C-6", "C-9")
async def test_a_cancel_before_the_handler_starts_leaves_no_answer() -> None:
    """Both in one chunk."""
    async with against_raw(Endpoint({"t": hold})) as (session, peer):
        await peer.send(request(7, "t"), cancel(7))

        assert await peer.everything() == []
        assert session.calls() == ()


@pytest.mark.case("03")
async def test_a_cancel_that_names_no_request_of_now_is_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Twice, unknown, of another type, malformed: no error, and nothing in the log."""
    caplog.set_level(logging.INFO, logger="mcp_trio")
    go_on = trio.Event()

    async def wait(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        await go_on.wait()
        return {}

    async with against_raw(Endpoint({"t": wait, "h": hold})) as (session, peer):
        await peer.send(request(7, "t"), request(8, "h"))
        await peer.send(cancel("7"), cancel(7.0), cancel(None), cancel(True), cancel([7]))
        await peer.send(notification(CANCELLED, {}), notification(CANCELLED), cancel(99))
        await peer.send(cancel(8), cancel(8))
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        assert (await peer.answer_to(7))["result"] == {}
        await peer.send(cancel(7))
        assert await peer.everything() == []

        assert session.statistics().cancelled_by_peer == 1
        assert session.error is None
    assert caplog.records == []


@pytest.mark.case("03")
async def test_an_answer_that_is_written_when_the_cancel_comes_is_ignored_by_its_caller(
    nursery: trio.Nursery,
) -> None:
    """The answer and the cancel cross on the wire."""
    async with against_raw(role="client") as (session, peer):
        call = Outcome(nursery, lambda: session.call("t"))
        asked = await peer.next_of("t")
        await peer.answer(asked["id"], {"done": True})
        call.scope.cancel()  # before our reader has seen it
        await call._ended.wait()
        await peer.next_of(CANCELLED)
        await trio.testing.wait_all_tasks_blocked()

        assert call.value is None
        assert session.statistics().late_answers == 1


@pytest.mark.case("03")
@pytest.mark.spec("LC-13")
async def test_a_cancel_of_initialize_is_never_sent_and_not_obeyed(nursery: trio.Nursery) -> None:
    """As a client, and as a server."""
    async with against_raw(role="client", version=None) as (session, peer):
        call = Outcome(nursery, lambda: session.call("initialize", {"protocolVersion": NEWEST}))
        await peer.next_of("initialize")
        call.scope.cancel()
        assert await peer.everything() == []
    async with against_raw(version=None) as (_, peer):
        await peer.send(request(1, "initialize", {"protocolVersion": NEWEST}), cancel(1))
        assert "result" in await peer.answer_to(1)


# ---------------------------------------------------------------- 04


@pytest.mark.case("04")
@pytest.mark.spec("LC-17", "C-7")
@pytest.mark.parametrize("way", ["scope", "deadline"])
async def test_a_call_that_is_given_up_while_the_pipe_is_full_returns_at_once(
    way: str, autojump_clock: trio.testing.MockClock
) -> None:
    """The cancellation is queued, and goes out when the peer reads again."""
    async with against_raw(role="client", capacity=100) as (session, peer):
        began = trio.current_time()
        if way == "scope":
            with trio.move_on_after(0.05):
                await session.call("t", {"text": "x" * 500})
        else:
            with pytest.raises(DeadlineExceeded):
                await session.call("t", {"text": "x" * 500}, deadline=Deadline(0.05))
        assert trio.current_time() - began == pytest.approx(0.05)
        written, told = await peer.everything()
        await peer.answer(written["id"], {})
        await trio.testing.wait_all_tasks_blocked()

        assert written["method"] == "t"
        assert told["params"]["requestId"] == written["id"]
        assert session.statistics().late_answers == 1


@pytest.mark.case("04")
async def test_a_request_that_was_never_written_is_not_cancelled(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Of a peer that does not read, the queue is cleared of what nobody waits for."""
    async with against_raw(role="client", capacity=100) as (session, peer):
        session.notify_nowait("x/fill", {"text": "x" * 200})
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(50):
            with trio.move_on_after(0.05):
                await session.call("t")

        assert [message["method"] for message in await peer.everything()] == ["x/fill"]
        assert session.statistics().abandoned == 50


@pytest.mark.case("04")
@TYPED
async def test_a_call_in_a_scope_that_is_cancelled_already_has_no_effect(*, typed: bool) -> None:
    """A caller that is being cancelled starts nothing new."""
    served: list[object] = []

    async def note(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        served.append(params)
        return {}

    async with joined(Endpoint({"t": note}), typed=typed) as (client, _):
        with trio.CancelScope() as scope:
            scope.cancel()
            await client.call("t")
        await trio.testing.wait_all_tasks_blocked()

    assert scope.cancelled_caught
    assert served == []


# ---------------------------------------------------------------- 06


@pytest.mark.case("06")
@TYPED
async def test_reverse_calls_run_at_once(
    *, typed: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """Five that take 0.2 s take 0.2 s."""
    running = peak = 0

    async def think(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await trio.sleep(0.2)
        running -= 1
        return {}

    async def ask_five(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        async with trio.open_nursery() as nursery:
            for _count in range(5):
                nursery.start_soon(ask, ctx)
        return {}

    async with joined(Endpoint({"t": ask_five}), Endpoint({"ask": think}), typed=typed) as (
        client,
        _,
    ):
        began = trio.current_time()
        await client.call("t")

        assert trio.current_time() - began == pytest.approx(0.2)
        assert peak == 5


@pytest.mark.case("06")
async def test_a_notification_handler_may_call_while_another_call_is_open(
    nursery: trio.Nursery,
) -> None:
    """Its call is answered before the one that was open."""
    server, client = Server("s"), Client("c", version="1")
    listed: list[str] = []
    go_on = trio.Event()

    @server.tool
    async def change() -> str:
        """Offer another tool, then wait."""

        @server.tool
        async def added() -> str:
            """Be there."""
            return ""

        await go_on.wait()
        return "done"

    @client.tools_changed
    async def look(session: Any, _: Any) -> None:
        listed.extend([tool.name async for tool in session.list_tools()])
        go_on.set()

    async with connect_memory(server, client=client) as session:
        with trio.fail_after(5):
            result = await session.call_tool("change")

    assert listed == ["change", "added"]
    assert result.content[0].text == "done"  # type: ignore[union-attr]  # it is text


# ---------------------------------------------------------------- 07


@pytest.mark.case("07")
@pytest.mark.spec("LC-15")
@TYPED
async def test_every_waiter_settles_when_the_peer_goes(
    *, typed: bool, nursery: trio.Nursery
) -> None:
    """With SessionLost, an object of its own for each; later calls fail at once."""
    ours, theirs = transports(typed=typed)
    server = Session("server", Endpoint({"t": hold}), theirs)
    client = Session("client", Endpoint(), ours)
    await nursery.start(server.run)
    await nursery.start(client.run)
    await shake_hands(client)
    calls = [Outcome(nursery, lambda: client.call("t")) for _ in range(10)]
    await trio.testing.wait_all_tasks_blocked()
    await theirs.aclose()
    for call in calls:
        with pytest.raises(SessionLost) as caught:
            await call.wait()
        assert type(caught.value) is SessionLost
    with pytest.raises(SessionLost):
        await client.call("t")
    await client.wait_ended()

    assert len({id(call.error) for call in calls}) == 10
    assert client.calls() == ()


@pytest.mark.case("07")
async def test_a_block_whose_server_dies_ends_without_a_group() -> None:
    """What leaves it is the caller's own error, bare."""
    server = Server("s")

    async def use() -> None:
        async with connect_memory(server) as session:
            for open_session in server.sessions():
                open_session.close()
            await session.session.wait_ended()
            with pytest.raises(SessionLost):
                await session.ping()
            raise KeyError("mine")

    with pytest.raises(KeyError):  # no ExceptionGroup
        await use()


# ---------------------------------------------------------------- 14


@pytest.mark.case("14")
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1_048_576])
async def test_messages_around_buffer_sizes_pass_both_ways(size: int) -> None:
    """Through a pipe of 64 KiB, which takes no such message at once."""
    async with joined(Endpoint({"echo": echo})) as (client, _):
        text = "x" * size
        assert await client.call("echo", {"text": text}) == {"text": text}


@pytest.mark.case("14")
async def test_the_limit_itself_passes_and_one_byte_more_does_not() -> None:
    """The line is discarded, the error has no id, the session goes on."""
    limit = 5_000
    empty = len(json.dumps(request(1, "echo", {"text": ""})))
    async with against_raw(Endpoint({"echo": echo}), limits=Limits(message_bytes=limit)) as (
        session,
        peer,
    ):
        for size in (limit - 1, limit):
            await peer.request(1, "echo", {"text": "x" * (size - empty)})
            assert "result" in await peer.answer_to(1)
        await peer.request(1, "echo", {"text": "x" * (limit + 1 - empty)})
        refusal = await peer.next()
        await peer.request(2, "echo")

        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert "id" not in refusal
        assert (await peer.answer_to(2))["result"] == {}
        assert session.error is None


@pytest.mark.case("14")
async def test_a_line_without_end_closes_its_session_and_no_other(
    nursery: trio.Nursery,
) -> None:
    """After `Limits.discard_bytes`, and without keeping what came before."""
    limits = Limits(message_bytes=1_000, discard_bytes=100_000)
    async with (
        against_raw(Endpoint({"echo": echo})) as (_, neighbour),
        against_raw(limits=limits) as (session, peer),
    ):

        async def flood() -> None:
            for _ in range(1_000):
                await peer.send(b"x" * 1_000)

        with pytest.raises(BrokenPipeError):
            await flood()
        await session.wait_ended()
        await neighbour.request(1, "echo")

        assert (await neighbour.answer_to(1))["result"] == {}
        assert "without a line feed" in str(session.error)


# ---------------------------------------------------------------- 15


@pytest.mark.case("15")
@pytest.mark.spec("B-3", "B-7")
@pytest.mark.parametrize("id_", [0, "0", "", "1", 1, -1, 9007199254740993, "é\u2028"])
async def test_ids_come_back_as_they_were_sent(id_: Any) -> None:
    """In type and value; by the reader and by a handler."""
    async with against_raw(Endpoint({"echo": echo})) as (_, peer):
        for method in ("ping", "echo"):
            await peer.request(id_, method)
            await peer.answer_to(id_)


@pytest.mark.case("15")
async def test_one_and_its_text_are_two_requests() -> None:
    """Each is answered, and cancelled, as itself."""
    async with against_raw(Endpoint({"t": hold, "echo": echo})) as (session, peer):
        await peer.send(request(1, "t"), request("1", "t"))
        await peer.send(cancel("1"))
        await trio.testing.wait_all_tasks_blocked()
        assert [row.id for row in session.calls()] == [1]
        await peer.send(request("1", "echo", {"a": 1}))

        assert (await peer.answer_to("1"))["result"] == {"a": 1}


@pytest.mark.case("15")
async def test_a_duplicate_of_an_id_in_flight_is_refused_and_the_first_untouched() -> None:
    """The first still answers, and can still be cancelled; afterwards the id is free."""
    go_on = trio.Event()

    async def wait(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        await go_on.wait()
        return params

    async with against_raw(Endpoint({"t": wait})) as (session, peer):
        await peer.send(request(5, "t", {"n": 1}), request(5, "t", {"n": 2}))
        refusal = await peer.answer_to(5)
        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        go_on.set()
        assert (await peer.answer_to(5))["result"] == {"n": 1}

        go_on = trio.Event()
        await peer.send(request(5, "t"), request(5, "t"), cancel(5))
        assert "error" in await peer.answer_to(5)
        assert await peer.everything() == []
        assert session.calls() == ()
        assert session.statistics().duplicate_ids == 2


# ---------------------------------------------------------------- 16

STRANGE = [
    ({"jsonrpc": "2.0", "method": "window/logMessage", "params": {"type": 3}}, None, None),
    ({"jsonrpc": "2.0", "method": "codex/event", "params": [1]}, None, None),
    ({"jsonrpc": "2.0", "id": 4, "method": "x/unknown"}, ErrorCode.METHOD_NOT_FOUND, 4),
    (
        {"jsonrpc": "2.0", "id": 4, "method": "ping", "result": {}},
        ErrorCode.INVALID_REQUEST,
        4,
    ),
    ({"jsonrpc": "1.0", "id": 4, "method": "ping"}, ErrorCode.INVALID_REQUEST, 4),
    ({"id": 4, "method": "ping"}, ErrorCode.INVALID_REQUEST, 4),
    ({"jsonrpc": "2.0", "id": 4, "method": "ping", "params": [1]}, ErrorCode.INVALID_PARAMS, 4),
    ({"jsonrpc": "2.0", "id": 4}, ErrorCode.INVALID_REQUEST, 4),
    ({"jsonrpc": "2.0", "id": 99, "result": {}}, None, None),
    ({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}}, None, None),
]
UNPARSABLE = [5, "s", {}, [], None]


@pytest.mark.case("16")
@pytest.mark.spec("B-1", "B-14", "B-15", "P-8")
@pytest.mark.parametrize("role", ["client", "server"])
@pytest.mark.parametrize(("message", "code", "id_"), STRANGE)
async def test_strange_messages_kill_no_session(
    role: Any, message: Any, code: int | None, id_: Any
) -> None:
    """Requests with a readable id are answered by it, on both sides; the rest is silence."""
    async with against_raw(Endpoint({"echo": echo}), role=role) as (session, peer):
        await peer.send(message)
        answers = [(a["error"]["code"], a["id"]) for a in await peer.everything()]
        await peer.request("after", "echo")

        assert answers == ([] if code is None else [(code, id_)])
        assert (await peer.answer_to("after"))["result"] == {}
        assert session.error is None


@pytest.mark.case("16")
@pytest.mark.parametrize("message", UNPARSABLE, ids=repr)
async def test_what_is_no_message_is_told_to_clients_only(message: Any) -> None:
    """A server answers -32600 without an id; a client counts."""
    for role in ("client", "server"):
        async with against_raw(Endpoint({"echo": echo}), role=role) as (session, peer):
            await peer.send(message)
            answers = await peer.everything()
            await peer.request("after", "echo")
            await peer.answer_to("after")

            assert [a["error"]["code"] for a in answers] == [ErrorCode.INVALID_REQUEST] * (
                role == "server"
            )
            assert all("id" not in a for a in answers)
            assert session.statistics().malformed == 1


# ---------------------------------------------------------------- 18


@pytest.mark.case("18")
async def test_a_server_stops_within_its_bounds(autojump_clock: trio.testing.MockClock) -> None:
    """What is nearly done is answered at the end of input, the rest gets an error in time."""

    async def nap(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(params["seconds"])
        return params

    limits = Limits(eof_grace=1, drain=1)
    transport, peer = raw_pair(limits)
    session = Session("server", Endpoint({"nap": nap}), transport, limits=limits)
    async with trio.open_nursery() as nursery:
        await nursery.start(session.run)
        await peer.send(
            request(0, "initialize", {"protocolVersion": NEWEST}),
            request(1, "nap", {"seconds": 0.5}),
            request(2, "nap", {"seconds": 60}),
        )
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        end_input(peer)
        answers = [await peer.next() for _ in range(3)]
        assert await peer.next() is None

    assert trio.current_time() - began <= 1.5
    assert answers[1]["result"] == {"seconds": 0.5}
    assert answers[2]["error"]["code"] == ErrorCode.INTERNAL_ERROR


def end_input(peer: RawPeer) -> None:
    """Close the peer's sending half; it goes on reading."""
    peer.stream._out.closed = True
    peer.stream._out.lot.unpark_all()


@pytest.mark.case("18")
async def test_a_nursery_that_is_cancelled_ends_its_sessions_within_their_bounds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Though the peer does not read."""
    limits = Limits(drain=1)
    transport, peer = raw_pair(limits, capacity=50)
    session = Session("server", Endpoint({"t": hold}), transport, limits=limits)
    async with trio.open_nursery() as nursery:
        await nursery.start(session.run)
        await peer.request(0, "initialize", {"protocolVersion": NEWEST})
        await peer.request(1, "t")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        nursery.cancel_scope.cancel()

    assert trio.current_time() - began <= 1.5
    assert isinstance(session.error, SessionClosed)
    assert session.calls() == ()


# ---------------------------------------------------------------- 23


@pytest.mark.case("23")
async def test_many_calls_on_one_session_leave_nothing_behind() -> None:
    """Its tables are as empty as before."""
    async with joined(Endpoint({"echo": echo}), typed=True) as (client, server):
        for n in range(2_000):
            assert await client.call("echo", {"n": n}) == {"n": n}

        assert client.calls() == server.calls() == ()
        assert not server._enclosed
        assert client.statistics().sent == server.statistics().received


@pytest.mark.case("23")
async def test_many_sessions_leave_nothing_behind() -> None:
    """A server forgets each one when it has ended."""
    server = Server("s")
    for _ in range(50):
        async with connect_memory(server) as session:
            await session.ping()
            assert len(server.sessions()) == 1

    assert server.sessions() == ()
    assert server.admission.in_flight == 0
