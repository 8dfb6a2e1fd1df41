"""What only the SQLite store promises: about its file, and about others who use it."""

from __future__ import annotations

import hashlib
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
import trio

from mcp_trio.abc import SessionRecord, StoredEvent
from mcp_trio.errors import StoreUnusable
from mcp_trio.stores import _tables, sqlite
from mcp_trio.stores.sqlite import SqliteStore

RECORD = SessionRecord(revision="r", principal="alice")
ONE = (StoredEvent(1, b"x"),)
HERE = str(Path(__file__).parents[2])


async def fill(path: Path, events: int = 1) -> None:
    async with SqliteStore(path) as store:
        await store.open_session("s", RECORD)
        await store.append("s", "a", [StoredEvent(n, b"x" * 1_000) for n in range(1, events + 1)])


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


# ---------------------------------------------------------------- the file


async def test_a_new_file_is_its_owners_alone(tmp_path: Path) -> None:
    """The log beside it, too, which holds the same events."""
    path = tmp_path / "events"
    async with SqliteStore(path) as store:
        await store.open_session("s", RECORD)
        modes = {file.name: file.stat().st_mode & 0o777 for file in files_in(tmp_path)}

    assert modes == {"events": 0o600, "events-wal": 0o600, "events-shm": 0o600}


async def test_the_mode_of_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.touch()
    path.chmod(0o640)
    await fill(path)

    assert path.stat().st_mode & 0o777 == 0o640


async def test_the_name_is_a_path_whatever_sqlite_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(":memory:")
    monkeypatch.chdir("/")
    async with store:
        await store.open_session("s", RECORD)

    assert (tmp_path / ":memory:").stat().st_size > 0


async def test_the_first_use_opens_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "events")
    await store.open_session("s", RECORD)

    assert await store.session("s") == RECORD
    await store.aclose()


async def test_a_store_that_was_never_used_can_be_closed(tmp_path: Path) -> None:
    await SqliteStore(tmp_path / "events").aclose()

    assert files_in(tmp_path) == []


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """With its path, and unchanged."""
    path = tmp_path / "events"
    path.write_bytes(b"no database at all" * 1_000)

    with pytest.raises(StoreUnusable, match=r"events: file is not a database"):
        await SqliteStore(path).__aenter__()

    assert path.read_bytes() == b"no database at all" * 1_000


async def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events"
    await fill(path, 100)
    data = path.read_bytes()
    path.write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))

    with pytest.raises(StoreUnusable, match=r"events: .*malformed") as caught:
        async with SqliteStore(path) as store:
            await store.read("s", "a", 0)

    assert isinstance(caught.value.__cause__, sqlite3.DatabaseError)


async def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events"
    await fill(path, 100)
    path.write_bytes(path.read_bytes()[: 4096 * 10])

    with pytest.raises(StoreUnusable, match=r"events: .*malformed"):
        async with SqliteStore(path) as store:
            await store.read("s", "a", 0)


async def test_a_file_that_cannot_be_used_is_not_kept_open(tmp_path: Path) -> None:
    """The tables are missing, which shows only after the connection was made."""
    path = tmp_path / "events"
    await fill(path)
    execute(path, "DROP TABLE held", "DROP TABLE events")
    store = SqliteStore(path)

    with pytest.raises(StoreUnusable, match="no such table"):
        await store.__aenter__()

    assert store._connection is None
    with pytest.raises(trio.ClosedResourceError):
        await store.session("s")


async def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events"
    await fill(path)
    execute(path, f"PRAGMA user_version = {_tables.VERSION + 1}")
    before = path.read_bytes()

    with pytest.raises(StoreUnusable, match="has version 2; only 1 is known"):
        await SqliteStore(path).__aenter__()

    assert path.read_bytes() == before


async def test_another_applications_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "events"
    execute(path, "CREATE TABLE sessions (cookie TEXT)")
    before = path.read_bytes()

    with pytest.raises(StoreUnusable, match="is a database of another application"):
        await SqliteStore(path).__aenter__()

    assert path.read_bytes() == before


async def test_a_folder_that_is_missing_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "events"

    with pytest.raises(StoreUnusable, match="No such file or directory"):
        await SqliteStore(path).__aenter__()


