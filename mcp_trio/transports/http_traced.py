"""A connection of a server that tells a tracer of its requests, responses and events.

It takes the place of `Connection` where there is a tracer, so that nobody else pays for one.
Events are read back from the bytes that are written: what is told is what crosses the wire.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp_trio.wire import http
from mcp_trio.wire.http_head import Headers
from mcp_trio.wire.http_pair import PairMessage
from mcp_trio.wire.jsonrpc import decode
from mcp_trio.wire.sse import ServerSentEvent, SSEDecoder, encode_event

from .http_connection import Connection

if TYPE_CHECKING:
    from mcp_trio.abc import ByteStream

    from .http1 import Head
    from .http_server import HttpServer
    from .http_streams import EventStream, Reader
    from .http_writer import Facts, RawHeaders

__all__ = ["TracedConnection"]

#: Requests whose body is a message.
_POSTED: Final = frozenset({http.PostHead, PairMessage})


class TracedConnection(Connection):
    """A `Connection`, watched.

    Its handlers have tasks of their own: whoever has a connection is at its request at hand.
    """

    serves_itself = False
    __slots__ = ("_announced", "_facts", "_number", "_pending")

    def __init__(self, server: HttpServer, stream: ByteStream) -> None:
        super().__init__(server, stream)
        self._number = 0
        self._facts: Facts | None = None  # of the request at hand
        self._announced = False
        self._pending = b""  # events that go out with the head of their stream

    # ------------------------------------------------------------ requests

    async def _serve(self, head: Head, facts: Facts) -> None:
        self._server.traced_requests += 1
        self._number, self._facts, self._announced = self._server.traced_requests, facts, False
        try:
            await super()._serve(head, facts)
        finally:
            self._announce()
            self._trace("http.ended")
            self._facts = None

    async def _read_body(self, head: Head) -> bytes:
        body = await super()._read_body(head)
        posted = self._facts is not None and type(self._facts.decision) in _POSTED
        self._announce(decode(body, depth=self._server.limits.json_depth) if posted else None)
        return body

    def _announce(self, body: Any = None) -> None:
        """Tell of the request, once, before anything that comes of it."""
        if self._announced or self._facts is None:
            return
        self._announced = True
        head = self._facts.head
        self._trace(
            "http.request",
            method=head.method,
            url=head.path,
            last_event_id=head.headers.get("last-event-id"),
            body=body,
        )

    # ------------------------------------------------------------ responses

    def _respond_traced(self, status: int, raw: RawHeaders) -> Headers:
        self._announce()
        headers = Headers.read(raw)
        self._trace(
            "http.response",
            status=status,
            content_type=headers.get("content-type"),
            headers=headers,
            given=headers.get("mcp-session-id"),
        )
        return headers

    async def respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        """Write a whole response."""
        said = self._respond_traced(status, headers)
        if said.get("content-type") == "text/event-stream":
            self._trace_events(body)
        await super().respond(status, headers, body)

    def _json(self, answer: bytes, status: int, headers: RawHeaders) -> tuple[bytes, bytes]:
        self._respond_traced(status, (*http.JSON_HEADERS, *headers))
        return super()._json(answer, status, headers)

    def _begin_stream(self, headers: RawHeaders, *, framed: bool) -> bytes:
        self._respond_traced(200, (*http.SSE_HEADERS, *headers))
        pending, self._pending = self._pending, b""
        self._trace_events(pending)
        return super()._begin_stream(headers, framed=framed)

    # ------------------------------------------------------------ events

    def finish_answer(self) -> None:
        """Write a whole response where the answer is all it says."""
        answering = self._answering
        answer = None if answering is None or answering.json else answering.stream.only_answer()
        if answer is not None and answering is not None and answering.plain:
            self._pending = encode_event(answer) if answering.head.chunks else b""
        super().finish_answer()

    async def write_stream(
        self, head: Head, stream: EventStream, reader: Reader, headers: RawHeaders, begin: bytes
    ) -> None:
        """Write a stream's events."""
        self._pending = begin
        await super().write_stream(head, stream, reader, headers, begin)

    def _frames(self, stream: EventStream, reader: Reader) -> bytes:
        events = super()._frames(stream, reader)
        self._trace_events(events)
        return events

    def _trace_events(self, data: bytes) -> None:
        if not data:
            return
        for event in SSEDecoder(len(data)).receive(data):
            if type(event) is ServerSentEvent:
                body = None
                if event.data and event.event == "message":
                    body = decode(event.data, depth=self._server.limits.json_depth)
                size = len(event.data)
                self._trace("sse.event", id=event.id, event=event.event, bytes=size, body=body)

    # ------------------------------------------------------------ telling

    def _trace(self, name: str, *, given: str | None = None, **fields: Any) -> None:
        """Tell of an event; *given* is the session id that a response brings."""
        tracer, facts = self._server.tracer, self._facts
        if tracer is None or facts is None:  # a request that cannot be read has no facts
            return
        session_id = given or facts.head.headers.get("mcp-session-id")
        about = {
            "session": session_id[:8] if session_id else "",
            "role": "server",
            "session_id": session_id[:8] if session_id else None,
            "exchange": self._number,
        }
        tracer.event(name, {**about, **fields})
