"""An event store in the memory of one process."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import OrderedDict, deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Self, final

import trio

from mcp_trio.abc import EventStoreStatistics, Tail
from mcp_trio.errors import UnknownStream
from mcp_trio.limits import Limits

from .bounds import EVENT_COST, SESSION_COST, STREAM_COST, check_tail, new_events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from mcp_trio.abc import SessionRecord, StoredEvent

__all__ = ["MemoryStore"]

#: Appends that follow each other for longer than this yield to other tasks (seconds).
_SLICE: Final = 0.001

_number: Final = attrgetter("n")


class _Session:
    __slots__ = ("name", "record", "served", "streams")

    def __init__(self, name: str, record: SessionRecord) -> None:
        self.name = name
        self.record = record
        self.served = 0.0
        self.streams: dict[str, _Stream] = {}


class _Stream:
    __slots__ = ("bytes", "dropped", "events", "finished", "last", "name", "session")

    def __init__(self, session: _Session, name: str) -> None:
        self.session = session
        self.name = name
        self.events: list[StoredEvent] = []
        self.bytes = 0
        self.last = 0
        #: The number of the last event that was dropped.
        self.dropped = 0
        self.finished: float | None = None


@final
class MemoryStore:
    """Keeps events in memory, within *limits*: see `mcp_trio.stores.bounds`.

    An append costs a few microseconds: it is a cancel point, but a full checkpoint only when
    none was passed within the last millisecond. *clock* returns seconds, never going back.
    """

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._limits = limits or Limits()
        self._clock = clock
        self._closed = False
        self._yielded = 0.0
        #: By name, the one served longest ago first.
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        #: The finished streams, the one finished first in front.
        self._finished: OrderedDict[_Stream, None] = OrderedDict()
        #: All appends in order: when, up to which number, to which stream. What has been
        #: dropped from a stream in another way leaves its entries here until they are swept.
        self._appends: deque[tuple[float, int, _Stream]] = deque()
        self._streams = 0
        self._events = 0
        #: What all of it counts against ``Limits.event_bytes_total``.
        self._cost = 0

    async def __aenter__(self) -> Self:
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def open_session(self, session: str, record: SessionRecord) -> None:
        """Remember *session*; see `mcp_trio.abc.EventStore.open_session`. A checkpoint."""
        await trio.lowlevel.checkpoint()
        now = self._begin()
        known = self._sessions.get(session)
        if known is None:
            known = self._sessions[session] = _Session(session, record)
            self._cost += SESSION_COST
        elif known.record != record:
            raise ValueError("this session is open with another record")
        self._serve(known, now)
        self._make_room()

    async def session(self, session: str) -> SessionRecord | None:
        """Return what is known of *session*. A checkpoint."""
        await trio.lowlevel.checkpoint()
        now = self._begin()
        known = self._sessions.get(session)
        if known is None:
            return None
        self._serve(known, now)
        return known.record

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        """Add *events* to *stream*; see `mcp_trio.abc.EventStore.append`.

        A cancel point, and a full checkpoint at least every millisecond; after Cancelled
        nothing was added.
        """
        if time.perf_counter() - self._yielded > _SLICE:
            await trio.lowlevel.checkpoint()
            self._yielded = time.perf_counter()
        else:
            await trio.lowlevel.checkpoint_if_cancelled()
        now = self._begin()
        known = self._sessions.get(session)
        if known is None:
            raise UnknownStream
        log = known.streams.get(stream) or _Stream(known, stream)
        new = new_events(events, last=log.last, finished=log.finished is not None)
        if stream not in known.streams:
            known.streams[stream] = log
            self._streams += 1
            self._cost += STREAM_COST
        self._serve(known, now)
        if new:
            self._extend(log, new, now)
        self._make_room()

    async def finish(self, session: str, stream: str) -> None:
        """Note that nothing more will come to *stream*. A checkpoint. Idempotent."""
        await trio.lowlevel.checkpoint()
        now = self._begin()
        log = self._find(session, stream)
        self._serve(log.session, now)
        if log.finished is None:
            log.finished = now
            self._finished[log] = None

    async def read(self, session: str, stream: str, after: int) -> Tail:
        """Return what came after event *after*, see `mcp_trio.abc.EventStore`. A checkpoint."""
        await trio.lowlevel.checkpoint()
        now = self._begin()
        log = self._find(session, stream)
        check_tail(after, last=log.last, dropped=log.dropped)
        self._serve(log.session, now)
        first = bisect_right(log.events, after, key=_number)
        return Tail(tuple(log.events[first:]), log.finished is not None)

    async def forget_session(self, session: str) -> None:
        """Drop *session* and all its streams, if it is known. A checkpoint."""
        await trio.lowlevel.checkpoint()
        self._begin()
        known = self._sessions.get(session)
        if known is not None:
            self._forget_session(known)

    async def statistics(self) -> EventStoreStatistics:
        """Count what is held now. A checkpoint."""
        await trio.lowlevel.checkpoint()
        self._begin()
        return EventStoreStatistics(
            sessions=len(self._sessions),
            streams=self._streams,
            events=self._events,
            bytes=self._cost,
        )

    async def aclose(self) -> None:
        """Drop everything. A checkpoint. Idempotent; the store is closed even if cancelled."""
        self._closed = True
        for held in (self._sessions, self._finished, self._appends):
            held.clear()
        self._streams = self._events = self._cost = 0
        await trio.lowlevel.checkpoint()

    # ------------------------------------------------------------ finding and adding

    def _begin(self) -> float:
        if self._closed:
            raise trio.ClosedResourceError("this event store is closed")
        now = self._clock()
        self._expire(now)
        return now

    def _find(self, session: str, stream: str) -> _Stream:
        known = self._sessions.get(session)
        log = known.streams.get(stream) if known is not None else None
        if log is None:
            raise UnknownStream
        return log

    def _serve(self, session: _Session, now: float) -> None:
        session.served = now
        self._sessions.move_to_end(session.name)

    def _extend(self, log: _Stream, events: Sequence[StoredEvent], now: float) -> None:
        log.events += events
        log.last = events[-1].n
        size = sum([len(event.data) for event in events])
        log.bytes += size
        self._cost += size + len(events) * EVENT_COST
        self._events += len(events)
        self._appends.append((now, log.last, log))
        limits = self._limits
        if len(log.events) > limits.events_per_stream or log.bytes > limits.event_bytes_per_stream:
            self._trim(log)

    # ------------------------------------------------------------ dropping

    def _expire(self, now: float) -> None:
        horizon = now - self._limits.event_age
        while self._appends and self._appends[0][0] <= horizon:
            _, last, log = self._appends.popleft()
            self._drop_until(log, last)
        while self._finished and (next(iter(self._finished)).finished or 0.0) <= horizon:
            self._forget_stream(next(iter(self._finished)))
        horizon = now - self._limits.session_record_age
        while self._sessions and next(iter(self._sessions.values())).served <= horizon:
            self._forget_session(next(iter(self._sessions.values())))

    def _trim(self, log: _Stream) -> None:
        too_many = len(log.events) - self._limits.events_per_stream
        too_large = log.bytes - self._limits.event_bytes_per_stream
        count = size = 0
        while (count < too_many or size < too_large) and count < len(log.events) - 1:
            size += len(log.events[count].data)
            count += 1
        self._drop(log, count, size)

    def _make_room(self) -> None:
        limit = self._limits.event_bytes_total
        if self._cost <= limit:
            return
        while self._finished and self._cost > limit:
            self._forget_stream(next(iter(self._finished)))
        while self._appends and self._cost > limit:
            _, last, log = self._appends[0]
            if last <= log.dropped:
                self._appends.popleft()
            else:
                self._drop_until(log, log.events[0].n)
        while len(self._sessions) > 1 and self._cost > limit:
            self._forget_session(next(iter(self._sessions.values())))

    def _drop_until(self, log: _Stream, last: int) -> None:
        """Drop the events of *log* up to number *last*."""
        count = bisect_right(log.events, last, key=_number)
        self._drop(log, count, sum([len(event.data) for event in log.events[:count]]))

    def _drop(self, log: _Stream, count: int, size: int) -> None:
        """Drop the *count* oldest events of *log*, which have *size* bytes."""
        if not count:
            return
        log.dropped = log.events[count - 1].n
        del log.events[:count]
        log.bytes -= size
        self._cost -= size + count * EVENT_COST
        self._events -= count
        if len(self._appends) > 2 * self._events + 64:
            # More than half of the entries stand for events that are gone. Sweeping them
            # costs as much as the drops did that made them, so nothing on the whole.
            self._appends = deque(entry for entry in self._appends if entry[1] > entry[2].dropped)

    def _forget_stream(self, log: _Stream) -> None:
        self._drop_until(log, log.last)
        self._finished.pop(log, None)
        del log.session.streams[log.name]
        self._streams -= 1
        self._cost -= STREAM_COST

    def _forget_session(self, session: _Session) -> None:
        for log in tuple(session.streams.values()):
            self._forget_stream(log)
        del self._sessions[session.name]
        self._cost -= SESSION_COST
