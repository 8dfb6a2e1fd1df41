"""A wire between a client and a server over TCP, which can be cut."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Wire"]


@define(eq=False)
class Wire:
    """Relays connections to a port of this machine, until it is told to cut them.

    Attributes:
        listening: set while the client has a response to a GET, in which a server speaks unasked.
        resumed: how often the client has asked for the rest of a stream.
    """

    listening: trio.Event = field(factory=trio.Event)
    resumed: int = 0
    _port: int = 0
    _marker: bytes | None = None
    _cut: trio.Event = field(factory=trio.Event)
    _connections: set[trio.CancelScope] = field(factory=set)

    async def run(
        self,
        to: int,
        port: int = 0,
        *,
        task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Relay *port* to the port *to*; ``started()`` hands over the port, if any is good."""
        self._port = to
        async with trio.open_nursery() as nursery:
            (listener,) = await nursery.start(
                partial(trio.serve_tcp, self._relay, port, host="127.0.0.1")
            )
            task_status.started(listener.socket.getsockname()[1])

    def cut_after(self, marker: str) -> trio.Event:
        """Cut every connection once the client has been sent *marker*, and set the event."""
        self._marker, self._cut = marker.encode(), trio.Event()
        return self._cut

    async def _relay(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            server = await trio.open_tcp_stream("127.0.0.1", self._port)
            self._connections.add(scope)
            requests: list[bytes] = []
            try:
                async with server, trio.open_nursery() as nursery:
                    nursery.start_soon(self._ask, client, server, requests, scope)
                    nursery.start_soon(self._answer, server, client, requests, scope)
            finally:
                self._connections.discard(scope)

    async def _ask(
        self,
        client: trio.SocketStream,
        server: trio.SocketStream,
        requests: list[bytes],
        scope: trio.CancelScope,
    ) -> None:
        with _until_it_ends(scope):
            async for data in client:
                requests.append(bytes(data))
                self.resumed += b"\r\nlast-event-id:" in data.lower()
                await server.send_all(data)

    async def _answer(
        self,
        server: trio.SocketStream,
        client: trio.SocketStream,
        requests: list[bytes],
        scope: trio.CancelScope,
    ) -> None:
        with _until_it_ends(scope):
            async for data in server:
                await client.send_all(data)
                if requests[-1].startswith(b"GET "):
                    self.listening.set()
                if self._marker is not None and self._marker in data:
                    self._cut_all()

    def _cut_all(self) -> None:
        self._marker = None
        self.listening = trio.Event()
        for each in self._connections:
            each.cancel()
        self._cut.set()


@contextmanager
def _until_it_ends(scope: trio.CancelScope) -> Iterator[None]:
    """Either side ends the whole connection."""
    try:
        with suppress(trio.BrokenResourceError):
            yield
    finally:
        scope.cancel()
