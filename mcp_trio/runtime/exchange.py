"""One id space: two flat tables, and the rules by which requests are served and calls settle.

**The law: no reverse call outlives its forward call, and each one that is abandoned tells
the peer exactly once.** Two mechanisms hold it. The *scope*: a reverse call is an ordinary
``await`` inside its forward call's handler, so the peer's cancel ends it where it waits. The
*table*: when a forward call ends, in whatever way, `Exchange._settle` takes every call it
still has open out of the table, queues its one ``notifications/cancelled`` and wakes its
waiter with `OriginSettled`, and only then queues the answer; this reaches tasks under shields
and in foreign nurseries. Popping a call from the table is the single ticket for both.

`Exchange.deliver` never blocks. Answers and protocol notifications are settled inside it,
requests get a task each, user-visible notifications go to the endpoint.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

import trio

from mcp_trio.errors import (
    DeadlineExceeded,
    ErrorCode,
    InvalidMessage,
    InvalidResult,
    NoReverseRoute,
    OriginSettled,
    SessionClosed,
    SessionLost,
)
from mcp_trio.limits import Limits
from mcp_trio.wire.correlation import Correlation, Stage, Verdict
from mcp_trio.wire.jsonrpc import (
    Discarded,
    Failure,
    Flaw,
    Malformed,
    Notification,
    Request,
    Result,
    Unencodable,
)
from mcp_trio.wire.revisions import LATEST_LEGACY, Revision

from .admission import Admission, ThreadShare
from .calls import CallSnapshot, PendingCall, Serving, SessionStatistics, snapshot
from .isolation import in_own_context
from .outcomes import failure_of, reraise_cancelled, unwrap

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from mcp_trio.abc import Endpoint, Lead, Route, Tracer
    from mcp_trio.limits import Deadline
    from mcp_trio.wire.envelope import Envelope
    from mcp_trio.wire.jsonrpc import RequestId

__all__ = ["CANCELLED", "Exchange"]

_log: Final = logging.getLogger("mcp_trio.runtime")

CANCELLED: Final = "notifications/cancelled"
_PROGRESS: Final = "notifications/progress"


class Exchange:
    """The untyped engine of one side of one id space, the same for client and server.

    Args:
        role: which side this is.
        endpoint: what is served to the peer.
        route: where messages go that belong to no request.
        admission: shared by the sessions of one server; a fresh one otherwise.
        tracer: told of every message.
        label: names the exchange in traces.

    Attributes:
        revision: what was negotiated; the newest legacy revision until then.
        state: the endpoint's own data about the peer.
        principal: who the peer is, where the transport knows; text, or None.
        head: the head of the HTTP request that it is for, where it is for one.
        enveloped: its requests stand for themselves; it knows neither ping nor handshake.
        envelope: that of the one request it is for, where it has been read already.
        outgoing: the endpoint's middleware around calls of this side; None costs nothing.
        operating: false while requests and calls must ask `_may_serve` and `_may_call` first.
    """

    def __init__(
        self,
        role: Literal["client", "server"],
        endpoint: Endpoint,
        route: Route,
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
        self.principal: Any = None
        self.head: Any = None
        self.enveloped = False
        self.envelope: Envelope | None = None
        self.outgoing: Callable[..., Awaitable[dict[str, Any]]] | None = None
        self.operating = True
        self.tracer: Final = tracer
        self.route: Final = route
        self._endpoint = endpoint
        self._admission = admission or Admission(self.limits)
        self._threads: ThreadShare | None = None
        self._table: Correlation[PendingCall, Serving] = Correlation()
        self._handlers: trio.Nursery | None = None
        self._idle: trio.Event | None = None
        self._in_grace = False  # the peer sends no more, but may still read
        self._parent: Exchange | None = None  # whose id space and pipe this one shares
        self._error: SessionLost | None = None
        self._reader_replies = 0
        self._enclosed: set[trio.CancelScope] = set()
        self._lead: Lead | None = None
        self._counts = dict.fromkeys(_COUNTED, 0)

    @property
    def threads(self) -> ThreadShare:
        """This exchange's share of the worker threads, as a limiter."""
        if self._threads is None:
            share = self.limits.threads_per_session
            self._threads = ThreadShare(self._admission.threads, share)
        return self._threads

    def run_in(self, nursery: trio.Nursery) -> None:
        """Serve requests in *nursery*, which outlives this exchange."""
        self._handlers = nursery

    def beside(self, endpoint: Endpoint) -> Exchange:
        """Return an exchange for one request in the id space of this one: the pipe is the same."""
        exchange = Exchange(
            self.role,
            endpoint,
            self.route,
            limits=self.limits,
            admission=self._admission,
            tracer=self.tracer,
            label=self.label,
        )
        exchange._parent = self
        exchange.enveloped = True
        exchange._table, exchange._handlers = self._table, self._handlers
        exchange._enclosed, exchange._counts = self._enclosed, self._counts
        exchange._threads, exchange.principal = self.threads, self.principal
        return exchange

    @property
    def error(self) -> SessionLost | None:
        """Why nothing more can be sent, or None while the peer can be reached."""
        return self._error if self._parent is None else self._parent.error

    def lose(self, error: SessionLost) -> None:
        """The peer is gone: settle every waiter with *error*; the first call counts.

        Where it was this side that closed, the peer may still be there and is told.
        """
        if self._error is not None:
            return
        self._error = error
        for call in self._table.take_all_calls():
            if isinstance(error, SessionClosed):
                self.tell_abandoned(call)
            call.settle(error.again())
        for scope in self._enclosed:
            scope.cancel(reason="the session ended")

    @contextmanager
    def enclose(self) -> Iterator[None]:
        """A scope that the end of the session cancels, for work in somebody else's nursery."""
        with trio.CancelScope() as scope:
            if self.error is not None:
                scope.cancel(reason="the session has ended")
            self._enclosed.add(scope)
            try:
                yield
            finally:
                self._enclosed.discard(scope)

    def stop_serving(self, reason: str) -> None:
        """Cancel every request that is being served; each is answered with an error."""
        for serving in self._table.incoming.values():
            serving.scope.cancel(reason=reason)

    def fail_call(self, id_: RequestId, error: Exception) -> None:
        """No answer to the call *id_* will come: settle it, if it is still open, with *error*."""
        call = self._table.outgoing.get(id_)
        if call is not None and self._table.abandon(call):
            call.settle(error)

    def cancel_route(self, route: Route) -> None:
        """What came on *route* belonged to a call that is over: stop serving it, unanswered."""
        for serving in list(self._table.incoming.values()):
            if serving.route is route and self._table.peer_cancels(serving.id) is not None:
                serving.scope.cancel(reason="the call that it came from is over")

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
        else:
            self._receive_other(message, route)

    def _receive_other(self, message: Any, route: Route) -> None:
        if type(message) is Discarded:
            reason = f"a message of {message.size} bytes; the limit is {self.limits.message_bytes}"
            message = Malformed(Flaw.UNPARSABLE, ErrorCode.INVALID_REQUEST, reason)
        elif type(message) is not Malformed:
            reason = "batches exist only in revision 2025-03-26, after initialization"
            message = Malformed(Flaw.UNPARSABLE, ErrorCode.INVALID_REQUEST, reason)
        self._receive_malformed(message, route)

    async def serve(
        self, message: Request, route: Route, on_wait: Callable[[], None] | None = None
    ) -> None:
        """Take one request, as `deliver` does, but serve it in the caller's own task.

        Returns when the request is settled. Its handler runs in a copy of the caller's context.
        The end of the session cancels it, and waits for it, as if it were the session's own.
        *on_wait* is called once, when the handler waits for the first time.
        A checkpoint, whatever the handler is: after its answer others have their turn.
        """
        self._counts["received"] += 1
        if self.tracer is not None:
            self._trace("message.received", {"message": message})
        serving = self._admit(message, route)
        if serving is not None:
            await in_own_context(self._serve(serving, message), on_wait)
        await trio.lowlevel.checkpoint()

    def _receive_request(self, message: Request, route: Route) -> None:
        serving = self._admit(message, route)
        if serving is not None and self._handlers is not None:
            self._handlers.start_soon(self._serve, serving, message, name=message.method)

    def _admit(self, message: Request, route: Route) -> Serving | None:
        """Enter a request that is to be served; one that is not has been answered."""
        if not self.operating and not self._may_serve(message, route):
            return None
        method = message.method
        at_once = method == "ping" or method == "initialize"  # noqa: PLR1714 - no set on the hot path
        if at_once and not self.enveloped:
            self._answer_at_once(message, route)
            return None
        incoming = self._table.incoming
        if message.id in incoming:
            self._counts["duplicate_ids"] += 1
            self._refuse(message, route, ErrorCode.INVALID_REQUEST, "this id is in flight already")
            return None
        if (
            self.error is not None
            or self._handlers is None
            or len(incoming) >= self.limits.in_flight
            or not self._admission.enter()
        ):
            self._counts["busy_refused"] += 1
            self._refuse(message, route, ErrorCode.BUSY, "too many requests in flight, try later")
            return None
        serving = incoming[message.id] = Serving(message.id, method, self, route)
        return serving

    def _may_serve(self, message: Request, route: Route) -> bool:  # noqa: ARG002 - for subclasses
        """Outside operation: say whether a request is served, and answer it where it is not."""
        return True

    def _answer_at_once(self, message: Request, route: Route) -> None:
        """Answer a request that the reader itself serves, so that nothing overtakes it."""
        if message.method == "ping":
            self._reply(Result(message.id, {}), route)
        else:
            self._refuse(message, route, ErrorCode.METHOD_NOT_FOUND, "there is no initialize here")

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
        elif method == CANCELLED:
            serving = self._table.peer_cancels(params.get("requestId"))
            if serving is not None:
                self._counts["cancelled_by_peer"] += 1
                serving.scope.cancel(reason="the peer cancelled the request")
        else:
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

    def _receive_malformed(self, malformed: Malformed, route: Route) -> None:
        self._counts["malformed"] += 1
        self._trace("message.malformed", {"malformed": malformed})
        if malformed.flaw is Flaw.ANSWER and malformed.id is not None:
            call = self._table.take_call(malformed.id)
            if call is not None:
                call.settle(InvalidResult(f"the answer to {call.method}: {malformed.reason}"))
        elif self._is_told(malformed):
            self._reply(
                Failure(malformed.id, malformed.code, malformed.reason, omit_id=self._omit_id),
                route,
            )
        _log.debug("malformed input: %s", malformed)

    def _is_told(self, malformed: Malformed) -> bool:
        """Only a server answers what it cannot parse; a bad request is answered by both sides."""
        return malformed.flaw is Flaw.REQUEST or (
            malformed.flaw is Flaw.UNPARSABLE and self.role == "server"
        )

    @property
    def _omit_id(self) -> bool:
        """Whether an error whose request's id is unreadable omits the member."""
        return True

    def _refuse(self, message: Request, route: Route, code: ErrorCode, reason: str) -> None:
        self._reply(Failure(message.id, code, reason), route)

    def _reply(self, answer: Result | Failure, route: Route) -> None:
        """Queue an answer that the reader itself owes; a peer that never reads them is cut off."""
        home = self._parent or self  # replies are counted for the whole pipe
        if route.full:
            home._reader_replies += 1  # noqa: SLF001 - the same class
            if home._reader_replies > self.limits.reader_replies:  # noqa: SLF001 - as above
                home._cut_off("the peer sends without reading the answers")  # noqa: SLF001 - as above
                return
        else:
            home._reader_replies = 0  # noqa: SLF001 - as above
        self._send(answer, route, eager=True)

    def _cut_off(self, reason: str) -> None:
        """The peer cannot be dealt with any longer."""
        self.lose(SessionLost(reason))

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
            answer = failure_of(exc, message)
        except BaseExceptionGroup as group:
            reraise_cancelled(group)
        finally:
            self._settle(serving, answer)

    async def answer(self, key: str, method: str, params: dict[str, Any] | None) -> dict[str, Any]:
        """Serve a question that came in a result as if the peer had asked it; return the answer.

        A checkpoint if the handler is one. Calls that come from it end with it.

        Raises:
            Refusal, InvalidMessage: there is no handler, or it refused; and what it raised.
        """
        serving = Serving(key, method, self, self.route)
        try:
            return await self._endpoint.handle_request(serving, Request(key, method, params))
        finally:
            serving.stage = Stage.SETTLED
            self._end_calls(self._table.take_calls_from(serving), serving)

    def _settle(self, serving: Serving, answer: Result | Failure | None) -> None:
        """End a forward call: first the reverse calls it still has open, then its answer."""
        verdict, abandoned = self._table.settle(serving)
        self._admission.leave()
        if serving.rounds is not None:
            if verdict is Verdict.ANSWER:
                answer = serving.rounds.conclude(answer)
            serving.rounds.end()
        if abandoned:
            self._end_calls(abandoned, serving)
        incoming = self._table.incoming
        if verdict is Verdict.ANSWER:
            self._answer(serving, answer, eager=not incoming)
        else:
            serving.route.skip()
        if self.tracer is not None:
            self._trace("request.settled", {"id": serving.id, "verdict": verdict.name})
        if not incoming:
            idle = (self._parent or self)._idle  # noqa: SLF001 - the same class
            if idle is not None:
                idle.set()

    @staticmethod
    def _end_calls(calls: list[PendingCall], origin: Serving) -> None:
        """End *calls*, which came from *origin*, where they wait: under whatever shield."""
        for call in calls:
            call.home.tell_abandoned(call)
            call.settle(
                OriginSettled(f"{call.method} was open when {origin.method} {origin.id!r} ended")
            )

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
        error = self.error
        if error is not None and not (self._parent or self)._in_grace:  # noqa: SLF001 - as above
            raise error.again()
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
        on_open: Callable[[RequestId], None] | None = None,
    ) -> dict[str, Any]:
        """Send a request and wait for its result.

        With *origin* the call is a reverse call of that request: it goes to its route and
        ends with it. The request may also be one of another session: then this is the next
        link of a chain, and ends with it likewise. *on_progress* is called, synchronously,
        with the params of each progress notification, *on_open* with the request's id before
        it is sent. A checkpoint. When the wait is cancelled
        the peer is told, without waiting for it, and a late answer is dropped.

        Raises:
            PeerError: the peer answered with an error.
            SessionLost: the session ended first.
            OriginSettled: *origin* has ended, or ended first.
            NoReverseRoute: nobody can answer where *origin* came from; nothing was sent.
            DeadlineExceeded: *deadline* ran out; the peer has been told.
            InvalidMessage: *params* cannot be written as JSON; nothing was sent.
            InvalidResult: the answer was no JSON-RPC answer.
        """
        if not self.operating:
            await self._may_call(method)
        await trio.lowlevel.checkpoint_if_cancelled()  # who is being cancelled starts nothing new
        if self._error is not None:
            await trio.lowlevel.checkpoint()
            raise self._error.again()
        # A reverse call goes where its forward call came from; the call of a chain does not.
        route = origin.route if origin is not None and origin.session is self else self.route
        call = PendingCall(self, self._table.next_id(), method, origin, route, on_progress)
        if on_progress is not None or deadline is not None:
            meta = (params or {}).get("_meta")
            params = {**(params or {}), "_meta": {**(meta or {}), "progressToken": call.id}}
        try:
            self._table.open_call(call)
        except OriginSettled:
            await trio.lowlevel.checkpoint()
            raise
        if self.tracer is not None:
            self._trace_opened(call, origin)
        if on_open is not None:
            on_open(call.id)
        try:
            eager = len(self._table.outgoing) == 1
            call.ticket = self._send(Request(call.id, method, params), route, eager=eager)
        except (Unencodable, NoReverseRoute) as exc:
            self._table.abandon(call)
            await trio.lowlevel.checkpoint()
            if isinstance(exc, NoReverseRoute):
                raise
            raise InvalidMessage(exc.path, exc.reason) from None
        lead = self._lead if eager and origin is None and on_progress is None else None
        if deadline is None:
            return unwrap(await self._wait_answer(call, lead))
        reply: Result | Failure | Exception | None = None
        with call.watch(deadline):
            reply = await self._wait_answer(call, lead)
        if reply is None:
            raise DeadlineExceeded(
                f"no answer to {method} within {deadline.idle:g} s without progress, "
                f"{deadline.cap:g} s in all"
            )
        return unwrap(reply)

    async def _wait_answer(
        self, call: PendingCall, lead: Lead | None
    ) -> Result | Failure | Exception | None:
        """Wait for the answer; with *lead*, by reading it where nobody else reads."""
        if lead is not None:
            try:
                answer = await lead(call)
            except trio.Cancelled:
                self._abandon(call)
                raise
            if answer is not None:
                self.deliver(answer, call.route)
        return await call.wait(self._abandon)

    async def _may_call(self, method: str) -> None:
        """Outside operation: wait until a call may be made, or raise."""

    def _abandon(self, call: PendingCall) -> None:
        """The caller of *call* gave up: take it out of the table and tell the peer, once."""
        if self._table.abandon(call):
            self.tell_abandoned(call)

    def tell_abandoned(self, call: PendingCall) -> None:
        """Queue the one cancellation of *call*, or take back its request if it is still here.

        Queued, never awaited: leaving a scope does not wait for the peer. ``initialize`` is
        never cancelled (2025-11-25 cancellation § Behavior Requirements 2).
        """
        self._counts["abandoned"] += 1
        withdrawn = call.route.unsend(call.ticket)
        if self.tracer is not None:
            self._trace(
                "call.abandoned", {"id": call.id, "method": call.method, "withdrawn": withdrawn}
            )
        if withdrawn or call.method == "initialize":
            return
        params = {"requestId": call.id, "reason": "the caller gave up"}
        self._send(Notification(CANCELLED, params), call.route, eager=True)

    # ------------------------------------------------------------ looking in

    def calls(self) -> tuple[CallSnapshot, ...]:
        """Return who waits for whom at this moment, oldest first."""
        return snapshot(self._table)

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

    def _trace_opened(self, call: PendingCall, origin: Serving | None) -> None:
        """Tell which request of the peer *call* comes from: the wire never says."""
        # The origin of a chain's call stands in another id space.
        id_ = origin.id if origin is not None and origin.session is self else None
        self._trace("call.opened", {"id": call.id, "method": call.method, "origin": id_})

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
