"""Whatever is done in whatever order, our stores hold what the simplest store would hold."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
from attrs import evolve
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from mcp_trio.abc import SessionRecord, StoredEvent
from mcp_trio.errors import StoreError
from mcp_trio.limits import Limits
from mcp_trio.stores.bounds import EVENT_COST, SESSION_COST, STREAM_COST
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.stores.sqlite import SqliteStore
from mcp_trio.testing.stores import SettableClock
from tests.stores.model import Model

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.abc import EventStore

sessions = st.sampled_from(["s", "t", "u"])
streams = st.sampled_from(["a", "b"])
records = st.sampled_from([SessionRecord(revision="r"), SessionRecord(revision="r", principal="p")])
#: Ages, counts and sizes so small that a run meets every bound. The smaller total is met
#: exactly by a session with a stream of four empty events.
SMALL = Limits(
    events_per_stream=6,
    event_bytes_per_stream=400,
    event_age=10,
    event_bytes_total=6_000,
    session_record_age=25,
)
SMALLER = evolve(SMALL, event_bytes_total=SESSION_COST + STREAM_COST + 4 * EVENT_COST)


def outcome(call: Callable[[], object]) -> object:
    """What *call* returns, or which error it raises and with what."""
    try:
        return call()
    except (StoreError, ValueError) as error:
        return type(error), getattr(error, "dropped", None)


class MemoryMachine(RuleBasedStateMachine):
    """Does the same to a store and to the model."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SettableClock()
        self.limits = SMALL
        self.model = Model(SMALL, self.clock)
        self.store: EventStore = self.open()

    @initialize(limits=st.sampled_from([SMALL, SMALLER]))
    def choose_limits(self, limits: Limits) -> None:
        self.limits = limits
        self.model = Model(limits, self.clock)
        self.store = self.open()

    def open(self) -> EventStore:
        return MemoryStore(limits=self.limits, clock=self.clock)

    def both(self, method: str, *args: Any) -> None:
        """Expect that the store does to *args* what the model does."""
        # No two uses at the same time: their order would not be told.
        self.clock.advance(1 / 1024)

        async def call() -> Any:
            return await getattr(self.store, method)(*args)

        expected = outcome(lambda: getattr(self.model, method)(*args))
        actual = outcome(lambda: trio.run(call))

        assert actual == expected

    @rule(session=sessions, record=records)
    def open_session(self, session: str, record: SessionRecord) -> None:
        self.both("open_session", session, record)

    @rule(session=sessions)
    def session(self, session: str) -> None:
        self.both("session", session)

    @rule(
        session=sessions,
        stream=streams,
        skip=st.integers(-3, 3),
        sizes=st.lists(st.sampled_from([0, 1, 90, 150, 700]), max_size=8),
    )
    def append(self, session: str, stream: str, skip: int, sizes: list[int]) -> None:
        """Append after the last number, or again, or with a gap."""
        known = self.model.streams.get((session, stream))
        first = (known.last if known else 0) + skip + 1
        events = [StoredEvent(first + k, bytes([k]) * size) for k, size in enumerate(sizes)]
        self.both("append", session, stream, events)

    @rule(session=sessions, stream=streams, numbers=st.lists(st.integers(-1, 12), max_size=4))
    def append_anything(self, session: str, stream: str, numbers: list[int]) -> None:
        self.both("append", session, stream, [StoredEvent(n, b"x") for n in numbers])

    @rule(session=sessions, stream=streams)
    def finish(self, session: str, stream: str) -> None:
        self.both("finish", session, stream)

    @rule(session=sessions, stream=streams, back=st.integers(-2, 10))
    def read(self, session: str, stream: str, back: int) -> None:
        known = self.model.streams.get((session, stream))
        self.both("read", session, stream, max(0, (known.last if known else 0) - back))

    @rule(session=sessions)
    def forget_session(self, session: str) -> None:
        self.both("forget_session", session)

    @rule(seconds=st.sampled_from([0.5, 3, 6, 11, 26]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(session=sessions, stream=streams)
    def append_cancelled(self, session: str, stream: str) -> None:
        """A call that never begins does nothing, to the model neither."""

        async def call() -> bool:
            with trio.CancelScope() as scope:
                scope.cancel()
                await self.store.append(session, stream, [StoredEvent(10_000, b"x")])
            return scope.cancelled_caught

        assert trio.run(call)

    @invariant()
    def they_hold_the_same(self) -> None:
        self.both("statistics")

    def teardown(self) -> None:
        trio.run(self.store.aclose)


class SqliteMachine(MemoryMachine):
    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        super().__init__()

    def open(self) -> SqliteStore:
        return SqliteStore(Path(self.folder.name, "db"), limits=self.limits, clock=self.clock)

    @rule()
    def open_again(self) -> None:
        trio.run(self.store.aclose)
        self.store = self.open()

    def teardown(self) -> None:
        """The counts that triggers keep are those of the rows."""
        super().teardown()
        connection = sqlite3.connect(Path(self.folder.name, "db"))
        counted = connection.execute(COUNTS).fetchone()
        held = connection.execute("SELECT sessions, streams, events, bytes FROM held").fetchone()
        connection.close()
        self.folder.cleanup()

        assert held == counted


COUNTS = f"""
SELECT sessions, streams, events, size + {SESSION_COST} * sessions + {STREAM_COST} * streams
    + {EVENT_COST} * events FROM
    (SELECT count(*) AS sessions FROM sessions), (SELECT count(*) AS streams FROM streams),
    (SELECT count(*) AS events, total(length(data)) AS size FROM events)
"""  # noqa: S608 - only numbers are put in

RUNS = settings(stateful_step_count=30, suppress_health_check=list(HealthCheck))


@pytest.mark.parametrize("machine", [MemoryMachine, SqliteMachine])
def test_a_store_holds_what_the_model_holds(machine: type[MemoryMachine]) -> None:
    run_state_machine_as_test(machine, settings=RUNS)
