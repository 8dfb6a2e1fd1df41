"""Opening sessions: the transport, the handshake, and a block in which the session lives.

What every ``connect_*`` block promises: background tasks raise nothing into it; a fault of the
connection ends the session and each waiting call raises `SessionLost`; the block's own
exception leaves bare. When the block is cancelled it unwinds first, with its session alive;
then the session is closed within the bounds of ``Client.limits``.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import trio

from mcp_trio import __version__
from mcp_trio.codec import codec_for
from mcp_trio.errors import (
    ConnectFailed,
    HttpFailure,
    InvalidMessage,
    OutcomeUnknown,
    PeerError,
    ProtocolViolation,
    SessionLost,
)
from mcp_trio.runtime.keepalive import run_keep_alive
from mcp_trio.runtime.service import hold_session
from mcp_trio.types import InitializeResult

from .calls import ClientSession
from .discovery import EndedByProbe
from .registry import Client

if TYPE_CHECKING:
    import os
    import ssl
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from mcp_trio.abc import SessionFactory, Tracer, Transport
    from mcp_trio.runtime.session import Session
    from mcp_trio.transports.http_client import Auth, OnSessionLost
    from mcp_trio.transports.process import Stderr
    from mcp_trio.wire.revisions import Revision

    from .peer import ServerPeer

__all__ = [
    "connect_http",
    "connect_memory",
    "connect_stdio",
    "connect_stream",
    "connect_transport",
    "open_peer",
    "shake_hands",
]


@asynccontextmanager
async def connect_transport(
    transport: Transport,
    *,
    client: Client | None = None,
    tracer: Tracer | None = None,
    label: str = "",
    failed: Callable[[str], ConnectFailed] = ConnectFailed,
) -> AsyncIterator[ClientSession]:
    """Speak MCP over *transport* until the block is left; the transport is closed in every case.

    *failed* makes the error for a session that does not come about. A checkpoint; for the
    block see this module.

    Raises:
        ConnectFailed: the handshake failed.
    """
    client = client or _nobody()
    async with hold_session(client.open_session(transport, tracer=tracer, label=label)) as session:
        yield await open_peer(client, session, failed)


async def open_peer(
    client: Client,
    session: Session,
    failed: Callable[[str], ConnectFailed] = ConnectFailed,
    *,
    over_http: bool = False,
    probes: bool = True,
) -> ClientSession:
    """Open *session*, which runs, in the way that its server wants. A checkpoint.

    With *probes* a client that speaks revisions without a handshake asks first.

    Raises:
        ConnectFailed: made by *failed*; the server does not answer, or not as it should.
        EndedByProbe: its process ended when it was asked.
    """
    if client.envelope_revisions and probes:
        from .discovery import discover  # noqa: PLC0415 - only where it is asked for

        if await discover(client, session, failed, over_http=over_http):
            return ClientSession(session.state)
    if not client.revisions:
        raise failed("the server wants a handshake, which this client does not do")
    return await shake_hands(client, session, failed)


@asynccontextmanager
async def connect_stdio(
    command: Sequence[str],
    *,
    client: Client | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = True,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Stderr = "inherit",
    tracer: Tracer | None = None,
) -> AsyncIterator[ClientSession]:
    """Start *command* and speak MCP with it until the block is left.

    *env* comes on top of our environment, or with ``inherit_env=False`` in its place. Leaving
    closes the child's stdin, waits, and ends the child and all it started, by force if need
    be (2025-11-25 basic/lifecycle § Shutdown). A client that speaks revisions without a
    handshake asks first what the server speaks; one that ends on that is started again, and
    not asked. A checkpoint; after Cancelled there is no child.

    Raises:
        ConnectFailed: it could not be started, or the handshake failed; with the exit code
            and the end of its stderr.
    """
    from mcp_trio.transports.stdio import open_child  # noqa: PLC0415 - only where it is used

    client = client or _nobody()
    tracer = client.tracer if tracer is None else tracer

    async def start(stack: AsyncExitStack, *, probes: bool) -> ClientSession:
        transport = await open_child(
            command,
            env=env,
            inherit_env=inherit_env,
            cwd=cwd,
            stderr=stderr,
            limits=client.limits,
            tracer=tracer,
        )
        session = client.open_session(transport, tracer=tracer, label=command[0])
        await stack.enter_async_context(hold_session(session))
        return await open_peer(client, session, transport.failure, probes=probes)

    async with AsyncExitStack() as stack:
        try:
            async with AsyncExitStack() as opening:
                opened = await start(opening, probes=True)
                stack.push_async_exit(opening.pop_all())
        except EndedByProbe:  # as some servers do: start it again, and do not ask
            opened = await start(stack, probes=False)
        yield opened


@asynccontextmanager
async def connect_http(
    url: str,
    *,
    client: Client | None = None,
    headers: Mapping[str, str] | None = None,
    auth: Auth | None = None,
    ssl_context: ssl.SSLContext | None = None,
    proxy: str | None = "env",
    transport: Literal["auto", "streamable", "sse"] = "auto",
    on_session_lost: OnSessionLost = "reinitialize",
    tracer: Tracer | None = None,
) -> AsyncIterator[ClientSession]:
    """Speak MCP with the server at *url* until the block is left.

    Args:
        url: the endpoint, http or https.
        client: who we are; only a caller by default.
        headers: sent with every request, to this origin only.
        auth: ``await auth(challenge)`` returns further headers; it is asked before each
            request (None), and once more when the server answers 401 (its
            ``WWW-Authenticate``).
        ssl_context: for https, instead of the system's.
        proxy: the URL of a proxy, None for none; ``"env"`` reads ``HTTPS_PROXY``,
            ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``.
        transport: Streamable HTTP, HTTP+SSE of 2024-11-05, or the first and, where the
            server refuses it with 400, 404 or 405, the second.
        on_session_lost: what to do when the server has forgotten the session. All calls under
            way settle at once with `SessionLost`, and ``"fail"`` ends the session;
            ``"reinitialize"`` opens a new one, in which later calls go on; ``"retry"`` also
            repeats there the calls that are safe to repeat: those that only read, and tools
            that were listed as ``readOnlyHint`` or ``idempotentHint``.
        tracer: hears of each HTTP request, response and event too; the client's by default.

    Besides what `ClientSession` names, calls raise:
        HttpFailure: no connection, or an HTTP error without a JSON-RPC error.
        OutcomeUnknown: the connection broke after the request was sent, and the answer
            cannot be fetched again.

    A checkpoint; for the block see this module. Leaving ends the session on the server too,
    within ``limits.drain``. Source: 2025-11-25 basic/transports § Streamable HTTP.

    Raises:
        ConnectFailed: the handshake failed; with status and body of an HTTP error.
        ValueError: *url*, *proxy* or a header is malformed.
    """
    from .http import open_http  # noqa: PLC0415 - only where it is used

    client = client or _nobody()
    async with open_http(
        url,
        client,
        headers=headers,
        auth=auth,
        ssl_context=ssl_context,
        proxy=proxy,
        transport=transport,
        on_session_lost=on_session_lost,
        tracer=client.tracer if tracer is None else tracer,
    ) as session:
        yield session


@asynccontextmanager
async def connect_stream(
    stream: trio.abc.Stream, *, client: Client | None = None, tracer: Tracer | None = None
) -> AsyncIterator[ClientSession]:
    """Speak newline-delimited JSON over any trio stream until the block is left.

    The stream is closed in every case. A checkpoint; for the block see this module.

    Raises:
        ConnectFailed: the handshake failed.
    """
    from mcp_trio.transports.pipe import (  # noqa: PLC0415 - only where it is used
        PipeTransport,
        StreamBytes,
    )

    client = client or _nobody()
    transport = PipeTransport(StreamBytes(stream), client.limits)
    async with connect_transport(transport, client=client, tracer=tracer) as session:
        yield session


@asynccontextmanager
async def connect_memory(
    server: SessionFactory,
    *,
    client: Client | None = None,
    typed: bool = True,
    tracer: Tracer | None = None,
) -> AsyncIterator[ClientSession]:
    """Serve *server* in this process and speak MCP with it until the block is left.

    Messages cross as objects; with ``typed=False`` as bytes, as they would on a pipe. A
    checkpoint; for the block see this module.

    Raises:
        ConnectFailed: the handshake failed.
    """
    from mcp_trio.transports.memory import (  # noqa: PLC0415 - only where it is used
        byte_pair,
        memory_pair,
    )

    client = client or _nobody()
    ours, theirs = memory_pair() if typed else byte_pair(client.limits)
    async with (
        server.running(),
        hold_session(server.open_session(theirs, tracer=tracer, label="memory")),
        connect_transport(ours, client=client, tracer=tracer, label="memory") as session,
    ):
        yield session


def _nobody() -> Client:
    """Return the client of those who only want to call."""
    return Client("mcp-trio", version=__version__)


async def shake_hands(
    client: Client, session: Session, failed: Callable[[str], ConnectFailed] = ConnectFailed
) -> ClientSession:
    """Open *session*, which runs: ``initialize``, then ``notifications/initialized``.

    Offers the newest revision the client speaks and takes whichever of its revisions the
    server answers. A checkpoint; after Cancelled nothing more is sent: ``initialize`` is never
    cancelled on the wire. Source: 2025-11-25 basic/lifecycle § Initialization.

    Raises:
        ConnectFailed: made by *failed*; the server does not answer, or not as it should.
    """
    raw = await _initialize(client, session, failed)
    revision = _agreed(client, raw, failed)
    try:
        result = codec_for(revision.version).structure(raw, InitializeResult)
    except InvalidMessage as exc:
        raise failed(f"the server's answer to initialize: {exc}") from exc
    peer: ServerPeer = session.state
    session.opened(revision)
    peer.introduce(result, raw["capabilities"])
    try:
        session.notify_nowait("notifications/initialized")
        if client.keep_alive is not None:
            session.start_soon(run_keep_alive, session, client.keep_alive)
    except SessionLost as exc:
        raise failed(f"the session ended as it began: {exc.reason}") from exc
    return ClientSession(peer)


async def _initialize(
    client: Client, session: Session, failed: Callable[[str], ConnectFailed]
) -> dict[str, Any]:
    codec = codec_for(client.offered.version)
    params = {
        "protocolVersion": client.offered.version,
        "capabilities": codec.unstructure(client.capabilities()),
        "clientInfo": codec.unstructure(client.implementation()),
    }
    patience = client.patience
    with trio.move_on_after(patience):
        try:
            return await session.call("initialize", params)
        except PeerError as exc:
            raise failed(f"the server refused initialize: {exc}") from exc
        except SessionLost as exc:  # *failed* itself knows of the exit code and the stderr
            raise failed(f"the server did not answer initialize: {exc.reason}") from exc
        except HttpFailure as exc:
            raise failed(f"the server did not answer initialize: {exc.reason}") from exc
        except (ProtocolViolation, OutcomeUnknown) as exc:
            raise failed(f"the server did not answer initialize: {exc}") from exc
    raise failed(f"the server did not answer initialize within {patience:g} s")


def _agreed(
    client: Client, raw: dict[str, Any], failed: Callable[[str], ConnectFailed]
) -> Revision:
    answered = raw.get("protocolVersion")
    for revision in client.revisions:
        if revision.version == answered:
            return revision
    ours = ", ".join(revision.version for revision in client.revisions)
    raise failed(f"the server wants to speak revision {answered!r:.80}; this client speaks {ours}")
