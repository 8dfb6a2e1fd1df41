"""Doubles for tests of the runtime: an endpoint made of functions, a peer played by hand."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import trio
import trio.testing

from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.limits import Limits
from mcp_trio.runtime.context import HandlerContext
from mcp_trio.runtime.service import hold_session
from mcp_trio.runtime.session import Session
from mcp_trio.transports.memory import MemoryBytes, byte_pair, memory_pair
from mcp_trio.wire.revisions import LATEST_LEGACY, LEGACY, REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_trio.abc import Tracer, Transport
    from mcp_trio.runtime.admission import Admission
    from mcp_trio.runtime.calls import Serving
    from mcp_trio.transports.pipe import PipeTransport
    from mcp_trio.wire.jsonrpc import Notification, Request

    Handler = Callable[[HandlerContext, dict[str, Any]], Awaitable[dict[str, Any]]]

OLDEST = LEGACY[0].version
BATCHING = LEGACY[1].version
NEWEST = LATEST_LEGACY.version

CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"


class Endpoint:
    """Serves a function for each method (``mcp_trio.abc.Endpoint``), and keeps what it is told."""

    def __init__(
        self,
        handlers: dict[str, Handler] | None = None,
        hear: Callable[[Session, Notification], object] | None = None,
    ) -> None:
        self.handlers = handlers or {}
        self.notifications: list[Notification] = []
        self._hear = hear

    def initialize(self, session: Session, params: dict[str, Any]) -> dict[str, Any]:
        """Agree to whatever revision is asked for."""
        session.revision = REVISIONS[params["protocolVersion"]]
        return {"protocolVersion": session.revision.version}

    async def handle_request(self, serving: Serving, message: Request) -> dict[str, Any]:
        """Find the function for the method and call it."""
        handler = self.handlers.get(message.method)
        if handler is None:
            raise Refusal(ErrorCode.METHOD_NOT_FOUND, f"method not found: {message.method}")
        params = message.params or {}
        return await handler(HandlerContext(serving, params), params)

    def handle_notification(self, session: Session, message: Notification) -> None:
        """Keep the notification, and pass it to whoever wants to hear it."""
        self.notifications.append(message)
        if self._hear is not None:
            self._hear(session, message)


async def ask(
    ctx: HandlerContext, method: str = "ask", params: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Make a reverse call of the request that *ctx* belongs to."""
    return await ctx.serving.session.call(method, params, origin=ctx.serving)


async def shake_hands(client: Session, version: str = NEWEST) -> None:
    """Play the client's part of the handshake on the client's session."""
    await client.call("initialize", {"protocolVersion": version})
    client.opened(REVISIONS[version])
    client.notify_nowait("notifications/initialized")


@asynccontextmanager
async def joined(
    server: Endpoint,
    client: Endpoint | None = None,
    *,
    typed: bool = False,
    version: str = NEWEST,
    limits: Limits | None = None,
    admission: Admission | None = None,
    tracer: Tracer | None = None,
) -> AsyncIterator[tuple[Session, Session]]:
    """Both sides of an open session, the client's first; *limits* are the server's."""
    ours, theirs = transports(typed=typed, limits=limits)
    serving = Session("server", server, theirs, limits=limits, admission=admission, tracer=tracer)
    calling = Session("client", client or Endpoint(), ours)
    async with hold_session(serving), hold_session(calling):
        await shake_hands(calling, version)
        await trio.testing.wait_all_tasks_blocked()  # `initialized` has been read
        yield calling, serving
    assert calling.calls() == serving.calls() == ()


def transports(*, typed: bool, limits: Limits | None = None) -> tuple[Transport, Transport]:
    """A pair that passes objects, or one that passes bytes."""
    return memory_pair() if typed else byte_pair(limits or Limits())


# ---------------------------------------------------------------- a peer of bytes


class RawPeer:
    """The far end of a pipe, played line by line. It reads only when it is told to."""

    def __init__(self, stream: MemoryBytes) -> None:
        self.stream = stream
        self._lines: list[bytes] = []
        self._rest = b""

    async def send(self, *messages: object) -> None:
        """Write messages, each as a line and all in one chunk; bytes go out as they are."""
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() + b"\n" for m in messages]
        await self.stream.send(b"".join(lines))

    async def request(self, id_: object, method: str, params: object = None) -> None:
        """Send a request."""
        await self.send(request(id_, method, params))

    async def notify(self, method: str, params: object = None) -> None:
        """Send a notification."""
        await self.send(notification(method, params))

    async def answer(self, id_: object, result: object) -> None:
        """Send a result."""
        await self.send({"jsonrpc": "2.0", "id": id_, "result": result})

    async def next(self) -> Any:
        """Return the next message that was sent to us; None at the end of the stream."""
        while not self._lines:
            if not await self._read():
                return None
        return json.loads(self._lines.pop(0))

    async def _read(self) -> bytes:
        data = await self.stream.receive()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += lines
        return data

    async def next_of(self, method: str) -> Any:
        """Return the next message, which has to be a request or notification of *method*."""
        message = await self.next()
        assert message is not None
        assert message.get("method") == method, message
        return message

    async def answer_to(self, id_: object) -> Any:
        """Return the next message, which has to be an answer with this id."""
        message = await self.next()
        assert message is not None
        assert "method" not in message, message
        assert message["id"] == id_, message
        assert type(message["id"]) is type(id_), message
        return message

    async def everything(self) -> list[Any]:
        """Return all that is on its way to us, once nobody has anything left to do."""
        await trio.testing.wait_all_tasks_blocked()
        while self.stream._in.chunks:
            await self._read()
            await trio.testing.wait_all_tasks_blocked()
        lines, self._lines = self._lines, []
        return [json.loads(line) for line in lines]

    async def hang_up(self) -> None:
        """Close both directions."""
        await self.stream.aclose()


def request(id_: object, method: str, params: object = None) -> dict[str, Any]:
    """A request as JSON."""
    return {**notification(method, params), "id": id_}


def notification(method: str, params: object = None) -> dict[str, Any]:
    """A notification as JSON."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def raw_pair(
    limits: Limits | None = None, *, capacity: int = 65_536
) -> tuple[PipeTransport, RawPeer]:
    """A transport, and the raw peer at its far end; each direction buffers *capacity* bytes."""
    ours, theirs = byte_pair(limits or Limits(), capacity=capacity)
    stream = theirs._stream
    assert isinstance(stream, MemoryBytes)
    return ours, RawPeer(stream)


@asynccontextmanager
async def against_raw(
    endpoint: Endpoint | None = None,
    *,
    role: Literal["client", "server"] = "server",
    version: str | None = NEWEST,
    limits: Limits | None = None,
    admission: Admission | None = None,
    capacity: int = 65_536,
) -> AsyncIterator[tuple[Session, RawPeer]]:
    """A running session of ours and a raw peer; the handshake is done unless *version* is None."""
    transport, peer = raw_pair(limits, capacity=capacity)
    session = Session(role, endpoint or Endpoint(), transport, limits=limits, admission=admission)
    async with hold_session(session):
        if version is not None and role == "server":
            await peer.request("hello", "initialize", {"protocolVersion": version})
            await peer.answer_to("hello")
            await peer.notify("notifications/initialized")
            await trio.testing.wait_all_tasks_blocked()
        elif version is not None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(shake_hands, session, version)
                opening = await peer.next_of("initialize")
                await peer.answer(opening["id"], {"protocolVersion": version})
                await peer.next_of("notifications/initialized")
        yield session, peer
    assert session.calls() == ()
