"""HTTP+SSE, the pair of endpoints of 2024-11-05, the client's side.

One GET holds the event stream on which everything comes; its first event names where to POST
everything that goes. Such a session lives as long as its stream. Source: 2024-11-05
basic/transports § HTTP with SSE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_trio.errors import McpError, ProtocolViolation, SessionLost
from mcp_trio.wire.http_client_rules import Redirected, Refused, Reply, read_response
from mcp_trio.wire.http_pair import read_endpoint
from mcp_trio.wire.jsonrpc import Failure, Flaw, Malformed, Request, Result, encode
from mcp_trio.wire.sse import Overlong, ServerSentEvent, SSEDecoder

from .http_client import HttpClientTransport, HttpRoute
from .http_exchange import Call, EventStreamGet, Exchange
from .http_resume import listen

if TYPE_CHECKING:
    from .http_response import Head

__all__ = ["SsePairTransport"]


class _Post(Call):
    """A POST with a request, whose answer comes on the event stream."""

    __slots__ = ()

    def interpret(self, head: Head) -> Reply | Redirected | Refused:
        """Say what a response with this head is."""
        return read_response(head.status, head.headers, answer_due=False)

    def begin(self, head: Head) -> SSEDecoder | None:
        """The response begins; what it says does not matter."""
        return Exchange.begin(self, head)

    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:
        """A success is no more than that."""
        if reply is not Reply.ACCEPTED:
            super().conclude(reply, head, body)


class SsePairTransport(HttpClientTransport):
    """The client's side of one session over HTTP+SSE; its endpoint is that of the stream."""

    def begin(self) -> None:
        """Connections can be opened: open the stream."""
        super().begin()
        self.start_soon(self._hold_stream)

    def send_request(self, request: Request) -> int:
        """POST *request*, once it is known where to; return its ticket."""
        post = _Post(self, request, encode(request))
        self.calls[request.id] = post
        opening = request.method == "initialize" and self.url is not self.endpoint.url
        if self._open or opening:
            self.start(post)
        else:
            self._held.append(post)
        ticket: int = request.id  # type: ignore[assignment]  # ids of our own are numbers
        return ticket

    def opened(self) -> None:
        """The session is open: send what was held."""
        self._release()

    def session_gone(self, lost_id: str | None) -> None:
        """There is no session but that of the stream."""

    async def _hold_stream(self) -> None:
        decoder = self.new_decoder()
        with self._standing:
            self._stream = get = EventStreamGet(self, decoder, self._hear)
            outcome: Any = await listen(self, get)
            if isinstance(outcome, Refused):
                self.note_refusal(outcome.status, get.said)
                error = SessionLost(f"there is no event stream: {outcome.reason}")
            elif isinstance(outcome, McpError):
                error = SessionLost(f"there is no event stream: {outcome}", outcome)
            elif outcome is Reply.NO_STREAM:
                self.note_refusal(405, get.said)
                error = SessionLost("there is no event stream: the server answered with 405")
            else:
                error = SessionLost("the server closed the event stream")
            self.lose(error)

    def _hear(self, event: ServerSentEvent | Overlong) -> None:
        """Take an event of the stream."""
        if type(event) is Overlong:
            self.lose(SessionLost(f"an event over {event.limit} bytes"))
        elif self.url is self.endpoint.url:
            self.read_event(self._stream, event)  # for the tracer: it carries no message
            self._found(event)
        else:
            message = self.read_event(self._stream, event)
            if message is not None:
                self.receive(message, self.route)

    def _found(self, event: ServerSentEvent) -> None:
        """The first event says where to POST."""
        try:
            self.url = read_endpoint(event, self.endpoint.url)
        except ProtocolViolation as exc:
            self.lose(SessionLost(f"HTTP+SSE: {exc}", exc))
            return
        held, self._held = self._held, []
        for post in held:
            post.url = self.url
            if post.request.method == "initialize":
                self.start(post)
            else:
                self._held.append(post)

    def receive(self, message: Any, route: HttpRoute) -> None:
        """Deliver what came on the stream."""
        kind = type(message)
        if (
            kind is Result
            or kind is Failure
            or (kind is Malformed and message.flaw is Flaw.ANSWER and message.id is not None)
        ):
            self.calls.pop(message.id, None)
        self.deliver(message, route)
