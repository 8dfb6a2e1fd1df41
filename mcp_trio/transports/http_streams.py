"""A stream is a log: what one request, or the session itself, has to say over HTTP.

Order and number are allotted when a message is sent, synchronously. One reader at a time, an
open HTTP response, takes what is there in one piece. With an event store a pump, owned by the
session, appends to the store first and hands on to the reader then, so that everything a
client has seen can be found again after its ``Last-Event-ID``; without one, what nobody reads
any more is dropped and blocks no handler. Source: 2025-11-25 basic/transports § Streamable
HTTP, Resumability and Redelivery.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.abc import StoredEvent
from mcp_trio.errors import NoReverseRoute
from mcp_trio.wire.http import status_of
from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result, encode, encode_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.abc import EventStore
    from mcp_trio.limits import Limits

__all__ = ["EventStream", "Reader"]

_log: Final = logging.getLogger("mcp_trio.transports")

#: What a reader takes: the number of each event and its JSON.
Event = tuple[int, bytes]


class Reader:
    """The one that carries a stream's events to the client: an open HTTP response.

    Attributes:
        seen: the number of the last event it took.
        replaced: a newer reader, or the end of the session, has taken its place.
        hang_up: it is to end its response although the stream goes on.
        tick: it is to write a sign of life, or to find that there is nobody any more.
        vital: the session ends with it.
        overdue: it is to begin its response, although nothing has been said yet.
        finish: called when the stream has ended, to write all there is at once, if it can.
        summon: called instead of waking anybody while the task that would read is busy.
    """

    __slots__ = (
        "_task",
        "finish",
        "hang_up",
        "overdue",
        "replaced",
        "seen",
        "summon",
        "tick",
        "vital",
    )

    def __init__(self, seen: int = 0) -> None:
        self.seen = seen
        self.finish: Callable[[], None] | None = None
        self.summon: Callable[[], None] | None = None
        self.overdue = False
        self.replaced = False
        self.hang_up = False
        self.tick = False
        self.vital = False
        self._task: trio.lowlevel.Task | None = None

    def rouse(self) -> None:
        """Let `wait` return."""
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)
        elif self.summon is not None:
            self.summon()

    async def wait(self) -> None:
        """Wait until `rouse`. A checkpoint."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)


