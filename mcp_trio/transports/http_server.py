"""Streamable HTTP on h11 over trio, the server's side: listeners, sessions, drain.

The nursery of `HttpServer.run` owns every connection and every session. A connection reads
its requests one by one (`mcp_trio.transports.http_connection`) and serves their handlers, each
within the life of its session. A connection that breaks takes no handler down with it: in the
legacy revisions a disconnect is no cancellation (2025-11-25 basic/transports § Sending
Messages to the Server 5). One watcher looks after everything that waits too long.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.runtime.service import run_beside
from mcp_trio.wire.http import check_head
from mcp_trio.wire.http_pair import PairPaths, check_pair

from .http_connection import Connection
from .http_memo import HeadMemo
from .http_sessions import SessionTable
from .http_sockets import accepting
from .http_store import SafeStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_trio.abc import EventStore, ExchangeFactory, Tracer
    from mcp_trio.limits import Limits
    from mcp_trio.runtime.exchange import Exchange
    from mcp_trio.wire.http_head import RequestHead
    from mcp_trio.wire.http_policy import HttpPolicy

    from .http_sessions import HttpSession
    from .http_streams import EventStream, Reader
    from .http_writer import Answering

__all__ = ["HttpServer", "open_listeners"]

_log: Final = logging.getLogger("mcp_trio.transports")

#: How often the watcher looks (seconds).
_LOOK: Final = 1.0
#: An answer that takes no longer than this is not worth a look at its client (seconds).
_GRACE: Final = 0.001
#: Accepting fails like this while the process has too many descriptors open.
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})

Authenticate = "Callable[[RequestHead], Awaitable[Any]]"


class HttpServer:
    """One endpoint on one or more listeners.

    Args:
        factory: what is served.
        policy: to whom, and how.
        store: keeps events for clients that come back; None: a broken stream is lost.
        authenticate: names the principal of a request, from its head; a session belongs to
            the one who opened it. It may raise `mcp_trio.errors.Refusal` to answer 401.
        sse_path: where the event stream of HTTP+SSE is (2024-11-05); None: nowhere.

    Attributes:
        url: where it is, once it runs.
        sessions: the sessions it has now.
    """

    def __init__(
        self,
        factory: ExchangeFactory,
        policy: HttpPolicy,
        limits: Limits,
        *,
        store: EventStore | None = None,
        authenticate: Callable[[RequestHead], Awaitable[Any]] | None = None,
        tracer: Tracer | None = None,
        sse_path: str | None = None,
    ) -> None:
        self.factory: Final = factory
        self.policy: Final = policy
        self.limits: Final = limits
        #: Who may not GET can resume nothing.
        resumes = store is not None and "GET" in policy.methods
        self.store: Final = SafeStore(store) if store is not None and resumes else None
        self.authenticate: Final = authenticate
        self._pair = None if sse_path is None else PairPaths(sse_path)
        self.tracer: Final = tracer
        self.sessions: Final = SessionTable(limits)
        self.heads: Final = HeadMemo()
        self.url = ""
        self.draining = False
        self.connections: set[Connection] = set()
        self.traced_requests = 0
        self._connection: Final = _connection_class(tracer)
        self.open_requests = 0
        self._accepting = trio.CancelScope()
        self._nursery: trio.Nursery | None = None
        self._exchanges: trio.Nursery | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._quiet = trio.lowlevel.ParkingLot()
        #: Requests of the modern era that are being served.
        self.enveloped: Final[set[Exchange]] = set()
        self._unwatched: deque[tuple[float, Connection, Answering]] = deque()
        self._watch_calls = trio.lowlevel.ParkingLot()
        self._hurried: deque[tuple[float, Reader]] = deque()
        self._hurry = trio.lowlevel.ParkingLot()

    def check(self, head: RequestHead) -> Any:
        """Judge a request before its body is read, by the rules of the endpoint it is for."""
        if self._pair is not None and head.path in self._pair.paths:
            return check_pair(head, self._pair, self.policy)
        return check_head(head, self.policy)

    # ------------------------------------------------------------ life

    async def run(
        self,
        listeners: Sequence[trio.abc.Listener[Any]],
        *,
        task_status: trio.TaskStatus[HttpServer] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled. ``started()`` hands over this object.

        On cancellation it stops accepting and closes every session; each request under way
        gets an error, within ``limits.drain``. It closes the listeners. For a gentler end
        call `stop_accepting` and `wait_drained` first. A checkpoint.
        """

        async def serve(*, task_status: trio.TaskStatus[None]) -> None:
            await self._serve(listeners, task_status)

        async with self.factory.running(), run_beside(serve, self._shut_down):
            self.url = _url_of(listeners[0], self.policy.paths[0])
            task_status.started(self)
            await trio.sleep_forever()

    async def _serve(
        self, listeners: Sequence[trio.abc.Listener[Any]], task_status: trio.TaskStatus[None]
    ) -> None:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._accept_all, listeners)
            self._nursery.start_soon(self._watch)
            self._nursery.start_soon(self._make_overdue)
            self._nursery.start_soon(self._begin_watches)
            await self._nursery.start(self._run_exchanges)
            task_status.started()

    async def _run_exchanges(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        async with trio.open_nursery() as self._exchanges:
            task_status.started()
            await trio.sleep_forever()

    def _shut_down(self) -> None:
        self.stop_accepting()
        self.sessions.close_all()
        self.exchanges.cancel_scope.cancel(reason="the server is stopping")
        for exchange in self.enveloped:
            exchange.stop_serving("the server is stopping")
        assert self._nursery is not None  # noqa: S101 - it has been served
        self._nursery.start_soon(self._finish)

    async def _finish(self) -> None:
        with trio.move_on_after(self.limits.drain):
            await self.wait_drained()
        assert self._nursery is not None  # noqa: S101 - it is what runs this
        self._nursery.cancel_scope.cancel(reason="the server has stopped")

    def stop_accepting(self) -> None:
        """Take no more connections; end standing streams, and connections that wait. Idempotent."""
        self.draining = True
        self._accepting.cancel(reason="the server stops accepting")
        for session in self.sessions:
            session.transport.stop()
        self.factory.end_listening()
        for connection in list(self.connections):
            connection.stop_if_idle()

    async def wait_drained(self) -> None:
        """Wait until no request is open any more. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.open_requests:
            await self._quiet.park()

    # ------------------------------------------------------------ connections

    async def _accept_all(self, listeners: Sequence[trio.abc.Listener[Any]]) -> None:
        try:
            with self._accepting:
                async with trio.open_nursery() as nursery:
                    for listener in listeners:
                        nursery.start_soon(self._accept, listener)
        finally:
            for listener in listeners:
                await trio.aclose_forcefully(listener)

    async def _accept(self, listener: trio.abc.Listener[Any]) -> None:
        assert self._nursery is not None  # noqa: S101 - it is what runs this
        with accepting(listener) as accept:
            while True:
                while len(self.connections) >= self.limits.connections:
                    await self._room.park()
                try:
                    data = await accept()
                except OSError as exc:
                    if exc.errno not in _FULL:
                        raise
                    _log.error("cannot accept a connection: %s", exc)
                    await trio.sleep(0.1)
                    continue
                connection = self._connection(self, data)
                self.connections.add(connection)
                self._nursery.start_soon(self._hold, connection, connection.scope)

    def move(self, connection: Connection, begin: Callable[[], Awaitable[None]]) -> None:
        """Let a new task have *connection*, which begins with *begin*, in this context."""
        assert self._nursery is not None  # noqa: S101 - connections are served in it
        self._nursery.start_soon(self._hold, connection, connection.scope, begin)

    async def _hold(
        self,
        connection: Connection,
        scope: trio.CancelScope,
        begin: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Serve one connection while *scope* is its own; what goes wrong on it stays on it."""
        try:
            with scope:
                if begin is not None:
                    await begin()
                await connection.serve()
                if connection.scope is scope:
                    await connection.linger()
        except (OSError, ssl.SSLError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            _log.debug("a connection broke: %s", exc)
        except Exception:  # noqa: BLE001 - a bug of ours is contained at the connection
            _log.exception("a connection failed")
        finally:
            if connection.scope is scope:  # else another task has it
                self.connections.discard(connection)
                self._room.unpark()
                await connection.aclose()

    def begin_request(self) -> None:
        """A request is being served."""
        self.open_requests += 1

    def end_request(self) -> None:
        """A request has been answered, or its connection is gone."""
        self.open_requests -= 1
        if self.draining and not self.open_requests:
            self._quiet.unpark_all()

    async def start_session(self, session: HttpSession) -> None:
        """Run *session* in the server's nursery, and take it out of the table when it ends.

        A checkpoint, after which the session has begun: both its task and this one ran.
        """
        assert self._nursery is not None  # noqa: S101 - connections are served in it
        self._nursery.start_soon(self._run_session, session)
        await trio.lowlevel.checkpoint()

    async def _run_session(self, session: HttpSession) -> None:
        try:
            await session.session.run()
        finally:
            self.sessions.remove(session)
        if self.store is not None and not self.draining:
            await self.store.forget_session(session.id)

    async def run_pump(self, stream: EventStream) -> None:
        """Store what a call says. A drain waits for it: its client may come back."""
        self.begin_request()
        try:
            await stream.run_pump()
        finally:
            self.end_request()

    @property
    def exchanges(self) -> trio.Nursery:
        """The nursery of requests that belong to no session."""
        assert self._exchanges is not None  # noqa: S101 - connections are served beside it
        return self._exchanges

    # ------------------------------------------------------------ the watcher

    def hurry(self, reader: Reader) -> None:
        """Make *reader* overdue after ``limits.sse_after`` seconds."""
        self._hurried.append((trio.current_time() + self.limits.sse_after, reader))
        if len(self._hurried) == 1:
            self._hurry.unpark_all()

    async def _make_overdue(self) -> None:
        """All wait for the same time, so the first in is the first out."""
        while True:
            while not self._hurried:
                await self._hurry.park()
            deadline, reader = self._hurried[0]
            if reader.finish is None:  # it has been answered
                self._hurried.popleft()
            elif deadline > trio.current_time():
                await trio.sleep_until(deadline)
            else:
                self._hurried.popleft()
                reader.overdue = True
                reader.rouse()

    def watch(self, connection: Connection, answering: Answering) -> None:
        """Look out for the end of the client, if the answer is not there soon."""
        self._unwatched.append((trio.current_time() + _GRACE, connection, answering))
        if len(self._unwatched) == 1:
            self._watch_calls.unpark_all()

    async def _begin_watches(self) -> None:
        """Most answers come sooner than it pays to watch for; the first in is the first due."""
        assert self._nursery is not None  # noqa: S101 - it is what runs this
        while True:
            while not self._unwatched:
                await self._watch_calls.park()
            due, connection, answering = self._unwatched[0]
            if answering.stream.ended:
                self._unwatched.popleft()
            elif due > trio.current_time():
                await trio.sleep_until(due)
            else:
                self._unwatched.popleft()
                self._nursery.start_soon(connection.watch, answering)

    async def _watch(self) -> None:
        """End connections that stall, keep silent streams alive, expire sessions."""
        while True:
            await trio.sleep(_LOOK)
            now = trio.current_time()
            for connection in list(self.connections):
                connection.look(now)
            self.sessions.expire(now)


def _connection_class(tracer: Tracer | None) -> type[Connection]:
    """Return what serves a connection: without a tracer nothing looks for one."""
    if tracer is None:
        return Connection
    from .http_traced import TracedConnection  # noqa: PLC0415 - only where it is used

    return TracedConnection


def _url_of(listener: Any, path: str) -> str:
    scheme = "http"
    while isinstance(listener, trio.SSLListener):
        listener, scheme = listener.transport_listener, "https"
    if not isinstance(listener, trio.SocketListener):
        return ""
    host, port = listener.socket.getsockname()[:2]
    name = f"[{host}]" if listener.socket.family == socket.AF_INET6 else host
    return f"{scheme}://{name}:{port}{path}"


async def open_listeners(
    port: int, host: str | None, tls: ssl.SSLContext | None
) -> list[trio.abc.Listener[Any]]:
    """Return listeners on *port* of *host*; port 0 is one that is free. A checkpoint.

    Raises:
        OSError: the address is taken, or is none of this machine's.
    """
    plain = await trio.open_tcp_listeners(port, host=host, backlog=2048)
    if tls is None:
        return list(plain)
    return [trio.SSLListener(listener, tls, https_compatible=True) for listener in plain]
