"""The connections of an HTTP client to one origin: kept alive, bounded, each with one task.

A request that finds an idle connection is written at once, by whoever makes it, in one system
call; the connection's task, which waits for bytes all the time, reads the response and hands
it to the request. So a call costs no task. Where its caller can read the response itself, it
costs no switch of tasks either (`mcp_trio.transports.turn`). A new connection is opened by the
task that then stays with it.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import trio
from attrs import field, frozen

from .http_proxy import Proxy, tunnel
from .http_response import BadResponse, CutShort, Head, ResponseReader
from .http_sockets import SocketBytes
from .pipe import SLICE, StreamBytes
from .turn import Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.limits import Limits
    from mcp_trio.wire.http_client_rules import HttpMethod
    from mcp_trio.wire.http_hosts import Origin
    from mcp_trio.wire.sse import Overlong, ServerSentEvent, SSEDecoder

    from .turn import Waiting

__all__ = ["HttpRequest", "Pool", "PoolStatistics", "PooledConnection", "Target", "Unreachable"]

_log: Final = logging.getLogger("mcp_trio.transports")

#: Idle connections that are kept. Precedents: urllib3 10, httpx 20, Go 100.
_IDLE: Final = 100
#: How long (seconds). Servers wait for 5 (Node.js) to 75 (nginx); whoever is first wins.
_IDLE_TIME: Final = 30.0
#: What is kept of the body of an error (bytes).
_ERROR_BODY: Final = 65_536


@final
@frozen
class Target:
    """Where an origin is, and how to get there."""

    origin: Origin
    proxy: Proxy | None = None
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)


@final
@frozen(kw_only=True)
class PoolStatistics:
    """What a pool holds now: connections in all and idle, and requests that wait for one."""

    open: int
    idle: int
    waiting: int


@final
class Unreachable(Exception):
    """No connection came about: nothing was sent.

    Attributes:
        cause: what was observed.
    """

    def __init__(self, reason: str, cause: Exception) -> None:
        super().__init__(reason)
        self.cause: Final = cause


class HttpRequest(ABC):
    """One HTTP request, and what becomes of its response; subclasses say what.

    Attributes:
        method, body: of the request.
        connection: the one that carries it, while one does.
        opening: the scope in which one is opened for it.
        sent: every byte of it has been written.
        given_up: nobody wants the response any more.
    """

    __slots__ = ("body", "connection", "given_up", "method", "opening", "sent")

    def __init__(self, method: HttpMethod, body: bytes = b"") -> None:
        self.method: Final = method
        self.body: Final = body
        self.connection: PooledConnection | None = None
        self.opening: trio.CancelScope | None = None
        self.sent = False
        self.given_up = False

    @abstractmethod
    def head(self) -> bytes:
        """Return the head, up to and with the blank line."""

    @abstractmethod
    def begin(self, head: Head) -> SSEDecoder | None:
        """The response begins: return the decoder of an event stream, None for any other body."""

    @abstractmethod
    def take(self, event: ServerSentEvent | Overlong) -> None:
        """Take an event of the stream."""

    @abstractmethod
    def ended(self) -> None:
        """The request is over, in whatever way; what comes of it is said next."""

    @abstractmethod
    def finish(self, head: Head, body: bytes) -> None:
        """The response is complete; of an event stream there is no *body* left.

        The body of an error may be cut off.
        """

    @abstractmethod
    def fail(self, cause: Exception, *, begun: bool) -> None:
        """There is no response, or it broke off; *begun* where a part of it came."""

    def give_up(self) -> None:
        """Nobody wants the response any more: close its connection. Idempotent."""
        self.given_up = True
        if self.opening is not None:
            self.opening.cancel(reason="the request was given up")
        if self.connection is not None:
            self.connection.close()


class _Socket(SocketBytes):
    """A client's end of a TCP connection."""

    __slots__ = ()

    @property
    def is_quiet(self) -> bool:
        """Whether it is open and nothing waits to be read: only then can a request go out."""
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


