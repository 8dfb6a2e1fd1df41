"""An HTTP server that a test plays by hand, request by request, byte by byte."""

from __future__ import annotations

import json
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcp_trio.wire.revisions import LEGACY

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

NEWEST = LEGACY[-1].version
SESSION = "S1"
INFO = {"name": "raw", "version": "1"}


class Received:
    """One request as it came in, and the means to answer it."""

    def __init__(
        self, stream: trio.abc.Stream, line: str, headers: dict[str, str], body: bytes
    ) -> None:
        self.stream = stream
        self.method, self.target, _ = line.split(" ")
        self.headers = headers
        self.body = body
        self.done = trio.Event()

    @property
    def message(self) -> Any:
        """The JSON of its body."""
        return json.loads(self.body)

    @property
    def rpc(self) -> str:
        """The JSON-RPC method, ``answer`` for an answer, the HTTP method where there is no body."""
        return self.message.get("method", "answer") if self.body else self.method

    async def send(self, data: bytes) -> None:
        """Write bytes of the response."""
        await self.stream.send_all(data)

    async def respond(
        self,
        status: int = 200,
        body: bytes = b"",
        *,
        content: str = "application/json",
        headers: str = "",
    ) -> None:
        """Write a whole response of known length."""
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {content}\r\n{headers}"
        await self.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        self.done.set()

    async def accept(self) -> None:
        """202."""
        await self.send(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        self.done.set()

    async def result(self, result: dict[str, Any] | None = None, *, headers: str = "") -> None:
        """Answer a request with JSON."""
        await self.respond(body=dumps(self.answer(result)), headers=headers)

    async def text(self, text: str) -> None:
        """Answer a tool call."""
        await self.result({"content": [{"type": "text", "text": text}]})

    def answer(self, result: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to the request as a message."""
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": result or {}}

    async def stream_begins(self, headers: str = "") -> None:
        """The head of an event stream."""
        await self.send(
            f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{headers}"
            "Transfer-Encoding: chunked\r\n\r\n".encode()
        )

    async def event(self, message: Any = None, *, id: str | None = None, more: str = "") -> None:  # noqa: A002 - the field's name
        """One event; without *message* one with empty data."""
        data = b"" if message is None else dumps(message)
        head = more + ("" if id is None else f"id: {id}\n")
        await self.chunk(head.encode() + b"data: " + data + b"\n\n")

    async def chunk(self, data: bytes) -> None:
        """One chunk of a chunked body."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def stream_ends(self) -> None:
        """The proper end of an event stream."""
        await self.send(b"0\r\n\r\n")
        self.done.set()

    async def close(self) -> None:
        """Close the connection, with what was written delivered."""
        await self.stream.aclose()
        self.done.set()

    async def reset(self) -> None:
        """Reset the connection."""
        assert isinstance(self.stream, trio.SocketStream)
        self.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await self.close()


def dumps(message: Any) -> bytes:
    return json.dumps(message).encode()


class RawServer:
    """Takes connections; each request of the client comes out of `next`."""

    def __init__(self, listener: trio.SocketListener, tls: ssl.SSLContext | None) -> None:
        self.listener = listener
        self.tls = tls
        self.port = listener.socket.getsockname()[1]
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://{'127.0.0.1' if tls is None else 'localhost'}:{self.port}/mcp"
        self.accepted = 0
        self.open = 0
        self.kept: list[Received] = []
        self.standing: Received | None = None
        self.shaken = trio.Event()
        self._listening = trio.CancelScope()
        self._arrived = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            with self._listening:
                await trio.serve_listeners(self.serve, [self.listener], handler_nursery=nursery)

    def stop_listening(self) -> None:
        """Take no more connections."""
        self._listening.cancel()

    async def serve(self, plain: trio.SocketStream) -> None:
        self.accepted += 1
        self.open += 1
        stream: trio.abc.Stream = plain
        if self.tls is not None:
            stream = trio.SSLStream(plain, self.tls, server_side=True, https_compatible=True)
        buffer = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = await stream.receive_some()
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                line, *lines = head.decode().split("\r\n")
                headers = {}
                for each in lines:
                    name, _, value = each.partition(": ")
                    assert name.lower() not in headers, name
                    headers[name.lower()] = value
                length = int(headers.get("content-length", "0"))
                while len(buffer) < length:
                    buffer += await stream.receive_some()
                request = Received(stream, line, headers, buffer[:length])
                buffer = buffer[length:]
                self.kept.append(request)
                self._arrived.unpark_all()
                await request.done.wait()
        except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
            pass
        finally:
            self.open -= 1
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(stream)

    async def next(self, rpc: str | None = None) -> Received:
        """Return the next request, or the next one of this kind; others wait their turn."""
        with trio.fail_after(5):
            await trio.lowlevel.checkpoint()
            while True:
                for i, request in enumerate(self.kept):
                    if rpc is None or request.rpc == rpc:
                        return self.kept.pop(i)
                await self._arrived.park()

    def waiting(self) -> list[str]:
        """The kinds of the requests that nobody has taken."""
        return [request.rpc for request in self.kept]

    async def shake_hands(
        self,
        *,
        session_id: str | None = SESSION,
        version: str = NEWEST,
        capabilities: dict[str, Any] | None = None,
        stream: bool = False,
        get_status: int = 405,
    ) -> None:
        """Answer the handshake; the standing GET, a stream or refused, becomes `standing`."""
        opening = await self.next("initialize")
        headers = "" if session_id is None else f"Mcp-Session-Id: {session_id}\r\n"
        declared = {"tools": {}} if capabilities is None else capabilities
        await opening.result(
            {"protocolVersion": version, "capabilities": declared, "serverInfo": INFO},
            headers=headers,
        )
        initialized = await self.next("notifications/initialized")
        await initialized.accept()
        get = await self.next("GET")
        if stream:
            await get.stream_begins()
        else:
            await get.respond(get_status)
        self.standing = get
        self.shaken.set()

    async def end_session(self) -> None:
        """Answer the DELETE."""
        await (await self.next("DELETE")).respond(200)


@asynccontextmanager
async def raw_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A server on a free port of this machine while the block runs."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = RawServer(listener, tls)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.run)  # noqa: ASYNC113 - it listens already
        yield server
        nursery.cancel_scope.cancel()
