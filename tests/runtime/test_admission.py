"""How much one process takes on: Busy past the limits, and shares of the worker threads."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio.errors import Busy, ErrorCode
from mcp_trio.limits import Limits
from mcp_trio.runtime.admission import Admission, ThreadShare
from tests.client.scripted import Outcome
from tests.peers import Endpoint, against_raw, ask, joined, request

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext


async def asking(ctx: HandlerContext, _: dict[str, Any]) -> dict[str, Any]:
    return await ask(ctx)


async def test_past_the_limit_the_answer_is_busy() -> None:
    """Each place given back is taken by the next request; pings are always answered."""
    async with against_raw(Endpoint({"t": asking}), limits=Limits(in_flight=2)) as (session, peer):
        await peer.send(*(request(n, "t") for n in range(4)), request("p", "ping"))
        messages = await peer.everything()
        asked = [m for m in messages if m.get("method") == "ask"]
        busy = [m for m in messages if "error" in m]
        assert len(asked) == 2
        assert {m["id"] for m in busy} == {2, 3}
        assert {m["error"]["code"] for m in busy} == {ErrorCode.BUSY}
        assert {"jsonrpc": "2.0", "id": "p", "result": {}} in messages
        for question in asked:
            await peer.answer(question["id"], {})
        await peer.next()
        await peer.next()
        await peer.request(5, "t")
        await peer.next_of("ask")

        assert session.statistics().busy_refused == 2


async def test_handlers_that_wait_for_answers_do_not_block_those(nursery: trio.Nursery) -> None:
    """The reader never stops: what handlers wait for may stand behind the next request."""
    answered: list[dict[str, Any] | None] = []

    async def answer(_: HandlerContext, __: dict[str, Any]) -> dict[str, Any]:
        await trio.testing.wait_all_tasks_blocked()
        return {"yes": True}

    async with joined(
        Endpoint({"t": asking}), Endpoint({"ask": answer}), limits=Limits(in_flight=4)
    ) as (client, _):

        async def call() -> None:
            try:
                answered.append(await client.call("t"))
            except Busy:
                answered.append(None)

        async with trio.open_nursery() as inner:
            for _ in range(10):
                inner.start_soon(call)

    assert answered.count({"yes": True}) == 4
    assert answered.count(None) == 6


async def test_sessions_share_one_admission() -> None:
    """The limit over all of them holds, and each request gives its place back however it ends."""
    admission = Admission(Limits(in_flight_total=3))
    endpoint = Endpoint({"t": asking})
    async with (
        against_raw(endpoint, admission=admission) as (first, one),
        against_raw(endpoint, admission=admission) as (second, two),
    ):
        await one.send(request(1, "t"), request(2, "t"))
        await trio.testing.wait_all_tasks_blocked()
        await two.send(request(1, "t"), request(2, "t"))
        refused = [m for m in await two.everything() if "error" in m]
        assert [m["error"]["code"] for m in refused] == [ErrorCode.BUSY]
        assert (admission.in_flight, admission.refused) == (3, 1)
        first.close()
        await first.wait_ended()
        assert admission.in_flight == 1
        await two.request(3, "t")
        await trio.testing.wait_all_tasks_blocked()
        assert admission.in_flight == 2
        assert second.statistics().busy_refused == 1

    assert admission.in_flight == 0


async def test_refused_requests_take_no_place() -> None:
    """Neither duplicates nor those of unknown methods, once answered."""
    admission = Admission(Limits(in_flight_total=2))
    async with against_raw(Endpoint({"t": asking}), admission=admission) as (_, peer):
        await peer.send(request(1, "t"), request(1, "t"), request(2, "nobody"))
        await peer.everything()

        assert admission.in_flight == 1


# ---------------------------------------------------------------- threads


async def test_hanging_threads_of_one_session_do_not_starve_another(
    nursery: trio.Nursery,
) -> None:
    """A slot counts until its thread ends, also when nobody waits for it any more."""
    admission = Admission(Limits(threads=4, threads_per_session=2))
    greedy, modest = (ThreadShare(admission.threads, 2) for _ in range(2))
    let_go = threading.Event()

    async def work(share: ThreadShare, fn: Any) -> None:
        await trio.to_thread.run_sync(fn, limiter=share, abandon_on_cancel=True)  # type: ignore[arg-type]  # as the library itself passes it

    try:
        async with trio.open_nursery() as inner:
            for _ in range(10):
                inner.start_soon(work, greedy, let_go.wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            inner.cancel_scope.cancel()
        assert admission.threads.borrowed_tokens == 2  # abandoned, but still there

        await work(modest, lambda: None)

        waiting = Outcome(nursery, lambda: work(greedy, lambda: None))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not waiting._ended.is_set()
    finally:
        let_go.set()
    await waiting.wait()
    with trio.fail_after(5):  # noqa: ASYNC912 - no wait where there is nothing to wait for
        while admission.threads.borrowed_tokens:  # noqa: ASYNC110 - threads know no events of trio
            await trio.sleep(0.001)


async def test_a_wait_for_a_thread_that_is_cancelled_takes_nothing() -> None:
    """Neither of the share nor of all."""
    everybody = trio.CapacityLimiter(1)
    share = ThreadShare(everybody, 1)
    await everybody.acquire_on_behalf_of("somebody")
    with trio.move_on_after(0.01):
        await share.acquire_on_behalf_of("me")
    everybody.release_on_behalf_of("somebody")

    with trio.fail_after(1):
        await share.acquire_on_behalf_of("me")
    with pytest.raises(trio.WouldBlock):
        everybody.acquire_on_behalf_of_nowait("another")
    share.release_on_behalf_of("me")
    assert everybody.borrowed_tokens == 0
