"""Streamable HTTP on h11 over trio, the client's side: one session as POSTs and event streams.

Each message is a POST. The answer to a request comes with its response, as JSON or on an event
stream; what the server asks in the course of a call comes on that call's stream and ends with
it. After the handshake one standing GET listens to the rest. Whether a session that the server
has forgotten is opened again is a policy. Source: 2025-11-25 basic/transports § Streamable HTTP.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import ConnectFailed, HttpFailure, McpError, SessionLost
from mcp_trio.wire.http_client_rules import read_session_id
from mcp_trio.wire.http_routing import routing_headers
from mcp_trio.wire.jsonrpc import (
    Failure,
    Flaw,
    Malformed,
    Notification,
    Request,
    Result,
    Unencodable,
    decode,
    encode,
    encode_batch,
)
from mcp_trio.wire.revisions import REVISIONS, Feature
from mcp_trio.wire.sse import Overlong, ServerSentEvent, SSEDecoder

from .http_exchange import Ask, Call, Delete, Exchange, Message, Opening, excerpt
from .http_pool import Pool
from .http_reopen import Setup, reopen
from .http_resume import resume_call, run_standing_stream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Literal, TypeAlias

    from mcp_trio.abc import Deliver, Tracer
    from mcp_trio.limits import Limits
    from mcp_trio.runtime.session import Session
    from mcp_trio.wire.jsonrpc import RequestId
    from mcp_trio.wire.revisions import Revision

    from .http_heads import Endpoint
    from .http_response import Head
    from .turn import Waiting

    Auth: TypeAlias = Callable[[str | None], Awaitable[Mapping[str, str]]]
    OnSessionLost: TypeAlias = Literal["fail", "reinitialize", "retry"]

__all__ = ["HttpClientTransport", "HttpRoute"]

_log: Final = logging.getLogger("mcp_trio.transports")

_CANCELLED: Final = "notifications/cancelled"
_INITIALIZED: Final = "notifications/initialized"
#: How often it is looked for what has waited too long (seconds).
_LOOK: Final = 5.0
#: How long the first calls wait for the answer to the standing GET (seconds).
_HEAD_START: Final = 1.0


class HttpRoute:
    """Where answers to what came on one stream go: a POST for each."""

    __slots__ = ("_home", "asked", "ended")

    def __init__(self, home: HttpClientTransport) -> None:
        self._home = home
        self.asked = False  # a request came on it
        self.ended = False

    @property
    def full(self) -> bool:
        """True while the server has too much to take."""
        return self._home.full

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:  # noqa: ARG002 - always tried
        """POST *message*."""
        if type(message) is Request:
            return self._home.send_request(message)
        self._home.send_message(message, dropped=self.ended)
        return 0

    def unsend(self, ticket: int) -> bool:
        """Take back a request of which nothing has been written."""
        return ticket != 0 and self._home.withdraw(ticket)

    async def wait_room(self) -> None:
        """Wait until `full` is false. A checkpoint."""
        await self._home.wait_room()

    def skip(self) -> None:
        """Nothing to do: the server has cancelled its request, and expects nothing."""

    def hang_up(self) -> bool:
        """Return false: there is no response of ours to end."""
        return False

    def end(self) -> None:
        """The stream's call is over: so is what the server asked on it."""
        self.ended = True
        if self.asked:
            self._home.cancel_route(self)


