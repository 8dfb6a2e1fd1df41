"""The life of a session: its handshake, every way and order of ending, keep-alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.errors import (
    ErrorCode,
    InvalidMessage,
    PeerError,
    ProtocolViolation,
    SessionClosed,
    SessionLost,
)
from mcp_trio.limits import Limits
from mcp_trio.runtime.keepalive import run_keep_alive
from mcp_trio.runtime.session import Session
from tests.client.scripted import Outcome
from tests.peers import (
    CANCELLED,
    NEWEST,
    Endpoint,
    against_raw,
    ask,
    joined,
    raw_pair,
    request,
    transports,
)

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext
    from mcp_trio.wire.jsonrpc import Notification

TYPED = pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])


async def echo(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
    return params


async def hold(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep_forever()
    raise AssertionError


async def asking(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
    return await ask(ctx)


# ---------------------------------------------------------------- the handshake


async def test_before_initialize_only_ping_is_served() -> None:
    """Any other request costs an error with its id, and the session may still be opened."""
    endpoint = Endpoint({"tools/call": echo, "echo": echo})
    async with against_raw(endpoint, version=None) as (session, peer):
        await peer.request(1, "ping")
        await peer.request(2, "tools/call")
        await peer.request(3, "server/discover")
        await peer.notify("x/early")
        assert (await peer.answer_to(1))["result"] == {}
        assert (await peer.answer_to(2))["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert (await peer.answer_to(3))["error"]["code"] == ErrorCode.METHOD_NOT_FOUND
        await peer.request(4, "initialize", {"protocolVersion": NEWEST})
        await peer.answer_to(4)
        await peer.request(5, "echo", {"a": 1})

        assert (await peer.answer_to(5))["result"] == {"a": 1}
        assert endpoint.notifications == []
        assert session.error is None


async def test_a_second_initialize_is_refused_and_changes_nothing() -> None:
    """The session goes on at the revision it has."""
    async with against_raw() as (session, peer):
        await peer.request(9, "initialize", {"protocolVersion": "2024-11-05"})
        refusal = await peer.answer_to(9)

        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert session.revision.version == NEWEST


async def test_an_initialize_that_fails_can_be_followed_by_a_better_one() -> None:
    """The endpoint's error is its answer."""

    class Picky(Endpoint):
        def initialize(self, session: Session, params: dict[str, Any]) -> dict[str, Any]:
            if "protocolVersion" not in params:
                raise InvalidMessage("$.protocolVersion", "a string")
            return super().initialize(session, params)

    async with against_raw(Picky(), version=None) as (_, peer):
        await peer.request(1, "initialize", {})
        assert (await peer.answer_to(1))["error"]["code"] == ErrorCode.INVALID_PARAMS
        await peer.request(2, "initialize", {"protocolVersion": NEWEST})
        assert "result" in await peer.answer_to(2)


@pytest.mark.spec("LC-5")
async def test_reverse_calls_wait_for_initialized() -> None:
    """A request that comes before it is served; what it asks is held back, but for ping."""
    async with against_raw(Endpoint({"t": asking}), version=None) as (session, peer):
        await peer.request(1, "initialize", {"protocolVersion": NEWEST})
        await peer.answer_to(1)
        await peer.request(2, "t")
        assert await peer.everything() == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call, "ping")
            ping = await peer.next_of("ping")
            await peer.answer(ping["id"], {})
        await peer.notify("notifications/initialized")
        asked = await peer.next_of("ask")
        await peer.answer(asked["id"], {"ok": 1})

        assert (await peer.answer_to(2))["result"] == {"ok": 1}


async def test_a_reverse_call_that_waits_for_initialized_ends_with_the_session(
    nursery: trio.Nursery,
) -> None:
    """Nothing of it was sent."""
    async with against_raw(version=None) as (session, peer):
        call = Outcome(nursery, lambda: session.call("roots/list"))
        await trio.testing.wait_all_tasks_blocked()
        session.close()
        with pytest.raises(SessionClosed):
            await call.wait()
        assert await peer.everything() == []


@pytest.mark.spec("LC-4")
async def test_a_client_calls_nothing_before_its_handshake() -> None:
    """ProtocolViolation, and nothing is sent."""
    async with against_raw(role="client", version=None) as (session, peer):
        with pytest.raises(ProtocolViolation):
            await session.call("tools/list")
        assert await peer.everything() == []


@pytest.mark.spec("LC-13")
async def test_initialize_is_not_cancelled_when_the_client_closes(nursery: trio.Nursery) -> None:
    """Its waiter settles, and the peer sees the end of the stream."""
    async with against_raw(role="client", version=None) as (session, peer):
        call = Outcome(nursery, lambda: session.call("initialize", {"protocolVersion": NEWEST}))
        await peer.next_of("initialize")
        session.close()
        with pytest.raises(SessionClosed):
            await call.wait()
        assert await peer.next() is None


