"""Stores with one fault each, to see that the conformance kit finds it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import attrs
import trio

from mcp_trio.abc import EventStoreStatistics, SessionRecord, StoredEvent, Tail
from mcp_trio.errors import EventsExpired, UnknownStream
from mcp_trio.stores.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from mcp_trio.limits import Limits


class Whole:
    """A store without a fault, around which the others are written."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.inner = MemoryStore(limits=limits, clock=clock)

    @classmethod
    @asynccontextmanager
    async def opened(cls, limits: Limits, clock: Callable[[], float]) -> AsyncIterator[Whole]:
        yield cls(limits, clock)

    async def open_session(self, session: str, record: SessionRecord) -> None:
        await self.inner.open_session(session, record)

    async def session(self, session: str) -> SessionRecord | None:
        return await self.inner.session(session)

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await self.inner.append(session, stream, events)

    async def finish(self, session: str, stream: str) -> None:
        await self.inner.finish(session, stream)

    async def read(self, session: str, stream: str, after: int) -> Tail:
        return await self.inner.read(session, stream, after)

    async def forget_session(self, session: str) -> None:
        await self.inner.forget_session(session)

    async def statistics(self) -> EventStoreStatistics:
        return await self.inner.statistics()

    async def aclose(self) -> None:
        await self.inner.aclose()


class DropsThePrincipal(Whole):
    async def session(self, session: str) -> SessionRecord | None:
        record = await super().session(session)
        return record and attrs.evolve(record, principal=None)


class ReplacesTheRecord(Whole):
    async def open_session(self, session: str, record: SessionRecord) -> None:
        await self.forget_session(session)
        await super().open_session(session, record)


class StripsWhiteSpace(Whole):
    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        stripped = tuple(StoredEvent(event.n, event.data.strip()) for event in events)
        await super().append(session, stream, stripped)


