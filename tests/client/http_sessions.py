"""Sessions of our client with a server that a test plays by hand."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio

from mcp_trio import connect_http
from tests.client.raw_http import RawServer, raw_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio import ClientSession


def text_of(result: Any) -> str:
    """The text of a tool's result, which has to be one."""
    (content,) = result.content
    text: str = content.text
    return text


@asynccontextmanager
async def session_of(
    server: RawServer, *, hands: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[ClientSession]:
    """A session that is open; its DELETE is answered."""
    options.setdefault("proxy", None)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(server.shake_hands, **(hands or {})))
            async with connect_http(server.url, **options) as session:
                await server.shaken.wait()
                try:
                    yield session
                finally:
                    nursery.start_soon(server.end_session)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def raw_session(
    *, hands: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[ClientSession, RawServer]]:
    """A server, and a session with it."""
    async with raw_server() as server, session_of(server, hands=hands, **options) as session:
        yield session, server
