"""One id space: what is answered, what is refused, what is only counted."""

from __future__ import annotations

import gc
import math
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.errors import (
    Busy,
    DeadlineExceeded,
    ErrorCode,
    InvalidMessage,
    InvalidResult,
    OriginSettled,
    PeerError,
    Refusal,
    SessionLost,
)
from mcp_trio.limits import Deadline, Limits
from tests.client.scripted import Outcome
from tests.peers import (
    CANCELLED,
    NEWEST,
    OLDEST,
    PROGRESS,
    Endpoint,
    against_raw,
    ask,
    joined,
    request,
)

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext

TYPED = pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])


async def echo(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
    return {"echo": params}


async def hold(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep_forever()
    raise AssertionError


# ---------------------------------------------------------------- requests


@TYPED
async def test_a_request_is_answered(*, typed: bool) -> None:
    """With what the handler returned; and the tables are empty afterwards."""
    async with joined(Endpoint({"echo": echo}), typed=typed) as (client, server):
        assert await client.call("echo", {"a": 1}) == {"echo": {"a": 1}}
        assert client.calls() == server.calls() == ()


async def test_answers_may_come_in_any_order(nursery: trio.Nursery) -> None:
    """Each finds its call."""
    async with against_raw(role="client") as (session, peer):
        calls = [
            Outcome(nursery, lambda n=n: session.call("x", {"n": n}))  # type: ignore[misc]  # bound now
            for n in range(3)
        ]
        asked = [await peer.next_of("x") for _ in calls]
        for message in reversed(asked):
            await peer.answer(message["id"], message["params"])

        assert [await call.wait() for call in calls] == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.spec("B-5")
async def test_an_id_is_used_once_in_a_session() -> None:
    """Also those of calls that failed, or were given up."""
    async with against_raw(role="client") as (session, peer):
        with pytest.raises(InvalidMessage):
            await session.call("x", {"bad": math.nan})
        with trio.move_on_after(0):
            await session.call("x")
        for _ in range(3):
            with trio.move_on_after(0.001):
                await session.call("x")
        messages = await peer.everything()
        ids = [message["id"] for message in messages if "id" in message]

    assert len(ids) == len(set(ids)) >= 3


async def test_calls_shows_who_waits_for_whom(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """On both ends, with the call each came from."""

    async def asking(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        return await ask(ctx)

    client_side = Endpoint({"ask": hold})
    async with joined(Endpoint({"t": asking}), client_side) as (client, server):
        call = Outcome(nursery, lambda: client.call("t"))
        await trio.testing.wait_all_tasks_blocked()
        ours, theirs = sorted(client.calls(), key=lambda row: row.direction == "in")
        forward, reverse = sorted(server.calls(), key=lambda row: row.direction == "out")
        call.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()

        assert (ours.direction, ours.method, ours.origin) == ("out", "t", None)
        assert (theirs.direction, theirs.method, theirs.cancelled) == ("in", "ask", False)
        assert (forward.direction, forward.id) == ("in", ours.id)
        assert (reverse.direction, reverse.id, reverse.origin) == ("out", theirs.id, ours.id)


async def test_a_request_that_is_cancelled_but_still_unwinds_shows_it(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Its row says so until the handler has ended."""

    async def slow_to_go(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        with trio.CancelScope(shield=True):
            await trio.sleep(1)
        return {}

    async with joined(Endpoint({"t": slow_to_go})) as (client, server):
        call = Outcome(nursery, lambda: client.call("t"))
        await trio.testing.wait_all_tasks_blocked()
        call.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        (row,) = server.calls()
        await trio.sleep(2)

        assert row.cancelled
        assert server.calls() == ()


# ---------------------------------------------------------------- errors of handlers


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (Refusal(-7, "no", {"why": 1}), -7, "no"),
        (InvalidMessage("$.a", "a number"), ErrorCode.INVALID_PARAMS, "$.a"),
        (ValueError("secret"), ErrorCode.INTERNAL_ERROR, "internal error in t"),
        (SystemExit(3), ErrorCode.INTERNAL_ERROR, "internal error in t"),
        (ExceptionGroup("", [KeyError(1)]), ErrorCode.INTERNAL_ERROR, "internal error in t"),
        (OriginSettled("x"), ErrorCode.INTERNAL_ERROR, "internal error in t"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_an_error_of_a_handler_is_an_answer(
    error: BaseException, code: int, text: str
) -> None:
    """It says what was meant for the peer and nothing else; the session goes on."""

    async def fail(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        raise error

    async with joined(Endpoint({"t": fail, "echo": echo})) as (client, _):
        with pytest.raises(PeerError) as caught:
            await client.call("t")
        assert await client.call("echo") == {"echo": {}}

    assert caught.value.code == code
    assert text in caught.value.message
    assert "secret" not in str(caught.value)


@TYPED
@pytest.mark.parametrize(
    "result",
    [{"x": math.nan}, {"x": [math.inf]}, {"x": "\ud800"}, {"\udfff": 1}, {"x": object()}],
    ids=["nan", "infinity", "surrogate", "key", "object"],
)
async def test_a_result_that_json_cannot_hold_becomes_one_error(
    *, typed: bool, result: Any
) -> None:
    """Nothing non-finite or unpaired ever leaves, and the session lives."""

    async def odd(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        return {"content": result}

    async with joined(Endpoint({"t": odd, "echo": echo}), typed=typed) as (client, _):
        with pytest.raises(PeerError, match="cannot be sent as JSON") as caught:
            await client.call("t")
        assert await client.call("echo") == {"echo": {}}

    assert caught.value.code == ErrorCode.INTERNAL_ERROR


@TYPED
async def test_a_result_that_contains_itself_becomes_one_error(*, typed: bool) -> None:
    """It is refused, and looking for the fault comes to an end."""
    endless: dict[str, Any] = {}
    endless["again"] = endless

    async def odd(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        return endless

    async with joined(Endpoint({"t": odd, "echo": echo}), typed=typed) as (client, _):
        with pytest.raises(PeerError, match="cannot be sent as JSON"):
            await client.call("t")
        assert await client.call("echo") == {"echo": {}}


@TYPED
async def test_an_error_with_a_lone_surrogate_becomes_one_error(*, typed: bool) -> None:
    """The text of a refusal is checked like a result."""

    async def odd(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        raise Refusal(-1, "\ud800")

    async with joined(Endpoint({"t": odd, "echo": echo}), typed=typed) as (client, _):
        with pytest.raises(PeerError, match="cannot be sent as JSON"):
            await client.call("t")
        assert await client.call("echo") == {"echo": {}}


async def test_a_handler_that_leaves_a_scope_open_hurts_nobody_else() -> None:
    """The error border stands outside the request's scope."""

    async def leaky(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        trio.CancelScope().__enter__()
        return {}

    async with joined(Endpoint({"t": leaky, "echo": echo})) as (client, _):
        with pytest.raises(PeerError):
            await client.call("t")
        assert await client.call("echo") == {"echo": {}}
    gc.collect()


async def test_clean_up_that_fails_while_it_is_cancelled_hurts_nobody_else(
    nursery: trio.Nursery,
) -> None:
    """No answer, no dead session, whether the error comes alone or in a group."""
    began = [trio.Event(), trio.Event()]

    async def alone(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        try:
            began[0].set()
            await trio.sleep_forever()
        finally:
            raise ValueError("clean-up failed")

    async def grouped(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        async def child() -> None:
            try:
                began[1].set()
                await trio.sleep_forever()
            finally:
                raise ValueError("clean-up failed")

        async with trio.open_nursery() as inner:
            inner.start_soon(child)
            await trio.sleep_forever()
        raise AssertionError

    endpoint = Endpoint({"alone": alone, "grouped": grouped, "echo": echo})
    async with joined(endpoint) as (client, server):
        for method, event in zip(("alone", "grouped"), began, strict=True):
            call = Outcome(nursery, lambda method=method: client.call(method))  # type: ignore[misc]  # bound now
            await event.wait()
            call.scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert server.calls() == ()
        assert await client.call("echo") == {"echo": {}}
        assert client.statistics().late_answers == 0


# ---------------------------------------------------------------- refusals of the reader


@pytest.mark.spec("B-4", "B-3")
@pytest.mark.parametrize("id_", [None, True, 1.5, 1.0, [], {}], ids=repr)
@pytest.mark.parametrize(("version", "has_id"), [(NEWEST, False), (OLDEST, True)])
async def test_an_id_that_is_none_is_refused(id_: object, version: str, *, has_id: bool) -> None:
    """Nothing is executed; the error has no id, or null where the revision knows no other way."""
    executed: list[object] = []

    async def handler(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        executed.append(params)
        return {}

    async with against_raw(Endpoint({"t": handler}), version=version) as (_, peer):
        await peer.request(id_, "t")
        answer = await peer.next()

    assert answer["error"]["code"] == ErrorCode.INVALID_REQUEST
    assert ("id" in answer) is has_id
    assert answer.get("id") is None
    assert executed == []


async def test_what_cannot_be_parsed_before_the_handshake_has_id_null() -> None:
    """No revision has been agreed on that allows to leave it out."""
    async with against_raw(version=None) as (_, peer):
        await peer.send(b"{nonsense\n")

        assert await peer.next() == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {
                "code": ErrorCode.PARSE_ERROR,
                "message": "invalid JSON: Expecting property name enclosed in double quotes "
                "at character 1",
            },
        }


@pytest.mark.spec("B-1", "B-14")
async def test_a_client_counts_what_it_cannot_parse_and_says_nothing() -> None:
    """Only the server role answers; a bad request is answered by both."""
    async with against_raw(role="client") as (session, peer):
        await peer.send(b"{nonsense\n", b"5\n", b"[1]\n", {"jsonrpc": "2.0"}, b"\xff\n")
        assert await peer.everything() == []
        assert session.statistics().malformed == 5
        await peer.send({"jsonrpc": "1.0", "id": 4, "method": "ping"})
        answer = await peer.answer_to(4)

    assert answer["error"]["code"] == ErrorCode.INVALID_REQUEST


async def test_too_long_a_line_is_answered_and_the_session_goes_on() -> None:
    """The line is discarded up to its end."""
    limits = Limits(message_bytes=200)
    async with against_raw(Endpoint({"echo": echo}), limits=limits) as (session, peer):
        await peer.send(b"x" * 300 + b"\n", request(1, "echo"))
        refusal = await peer.next()

        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert "300" in refusal["error"]["message"]
        assert "id" not in refusal
        assert (await peer.answer_to(1))["result"] == {"echo": {}}
        assert session.error is None


@pytest.mark.spec("B-8")
async def test_an_answer_that_is_none_settles_its_call(nursery: trio.Nursery) -> None:
    """With InvalidResult, and the session goes on."""
    bad: list[dict[str, Any]] = [
        {"result": {}, "error": {"code": 1, "message": "x"}},
        {"result": 5},
        {"error": {"code": "1", "message": "x"}},
        {"error": "x"},
    ]
    async with against_raw(role="client") as (session, peer):
        for members in bad:
            call = Outcome(nursery, lambda: session.call("x"))
            asked = await peer.next_of("x")
            await peer.send({"jsonrpc": "2.0", "id": asked["id"], **members})
            with pytest.raises(InvalidResult, match="the answer to x"):
                await call.wait()
        assert session.statistics().malformed == len(bad)


async def test_an_error_that_names_no_request_is_counted() -> None:
    """Whether its id is null or left out."""
    error = {"jsonrpc": "2.0", "error": {"code": -32700, "message": "x"}}
    async with against_raw(role="client") as (session, peer):
        await peer.send(error, {**error, "id": None})
        await trio.testing.wait_all_tasks_blocked()

        assert session.statistics().stray_answers == 2


# ---------------------------------------------------------------- floods


async def test_a_peer_that_pings_without_reading_is_cut_off(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What the reader owes is bounded; the session ends within its bounds."""
    limits = Limits(outbox_bytes=1_000, reader_replies=50)
    async with against_raw(limits=limits, capacity=2_000) as (session, peer):

        async def flood() -> None:
            for n in range(100_000):
                await peer.request(n, "ping")

        with trio.fail_after(60), pytest.raises(OSError, match="closed"):
            await flood()
        await session.wait_ended()

        assert isinstance(session.error, SessionLost)
        assert "without reading" in str(session.error)
        assert session.statistics().sent < 300


async def test_a_peer_that_reads_may_ping_for_ever(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """The count begins anew where there is room again."""
    limits = Limits(outbox_bytes=500, reader_replies=5)
    async with against_raw(limits=limits, capacity=500) as (session, peer):

        async def flood() -> None:
            for n in range(300):
                await peer.request(n, "ping")

        nursery.start_soon(flood)
        ids = [(await peer.next())["id"] for _ in range(300)]

        assert ids == list(range(300))
        assert session.error is None


async def test_a_flood_of_notifications_and_stray_answers_leaves_nothing_behind() -> None:
    """Neither progress nor cancels nor answers that belong to nothing are kept."""
    async with against_raw(Endpoint({"echo": echo})) as (session, peer):
        for n in range(200):
            await peer.notify(PROGRESS, {"progressToken": n, "progress": 1})
            await peer.notify(CANCELLED, {"requestId": n})
            await peer.answer(n, {})
        await peer.request("last", "echo")
        await peer.answer_to("last")
        statistics = session.statistics()

        assert session.calls() == ()
        assert statistics.late_progress == 200
        assert statistics.stray_answers == 200
        assert statistics.cancelled_by_peer == 0


# ---------------------------------------------------------------- calls of ours


async def test_a_deadline_is_extended_by_progress_up_to_its_cap(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Each report gives *idle* more, never past *cap*; then the peer is told."""
    began = trio.current_time()

    async def busy(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        for n in range(1_000):
            await ctx.progress(n)
            await trio.sleep(2)
        raise AssertionError

    async with joined(Endpoint({"t": busy})) as (client, server):
        with pytest.raises(DeadlineExceeded, match="within 3 s without progress, 10 s in all"):
            await client.call("t", deadline=Deadline(3, 10))
        assert trio.current_time() - began == pytest.approx(10)
        await trio.testing.wait_all_tasks_blocked()
        assert server.statistics().cancelled_by_peer == 1


@pytest.mark.spec("LC-17", "LC-19")
async def test_a_deadline_without_progress_is_the_idle_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Progress of other calls does not count."""
    began = trio.current_time()
    async with joined(Endpoint({"t": hold})) as (client, _):
        with pytest.raises(DeadlineExceeded):
            await client.call("t", deadline=Deadline(3, 10))

        assert trio.current_time() - began == pytest.approx(3)


async def test_an_answer_in_time_is_not_disturbed_by_a_deadline(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nor by reaching the very moment at which it would run out."""

    async def nap(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(2.999)
        return {}

    async with joined(Endpoint({"t": nap})) as (client, _):
        assert await client.call("t", deadline=Deadline(3, 10)) == {}


async def test_a_call_that_is_cancelled_while_it_is_queued_was_never_made() -> None:
    """Neither the request nor a cancellation is written."""
    async with against_raw(role="client", capacity=100) as (session, peer):
        async with trio.open_nursery() as inner:
            # Fill the pipe, so that what comes next stays in the queue.
            session.notify_nowait("x/fill", {"text": "x" * 200})
            await trio.testing.wait_all_tasks_blocked()
            inner.start_soon(session.call, "never")
            await trio.testing.wait_all_tasks_blocked()
            assert session.statistics().outgoing == 1
            inner.cancel_scope.cancel()
        messages = await peer.everything()

        assert [message["method"] for message in messages] == ["x/fill"]
        assert session.statistics().abandoned == 1


async def test_a_cancelled_call_is_told_of_once_and_its_late_answer_dropped(
    nursery: trio.Nursery,
) -> None:
    """Without waiting for the peer."""
    async with against_raw(role="client") as (session, peer):
        call = Outcome(nursery, lambda: session.call("x"))
        asked = await peer.next_of("x")
        call.scope.cancel()
        told = await peer.next_of(CANCELLED)
        await peer.answer(asked["id"], {})
        assert await peer.everything() == []

        assert told["params"]["requestId"] == asked["id"]
        assert session.statistics().late_answers == 1


async def test_progress_reaches_its_call_alone(nursery: trio.Nursery) -> None:
    """By token; what names no open call, or is no progress, is counted."""
    seen: list[list[float]] = [[], []]
    async with against_raw(role="client") as (session, peer):
        calls = [
            Outcome(
                nursery,
                lambda sink=sink: session.call(  # type: ignore[misc]  # bound now
                    "x", on_progress=lambda p: sink.append(p["progress"])
                ),
            )
            for sink in seen
        ]
        asked = [await peer.next_of("x") for _ in calls]
        tokens = [message["params"]["_meta"]["progressToken"] for message in asked]
        for token, value in [(tokens[1], 5), (tokens[0], 1), (tokens[1], 6), (True, 9), ("x", 9)]:
            await peer.notify(PROGRESS, {"progressToken": token, "progress": value})
        await peer.notify(PROGRESS, {"progressToken": tokens[0], "progress": "9"})
        await peer.notify(PROGRESS)
        for message in asked:
            await peer.answer(message["id"], {})
        for call in calls:
            await call.wait()
        await peer.notify(PROGRESS, {"progressToken": tokens[0], "progress": 9})
        await trio.testing.wait_all_tasks_blocked()

        assert sorted(seen) == [[1], [5, 6]]
        assert session.statistics().late_progress == 5


async def test_a_busy_answer_raises_busy(nursery: trio.Nursery) -> None:
    """An error of its own, since it says that trying again makes sense."""
    async with joined(Endpoint({"t": hold}), limits=Limits(in_flight=1)) as (client, server):
        call = Outcome(nursery, lambda: client.call("t"))
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(Busy):
            await client.call("t")
        assert server.statistics().busy_refused == 1
        call.scope.cancel()


# ---------------------------------------------------------------- chains


async def test_a_chain_is_cancelled_from_end_to_end(nursery: trio.Nursery) -> None:
    """A calls B, whose handler calls C: what A gives up ends at C as well."""
    ended = trio.Event()

    async def work(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with joined(Endpoint({"work": work})) as (downstream, far):

        async def pass_on(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
            return await downstream.call("work", origin=ctx.serving)

        async with joined(Endpoint({"pass": pass_on})) as (client, _):
            call = Outcome(nursery, lambda: client.call("pass"))
            await trio.testing.wait_all_tasks_blocked()
            assert far.statistics().in_flight == 1
            call.scope.cancel()
            await ended.wait()
            await trio.testing.wait_all_tasks_blocked()

        assert far.calls() == downstream.calls() == ()
        assert far.statistics().cancelled_by_peer == 1


async def test_a_link_of_a_chain_does_not_outlive_its_request(nursery: trio.Nursery) -> None:
    """Started in a foreign nursery it ends with its origin, by the table."""
    links: list[Outcome] = []
    async with joined(Endpoint({"work": hold})) as (downstream, far):

        async def leak(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
            links.append(Outcome(nursery, lambda: downstream.call("work", origin=ctx.serving)))
            await trio.testing.wait_all_tasks_blocked()
            return {}

        async with joined(Endpoint({"leak": leak})) as (client, _):
            assert await client.call("leak") == {}
            with pytest.raises(OriginSettled, match="work was open when leak"):
                await links[0].wait()
            await trio.testing.wait_all_tasks_blocked()

            assert far.statistics().cancelled_by_peer == 1
            assert far.calls() == downstream.calls() == ()


async def test_a_chain_whose_far_end_goes_fails_with_the_reason(nursery: trio.Nursery) -> None:
    """And the near end goes on."""
    async with joined(Endpoint({"work": hold})) as (downstream, far):

        async def pass_on(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
            try:
                return await downstream.call("work", origin=ctx.serving)
            except PeerError as exc:
                return {"lost": exc.message}

        async with joined(Endpoint({"pass": pass_on})) as (client, _):
            call = Outcome(nursery, lambda: client.call("pass"))
            await trio.testing.wait_all_tasks_blocked()
            far.close()

            assert await call.wait() == {"lost": "the session closed before the answer"}


async def test_a_shielded_link_of_a_chain_does_not_hold_up_the_end_of_its_session(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Where the near session ends, its requests are over, and so are the calls they made."""
    async with joined(Endpoint({"work": hold})) as (downstream, far):

        async def pass_on(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
            with trio.CancelScope(shield=True):
                await downstream.call("work", origin=ctx.serving)
            raise AssertionError

        async with joined(Endpoint({"pass": pass_on})) as (client, server):
            call = Outcome(nursery, lambda: client.call("pass"))
            await trio.testing.wait_all_tasks_blocked()
            with trio.fail_after(10):
                await server.aclose()
            with pytest.raises((SessionLost, PeerError)):
                await call.wait()

        await trio.testing.wait_all_tasks_blocked()
        assert far.statistics().cancelled_by_peer == 1
