"""What only the memory store promises: the memory it takes and the time it takes."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import trio

from mcp_trio.abc import SessionRecord, StoredEvent
from mcp_trio.limits import Limits
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.testing.stores import SettableClock

RECORD = SessionRecord(revision="r", principal="alice")


async def test_what_the_store_counts_covers_the_memory_it_takes() -> None:
    """The flat charges are no guesses: a full store takes no more than the limit says."""
    store = MemoryStore()
    await store.open_session("s", RECORD)
    await trio.lowlevel.checkpoint()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for k in range(200):
            session = f"session number {k:020}"
            await store.open_session(session, SessionRecord(revision="r", principal=f"p{k:030}"))
            for stream in (f"one {k}", f"two {k}"):
                for n in range(1_000, 1_005):
                    await store.append(session, stream, (StoredEvent(n, b"%d" % n * 10),))
                await store.finish(session, stream)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = (await store.statistics()).bytes

    assert counted / 3 < after - before <= counted


async def test_what_is_dropped_leaves_nothing_behind() -> None:
    """Appends are remembered in order; those whose events went another way are swept out."""
    clock = SettableClock()
    store = MemoryStore(limits=Limits(events_per_stream=2), clock=clock)
    await store.open_session("s", RECORD)
    longest = 0
    for k in range(1_000):
        await store.append("s", f"a{k % 3}", (StoredEvent(k + 1, b"x"),))
        if k % 100 == 99:
            await store.forget_session("s")
            await store.open_session("s", RECORD)
        longest = max(longest, len(store._appends))

    assert longest <= 2 * 3 * 2 + 64 + 1
    clock.advance(10_000)
    assert (await store.statistics()).events == 0
    assert len(store._appends) == 0


async def test_age_is_told_by_the_clock_of_the_run(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryStore(limits=Limits(event_age=60))
    await store.open_session("s", RECORD)
    await store.append("s", "a", (StoredEvent(1, b"x"),))
    await trio.sleep(59)
    assert (await store.statistics()).events == 1
    await trio.sleep(1)

    assert (await store.statistics()).events == 0


async def test_a_closed_store_holds_nothing() -> None:
    async with MemoryStore() as store:
        await store.open_session("s", RECORD)
        await store.append("s", "a", (StoredEvent(1, b"x"),))

    assert (len(store._sessions), len(store._appends), store._cost) == (0, 0, 0)


def test_the_memory_store_needs_no_database() -> None:
    program = "import sys, mcp_trio.stores.memory; print('sqlite3' in sys.modules)"

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "False"
