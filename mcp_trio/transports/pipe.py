"""One duplex byte stream as a transport: newline-delimited JSON, one writer, coalesced writes.

The pipe under stdio, the memory byte pair and any trio stream. Who sends only queues; a
caller may try one synchronous write when nothing is queued, and what remains of it belongs
to the writer, which alone finishes it: a cancelled caller must not leave half a line behind.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import SessionLost
from mcp_trio.wire.jsonrpc import Discarded, LineFramer, decode, encode, encode_batch

if TYPE_CHECKING:
    from mcp_trio.abc import ByteStream, Deliver
    from mcp_trio.limits import Limits

__all__ = ["Outbox", "PipeTransport", "StreamBytes"]

#: A task that has run for longer than this since its last checkpoint yields (seconds).
SLICE: Final = 0.001


class Outbox:
    """The route of a pipe: a queue of encoded lines with one writer.

    Not bounded by itself: handlers wait for room while `full`, what the reader owes is
    counted by the session, and each call has one place for its cancellation.
    """

    __slots__ = (
        "_broken",
        "_high",
        "_idle",
        "_queue",
        "_rest",
        "_room",
        "_size",
        "_stream",
        "_ticket",
        "_wake",
        "_writing",
    )

    def __init__(self, stream: ByteStream, limits: Limits) -> None:
        self._stream = stream
        self._high = limits.outbox_bytes
        self._queue: dict[int, bytes] = {}  # ticket -> line, in order
        self._ticket = 0
        self._size = 0
        self._rest: bytes | memoryview = b""  # of a line that is partly written
        self._writing = False
        self._broken = False
        self._wake: trio.lowlevel.Task | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._idle = trio.lowlevel.ParkingLot()

    @property
    def full(self) -> bool:
        """True while more than ``limits.outbox_bytes`` wait to be written."""
        return self._size > self._high

    @property
    def size(self) -> int:
        """Bytes that wait to be written."""
        return self._size

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:
        """Queue *message*; with *eager* and nothing else queued, write what the pipe takes."""
        line = (encode_batch(message) if type(message) is list else encode(message)) + b"\n"
        if self._broken:
            return 0
        if eager and not self._writing and not self._queue:
            taken = self._try(line)
            if taken == len(line):
                return 0
            if taken:
                self._rest = memoryview(line)[taken:]
                self._size += len(self._rest)
                self._rouse()
                return 0
        self._ticket += 1
        self._queue[self._ticket] = line
        self._size += len(line)
        if self._wake is not None:
            self._rouse()
        return self._ticket

    def _try(self, line: bytes) -> int:
        try:
            return self._stream.send_nowait(line)
        except OSError:
            return 0  # the writer meets the same error, and reports it

    def _rouse(self) -> None:
        self._writing = True
        if self._wake is not None:
            task, self._wake = self._wake, None
            trio.lowlevel.reschedule(task)

    def unsend(self, ticket: int) -> bool:
        """Take a line back that is still wholly unwritten."""
        line = self._queue.pop(ticket, None)
        if line is None:
            return False
        self._size -= len(line)
        return True

    async def wait_room(self) -> None:
        """Wait until `full` is false, or the pipe is broken. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.full and not self._broken:
            await self._room.park()

    def skip(self) -> None:
        """Nothing to do: a pipe goes on without an answer."""

    def hang_up(self) -> bool:
        """Return false: a pipe has no responses to end."""
        return False

    async def drain(self) -> None:
        """Wait until everything queued is written, or the pipe is broken. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._size and not self._broken:
            await self._idle.park()

    async def run_writer(self) -> None:
        """Write what is queued, until cancelled or the pipe breaks (`OSError` or trio's errors)."""
        try:
            while True:
                if not self._queue and not self._rest:
                    self._writing = False
                    self._idle.unpark_all()
                    await self._sleep()
                self._writing = True
                await self._write_all()
        finally:
            self._broken = True
            self._queue.clear()
            self._size = 0
            self._room.unpark_all()
            self._idle.unpark_all()

    async def _sleep(self) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            self._wake = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._wake = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def _write_all(self) -> None:
        rest, self._rest = self._rest, b""
        if not rest:
            rest = b"".join(self._queue.values())
            self._queue.clear()
        size = len(rest)
        await self._stream.send(rest)
        self._size -= size
        if not self.full:
            self._room.unpark_all()


class PipeTransport:
    """Newline-delimited JSON over a `ByteStream`."""

    def __init__(self, stream: ByteStream, limits: Limits) -> None:
        self._stream = stream
        self._limits = limits
        self._framer = LineFramer(limits.message_bytes, limits.discard_bytes)
        self.route: Final = Outbox(stream, limits)

    async def run_reader(self, deliver: Deliver) -> None:
        """Deliver every line until the stream ends; an unterminated last line counts too."""
        limits, route, framer = self._limits, self.route, self._framer
        depth = limits.json_depth
        while True:
            data = await self._receive()
            lines = framer.receive(data) if data else framer.end()
            until = time.perf_counter() + SLICE if len(lines) > 1 else math.inf
            for line in lines:
                message = self.read_line(line, depth)
                if message is not None:
                    deliver(message, route)
                if time.perf_counter() > until:
                    await trio.lowlevel.checkpoint()
                    until = time.perf_counter() + SLICE
            if not data:
                return
            if framer.overflowed:
                raise SessionLost(
                    f"the peer sent more than {limits.discard_bytes} bytes without a line feed"
                )

    async def _receive(self) -> bytes:
        """Return the next bytes for the reader, ``b""`` at the end. A checkpoint."""
        return await self._stream.receive()

    def read_line(self, line: bytes | Discarded, depth: int) -> object:
        """Turn a line into what `deliver` takes, or None where it is to be skipped."""
        return line if type(line) is Discarded else decode(line, depth=depth)

    async def run_writer(self) -> None:
        """Write what is queued, until cancelled."""
        await self.route.run_writer()

    async def drain(self) -> None:
        """Wait until everything queued is written. A checkpoint."""
        await self.route.drain()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class StreamBytes:
    """Any ``trio.abc.Stream`` as a `ByteStream`; what is queued goes out by its writer alone."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def receive(self) -> bytes:
        """Return the next bytes. A checkpoint."""
        return bytes(await self._stream.receive_some(65_536))

    def send_nowait(self, data: bytes) -> int:  # noqa: ARG002 - the protocol's name
        """Take nothing: a foreign stream has no synchronous write."""
        return 0

    async def send(self, data: bytes | memoryview) -> None:
        """Write all of *data*. A checkpoint."""
        await self._stream.send_all(data)

    async def aclose(self) -> None:
        """Close the stream, at once."""
        await trio.aclose_forcefully(self._stream)
