"""Two sides in one process: a typed pair (no bytes) and a byte pair (through the wire room)."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.wire.jsonrpc import encode

from .pipe import PipeTransport

if TYPE_CHECKING:
    from mcp_trio.abc import Deliver
    from mcp_trio.limits import Limits

__all__ = ["MemoryBytes", "MemoryTransport", "byte_pair", "memory_pair"]


class _Inbox:
    """Messages on their way to one side, by ticket; its sleeping reader, and who waits for room."""

    __slots__ = ("closed", "drained", "high", "next_ticket", "queue", "room", "wake")

    def __init__(self, high: int) -> None:
        self.queue: dict[int, Any] = {}
        self.next_ticket = 0
        self.high = high
        self.closed = False
        self.wake = trio.lowlevel.ParkingLot()
        self.room = trio.lowlevel.ParkingLot()
        self.drained = trio.lowlevel.ParkingLot()

    def close(self) -> None:
        """Nobody will read any more: keep no one waiting for it."""
        self.closed = True
        for lot in (self.wake, self.room, self.drained):
            lot.unpark_all()


class _MemoryRoute:
    """The route of a typed pair: puts messages into the other side's inbox."""

    __slots__ = ("_inbox",)

    def __init__(self, inbox: _Inbox) -> None:
        self._inbox = inbox

    @property
    def full(self) -> bool:
        """True while the other side has too many messages to read."""
        return len(self._inbox.queue) > self._inbox.high

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:  # noqa: ARG002 - nothing to write
        """Queue *message*; what JSON cannot hold is refused here as on every transport."""
        for part in message if type(message) is list else (message,):
            encode(part)
        inbox = self._inbox
        if inbox.closed:
            return 0
        inbox.next_ticket += 1
        inbox.queue[inbox.next_ticket] = message
        inbox.wake.unpark()
        return inbox.next_ticket

    def unsend(self, ticket: int) -> bool:
        """Take a message back that the other side has not read."""
        return self._inbox.queue.pop(ticket, None) is not None

    async def wait_room(self) -> None:
        """Wait until `full` is false. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.full and not self._inbox.closed:
            await self._inbox.room.park()

    def skip(self) -> None:
        """Nothing to do: the pair goes on without an answer."""

    def hang_up(self) -> bool:
        """Return false: there are no responses to end."""
        return False


class MemoryTransport:
    """One end of a typed pair: messages cross as objects, nothing is encoded."""

    def __init__(self, inbox: _Inbox, peer_inbox: _Inbox) -> None:
        self._inbox = inbox
        self._peer = peer_inbox
        self.route: Final = _MemoryRoute(peer_inbox)

    async def run_reader(self, deliver: Deliver) -> None:
        """Deliver what the other side sent until it closes."""
        inbox = self._inbox
        try:
            while True:
                await trio.lowlevel.checkpoint()
                while not inbox.queue:
                    inbox.drained.unpark_all()
                    if inbox.closed:
                        return
                    await inbox.wake.park()
                messages = list(inbox.queue.values())
                inbox.queue.clear()
                inbox.room.unpark_all()
                for message in messages:
                    for part in message if type(message) is list else (message,):
                        deliver(part, self.route)
        finally:
            inbox.close()

    async def run_writer(self) -> None:
        """There is nothing to write: sending is delivering."""
        await trio.sleep_forever()

    async def drain(self) -> None:
        """Wait until the other side has read everything. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._peer.queue and not self._peer.closed:
            await self._peer.drained.park()

    async def aclose(self) -> None:  # noqa: ASYNC910 - closing never waits
        """Close both directions, at once."""
        self._inbox.close()
        self._peer.close()


def memory_pair(high: int = 1_000) -> tuple[MemoryTransport, MemoryTransport]:
    """Return the two ends of a typed pair; senders wait past *high* unread messages."""
    left, right = _Inbox(high), _Inbox(high)
    return MemoryTransport(left, right), MemoryTransport(right, left)


class _Buffer:
    """Bytes on their way to one side, bounded."""

    __slots__ = ("capacity", "chunks", "closed", "lot", "size")

    def __init__(self, capacity: int) -> None:
        self.chunks: deque[bytes] = deque()
        self.size = 0
        self.capacity = capacity
        self.closed = False
        self.lot = trio.lowlevel.ParkingLot()


class MemoryBytes:
    """One end of an in-memory duplex byte stream, with a pipe's bounded buffer."""

    def __init__(self, incoming: _Buffer, outgoing: _Buffer) -> None:
        self._in = incoming
        self._out = outgoing

    async def receive(self) -> bytes:
        """Return what has arrived, ``b""`` at the end. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while not self._in.chunks and not self._in.closed:
            await self._in.lot.park()
        data = b"".join(self._in.chunks)
        self._in.chunks.clear()
        self._in.size = 0
        self._in.lot.unpark_all()
        return data

    def send_nowait(self, data: bytes) -> int:
        """Take what there is room for.

        Raises:
            BrokenPipeError: the other side has closed.
        """
        out = self._out
        if out.closed:
            raise BrokenPipeError("the other side of the memory stream is closed")
        taken = data[: out.capacity - out.size]
        if taken:
            out.chunks.append(bytes(taken))
            out.size += len(taken)
            out.lot.unpark_all()
        return len(taken)

    async def send(self, data: bytes | memoryview) -> None:
        """Write all of *data*. A checkpoint."""
        await trio.lowlevel.checkpoint()
        view = memoryview(data)
        while view:
            taken = self.send_nowait(view)  # type: ignore[arg-type]  # a view slices like bytes
            view = view[taken:]
            if view and not taken:
                await self._out.lot.park()

    async def aclose(self) -> None:  # noqa: ASYNC910 - closing never waits
        """Close both directions, at once."""
        for buffer in (self._in, self._out):
            buffer.closed = True
            buffer.lot.unpark_all()


def byte_pair(limits: Limits, *, capacity: int = 65_536) -> tuple[PipeTransport, PipeTransport]:
    """Return two pipe transports joined in memory; each direction buffers *capacity* bytes."""
    right, left = _Buffer(capacity), _Buffer(capacity)
    return (
        PipeTransport(MemoryBytes(left, right), limits),
        PipeTransport(MemoryBytes(right, left), limits),
    )
