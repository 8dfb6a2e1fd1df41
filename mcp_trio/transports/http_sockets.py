"""A TCP connection as a byte stream: one system call where trio's own stream takes a pass."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import TYPE_CHECKING, Any, Final

import trio

from .pipe import StreamBytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

__all__ = ["SocketBytes", "accepting"]

CHUNK: Final = 65_536
#: The size of reads while they come back full.
LARGE_READ: Final = 4 * CHUNK


class SocketBytes:
    """Owns a connected TCP socket (``mcp_trio.abc.ByteStream``).

    Args:
        accepted: a request is likely to be there already, right behind the connection.
    """

    __slots__ = ("_accepted", "_broken", "_more", "_socket")

    def __init__(
        self, stream: trio.SocketStream | socket.socket, *, accepted: bool = False
    ) -> None:
        if isinstance(stream, trio.SocketStream):
            stream = socket.socket(fileno=stream.socket.detach())
        with contextlib.suppress(OSError):
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setblocking(False)
        self._socket = stream
        self._accepted = accepted
        self._more = False  # the last read came back full
        self._broken = False

    async def receive(self) -> bytes:
        """Return the next bytes, ``b""`` at the end. A checkpoint, but for an accepted first."""
        if self._accepted:
            self._accepted = False
        elif self._more:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self._socket)
        size = LARGE_READ if self._more else CHUNK
        while True:
            try:
                data = self._socket.recv(size)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                self._more = len(data) >= CHUNK
                return data

    @property
    def fd(self) -> int:
        """The socket's descriptor, -1 once it is closed."""
        return self._socket.fileno()

    def receive_nowait(self) -> bytes:
        """Return what is there.

        Raises:
            BlockingIOError: nothing is there.
        """
        return self._socket.recv(CHUNK)

    async def wait_gone(self) -> bool:
        """Wait for the other side to close, without reading. A checkpoint.

        False where bytes come instead and the system cannot tell what is behind them.
        """
        await trio.lowlevel.wait_readable(self._socket)
        if self.peer_has_closed:
            return True
        try:
            ends = select.epoll()
        except (AttributeError, OSError):  # the system has none, or no descriptor is left
            return False
        with ends:  # an end of input shows there, whatever is still unread
            ends.register(self._socket, select.EPOLLRDHUP)
            await trio.lowlevel.wait_readable(ends.fileno())
        return True

    @property
    def peer_has_closed(self) -> bool:
        """Whether the other side has closed; bytes that wait to be read count as life."""
        try:
            return self._socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def send_nowait(self, data: bytes) -> int:
        """Write what fits at once; return how much that was."""
        if self._broken:
            return 0
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def send(self, data: bytes | memoryview) -> None:
        """Write all of *data*. A checkpoint; after Cancelled nothing can be written any more."""
        if self._broken:
            raise trio.BrokenResourceError("an earlier write ended in the middle")
        self._broken = True
        await trio.lowlevel.checkpoint()
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
        self._broken = False

    def send_eof(self) -> None:
        """Say that nothing more will be written."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:  # noqa: ASYNC910 - closing never waits
        """Close the socket, at once. Idempotent."""
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


@contextlib.contextmanager
def accepting(
    listener: trio.abc.Listener[Any],
) -> Iterator[Callable[[], Awaitable[SocketBytes | StreamBytes]]]:
    """Give a function that waits for the next connection of *listener*. A checkpoint."""

    async def accept() -> SocketBytes | StreamBytes:
        stream = await listener.accept()
        return SocketBytes(stream) if isinstance(stream, trio.SocketStream) else StreamBytes(stream)

    if not isinstance(listener, trio.SocketListener):
        yield accept
        return
    inner = listener.socket

    async def accept_tcp() -> SocketBytes:
        await trio.lowlevel.wait_readable(inner)
        while True:
            try:
                return SocketBytes(waiting.accept()[0], accepted=True)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(inner)
            except ConnectionError:
                continue  # it went away while it waited

    # Closed in the end, or the kernel would go on to take connections for it.
    with socket.fromfd(inner.fileno(), inner.family, inner.type) as waiting:
        waiting.setblocking(False)
        yield accept_tcp