class HttpClientTransport:
    """The client's side of one session over Streamable HTTP.

    Give it its session by `attach` before the session runs.

    Args:
        endpoint: where the server is, and what every request to it carries.
        auth: ``await auth(challenge)`` returns headers for a request; *challenge* is None,
            or after a 401 the value of ``WWW-Authenticate``.
        on_session_lost: what to do when the server has forgotten the session: ``"fail"``
            ends it here too; ``"reinitialize"`` opens a new one, in which later calls go on;
            ``"retry"`` also repeats there the calls that are safe to repeat.
        is_repeatable: tells which calls those are.

    Attributes:
        calls: requests under way, by id.
        session_id: what the server has called the session, None where it has not.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        limits: Limits,
        *,
        auth: Auth | None = None,
        on_session_lost: OnSessionLost = "reinitialize",
        is_repeatable: Callable[[Request], bool] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.endpoint: Final = endpoint
        self.limits: Final = limits
        self.auth: Final = auth
        self.tracer: Final = tracer
        self.calls: dict[RequestId, Call] = {}
        self.session_id: str | None = None
        self.revision: Revision | None = None
        self.url = endpoint.url
        #: By tool, the arguments that headers repeat.
        self.annotations: dict[str, Any] = {}
        self.route: Final = HttpRoute(self)
        self.setup: Final = Setup()
        self._policy = on_session_lost
        self._is_repeatable = is_repeatable or (lambda _: False)
        self._pool = Pool(endpoint.target, limits)
        self._unsent: list[Exchange] | None = []  # before the connections can be used
        self._open = False  # the server has taken ``notifications/initialized``
        self._held: list[Call] = []  # until it has
        self._lane: deque[Message] = deque()  # notifications, in order, and answers behind them
        self._in_lane: Message | None = None
        self._posting: dict[Message, None] = {}  # under way, oldest first
        self._posting_bytes = 0
        self._room = trio.lowlevel.ParkingLot()
        self._standing = trio.CancelScope()
        self._lost: SessionLost | None = None
        self._ended = trio.Event()
        self._refusal: tuple[int, bytes] | None = None
        self._last_id = 0
        self._last_number = 0

    def attach(self, session: Session) -> None:
        """Serve *session*."""
        self.deliver: Deliver = session.deliver
        self.fail_call = session.fail_call
        self.cancel_route = session.cancel_route
        self._label = session.label

    # ------------------------------------------------------------ life

    async def run_reader(self, deliver: Deliver) -> None:
        """Wait for the end of the session; connections deliver.

        Raises:
            SessionLost: the server has ended the session, or never took its beginning.
        """
        self.deliver = deliver
        await self._ended.wait()
        if self._lost is not None:
            raise self._lost.again()

    async def run_writer(self) -> None:
        """Hold the connections until cancelled. They outlive the reader: closing needs them."""
        try:
            async with trio.open_nursery() as nursery:
                self._pool.nursery = nursery
                self.begin()
                while True:
                    await trio.sleep(_LOOK)
                    self._pool.sweep()
                    self._give_up_late_messages()
        finally:
            self._pool.nursery = None

    def begin(self) -> None:
        """Connections can be opened: send what has been waiting for that."""
        unsent, self._unsent = self._unsent or [], None
        for exchange in unsent:
            self.start(exchange)

    async def drain(self) -> None:
        """Wait until the server has taken what was sent, then end the session there.

        "Clients that no longer need a particular session [...] SHOULD send an HTTP DELETE"
        (§ Session Management 5). The caller bounds it. A checkpoint.
        """
        self._standing.cancel(reason="the session closes")
        await trio.lowlevel.checkpoint()
        while self._posting or (self._lane and self._open):
            await self._room.park()
        if self.session_id is not None and self._pool.nursery is not None:
            delete = Delete(self)
            self.start(delete)
            await delete.done.wait()

    async def aclose(self) -> None:
        """Nothing is left to close: the connections ended with `run_writer`."""
        self._ended.set()
        await trio.lowlevel.checkpoint()

    def lose(self, error: SessionLost) -> None:
        """The session is over."""
        if self._lost is None:
            self._lost = error
            self._ended.set()

    def note_refusal(self, status: int, body: bytes) -> None:
        """Keep what the server said, for the error of a session that does not come about."""
        self._refusal = status, body

    def failure(self, reason: str) -> ConnectFailed:
        """Return the error for a session that did not come about."""
        if self._refusal is None:
            return ConnectFailed(reason)
        status, body = self._refusal
        return ConnectFailed(reason, status=status, body=excerpt(body))

    async def lead(self, call: Waiting) -> None:
        """Let the caller of *call* read its response itself, if nobody else reads it."""
        own = self.calls.get(call.id)
        if own is not None and own.connection is not None:
            await own.connection.lead(own, call)

    # ------------------------------------------------------------ requests of the session

    def send_request(self, request: Request) -> int:
        """POST *request*, now or once the server takes requests; return its ticket."""
        call: Call
        if request.method == "initialize":
            self.setup.opening = request.params
            self.calls[request.id] = call = Opening(self, request, encode(request))
            self.start(call)
        else:
            if request.method in self.setup.methods:
                self.setup.note(request)
            call = Call(self, request, encode(request))
            if self._enveloped:
                call.routing = self._routing(request)
            self.calls[request.id] = call
            if self._open:
                self.start(call)
            else:
                self._held.append(call)
        ticket: int = request.id  # type: ignore[assignment]  # ids of our own are numbers
        return ticket

    def withdraw(self, ticket: int) -> bool:
        """Take a request back of which nothing has been written."""
        call = self.calls.get(ticket)
        if call is None or call.sent or call.connection is not None:
            return False
        del self.calls[ticket]
        if call in self._held:
            self._held.remove(call)
        call.give_up()
        return True

    # ------------------------------------------------------------ other messages of the session

    @property
    def full(self) -> bool:
        """True while the server has more than ``limits.outbox_bytes`` to take."""
        return self._posting_bytes > self.limits.outbox_bytes

    async def wait_room(self) -> None:
        """Wait until `full` is false. A checkpoint."""
        await trio.lowlevel.checkpoint()
        while self.full and self._pool.nursery is not None:
            await self._room.park()

    def send_message(self, message: Any, *, dropped: bool = False) -> None:
        """POST a notification or an answer.

        Notifications go out one after another, since POSTs may overtake each other; an answer
        waits for those before it, and holds up nothing. A cancellation goes at once, and takes
        the connection of its call with it. *dropped* where nobody waits for it any more.
        """
        body = encode_batch(message) if type(message) is list else encode(message)
        if dropped or (self._unsent is None and self._pool.nursery is None):
            return
        method = message.method if type(message) is Notification else None
        if method == _CANCELLED and self._enveloped:
            # The end of its connection says it (2026-07-28 basic/transports § Cancellation).
            self._give_up(message)
            return
        post = Message(self, message, body, self._posted)
        self._posting_bytes += len(body)
        if method == _CANCELLED:
            self._begin(post)
            self._give_up(message)
        elif method == _INITIALIZED or (method is None and not self._lane and not self._in_lane):
            self._begin(post)
        else:
            self._lane.append(post)
            self._advance()

    def _give_up(self, cancellation: Notification) -> None:
        """Close the connection of the call that *cancellation* names."""
        id_: Any = (cancellation.params or {}).get("requestId")
        call = self.calls.pop(id_, None)
        if call is not None:
            call.give_up()

    def _begin(self, post: Message) -> None:
        self._posting[post] = None
        self.start(post)

    def _advance(self) -> None:
        while self._open and self._in_lane is None and self._lane:
            post = self._lane.popleft()
            if type(post.message) is Notification:
                self._in_lane = post
            self._begin(post)

    def _posted(self, post: Message, error: McpError | None) -> None:
        """The server has taken *post*, or not."""
        if self._posting.pop(post, self) is self:
            return
        self._posting_bytes -= len(post.body)
        if not self.full:
            self._room.unpark_all()
        if post is self._in_lane:
            self._in_lane = None
            self._advance()
        kind = type(post.message)
        if kind is Notification and post.message.method == _INITIALIZED:
            self._initialized(error)
        elif error is not None:
            what = post.message.method if kind is Notification else "an answer"
            _log.warning("the server did not take %s: %s", what, error)

    def _give_up_late_messages(self) -> None:
        until = trio.current_time() - self.limits.request_time
        for post in list(self._posting):
            if post.since < until:
                post.give_up()
                self._posted(post, HttpFailure("no response for too long"))

    # ------------------------------------------------------------ the handshake

    def note_session(self, head: Head) -> None:
        """Keep the id of the session from the response to ``initialize``.

        Raises:
            ProtocolViolation: it is none.
        """
        self.session_id = read_session_id(head.headers)
        self.endpoint.forget_heads()

    def note_revision(self, result: Mapping[str, Any]) -> None:
        """Keep what was negotiated: later requests say so."""
        version = result.get("protocolVersion")
        self.revision = REVISIONS.get(version) if isinstance(version, str) else None
        self.endpoint.forget_heads()

    def speak(self, revision: Revision | None) -> None:
        """Send requests by the rules of *revision*, which has no handshake; None: as before."""
        self.revision = revision
        self._open = revision is not None
        self.endpoint.forget_heads()

    @property
    def _enveloped(self) -> bool:
        return self.revision is not None and Feature.ENVELOPE in self.revision.features

    def _initialized(self, error: McpError | None) -> None:
        if error is not None:
            self.lose(SessionLost("the server did not take notifications/initialized", error))
        else:
            self.opened()

    def opened(self) -> None:
        """The session is open: listen, and then send what was held.

        In this order, since servers drop what they ask of a client that does not listen yet.
        """
        self._standing = trio.CancelScope()
        listening = trio.Event()
        self.start_soon(self._listen, self._standing, listening)
        self.start_soon(self._release_after, listening)

    async def _release_after(self, listening: trio.Event) -> None:
        with trio.move_on_after(_HEAD_START):
            await listening.wait()
        self._release()

    def _release(self) -> None:
        self._open = True
        held, self._held = self._held, []
        for call in held:
            self.start(call)
        self._advance()

    async def _listen(self, scope: trio.CancelScope, listening: trio.Event) -> None:
        with scope:
            await run_standing_stream(self, listening.set)

    # ------------------------------------------------------------ a lost session

    def session_gone(self, lost_id: str | None) -> None:
        """The server knows the session *lost_id* no more; only the first to say so counts."""
        if lost_id is None or lost_id != self.session_id or self._lost is not None:
            return
        self.session_id = None
        error = SessionLost("the server has ended the session (HTTP status 404)")
        if self._policy == "fail" or self.setup.opening is None:
            self.lose(error)
            return
        self._open = False
        self._standing.cancel(reason="the session is lost")
        calls, self.calls = self.calls, {}
        for id_, call in calls.items():
            if call in self._held:
                self.calls[id_] = call
                continue
            call.give_up()
            if self._policy == "retry" and self._is_repeatable(call.request):
                self.calls[id_] = again = Call(self, call.request, call.body)
                self._held.append(again)
            else:
                self.fail_call(id_, error.again())
        self.start_soon(self._reopen)

    async def _reopen(self) -> None:
        """Open a new session in place of the lost one."""
        revision, self.revision = self.revision, None
        self.endpoint.forget_heads()
        try:
            with trio.fail_after(self.limits.request_time):
                await reopen(self, revision)
        except (McpError, trio.TooSlowError) as exc:
            reason = "the server has ended the session, and a new one could not be opened"
            self.lose(SessionLost(f"{reason}: {exc}", exc))
        else:
            self.opened()

    # ------------------------------------------------------------ what arrives

    @property
    def resumes(self) -> bool:
        """Whether streams can be resumed at this revision."""
        return self.revision is not None and Feature.RESUME in self.revision.features

    def new_decoder(self) -> SSEDecoder:
        """Return a decoder for a new event stream."""
        return SSEDecoder(self.limits.message_bytes)

    def new_route(self) -> HttpRoute:
        """Return the route of a new event stream."""
        return HttpRoute(self)

    def read_event(self, exchange: Exchange, event: ServerSentEvent | Overlong) -> Any:
        """Return the message that *event* carries, None where it carries none."""
        if type(event) is Overlong:
            return event
        assert type(event) is ServerSentEvent  # noqa: S101 - the other class
        message = None
        if event.data and event.event == "message":
            message = decode(event.data, depth=self.limits.json_depth)
        if self.tracer is not None:
            fields = {"id": event.id, "event": event.event, "bytes": len(event.data)}
            self._trace("sse.event", exchange, {**fields, "body": message})
        return message

    def receive(self, message: Any, route: HttpRoute) -> None:
        """Deliver what came on an event stream and is not the answer to the stream's call."""
        kind = type(message)
        if (
            kind is Result
            or kind is Failure
            or (kind is Malformed and message.flaw is Flaw.ANSWER and message.id is not None)
        ):
            call = self.calls.pop(message.id, None)
            self.deliver(message, self.route)
            if call is not None:
                call.give_up()
            return
        if kind is not Notification:
            route.asked = True
        self.deliver(message, route)

    async def resume(self, call: Call, decoder: SSEDecoder, cause: Exception | None) -> None:
        """Follow the rest of *call*'s stream. A checkpoint."""
        await resume_call(self, call, decoder, cause)

    # ------------------------------------------------------------ sending

    def start(self, exchange: Exchange, *, challenge: str | None = None) -> None:
        """Send *exchange*, with credentials if there are any."""
        if self._pool.nursery is None:
            if self._unsent is not None:
                self._unsent.append(exchange)
        elif self.auth is None:
            self._send(exchange)
        else:
            self.start_soon(self._authorize, self.auth, exchange, challenge)

    def _send(self, exchange: Exchange) -> None:
        if self.tracer is not None:
            self._last_number += 1
            exchange.number = self._last_number
            fields = {
                "method": exchange.method,
                "url": exchange.url,
                "last_event_id": exchange.last_event_id,
                "body": exchange.message,
            }
            self._trace("http.request", exchange, fields)
        self._pool.send(exchange, urgent=exchange.urgent)

    async def _authorize(self, auth: Auth, exchange: Exchange, challenge: str | None) -> None:
        try:
            exchange.credentials = self.endpoint.credential_lines(await auth(challenge))
        except McpError as exc:
            exchange.abort(exc)
        except Exception as exc:  # noqa: BLE001 - a hook of the user's is at fault for one request
            error = HttpFailure(f"the auth hook failed: {exc!r}")
            error.__cause__ = exc
            exchange.abort(error)
        else:
            if not exchange.given_up:
                self._send(exchange)

    def follow(self, exchange: Exchange, url: str, *, permanently: bool) -> None:
        """Send *exchange* again, to *url*; the next ones too where that is for good."""
        exchange.url = url
        if permanently:
            self.url = url
        self.start(exchange)

    def format_head(self, exchange: Exchange) -> bytes:
        """Return the head of *exchange*."""
        exchange.session_id = self.session_id
        return self.endpoint.head(exchange, self.revision, self.session_id)

    def _routing(self, request: Request) -> bytes:
        """Return the header lines that repeat what *request* says, for whoever routes by them."""
        params = request.params or {}
        annotated: Any = {}
        if request.method == "tools/call":
            annotated = self.annotations.get(str(params.get("name")), annotated)
        try:
            lines = routing_headers(request.method, params, annotated)
        except ValueError as exc:
            raise Unencodable("$.params", f"no header can repeat it: {exc}") from None
        return "".join([f"{name}: {value}\r\n" for name, value in lines]).encode("ascii")

    def start_soon(self, fn: Callable[..., Awaitable[object]], *args: Any) -> None:
        """Run *fn* beside the connections, unless all is over."""
        if self._pool.nursery is not None:
            self._pool.start_soon(fn, *args)

    async def ask(self, request: Request) -> Ask:
        """Send a request of the transport's own and wait for its outcome. A checkpoint."""
        ask = Ask(self, request, encode(request))
        self.start(ask)
        try:
            await ask.done.wait()
        finally:
            if ask.outcome is None:
                ask.give_up()
        return ask

    async def tell(self, method: str) -> McpError | None:
        """Send a notification of the transport's own; return why it was not taken, if so."""
        done = trio.Event()
        failed: list[McpError | None] = []

        def then(_: Message, error: McpError | None) -> None:
            failed.append(error)
            done.set()

        notification = Notification(method, None)
        self.start(Message(self, notification, encode(notification), then))
        await done.wait()
        return failed[0]

    def new_id(self) -> str:
        """Return an id for a request of the transport's own: the session's are numbers."""
        self._last_id += 1
        return f"http-{self._last_id}"

    # ------------------------------------------------------------ tracing

    def trace_response(self, exchange: Exchange, head: Head) -> None:
        """Tell of a response; called only where there is a tracer."""
        headers = head.headers
        fields = {"status": head.status, "content_type": headers.get("content-type")}
        given = headers.get("mcp-session-id")
        if given is not None:
            fields["session_id"] = given[:8]
        self._trace("http.response", exchange, {**fields, "headers": headers})

    def trace_end(self, exchange: Exchange) -> None:
        """Tell that a request has got its whole response, or gets none; as above."""
        self._trace("http.ended", exchange, {})

    def _trace(self, name: str, exchange: Exchange, fields: dict[str, Any]) -> None:
        assert self.tracer is not None  # noqa: S101 - whoever calls this has looked
        session_id = self.session_id
        about = {
            "session": self._label,
            "role": "client",
            "session_id": None if session_id is None else session_id[:8],
            "exchange": exchange.number,
        }
        self.tracer.event(name, {**about, **fields})