class PooledConnection:
    """One connection, and the task that reads it.

    Attributes:
        request: what it carries, None while it is idle.
        since: when it became idle, or its request was answered while more may come.
        lingers: its request has been answered, though the response goes on.
        retired: the pool has let go of it.
    """

    __slots__ = (
        "_closing",
        "_pool",
        "_reader",
        "_scope",
        "_stream",
        "_task",
        "_turn",
        "_writing",
        "lingers",
        "request",
        "retired",
        "since",
    )

    def __init__(self, pool: Pool, stream: _Socket | StreamBytes) -> None:
        self._pool = pool
        self._stream = stream
        self._reader = ResponseReader(pool.limits.header_bytes)
        self._scope = trio.CancelScope()
        self._turn = Turn(stream) if type(stream) is _Socket else None
        self._task: trio.lowlevel.Task | None = None
        self._writing: trio.CancelScope | None = None
        self._closing = False
        self.request: HttpRequest | None = None
        self.since = 0.0
        self.lingers = False
        self.retired = False

    @property
    def usable(self) -> bool:
        """Whether a request can be sent now."""
        stream = self._stream
        return not self._closing and (type(stream) is not _Socket or stream.is_quiet)

    def close(self) -> None:
        """End the connection. Its task may still be on its way: nothing more is sent on it."""
        self._closing = True
        self._scope.cancel(reason="the connection is not needed any more")
        if self._writing is not None:
            self._writing.cancel(reason="the connection is not needed any more")

    def retire(self) -> None:
        """End the connection, which is idle no longer and carries nothing."""
        self.retired = True
        self.close()

    def linger(self) -> None:
        """The request has what it wants: the rest of the response need not come soon."""
        self.lingers = True
        self.since = trio.current_time()

    def send(self, request: HttpRequest) -> bool:
        """Write *request*, as far as it goes at once; false where nothing can be written."""
        data = request.head() + request.body
        try:
            taken = self._stream.send_nowait(data)
        except OSError:
            return False
        self.request = request
        request.connection = self
        self._reader.expect(request.method)
        if taken == len(data):
            request.sent = True
        else:
            request.sent = False
            self._pool.start_soon(self._write_rest, request, memoryview(data)[taken:])
        return True

    async def _write_rest(self, request: HttpRequest, rest: memoryview) -> None:
        """A server that refuses a request may stop reading it: what it says is read anyway."""
        try:
            with trio.CancelScope() as self._writing:
                await self._stream.send(rest)
                request.sent = request.sent or request.connection is self
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            _log.debug("a request could not be written to its end: %s", exc)

    # ------------------------------------------------------------ reading

    async def run(self) -> None:
        """Read responses until the connection ends."""
        self._task = trio.lowlevel.current_task()
        try:
            with self._scope:
                await self._read()
            self._broke(CutShort(begun=True), begun=True)  # closed within a response
        except (OSError, ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._broke(exc, begun=False)
        except CutShort as exc:
            self._broke(exc, begun=exc.begun)
        except BadResponse as exc:
            self._broke(exc, begun=True)
        except Exception as exc:  # noqa: BLE001 - a bug of ours is contained at the connection
            _log.exception("a connection failed")
            self._broke(exc, begun=True)
        finally:
            if self.request is not None:
                self.request.ended()
            self._pool.drop(self)
            await self._stream.aclose()

    def _broke(self, exc: Exception, *, begun: bool) -> None:
        request, self.request = self.request, None
        if request is not None:
            request.connection = None
            request.ended()
            if not request.given_up:
                request.fail(exc, begun=begun)

    async def _read(self) -> None:
        receive = (self._turn or self._stream).receive
        reader = self._reader
        while True:
            data = await receive()
            request = self.request
            if request is None:  # an idle connection ends, or says what nobody asked
                return
            reader.receive(data)
            head = reader.read_head()
            if head is None:
                continue
            decoder = request.begin(head)
            if decoder is None:
                body = await self._read_body(head)
            else:
                await self._read_events(request, decoder)
                body = b""
            reusable = reader.reusable and not self._closing
            self._conclude(request, head, body, reusable=reusable)
            if not reusable:
                return

    def _conclude(self, request: HttpRequest, head: Head, body: bytes, *, reusable: bool) -> None:
        """The response is complete."""
        request.connection = self.request = None
        request.ended()
        if reusable:
            self._pool.keep(self)
        if not request.given_up:
            request.finish(head, body)

    async def lead(self, request: HttpRequest, call: Waiting) -> None:
        """Read the response to *request* in the task of its caller, if nobody else reads.

        Whatever is not a whole response with a head like the last one goes to the reader, and
        what comes of the one that is happens in the reader's context.
        """
        turn, task = self._turn, self._task
        if turn is None or task is None or not request.sent or not turn.claim():
            return  # noqa: ASYNC910 - the caller waits then
        data = await turn.take(call)
        if data is None:
            return
        whole = self._reader.read_whole(data) if self.request is request else None
        if (
            whole is None
            or whole[0].reply is None  # it may be an event stream
            or len(data) > self._pool.limits.message_bytes
            or self._closing
        ):
            turn.hand(data)
            return
        head, body = whole
        request.begin(head)
        task.context.run(partial(self._conclude, request, head, body, reusable=True))

    async def _read_body(self, head: Head) -> bytes:
        body, complete = self._reader.read_body()
        limit = self._pool.limits.message_bytes if head.status < 300 else _ERROR_BODY
        parts, size = [body], len(body)
        while not complete and size <= limit:  # of an error the rest is left alone
            self._reader.receive(await self._stream.receive())
            body, complete = self._reader.read_body()
            parts.append(body)
            size += len(body)
        if size > limit and head.status < 300:
            raise BadResponse(f"the answer is over {limit} bytes")
        return body if len(parts) == 1 else b"".join(parts)

    async def _read_events(self, request: HttpRequest, decoder: SSEDecoder) -> None:
        while True:
            data, complete = self._reader.read_body()
            events = decoder.receive(data) if data else []
            until = time.perf_counter() + SLICE
            for event in events:
                if request.given_up:
                    return
                request.take(event)
                if time.perf_counter() > until:
                    await trio.lowlevel.checkpoint()
                    until = time.perf_counter() + SLICE
            if complete:
                return
            self._reader.receive(await self._stream.receive())


class Pool:
    """The connections to one origin; `nursery` is theirs.

    Requests past ``limits.in_flight`` at once wait for a connection, since a server need not
    serve more; what carries answers and cancellations never waits.
    """

    def __init__(self, target: Target, limits: Limits) -> None:
        self.limits: Final = limits
        self.nursery: trio.Nursery | None = None
        self._target = target
        self._open: set[PooledConnection] = set()
        self._idle: list[PooledConnection] = []  # the last used last
        self._busy = 0  # connections that carry a request, or are being opened for one
        self._waiting: deque[HttpRequest] = deque()

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run *fn* beside the connections; it may not raise."""
        assert self.nursery is not None  # noqa: S101 - nobody sends before
        self.nursery.start_soon(fn, *args)

    # ------------------------------------------------------------ requests

    def send(self, request: HttpRequest, *, urgent: bool = False) -> None:
        """Send *request*: at once on an idle connection, else on a new one."""
        if not urgent and self._busy >= self.limits.in_flight:
            self._waiting.append(request)
            return
        self._busy += 1
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.send(request):
                return
            connection.retire()
        self.start_soon(self._carry, request)

    def keep(self, connection: PooledConnection) -> None:
        """*connection* is free again: it carries a request that waits, or idles."""
        self._busy -= 1
        connection.lingers = False
        connection.since = trio.current_time()
        self._idle.append(connection)
        if self._waiting:
            self._send_next()
        if len(self._idle) > _IDLE:
            self._idle.pop(0).retire()

    def _send_next(self) -> None:
        while self._waiting:
            request = self._waiting.popleft()
            if not request.given_up:
                self.send(request)
                return

    def drop(self, connection: PooledConnection) -> None:
        """*connection* has ended."""
        self._open.discard(connection)
        if connection.retired:
            return
        if connection in self._idle:
            self._idle.remove(connection)
        else:
            self._busy -= 1
            self._send_next()

    async def _carry(self, request: HttpRequest) -> None:
        """Open a connection for *request*, and stay with it."""
        try:
            stream = await self._connect(request)
        except (OSError, ssl.SSLError, trio.BrokenResourceError, trio.TooSlowError) as exc:
            self._busy -= 1
            self._send_next()
            request.ended()
            if not request.given_up:
                reason = str(exc) or str(exc.__cause__ or repr(exc))
                request.fail(Unreachable(reason, exc), begun=False)
            return
        connection = PooledConnection(self, stream)
        self._open.add(connection)
        if request.given_up:
            self.keep(connection)
        elif not connection.send(request):  # it broke at once: reading tells how
            connection.request, request.connection = request, connection
        await connection.run()

    # ------------------------------------------------------------ connecting

    async def _connect(self, request: HttpRequest) -> _Socket | StreamBytes:
        target = self._target
        via = target.origin if target.proxy is None else target.proxy.origin
        with trio.CancelScope(deadline=trio.current_time() + self.limits.request_time) as scope:
            request.opening = scope
            plain = await trio.open_tcp_stream(via.name, via.port)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            try:
                stream = await self._prepare(plain)
            except BaseException:
                await trio.aclose_forcefully(plain)
                raise
        request.opening = None
        if scope.cancelled_caught:
            raise trio.TooSlowError(f"no connection within {self.limits.request_time:g} s")
        return stream

    async def _prepare(self, plain: trio.SocketStream) -> _Socket | StreamBytes:
        """Go through the proxy, if there is one, and speak TLS where it is wanted."""
        target, proxy = self._target, self._target.proxy
        stream: trio.abc.Stream = plain
        if proxy is not None and proxy.origin.scheme == "https":
            stream = await _encrypted(stream, ssl.create_default_context(), proxy.origin.name)
        if target.ssl_context is None:
            return _Socket(plain) if stream is plain else StreamBytes(stream)
        if proxy is not None:
            await tunnel(stream, proxy, target.origin)
        return StreamBytes(await _encrypted(stream, target.ssl_context, target.origin.name))

    # ------------------------------------------------------------ looking after

    def sweep(self) -> None:
        """Close what has been idle for too long, and what lingers after its answer."""
        now = trio.current_time()
        while self._idle and now - self._idle[0].since > _IDLE_TIME:
            self._idle.pop(0).retire()
        for connection in self._open:
            if connection.lingers and now - connection.since > self.limits.drain:
                connection.close()

    def statistics(self) -> PoolStatistics:
        """Return a snapshot of what is open."""
        return PoolStatistics(
            open=len(self._open), idle=len(self._idle), waiting=len(self._waiting)
        )


async def _encrypted(
    stream: trio.abc.Stream, context: ssl.SSLContext, name: str
) -> trio.SSLStream[trio.abc.Stream]:
    encrypted = trio.SSLStream(stream, context, server_hostname=name, https_compatible=True)
    await encrypted.do_handshake()
    return encrypted
