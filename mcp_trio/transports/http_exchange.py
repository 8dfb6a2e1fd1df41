"""The requests of a client of Streamable HTTP, each with what its response means.

A `Call` carries a JSON-RPC request; its answer comes as JSON or on an event stream, which can
be taken up again after a cut (`EventStreamGet`). A `Message` carries anything that is not
answered, an `Ask` a request of the transport itself.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import (
    HttpFailure,
    InvalidResult,
    McpError,
    OutcomeUnknown,
    ProtocolViolation,
)
from mcp_trio.wire.http_client_rules import (
    MAX_REDIRECTS,
    Follow,
    Redirected,
    Refused,
    Reply,
    decide_redirect,
    is_resumable,
    read_error,
    read_response,
    read_stream_response,
)
from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result, decode
from mcp_trio.wire.sse import Overlong, ServerSentEvent, SSEDecoder

from .http_pool import HttpRequest, Unreachable
from .http_response import BadResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.wire.http_client_rules import HttpMethod

    from .http_client import HttpClientTransport, HttpRoute
    from .http_response import Head

__all__ = ["Ask", "Call", "Delete", "EventStreamGet", "Exchange", "Message", "excerpt", "failure"]

_log: Final = logging.getLogger("mcp_trio.transports")

#: How much of a body an error quotes (characters).
_EXCERPT: Final = 500
#: With these the URL takes no POST, whoever says so.
_NO_POST: Final = frozenset({404, 405})
#: How often a request is sent again that no server can have read to its end.
_RETRIES: Final = 2
#: The same for answers and cancellations, which lose nothing by coming twice.
_MESSAGE_RETRIES: Final = 8


def excerpt(body: bytes) -> str:
    """Return the start of *body*, as text for people."""
    text = body[: 4 * _EXCERPT].decode("utf-8", "replace").strip()
    return text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..."


def failure(refused: Refused, body: bytes) -> McpError:
    """Return the error of a call that got this response.

    A success in a form that is none of MCP's is an answer that does not fit.
    """
    if 200 <= refused.status < 300:
        begin = excerpt(body)
        said = f"; the body begins: {begin}" if begin else "; the body is empty"
        return InvalidResult(refused.reason + said)
    return HttpFailure(refused.reason, status=refused.status, body=excerpt(body))


class Exchange(HttpRequest):
    """A request to the endpoint, with MCP's headers, redirections and credentials.

    Attributes:
        url: where it goes, after redirections.
        session_id: what went with it.
        credentials: header lines of the auth hook.
        number: names it in traces.
        routing: header lines that repeat what its body says.
    """

    __slots__ = (
        "challenged",
        "credentials",
        "home",
        "hops",
        "number",
        "retries",
        "routing",
        "session_id",
        "url",
    )

    #: Whether it goes out even where many requests are under way.
    urgent = False

    def __init__(self, home: HttpClientTransport, method: HttpMethod, body: bytes = b"") -> None:
        super().__init__(method, body)
        self.home: Final = home
        self.url = home.url
        self.session_id: str | None = None
        self.credentials = b""
        self.challenged = False
        self.hops = 0
        self.retries = 0
        self.number = 0
        self.routing = b""

    @property
    def last_event_id(self) -> str | None:
        """What to resume after."""
        return None

    @property
    def message(self) -> Any:
        """The JSON-RPC message in its body, None where there is none."""
        return None

    def head(self) -> bytes:
        """Return the request's head."""
        return self.home.format_head(self)

    def interpret(self, head: Head) -> Reply | Redirected | Refused:
        """Say what a response with this head is."""
        return read_response(
            head.status, head.headers, answer_due=False, session_id=self.session_id
        )

    def begin(self, head: Head) -> SSEDecoder | None:
        """The response begins; one that is not wanted as a stream is read as a body."""
        if self.home.tracer is not None:
            self.home.trace_response(self, head)
        return None

    def ended(self) -> None:
        """The response is complete, or there is none."""
        if self.home.tracer is not None:
            self.home.trace_end(self)

    def take(self, event: ServerSentEvent | Overlong) -> None:
        """No events come of most requests."""

    def finish(self, head: Head, body: bytes) -> None:
        """Follow a redirection, answer a challenge, or conclude."""
        reply = self.interpret(head)
        if type(reply) is Redirected:
            step = decide_redirect(self.url, reply.status, reply.location)
            if type(step) is Follow:
                if self.hops < MAX_REDIRECTS:
                    self.hops += 1
                    self.home.follow(self, step.url, permanently=head.status == 308)
                    return
                reply = Refused(head.status, f"more than {MAX_REDIRECTS} redirections")
            else:
                reply = Refused(head.status, step.reason)
        elif head.status == 401 and self.home.auth is not None and not self.challenged:
            self.challenged = True
            self.home.start(self, challenge=", ".join(head.headers.all("www-authenticate")))
            return
        self.conclude(reply, head, body)

    @abstractmethod
    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:
        """The response is complete and there is nothing more to try."""

    def fail(self, cause: Exception, *, begun: bool) -> None:
        """Send again what no server can have read to its end; give up anything else."""
        unread = not self.sent and not begun and type(cause) is not Unreachable
        if unread and self.retries < _RETRIES:
            self.retries += 1
            self.home.start(self)
            return
        self.abort(self._error(cause, unread=unread))

    def _error(self, cause: Exception, *, unread: bool) -> McpError:
        error: McpError
        if type(cause) is Unreachable:
            error = HttpFailure(f"the server cannot be reached: {cause}")
            error.__cause__ = cause.cause
            return error
        if unread:
            error = HttpFailure(f"the request could not be sent: {cause}")
        elif type(cause) is BadResponse:
            error = InvalidResult(f"the server's response is no HTTP: {cause}")
        else:
            error = OutcomeUnknown(f"the connection broke before the answer: {cause}")
        error.__cause__ = cause
        return error

    @abstractmethod
    def abort(self, error: McpError) -> None:
        """There will be no response."""