class StoresRepeatsAgain(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(limits, clock)
        self.stored: list[tuple[str, str, StoredEvent]] = []

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await super().append(session, stream, events)
        self.stored += [(session, stream, event) for event in events]

    async def read(self, session: str, stream: str, after: int) -> Tail:
        tail = await super().read(session, stream, after)
        events = [e for s, name, e in self.stored if (s, name) == (session, stream) and e.n > after]
        return attrs.evolve(tail, events=tuple(events))


class AppendsOneByOne(Whole):
    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await super().append(session, stream, ())
        for event in events:
            await trio.lowlevel.checkpoint()
            await super().append(session, stream, (event,))


class ReadsPastTheEnd(Whole):
    async def read(self, session: str, stream: str, after: int) -> Tail:
        tail = await super().read(session, stream, 0)
        return attrs.evolve(tail, events=tuple(e for e in tail.events if e.n > after))


class ForgetsThatAStreamIsFinished(Whole):
    async def read(self, session: str, stream: str, after: int) -> Tail:
        return attrs.evolve(await super().read(session, stream, after), finished=False)


class ReadsAnybodysStreams(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(limits, clock)
        self.sessions: list[str] = []

    async def open_session(self, session: str, record: SessionRecord) -> None:
        await super().open_session(session, record)
        self.sessions.append(session)

    async def read(self, session: str, stream: str, after: int) -> Tail:
        for candidate in (session, *self.sessions):
            try:
                return await super().read(candidate, stream, after)
            except UnknownStream:
                continue
        raise UnknownStream


class JoinsNames(Whole):
    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        if await self.session(session) is None:
            raise UnknownStream
        await super().open_session("all", SessionRecord(revision=""))
        await super().append("all", f"{session}:{stream}", events)

    async def finish(self, session: str, stream: str) -> None:
        await super().finish("all", f"{session}:{stream}")

    async def read(self, session: str, stream: str, after: int) -> Tail:
        return await super().read("all", f"{session}:{stream}", after)


class FoldsCase(Whole):
    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await super().open_session(session.lower(), SessionRecord(revision="r1", principal="alice"))
        await super().append(session.lower(), stream, events)

    async def read(self, session: str, stream: str, after: int) -> Tail:
        return await super().read(session.lower(), stream, after)


class ForgetsNoSession(Whole):
    async def forget_session(self, session: str) -> None:
        await self.session(session)


class BringsSessionsBack(Whole):
    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await super().open_session(session, SessionRecord(revision="r1", principal="alice"))
        await super().append(session, stream, events)


class KeepsEveryEvent(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        none = {"events_per_stream": 10**9, "event_bytes_per_stream": 10**9}
        super().__init__(attrs.evolve(limits, **none), clock)


class LosesLargeEvents(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(limits, clock)
        self.bound = limits.event_bytes_per_stream

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        small = tuple(event for event in events if len(event.data) <= self.bound)
        await super().append(session, stream, small)


class HidesHoles(Whole):
    async def read(self, session: str, stream: str, after: int) -> Tail:
        try:
            return await super().read(session, stream, after)
        except EventsExpired as expired:
            return await super().read(session, stream, expired.dropped)


class NothingGetsOld(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        now = clock()
        super().__init__(limits, lambda: now)


class ForgetsSessionsInUse(Whole):
    """Whose age counts from when they were opened."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(limits, clock)
        self.age = limits.session_record_age
        self.clock = clock
        self.opened_at: dict[str, float] = {}

    async def open_session(self, session: str, record: SessionRecord) -> None:
        self.opened_at.setdefault(session, self.clock())
        await super().open_session(session, record)

    async def session(self, session: str) -> SessionRecord | None:
        if self.clock() - self.opened_at.get(session, 0) >= self.age:
            await self.forget_session(session)
        return await super().session(session)


class HasNoBoundInAll(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(attrs.evolve(limits, event_bytes_total=10**12), clock)


class KeepsFinishedStreamsLongest(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(limits, clock)
        self.finished: set[tuple[str, str]] = set()

    async def finish(self, session: str, stream: str) -> None:
        await super().read(session, stream, 0)
        self.finished.add((session, stream))

    async def read(self, session: str, stream: str, after: int) -> Tail:
        tail = await super().read(session, stream, after)
        return attrs.evolve(tail, finished=(session, stream) in self.finished)


class MiscountsEvents(Whole):
    async def statistics(self) -> EventStoreStatistics:
        held = await super().statistics()
        return attrs.evolve(held, events=held.events + 1)


class NeverYields(Whole):
    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        super().__init__(limits, clock)
        self.inner._yielded = float("inf")


class ReadsWithoutACheckpoint(Whole):
    async def session(self, session: str) -> SessionRecord | None:
        known = self.inner._sessions.get(session)
        return known.record if known is not None else None


class CannotBeCancelled(Whole):
    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        with trio.CancelScope(shield=True):
            await super().append(session, stream, events)


class StoresWhatWasCancelled(Whole):
    """As a store does that abandons its worker thread."""

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            await trio.lowlevel.checkpoint()
        finally:
            with trio.CancelScope(shield=True):
                await super().append(session, stream, events)


class WorksAfterItsEnd(Whole):
    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


#: Each broken store, and a requirement that is there to find it.
BROKEN: tuple[tuple[type[Whole], str], ...] = (
    (DropsThePrincipal, "sessions_are_remembered"),
    (ReplacesTheRecord, "opening_a_session_again_changes_nothing"),
    (StripsWhiteSpace, "a_tail_is_exact"),
    (StoresRepeatsAgain, "an_append_may_be_repeated"),
    (AppendsOneByOne, "an_append_is_all_or_nothing"),
    (ReadsPastTheEnd, "a_stream_begins_with_its_first_append"),
    (ForgetsThatAStreamIsFinished, "a_finished_stream_stays_as_it_is"),
    (ReadsAnybodysStreams, "a_session_has_its_own_streams_only"),
    (JoinsNames, "a_session_has_its_own_streams_only"),
    (FoldsCase, "a_session_has_its_own_streams_only"),
    (ForgetsNoSession, "a_forgotten_session_is_gone"),
    (BringsSessionsBack, "a_late_append_brings_nothing_back"),
    (KeepsEveryEvent, "a_stream_is_bounded_by_count"),
    (LosesLargeEvents, "a_stream_is_bounded_by_bytes"),
    (HidesHoles, "events_are_dropped_when_they_are_old"),
    (NothingGetsOld, "finished_streams_are_forgotten_when_they_are_old"),
    (ForgetsSessionsInUse, "unused_sessions_are_forgotten"),
    (KeepsFinishedStreamsLongest, "finished_streams_go_first"),
    (HasNoBoundInAll, "then_the_oldest_events_go"),
    (HasNoBoundInAll, "then_the_longest_unused_sessions_go"),
    (MiscountsEvents, "statistics_tell_what_is_held"),
    (NeverYields, "every_method_is_a_checkpoint"),
    (ReadsWithoutACheckpoint, "every_method_is_a_checkpoint"),
    (CannotBeCancelled, "a_cancelled_call_does_nothing"),
    (StoresWhatWasCancelled, "a_cancel_parts_no_append"),
    (AppendsOneByOne, "tasks_may_use_a_store_at_once"),
    (WorksAfterItsEnd, "a_closed_store_refuses"),
)
