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
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.wire import http
from mcp_trio.wire.http_head import RequestHead, format_event_id
from mcp_trio.wire.http_policy import Reject, cors_headers, refuse, render_error_body
from mcp_trio.wire.jsonrpc import decode
from mcp_trio.wire.revisions import REVISIONS, Feature
from mcp_trio.wire.sse import KEEP_ALIVE, encode_event, encode_priming

from .http1 import (
    CONTINUE,
    BadRequest,
    EndOfRequests,
    Head,
    RequestReader,
    chunk,
    json_response,
    last_chunk,
    response,
    stream_head,
)
from .http_sessions import HttpSession, HttpTransport
from .http_sockets import SocketBytes
from .http_streams import EventStream, Reader

if TYPE_CHECKING:
    from mcp_trio.abc import ByteStream, Tail
    from mcp_trio.wire.revisions import Revision

    from .http_server import HttpServer

__all__ = ["Connection"]

_log: Final = logging.getLogger("mcp_trio.transports")

RawHeaders = tuple[tuple[bytes, bytes], ...]
#: Bodies of refused requests up to this size are read, so that the connection can go on.
_READ_ANYWAY: Final = 65_536
_LATER: Final[RawHeaders] = ((b"Retry-After", b"1"),)
#: RFC 9110 § 15.5.2: a 401 "MUST send a WWW-Authenticate header field".
_CHALLENGE: Final[RawHeaders] = ((b"WWW-Authenticate", b"Bearer"),)
#: What does not fit the socket is written in pieces; a client has to take each in time.
_PIECE: Final = 262_144


class _Facts:
    """What was concluded from a head, once for all requests that have it."""

    __slots__ = ("cors", "decision", "head")

    def __init__(self, raw: Head, server: HttpServer) -> None:
        self.head: Final = RequestHead.read(raw.method, raw.target, raw.headers)
        self.decision: Final = http.check_head(self.head, server.policy)
        self.cors: Final = cors_headers(self.head, server.policy) if server.policy.cors else ()


class _Answering:
    """What the answer to the POST at hand will look like, until it is written."""

    __slots__ = ("head", "headers", "json", "plain", "stream")

    def __init__(
        self, stream: EventStream, *, json: bool, plain: bool, head: Head, headers: RawHeaders
    ) -> None:
        self.stream: Final = stream
        self.json: Final = json
        self.plain: Final = plain  # its events have no ids
        self.head: Final = head
        self.headers: Final = headers