class Call(Exchange):
    """A POST with a JSON-RPC request.

    Attributes:
        request: the message.
        carrier: the GET that its event stream goes on with, after a cut.
        route: for answers to what the server asks in the course of it.
        resuming: the scope in which its event stream is taken up again.
    """

    __slots__ = ("carrier", "decoder", "request", "resuming", "route")

    def __init__(self, home: HttpClientTransport, request: Request, body: bytes) -> None:
        super().__init__(home, "POST", body)
        self.request: Final = request
        self.carrier: Exchange | None = None
        self.route: HttpRoute | None = None
        self.decoder: SSEDecoder | None = None
        self.resuming: trio.CancelScope | None = None

    @property
    def message(self) -> Request:
        """The request."""
        return self.request

    def interpret(self, head: Head) -> Reply | Redirected | Refused:
        """Say what a response with this head is; nearly all are known from the last one."""
        reply: Reply | Redirected | Refused | None = head.reply
        if reply is None:
            reply = read_response(
                head.status, head.headers, answer_due=True, session_id=self.session_id
            )
            coding = head.headers.get("content-encoding")
            if coding not in (None, "identity") and isinstance(reply, Reply):
                reply = Refused(head.status, f"the answer is encoded ({coding}), unasked")
            if reply is Reply.JSON:  # the same whatever the session
                head.reply = reply
        return reply

    def begin(self, head: Head) -> SSEDecoder | None:
        """The response begins."""
        if self.home.tracer is not None:
            self.home.trace_response(self, head)
        if head.reply is Reply.JSON or self.interpret(head) is not Reply.STREAM:
            return None
        self.began(head)
        self.decoder = self.home.new_decoder()
        return self.decoder

    def began(self, head: Head) -> None:
        """A success has begun."""

    # ------------------------------------------------------------ the answer

    @property
    def answered(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.home.calls.get(self.request.id) is not self

    def settle(self, answer: Result | Failure) -> None:
        """The answer is there."""
        home = self.home
        home.calls.pop(self.request.id, None)
        home.deliver(answer, self.route or home.route)
        self.end_dialogs()

    def abort(self, error: McpError) -> None:
        """There will be no answer."""
        if not self.answered:
            self.home.calls.pop(self.request.id, None)
            self.home.fail_call(self.request.id, error)
        self.end_dialogs()

    def end_dialogs(self) -> None:
        """What the server asked in the course of the call ends with it."""
        route, self.route = self.route, None
        if route is not None:
            route.end()

    def give_up(self) -> None:
        """Nobody wants the answer any more."""
        if self.resuming is not None:
            self.resuming.cancel(reason="the call was given up")
        super().give_up()
        self.end_dialogs()

    def finish(self, head: Head, body: bytes) -> None:
        """Take the answer, or find out why it is none."""
        if head.reply is Reply.JSON:
            self._take_json(body)
        else:
            super().finish(head, body)

    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:
        """The response is complete."""
        if reply is Reply.STREAM:
            self.cut(None)
        elif reply is Reply.SESSION_GONE:
            self.home.session_gone(self.session_id)
        elif reply is Reply.JSON:
            self._take_json(body)
        elif isinstance(reply, Refused):
            error = read_error(head.headers, body, depth=self.home.limits.json_depth)
            if error is not None:
                if head.status in _NO_POST:  # said in JSON-RPC too, it may be HTTP+SSE's GET
                    self.home.note_refusal(head.status, body)
                self.settle(Failure(self.request.id, error.code, error.message, error.data))
            else:
                self.home.note_refusal(head.status, body)
                self.abort(failure(reply, body))

    def _take_json(self, body: bytes) -> None:
        home = self.home
        message = decode(body, depth=home.limits.json_depth)
        kind = type(message)
        if (kind is Result or kind is Failure) and message.id == self.request.id:  # type: ignore[union-attr]  # by its class
            self.settle(message)  # type: ignore[arg-type]  # by its class
        elif kind is Failure and message.id is None:  # type: ignore[union-attr]  # by its class
            # It is the answer to this request all the same: its id could not be read.
            self.settle(Failure(self.request.id, message.code, message.message, message.data))  # type: ignore[union-attr]  # by its class
        else:
            home.deliver(message, home.route)
            if not self.answered:
                said = excerpt(body)
                home.note_refusal(200, body)
                self.abort(
                    InvalidResult(
                        f"the answer to {self.request.method} is no answer to it; "
                        + (f"the body begins: {said}" if said else "the body is empty")
                    )
                )

    # ------------------------------------------------------------ event streams

    def take(self, event: ServerSentEvent | Overlong) -> None:
        """Take an event of the call's stream, wherever it comes from."""
        if self.route is None:
            self.route = self.home.new_route()
        message = self.home.read_event(self.carrier or self, event)
        kind = type(message)
        if message is None:
            return
        if kind is Overlong:
            error = InvalidResult(f"an event over {message.limit} bytes")
            self.abort(error)
            self.give_up()
        elif (kind is Result or kind is Failure) and message.id == self.request.id:
            self.settle(message)
            if self.connection is not None:
                self.connection.linger()
        else:
            self.home.receive(message, self.route)

    def fail(self, cause: Exception, *, begun: bool) -> None:
        """The connection broke: a stream may be taken up again."""
        if self.decoder is not None:
            self.cut(cause)
        else:
            super().fail(cause, begun=begun)

    def cut(self, cause: Exception | None) -> None:
        """The event stream has ended; before the answer, it is resumed if it can be."""
        if self.answered:
            self.end_dialogs()
            return
        decoder = self.decoder
        assert decoder is not None  # noqa: S101 - there was a stream
        decoder.end()
        if self.home.resumes and is_resumable(decoder.last_event_id):
            self.home.start_soon(self.home.resume, self, decoder, cause)
        else:
            error = OutcomeUnknown(
                "the event stream ended before the answer, and cannot be resumed"
            )
            error.__cause__ = cause
            self.abort(error)


class Ask(Call):
    """A request of the transport itself; `outcome` is there when `done` is set."""

    __slots__ = ("done", "head_seen", "outcome")

    urgent = True

    def __init__(self, home: HttpClientTransport, request: Request, body: bytes) -> None:
        super().__init__(home, request, body)
        self.done: Final = trio.Event()
        self.outcome: Result | Failure | McpError | Reply | None = None
        self.head_seen: Head | None = None

    @property
    def answered(self) -> bool:
        """Whether there is an outcome."""
        return self.outcome is not None

    def settle(self, answer: Result | Failure) -> None:
        """The answer is there."""
        self._end(answer)

    def abort(self, error: McpError) -> None:
        """There will be no answer."""
        self._end(error)

    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:
        """The response is complete."""
        if reply is Reply.SESSION_GONE:
            self._end(reply)
        else:
            super().conclude(reply, head, body)

    def began(self, head: Head) -> None:
        """Keep the head: the session id is in it."""
        self.head_seen = head

    def finish(self, head: Head, body: bytes) -> None:
        """Keep the head, then as any call."""
        self.head_seen = head
        super().finish(head, body)

    def _end(self, outcome: Result | Failure | McpError | Reply) -> None:
        if self.outcome is None:
            self.outcome = outcome
            self.done.set()
        self.end_dialogs()


class Opening(Call):
    """The POST of ``initialize``: the session id comes with its answer."""

    __slots__ = ()

    def began(self, head: Head) -> None:
        """Keep the session id."""
        try:
            self.home.note_session(head)
        except ProtocolViolation as exc:
            self.abort(exc)

    def finish(self, head: Head, body: bytes) -> None:
        """Keep the session id before the answer is taken."""
        if 200 <= head.status < 300 and self.decoder is None:
            self.began(head)
        super().finish(head, body)

    def settle(self, answer: Result | Failure) -> None:
        """Keep what was negotiated."""
        if type(answer) is Result:
            self.home.note_revision(answer.result)
        super().settle(answer)


class Message(Exchange):
    """A POST with a notification or an answer; *then* hears whether the server took it."""

    __slots__ = ("message", "since", "then")

    urgent = True

    def __init__(
        self,
        home: HttpClientTransport,
        message: Any,
        body: bytes,
        then: Callable[[Message, McpError | None], None],
    ) -> None:
        super().__init__(home, "POST", body)
        self.message: Final = message
        self.then: Final = then
        self.since = trio.current_time()

    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:
        """The response is complete."""
        if reply is Reply.ACCEPTED:
            self.then(self, None)
            return
        if reply is Reply.SESSION_GONE:
            self.home.session_gone(self.session_id)
        assert not isinstance(reply, Reply) or reply is Reply.SESSION_GONE  # noqa: S101 - by its rule
        refused = reply if isinstance(reply, Refused) else Refused(head.status, "no such session")
        self.then(self, failure(refused, body))

    def fail(self, cause: Exception, *, begun: bool) -> None:
        """An answer or a cancellation may come twice: it is sent again where it broke."""
        again = type(self.message) is not Notification or self.message.method.endswith("/cancelled")
        if (
            again
            and not begun
            and self.retries < _MESSAGE_RETRIES
            and type(cause) is not Unreachable
        ):
            self.retries += 1
            self.home.start(self)
        else:
            super().fail(cause, begun=begun)

    def abort(self, error: McpError) -> None:
        """Nobody can say whether the server has it."""
        self.then(self, error)


class EventStreamGet(Exchange):
    """A GET that listens: to the session, or to what is left of a call's stream.

    Attributes:
        outcome: what became of it, once `done` is set; ``Reply.STREAM`` where it was one.
        said: the body of a refusal.
        heard: an event came on it.
    """

    __slots__ = ("_begun", "_decoder", "_sink", "_streams", "done", "heard", "outcome", "said")

    urgent = True

    def __init__(
        self,
        home: HttpClientTransport,
        decoder: SSEDecoder,
        sink: Callable[[ServerSentEvent | Overlong], None],
        begun: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(home, "GET")
        self._begun = begun
        self._decoder = decoder
        self._sink = sink
        self._streams = False
        self.heard = False
        self.done: Final = trio.Event()
        self.outcome: Reply | Refused | McpError | None = None
        self.said = b""

    @property
    def last_event_id(self) -> str | None:
        """What to resume after, where a header can carry it."""
        found = self._decoder.last_event_id
        return found if is_resumable(found) else None

    def interpret(self, head: Head) -> Reply | Redirected | Refused:
        """Say what a response with this head is."""
        return read_stream_response(head.status, head.headers, session_id=self.session_id)

    def begin(self, head: Head) -> SSEDecoder | None:
        """The response begins."""
        super().begin(head)
        self._tell_begun()
        self._streams = self.interpret(head) is Reply.STREAM
        return self._decoder if self._streams else None

    def _tell_begun(self) -> None:
        if self._begun is not None:
            self._begun()

    def take(self, event: ServerSentEvent | Overlong) -> None:
        """Hand on an event."""
        self.heard = True
        self._sink(event)

    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:  # noqa: ARG002 - as its base
        """The stream, or the refusal, has ended."""
        assert not isinstance(reply, Redirected)  # noqa: S101 - followed or refused by now
        self.said = body
        self._end(reply)

    def abort(self, error: McpError) -> None:
        """The connection broke; a stream has ended all the same."""
        self._end(Reply.STREAM if self._streams else error)

    def stop(self, error: McpError) -> None:
        """What came on the stream cannot be dealt with."""
        self._end(error)

    def _end(self, outcome: Reply | Refused | McpError) -> None:
        self._tell_begun()
        if self.outcome is None:
            self.outcome = outcome
        self.done.set()


class Delete(Exchange):
    """The DELETE of a session: whatever comes back, it is over."""

    __slots__ = ("done",)

    urgent = True

    def __init__(self, home: HttpClientTransport) -> None:
        super().__init__(home, "DELETE")
        self.done: Final = trio.Event()

    def conclude(self, reply: Reply | Redirected | Refused, head: Head, body: bytes) -> None:  # noqa: ARG002 - as its base
        """405 is fine: "the server does not allow clients to terminate sessions"."""
        self.done.set()

    def abort(self, error: McpError) -> None:  # noqa: ARG002 - as its base
        """The connection broke; the server's session expires by itself."""
        self.done.set()
