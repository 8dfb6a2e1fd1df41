"""A session: one exchange with a beginning and an end, the same class for client and server.

The owner coroutine `Session.run` holds the nursery in which every request of the session is
served. The law that binds reverse calls to their forward calls is stated, and held, in
`mcp_trio.runtime.exchange`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from mcp_trio.errors import ErrorCode, ProtocolViolation, SessionClosed, SessionLost
from mcp_trio.wire.envelope import DISCOVER, is_enveloped
from mcp_trio.wire.jsonrpc import Batch, Flaw, Malformed, Notification, Request, Result
from mcp_trio.wire.lifecycle import Event, HandshakeLifecycle, Ruling, State
from mcp_trio.wire.revisions import Feature

from .batch import BatchRoute
from .exchange import CANCELLED, Exchange
from .outcomes import failure_of, reraise_cancelled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.abc import Endpoint, EnvelopeEndpoint, Route, Tracer, Transport
    from mcp_trio.limits import Limits
    from mcp_trio.wire.revisions import Revision

    from .admission import Admission

__all__ = ["Session"]

_log: Final = logging.getLogger("mcp_trio.runtime")

_INITIALIZED: Final = "notifications/initialized"
#: What may be sent before the handshake, or in its place.
_BEFORE: Final = frozenset({"ping", DISCOVER})


class Session(Exchange):
    """One side of a session of the handshake era, from the first byte to the last.

    Args:
        transport: the pipe; the session owns and closes it. Also an attribute.
        envelopes: serves the requests that carry an envelope, on a server that takes them.
        role, endpoint, limits, admission, tracer, label: as for `Exchange`.
    """

    def __init__(
        self,
        role: Literal["client", "server"],
        endpoint: Endpoint,
        transport: Transport,
        *,
        limits: Limits | None = None,
        admission: Admission | None = None,
        tracer: Tracer | None = None,
        label: str = "",
        envelopes: EnvelopeEndpoint | None = None,
    ) -> None:
        super().__init__(
            role,
            endpoint,
            transport.route,
            limits=limits,
            admission=admission,
            tracer=tracer,
            label=label,
        )
        self.operating = False
        self.transport: Final = transport
        self._envelopes = envelopes
        self._lead = getattr(transport, "lead", None)
        self._lifecycle = HandshakeLifecycle()
        self._may_operate = trio.Event()
        self._reading = trio.CancelScope()
        self._ended = trio.Event()

    # ------------------------------------------------------------ life

    async def run(  # noqa: ASYNC128 - started() is called by _run_handlers
        self, *, task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Own the session until the peer ends it, `close` is called, or this task is cancelled.

        The teardown ladder: stop reading, settle every waiter, let requests already read
        finish within ``limits.eof_grace`` (end of input only), cancel the rest, let the
        writer drain within ``limits.drain``, close the transport. Faults of the pipe or of a
        handler never leave this function; they end up in the waiters' `SessionLost` and in
        the log. A checkpoint; after Cancelled nothing of the session is left.
        """
        try:
            write = self.transport.run_writer
            if write is None:
                await self._run_handlers(task_status)
            else:
                writing = trio.CancelScope(shield=True)
                async with trio.open_nursery() as io:
                    io.start_soon(self._write, write, writing)
                    try:
                        await self._run_handlers(task_status)
                    finally:
                        writing.cancel()
        finally:
            await self.transport.aclose()
            self._trace("session.closed", {"reason": str(self._error)})
            self._ended.set()

    async def _run_handlers(self, task_status: trio.TaskStatus[Session]) -> None:
        """Serve until there is nothing more to read, then let the writer drain."""
        try:
            async with trio.open_nursery() as self._handlers:
                self._trace("session.opened", {"transport": type(self.transport).__name__})
                task_status.started(self)
                try:
                    await self._read()
                finally:
                    self._stop_serving(self._handlers)
        finally:
            with trio.CancelScope(shield=True) as shield:
                if self._table.incoming:  # served in tasks of others, which unwind
                    await self._wait_idle()
                shield.deadline = trio.current_time() + self.limits.drain
                await self.transport.drain()

    async def _read(self) -> None:
        """Read until there is nothing more to come, then give requests their grace."""
        try:
            with self._reading:
                await self.transport.run_reader(self.deliver)
                self.lose(SessionLost("the peer closed the connection"))
        except SessionLost as exc:
            self.lose(exc)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self.lose(SessionLost(f"the connection broke: {exc}", exc))
        except Exception as exc:  # noqa: BLE001 - a bug of ours is contained at the session's border
            _log.exception("the reader of the session failed")
            self.lose(SessionLost(f"internal error: {exc!r}", exc))
        finally:  # cancelled from outside: a handler that waits under a shield must not wait on
            self.lose(SessionClosed("the session is closed"))
        if type(self._error) is SessionLost and self._table.incoming:
            await self._give_grace()

    async def _give_grace(self) -> None:
        """The peer sends no more, but may still read: let its last requests finish."""
        self._in_grace = True
        try:
            with trio.move_on_after(self.limits.eof_grace):
                await self._wait_idle()
        finally:
            self._in_grace = False

    async def _wait_idle(self) -> None:
        """Wait until no request is being served any more."""
        self._idle = trio.Event()
        try:
            await self._idle.wait()
        finally:
            self._idle = None

    def _stop_serving(self, handlers: trio.Nursery) -> None:
        """Cancel all requests; `lose` has ended their reverse calls, here go those of chains."""
        handlers.cancel_scope.cancel()
        self.stop_serving("the session ended")  # some may run in tasks of others
        for serving in self._table.incoming.values():
            self._end_calls(self._table.take_calls_from(serving), serving)

    async def _write(self, write: Callable[[], Awaitable[None]], writing: trio.CancelScope) -> None:
        with writing:
            try:
                await write()
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
                self.lose(SessionLost(f"the connection broke: {exc}", exc))
                self._reading.cancel()

    def close(self) -> None:
        """Ask the owner to close the session. Legal from any task, in any order, twice."""
        self.lose(SessionClosed("this side closed the session"))
        self._reading.cancel()

    async def aclose(self) -> None:
        """Close the session and wait until nothing of it is left. A checkpoint."""
        self.close()
        await self._ended.wait()

    async def wait_ended(self) -> None:
        """Wait until nothing of the session is left. A checkpoint."""
        await self._ended.wait()

    def lose(self, error: SessionLost) -> None:
        """The peer is gone: settle every waiter with *error*; the first call counts."""
        if self._error is None:
            super().lose(error)
            self._step(Event.CLOSE)
            self._may_operate.set()

    def _cut_off(self, reason: str) -> None:
        super()._cut_off(reason)
        self._reading.cancel()

    # ------------------------------------------------------------ the handshake

    def _step(self, event: Event) -> Ruling:
        ruling = self._lifecycle.rule(event)
        self.operating = self._lifecycle.operating
        return ruling

    def _may_serve(self, message: Request, route: Route) -> bool:
        """Rule on a request outside operation."""
        method = message.method
        if method == "ping" or method == "initialize":  # noqa: PLR1714 - as on the hot path
            return True
        event = Event.FORWARD_REQUEST if self.role == "server" else Event.REVERSE_REQUEST
        ruling = self._step(event)
        if ruling is Ruling.PROCEED:
            return True
        if self.role == "client" and ruling is Ruling.WAIT:
            return True  # a server that asks early is served; it is the server's duty to wait
        if ruling is Ruling.CLOSED:
            self._refuse(message, route, ErrorCode.INVALID_REQUEST, "the session is closed")
        elif method in self.revision.methods:
            reason = f"{method} came before initialize"
            self._refuse(message, route, ErrorCode.INVALID_REQUEST, reason)
        else:
            self._refuse(message, route, ErrorCode.METHOD_NOT_FOUND, f"method not found: {method}")
        return False

    def _receive_request(self, message: Request, route: Route) -> None:
        # Per request, whatever the handshake did: both eras may share a pipe (2026-07-28
        # basic/versioning § Supporting Multiple Versions).
        if self._envelopes is not None and (
            is_enveloped(message.params) or message.method in self._envelopes.methods
        ):
            self.beside(self._envelopes)._receive_request(message, route)  # noqa: SLF001 - its base
        else:
            super()._receive_request(message, route)

    def _answer_at_once(self, message: Request, route: Route) -> None:
        if message.method == "initialize" and self.role == "server":
            self._initialize(message, route)
        else:
            super()._answer_at_once(message, route)

    def _initialize(self, message: Request, route: Route) -> None:
        ruling = self._step(Event.INITIALIZE)
        if ruling is not Ruling.PROCEED:
            self._refuse(
                message, route, ErrorCode.INVALID_REQUEST, "the session is initialized already"
            )
            return
        try:
            result = self._endpoint.initialize(self, message.params or {})
        except Exception as exc:  # noqa: BLE001 - the error border of a request
            self._lifecycle = HandshakeLifecycle()  # a later initialize may still succeed
            self._reply(failure_of(exc, message), route)
            return
        self._reply(Result(message.id, result), route)
        self._step(Event.ANSWERED)

    def _receive_notification(self, message: Notification) -> None:
        if message.method == _INITIALIZED:
            if self.role == "server" and self._step(Event.INITIALIZED) is Ruling.PROCEED:
                self._may_operate.set()
                self._endpoint.handle_notification(self, message)
        elif (
            self.operating
            or message.method == CANCELLED  # also when closed: then its request gets no answer
            or self._step(Event.NOTIFICATION) is Ruling.PROCEED
        ):
            super()._receive_notification(message)

    async def _may_call(self, method: str) -> None:
        """Hold a server's reverse call until ``initialized``; a client's until its handshake."""
        if method == "initialize":
            event = Event.INITIALIZE
        elif method in _BEFORE:
            event = Event.PING
        else:
            event = Event.REVERSE_REQUEST if self.role == "server" else Event.FORWARD_REQUEST
        ruling = self._step(event)
        if ruling is Ruling.WAIT:
            await self._may_operate.wait()
        elif ruling in (Ruling.NOT_YET, Ruling.AGAIN):
            await trio.lowlevel.checkpoint()
            raise ProtocolViolation(f"{method} cannot be sent now: {ruling.name.lower()}")

    def opened(self, revision: Revision) -> None:
        """The handshake is done on the client side: go on at *revision*."""
        self.revision = revision
        self._step(Event.ANSWERED)
        self._step(Event.INITIALIZED)
        self._may_operate.set()

    def opened_without_handshake(self, revision: Revision) -> None:
        """The client's side goes on at *revision*, whose requests stand for themselves."""
        self._step(Event.INITIALIZE)
        self.opened(revision)

    # ------------------------------------------------------------ batches

    def _receive_other(self, message: Any, route: Route) -> None:
        if (
            type(message) is not Batch
            or not self._negotiated
            or Feature.BATCH not in self.revision.features
        ):
            super()._receive_other(message, route)
        elif len(message.members) > self.limits.batch:
            reason = f"a batch of {len(message.members)}; the limit is {self.limits.batch}"
            super()._receive_other(
                Malformed(Flaw.UNPARSABLE, ErrorCode.INVALID_REQUEST, reason), route
            )
        else:
            together = BatchRoute(route)
            for member in together.open(message, self._is_answered):
                self.deliver(member, together)

    def _is_answered(self, message: object) -> bool:
        return isinstance(message, Request) or (
            isinstance(message, Malformed) and self._is_told(message)
        )

    @property
    def _negotiated(self) -> bool:
        return self._lifecycle.state in (State.OPENED, State.OPERATING)

    @property
    def _omit_id(self) -> bool:
        return self._negotiated and Feature.ERROR_WITHOUT_ID in self.revision.features

    # ------------------------------------------------------------ work beside requests

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run *fn* in the session's nursery; its faults are logged and hurt nobody else."""
        if self._handlers is None or self._error is not None:
            raise (self._error or SessionClosed("the session has not started")).again()
        self._handlers.start_soon(self._contain, fn, args)

    async def _contain(self, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
        try:
            await fn(*args)
        except Exception:  # noqa: BLE001 - one task never hurts the session
            _log.exception("a background task of the session failed")
        except BaseExceptionGroup as group:
            reraise_cancelled(group)
