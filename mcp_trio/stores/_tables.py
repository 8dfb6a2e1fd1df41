"""The tables of the SQLite event store, and the steps that its transactions consist of."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Final

from mcp_trio.abc import EventStoreStatistics, SessionRecord, StoredEvent, Tail
from mcp_trio.errors import StoreUnusable, UnknownStream

from .bounds import EVENT_COST, SESSION_COST, STREAM_COST, check_tail, new_events

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from mcp_trio.limits import Limits

#: Marks the file as ours ("mcpe"), so that no other application's file is written to.
APPLICATION: Final = 0x6D637065
#: The version of the tables below; raise it with every change to them.
VERSION: Final = 1

# Names are blobs, since they come from the wire and may be text that is no UTF-8. Event ids
# only grow, so they are the order of all appends. The triggers keep the counts right
# whichever way a row goes, also by a cascade. The charges are in them, so they are part of
# the version too.
_SCHEMA: Final = f"""
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE,
    revision BLOB NOT NULL,
    principal BLOB,
    served REAL NOT NULL
);
CREATE INDEX sessions_by_service ON sessions (served);
CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
    name BLOB NOT NULL,
    last INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0,
    events INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0,
    finished REAL,
    UNIQUE (session, name)
);
CREATE INDEX streams_by_finish ON streams (finished) WHERE finished IS NOT NULL;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL REFERENCES streams ON DELETE CASCADE,
    n INTEGER NOT NULL,
    stored REAL NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (stream, n)
);
CREATE TABLE held (sessions INTEGER, streams INTEGER, events INTEGER, bytes INTEGER);
INSERT INTO held VALUES (0, 0, 0, 0);
CREATE TRIGGER session_added AFTER INSERT ON sessions BEGIN
    UPDATE held SET sessions = sessions + 1, bytes = bytes + {SESSION_COST};
END;
CREATE TRIGGER session_gone AFTER DELETE ON sessions BEGIN
    UPDATE held SET sessions = sessions - 1, bytes = bytes - {SESSION_COST};
END;
CREATE TRIGGER stream_added AFTER INSERT ON streams BEGIN
    UPDATE held SET streams = streams + 1, bytes = bytes + {STREAM_COST};
END;
CREATE TRIGGER stream_gone AFTER DELETE ON streams BEGIN
    UPDATE held SET streams = streams - 1, bytes = bytes - {STREAM_COST};
END;
CREATE TRIGGER event_added AFTER INSERT ON events BEGIN
    UPDATE streams SET last = new.n, events = events + 1, bytes = bytes + length(new.data)
        WHERE id = new.stream;
    UPDATE held SET events = events + 1, bytes = bytes + length(new.data) + {EVENT_COST};
END;
CREATE TRIGGER event_gone AFTER DELETE ON events BEGIN
    UPDATE streams SET dropped = max(dropped, old.n), events = events - 1,
        bytes = bytes - length(old.data) WHERE id = old.stream;
    UPDATE held SET events = events - 1, bytes = bytes - length(old.data) - {EVENT_COST};
END;
"""  # noqa: S608 - all of it is written here


def prepare(connection: sqlite3.Connection, path: Path, *, patience: float) -> None:
    """Make *connection* ready for use, and the tables where the file is new.

    Raises:
        StoreUnusable: the file is no event store, or one of a newer version.
        sqlite3.Error: the file is damaged or out of reach.
    """
    _check_version(connection, path)
    _log_ahead(connection, patience)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again, since another process may have been faster.
        if _check_version(connection, path) == 0:
            for statement in _statements():
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    """Return the version of the tables, 0 for an empty file."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION:
        raise StoreUnusable(f"{path} is a database of another application")
    if version != VERSION:
        raise StoreUnusable(
            f"the event store {path} has version {version}; only {VERSION} is known here"
        )
    return int(version)


