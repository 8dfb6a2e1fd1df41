"""What a user of mcp_trio may implement, and what the rooms promise each other.

A *transport* is one duplex pipe of messages and owns its bytes; a *route* is where the
messages of one request go; an *endpoint* is what a session serves. The session stands
between them and knows none of their insides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractAsyncContextManager

__all__ = ["ByteStream", "Deliver", "Endpoint", "Route", "SessionFactory", "Tracer", "Transport"]

Deliver: TypeAlias = "Callable[[Any, Route], None]"


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


class Transport(Protocol):
    """One duplex pipe of messages, run by the session that owns it."""

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

    async def run_writer(self) -> None:
        """Write what is queued, until cancelled.

        Raises:
            OSError, trio.BrokenResourceError: the pipe broke.
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


class Tracer(Protocol):
    """Receives events of the engine. It is called synchronously and must neither block nor raise.

    Event names are stable: ``session.opened``, ``session.closed``, ``message.sent``,
    ``message.received``, ``message.malformed``, ``line.skipped``, ``call.opened``,
    ``call.abandoned``, ``request.settled``.
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
