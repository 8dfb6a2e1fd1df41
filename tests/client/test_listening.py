"""Listening to a server, on revisions that have a request for it and on those that do not."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcp_trio import (
    CapabilityMissing,
    Client,
    Context,
    PeerError,
    Server,
    connect_http,
    connect_memory,
    serve_http,
)
from mcp_trio.client.listening import Change
from mcp_trio.wire.revisions import ENVELOPED, REVISIONS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio import ClientSession

VERSIONS = list(REVISIONS)
MODERN = ENVELOPED[-1].version
URI = "memo://one"


def a_server() -> Server:
    server = Server("listened", version="1", revisions=VERSIONS)

    @server.tool
    async def change(ctx: Context) -> str:
        """Change the tools, and a resource, several times."""
        for _ in range(3):
            server.tool(passing)
            server.remove_tool("passing")
            server.resource_updated(URI)
        return "changed"

    @server.resource(URI)
    async def memo() -> str:
        """A memo."""
        return "x"

    return server


async def passing() -> str:
    """Pass by."""
    return ""


@asynccontextmanager
async def connected(server: Server, version: str, *, http: bool) -> AsyncIterator[ClientSession]:
    client = Client("listener", version="1", revisions=[version])
    if not http:
        async with connect_memory(server, client=client, typed=False) as session:
            yield session
        return
    async with trio.open_nursery() as nursery:
        running = await nursery.start(partial(serve_http, server, 0))
        async with connect_http(running.url, client=client) as session:
            yield session
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("http", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
async def test_changes_are_heard_once_each_on_every_revision(version: str, *, http: bool) -> None:
    async with connected(a_server(), version, http=http) as session:
        await session.list_tools().all()  # over HTTP the standing stream is open by now
        async with session.listen(tools=True, uris=[URI]) as listening:
            with trio.fail_after(5):
                await session.call_tool("change")
                heard = {await listening.__anext__(), await listening.__anext__()}
        assert heard == {Change("tools"), Change("resource", URI)}
        if version == MODERN:
            assert listening.honoured == {"toolsListChanged": True, "resourceSubscriptions": [URI]}
        else:
            assert listening.honoured is None


@pytest.mark.parametrize("version", VERSIONS)
async def test_what_is_not_listened_to_is_not_heard(
    version: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        connected(a_server(), version, http=False) as session,
        session.listen(uris=[URI]) as listening,
    ):
        await session.call_tool("change")
        assert await listening.__anext__() == Change("resource", URI)
        with trio.move_on_after(0.2) as patience:
            await listening.__anext__()
        assert patience.cancelled_caught


@pytest.mark.parametrize("version", VERSIONS)
async def test_nothing_is_left_behind(version: str, autojump_clock: trio.testing.MockClock) -> None:
    """Neither a request in flight nor a subscription, however the block is left."""
    server = a_server()
    async with connected(server, version, http=False) as session:
        with pytest.raises(ZeroDivisionError):
            async with session.listen(tools=True, uris=[URI]):
                raise ZeroDivisionError
        with trio.move_on_after(0.05):
            async with session.listen(tools=True, uris=[URI]):
                await trio.sleep_forever()
        await session.call_tool("change")
        await trio.testing.wait_all_tasks_blocked()
        assert session.calls() == ()
        (served,) = server.sessions()
        assert served.calls() == ()
        assert served.state is None or not served.state.subscriptions


async def test_the_end_of_the_servers_side_ends_the_iteration() -> None:
    server = a_server()
    async with connected(server, MODERN, http=False) as session:
        async with session.listen(tools=True) as listening:
            server.end_listening()
            assert [change async for change in listening] == []
        await session.call_tool("change")


async def test_a_refusal_is_raised_where_the_block_would_begin() -> None:
    server = a_server()
    async with connected(server, MODERN, http=False) as session:
        with pytest.raises(PeerError, match="at most"):
            async with session.listen(uris=[f"memo://{n}" for n in range(2_000)]):
                raise AssertionError("not reached")
    async with connected(Server("bare", version="1"), VERSIONS[0], http=False) as session:
        with pytest.raises(CapabilityMissing):
            async with session.listen(uris=[URI]):
                raise AssertionError("not reached")
