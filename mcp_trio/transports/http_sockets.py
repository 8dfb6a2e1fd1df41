"""A TCP connection as a byte stream: one system call where trio's own stream takes a pass."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

import trio

__all__ = ["SocketBytes"]

CHUNK: Final = 65_536


class SocketBytes:
    """Owns the socket of a ``trio.SocketStream`` (``mcp_trio.abc.ByteStream``)."""

    __slots__ = ("_broken", "_more", "_socket")

    def __init__(self, stream: trio.SocketStream) -> None:
        with contextlib.suppress(OSError):
            stream.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = socket.socket(fileno=stream.socket.detach())
        self._socket.setblocking(False)
        self._more = False  # the last read came back full
        self._broken = False

    async def receive(self) -> bytes:
        """Return the next bytes, ``b""`` at the end. A checkpoint."""
        if self._more:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(self._socket)
        while True:
            try:
                data = self._socket.recv(CHUNK)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
            else:
                self._more = len(data) == CHUNK
                return data

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