# ---------------------------------------------------------------- orders of ending


@TYPED
async def test_closing_from_a_handler(*, typed: bool) -> None:
    """It is cancelled like every other handler; both sides end."""

    async def close(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        session: Any = ctx.serving.session
        if params.get("wait"):
            await session.aclose()
        else:
            session.close()
        await trio.sleep_forever()
        raise AssertionError

    for wait in (True, False):
        async with joined(Endpoint({"t": close}), typed=typed) as (client, server):
            with pytest.raises((PeerError, SessionLost)):
                await client.call("t", {"wait": wait})
            await server.wait_ended()
            await client.wait_ended()

            assert isinstance(server.error, SessionClosed)
            assert type(client.error) is SessionLost


@TYPED
async def test_closing_from_a_notification_handler(*, typed: bool, nursery: trio.Nursery) -> None:
    """It runs in the reader itself."""

    def hear(session: Session, message: Notification) -> None:
        if message.method == "x/stop":
            session.close()

    async with joined(Endpoint({"t": hold}, hear), typed=typed) as (client, server):
        call = Outcome(nursery, lambda: client.call("t"))
        await trio.testing.wait_all_tasks_blocked()
        client.notify_nowait("x/stop")
        with pytest.raises(PeerError, match="closed before the answer"):
            await call.wait()
        await server.wait_ended()


@TYPED
async def test_closing_both_sides_at_once_and_twice(
    *, typed: bool, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """In any order, from any task; neither waits for the other to read."""
    began = trio.current_time()
    async with joined(Endpoint({"t": asking}), Endpoint({"ask": hold}), typed=typed) as (
        client,
        server,
    ):
        call = Outcome(nursery, lambda: client.call("t"))
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as inner:
            for session in (client, server, client, server):
                inner.start_soon(session.aclose)
            client.close()
            server.close()
        with pytest.raises(SessionClosed):
            await call.wait()

        assert isinstance(client.error, SessionClosed)
        assert isinstance(server.error, SessionClosed)
        await client.aclose()
        assert trio.current_time() - began < 0.1


async def test_closing_while_it_drains(autojump_clock: trio.testing.MockClock) -> None:
    """A second close changes nothing: the bound of the first holds."""
    async with against_raw(capacity=10, limits=Limits(drain=5)) as (session, _):
        session.notify_nowait("x/long", {"text": "x" * 1_000})
        began = trio.current_time()
        session.close()
        await trio.sleep(3)
        session.close()
        await session.aclose()

        assert trio.current_time() - began == pytest.approx(5)


async def test_what_is_queued_is_written_before_the_end(nursery: trio.Nursery) -> None:
    """By a peer that reads, within the bound."""
    async with against_raw(capacity=10) as (session, peer):
        session.notify_nowait("x/long", {"text": "x" * 1_000})
        session.close()

        assert (await peer.next_of("x/long"))["params"]["text"] == "x" * 1_000
        assert await peer.next() is None


async def test_closing_before_it_runs() -> None:
    """The session ends as soon as it begins, and the transport is closed."""
    transport, peer = raw_pair()
    session = Session("server", Endpoint(), transport)
    session.close()
    with trio.fail_after(1):
        await session.run()
        await session.wait_ended()

    assert await peer.next() is None


async def test_a_closed_session_refuses() -> None:
    """Calls, notifications and background tasks, each with an error of its own."""
    async with joined(Endpoint()) as (client, _):
        await client.aclose()
        errors = []
        for _ in range(2):
            with pytest.raises(SessionClosed) as caught:
                await client.call("x")
            errors.append(caught.value)
        with pytest.raises(SessionClosed):
            client.notify_nowait("x")
        with pytest.raises(SessionClosed):
            client.start_soon(trio.sleep, 0)

    assert errors[0] is not errors[1]


async def test_a_session_that_does_not_run_has_no_background_tasks() -> None:
    """SessionClosed, which says that it has not started."""
    ours, _ = transports(typed=True)
    session = Session("client", Endpoint(), ours)

    with pytest.raises(SessionClosed, match="not started"):
        session.start_soon(trio.sleep, 0)


async def test_close_tells_the_peer_of_each_call_it_abandons(nursery: trio.Nursery) -> None:
    """It may still be there, and at work."""
    async with against_raw(role="client") as (session, peer):
        calls = [Outcome(nursery, lambda: session.call("x")) for _ in range(3)]
        ids = {(await peer.next_of("x"))["id"] for _ in calls}
        session.close()
        told = {(await peer.next_of(CANCELLED))["params"]["requestId"] for _ in calls}
        for call in calls:
            with pytest.raises(SessionClosed):
                await call.wait()

        assert told == ids
        assert await peer.next() is None


async def test_a_server_that_closes_answers_what_it_was_serving() -> None:
    """An error for each, so that nobody waits."""
    async with against_raw(Endpoint({"t": hold})) as (session, peer):
        await peer.send(request(1, "t"), request("b", "t"))
        await trio.testing.wait_all_tasks_blocked()
        session.close()
        answers = [await peer.next(), await peer.next()]

        assert {answer["id"] for answer in answers} == {1, "b"}
        assert {answer["error"]["code"] for answer in answers} == {ErrorCode.INTERNAL_ERROR}
        assert await peer.next() is None


async def test_a_cancel_that_comes_with_the_end_still_counts(nursery: trio.Nursery) -> None:
    """A request that its sender has cancelled gets no answer, not even from a closing session."""
    endpoint = Endpoint({"t": hold})
    endpoint._hear = lambda session, m: session.close() if m.method == "x/stop" else None
    async with against_raw(endpoint) as (_, peer):
        await peer.request(1, "t")
        await trio.testing.wait_all_tasks_blocked()
        stop = {"jsonrpc": "2.0", "method": "x/stop"}
        cancel = {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": 1}}
        await peer.send(stop, cancel)

        assert await peer.next() is None


# ---------------------------------------------------------------- cancellation from outside


@TYPED
async def test_cancelling_the_owner_ends_everything(
    *, typed: bool, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    """Within the bounds, though a handler waits for an answer under a shield."""

    async def stubborn(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        with trio.CancelScope(shield=True):
            await ask(ctx)
        raise AssertionError

    ours, theirs = transports(typed=typed)
    server = Session("server", Endpoint({"t": stubborn}), theirs)
    client = Session("client", Endpoint({"ask": hold}), ours)
    await nursery.start(client.run)
    with trio.fail_after(10):
        async with trio.open_nursery() as owner:
            await owner.start(server.run)
            await client.call("initialize", {"protocolVersion": NEWEST})
            client.opened(server.revision)
            client.notify_nowait("notifications/initialized")
            call = Outcome(nursery, lambda: client.call("t"))
            await trio.testing.wait_all_tasks_blocked()
            assert server.statistics().outgoing == 1
            owner.cancel_scope.cancel()
        with pytest.raises((PeerError, SessionLost)):
            await call.wait()
        await client.wait_ended()

    assert server.calls() == client.calls() == ()
    assert client.statistics().cancelled_by_peer == 1


async def test_a_handler_that_shields_for_a_while_is_waited_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its clean-up is its own business; it ends with its session, and nothing is left."""
    done = trio.Event()

    async def tidy(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(7)
                done.set()
        raise AssertionError

    async with against_raw(Endpoint({"t": tidy})) as (session, peer):
        await peer.request(1, "t")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await session.aclose()

        assert done.is_set()
        assert trio.current_time() - began == pytest.approx(7)


# ---------------------------------------------------------------- the end of the input


async def test_at_the_end_of_input_requests_get_their_grace(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """What finishes in time is answered, the rest is cancelled and answered with an error."""
    answers: list[Any] = []

    async def nap(ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(params["seconds"])
        return params

    transport, peer = raw_pair(limits := Limits(eof_grace=2))
    session = Session("server", Endpoint({"nap": nap}), transport, limits=limits)
    async with trio.open_nursery() as nursery:
        await nursery.start(session.run)
        await peer.send(
            request(0, "initialize", {"protocolVersion": NEWEST}),
            request(1, "nap", {"seconds": 1}),
            request(2, "nap", {"seconds": 60}),
        )
        began = trio.current_time()
        peer.stream._out.closed = True  # half of it: we go on reading
        peer.stream._out.lot.unpark_all()
        while (message := await peer.next()) is not None:
            answers.append(message)

    assert trio.current_time() - began == pytest.approx(2)
    assert [answer["id"] for answer in answers] == [0, 1, 2]
    assert answers[1]["result"] == {"seconds": 1}
    assert answers[2]["error"]["code"] == ErrorCode.INTERNAL_ERROR


async def test_an_idle_session_ends_at_the_end_of_input_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Grace is for requests."""
    async with against_raw(limits=Limits(eof_grace=100)) as (session, peer):
        began = trio.current_time()
        await peer.hang_up()
        await session.wait_ended()

        assert trio.current_time() - began < 0.1
        assert type(session.error) is SessionLost


async def test_reverse_calls_fail_at_once_at_the_end_of_input(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nobody is left to answer them, under whatever shield."""
    seen: list[BaseException] = []

    async def stubborn(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        for _attempt in range(2):
            try:
                with trio.CancelScope(shield=True):
                    await ask(ctx)
            except SessionLost as exc:
                seen.append(exc)
        return {}

    async with against_raw(Endpoint({"t": stubborn})) as (session, peer):
        await peer.request(1, "t")
        await peer.next_of("ask")
        began = trio.current_time()
        await peer.hang_up()
        await session.wait_ended()

        assert len(seen) == 2
        assert trio.current_time() - began < 0.1


async def test_a_line_without_its_end_is_still_read(nursery: trio.Nursery) -> None:
    """As `printf` writes it."""
    async with against_raw(Endpoint({"echo": echo})) as (session, peer):
        await peer.send(b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"a":1}}')
        peer.stream._out.closed = True
        peer.stream._out.lot.unpark_all()

        assert (await peer.answer_to(1))["result"] == {"a": 1}
        await session.wait_ended()


async def test_a_peer_that_never_reads_does_not_hold_up_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The drain has its bound."""
    async with against_raw(capacity=10, limits=Limits(drain=3)) as (session, _):
        session.notify_nowait("x/long", {"text": "x" * 1_000})
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await session.aclose()

        assert trio.current_time() - began == pytest.approx(3)


async def test_a_pipe_that_breaks_settles_every_waiter(nursery: trio.Nursery) -> None:
    """With what was observed as the cause."""
    async with against_raw(role="client", capacity=100) as (session, peer):
        calls = [Outcome(nursery, lambda: session.call("x", {"t": "x" * 200})) for _ in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        # The read side stays open: it is the writer that notices.
        session_stream = session.transport._stream  # type: ignore[attr-defined]  # a pipe
        session_stream._out.closed = True
        session_stream._out.lot.unpark_all()
        for call in calls:
            with pytest.raises(SessionLost, match="the connection broke") as caught:
                await call.wait()
            assert isinstance(caught.value.cause, BrokenPipeError)
        await session.wait_ended()
        assert peer is not None


# ---------------------------------------------------------------- background work


async def test_a_background_task_that_fails_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is logged; alone, or among others in a nursery of its own."""

    async def fail() -> None:
        raise ValueError("alone")

    async def fail_grouped() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()

    async with joined(Endpoint({"echo": echo})) as (client, server):
        server.start_soon(fail)
        server.start_soon(fail_grouped)
        await trio.testing.wait_all_tasks_blocked()
        assert await client.call("echo", {"a": 1}) == {"a": 1}

    assert [record.getMessage() for record in caplog.records] == [
        "a background task of the session failed"
    ] * 2


async def test_background_tasks_end_with_the_session(caplog: pytest.LogCaptureFixture) -> None:
    """Also those whose clean-up fails, and that is all that is logged."""
    ended = []

    async def task(fails: bool) -> None:  # noqa: FBT001 - as start_soon passes it
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            try:
                await trio.sleep_forever()
            finally:
                ended.append(fails)
                if fails:
                    raise ValueError("clean-up")

    async with joined(Endpoint()) as (_, server):
        server.start_soon(task, True)
        server.start_soon(task, False)
        await trio.testing.wait_all_tasks_blocked()
        await server.aclose()

    assert sorted(ended) == [False, True]
    assert len(caplog.records) == 1


# ---------------------------------------------------------------- keep-alive


@pytest.mark.spec("PI-1")
async def test_ping_is_answered_while_handlers_run() -> None:
    """By the reader itself."""
    async with against_raw(Endpoint({"t": hold})) as (_, peer):
        await peer.send(request(1, "t"), request("p", "ping", {"_meta": {}}))

        assert (await peer.answer_to("p"))["result"] == {}


@pytest.mark.spec("PI-2", "PI-3")
async def test_keep_alive_pings_an_idle_peer_and_ends_a_dead_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Silence, a ping, silence: then each waiting call raises SessionLost."""
    async with against_raw(role="client") as (session, peer):
        began = trio.current_time()
        session.start_soon(run_keep_alive, session, 10)
        ping = await peer.next_of("ping")
        assert trio.current_time() - began == pytest.approx(10)
        await peer.answer(ping["id"], {})
        await peer.next_of("ping")
        async with trio.open_nursery() as nursery:
            call = Outcome(nursery, lambda: session.call("x"))
            with pytest.raises(SessionLost, match="has not answered a ping within 10 s"):
                await call.wait()
        await session.wait_ended()

        assert trio.current_time() - began == pytest.approx(30)


async def test_keep_alive_accepts_an_error_and_other_traffic_as_life(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Some peers do not know ping; a busy one may answer late."""
    async with against_raw(role="client") as (session, peer):
        session.start_soon(run_keep_alive, session, 10)
        ping = await peer.next_of("ping")
        await peer.send(
            {"jsonrpc": "2.0", "id": ping["id"], "error": {"code": -32601, "message": "what?"}}
        )
        await peer.next_of("ping")
        await peer.notify("x/alive")
        await trio.sleep(11)

        assert session.error is None
