"""An event store in one SQLite file, which outlives the process and may be shared by several.

The statements are in `mcp_trio.stores._tables`; this module brings them to a worker thread.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, Self, TypeVar, final

import trio

from mcp_trio.errors import StoreUnusable
from mcp_trio.limits import Limits

from ._tables import Tables, prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from mcp_trio.abc import EventStoreStatistics, SessionRecord, StoredEvent, Tail

__all__ = ["SqliteStore"]

#: How long a statement waits for another process that writes (seconds). A transaction takes
#: less than a millisecond, so whoever waits longer waits for something that hangs.
_PATIENCE: Final = 5.0

P = ParamSpec("P")
T = TypeVar("T")


@final
class SqliteStore:
    """Keeps events in the SQLite file *path*, within *limits*: see `mcp_trio.stores.bounds`.

    The file is made, readable by its owner alone, where there is none; ``async with`` opens
    it, and so does the first use. Each method is one transaction in a worker thread: once it
    has begun it cannot be cancelled. What was appended survives the end of the process at
    once, and a power failure after the next checkpoint of the write-ahead log
    (``synchronous=NORMAL``). The file must be on a local disk, as SQLite's locks demand.

    *clock* returns seconds and has to mean the same after a restart; it is called in the
    worker thread. Where it is set back, events stored before live longer by as much.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        # Absolute, so that neither ":memory:" nor a later chdir means another place.
        self._path = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps ".."
        self._limits = limits or Limits()
        self._clock = clock
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        #: One worker thread at a time uses the connection.
        self._limiter = trio.CapacityLimiter(1)

    async def __aenter__(self) -> Self:
        """Open the file. A checkpoint; where it raises, the store is closed.

        Raises:
            StoreUnusable: it is damaged, no event store, of a newer version, or out of reach.
        """
        try:
            await self._run(Tables.expire)
        except BaseException:
            with trio.CancelScope(shield=True):  # bounded, as `aclose` says
                await self.aclose()
            raise
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
        await self._run(Tables.open_session, session, record)

    async def session(self, session: str) -> SessionRecord | None:
        """Return what is known of *session*. A checkpoint."""
        return await self._run(Tables.session, session)

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        """Add *events* to *stream*; see `mcp_trio.abc.EventStore.append`. A checkpoint."""
        await self._run(Tables.append, session, stream, tuple(events))

    async def finish(self, session: str, stream: str) -> None:
        """Note that nothing more will come to *stream*. A checkpoint. Idempotent."""
        await self._run(Tables.finish, session, stream)

    async def read(self, session: str, stream: str, after: int) -> Tail:
        """Return what came after event *after*, see `mcp_trio.abc.EventStore`. A checkpoint."""
        return await self._run(Tables.read, session, stream, after)

    async def forget_session(self, session: str) -> None:
        """Drop *session* and all its streams, if it is known. A checkpoint."""
        await self._run(Tables.forget_session, session)

    async def statistics(self) -> EventStoreStatistics:
        """Count what is held now. A checkpoint."""
        return await self._run(Tables.statistics)

    async def aclose(self) -> None:
        """Close the file. A checkpoint. Idempotent; the store is closed even if cancelled."""
        self._closed = True
        # The shield is as short as the transaction that may still be under way.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._close, limiter=self._limiter)
        await trio.lowlevel.checkpoint()

    # ------------------------------------------------------------ in the worker thread

    async def _run(
        self, method: Callable[Concatenate[Tables, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        def work() -> T:
            try:
                return self._transact(method, *args, **kwargs)
            except (sqlite3.Error, OSError) as error:
                raise StoreUnusable(f"the event store {self._path}: {error}") from error

        return await trio.to_thread.run_sync(work, limiter=self._limiter)

    def _transact(
        self, method: Callable[Concatenate[Tables, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self._closed:
            raise trio.ClosedResourceError("this event store is closed")
        if self._connection is None:
            self._connection = self._connect()
        connection = self._connection
        # IMMEDIATE: a transaction that reads first and then wants to write cannot wait for
        # another writer, since what it has read would be out of date.
        connection.execute("BEGIN IMMEDIATE")
        try:
            tables = Tables(connection, self._limits, self._clock())
            tables.expire()
            result = method(tables, *args, **kwargs)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return result

    def _connect(self) -> sqlite3.Connection:
        # SQLite would make the file as the umask says; its log inherits the file's mode.
        # Only a file made here is closed here: a close drops all locks of this process.
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            prepare(connection, self._path, patience=_PATIENCE)
        except BaseException:
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