class Connection:
    """Serves the requests of one connection, one after another.

    Attributes:
        scope: cancelled by the watcher when the client stalls, and by the drain.
    """

    __slots__ = (
        "_answering",
        "_body",
        "_context",
        "_idle",
        "_keep",
        "_reader",
        "_requests",
        "_rest",
        "_server",
        "_since",
        "_stream",
        "_stuck",
        "_unread",
        "_written",
        "scope",
    )

    def __init__(self, server: HttpServer, stream: ByteStream) -> None:
        self.scope = trio.CancelScope()
        self._server = server
        self._stream = stream
        self._context = contextvars.copy_context()
        self._requests = RequestReader(server.limits.header_bytes)
        self._since = server.sessions.now
        self._idle = True  # waiting for a request
        self._keep = True
        self._body = False  # waiting for the rest of one
        self._stuck = False  # waiting for the client to read
        self._unread = False  # a refused request may still be arriving
        self._reader: Reader | None = None  # of the event stream that is open
        self._written = 0.0
        self._answering: _Answering | None = None
        self._rest = b""

    # ------------------------------------------------------------ waiting

    def look(self, now: float) -> None:
        """The watcher passes by."""
        limits = self._server.limits
        if self._idle or self._body or self._stuck:
            idle = self._idle and self._requests.idle
            patience = limits.connection_idle if idle else limits.request_time
            if now - self._since > patience:
                self.scope.cancel(reason="the client has done nothing for too long")
        elif self._reader is not None and now - self._written >= limits.sse_keep_alive:
            self._reader.tick = True
            self._reader.rouse()

    def stop_if_idle(self) -> None:
        """The server drains: end here, unless a request is being served."""
        self._keep = False
        if self._idle and self._requests.idle:
            self.scope.cancel(reason="the server is draining")

    # ------------------------------------------------------------ requests

    async def serve(self) -> None:
        """Serve requests until the client, a refusal or the drain ends the connection."""
        server = self._server
        while not (server.draining and self._requests.idle):
            if not self._keep:
                return
            try:
                head = await self._read_head()
                facts = head.facts
                if facts is None:
                    facts = head.facts = _Facts(head, server)
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
                await self._reject(refuse(exc.status, exc.reason))

    async def linger(self) -> None:
        """Let the client read why its request was refused; a checkpoint where it may not have.

        Closing with bytes of it unread would reset the connection, and the answer with it.
        """
        if self._unread and isinstance(self._stream, SocketBytes):
            self._stream.send_eof()
            with trio.move_on_after(self._server.limits.drain):
                while await self._stream.receive():
                    pass

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
                await self._write(CONTINUE)
            while body is None:
                self._requests.receive(await self._stream.receive())
                body = self._requests.read_body(limit)
            self._body = False
        return body

    async def _serve(self, head: Head, facts: _Facts) -> None:
        decision = facts.decision
        kind = type(decision)
        if kind is Reject or kind is http.Preflight:
            await self._skip_body(head)
            if kind is Reject:
                await self._reject(decision, facts)  # type: ignore[arg-type]  # by its class
            else:
                await self._respond(204, (*decision.headers, *facts.cors))  # type: ignore[union-attr]  # by its class
            return
        principal = None
        if self._server.authenticate is not None:
            principal = await self._authenticate(facts)
            if type(principal) is Reject:
                await self._skip_body(head)
                await self._reject(principal, facts)
                return
        body = await self._read_body(head)
        if kind is http.PostHead:
            await self._post(head, facts, decision, body, principal)  # type: ignore[arg-type]  # by its class
        elif kind is http.GetHead:
            await self._get(head, facts, decision, principal)  # type: ignore[arg-type]  # by its class
        else:
            await self._delete(facts, decision, principal)  # type: ignore[arg-type]  # by its class

    async def _authenticate(self, facts: _Facts) -> Any:
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
        self, head: Head, facts: _Facts, post: http.PostHead, body: bytes, principal: Any
    ) -> None:
        server = self._server
        message = decode(body, depth=server.limits.json_depth)
        session = server.sessions.find(post.session_id, principal)
        known = None if session is None else session.facts
        decision = http.decide_post(post, message, known, server.policy)
        kind = type(decision)
        if kind is http.Serve:
            if session is None:
                await self._serve_stateless(head, facts, decision)  # type: ignore[arg-type]  # by its class
            else:
                await self._serve_request(head, facts, decision, session)  # type: ignore[arg-type]  # by its class
        elif kind is http.Accepted:
            if session is not None and decision.message is not None:  # type: ignore[union-attr]  # by its class
                session.session.deliver(decision.message, session.transport.route)  # type: ignore[union-attr]  # by its class
                session.used = server.sessions.now
            await self._respond(202, facts.cors)
        elif kind is http.OpenSession:
            await self._open_session(head, facts, decision, principal)  # type: ignore[arg-type]  # by its class
        else:
            await self._reject(decision, facts)  # type: ignore[arg-type]  # the only class left

    async def _serve_request(
        self, head: Head, facts: _Facts, serve: http.Serve, session: HttpSession
    ) -> None:
        sessions = self._server.sessions
        stream = session.transport.open_stream(deaf=not serve.accepts.sse)
        reader = Reader()
        stream.attach(reader)
        sessions.begin(session)
        try:
            session.session.deliver(serve.message, stream)
            await self._answer(head, facts, stream, reader, serve, session)
        finally:
            stream.detach(reader)
            sessions.end(session)

    async def _serve_stateless(self, head: Head, facts: _Facts, serve: http.Serve) -> None:
        """Serve a request that stands for itself: an id space of its own."""
        server = self._server
        if server.exchanges.cancel_scope.cancel_called:
            await self._reject(refuse(503, "the server is stopping", headers=_LATER), facts)
            return
        stream = EventStream("0", "", server.limits, deaf=not serve.accepts.sse, mute=True)
        reader = Reader()
        stream.attach(reader)
        exchange = server.factory.open_exchange(
            stream, serve.revision, server.exchanges, tracer=server.tracer
        )
        try:
            exchange.deliver(serve.message, stream)
            await self._answer(head, facts, stream, reader, serve, None)
        finally:
            stream.detach(reader)

    async def _open_session(
        self, head: Head, facts: _Facts, opening: http.OpenSession, principal: Any
    ) -> None:
        server = self._server
        if server.draining or (opening.keep and not server.sessions.has_room(principal)):
            await self._reject(refuse(503, "no room for another session", headers=_LATER), facts)
            return
        session_id = secrets.token_hex(20) if opening.keep else ""
        events = None if server.store is None else server.store.events
        transport = HttpTransport(session_id, server.limits, events)
        inner = server.factory.open_session(
            transport, tracer=server.tracer, label=session_id[:8] or "stateless"
        )
        session = HttpSession(session_id, inner, transport, principal, server.sessions.now)
        stream = transport.open_stream(deaf=not opening.accepts.sse)
        reader = Reader()
        stream.attach(reader)
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
        await self._answer(head, facts, stream, reader, serve, None, extra)

    # ------------------------------------------------------------ answers

    async def _answer(
        self,
        head: Head,
        facts: _Facts,
        stream: EventStream,
        reader: Reader,
        serve: http.Serve,
        session: HttpSession | None,
        extra: RawHeaders | None = None,
    ) -> None:
        """Answer a POST from its stream, as JSON where the answer is all there is."""
        headers = facts.cors if extra is None else extra
        sse = serve.accepts.sse
        resumable = session is not None and stream.storable and sse
        # "SHOULD immediately send an SSE event consisting of an event ID and an empty data
        # field" (2025-11-25): before the client has an id, nothing can be resumed.
        primed = resumable and Feature.PRIMING_EVENT in serve.revision.features
        stream.primed = primed
        self._answering = _Answering(
            stream, json=serve.accepts.json, plain=not resumable, head=head, headers=headers
        )
        reader.finish = self._finish
        if stream.ended:
            self._finish()
        elif sse and (primed or not serve.accepts.json):
            self._server.hurry(reader)
        while not (stream.ended or reader.overdue or reader.hang_up or (sse and stream.has_events)):
            await reader.wait()
        reader.finish = None
        if self._answering is None:  # written already, but for what did not fit
            if self._rest:
                rest, self._rest = self._rest, b""
                await self._write_rest(rest)
            return
        self._answering = None
        if not sse:  # cancelled by its sender, who wants no stream
            await self._respond(204, headers)
            return
        if resumable and session is not None and session.session.error is None:
            stream.begin_pump()
            session.session.start_soon(self._server.run_pump, stream)
        begin = b""
        if primed:
            begin = encode_priming(
                format_event_id(stream.name, 0), retry=self._server.limits.sse_retry
            )
        await self._write_stream(head, stream, reader, headers, begin)

    def _finish(self) -> None:
        """The stream has ended: write the whole response where its answer is all it says.

        Called by whoever sends the answer, one pass before this connection's task runs; one
        synchronous write, and what does not fit is that task's to finish.
        """
        answering = self._answering
        if answering is None:
            return
        stream = answering.stream
        answer = stream.only_answer()
        if answer is None:
            return
        if answering.json:
            data = self._json(answer, stream.status, answering.headers)
        elif answering.plain and answering.head.chunks:
            begin = self._begin_stream(answering.headers, framed=True)
            data = b"%b%b%b" % (begin, chunk(encode_event(answer)), last_chunk())
        else:
            return
        self._answering = None
        stream.take_all()
        try:
            taken = self._stream.send_nowait(data)
        except OSError:
            taken = 0  # the connection's task meets the same error
        self._rest = data[taken:]

    def _begin_stream(self, headers: RawHeaders, *, framed: bool) -> bytes:
        if framed and not headers and self._keep:
            return stream_head()
        return response(
            200,
            (*http.SSE_HEADERS, *headers),
            None,
            keep_alive=self._keep,
            chunked=framed,
        )

    def _json(self, answer: bytes, status: int, headers: RawHeaders) -> bytes:
        if status == 200 and not headers and self._keep:
            return json_response(answer)
        extra = _LATER if status == 503 else ()
        all_headers = (*http.JSON_HEADERS, *headers, *extra)
        return response(status, all_headers, answer, keep_alive=self._keep)

    async def _write_stream(
        self, head: Head, stream: EventStream, reader: Reader, headers: RawHeaders, begin: bytes
    ) -> None:
        """Write a stream's events until it ends, or somebody else carries it."""
        framed = head.chunks
        if not framed:
            self._keep = False
        pieces = [self._begin_stream(headers, framed=framed)]
        self._reader = reader
        try:
            while True:
                if (
                    stream.standing
                    and (reader.tick or not stream.awaits(reader))
                    and self._is_gone()
                ):
                    return  # what there is waits for a listener that is there
                events = begin + self._frames(stream, reader)
                begin = b""
                over = stream.exhausted or reader.replaced or reader.hang_up
                if reader.hang_up and not stream.exhausted:
                    events += b"retry: %d\n\n" % self._server.limits.sse_retry
                if not events and not over and reader.tick:
                    events = KEEP_ALIVE
                reader.tick = False
                if events:
                    pieces.append(chunk(events) if framed else events)
                if over:
                    pieces.append(last_chunk() if framed else b"")
                data = b"".join(pieces)
                pieces = []
                if data:
                    await self._write(data)
                if over:
                    return
                if stream.awaits(reader):
                    await reader.wait()
        finally:
            self._reader = None

    def _is_gone(self) -> bool:
        return bool(getattr(self._stream, "peer_has_closed", False))

    @staticmethod
    def _frames(stream: EventStream, reader: Reader) -> bytes:
        taken = stream.take(reader)
        if not stream.storable:
            return b"".join([encode_event(data) for _, data in taken])
        name = stream.name
        return b"".join([encode_event(data, id=format_event_id(name, n)) for n, data in taken])

    # ------------------------------------------------------------ GET, DELETE

    async def _get(self, head: Head, facts: _Facts, get: http.GetHead, principal: Any) -> None:
        server = self._server
        session = server.sessions.find(get.session_id, principal)
        known = None if session is None else session.facts
        decision = http.decide_get(get, known, server.policy)
        if isinstance(decision, http.ResumeStream) and session is not None:
            await self._resume(head, facts, decision, session)
        elif isinstance(decision, http.OpenStream) and session is not None:
            await self._listen(head, facts, decision.revision, session)
        elif not await self._resume_from_store(facts, get, principal):
            await self._reject(
                decision if isinstance(decision, Reject) else http.reject_session(), facts
            )

    async def _listen(
        self, head: Head, facts: _Facts, revision: Revision, session: HttpSession
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
        facts: _Facts,
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
            await self._write_stream(head, stream, reader, facts.cors, begin)
        finally:
            self._server.begin_request()
            sessions.end(session)

    async def _resume(
        self, head: Head, facts: _Facts, resume: http.ResumeStream, session: HttpSession
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
                await self._reject(http.reject_event(), facts)
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

    async def _resume_from_store(self, facts: _Facts, get: http.GetHead, principal: Any) -> bool:
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

    async def _replay(self, facts: _Facts, resume: http.ResumeStream, tail: Tail) -> None:
        headers = (*http.SSE_HEADERS, *facts.cors)
        await self._respond(200, headers, _frame_all(resume.stream, tail))

    async def _delete(self, facts: _Facts, delete: http.DeleteHead, principal: Any) -> None:
        server = self._server
        session = server.sessions.find(delete.session_id, principal)
        known = None if session is None else session.facts
        decision = http.decide_delete(delete, known, server.policy)
        if session is None or isinstance(decision, Reject):
            await self._reject(
                decision if isinstance(decision, Reject) else http.reject_session(), facts
            )
            return
        server.sessions.remove(session)
        await self._respond(200, facts.cors)

    # ------------------------------------------------------------ writing

    async def _reject(self, reject: Reject, facts: _Facts | None = None) -> None:
        body = render_error_body(reject)
        if facts is not None and facts.head.method == "HEAD":
            body = b""  # RFC 9110 § 9.3.2: no content in the answer
        headers = (*reject.headers, *(facts.cors if facts is not None else ()))
        if body:
            headers = (*http.JSON_HEADERS, *headers)
        await self._respond(reject.status, headers, body)

    async def _respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        await self._write(response(status, headers, body, keep_alive=self._keep))

    async def _write(self, data: bytes) -> None:
        self._written = self._server.sessions.now
        taken = self._stream.send_nowait(data)
        if taken < len(data):
            await self._write_rest(memoryview(data)[taken:])

    async def _write_rest(self, data: bytes | memoryview) -> None:
        """Write what did not fit; the watcher ends a connection whose client takes nothing."""
        self._stuck = True
        for start in range(0, len(data), _PIECE):
            self._since = self._server.sessions.now
            await self._stream.send(data[start : start + _PIECE])
        self._stuck = False


def _frame_all(name: str, tail: Tail) -> bytes:
    return b"".join([encode_event(e.data, id=format_event_id(name, e.n)) for e in tail.events])
