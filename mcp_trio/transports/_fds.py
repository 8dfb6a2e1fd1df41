"""File descriptors as a `ByteStream`: non-blocking system calls and trio's readiness, no threads.

``O_NONBLOCK`` belongs to the open file description, which an inherited descriptor shares with
the parent, with siblings and often with stderr: setting it makes their ``print`` fail. So the
flag is only ever set on descriptions of our own; a socket is asked with ``MSG_DONTWAIT``, and
any other blocking descriptor with `select.poll` before each call.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from _typeshed import ReadableBuffer

__all__ = ["FdBytes", "FdReader", "FdWriter", "own_description"]

#: What a Linux pipe holds by default: a read that returns less has emptied it.
CHUNK: Final = 65_536
#: The size of reads while they come back full. Measured: larger ones are no faster.
LARGE_READ: Final = 4 * CHUNK
#: What a pipe is enlarged to for large messages; the limit of Linux for ordinary users.
#: Measured with messages of 1 MiB: 840 MiB/s through 64 KiB, 5,000 MiB/s through this.
LARGE_PIPE: Final = 1024 * 1024


def own_description(fd: int, flags: int) -> int:
    """Return a descriptor for what *fd* is open on, non-blocking only where nobody else sees it.

    Pipes and terminals are opened again with *flags* (the access mode). Regular files are
    duplicated, as a second opening would begin at offset 0, and so is what cannot be opened
    again: sockets, another user's pipe, anything on systems without ``/proc``.
    """
    if sys.platform == "linux" and not stat.S_ISREG(os.fstat(fd).st_mode):
        with contextlib.suppress(OSError):
            return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK | os.O_NOCTTY)
    return os.dup(fd)


def _enlarge(fd: int) -> None:
    """Let a pipe hold more, if it is one and the system allows it."""
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 - only needed for large messages

        with contextlib.suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < LARGE_PIPE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, LARGE_PIPE)


def _is_ready(fd: int, event: int) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(0))


class _Fd:
    """One descriptor, owned, with its wait for readiness."""

    __slots__ = ("_socket", "_waits", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        mode = os.fstat(fd).st_mode
        self._socket = socket.socket(fileno=fd) if stat.S_ISSOCK(mode) else None
        self._waits = not stat.S_ISREG(mode)

    @property
    def _blocks(self) -> bool:
        """True where a call could block: not for regular files, which are always ready."""
        return self._waits and os.get_blocking(self.fd)

    async def _wait(self, readiness: Callable[[int], Awaitable[None]]) -> None:
        """Wait until a call would not block. A checkpoint."""
        if self._waits:
            try:
                await readiness(self.fd)
            except PermissionError:
                self._waits = False  # epoll refuses what is always ready, like /dev/null
            else:
                self._check_open()
                return
        await self._let_others_run()

    async def _let_others_run(self) -> None:
        await trio.lowlevel.checkpoint()
        self._check_open()

    def _check_open(self) -> None:
        # Called after every wait as well: the number may belong to another file by then.
        if self.fd < 0:
            raise trio.ClosedResourceError

    def close(self) -> None:
        """Close the descriptor; who waits for it gets `trio.ClosedResourceError`. Idempotent."""
        if self.fd < 0:
            return
        fd, self.fd = self.fd, -1
        if trio.lowlevel.in_trio_run():
            trio.lowlevel.notify_closing(fd)
        if self._socket is None:
            os.close(fd)
        else:
            self._socket.close()


class FdReader(_Fd):
    """Reads one descriptor, and owns it."""

    __slots__ = ("_enlarged", "_more", "_read", "_size")

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._read: Final = self._reading()
        self._size = CHUNK
        self._more = False  # the last read came back full
        self._enlarged = False

    def _reading(self) -> Callable[[int], bytes]:
        """Return the call that reads without ever blocking."""
        fd = self.fd
        if self._socket is not None:
            recv = self._socket.recv
            return lambda size: recv(size, socket.MSG_DONTWAIT)
        if not self._blocks:
            return partial(os.read, fd)

        def read(size: int) -> bytes:
            if not _is_ready(fd, select.POLLIN):
                raise BlockingIOError
            return os.read(fd, size)

        return read

    async def receive(self) -> bytes:
        """Return the next bytes, ``b""`` at the end. A checkpoint.

        A short read has emptied the pipe, so that the next one waits at once instead of
        asking in vain.
        """
        self._check_open()
        if self._more:
            await self._let_others_run()
        else:
            await self._wait(trio.lowlevel.wait_readable)
        while True:
            try:
                data = self._read(self._size)
            except BlockingIOError:
                await self._wait(trio.lowlevel.wait_readable)
            else:
                break
        self._adapt(len(data))
        return data

    def receive_nowait(self) -> bytes:
        """Return what is there.

        Raises:
            BlockingIOError: nothing is there.
        """
        self._check_open()
        return self._read(CHUNK)

    def _adapt(self, taken: int) -> None:
        self._more = taken == self._size
        if not self._more:
            self._size = CHUNK
        elif self._size == CHUNK:
            self._size = LARGE_READ
            if not self._enlarged:
                self._enlarged = True
                _enlarge(self.fd)


class FdWriter(_Fd):
    """Writes one descriptor, and owns it."""

    __slots__ = ("_enlarged", "_usable", "_write")

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._write: Final = self._writing()
        self._usable = True
        self._enlarged = False

    def _writing(self) -> Callable[[ReadableBuffer], int]:
        """Return the call that writes without ever blocking."""
        fd = self.fd
        if self._socket is not None:
            send = self._socket.send
            return lambda data: send(data, socket.MSG_DONTWAIT)
        if not self._blocks:
            return partial(os.write, fd)

        def write(data: ReadableBuffer) -> int:
            # A pipe that is ready takes PIPE_BUF bytes without blocking (POSIX, poll).
            view, done = memoryview(data), 0
            while done < min(len(view), CHUNK) and _is_ready(fd, select.POLLOUT):
                done += os.write(fd, view[done : done + select.PIPE_BUF])
            if not done:
                raise BlockingIOError
            return done

        return write

    def send_nowait(self, data: bytes | memoryview) -> int:
        """Write what fits at once; return how much that was."""
        if not self._usable or self.fd < 0:
            return 0
        try:
            return self._write(data)
        except BlockingIOError:
            return 0

    async def wait_writable(self) -> None:
        """Wait until something fits. A checkpoint."""
        await self._wait(trio.lowlevel.wait_writable)

    async def send(self, data: bytes | memoryview) -> None:
        """Write all of *data*. A checkpoint; after Cancelled nothing can be written any more."""
        self._check_open()
        if not self._usable:
            raise trio.BrokenResourceError("an earlier write ended in the middle")
        self._usable = False
        await self._let_others_run()
        view = memoryview(data)
        while True:
            with contextlib.suppress(BlockingIOError):
                view = view[self._write(view) :]
            if not view:
                break
            if len(view) >= CHUNK and not self._enlarged:
                self._enlarged = True
                _enlarge(self.fd)  # and try again at once
            else:
                await self.wait_writable()
        self._usable = True


class FdBytes:
    """Two descriptors as one duplex byte stream. It owns both, and closes them.

    Args:
        read_fd: a pipe, terminal, socket, file or device open for reading.
        write_fd: the same for writing; must be another descriptor, be it a duplicate.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.reader: Final = FdReader(read_fd)
        self.writer: Final = FdWriter(write_fd)

    async def receive(self) -> bytes:
        """Return the next bytes, ``b""`` at the end. A checkpoint."""
        return await self.reader.receive()

    def send_nowait(self, data: bytes) -> int:
        """Write what fits at once; return how much that was."""
        return self.writer.send_nowait(data)

    async def send(self, data: bytes | memoryview) -> None:
        """Write all of *data*. A checkpoint; after Cancelled nothing can be written any more."""
        await self.writer.send(data)

    def close(self) -> None:
        """Close both descriptors, at once. Idempotent."""
        self.writer.close()
        self.reader.close()

    async def aclose(self) -> None:  # noqa: ASYNC910 - closing does not wait
        """Close both descriptors, at once. Idempotent."""
        self.close()
