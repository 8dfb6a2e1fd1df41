"""One HTTP connection of a server: requests in, JSON or event streams out.

Only this connection's task writes to it. What a request's handler sends goes into a log
(`mcp_trio.transports.http_streams`); this task takes from it what is there and writes it in
one piece. Whether the answer is JSON or an event stream is committed late: a handler that
says nothing before its result is answered with ``application/json``.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.abc import SessionRecord
from mcp_trio.errors import EventsExpired, Refusal, UnknownStream
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
from .http_streams import EventStream, Reader

if TYPE_CHECKING:
    from mcp_trio.abc import ByteStream
    from mcp_trio.wire.revisions import Revision

    from .http_server import HttpServer

__all__ = ["Connection"]

RawHeaders = tuple[tuple[bytes, bytes], ...]
#: Bodies of refused requests up to this size are read, so that the connection can go on.
_READ_ANYWAY: Final = 65_536
_LATER: Final[RawHeaders] = ((b"Retry-After", b"1"),)


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
        "_idle",
        "_keep",
        "_reader",
        "_requests",
        "_rest",
        "_server",
        "_since",
        "_stream",
        "_written",
        "scope",
    )

    def __init__(self, server: HttpServer, stream: ByteStream) -> None:
        self.scope = trio.CancelScope()
        self._server = server
        self._stream = stream
        self._requests = RequestReader(server.limits.header_bytes)
        self._since = server.sessions.now
        self._idle = True  # waiting for a request
        self._keep = True
        self._body = False  # waiting for the rest of one
        self._reader: Reader | None = None  # of the event stream that is open
        self._written = 0.0
        self._answering: _Answering | None = None
        self._rest = b""

    # ------------------------------------------------------------ waiting

    def look(self, now: float) -> None:
        """The watcher passes by."""
        limits = self._server.limits
        if self._idle or self._body:
            partial = self._body or not self._requests.idle
            patience = limits.request_time if partial else limits.connection_idle
            if now - self._since > patience:
                self.scope.cancel(reason="the client has sent nothing for too long")
        elif self._reader is not None and now - self._written >= limits.sse_keep_alive:
            if getattr(self._stream, "peer_has_closed", False):
                self._reader.replaced = True
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
                await self._reject(refuse(exc.status, exc.reason))

    async def _read_head(self) -> Head:
        self._idle = True
        self._since = self._server.sessions.now
        while True:
            head = self._requests.read_head()
            if head is not None:
                self._idle = False
                return head
            self._requests.receive(await self._stream.receive())

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
        body = await self._read_body(head)
        try:
            principal = await self._principal(facts)
        except Refusal as exc:
            await self._reject(refuse(401, exc.message, code=exc.code), facts)
            return
        if kind is http.PostHead:
            await self._post(head, facts, decision, body, principal)  # type: ignore[arg-type]  # by its class
        elif kind is http.GetHead:
            await self._get(head, facts, decision, principal)  # type: ignore[arg-type]  # by its class
        else:
            await self._delete(facts, decision, principal)  # type: ignore[arg-type]  # by its class

    async def _principal(self, facts: _Facts) -> Any:
        authenticate = self._server.authenticate
        return None if authenticate is None else await authenticate(facts.head)

    async def _skip_body(self, head: Head) -> None:
        """Read a small body that nobody wants; after a large one the connection ends."""
        length = self._requests.body_length
        if head.wants_continue or length is None or length > _READ_ANYWAY:
            self._keep = False
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
        stream = EventStream("0", "", server.limits, deaf=not serve.accepts.sse, mute=True)
        reader = Reader()
        stream.attach(reader)
        exchange = server.factory.open_exchange(
            stream, serve.revision, server.nursery, tracer=server.tracer
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
        transport = HttpTransport(session_id, server.limits, server.store)
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
                record = SessionRecord(revision=inner.revision.version, principal=principal)
                await server.store.open_session(session_id, record)
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
        self._answering = _Answering(
            stream, json=serve.accepts.json, plain=not resumable, head=head, headers=headers
        )
        reader.finish = self._finish
        if stream.ended:
            self._finish()
        elif sse and (primed or not serve.accepts.json):
            self._server.hurry(reader)
        while not (stream.ended or reader.overdue or (sse and stream.has_events)):
            await reader.wait()
        reader.finish = None
        if self._answering is None:  # written already, but for what did not fit
            if self._rest:
                rest, self._rest = self._rest, b""
                await self._stream.send(rest)
            return
        self._answering = None
        if not sse:  # cancelled by its sender, who wants no stream
            await self._respond(204, headers)
            return
        if resumable and session is not None and session.session.error is None:
            stream.begin_pump()
            session.session.start_soon(stream.run_pump)
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
                if not stream.has_events and not stream.exhausted and not reader.replaced:
                    await reader.wait()
        finally:
            self._reader = None

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
        session.transport.listen(reader)
        await self._carry(head, facts, stream, reader, session, begin)

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
        # A stream that stays open is no request that a drain would have to wait for.
        self._server.end_request()
        try:
            await self._write_stream(head, stream, reader, facts.cors, begin)
        finally:
            self._server.begin_request()
            sessions.end(session)
            if stream.standing:
                session.transport.leave(reader)
            else:
                stream.detach(reader)

    async def _resume(
        self, head: Head, facts: _Facts, resume: http.ResumeStream, session: HttpSession
    ) -> None:
        """Replay what followed an event of this session's stream, then go on with it."""
        store = self._server.store
        if store is None:
            await self._reject(http.reject_event(), facts)
            return
        stream = session.transport.streams.get(resume.stream)
        reader = Reader(seen=resume.after)
        if stream is not None and stream.number < resume.after:
            stream = None
        if stream is not None:
            if stream.standing:
                session.transport.listen(reader)
            else:
                stream.attach(reader)
        try:
            tail = await store.read(session.id, resume.stream, resume.after)
        except (UnknownStream, EventsExpired) as exc:
            if stream is None or isinstance(exc, EventsExpired):
                if stream is not None:
                    stream.detach(reader)
                await self._reject(http.reject_event(), facts)
                return
            events: list[tuple[int, bytes]] = []  # nothing has been stored of it yet
        else:
            events = [(event.n, event.data) for event in tail.events]
        begin = _frame_all(resume.stream, events)
        if events:
            reader.seen = max(reader.seen, events[-1][0])
        if stream is None:
            await self._respond_whole_stream(facts, begin)
        else:
            await self._carry(head, facts, stream, reader, session, begin)

    async def _resume_from_store(self, facts: _Facts, get: http.GetHead, principal: Any) -> bool:
        """Serve what another process, now gone, has stored for this session; false if nothing."""
        server = self._server
        if server.store is None or get.session_id is None or get.last_event_id is None:
            return False
        record = await server.store.session(get.session_id)
        if record is None or record.principal != principal:
            return False
        known = http.SessionFacts(revision=REVISIONS[record.revision])
        decision = http.decide_get(get, known, server.policy)
        if not isinstance(decision, http.ResumeStream):
            return False
        try:
            tail = await server.store.read(get.session_id, decision.stream, decision.after)
        except (UnknownStream, EventsExpired):
            return False
        if not tail.finished and not tail.events:
            return False  # its handler ended with the process
        events = [(event.n, event.data) for event in tail.events]
        await self._respond_whole_stream(facts, _frame_all(decision.stream, events))
        return True

    async def _respond_whole_stream(self, facts: _Facts, events: bytes) -> None:
        await self._respond(200, (*http.SSE_HEADERS, *facts.cors), events)

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
            await self._stream.send(memoryview(data)[taken:])


def _frame_all(name: str, events: list[tuple[int, bytes]]) -> bytes:
    return b"".join([encode_event(data, id=format_event_id(name, n)) for n, data in events])
