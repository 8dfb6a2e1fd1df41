"""Opening sessions over HTTP: which transport, through which proxy, with which policy."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from mcp_trio.errors import ConnectFailed
from mcp_trio.runtime.service import hold_session
from mcp_trio.transports.http_client import HttpClientTransport
from mcp_trio.transports.http_heads import Endpoint
from mcp_trio.transports.http_proxy import proxy_from_environment, read_proxy
from mcp_trio.wire.http_client_rules import may_be_sse_pair
from mcp_trio.wire.http_hosts import origin_of

from .connect import open_peer, shake_hands

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from mcp_trio.abc import Tracer
    from mcp_trio.transports.http_client import Auth, OnSessionLost
    from mcp_trio.transports.http_proxy import Proxy
    from mcp_trio.wire.jsonrpc import Request

    from .calls import ClientSession
    from .peer import ServerPeer
    from .registry import Client

__all__ = ["open_http"]

#: What only reads, or sets what is set already.
_REPEATABLE: Final = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "tools/list",
    }
)


@asynccontextmanager
async def open_http(
    url: str,
    client: Client,
    *,
    headers: Mapping[str, str] | None,
    auth: Auth | None,
    ssl_context: ssl.SSLContext | None,
    proxy: str | None,
    transport: Literal["auto", "streamable", "sse"],
    on_session_lost: OnSessionLost,
    tracer: Tracer | None,
) -> AsyncIterator[ClientSession]:
    """Do what `mcp_trio.client.connect_http` says."""
    endpoint = Endpoint(
        url, headers=headers, ssl_context=_tls(url, ssl_context), proxy=_proxy(url, proxy)
    )
    async with AsyncExitStack() as stack:
        if transport == "sse":
            session = await stack.enter_async_context(_pair(endpoint, client, auth, tracer))
        else:
            try:
                session = await stack.enter_async_context(
                    _streamable(endpoint, client, auth, on_session_lost, tracer)
                )
            except ConnectFailed as exc:
                if transport != "auto" or exc.status is None or not may_be_sse_pair(exc.status):
                    raise
                session = await stack.enter_async_context(
                    _pair(endpoint, client, auth, tracer, exc)
                )
        yield session


def _tls(url: str, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    origin = origin_of(url)
    if origin is None or origin.scheme != "https":
        return None
    if given is not None:
        return given
    import ssl  # noqa: PLC0415 - only where it is used

    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _proxy(url: str, proxy: str | None) -> Proxy | None:
    origin = origin_of(url)
    if proxy is None or origin is None:
        return None
    return proxy_from_environment(origin, os.environ) if proxy == "env" else read_proxy(proxy)


@asynccontextmanager
async def _streamable(
    endpoint: Endpoint,
    client: Client,
    auth: Auth | None,
    on_session_lost: OnSessionLost,
    tracer: Tracer | None,
) -> AsyncIterator[ClientSession]:
    def is_repeatable(request: Request) -> bool:
        peer: ServerPeer = session.state
        if request.method == "tools/call":
            return (request.params or {}).get("name") in peer.repeatable
        return request.method in _REPEATABLE

    transport = HttpClientTransport(
        endpoint,
        client.limits,
        auth=auth,
        on_session_lost=on_session_lost,
        is_repeatable=is_repeatable,
        tracer=tracer,
    )
    session = client.open_session(transport, tracer=tracer, label=endpoint.url)
    transport.attach(session)
    async with hold_session(session):
        yield await open_peer(client, session, transport.failure, over_http=True)


@asynccontextmanager
async def _pair(
    endpoint: Endpoint,
    client: Client,
    auth: Auth | None,
    tracer: Tracer | None,
    before: ConnectFailed | None = None,
) -> AsyncIterator[ClientSession]:
    """HTTP+SSE; *before* is how Streamable HTTP was refused."""
    from mcp_trio.transports.http_sse_client import SsePairTransport  # noqa: PLC0415 - old servers

    def failed(reason: str) -> ConnectFailed:
        error: ConnectFailed = transport.failure(reason)
        if before is not None:
            reason = f"{before.reason} (Streamable HTTP); {error.reason} (HTTP+SSE)"
            error = ConnectFailed(reason, status=before.status, body=before.body)
        return error

    transport: Any = SsePairTransport(endpoint, client.limits, auth=auth, tracer=tracer)
    session = client.open_session(transport, tracer=tracer, label=endpoint.url)
    transport.attach(session)
    async with hold_session(session):
        yield await shake_hands(client, session, failed)
