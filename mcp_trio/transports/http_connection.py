"""One HTTP connection of a server: requests in, JSON or event streams out.

Only this connection's task writes to it. What a request's handler sends goes into a log
(`mcp_trio.transports.http_streams`); this task takes from it what is there and writes it in
one piece. Whether the answer is JSON or an event stream is committed late: a handler that
says nothing before its result is answered with ``application/json``.
"""

from __future__ import annotations

import contextvars
import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.wire import http
from mcp_trio.wire.envelope import LISTEN
from mcp_trio.wire.http_envelope import (
    ServeEnveloped,
    decide_enveloped,
    is_modern,
    status_of_enveloped,
)
from mcp_trio.wire.http_head import format_event_id
from mcp_trio.wire.http_pair import PairStream
from mcp_trio.wire.http_policy import Reject, refuse
from mcp_trio.wire.jsonrpc import Request, decode
from mcp_trio.wire.revisions import REVISIONS, Feature
from mcp_trio.wire.sse import encode_event, encode_priming

from .http1 import (
    CONTINUE,
    BadRequest,
    EndOfRequests,
    Head,
    RequestReader,
)
from .http_sessions import HttpSession, HttpTransport
from .http_sockets import SocketBytes
from .http_sse import serve_pair_stream, take_pair_message
from .http_streams import EventStream, Reader
from .http_writer import LATER, Answering, Facts, ResponseWriter

if TYPE_CHECKING:
    from mcp_trio.abc import ByteStream, Tail
    from mcp_trio.runtime.exchange import Exchange
    from mcp_trio.wire.revisions import Revision

    from .http_server import HttpServer
    from .http_writer import RawHeaders

__all__ = ["Connection"]

_log: Final = logging.getLogger("mcp_trio.transports")

#: Bodies of refused requests up to this size are read, so that the connection can go on.
_READ_ANYWAY: Final = 65_536
#: RFC 9110 § 15.5.2: a 401 "MUST send a WWW-Authenticate header field".
_CHALLENGE: Final[RawHeaders] = ((b"WWW-Authenticate", b"Bearer"),)


