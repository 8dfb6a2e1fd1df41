"""What a user of mcp_trio may implement, and what the rooms promise each other.

A *transport* is one duplex pipe of messages and owns its bytes; a *route* is where the
messages of one request go; an *endpoint* is what a session serves. The session stands
between them and knows none of their insides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Sequence
    from contextlib import AbstractAsyncContextManager

__all__ = [
    "ByteStream",
    "Deliver",
    "Endpoint",
    "EnvelopeEndpoint",
    "EventStore",
    "EventStoreStatistics",
    "ExchangeFactory",
    "Lead",
    "Route",
    "SessionFactory",
    "SessionRecord",
    "StoredEvent",
    "Tail",
    "Tracer",
    "Transport",
]

Deliver: TypeAlias = "Callable[[Any, Route], None]"
Lead: TypeAlias = "Callable[[Any], Awaitable[Any]]"


class Route(Protocol):
    """Where messages go: the one pipe on stdio, an open HTTP response elsewhere.

    One task writes to what lies behind it; everybody else queues.
    """

    @property
    def full(self) -> bool:
        """True while handlers should wait for room before they send more."""
        ...

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:
        """Queue *message* and return its ticket; with *eager*, try to write it at once.

        Never blocks and never refuses for want of room: what must not be lost (answers,
        cancellations) is bounded by the requests in flight, the rest asks `full` first.

        Raises:
            mcp_trio.wire.jsonrpc.Unencodable: nothing was queued.
        """
        ...

    def unsend(self, ticket: int) -> bool:
        """Take a queued message back; false where any byte of it has been written."""
        ...

    async def wait_room(self) -> None:
        """Wait until `full` is false. A cancel point; nothing is held after Cancelled."""
        ...

    def skip(self) -> None:
        """A request that came on this route gets no answer: its sender cancelled it."""
        ...

    def hang_up(self) -> bool:
        """End the open response, where what is still to come can be fetched later.

        False where there is nothing to end; then nothing has changed.
        """
        ...


class Transport(Protocol):
    """One duplex pipe of messages, run by the session that owns it.

    A transport may have a method ``lead`` besides (a `Lead`): it is awaited by the caller of
    the only call outstanding, with that call, and returns its answer if it could read it in
    the reader's place, None otherwise. It sets ``call.wake`` while it waits, and returns when
    that is called.
    """

    @property
    def route(self) -> Route:
        """The session-level route."""
        ...

    async def run_reader(self, deliver: Deliver) -> None:
        """Call *deliver* for everything that arrives; return at the peer's end of stream.

        Raises:
            OSError, trio.BrokenResourceError: the pipe broke.
            mcp_trio.errors.SessionLost: the peer went away in a way worth describing.
        """
        ...

    @property
    def run_writer(self) -> Callable[[], Awaitable[None]] | None:
        """A coroutine function that writes what is queued until it is cancelled, if one is needed.

        It raises ``OSError`` or ``trio.BrokenResourceError`` when the pipe breaks. None where
        others write, as on HTTP.
        """
        ...

    async def drain(self) -> None:
        """Wait until everything queued has been written."""
        ...

    async def aclose(self) -> None:
        """Close both directions, within the bounds of the transport's `Limits`. Idempotent."""
        ...


class ByteStream(Protocol):
    """A duplex byte stream, as the pipe transport wants it."""

    async def receive(self) -> bytes:
        """Return the next bytes, ``b""`` at the end of the stream. A cancel point."""
        ...

    def send_nowait(self, data: bytes) -> int:
        """Return how many bytes of *data* were taken without waiting; 0 is always allowed."""
        ...

    async def send(self, data: bytes | memoryview) -> None:
        """Write all of *data*. After Cancelled the stream cannot be written any more."""
        ...

    async def aclose(self) -> None:
        """Close both directions. Idempotent, bounded."""
        ...


class Endpoint(Protocol):
    """What a session serves: the server face or the client face."""

    def initialize(self, session: Any, params: dict[str, Any]) -> dict[str, Any]:
        """Answer ``initialize`` (server role); a plain function, since nothing may overtake it."""
        ...

    async def handle_request(self, serving: Any, message: Any) -> dict[str, Any]:
        """Serve one request of the peer and return its raw result."""
        ...

    def handle_notification(self, session: Any, message: Any) -> None:
        """Take one user-visible notification; must not block."""
        ...


class SessionFactory(Protocol):
    """Serves sessions over whatever transport it is given: a server, seen from a door."""

    def open_session(
        self, transport: Transport, *, tracer: Tracer | None = None, label: str = ""
    ) -> Any:
        """Return the server's side of a session over *transport*, for its owner to run."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Hold what the sessions share (a lifespan) while the block runs."""
        ...