def _log_ahead(connection: sqlite3.Connection, patience: float) -> None:
    """Switch to a write-ahead log, for which SQLite does not wait by itself for other users."""
    give_up = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
        else:
            return


def _statements() -> Iterable[str]:
    """Part the schema, since ``executescript`` would commit first."""
    statement = ""
    for line in _SCHEMA.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _blob(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(blob: bytes) -> str:
    return blob.decode("utf-8", "surrogatepass")


def _last_to_go(rows: Iterable[tuple[int, int]], *, count: int = 0, size: int = 0) -> int:
    """Return the last key of *rows* so that *count* of them and *size* bytes go, else 0."""
    last = 0
    for key, row_size in rows:
        if count <= 0 and size <= 0:
            break
        last = key
        count -= 1
        size -= row_size
    return last


class Tables:
    """The steps of one transaction, which takes place at *now*."""

    def __init__(self, connection: sqlite3.Connection, limits: Limits, now: float) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany
        self._limits = limits
        self._now = now

    def open_session(self, name: str, record: SessionRecord) -> None:
        """See `mcp_trio.abc.EventStore`, as for all that follow."""
        known = self.session(name)
        if known is not None and known != record:
            raise ValueError("this session is open with another record")
        if known is None:
            principal = None if record.principal is None else _blob(record.principal)
            (session,) = self._execute(
                "INSERT INTO sessions (name, revision, principal, served) VALUES (?, ?, ?, ?)"
                " RETURNING id",
                (_blob(name), _blob(record.revision), principal, self._now),
            ).fetchone()
            self._make_room(session)

    def session(self, name: str) -> SessionRecord | None:
        """Return what is known of a session."""
        row = self._execute(
            "SELECT id, revision, principal FROM sessions WHERE name = ?", (_blob(name),)
        ).fetchone()
        if row is None:
            return None
        session, revision, principal = row
        self._serve(session)
        return SessionRecord(
            revision=_text(revision), principal=None if principal is None else _text(principal)
        )

    def append(self, session_name: str, name: str, events: Sequence[StoredEvent]) -> None:
        """Add events to the end of a stream."""
        row = self._execute(
            "SELECT sessions.id, streams.id, last, finished FROM sessions LEFT JOIN streams"
            " ON streams.session = sessions.id AND streams.name = ? WHERE sessions.name = ?",
            (_blob(name), _blob(session_name)),
        ).fetchone()
        if row is None:
            raise UnknownStream
        session, stream, last, finished = row
        new = new_events(events, last=last or 0, finished=finished is not None)
        if stream is None:
            (stream,) = self._execute(
                "INSERT INTO streams (session, name) VALUES (?, ?) RETURNING id",
                (session, _blob(name)),
            ).fetchone()
        self._executemany(
            "INSERT INTO events (stream, n, stored, data) VALUES (?, ?, ?, ?)",
            [(stream, event.n, self._now, event.data) for event in new],
        )
        self._serve(session)
        self._trim(stream)
        self._make_room(session)

    def finish(self, session_name: str, name: str) -> None:
        """Note that nothing more will come."""
        session, stream, *_ = self._find(session_name, name)
        self._serve(session)
        self._execute(
            "UPDATE streams SET finished = ? WHERE id = ? AND finished IS NULL",
            (self._now, stream),
        )

    def read(self, session_name: str, name: str, after: int) -> Tail:
        """Return everything that came after an event."""
        session, stream, last, dropped, finished = self._find(session_name, name)
        check_tail(after, last=last, dropped=dropped)
        self._serve(session)
        rows = self._execute(
            "SELECT n, data FROM events WHERE stream = ? AND n > ? ORDER BY n", (stream, after)
        )
        return Tail(tuple(StoredEvent(n, data) for n, data in rows), finished is not None)

    def forget_session(self, name: str) -> None:
        """Drop a session and its streams."""
        self._execute("DELETE FROM sessions WHERE name = ?", (_blob(name),))

    def statistics(self) -> EventStoreStatistics:
        """Count what is held."""
        sessions, streams, events, size = self._execute("SELECT * FROM held").fetchone()
        return EventStoreStatistics(sessions=sessions, streams=streams, events=events, bytes=size)

    def _find(self, session_name: str, name: str) -> tuple[int, int, int, int, float | None]:
        row: tuple[int, int, int, int, float | None] | None = self._execute(
            "SELECT sessions.id, streams.id, last, dropped, finished FROM streams JOIN sessions"
            " ON streams.session = sessions.id WHERE streams.name = ? AND sessions.name = ?",
            (_blob(name), _blob(session_name)),
        ).fetchone()
        if row is None:
            raise UnknownStream
        return row

    def _serve(self, session: int) -> None:
        self._execute("UPDATE sessions SET served = ? WHERE id = ?", (self._now, session))

    # ------------------------------------------------------------ dropping

    def expire(self) -> None:
        """Drop what is too old."""
        horizon = self._now - self._limits.event_age
        session_horizon = self._now - self._limits.session_record_age
        stored, finished, served = self._execute(
            "SELECT (SELECT stored FROM events ORDER BY id LIMIT 1), (SELECT min(finished) FROM"
            " streams WHERE finished IS NOT NULL), (SELECT min(served) FROM sessions)"
        ).fetchone()
        if stored is not None and stored <= horizon:
            self._expire_events(horizon)
        if finished is not None and finished <= horizon:
            self._execute("DELETE FROM streams WHERE finished <= ?", (horizon,))
        if served is not None and served <= session_horizon:
            self._execute("DELETE FROM sessions WHERE served <= ?", (session_horizon,))

    def _expire_events(self, horizon: float) -> None:
        last = 0
        for event, stored in self._execute("SELECT id, stored FROM events ORDER BY id"):
            if stored > horizon:
                break
            last = event
        self._execute("DELETE FROM events WHERE id <= ?", (last,))

    def _trim(self, stream: int) -> None:
        """Drop a stream's oldest events until it fits; its newest stays."""
        events, size = self._execute(
            "SELECT events, bytes FROM streams WHERE id = ?", (stream,)
        ).fetchone()
        too_many = events - self._limits.events_per_stream
        too_large = size - self._limits.event_bytes_per_stream
        if too_many > 0 or too_large > 0:
            rows = self._execute(
                "SELECT n, length(data) FROM events WHERE stream = ? ORDER BY n LIMIT ?",
                (stream, events - 1),
            )
            last = _last_to_go(rows, count=too_many, size=too_large)
            self._execute("DELETE FROM events WHERE stream = ? AND n <= ?", (stream, last))

    def _make_room(self, session: int) -> None:
        """Drop from the whole store what its bound asks for; *session* itself stays."""
        while self._excess() > 0 and self._drop_one(
            "streams", "WHERE finished IS NOT NULL ORDER BY finished, id"
        ):
            pass
        excess = self._excess()
        if excess > 0:
            rows = self._execute(
                "SELECT id, length(data) + ? FROM events ORDER BY id", (EVENT_COST,)
            )
            last = _last_to_go(rows, size=excess)
            self._execute("DELETE FROM events WHERE id <= ?", (last,))
        while self._excess() > 0 and self._drop_one(
            "sessions", "WHERE id != ? ORDER BY served, id", session
        ):
            pass

    def _drop_one(self, table: str, which: str, *args: int) -> bool:
        """Drop the first of *which* rows; false where there is none."""
        return bool(
            self._execute(
                f"DELETE FROM {table} WHERE id = (SELECT id FROM {table} {which} LIMIT 1)",  # noqa: S608 - all of it is written above
                args,
            ).rowcount
        )

    def _excess(self) -> int:
        (size,) = self._execute("SELECT bytes FROM held").fetchone()
        return int(size) - self._limits.event_bytes_total
