"""Requirements on what a store drops, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_trio.errors import EventsExpired, UnknownStream
from mcp_trio.limits import Limits

from .expect import RECORD, SettableClock, events, expect, holds, open_sessions, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .expect import OpenStore

#: A size beside which the bookkeeping of a few events does not count.
LARGE: Final = 10_000


async def a_stream_is_bounded_by_count(open_store: OpenStore) -> None:
    """Past the events per stream the oldest go, and a tail that misses them is refused."""
    async with open_store(Limits(events_per_stream=5), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "whole", events(*range(1, 9)))
        for n in range(1, 9):
            await store.append("s", "single", events(n))
        for stream in ("whole", "single"):
            await holds(store, "s", stream, 3, 4, 5, 6, 7, 8)
            await refused(EventsExpired, store.read("s", stream, 2), "a tail with a hole")
            await refused(EventsExpired, store.read("s", stream, 0), "a tail with a hole")


async def a_stream_is_bounded_by_bytes(open_store: OpenStore) -> None:
    """Past the bytes per stream the oldest events go, but the newest stays whatever its size."""
    async with open_store(Limits(event_bytes_per_stream=100), SettableClock()) as store:
        await open_sessions(store, "s")
        for n in range(1, 6):
            await store.append("s", "a", events(n, size=30))
        await holds(store, "s", "a", 2, 3, 4, 5)
        await refused(EventsExpired, store.read("s", "a", 1), "a tail with a hole")
        await store.append("s", "a", events(6, 7, size=1_000))
        await holds(store, "s", "a", 6, 7)
        await refused(EventsExpired, store.read("s", "a", 5), "a tail with a hole")
        await store.append("s", "a", events(8, size=30))
        await holds(store, "s", "a", 7, 8)


async def events_are_dropped_when_they_are_old(open_store: OpenStore) -> None:
    """An event is kept for less than the age; its stream, while unfinished, goes on without."""
    clock = SettableClock()
    async with open_store(Limits(event_age=60), clock) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1, 2))
        clock.advance(30)
        await store.append("s", "a", events(3))
        clock.advance(29.5)
        await holds(store, "s", "a", 0, 1, 2, 3)
        clock.advance(0.5)
        await refused(EventsExpired, store.read("s", "a", 1), "a tail with a hole")
        await holds(store, "s", "a", 2, 3)
        clock.advance(1_000)
        await holds(store, "s", "a", 3)
        await refused(EventsExpired, store.read("s", "a", 2), "a tail with a hole")
        await store.append("s", "a", events(3, 4))
        await holds(store, "s", "a", 3, 4)


async def finished_streams_are_forgotten_when_they_are_old(open_store: OpenStore) -> None:
    """A finished stream is known for less than the age after its finish, whatever it holds."""
    clock = SettableClock()
    async with open_store(Limits(event_age=60), clock) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1))
        clock.advance(40)
        await store.finish("s", "a")
        clock.advance(19.5)
        await store.finish("s", "a")
        await holds(store, "s", "a", 0, 1, finished=True)
        clock.advance(40)
        await holds(store, "s", "a", 1, finished=True)
        await refused(EventsExpired, store.read("s", "a", 0), "a tail with a hole")
        clock.advance(0.5)
        await refused(UnknownStream, store.read("s", "a", 1), "reading an old finished stream")
        expect((await store.statistics()).streams, 0, "the number of streams")


async def unused_sessions_are_forgotten(open_store: OpenStore) -> None:
    """A session is known until no method has served it for the age of session records."""
    clock = SettableClock()
    async with open_store(Limits(event_age=10_000, session_record_age=60), clock) as store:
        await open_sessions(store, "s", "unused")
        uses: tuple[Callable[[], Awaitable[object]], ...] = (
            lambda: store.append("s", "a", events(1)),
            lambda: store.read("s", "a", 0),
            lambda: store.finish("s", "a"),
            lambda: store.session("s"),
            lambda: store.open_session("s", RECORD),
        )
        for use in uses:
            clock.advance(59.5)
            await use()
        clock.advance(59.5)
        await holds(store, "s", "a", 0, 1, finished=True)
        expect(await store.session("unused"), None, "the record of an unused session")
        clock.advance(60)
        await refused(UnknownStream, store.read("s", "a", 0), "reading in an unused session")
        statistics = await store.statistics()
        expect((statistics.sessions, statistics.streams, statistics.events), (0, 0, 0), "counts")


async def finished_streams_go_first(open_store: OpenStore) -> None:
    """Past the bytes of the whole store, finished streams go whole, first finished first."""
    clock = SettableClock()
    async with open_store(Limits(event_bytes_total=6 * LARGE), clock) as store:
        await open_sessions(store, "s", "t")
        for session, stream in (("s", "open"), ("s", "late"), ("t", "early"), ("t", "other")):
            await store.append(session, stream, events(1, size=LARGE))
        for session, stream in (("t", "early"), ("s", "late")):
            clock.advance(1)
            await store.finish(session, stream)
        await store.append("t", "other", events(2, 3, size=LARGE))
        await refused(UnknownStream, store.read("t", "early", 0), "reading what went first")
        await holds(store, "s", "late", 0, 1, finished=True)
        await store.append("t", "other", events(4, size=LARGE))
        await refused(UnknownStream, store.read("s", "late", 0), "reading what went second")
        await holds(store, "s", "open", 0, 1)
        await holds(store, "t", "other", 0, 1, 2, 3, 4)


async def then_the_oldest_events_go(open_store: OpenStore) -> None:
    """Past the bytes of the whole store, and with no stream finished, the oldest events go."""
    limit = 5 * LARGE
    async with open_store(Limits(event_bytes_total=limit), SettableClock()) as store:
        await open_sessions(store, "s", "t")
        for n in (1, 2, 3):
            for session in ("s", "t"):
                await store.append(session, "a", events(n, size=LARGE))
                expect((await store.statistics()).bytes <= limit, True, "within the limit")
        # Six do not fit into five, and the bookkeeping takes the place of a fifth.
        for session in ("s", "t"):
            await holds(store, session, "a", 1, 2, 3)
            await refused(EventsExpired, store.read(session, "a", 0), "a tail with a hole")
        await store.append("s", "a", events(4, size=2 * limit))
        expect((await store.statistics()).bytes <= limit, True, "within the limit")
        await refused(EventsExpired, store.read("s", "a", 3), "a tail with a hole")
        await holds(store, "s", "a", 4)
        await holds(store, "t", "a", 3)


async def then_the_longest_unused_sessions_go(open_store: OpenStore) -> None:
    """Sessions without events count too, and the one unused for the longest time goes."""
    clock = SettableClock()
    limit = 4_096
    async with open_store(Limits(event_bytes_total=limit), clock) as store:
        await open_sessions(store, "used")
        for k in range(300):
            clock.advance(0.001)
            await open_sessions(store, f"s{k}")
            await store.append(f"s{k}", "a", ())
            clock.advance(0.001)
            await store.session("used")
        statistics = await store.statistics()
        expect(0 < statistics.bytes <= limit, True, "within the limit")
        expect(statistics.sessions < 300, True, "sessions have gone")
        expect(await store.session("s299"), RECORD, "the newest session")
        expect(await store.session("used"), RECORD, "an old session that is in use")
        expect(await store.session("s0"), None, "an old session")


async def statistics_tell_what_is_held(open_store: OpenStore) -> None:
    """The statistics count sessions, streams and events, and at least the events' bytes."""
    async with open_store(Limits(events_per_stream=3), SettableClock()) as store:
        await open_sessions(store, "s", "t")
        await store.append("s", "a", events(1, 2, 3, 4, size=1_000))
        await store.append("s", "b", ())
        await store.append("t", "a", events(1, size=1_000))
        held = await store.statistics()
        expect((held.sessions, held.streams, held.events), (2, 3, 4), "the counts")
        expect(4_000 <= held.bytes < 4_000 + 10_000, True, f"the bytes, {held.bytes}, fit")
        await store.forget_session("s")
        held = await store.statistics()
        expect((held.sessions, held.streams, held.events), (1, 1, 1), "the counts")
        expect(1_000 <= held.bytes < 1_000 + 10_000, True, f"the bytes, {held.bytes}, fit")
