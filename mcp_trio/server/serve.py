"""Serving a `Server`: the ``serve_*`` functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from mcp_trio.transports.pipe import PipeTransport, StreamBytes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any, Literal

    from mcp_trio.abc import EventStore, Tracer, Transport
    from mcp_trio.runtime.session import Session
    from mcp_trio.transports.http_server import HttpServer
    from mcp_trio.wire.http_head import RequestHead

    from .registry import Server

__all__ = ["serve_http", "serve_stdio", "serve_stream", "serve_transport"]


async def serve_transport(  # noqa: ASYNC128 - started() is called by Session.run
    server: Server,
    transport: Transport,
    *,
    tracer: Tracer | None = None,
    label: str = "",
    task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve one session over *transport* until its peer ends it, or this task is cancelled.

    ``started()`` hands over the session. The transport is closed in every case. What the
    server's lifespan raises is raised here. A checkpoint; after Cancelled the session has
    ended and its handlers have unwound.
    """
    try:
        async with server.running():
            session = server.open_session(transport, tracer=tracer, label=label)
            await session.run(task_status=task_status)
    finally:
        with trio.CancelScope(shield=True):  # closing is at once, also where no session began
            await transport.aclose()


async def serve_stream(  # noqa: ASYNC128 - started() is called by Session.run
    server: Server,
    stream: trio.abc.Stream,
    *,
    tracer: Tracer | None = None,
    label: str = "",
    task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve one session of newline-delimited JSON over any trio stream; see `serve_transport`."""
    transport = PipeTransport(StreamBytes(stream), server.limits)
    await serve_transport(server, transport, tracer=tracer, label=label, task_status=task_status)


async def serve_stdio(  # noqa: ASYNC128 - started() is called by Session.run
    server: Server,
    *,
    tracer: Tracer | None = None,
    task_status: trio.TaskStatus[Session] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve this process's stdin and stdout until stdin ends or the parent process dies.

    While it serves, fd 0 is ``/dev/null`` and fd 1 is stderr, so neither ``print`` nor a
    child process can touch the protocol; both are restored afterwards. A checkpoint.
    Source: 2025-11-25 basic/transports § stdio.
    """
    from mcp_trio.transports.stdio import own_stdio  # noqa: PLC0415 - only where it is used

    with own_stdio(server.limits) as transport:
        await serve_transport(
            server, transport, tracer=tracer, label="stdio", task_status=task_status
        )


async def serve_http(  # noqa: ASYNC128 - started() is called by HttpServer.run
    server: Server,
    port: int = 0,
    host: str = "127.0.0.1",
    path: str = "/mcp",
    *,
    listeners: Sequence[trio.abc.Listener[Any]] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    store: EventStore | None = None,
    answers: Literal["json", "sse", "both"] = "both",
    stateless: bool = False,
    standing_stream: bool = True,
    allowed_hosts: Sequence[str] = (),
    allowed_origins: Sequence[str] = (),
    cors: bool = False,
    authenticate: Callable[[RequestHead], Awaitable[Any]] | None = None,
    sse_path: str | None = None,
    tracer: Tracer | None = None,
    task_status: trio.TaskStatus[HttpServer] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve Streamable HTTP on *port* of *host* until cancelled.

    ``started()`` hands over an object with ``url`` (the real one, for port 0),
    ``stop_accepting()`` and ``wait_drained()``.

    Args:
        server: what is served.
        port: where; 0 is one that is free.
        host: the address to bind to; a loopback one by default.
        path: the endpoint's path, served with and without a slash at its end.
        listeners: serve these instead of opening *port*; they are closed at the end.
        ssl_context: serve HTTPS with it.
        store: keeps events, so that a client that lost its connection can resume.
        answers: what to answer with, where the client takes both: event streams only where
            there is more to say than the result (``"both"``), never, or always.
        stateless: no session ids; each request stands for itself and can ask nothing.
        standing_stream: offer GET, for what the server says unasked.
        allowed_hosts: names under which it may be asked, besides this machine's.
        allowed_origins: whose pages may ask: ``"https://app.example.com"``, or ``"*"``.
        tracer: told of every message, request and event.
        task_status: ``started()`` hands over the server.
        cors: let pages of *allowed_origins* read the answers.
        authenticate: names the principal of a request, as text; a session is its opener's
            alone. It may raise `mcp_trio.errors.Refusal`, which is answered with 401. What it
            sets in context variables is seen by this request's handler only.
        sse_path: serve HTTP+SSE too, of 2024-11-05, with its event stream there: ``"/sse"``.

    Raises:
        OSError: the address cannot be had.
        ValueError: an entry of *allowed_hosts* or *allowed_origins* is malformed.

    A checkpoint. On cancellation each request under way gets an error within
    ``limits.drain``. Source: 2025-11-25 basic/transports § Streamable HTTP.
    """
    from mcp_trio.transports.http_server import HttpServer, open_listeners  # noqa: PLC0415 - lazy
    from mcp_trio.wire.http_hosts import is_loopback  # noqa: PLC0415 - as above
    from mcp_trio.wire.http_policy import HttpPolicy  # noqa: PLC0415 - as above
    from mcp_trio.wire.media import Accepts  # noqa: PLC0415 - as above

    limits = server.limits
    policy = HttpPolicy(
        paths=(path.rstrip("/") or "/", path.rstrip("/") + "/"),
        loopback=is_loopback(host) and listeners is None,
        allowed_hosts=tuple(allowed_hosts),
        allowed_origins=tuple(allowed_origins),
        cors=cors,
        body_bytes=limits.message_bytes,
        batch=limits.batch,
        stateless=stateless,
        get_stream=standing_stream,
        answers=Accepts(json=answers != "sse", sse=answers != "json"),
        revisions=server.revisions,
        envelopes=server.envelope_revisions,
    )
    http = HttpServer(
        server,
        policy,
        limits,
        store=store,
        authenticate=authenticate,
        tracer=tracer,
        sse_path=sse_path,
    )
    if listeners is None:
        listeners = await open_listeners(port, host, ssl_context)
    await http.run(listeners, task_status=task_status)