def test_the_version_is_that_of_the_tables() -> None:
    """Who changes the tables raises the version, or two builds would spoil one file."""
    digest = hashlib.sha256(_tables._SCHEMA.encode()).hexdigest()[:16]

    assert {_tables.VERSION: digest} == {1: "0fed36be6b2f8768"}


# ---------------------------------------------------------------- failing and going on


async def test_a_full_disk_adds_nothing_and_is_survived(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "events") as store:
        await store.open_session("s", RECORD)
        await store.append("s", "a", ONE)
        connection = store._connection
        assert connection is not None
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        large = [StoredEvent(n, b"x" * 10_000) for n in range(2, 12)]
        with pytest.raises(StoreUnusable, match="full"):
            await store.append("s", "a", large)
        assert (await store.read("s", "a", 0)).events == ONE
        connection.execute("PRAGMA max_page_count = 100000")
        await store.append("s", "a", large)

        assert (await store.read("s", "a", 1)).events == tuple(large)


async def test_a_clock_that_fails_leaves_no_transaction_open(tmp_path: Path) -> None:
    times: list[float] = [1.0, 1.0]
    async with SqliteStore(tmp_path / "events", clock=times.pop) as store:
        await store.open_session("s", RECORD)
        with pytest.raises(IndexError):
            await store.append("s", "a", ONE)
        times.append(1.0)

        assert await store.session("s") == RECORD


async def test_a_transaction_that_runs_is_not_cancelled(tmp_path: Path) -> None:
    """What has begun takes effect, and the caller learns so."""
    scope = trio.CancelScope()

    def clock() -> float:
        if armed:
            trio.from_thread.run_sync(scope.cancel)
        return 1.0

    armed = False
    async with SqliteStore(tmp_path / "events", clock=clock) as store:
        await store.open_session("s", RECORD)
        armed = True
        with scope:
            await store.append("s", "a", ONE)
        armed = False

        assert not scope.cancelled_caught
        assert (await store.read("s", "a", 0)).events == ONE


# ---------------------------------------------------------------- others who use the file


async def test_a_writer_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "events"
    async with SqliteStore(path) as store:
        await store.open_session("s", RECORD)
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.05, other.execute, ["COMMIT"])
        timer.start()
        await store.append("s", "a", ONE)
        timer.join()
        other.close()

        assert (await store.read("s", "a", 0)).events == ONE


async def test_a_writer_that_hangs_is_reported_and_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_PATIENCE", 0.05)
    path = tmp_path / "events"
    async with SqliteStore(path) as store:
        await store.open_session("s", RECORD)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnusable, match="locked"):
                await store.append("s", "a", ONE)
            other.execute("COMMIT")
        await store.append("s", "a", ONE)

        assert (await store.read("s", "a", 0)).events == ONE


WRITER = """
import sys, trio
from mcp_trio.abc import SessionRecord, StoredEvent
from mcp_trio.stores.sqlite import SqliteStore

async def main(path, stream):
    print("ready", flush=True)
    sys.stdin.readline()
    async with SqliteStore(path) as store:
        await store.open_session("s", SessionRecord(revision="r", principal="alice"))
        for n in range(1, 100_000):
            await store.append("s", stream, (StoredEvent(n, b"x"),))
            print(n, flush=True)

trio.run(main, *sys.argv[1:])
"""


def test_processes_share_a_file_and_a_killed_one_loses_nothing(tmp_path: Path) -> None:
    """Both make the file at the same time; what either has acknowledged is there."""
    path = tmp_path / "events"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), stream],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )
        for stream in ("a", "b")
    ]
    acknowledged = []
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    time.sleep(0.1)
    for writer in writers:
        assert writer.stdout is not None
        first = writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        rest = writer.stdout.read()
        acknowledged.append([int(line) for line in (first + rest).splitlines(keepends=True)])
        writer.communicate()

    async def stored(stream: str) -> list[int]:
        async with SqliteStore(path) as store:
            return [event.n for event in (await store.read("s", stream, 0)).events]

    for stream, numbers in zip(("a", "b"), acknowledged, strict=True):
        kept = trio.run(stored, stream)
        assert kept == list(range(1, len(kept) + 1))
        assert 0 < len(numbers) <= len(kept) <= len(numbers) + 1
