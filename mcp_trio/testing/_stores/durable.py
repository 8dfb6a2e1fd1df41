"""Requirements on stores that outlive their process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from mcp_trio.errors import EventsExpired, UnknownStream
from mcp_trio.limits import Limits

from .expect import RECORD, SettableClock, events, expect, holds, open_sessions, refused

if TYPE_CHECKING:
    from mcp_trio.abc import EventStore

    from .expect import OpenStore


async def what_was_stored_outlives_the_store(open_store: OpenStore) -> None:
    """Sessions, tails, what was dropped and what is finished are there after opening again."""
    clock = SettableClock()
    limits = Limits(events_per_stream=3)
    async with open_store(limits, clock) as store:
        await open_sessions(store, "outlives")
        await store.append("outlives", "finished", events(1, 2))
        await store.finish("outlives", "finished")
        await store.append("outlives", "cut", events(1, 2, 3, 4))
        before = await store.statistics()
    async with open_store(limits, clock) as store:
        expect(await store.statistics(), before, "the statistics")
        expect(await store.session("outlives"), RECORD, "the record")
        await holds(store, "outlives", "finished", 1, 2, finished=True)
        await refused(EventsExpired, store.read("outlives", "cut", 0), "a tail with a hole")
        await store.append("outlives", "cut", events(4, 5))
        await holds(store, "outlives", "cut", 2, 3, 4, 5)


async def age_counts_while_nothing_is_open(open_store: OpenStore) -> None:
    """What gets too old between two openings is gone at the second."""
    clock = SettableClock()
    limits = Limits(event_age=60, session_record_age=100)
    async with open_store(limits, clock) as store:
        await open_sessions(store, "ages")
        await store.append("ages", "a", events(1))
        await store.finish("ages", "a")
        await store.append("ages", "b", events(1))
    clock.advance(60)
    async with open_store(limits, clock) as store:
        await refused(UnknownStream, store.read("ages", "a", 0), "reading an old stream")
        await refused(EventsExpired, store.read("ages", "b", 0), "a tail with a hole")
    clock.advance(100)
    async with open_store(limits, clock) as store:
        expect(await store.session("ages"), None, "the record of an old session")


async def two_may_share_one_place(open_store: OpenStore) -> None:
    """Two stores opened on one place at once see each other's sessions and events."""
    clock = SettableClock()
    async with open_store(Limits(), clock) as one, open_store(Limits(), clock) as two:
        await open_sessions(one, "shared")
        expect(await two.session("shared"), RECORD, "the record in the other store")

        async def write(store: EventStore, stream: str) -> None:
            await trio.lowlevel.checkpoint()
            for n in range(1, 21):
                await store.append("shared", stream, events(n))

        async with trio.open_nursery() as nursery:
            for store in (one, two):
                nursery.start_soon(write, store, "same")
            nursery.start_soon(write, one, "a")
            nursery.start_soon(write, two, "b")
        for store in (one, two):
            for stream in ("same", "a", "b"):
                await holds(store, "shared", stream, 0, *range(1, 21))
        await two.forget_session("shared")
        call = one.append("shared", "a", events(21))
        await refused(UnknownStream, call, "an append to what the other store forgot")