class EventStream:
    """One log, as the route of a request or of a session (``mcp_trio.abc.Route``).

    Attributes:
        name: its name within the session; event ids are ``<name>.<number>``.
        ended: nothing more will come.
        standing: it is the session's own; it keeps what it can while nobody reads.
        primed: its response begins with an event id, before there is any event.
        status: the HTTP status of the answer, once that is there.

    Args:
        deaf: the client takes JSON only: notifications are dropped, questions refused.
        mute: nobody could answer a question on this stream.
        on_end: called once when nothing more will come, and everything is stored.
        status_of: returns the HTTP status of the answer, should it leave as JSON.
    """

    __slots__ = (
        "_answer",
        "_deaf",
        "_high",
        "_limits",
        "_mute",
        "_on_end",
        "_pending",
        "_pumped",
        "_ready",
        "_ready_size",
        "_room",
        "_size",
        "_status_of",
        "_store",
        "_stored",
        "_wake_pump",
        "ended",
        "name",
        "number",
        "primed",
        "reader",
        "session",
        "standing",
        "status",
    )

    def __init__(
        self,
        name: str,
        session: str,
        limits: Limits,
        store: EventStore | None = None,
        *,
        standing: bool = False,
        deaf: bool = False,
        mute: bool = False,
        on_end: Callable[[EventStream], None] | None = None,
        status_of: Callable[[Result | Failure], int] = status_of,
    ) -> None:
        self.name: Final = name
        self.session: Final = session
        self.standing: Final = standing
        self.number = 0
        self.ended = False
        self.primed = False
        self.status = 200
        self._deaf = deaf
        self._mute = mute or deaf
        self.reader: Reader | None = None
        self._limits = limits
        self._high = limits.outbox_bytes
        self._store = store
        self._pending: dict[int, bytes] = {}  # not yet stored, or not yet taken
        self._size = 0
        self._ready: list[Event] = []  # stored, not yet taken
        self._ready_size = 0
        self._answer: int | None = None  # the number of the final answer
        self._pumped = False
        self._stored = 0
        self._wake_pump: trio.Event | None = None
        self._room: trio.lowlevel.ParkingLot | None = None
        self._on_end = on_end
        self._status_of = status_of

    # ------------------------------------------------------------ the route's side

    @property
    def full(self) -> bool:
        """True while a reader, or the store, has too much to take."""
        if self.reader is None:
            return self._pumped and self._size > self._high
        return self._size + self._ready_size > self._high

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:  # noqa: ARG002 - the reader writes
        """Append *message*; the answer to the stream's request ends it."""
        kind = type(message)
        if kind is list:
            data = encode_batch(message)
        else:
            if kind is Request and self._mute:
                raise NoReverseRoute(f"{message.method}: nobody can answer on this response")
            data = encode(message)
            if kind is Notification and self._deaf:
                return 0
        if self.ended:
            return 0
        final = not self.standing and (kind is list or kind is Result or kind is Failure)
        if not final and not self._is_kept():
            return 0
        self.number += 1
        self._pending[self.number] = data
        self._size += len(data)
        if final:
            self._answer = self.number
            self.status = 200 if kind is list else self._status_of(message)
            self._finish()
        self._rouse(settled=final)
        return self.number

    def _is_kept(self) -> bool:
        """Say whether a message is worth keeping: somebody reads, will read, or can resume."""
        if self._pumped or not self.standing:
            return self._pumped or self.reader is not None
        # Nobody listens to the session, or too slowly: the oldest go first.
        limits = self._limits
        while self._pending and (
            len(self._pending) >= limits.events_per_stream
            or self._size >= limits.event_bytes_per_stream
        ):
            oldest = next(iter(self._pending))
            self._size -= len(self._pending.pop(oldest))
        return True

    def unsend(self, ticket: int) -> bool:
        """Take back a message that nobody has taken."""
        data = self._pending.pop(ticket, None)
        if data is None:
            return False
        self._size -= len(data)
        return True

    def skip(self) -> None:
        """The stream's request gets no answer: end it without one."""
        self._finish()
        self._rouse(settled=True)

    def hang_up(self) -> bool:
        """End the open response, if what is still to come can be fetched after an event id."""
        if self.reader is None or self._store is None or not (self.primed or self.reader.seen):
            return False
        self.reader.hang_up = True
        self.reader.rouse()
        return True

    async def wait_room(self) -> None:
        """Wait until `full` is false. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.full and not self.ended:
            if self._room is None:
                self._room = trio.lowlevel.ParkingLot()
            await self._room.park()

    def _make_room(self) -> None:
        if self._room is not None:
            self._room.unpark_all()

    def end(self) -> None:
        """The session is over: nothing more comes."""
        self._finish()
        self._rouse()

    def _finish(self) -> None:
        if not self.ended:
            self.ended = True
            self._make_room()
            if not self._pumped:
                self._tell_end()

    def _tell_end(self) -> None:
        told, self._on_end = self._on_end, None  # once; and no cycle is left for the collector
        if told is not None:
            told(self)

    def _rouse(self, *, settled: bool = False) -> None:
        if self._wake_pump is not None:
            self._wake_pump.set()
        elif self.reader is not None:
            if settled:
                self.reader.summon = None  # who served the request comes back by itself
            if self.ended and self.reader.finish is not None:
                self.reader.finish()
            self.reader.rouse()

    # ------------------------------------------------------------ the reader's side

    def attach(self, reader: Reader) -> None:
        """Make *reader* the one that carries; the newest wins, an older one is told to end."""
        if self.reader is not None:
            self.reader.replaced = True
            self.reader.rouse()
        self.reader = reader

    def detach(self, reader: Reader) -> None:
        """*reader* is gone. Without a store what it did not take is dropped."""
        if self.reader is not reader:
            return
        self.reader = None
        self._make_room()
        if self.standing:
            return
        if self._pumped:
            self._ready, self._ready_size = [], 0
        else:
            self._pending.clear()
            self._size = 0

    def only_answer(self) -> bytes | None:
        """Return the answer where it is all there is to say, so that it can go as plain JSON."""
        if self._pumped or self._answer is None or len(self._pending) != 1:
            return None
        return self._pending[self._answer]

    def take_all(self) -> None:
        """Everything has been written."""
        self._pending.clear()
        self._size = 0

    def take(self, reader: Reader) -> list[Event]:
        """Return what *reader* has not seen, in one piece; nothing where another one carries."""
        if self.reader is not reader:
            return []
        if self._pumped:
            taken, self._ready, self._ready_size = self._ready, [], 0
        else:
            taken, self._size = list(self._pending.items()), 0
            self._pending.clear()
        self._make_room()
        if taken and taken[0][0] <= reader.seen:
            taken = [event for event in taken if event[0] > reader.seen]
        if taken:
            reader.seen = taken[-1][0]
        return taken

    def awaits(self, reader: Reader) -> bool:
        """Tell whether *reader* has nothing to do until it is roused."""
        over = reader.replaced or reader.hang_up or self.exhausted
        return not over and not (self.reader is reader and self.has_events)

    @property
    def has_events(self) -> bool:
        """True where there is something for a reader to take."""
        return bool(self._ready if self._pumped else self._pending)

    @property
    def exhausted(self) -> bool:
        """True where everything has been taken and nothing more will come.

        By size, since what is just being stored is neither pending nor ready.
        """
        return self.ended and not self._size and not self._ready_size

    # ------------------------------------------------------------ the store

    @property
    def storable(self) -> bool:
        """Whether events of this stream have ids and can be found again."""
        return self._store is not None

    @property
    def pumped(self) -> bool:
        """Whether the store comes first already."""
        return self._pumped

    @property
    def stored(self) -> int:
        """The number of the last event that the store has; 0 before the first."""
        return self._stored

    def begin_pump(self) -> None:
        """From now on the store comes first; the caller runs `run_pump`."""
        self._pumped = True
        self._wake_pump = trio.Event()
        self._wake_pump.set()

    async def run_pump(self) -> None:
        """Append to the store, then hand on to the reader, until the stream has ended.

        A store that fails costs resumability and nothing else: it is logged, and the events
        go on to the reader. So do those that come while the session ends.
        """
        store = self._store
        assert store is not None  # noqa: S101 - only storable streams are pumped
        try:
            while not (self.ended and not self._pending):
                await self._sleep()
                await self._store_pending(store)
            if self._stored:
                await store.finish(self.session, self.name)
        except Exception:  # noqa: BLE001 - whatever a store does, the stream goes on
            _log.exception("the event store failed; stream %s cannot be resumed", self.name)
            self._store = None
        finally:
            self._end_pump()

    def _end_pump(self) -> None:
        """From now on what is said goes straight to the reader."""
        self._pumped = False
        self._wake_pump = None
        if self.reader is not None or self.standing:
            self._pending = {**dict(self._ready), **self._pending}
            self._size += self._ready_size
        else:
            self._pending, self._size = {}, 0
        self._ready, self._ready_size = [], 0
        if self.ended:
            self._tell_end()
        self._make_room()
        self._rouse()

    async def _sleep(self) -> None:
        """Wait until there is something to pump."""
        assert self._wake_pump is not None  # noqa: S101 - begin_pump has made it
        await self._wake_pump.wait()
        self._wake_pump = trio.Event()

    async def _store_pending(self, store: EventStore) -> None:
        while self._pending:
            batch = list(self._pending.items())
            # Taken before the append, so that nobody takes back what is being stored.
            self._pending.clear()
            try:
                await store.append(
                    self.session, self.name, [StoredEvent(n=n, data=data) for n, data in batch]
                )
            finally:
                self._hand_over(batch)

    def _hand_over(self, batch: list[Event]) -> None:
        size = sum([len(data) for _, data in batch])
        self._size -= size
        self._stored = batch[-1][0]
        if self.reader is not None or self.standing:
            self._ready += batch
            self._ready_size += size
        if self.standing:
            self._trim_ready()
        if self.reader is not None:
            self.reader.rouse()
        self._make_room()

    def _trim_ready(self) -> None:
        """Keep the newest for one who reads too slowly, or comes back without an event id."""
        limits, ready, first = self._limits, self._ready, 0
        while (
            len(ready) - first > limits.events_per_stream
            or self._ready_size > limits.event_bytes_per_stream
        ):
            self._ready_size -= len(ready[first][1])
            first += 1
        del ready[:first]
