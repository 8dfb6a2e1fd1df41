"""Batches, which only 2025-03-26 has: the answers to one leave together, as one array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.limits import Limits
from mcp_trio.wire.revisions import LEGACY
from tests.client.scripted import Outcome
from tests.peers import (
    BATCHING,
    CANCELLED,
    PROGRESS,
    Endpoint,
    against_raw,
    ask,
    notification,
    request,
)

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext

OTHERS = [revision.version for revision in LEGACY if revision.version != BATCHING]


async def echo(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
    return params


def by_id(answers: list[Any]) -> dict[Any, Any]:
    """The answers of an array, each to another request."""
    found = {answer.get("id"): answer.get("result", answer.get("error")) for answer in answers}
    assert len(found) == len(answers)
    return found


async def test_requests_are_answered_as_one_array(autojump_clock: trio.testing.MockClock) -> None:
    """When the slowest is done; notifications among them are taken and not answered."""

    async def nap(_: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(params["seconds"])
        return params

    endpoint = Endpoint({"nap": nap, "echo": echo})
    async with against_raw(endpoint, version=BATCHING) as (_, peer):
        began = trio.current_time()
        await peer.send(
            [
                request(1, "nap", {"seconds": 2}),
                notification("x/told", {"n": 1}),
                request("two", "echo", {"b": 2}),
                request(3, "ping"),
                request(4, "nobody"),
            ]
        )
        answers = by_id(await peer.next())

        assert trio.current_time() - began == pytest.approx(2)
        assert answers[1] == {"seconds": 2}
        assert answers["two"] == {"b": 2}
        assert answers[3] == {}
        assert answers[4]["code"] == ErrorCode.METHOD_NOT_FOUND
        assert [message.method for message in endpoint.notifications][-1] == "x/told"
        assert await peer.everything() == []


async def test_what_was_done_at_once_waits_for_the_rest(nursery: trio.Nursery) -> None:
    """All that will be answered is counted before the first is served."""
    async with against_raw(Endpoint({"echo": echo}), version=BATCHING) as (_, peer):
        await peer.send([request(1, "ping"), request(2, "ping"), request(3, "echo", {})])

        assert sorted(by_id(await peer.next())) == [1, 2, 3]
        assert await peer.everything() == []


async def test_nothing_answers_a_batch_of_notifications_and_answers() -> None:
    """There is no empty array."""
    endpoint = Endpoint()
    async with against_raw(endpoint, version=BATCHING) as (session, peer):
        await peer.send(
            [
                notification("x/a"),
                notification(CANCELLED, {"requestId": 9}),
                {"jsonrpc": "2.0", "id": 77, "result": {}},
            ]
        )
        assert await peer.everything() == []
        assert endpoint.notifications[-1].method == "x/a"
        assert session.statistics().stray_answers == 1


async def test_an_empty_array_is_an_invalid_request() -> None:
    """One error and no array (JSON-RPC 2.0 § 6)."""
    async with against_raw(version=BATCHING) as (_, peer):
        await peer.send([])
        answer = await peer.next()

    assert answer["error"]["code"] == ErrorCode.INVALID_REQUEST
    assert answer["id"] is None


async def test_each_malformed_member_gets_its_error() -> None:
    """Also a batch within a batch; what looks like an answer gets none."""
    async with against_raw(version=BATCHING) as (_, peer):
        await peer.send(
            [
                5,
                [request(8, "ping")],
                {"jsonrpc": "1.0", "id": 7, "method": "ping"},
                {"jsonrpc": "2.0", "id": 6, "result": {}, "error": {}},
            ]
        )
        answers = await peer.next()

    assert [answer["error"]["code"] for answer in answers] == [ErrorCode.INVALID_REQUEST] * 3
    assert [answer["id"] for answer in answers] == [None, None, 7]


@pytest.mark.spec("LC-12")
async def test_initialize_is_refused_in_a_batch() -> None:
    """The rest of the batch is served."""
    async with against_raw(Endpoint({"echo": echo}), version=BATCHING) as (session, peer):
        await peer.send(
            [
                request(1, "initialize", {"protocolVersion": BATCHING}),
                request(2, "echo", {"a": 1}),
            ]
        )
        answers = by_id(await peer.next())

        assert answers[1]["code"] == ErrorCode.INVALID_REQUEST
        assert answers[2] == {"a": 1}
        assert session.error is None


async def test_a_batch_before_initialize_is_refused() -> None:
    """Whatever is in it; the session may still be opened."""
    async with against_raw(version=None) as (_, peer):
        await peer.send([request(1, "initialize", {"protocolVersion": BATCHING})])
        refusal = await peer.next()
        await peer.request(2, "initialize", {"protocolVersion": BATCHING})
        opened = await peer.answer_to(2)

    assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
    assert refusal["id"] is None
    assert opened["result"]["protocolVersion"] == BATCHING


@pytest.mark.parametrize("version", OTHERS)
async def test_other_revisions_refuse_batches(version: str) -> None:
    """With one error; nothing in it is served."""
    endpoint = Endpoint({"echo": echo})
    async with against_raw(endpoint, version=version) as (session, peer):
        await peer.send([request(1, "echo"), notification("x/a")])
        refusal = await peer.next()

        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert refusal.get("id") is None
        assert "batch" in refusal["error"]["message"]
        assert await peer.everything() == []
        assert [message.method for message in endpoint.notifications] == [
            "notifications/initialized"
        ]
        assert session.error is None


async def test_too_large_a_batch_is_refused_whole() -> None:
    """The error says what the limit is."""
    async with against_raw(version=BATCHING, limits=Limits(batch=3)) as (_, peer):
        await peer.send([request(n, "ping") for n in range(3)])
        assert sorted(by_id(await peer.next())) == [0, 1, 2]
        await peer.send([request(n, "ping") for n in range(4)])
        refusal = await peer.next()

        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert "4" in refusal["error"]["message"]
        assert "3" in refusal["error"]["message"]
        assert await peer.everything() == []


async def test_a_cancelled_member_is_left_out(nursery: trio.Nursery) -> None:
    """The others are answered; where none is left nothing is sent."""
    go_on = trio.Event()

    async def hold(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        await go_on.wait()
        return {}

    async with against_raw(Endpoint({"hold": hold}), version=BATCHING) as (_, peer):
        await peer.send([request(1, "hold"), request(2, "hold")])
        await peer.notify(CANCELLED, {"requestId": 1})
        await trio.testing.wait_all_tasks_blocked()
        go_on.set()
        assert by_id(await peer.next()) == {2: {}}

        go_on = trio.Event()
        await peer.send([request(3, "hold"), notification(CANCELLED, {"requestId": 3})])
        assert await peer.everything() == []


async def test_busy_and_duplicate_members_are_answered_in_the_array() -> None:
    """Each request of a batch has its answer in it."""
    go_on = trio.Event()

    async def hold(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        await go_on.wait()
        return {}

    limits = Limits(in_flight=1)
    async with against_raw(Endpoint({"hold": hold}), version=BATCHING, limits=limits) as (_, peer):
        await peer.send([request(1, "hold"), request(1, "hold"), request(2, "hold")])
        assert await peer.everything() == []
        go_on.set()
        answers = await peer.next()

    assert [(a["id"], a.get("error", {}).get("code")) for a in answers] == [
        (1, ErrorCode.INVALID_REQUEST),
        (2, ErrorCode.BUSY),
        (1, None),
    ]


@pytest.mark.parametrize(
    "bad",
    [{"x": math.nan}, {"x": "\ud800"}, {"x": object()}, Refusal(-1, "\ud800"), "endless"],
    ids=["nan", "surrogate", "object", "refusal", "endless"],
)
async def test_a_member_that_cannot_be_written_does_not_take_the_others_with_it(bad: Any) -> None:
    """It becomes one error of its own."""
    endless: dict[str, Any] = {}
    endless["again"] = endless

    async def odd(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        if isinstance(bad, Exception):
            raise bad
        return endless if bad == "endless" else dict(bad)

    async with against_raw(Endpoint({"odd": odd, "echo": echo}), version=BATCHING) as (_, peer):
        await peer.send([request(1, "odd"), request(2, "echo", {"a": 1})])
        answers = by_id(await peer.next())

    assert answers[1]["code"] == ErrorCode.INTERNAL_ERROR
    assert answers[2] == {"a": 1}


async def test_what_belongs_to_a_member_does_not_wait_for_the_array() -> None:
    """Progress and reverse calls go out at once, and answers to those may come in a batch."""

    async def asking(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
        await ctx.progress(1)
        return await ask(ctx)

    async with against_raw(Endpoint({"t": asking}), version=BATCHING) as (_, peer):
        await peer.send([request(1, "t", {"_meta": {"progressToken": "p"}})])
        await peer.next_of(PROGRESS)
        asked = await peer.next_of("ask")
        await peer.send([{"jsonrpc": "2.0", "id": asked["id"], "result": {"yes": True}}])

        assert by_id(await peer.next()) == {1: {"yes": True}}


async def test_a_client_serves_batches_too(nursery: trio.Nursery) -> None:
    """Both sides must be able to receive them (2025-03-26 basic § Batching)."""
    endpoint = Endpoint({"ask": echo})
    async with against_raw(endpoint, role="client", version=BATCHING) as (session, peer):
        call = Outcome(nursery, lambda: session.call("x"))
        asked = await peer.next_of("x")
        await peer.send(
            [
                request("r1", "ask", {"a": 1}),
                request("r2", "ask", {"a": 2}),
                {"jsonrpc": "2.0", "id": asked["id"], "result": {"done": True}},
            ]
        )

        assert by_id(await peer.next()) == {"r1": {"a": 1}, "r2": {"a": 2}}
        assert await call.wait() == {"done": True}


async def test_a_session_that_closes_answers_what_is_open_of_a_batch() -> None:
    """With one error each, as for single requests."""

    async def hold(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep_forever()
        raise AssertionError

    endpoint = Endpoint({"hold": hold, "echo": echo})
    async with against_raw(endpoint, version=BATCHING) as (session, peer):
        await peer.send([request(1, "hold"), request(2, "echo", {})])
        await trio.testing.wait_all_tasks_blocked()
        session.close()
        answers = by_id(await peer.next())

    assert answers[1]["code"] == ErrorCode.INTERNAL_ERROR
    assert answers[2] == {}
