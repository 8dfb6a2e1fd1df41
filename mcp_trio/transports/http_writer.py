"""What a connection of a server writes: whole responses, and streams of events.

Only the connection's own task writes, but for one synchronous write of a whole response at the
moment its answer is there (`ResponseWriter.finish_answer`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp_trio.wire import http
from mcp_trio.wire.http_head import RequestHead, format_event_id
from mcp_trio.wire.http_policy import cors_headers, render_error_body
from mcp_trio.wire.revisions import Feature
from mcp_trio.wire.sse import KEEP_ALIVE, encode_event

from .http1 import chunk, json_head, json_response, last_chunk, response, stream_head
from .http_memo import HeadCut
from .http_streams import Reader

if TYPE_CHECKING:
    from mcp_trio.abc import ByteStream
    from mcp_trio.runtime.exchange import Exchange
    from mcp_trio.wire.http_envelope import Agreement
    from mcp_trio.wire.http_policy import Reject

    from .http1 import Head
    from .http_server import HttpServer
    from .http_sessions import HttpSession
    from .http_streams import EventStream

__all__ = ["LATER", "Answering", "Facts", "RawHeaders", "ResponseWriter"]

RawHeaders = tuple[tuple[bytes, bytes], ...]
LATER: Final[RawHeaders] = ((b"Retry-After", b"1"),)
#: What does not fit the socket is written in pieces; a client has to take each in time.
_PIECE: Final = 262_144
#: From this size on, two system calls are cheaper than a copy.
_LARGE: Final = 65_536


class Facts:
    """What was concluded from a head, once for all requests that have it.

    Attributes:
        agreement: what the last body had that it repeats, and was found to agree.
    """

    __slots__ = ("agreement", "cors", "decision", "head")

    def __init__(self, head: RequestHead, decision: Any, cors: RawHeaders) -> None:
        self.head: Final = head
        self.decision: Final[Any] = decision
        self.cors: Final = cors
        self.agreement: Agreement | None = None

    @classmethod
    def of(cls, raw: Head, server: HttpServer) -> Facts:
        """Conclude; from what is known of a head like this one, if there is one."""
        like = raw.like
        if like is None:
            head = RequestHead.read(raw.method, raw.target, raw.headers)
            cors = cors_headers(head, server.policy) if server.policy.cors else ()
            return cls(head, server.check(head), cors)
        if like.facts is None:
            like.facts = cls.of(like, server)
        known: Facts = like.facts
        head = known.head.refilled(raw.headers, HeadCut.NAMES)
        return cls(head, http.for_session(known.decision, head), known.cors)


class Answering:
    """The answer to the POST at hand, and what it will look like.

    Attributes:
        session: whose request it answers, where that matters.
        stream: what is to be said, and *reader*, who takes it.
        json: it may be JSON, where there is nothing else to say; *sse*: it may be a stream.
        plain: its events have no ids.
        primed: its stream begins with an id.
        exchange: what the end of the client cancels; None where that cancels nothing.
        moved: another task has taken it over, with its connection.
    """

    __slots__ = (
        "exchange",
        "head",
        "headers",
        "json",
        "moved",
        "plain",
        "primed",
        "reader",
        "session",
        "sse",
        "stream",
    )

    def __init__(
        self,
        head: Head,
        headers: RawHeaders,
        serve: http.Serve,
        stream: EventStream,
        session: HttpSession | None,
    ) -> None:
        self.head: Final = head
        self.headers: Final = headers
        self.session: Final = session
        self.stream: Final = stream
        self.reader: Final = Reader()
        self.json: Final = serve.accepts.json
        self.sse: Final = serve.accepts.sse
        self.plain: Final = session is None or not (stream.storable and self.sse)
        # "SHOULD immediately send an SSE event consisting of an event ID and an empty data
        # field" (2025-11-25): before the client has an id, nothing can be resumed.
        self.primed: Final = not self.plain and Feature.PRIMING_EVENT in serve.revision.features
        self.exchange: Exchange | None = None
        self.moved = False
        stream.primed = self.primed
        stream.attach(self.reader)


class ResponseWriter:
    """The writing half of a connection."""

    __slots__ = (
        "_answering",
        "_keep",
        "_reader",
        "_rest",
        "_server",
        "_since",
        "_stream",
        "_stuck",
        "_written",
    )

    def __init__(self, server: HttpServer, stream: ByteStream) -> None:
        self._server = server
        self._stream = stream
        self._keep = True
        self._since = server.sessions.now
        self._stuck = False  # waiting for the client to read
        self._reader: Reader | None = None  # of the event stream that is open
        self._written = 0.0
        self._answering: Answering | None = None
        self._rest: bytes | memoryview = b""

    # ------------------------------------------------------------ whole responses

    async def reject(self, reject: Reject, facts: Facts | None = None) -> None:
        """Answer with a refusal."""
        body = render_error_body(reject)
        if facts is not None and facts.head.method == "HEAD":
            body = b""  # RFC 9110 § 9.3.2: no content in the answer
        headers = (*reject.headers, *(facts.cors if facts is not None else ()))
        if body:
            headers = (*http.JSON_HEADERS, *headers)
        await self.respond(reject.status, headers, body)

    async def respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        """Answer with a whole response."""
        await self.write(response(status, headers, body, keep_alive=self._keep))

    async def write(self, data: bytes) -> None:
        """Write all of *data*, at once where the socket takes it. A cancel point else."""
        self._written = self._server.sessions.now
        taken = self._stream.send_nowait(data)
        if taken < len(data):
            await self.write_rest(memoryview(data)[taken:])

    async def write_rest(self, data: bytes | memoryview) -> None:
        """Write what did not fit; the watcher ends a connection whose client takes nothing."""
        self._stuck = True
        for start in range(0, len(data), _PIECE):
            self._since = self._server.sessions.now
            await self._stream.send(data[start : start + _PIECE])
        self._stuck = False

    # ------------------------------------------------------------ answers

    def finish_answer(self) -> None:
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
            data, body = self._json(answer, stream.status, answering.headers)
        elif answering.plain and answering.head.chunks:
            begin = self._begin_stream(answering.headers, framed=True)
            data, body = b"%b%b%b" % (begin, chunk(encode_event(answer)), last_chunk()), b""
        else:
            return
        self._answering = None
        stream.take_all()
        self._rest = self._try(data)
        if body:
            self._rest = bytes(self._rest) + body if self._rest else self._try(body)

    def _try(self, data: bytes) -> bytes | memoryview:
        """Write what fits at once, and return the rest."""
        try:
            taken = self._stream.send_nowait(data)
        except OSError:
            taken = 0  # the connection's task meets the same error
        return b"" if taken == len(data) else memoryview(data)[taken:]

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

    def _json(self, answer: bytes, status: int, headers: RawHeaders) -> tuple[bytes, bytes]:
        """Return the response, in one piece unless its body is large."""
        if status == 200 and not headers and self._keep:
            if len(answer) > _LARGE:
                return json_head(len(answer)), answer
            return json_response(answer), b""
        extra = LATER if status == 503 else ()
        all_headers = (*http.JSON_HEADERS, *headers, *extra)
        return response(status, all_headers, answer, keep_alive=self._keep), b""

    async def write_stream(
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
                    await self.write(data)
                if over:
                    return
                if stream.awaits(reader):
                    await reader.wait()
        finally:
            self._reader = None

    def _is_gone(self) -> bool:
        return bool(getattr(self._stream, "peer_has_closed", False))

    def _frames(self, stream: EventStream, reader: Reader) -> bytes:
        taken = stream.take(reader)
        if not stream.storable:
            return b"".join([encode_event(data) for _, data in taken])
        name = stream.name
        return b"".join([encode_event(data, id=format_event_id(name, n)) for n, data in taken])
