"""The client of HTTP+SSE (2024-11-05), and when it is fallen back to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio import (
    Client,
    ClientSession,
    ConnectFailed,
    HttpFailure,
    Limits,
    SessionLost,
    connect_http,
)
from mcp_trio.wire.revisions import LEGACY
from tests.client.http_sessions import text_of
from tests.client.raw_http import INFO, RawServer, Received, raw_server
from tests.client.scripted import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

OLDEST = LEGACY[0].version


async def open_stream(server: RawServer, endpoint: str = "/messages?id=1") -> Received:
    get = await server.next("GET")
    assert get.headers["accept"] == "text/event-stream"
    await get.stream_begins()
    await get.chunk(f"event: endpoint\ndata: {endpoint}\n\n".encode())
    return get


async def shake_hands(server: RawServer, endpoint: str = "/messages?id=1") -> Received:
    get = await open_stream(server, endpoint)
    opening = await server.next("initialize")
    assert opening.target == "/messages?id=1"
    await opening.accept()
    await get.event(
        opening.answer(
            {"protocolVersion": OLDEST, "capabilities": {"tools": {}}, "serverInfo": INFO}
        )
    )
    await (await server.next("notifications/initialized")).accept()
    return get


@asynccontextmanager
async def pair(
    client: Client | None = None, **options: Any
) -> AsyncIterator[tuple[ClientSession, RawServer, Received]]:
    """A session over HTTP+SSE, its server, and its stream."""
    with trio.fail_after(10):
        async with raw_server() as server, trio.open_nursery() as nursery:
            hands = Outcome(nursery, lambda: shake_hands(server))
            async with connect_http(
                server.url, client=client, transport="sse", proxy=None, **options
            ) as session:
                yield session, server, await hands.wait()


async def test_a_session_over_the_pair() -> None:
    """Everything comes on the one stream, everything goes by POST to the endpoint it names."""
    client = Client("c", version="1", roots=["file:///x"])
    async with pair(client) as (session, server, get), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        assert (request.method, request.target) == ("POST", "/messages?id=1")
        assert "mcp-session-id" not in request.headers
        await request.accept()
        await get.event({"jsonrpc": "2.0", "id": "r", "method": "roots/list"})
        answer = await server.next("answer")
        assert answer.message["result"] == {"roots": [{"uri": "file:///x"}]}
        await answer.accept()
        await get.event(request.answer({"content": [{"type": "text", "text": "hi"}]}))
        assert text_of(await call.wait()) == "hi"
        assert session.revision.version == OLDEST


async def test_the_answer_may_come_before_the_post_is_accepted() -> None:
    async with pair() as (session, server, get), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await get.event(request.answer({"content": []}))
        await call.wait()
        await request.accept()


async def test_a_post_that_is_refused_fails_its_call() -> None:
    async with pair() as (session, server, _), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        await (await server.next("tools/call")).respond(500, b"oops", content="text/plain")
        with pytest.raises(HttpFailure, match="oops"):
            await call.wait()


@pytest.mark.parametrize("how", ["close", "reset", "stream_ends"])
async def test_the_session_ends_with_its_stream(how: str) -> None:
    async with pair() as (session, server, get), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        await (await server.next("tools/call")).accept()
        await getattr(get, how)()
        with pytest.raises(SessionLost, match="stream"):
            await call.wait()
        with pytest.raises(SessionLost):
            await session.ping()


async def test_a_cancelled_call_is_told() -> None:
    async with pair() as (session, server, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "t")
            request = await server.next("tools/call")
            await request.accept()
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        cancelled = await server.next("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == request.message["id"]
        await cancelled.accept()


async def opened(url: str, **options: Any) -> ClientSession:
    client = Client("c", version="1", limits=Limits(drain=0.05))
    async with connect_http(url, client=client, proxy=None, **options) as session:
        return session


@pytest.mark.parametrize(
    "endpoint", ["http://evil.example/m", "//evil.example/m", "a b", "https://127.0.0.1/m"]
)
async def test_the_endpoint_must_be_of_the_same_origin(endpoint: str) -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opening = Outcome(nursery, lambda: opened(server.url, transport="sse"))
        await open_stream(server, endpoint)
        with pytest.raises(ConnectFailed, match="endpoint"):
            await opening.wait()
        assert server.waiting() == []
        nursery.cancel_scope.cancel()


async def test_the_first_event_must_name_the_endpoint() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opening = Outcome(nursery, lambda: opened(server.url, transport="sse"))
        get = await server.next("GET")
        await get.stream_begins()
        await get.event({"jsonrpc": "2.0", "method": "x"})
        with pytest.raises(ConnectFailed, match="endpoint"):
            await opening.wait()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_a_server_of_the_pair_is_found_by_itself(status: int) -> None:
    """2025-11-25 basic/transports § Backwards Compatibility."""
    async with raw_server() as server, trio.open_nursery() as nursery:
        opening = Outcome(nursery, lambda: opened(server.url))
        await (await server.next("initialize")).respond(status)
        await shake_hands(server)
        session = await opening.wait()
        assert session.revision.version == OLDEST
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("status", [401, 403, 500])
async def test_other_refusals_are_no_search_for_the_pair(status: int) -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opening = Outcome(nursery, lambda: opened(server.url))
        await (await server.next("initialize")).respond(status)
        with pytest.raises(ConnectFailed) as caught:
            await opening.wait()
        assert caught.value.status == status
        assert server.waiting() == []
        nursery.cancel_scope.cancel()


async def test_a_server_that_is_neither() -> None:
    """The error tells of both attempts."""
    async with raw_server() as server, trio.open_nursery() as nursery:
        opening = Outcome(nursery, lambda: opened(server.url))
        await (await server.next("initialize")).respond(404, b"nothing here", content="text/plain")
        await (await server.next("GET")).respond(405)
        with pytest.raises(ConnectFailed, match=r"Streamable HTTP.*HTTP\+SSE") as caught:
            await opening.wait()
        assert (caught.value.status, caught.value.body) == (404, "nothing here")
        nursery.cancel_scope.cancel()


async def test_the_choice_of_a_transport_is_final() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opening = Outcome(nursery, lambda: opened(server.url, transport="streamable"))
        await (await server.next("initialize")).respond(404)
        with pytest.raises(ConnectFailed):
            await opening.wait()
        assert server.waiting() == []
        nursery.cancel_scope.cancel()
