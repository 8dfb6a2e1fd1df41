"""The untyped engine of one side of a session, the same class for client and server.

**The law: no reverse call outlives its forward call, and each one that is abandoned tells
the peer exactly once.** Two mechanisms hold it. The *scope*: a reverse call is an ordinary
``await`` inside its forward call's handler, so the peer's cancel ends it where it waits. The
*table*: when a forward call ends, in whatever way, `Session._settle` takes every call it still
has open out of the table, queues its one ``notifications/cancelled`` and wakes its waiter with
`OriginSettled`, and only then queues the answer; this reaches tasks under shields and in
foreign nurseries. Popping a call from the table is the single ticket for both.

`Session.deliver` never blocks. Answers and protocol notifications are settled inside it,
requests get a task each, user-visible notifications go to the endpoint.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from mcp_trio.errors import (
    Busy,
    DeadlineExceeded,
    ErrorCode,
    InvalidMessage,
    InvalidResult,
    OriginSettled,
    PeerError,
    ProtocolViolation,
    Refusal,
    SessionClosed,
    SessionLost,
)
from mcp_trio.limits import Deadline, Limits
from mcp_trio.wire.correlation import Correlation, Verdict
from mcp_trio.wire.jsonrpc import (
    Batch,
    Discarded,
    Failure,
    Flaw,
    Malformed,
    Notification,
    Request,
    Result,
    Unencodable,
    classify,
)
from mcp_trio.wire.lifecycle import Event, HandshakeLifecycle, Ruling
from mcp_trio.wire.revisions import LATEST_LEGACY, Feature, Revision

from .admission import Admission, ThreadShare
from .batch import BatchRoute
from .calls import CallSnapshot, PendingCall, Serving, SessionStatistics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.abc import Endpoint, Route, Tracer, Transport

__all__ = ["Session"]

_log: Final = logging.getLogger("mcp_trio.runtime")

_CANCELLED: Final = "notifications/cancelled"
_PROGRESS: Final = "notifications/progress"
_INITIALIZED: Final = "notifications/initialized"


class Session:
    """One side of a session, from the first byte to the last.

    Args:
        role: which side this is.
        endpoint: what is served to the peer.
        transport: the pipe; the session owns and closes it.
        admission: shared by the sessions of one server; a fresh one otherwise.

    Attributes:
        revision: what was negotiated; the newest legacy revision until then.
        state: the endpoint's own data about this session.
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
    ) -> None:
        self.role: Final = role
        self.limits: Final = limits or Limits()
        self.label: Final = label
        self.revision: Revision = LATEST_LEGACY
        self.state: Any = None
        self.tracer: Final = tracer
        self.route: Final[Route] = transport.route
        self._endpoint = endpoint
        self._transport = transport
        self._admission = admission or Admission(self.limits)
        self.threads: Final = ThreadShare(self._admission.threads, self.limits.threads_per_session)
        self._table: Correlation[PendingCall, Serving] = Correlation()
        self._lifecycle = HandshakeLifecycle()
        self._operating = trio.Event()
        self._handlers: trio.Nursery | None = None
        self._reading = trio.CancelScope()
        self._idle: trio.Event | None = None
        self._ended = trio.Event()
        self._error: SessionLost | None = None
        self._reader_replies = 0
        self._counts = dict.fromkeys(_COUNTED, 0)

    # ------------------------------------------------------------ life

    async def run(self, *, task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED) -> None:
        """Own the session until the peer ends it, `close` is called, or this task is cancelled.

        The teardown ladder: stop reading, settle every waiter, let requests already read
        finish within ``limits.eof_grace`` (end of input only), cancel the rest, let the
        writer drain within ``limits.drain``, close the transport. Faults of the pipe or of a
        handler never leave this function; they end up in the waiters' `SessionLost` and in
        the log. A checkpoint; after Cancelled nothing of the session is left.
        """
        writing = trio.CancelScope(shield=True)
        try:
            async with trio.open_nursery() as io:
                io.start_soon(self._write, writing)
                try:
                    async with trio.open_nursery() as self._handlers:
                        self._trace("session.opened", {})
                        task_status.started(self)
                        await self._read()
                        self._handlers.cancel_scope.cancel()
                finally:
                    self._lose(SessionClosed("the session is closed"))
                    with trio.CancelScope(
                        shield=True, deadline=trio.current_time() + self.limits.drain
                    ):
                        await self._transport.drain()
                    writing.cancel()
        finally:
            await self._transport.aclose()
            self._trace("session.closed", {"reason": str(self._error)})
            self._ended.set()

    async def _read(self) -> None:
        """Read until there is nothing more to come, then give requests their grace."""
        try:
            with self._reading:
                await self._transport.run_reader(self.deliver)
                self._lose(SessionLost("the peer closed the connection"))
        except SessionLost as exc:
            self._lose(exc)
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            self._lose(SessionLost(f"the connection broke: {exc}", exc))
        if type(self._error) is SessionLost and self._table.incoming:
            self._idle = trio.Event()
            with trio.move_on_after(self.limits.eof_grace):
                await self._idle.wait()

    async def _write(self, writing: trio.CancelScope) -> None:
        with writing:
            try:
                await self._transport.run_writer()
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as exc:
                self._lose(SessionLost(f"the connection broke: {exc}", exc))
                self._reading.cancel()

    def close(self) -> None:
        """Ask the owner to close the session. Legal from any task, in any order, twice."""
        self._lose(SessionClosed("this side closed the session"))
        self._reading.cancel()

    async def aclose(self) -> None:
        """Close the session and wait until nothing of it is left. A checkpoint."""
        self.close()
        await self._ended.wait()

    async def wait_ended(self) -> None:
        """Wait until nothing of the session is left. A checkpoint."""
        await self._ended.wait()

    @property
    def error(self) -> SessionLost | None:
        """Why nothing more can be sent, or None while the session is open."""
        return self._error

    def _lose(self, error: SessionLost) -> None:
        """Settle every waiter with *error*; the first call counts.

        Where it was this side that closed, the peer may still be there and is told.
        """
        if self._error is not None:
            return
        self._error = error
        self._lifecycle.rule(Event.CLOSE)
        for call in self._table.take_all_calls():
            if isinstance(error, SessionClosed):
                self._tell_abandoned(call)
            call.settle(error.again())
        self._operating.set()

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run *fn* in the session's nursery; its faults are logged and hurt nobody else."""
        if self._handlers is None or self._error is not None:
            raise (self._error or SessionClosed("the session has not started")).again()
        self._handlers.start_soon(self._contain, fn, args)

    async def _contain(self, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...]) -> None:
        try:
            await fn(*args)
        except Exception:
            _log.exception("a background task of the session failed")
        except BaseExceptionGroup as group:
            _reraise_cancelled(group)

    # ------------------------------------------------------------ what arrives

    def deliver(self, message: Any, route: Route) -> None:
        """Take one message of the peer; a plain function that never blocks."""
        self._counts["received"] += 1
        if self.tracer is not None:
            self._trace("message.received", {"message": message})
        kind = type(message)
        if kind is Request:
            self._receive_request(message, route)
        elif kind is Result or kind is Failure:
            self._receive_answer(message)
        elif kind is Notification:
            self._receive_notification(message)
        elif kind is Batch:
            self._receive_batch(message, route)
        elif kind is Discarded:
            self._refuse_unread(message, route)
        else:
            self._receive_malformed(message, route)

    def _receive_request(self, message: Request, route: Route) -> None:
        if not self._lifecycle.operating and not self._may_serve(message, route):
            return
        method = message.method
        if method == "ping":
            self._reply(Result(message.id, {}), route)
            return
        if method == "initialize":
            self._initialize(message, route)
            return
        incoming = self._table.incoming
        if message.id in incoming:
            self._counts["duplicate_ids"] += 1
            self._refuse(
                message, route, ErrorCode.INVALID_REQUEST, "this id is in flight already"
            )
            return
        if (
            self._error is not None
            or self._handlers is None
            or len(incoming) >= self.limits.in_flight
            or not self._admission.enter()
        ):
            self._counts["busy_refused"] += 1
            self._refuse(message, route, ErrorCode.BUSY, "too many requests in flight, try later")
            return
        serving = Serving(message.id, method, self, route)
        incoming[message.id] = serving
        self._handlers.start_soon(self._serve, serving, message, name=method)

    def _may_serve(self, message: Request, route: Route) -> bool:
        """Rule on a request outside operation; ``initialize`` is answered right here."""
        method = message.method
        if method == "initialize":
            self._initialize(message, route)
            return False
        if method == "ping":
            event = Event.PING
        else:
            event = Event.FORWARD_REQUEST if self.role == "server" else Event.REVERSE_REQUEST
        ruling = self._lifecycle.rule(event)
        if ruling is Ruling.PROCEED:
            return True
        if self.role == "client" and ruling is Ruling.WAIT:
            return True  # a server that asks early is served; it is the server's duty to wait
        known = method in self.revision.methods
        self._refuse(
            message,
            route,
            ErrorCode.INVALID_REQUEST if known else ErrorCode.METHOD_NOT_FOUND,
            f"{method} came before initialize" if known else f"method not found: {method}",
        )
        return False

    def _initialize(self, message: Request, route: Route) -> None:
        if self.role == "client":
            self._refuse(message, route, ErrorCode.METHOD_NOT_FOUND, "initialize is for servers")
            return
        ruling = self._lifecycle.rule(Event.INITIALIZE)
        if ruling is not Ruling.PROCEED:
            self._refuse(
                message, route, ErrorCode.INVALID_REQUEST, "the session is initialized already"
            )
            return
        try:
            result = self._endpoint.initialize(self, message.params or {})
        except Exception as exc:  # noqa: BLE001 - the error border of a request
            self._lifecycle = HandshakeLifecycle()  # a later initialize may still succeed
            self._reply(_failure_of(exc, message), route)
            return
        self._reply(Result(message.id, result), route)
        self._lifecycle.rule(Event.ANSWERED)

    def _receive_answer(self, message: Result | Failure) -> None:
        if message.id is None:
            self._table.stray += 1
            return
        call = self._table.take_call(message.id)
        if call is not None:
            call.settle(message)

    def _receive_notification(self, message: Notification) -> None:
        method, params = message.method, message.params or {}
        if method == _PROGRESS:
            self._receive_progress(params)
        elif method == _CANCELLED:
            serving = self._table.peer_cancels(params.get("requestId"))
            if serving is not None:
                self._counts["cancelled_by_peer"] += 1
                serving.scope.cancel(reason="the peer cancelled the request")
        elif method == _INITIALIZED:
            if self.role == "server" and self._lifecycle.rule(Event.INITIALIZED) is Ruling.PROCEED:
                self._operating.set()
                self._endpoint.handle_notification(self, message)
        elif self._lifecycle.rule(Event.NOTIFICATION) is Ruling.PROCEED:
            self._endpoint.handle_notification(self, message)

    def _receive_progress(self, params: dict[str, Any]) -> None:
        token = params.get("progressToken")
        # Exact classes: true is equal to 1, and would find call 1.
        if type(token) is int or type(token) is str:
            call = self._table.outgoing.get(token)
            if call is not None and type(params.get("progress")) in (int, float):
                call.progressed(params)
                return
        self._counts["late_progress"] += 1

    def _receive_batch(self, batch: Batch, route: Route) -> None:
        members = batch.members
        if Feature.BATCH not in self.revision.features or not self._lifecycle.operating:
            reason = "batches exist only in revision 2025-03-26, after initialization"
        elif len(members) > self.limits.batch:
            reason = f"a batch has at most {self.limits.batch} messages"
        else:
            reason = ""
        if reason:
            self._receive_malformed(
                Malformed(Flaw.UNPARSABLE, ErrorCode.INVALID_REQUEST, reason), route
            )
            return
        together = BatchRoute(route)
        messages = [classify(raw) for raw in members]
        # All are counted before the first is served: an answer given at once is not the last.
        for message in messages:
            if isinstance(message, Request | Batch) or (
                isinstance(message, Malformed) and self._is_told(message)
            ):
                together.expect()
        for message in messages:
            if isinstance(message, Batch):
                self._receive_malformed(
                    Malformed(Flaw.UNPARSABLE, ErrorCode.INVALID_REQUEST, "a batch in a batch"),
                    together,
                )
            else:
                self.deliver(message, together)

    def _receive_malformed(self, malformed: Malformed, route: Route) -> None:
        self._counts["malformed"] += 1
        self._trace("message.malformed", {"malformed": malformed})
        if malformed.flaw is Flaw.ANSWER and malformed.id is not None:
            call = self._table.take_call(malformed.id)
            if call is not None:
                call.settle(InvalidResult(f"the answer to {call.method}: {malformed.reason}"))
        elif self._is_told(malformed):
            self._reply(
                Failure(malformed.id, malformed.code, malformed.reason, omit_id=self._omit_id), route
            )
        _log.debug("malformed input: %s", malformed)

    def _is_told(self, malformed: Malformed) -> bool:
        """Only a server answers what it cannot parse; a bad request is answered by both sides."""
        return malformed.flaw is Flaw.REQUEST or (
            malformed.flaw is Flaw.UNPARSABLE and self.role == "server"
        )

    @property
    def _omit_id(self) -> bool:
        return self._lifecycle.operating and Feature.ERROR_WITHOUT_ID in self.revision.features

    def _refuse_unread(self, line: Discarded, route: Route) -> None:
        self._receive_malformed(
            Malformed(
                Flaw.UNPARSABLE,
                ErrorCode.INVALID_REQUEST,
                f"a message of {line.size} bytes; the limit is {self.limits.message_bytes}",
            ),
            route,
        )

    def _refuse(self, message: Request, route: Route, code: ErrorCode, reason: str) -> None:
        self._reply(Failure(message.id, code, reason), route)

    def _reply(self, answer: Result | Failure, route: Route) -> None:
        """Queue an answer that the reader itself owes; a peer that never reads them is cut off."""
        if route.full:
            self._reader_replies += 1
            if self._reader_replies > self.limits.reader_replies:
                self._lose(SessionLost("the peer sends without reading the answers"))
                self._reading.cancel()
                return
        else:
            self._reader_replies = 0
        self._send(answer, route, eager=True)

    # ------------------------------------------------------------ serving

    async def _serve(self, serving: Serving, message: Request) -> None:
        answer: Result | Failure | None = None
        try:
            # The error border stands outside the scope: clean-up that fails while the scope
            # is being cancelled, and a scope the handler left broken, both surface there.
            with serving.scope:
                result = await self._endpoint.handle_request(serving, message)
                if serving.route.full:
                    await serving.route.wait_room()
                answer = Result(message.id, result)
        except (Exception, SystemExit) as exc:  # noqa: BLE001 - one handler never hurts another
            answer = _failure_of(exc, message)
        except BaseExceptionGroup as group:
            _reraise_cancelled(group)
        finally:
            self._settle(serving, answer)

    def _settle(self, serving: Serving, answer: Result | Failure | None) -> None:
        """End a forward call: first the reverse calls it still has open, then its answer."""
        verdict, abandoned = self._table.settle(serving)
        self._admission.leave()
        for call in abandoned:
            self._tell_abandoned(call)
            call.settle(
                OriginSettled(f"{call.method} was open when {serving.method} {serving.id!r} ended")
            )
        incoming = self._table.incoming
        if verdict is Verdict.ANSWER:
            self._answer(serving, answer, eager=not incoming)
        elif isinstance(serving.route, BatchRoute):
            serving.route.skip()
        if self.tracer is not None:
            self._trace("request.settled", {"id": serving.id, "verdict": verdict.name})
        if not incoming and self._idle is not None:
            self._idle.set()

    def _answer(self, serving: Serving, answer: Result | Failure | None, *, eager: bool) -> None:
        if answer is None:
            answer = Failure(
                serving.id, ErrorCode.INTERNAL_ERROR, "the session closed before the answer"
            )
        try:
            self._send(answer, serving.route, eager=eager)
        except Unencodable as exc:
            _log.error("the result of %s cannot be sent: %s", serving.method, exc)
            reason = f"the result cannot be sent as JSON: {exc}"
            self._send(
                Failure(serving.id, ErrorCode.INTERNAL_ERROR, reason), serving.route, eager=eager
            )

    # ------------------------------------------------------------ sending

    def _send(self, message: Any, route: Route, *, eager: bool = False) -> int:
        ticket = route.send_nowait(message, eager=eager)
        self._counts["sent"] += 1
        if self.tracer is not None:
            self._trace("message.sent", {"message": message})
        return ticket

    def notify_nowait(
        self, method: str, params: dict[str, Any] | None = None, *, route: Route | None = None
    ) -> int:
        """Queue a notification and return its ticket.

        Raises:
            SessionLost: the session is over.
            InvalidMessage: *params* cannot be written as JSON; nothing was queued.
        """
        if self._error is not None:
            raise self._error.again()
        try:
            return self._send(Notification(method, params), route or self.route)
        except Unencodable as exc:
            raise InvalidMessage(exc.path, exc.reason) from None

    async def call(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        origin: Serving | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        deadline: Deadline | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        With *origin* the call is a reverse call of that request: it goes to its route and
        ends with it. *on_progress* is called, synchronously, with the params of each progress
        notification. A checkpoint. When the wait is cancelled the peer is told, without
        waiting for it, and a late answer is dropped.

        Raises:
            PeerError: the peer answered with an error.
            SessionLost: the session ended first.
            OriginSettled: *origin* has ended, or ended first.
            DeadlineExceeded: *deadline* ran out; the peer has been told.
            InvalidMessage: *params* cannot be written as JSON; nothing was sent.
            InvalidResult: the answer was no JSON-RPC answer.
        """
        if not self._lifecycle.operating:
            await self._wait_operating(method)
        if self._error is not None:
            await trio.lowlevel.checkpoint()
            raise self._error.again()
        route = self.route if origin is None else origin.route
        call = PendingCall(self._table.next_id(), method, origin, route, on_progress)
        if on_progress is not None or deadline is not None:
            meta = (params or {}).get("_meta")
            params = {**(params or {}), "_meta": {**(meta or {}), "progressToken": call.id}}
        try:
            self._table.open_call(call)
        except OriginSettled:
            await trio.lowlevel.checkpoint()
            raise
        try:
            eager = len(self._table.outgoing) == 1
            call.ticket = self._send(Request(call.id, method, params), route, eager=eager)
        except Unencodable as exc:
            self._table.abandon(call)
            await trio.lowlevel.checkpoint()
            raise InvalidMessage(exc.path, exc.reason) from None
        if deadline is None:
            return _unwrap(await call.wait(self._abandon))
        reply: Result | Failure | Exception | None = None
        with call.watch(deadline):
            reply = await call.wait(self._abandon)
        if reply is None:
            raise DeadlineExceeded(
                f"no answer to {method} within {deadline.idle:g} s without progress, "
                f"{deadline.cap:g} s in all"
            )
        return _unwrap(reply)

    async def _wait_operating(self, method: str) -> None:
        """Hold a server's reverse call until ``initialized``; a client's until its handshake."""
        if method == "initialize":
            event = Event.INITIALIZE
        elif method == "ping":
            event = Event.PING
        else:
            event = Event.REVERSE_REQUEST if self.role == "server" else Event.FORWARD_REQUEST
        ruling = self._lifecycle.rule(event)
        if ruling is Ruling.WAIT:
            await self._operating.wait()
        elif ruling in (Ruling.NOT_YET, Ruling.AGAIN):
            await trio.lowlevel.checkpoint()
            raise ProtocolViolation(f"{method} cannot be sent now: {ruling.name.lower()}")

    def opened(self, revision: Revision) -> None:
        """The handshake is done on the client side: go on at *revision*."""
        self.revision = revision
        self._lifecycle.rule(Event.ANSWERED)
        self._lifecycle.rule(Event.INITIALIZED)
        self._operating.set()

    def _abandon(self, call: PendingCall) -> None:
        """The caller of *call* gave up: take it out of the table and tell the peer, once."""
        if self._table.abandon(call):
            self._tell_abandoned(call)

    def _tell_abandoned(self, call: PendingCall) -> None:
        """Queue the one cancellation of *call*, or take back its request if it is still here.

        Queued, never awaited: leaving a scope does not wait for the peer. ``initialize`` is
        never cancelled (2025-11-25 cancellation § Behavior Requirements 2).
        """
        self._counts["abandoned"] += 1
        self._trace("call.abandoned", {"id": call.id, "method": call.method})
        if call.route.unsend(call.ticket) or call.method == "initialize":
            return
        params = {"requestId": call.id, "reason": "the caller gave up"}
        self._send(Notification(_CANCELLED, params), call.route, eager=True)

    # ------------------------------------------------------------ looking in

    def calls(self) -> tuple[CallSnapshot, ...]:
        """Return who waits for whom at this moment, oldest first."""
        rows = [
            CallSnapshot(
                direction="out",
                id=call.id,
                method=call.method,
                since=call.started,
                origin=None if call.origin is None else call.origin.id,
            )
            for call in self._table.outgoing.values()
        ]
        rows += [
            CallSnapshot(
                direction="in",
                id=serving.id,
                method=serving.method,
                since=serving.started,
                cancelled=serving.stage.name == "CANCELLED",
            )
            for serving in self._table.incoming.values()
        ]
        return tuple(sorted(rows, key=lambda row: row.since))

    def statistics(self) -> SessionStatistics:
        """Return a snapshot of the session's counters."""
        return SessionStatistics(
            in_flight=len(self._table.incoming),
            outgoing=len(self._table.outgoing),
            late_answers=self._table.late,
            stray_answers=self._table.stray,
            **self._counts,
        )

    def count_dropped(self, n: int = 1) -> None:
        """The endpoint dropped *n* notifications for want of room."""
        self._counts["notifications_dropped"] += n

    def _trace(self, name: str, fields: dict[str, Any]) -> None:
        if self.tracer is not None:
            self.tracer.event(name, {"session": self.label, "role": self.role, **fields})


_COUNTED: Final = (
    "received",
    "sent",
    "busy_refused",
    "duplicate_ids",
    "malformed",
    "late_progress",
    "cancelled_by_peer",
    "abandoned",
    "notifications_dropped",
)


def _unwrap(reply: Result | Failure | Exception | None) -> dict[str, Any]:
    if type(reply) is Result:
        result: dict[str, Any] = reply.result
        return result
    if type(reply) is Failure:
        kind = Busy if reply.code == ErrorCode.BUSY else PeerError
        raise kind(reply.code, reply.message, reply.data)
    assert isinstance(reply, Exception)
    raise reply


def _failure_of(exc: BaseException, message: Request) -> Failure:
    """Return the wire error for what a handler raised."""
    if isinstance(exc, Refusal):
        return Failure(message.id, exc.code, exc.message, exc.data)
    if isinstance(exc, InvalidMessage):
        return Failure(message.id, ErrorCode.INVALID_PARAMS, f"invalid params: {exc}")
    _log.error("the handler of %s failed", message.method, exc_info=exc)
    return Failure(message.id, ErrorCode.INTERNAL_ERROR, f"internal error in {message.method}")


def _reraise_cancelled(group: BaseExceptionGroup[BaseException]) -> None:
    """Log what failed during clean-up; only the cancellation itself goes on outwards."""
    cancelled, rest = group.split(trio.Cancelled)
    if rest is not None:
        if rest.split((KeyboardInterrupt, GeneratorExit))[0] is not None:
            raise group
        _log.error("clean-up failed while a handler was being cancelled", exc_info=rest)
    if cancelled is not None:
        raise cancelled