class ExchangeFactory(SessionFactory, Protocol):
    """A server that can also serve requests which belong to no session."""

    def open_exchange(
        self,
        route: Route,
        revision: Any,
        nursery: Any,
        *,
        tracer: Tracer | None = None,
        label: str = "",
    ) -> Any:
        """Return an exchange for one request that stands for itself; it runs in *nursery*."""
        ...

    def open_envelope(
        self,
        route: Route,
        nursery: Any,
        *,
        principal: Any,
        head: Any,
        tracer: Tracer | None = None,
    ) -> Any:
        """Return an exchange for one request that carries an envelope, from *principal*.

        *head* is that of its HTTP request.
        """
        ...

    def end_listening(self) -> None:
        """Let requests that only listen come to their regular end: serving stops."""
        ...


class EnvelopeEndpoint(Endpoint, Protocol):
    """What serves requests that stand for themselves, each in an exchange of its own."""

    @property
    def methods(self) -> Container[str]:
        """The methods that are such requests even without an envelope, which is an error."""
        ...


class Tracer(Protocol):
    """Receives events of the engine. It is called synchronously and must neither block nor raise.

    Event names are stable: ``session.opened``, ``session.closed``, ``message.sent``,
    ``message.received``, ``message.malformed``, ``line.skipped``, ``call.opened``,
    ``call.abandoned``, ``request.settled``; over HTTP also ``http.request``,
    ``http.response``, ``http.ended`` (all of a response, or the end of waiting for one) and
    ``sse.event``, with the number of the request as ``exchange``, the start of the session id
    and, as ``body``, the message that a request or an event carries.
    """

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """Take the event *name* with its *fields*."""
        ...


class Middleware(Protocol):
    """Wraps the handling of requests: ``await call_next(ctx, request)`` goes on inwards."""

    async def __call__(self, ctx: Any, request: Any, call_next: Any, /) -> Any:
        """Handle *request*, usually by calling *call_next*."""
        ...


Command: TypeAlias = "Sequence[str]"


@final
@frozen(kw_only=True)
class SessionRecord:
    """What must be known of a session to serve its streams after a restart."""

    revision: str
    principal: str | None = None


@final
@frozen
class StoredEvent:
    """Event number *n* of a stream, and its data exactly as it was sent."""

    n: int
    data: bytes


@final
@frozen
class Tail:
    """The rest of a stream. Where it is *finished*, nothing will ever come after it."""

    events: tuple[StoredEvent, ...]
    finished: bool


@final
@frozen(kw_only=True)
class EventStoreStatistics:
    """What a store holds now. *bytes* counts against ``Limits.event_bytes_total``."""

    sessions: int
    streams: int
    events: int
    bytes: int


class EventStore(Protocol):
    """Keeps the events of HTTP streams, so that a client can fetch what a cut took from it.

    The rules: a session's streams are its own; an append is all or nothing; a tail has no
    holes; and what a store drops for want of room or time is decided by
    `mcp_trio.stores.bounds`, whose text is part of this contract. The kit
    `mcp_trio.testing.stores` shows whether a store keeps them.

    Each method is a cancel point at its start and does nothing if it is cancelled there; once
    it has begun it takes effect as a whole. Any session, stream or event number may be asked
    for, by anybody: only text that equals a name, and a number below it, may find anything.

    Every method can raise `mcp_trio.errors.StoreUnusable`, and after `aclose`
    ``trio.ClosedResourceError``. Source: 2025-11-25 basic/transports § Resumability and
    Redelivery.
    """

    async def open_session(self, session: str, record: SessionRecord) -> None:
        """Remember *session*, from now on or still. A checkpoint.

        Raises:
            ValueError: *session* is known with another record; nothing has changed.
        """
        ...

    async def session(self, session: str) -> SessionRecord | None:
        """Return what is known of *session*, None where it is unknown. A checkpoint."""
        ...

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        """Add *events* to the end of *stream*, which begins with its first append.

        Numbers increase but need not be adjacent. Events up to the last number stored are
        there already and are skipped, so an append may be repeated. A cancel point, and a
        full checkpoint at least every millisecond. After Cancelled nothing was added.

        Raises:
            UnknownStream: *session* is unknown (a late append does not bring it back).
            ValueError: the numbers do not increase from 1 or more, or something new would
                follow the end of a finished stream; nothing was added.
        """
        ...

    async def finish(self, session: str, stream: str) -> None:
        """Note that nothing more will come; the response is among the events. A checkpoint.

        Idempotent.

        Raises:
            UnknownStream: *session* has no such stream.
        """
        ...

    async def read(self, session: str, stream: str, after: int) -> Tail:
        """Return everything of *stream* that came after event *after*. A checkpoint.

        Raises:
            UnknownStream: *session* has no such stream, or it has not come to *after* yet.
            EventsExpired: something after *after* has been dropped.
        """
        ...

    async def forget_session(self, session: str) -> None:
        """Drop *session* and all its streams, if it is known. A checkpoint."""
        ...

    async def statistics(self) -> EventStoreStatistics:
        """Count what is held now. A checkpoint."""
        ...

    async def aclose(self) -> None:
        """Let go of what the store holds open. Idempotent. A checkpoint.

        The store is closed even if this is cancelled.
        """
        ...
