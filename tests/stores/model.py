"""An event store as simple as can be, for comparison: lists, searched from end to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from mcp_trio.abc import EventStoreStatistics, SessionRecord, StoredEvent, Tail
from mcp_trio.errors import EventsExpired, UnknownStream
from mcp_trio.stores.bounds import EVENT_COST, SESSION_COST, STREAM_COST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcp_trio.limits import Limits


@define
class ModelSession:
    record: SessionRecord
    served: float


@define
class ModelStream:
    last: int = 0
    dropped: int = 0
    finished: float | None = None


@define
class ModelEvent:
    key: tuple[str, str]
    event: StoredEvent
    at: float


@define
class Model:
    limits: Limits
    clock: Callable[[], float]
    sessions: dict[str, ModelSession] = field(factory=dict)
    streams: dict[tuple[str, str], ModelStream] = field(factory=dict)
    events: list[ModelEvent] = field(factory=list)

    def open_session(self, session: str, record: SessionRecord) -> None:
        self.expire()
        if session in self.sessions and self.sessions[session].record != record:
            raise ValueError
        self.sessions[session] = ModelSession(record, self.clock())
        self.make_room(session)

    def session(self, session: str) -> SessionRecord | None:
        self.expire()
        if session not in self.sessions:
            return None
        self.sessions[session].served = self.clock()
        return self.sessions[session].record

    def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        self.expire()
        if session not in self.sessions:
            raise UnknownStream
        numbers = [event.n for event in events]
        if numbers != sorted(set(numbers)) or min(numbers, default=1) < 1:
            raise ValueError
        known = self.streams.get((session, stream), ModelStream())
        new = [event for event in events if event.n > known.last]
        if new and known.finished is not None:
            raise ValueError
        self.streams[session, stream] = known
        self.sessions[session].served = self.clock()
        for event in new:
            self.events.append(ModelEvent((session, stream), event, self.clock()))
            known.last = event.n
        self.trim((session, stream))
        self.make_room(session)

    def finish(self, session: str, stream: str) -> None:
        self.expire()
        known = self.find(session, stream)
        self.sessions[session].served = self.clock()
        if known.finished is None:
            known.finished = self.clock()

    def read(self, session: str, stream: str, after: int) -> Tail:
        self.expire()
        known = self.find(session, stream)
        if after > known.last:
            raise UnknownStream
        if after < known.dropped:
            raise EventsExpired(known.dropped)
        self.sessions[session].served = self.clock()
        events = [e.event for e in self.events_of((session, stream)) if e.event.n > after]
        return Tail(tuple(events), known.finished is not None)

    def forget_session(self, session: str) -> None:
        self.expire()
        self.sessions.pop(session, None)
        for key in [key for key in self.streams if key[0] == session]:
            self.forget_stream(key)

    def statistics(self) -> EventStoreStatistics:
        self.expire()
        return EventStoreStatistics(
            sessions=len(self.sessions),
            streams=len(self.streams),
            events=len(self.events),
            bytes=self.cost(),
        )

    # ------------------------------------------------------------ the policy

    def find(self, session: str, stream: str) -> ModelStream:
        if (session, stream) not in self.streams:
            raise UnknownStream
        return self.streams[session, stream]

    def events_of(self, key: tuple[str, str]) -> list[ModelEvent]:
        return [event for event in self.events if event.key == key]

    def drop(self, event: ModelEvent) -> None:
        self.events.remove(event)
        self.streams[event.key].dropped = event.event.n

    def forget_stream(self, key: tuple[str, str]) -> None:
        self.events = [event for event in self.events if event.key != key]
        del self.streams[key]

    def expire(self) -> None:
        now = self.clock()
        for event in [e for e in self.events if now - e.at >= self.limits.event_age]:
            self.drop(event)
        for key, stream in list(self.streams.items()):
            if stream.finished is not None and now - stream.finished >= self.limits.event_age:
                self.forget_stream(key)
        for name, session in list(self.sessions.items()):
            if now - session.served >= self.limits.session_record_age:
                del self.sessions[name]
                for key in [key for key in self.streams if key[0] == name]:
                    self.forget_stream(key)

    def trim(self, key: tuple[str, str]) -> None:
        def too_much(held: list[ModelEvent]) -> bool:
            size = sum(len(e.event.data) for e in held)
            return (
                len(held) > self.limits.events_per_stream
                or size > self.limits.event_bytes_per_stream
            )

        while len(held := self.events_of(key)) > 1 and too_much(held):
            self.drop(held[0])

    def cost(self) -> int:
        return (
            sum(len(event.event.data) + EVENT_COST for event in self.events)
            + len(self.streams) * STREAM_COST
            + len(self.sessions) * SESSION_COST
        )

    def make_room(self, at_hand: str) -> None:
        while self.cost() > self.limits.event_bytes_total:
            finished = [(s.finished, key) for key, s in self.streams.items() if s.finished]
            unused = [(s.served, name) for name, s in self.sessions.items() if name != at_hand]
            if finished:
                self.forget_stream(min(finished)[1])
            elif self.events:
                self.drop(self.events[0])
            elif unused:
                name = min(unused)[1]
                del self.sessions[name]
                for key in [key for key in self.streams if key[0] == name]:
                    self.forget_stream(key)
            else:
                return