class Connection(ResponseWriter):
    """Serves the requests of one connection, one after another.

    One task does at a time. It serves a request's handler itself, which is the fastest way to
    an answer; where the response has to begin before the handler is done, another task takes
    over: it writes the response, goes on to the next request, and closes the connection in
    the end. The first one then only serves its handler.

    Attributes:
        scope: that of the task which has the connection now. Cancelled by the watcher when the
            client stalls, and by the drain.
    """

    #: Whether handlers are served in the connection's task.
    serves_itself: ClassVar[bool] = True

    __slots__ = (
        "_body",
        "_context",
        "_idle",
        "_requests",
        "_unread",
        "_watching",
        "scope",
    )

    def __init__(self, server: HttpServer, stream: ByteStream) -> None:
        super().__init__(server, stream)
        self.scope = trio.CancelScope()
        self._context = contextvars.copy_context()
        self._requests = RequestReader(server.limits.header_bytes, server.heads)
        self._idle = True  # waiting for a request
        self._body = False  # waiting for the rest of one
        self._unread = False  # a refused request may still be arriving
        self._watching: trio.CancelScope | None = None  # for the end of the client

    # ------------------------------------------------------------ waiting

    def look(self, now: float) -> None:
        """The watcher passes by."""
        limits = self._server.limits
        if self._idle or self._body or self._stuck:
            idle = self._idle and self._requests.idle
            patience = limits.connection_idle if idle else limits.request_time
            if now - self._since > patience:
                self.scope.cancel(reason="the client has done nothing for too long")
        elif self._reader is not None and (
            now - self._written >= limits.sse_keep_alive or (self._reader.vital and self._is_gone())
        ):
            self._reader.tick = True
            self._reader.rouse()

    def stop_if_idle(self) -> None:
        """The server drains: end here, unless a request is being served."""
        self._keep = False
        if self._idle and self._requests.idle:
            self.scope.cancel(reason="the server is draining")

    # ------------------------------------------------------------ requests

    async def serve(self) -> None:
        """Serve requests until the client, a refusal or the drain ends the connection.

        Returns also when another task has taken the connection over.
        """
        server, scope = self._server, self.scope
        while not (server.draining and self._requests.idle):
            if not self._keep or self.scope is not scope:
                return
            try:
                head = await self._read_head()
                facts = head.facts
                if facts is None:
                    facts = head.facts = Facts.of(head, server)
                if not head.keep_alive:
                    self._keep = False
                server.begin_request()
                try:
                    await self._serve(head, facts)
                finally:
                    server.end_request()
            except EndOfRequests:
                return
            except BadRequest as exc:
                self._keep = False
                self._unread = True
                await self.reject(refuse(exc.status, exc.reason))

    async def linger(self) -> None:
        """Let the client read why its request was refused; a checkpoint where it may not have.

        Closing with bytes of it unread would reset the connection, and the answer with it.
        """
        if self._unread and isinstance(self._stream, SocketBytes):
            self._stream.send_eof()
            with trio.move_on_after(self._server.limits.drain):
                while await self._stream.receive():
                    pass

    async def aclose(self) -> None:
        """Close the connection, at once."""
        await self._stream.aclose()

    async def _read_head(self) -> Head:
        self._idle = True
        self._since = self._server.sessions.now
        while True:
            head = self._requests.read_head()
            if head is not None:
                self._idle = False
                return head
            idle = self._requests.idle
            self._requests.receive(await self._stream.receive())
            if idle:  # a request has begun to arrive
                self._since = self._server.sessions.now

    async def _read_body(self, head: Head) -> bytes:
        limit = self._server.policy.body_bytes
        body = self._requests.read_body(limit)
        if body is None:
            self._body = True
            self._since = self._server.sessions.now
            if head.wants_continue:
                await self.write(CONTINUE)
            while body is None:
                self._requests.receive(await self._stream.receive())
                body = self._requests.read_body(limit)
            self._body = False
        return body

    async def _serve(self, head: Head, facts: Facts) -> None:
        decision = facts.decision
        kind = type(decision)
        if kind is Reject or kind is http.Preflight:
            await self._skip_body(head)
            if kind is Reject:
                await self.reject(decision, facts)
            else:
                await self.respond(204, (*decision.headers, *facts.cors))
            return
        principal = None
        if self._server.authenticate is not None:
            principal = await self._authenticate(facts)
            if type(principal) is Reject:
                await self._skip_body(head)
                await self.reject(principal, facts)
                return
        body = await self._read_body(head)
        if kind is http.PostHead:
            await self._post(head, facts, decision, body, principal)
        elif kind is http.GetHead:
            await self._get(head, facts, decision, principal)
        elif kind is http.DeleteHead:
            await self._delete(facts, decision, principal)
        elif kind is PairStream:
            await serve_pair_stream(self, self._server, head, facts, principal)
        else:
            await take_pair_message(self, self._server, facts, body, principal)

    async def _authenticate(self, facts: Facts) -> Any:
        """Return the principal of a request, or why it is refused.

        What the hook sets in context variables is seen by this request's handler, and by no
        other request: a proxy sends those of many users over one connection.
        """
        assert self._server.authenticate is not None  # noqa: S101 - asked for where there is one
        trio.lowlevel.current_task().context = self._context.copy()
        await trio.lowlevel.checkpoint()  # from here on it is in force
        try:
            return await self._server.authenticate(facts.head)
        except Refusal as exc:
            return refuse(401, exc.message, code=exc.code, headers=_CHALLENGE)
        except Exception:  # noqa: BLE001 - who cannot be named is not served
            _log.exception("the authenticator failed")
            return refuse(500, "the request cannot be authenticated", code=ErrorCode.INTERNAL_ERROR)

    async def _skip_body(self, head: Head) -> None:
        """Read a small body that nobody wants; after a large one the connection ends."""
        chunked = any(name == b"transfer-encoding" for name, _ in head.headers)
        if head.wants_continue or chunked or (self._requests.body_length or 0) > _READ_ANYWAY:
            self._keep = False
            self._unread = True
        else:
            await self._read_body(head)

    # ------------------------------------------------------------ POST

    async def _post(
        self, head: Head, facts: Facts, post: http.PostHead, body: bytes, principal: Any
    ) -> None:
        server = self._server
        message = decode(body, depth=server.limits.json_depth)
        if server.policy.envelopes and is_modern(facts.head, message):
            await self._post_enveloped(head, facts, post, message, principal)
            return
        session = server.sessions.find(post.session_id, principal)
        known = None if session is None else session.facts
        decision: Any = http.decide_post(post, message, known, server.policy)
        kind = type(decision)
        if kind is http.Serve:
            if session is None:
                await self._serve_stateless(head, facts, decision)
            else:
                await self._serve_request(head, facts, decision, session)
        elif kind is http.Accepted:
            if session is not None and decision.message is not None:
                session.session.deliver(decision.message, session.transport.route)
                session.used = server.sessions.now
            await self.respond(202, facts.cors)
        elif kind is http.OpenSession:
            await self._open_session(head, facts, decision, principal)
        else:
            await self.reject(decision, facts)

    async def _post_enveloped(
        self, head: Head, facts: Facts, post: http.PostHead, message: Any, principal: Any
    ) -> None:
        """Serve a request of the modern era in this task; a client that leaves cancels it."""
        server = self._server
        decision = decide_enveloped(
            facts.head, message, post.accepts, server.policy, facts.agreement
        )
        if type(decision) is Reject:
            await self.reject(decision, facts)
            return
        if type(decision) is http.Accepted:
            await self.respond(202, facts.cors)
            return
        assert type(decision) is ServeEnveloped  # noqa: S101 - the third of three
        facts.agreement = decision.agreement
        if server.draining and decision.message.method == LISTEN:  # who listens has been sent home
            refusal = refuse(503, "the server is stopping", headers=LATER, id_=decision.message.id)
            await self.reject(refusal, facts)
            return
        stream = EventStream(
            "0",
            "",
            server.limits,
            deaf=not decision.accepts.sse,
            mute=True,
            status_of=status_of_enveloped,
        )
        exchange = server.factory.open_envelope(
            stream, server.exchanges, principal=principal, head=facts.head, tracer=server.tracer
        )
        serve = http.Serve(message=message, revision=decision.revision, accepts=decision.accepts)
        answering = self._begin_answer(Answering(head, facts.cors, serve, stream, None))
        exchange.envelope = decision.envelope
        answering.exchange = exchange
        server.enveloped.add(exchange)
        try:
            await self._serve_and_answer(exchange, serve, answering)
        finally:
            server.enveloped.discard(exchange)
            if not answering.moved:
                self.stop_watching(answering)
                stream.detach(answering.reader)

    async def watch(self, answering: Answering) -> None:
        """Cancel the request at hand when its client leaves (2026-07-28 § Cancellation).

        The server MUST treat the end of the connection as a cancellation. What is sent
        behind the request is no sign of life, and none of its end.
        """
        stream, exchange = self._stream, answering.exchange
        if answering.stream.ended or exchange is None or not isinstance(stream, SocketBytes):
            return  # it is answered, or the connection is closed
        with trio.CancelScope() as self._watching:
            await trio.lowlevel.checkpoint_if_cancelled()
            if await stream.wait_gone():
                self._keep = False
                exchange.cancel_route(answering.stream)

    def stop_watching(self, answering: Answering) -> None:
        """The connection is to be read again, or closed: then who cannot be answered has left."""
        watching, self._watching = self._watching, None
        if watching is not None:
            watching.cancel(reason="the request is over")
        exchange, answering.exchange = answering.exchange, None
        if exchange is not None and not answering.stream.ended:
            exchange.cancel_route(answering.stream)

    async def _serve_request(
        self, head: Head, facts: Facts, serve: http.Serve, session: HttpSession
    ) -> None:
        stream = session.transport.open_stream(deaf=not serve.accepts.sse)
        answering = self._begin_answer(Answering(head, facts.cors, serve, stream, session))
        self._server.sessions.begin(session)
        try:
            await self._serve_and_answer(session.session, serve, answering)
        finally:
            if not answering.moved:
                stream.detach(answering.reader)
            self._server.sessions.end(session)

    async def _serve_stateless(self, head: Head, facts: Facts, serve: http.Serve) -> None:
        """Serve a request that stands for itself: an id space of its own."""
        server = self._server
        if server.exchanges.cancel_scope.cancel_called:
            await self.reject(refuse(503, "the server is stopping", headers=LATER), facts)
            return
        stream = EventStream("0", "", server.limits, deaf=not serve.accepts.sse, mute=True)
        exchange = server.factory.open_exchange(
            stream, serve.revision, server.exchanges, tracer=server.tracer
        )
        answering = self._begin_answer(Answering(head, facts.cors, serve, stream, None))
        try:
            exchange.deliver(serve.message, stream)
            await self._answer(answering)
        finally:
            stream.detach(answering.reader)

    async def _open_session(
        self, head: Head, facts: Facts, opening: http.OpenSession, principal: Any
    ) -> None:
        server = self._server
        if server.draining or (opening.keep and not server.sessions.has_room(principal)):
            await self.reject(refuse(503, "no room for another session", headers=LATER), facts)
            return
        session_id = secrets.token_hex(20) if opening.keep else ""
        events = None if server.store is None else server.store.events
        transport = HttpTransport(session_id, server.limits, events)
        inner = server.factory.open_session(
            transport, tracer=server.tracer, label=session_id[:8] or "stateless"
        )
        inner.principal = principal
        session = HttpSession(session_id, inner, transport, principal, server.sessions.now)
        stream = transport.open_stream(deaf=not opening.accepts.sse)
        if opening.keep:
            server.sessions.add(session)
            await server.start_session(session)
        inner.deliver(opening.request, stream)
        extra = facts.cors
        if opening.keep and stream.status == 200 and session.session.state is not None:
            extra = (*extra, http.session_header(session_id))
            if server.store is not None:
                await server.store.open_session(session)
        elif opening.keep:
            server.sessions.remove(session)
        serve = http.Serve(
            message=opening.request, revision=inner.revision, accepts=opening.accepts
        )
        await self._answer(self._begin_answer(Answering(head, extra, serve, stream, None)))

    # ------------------------------------------------------------ answers

    def _begin_answer(self, answering: Answering) -> Answering:
        """*answering* is what is answered next; whoever ends its stream may write it."""
        self._answering = answering
        answering.reader.finish = self.finish_answer
        if answering.stream.ended:
            self.finish_answer()
        elif answering.sse and (answering.primed or not answering.json):
            self._server.hurry(answering.reader)
        return answering

    async def _serve_and_answer(
        self, session: Exchange, serve: http.Serve, answering: Answering
    ) -> None:
        watch = None
        if answering.exchange is not None:
            watch = partial(self._server.watch, self, answering)
        if not self.serves_itself or type(serve.message) is not Request:
            session.deliver(serve.message, answering.stream)
            if watch is not None:
                watch()
        else:
            answering.reader.summon = partial(self._move, answering)
            await session.serve(serve.message, answering.stream, watch)
            if answering.moved:
                return
            answering.reader.summon = None
        await self._answer(answering)

    def _move(self, answering: Answering) -> None:
        """Let another task take the connection over: this one is busy with the handler."""
        session = answering.session
        answering.moved = True
        answering.reader.summon = None
        self._server.begin_request()
        if session is not None:
            self._server.sessions.begin(session)
        self.scope = trio.CancelScope()
        # Not in the handler's context: many more requests may come.
        self._context.copy().run(self._server.move, self, partial(self._go_on, answering, session))

    async def _go_on(self, answering: Answering, session: HttpSession | None) -> None:
        """Answer the request whose connection was taken over."""
        try:
            await self._answer(answering)
        finally:
            self.stop_watching(answering)
            answering.stream.detach(answering.reader)
            if session is not None:
                self._server.sessions.end(session)
            self._server.end_request()

    async def _answer(self, answering: Answering) -> None:
        """Answer a POST from its stream, as JSON where the answer is all there is."""
        stream, reader, session = answering.stream, answering.reader, answering.session
        while not (
            stream.ended
            or reader.overdue
            or reader.hang_up
            or (answering.sse and stream.has_events)
        ):
            await reader.wait()
        reader.finish = None
        if self._answering is None:  # written already, but for what did not fit
            if self._rest:
                rest, self._rest = self._rest, b""
                await self.write_rest(rest)
            return
        self._answering = None
        if not answering.sse:  # cancelled by its sender, who wants no stream
            await self.respond(204, answering.headers)
            return
        if not answering.plain and session is not None and session.session.error is None:
            stream.begin_pump()
            session.session.start_soon(self._server.run_pump, stream)
        begin = b""
        if answering.primed:
            begin = encode_priming(
                format_event_id(stream.name, 0), retry=self._server.limits.sse_retry
            )
        await self.write_stream(answering.head, stream, reader, answering.headers, begin)

    # ------------------------------------------------------------ GET, DELETE

    async def _get(self, head: Head, facts: Facts, get: http.GetHead, principal: Any) -> None:
        server = self._server
        session = server.sessions.find(get.session_id, principal)
        known = None if session is None else session.facts
        decision = http.decide_get(get, known, server.policy)
        if isinstance(decision, http.ResumeStream) and session is not None:
            await self._resume(head, facts, decision, session)
        elif isinstance(decision, http.OpenStream) and session is not None:
            await self._listen(head, facts, decision.revision, session)
        elif not await self._resume_from_store(facts, get, principal):
            await self.reject(
                decision if isinstance(decision, Reject) else http.reject_session(), facts
            )

    async def _listen(
        self, head: Head, facts: Facts, revision: Revision, session: HttpSession
    ) -> None:
        """Carry the session's standing stream."""
        stream = session.transport.route
        reader = Reader()
        begin = b""
        if stream.storable:
            if not stream.pumped:
                stream.begin_pump()
                session.session.start_soon(stream.run_pump)
            if Feature.PRIMING_EVENT in revision.features:
                begin = encode_priming(format_event_id(stream.name, stream.stored))
        session.transport.attach(stream, reader)
        try:
            await self._carry(head, facts, stream, reader, session, begin)
        finally:
            session.transport.detach(stream, reader)

    async def _carry(
        self,
        head: Head,
        facts: Facts,
        stream: EventStream,
        reader: Reader,
        session: HttpSession,
        begin: bytes,
    ) -> None:
        sessions = self._server.sessions
        sessions.begin(session)
        # A stream that stays open is no request that a drain would have to wait for; what
        # becomes of a call is waited for where its events are stored.
        self._server.end_request()
        try:
            await self.write_stream(head, stream, reader, facts.cors, begin)
        finally:
            self._server.begin_request()
            sessions.end(session)

    async def _resume(
        self, head: Head, facts: Facts, resume: http.ResumeStream, session: HttpSession
    ) -> None:
        """Replay what followed an event of this session's stream, then go on with it."""
        store, transport = self._server.store, session.transport
        stream = transport.streams.get(resume.stream)
        if stream is not None and not (stream.pumped and resume.after <= stream.number):
            stream = None  # what is said there now cannot be fetched by such an id
        reader = Reader(seen=resume.after)
        if stream is not None:
            # Attached before the store is read, so that nothing is missed in between.
            transport.attach(stream, reader)
        try:
            tail = None
            if store is not None:
                tail = await store.read(session.id, resume, live=stream is not None)
            if tail is None:
                await self.reject(http.reject_event(), facts)
            elif stream is None:
                await self._replay(facts, resume, tail)
            else:
                begin = _frame_all(resume.stream, tail)
                if tail.events:
                    reader.seen = tail.events[-1].n
                await self._carry(head, facts, stream, reader, session, begin)
        finally:
            if stream is not None:
                transport.detach(stream, reader)

    async def _resume_from_store(self, facts: Facts, get: http.GetHead, principal: Any) -> bool:
        """Serve what another process, now gone, has stored for this session; false if nothing."""
        store = self._server.store
        if store is None or get.session_id is None or get.last_event_id is None:
            return False
        record = await store.session(get.session_id)
        if record is None or record.principal != principal:
            return False
        known = http.SessionFacts(revision=REVISIONS[record.revision])
        decision = http.decide_get(get, known, self._server.policy)
        if not isinstance(decision, http.ResumeStream):
            return False
        tail = await store.read(get.session_id, decision, live=False)
        if tail is None:
            return False
        await self._replay(facts, decision, tail)
        return True

    async def _replay(self, facts: Facts, resume: http.ResumeStream, tail: Tail) -> None:
        headers = (*http.SSE_HEADERS, *facts.cors)
        await self.respond(200, headers, _frame_all(resume.stream, tail))

    async def _delete(self, facts: Facts, delete: http.DeleteHead, principal: Any) -> None:
        server = self._server
        session = server.sessions.find(delete.session_id, principal)
        known = None if session is None else session.facts
        decision = http.decide_delete(delete, known, server.policy)
        if session is None or isinstance(decision, Reject):
            await self.reject(
                decision if isinstance(decision, Reject) else http.reject_session(), facts
            )
            return
        server.sessions.remove(session)
        await self.respond(200, facts.cors)


def _frame_all(name: str, tail: Tail) -> bytes:
    return b"".join([encode_event(e.data, id=format_event_id(name, e.n)) for e in tail.events])
