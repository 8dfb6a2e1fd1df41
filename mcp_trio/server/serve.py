"""Serving a `Server`: the ``serve_*`` functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from mcp_trio.transports.pipe import PipeTransport, StreamBytes

if TYPE_CHECKING:
    from mcp_trio.abc import Tracer, Transport
    from mcp_trio.runtime.session import Session

    from .registry import Server

__all__ = ["serve_stdio", "serve_stream", "serve_transport"]


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
