"""Over HTTP too, a lonely caller reads its own response, and nothing else changes."""

from __future__ import annotations

from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio import Client, ClientSession, Context, Deadline, Server, connect_http, serve_http
from mcp_trio.errors import DeadlineExceeded, SessionClosed
from mcp_trio.types import Root
from tests.transports.turns import taken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio.transports.http_server import HttpServer

__all__ = ["taken"]  # a fixture

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


class Held(Server):
    """Its tools; *entered* tells of a ``hold`` at work, *ended* has how each one ended."""

    def __init__(self) -> None:
        super().__init__("turn", version="1")
        self.entered = trio.Event()
        self.ended: list[str] = []
        self.tool(echo)
        self.tool(ask)
        self.tool(self.hold)

    async def hold(self) -> str:
        """Wait for ever."""
        self.entered.set()
        try:
            await trio.sleep_forever()
        finally:
            self.ended.append("held")
        return ""


async def echo(text: str) -> str:
    """Return the text."""
    return text


async def ask(ctx: Context) -> str:
    """Ask for the roots."""
    return str((await ctx.list_roots())[0].name)


@asynccontextmanager
async def connected(
    server: Server, client: Client | None = None, **options: Any
) -> AsyncIterator[tuple[ClientSession, HttpServer]]:
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, 0, **options))
        async with connect_http(http.url, client=client) as session:
            yield session, http
        nursery.cancel_scope.cancel()


async def lead(session: ClientSession, taken: list[bytes | None]) -> None:
    for _ in range(200):
        before = len(taken)
        await session.call_tool("echo", {"text": "x"})
        if len(taken) > before:
            return
    raise AssertionError("no caller of 200 came to read its own answer")


@pytest.mark.parametrize("answers", ["json", "sse", "both"])
async def test_answers_of_any_size_and_form_arrive(taken: list[bytes | None], answers: str) -> None:
    async with connected(Held(), answers=answers) as (session, _):
        for size in (0, 1, 100, 10_000, 70_000, 300_000) * 3:
            await lead(session, taken)
            result = await session.call_tool("echo", {"text": "y" * size})
            assert result.content[0].text == "y" * size  # type: ignore[union-attr]  # text
        wrong = await session.call_tool("echo", {})
        assert wrong.is_error


async def test_the_callers_context_is_its_own(taken: list[bytes | None]) -> None:
    seen: list[str] = []
    client = Client("asked", version="1")

    @client.roots
    async def roots(_: object) -> list[Root]:
        seen.append(WHO.get())
        return [Root(uri="file:///", name="mine")]

    async with connected(Held(), client) as (session, _):
        await session.call_tool("echo", {"text": "x"})  # the connection is there
        WHO.set("the caller")
        for _ in range(3):
            await lead(session, taken)
            result = await session.call_tool("ask")
            assert result.content[0].text == "mine"  # type: ignore[union-attr]  # text
    assert seen == ["nobody"]  # they are kept


async def test_a_leader_that_is_cancelled_tells_the_server(taken: list[bytes | None]) -> None:
    server = Held()

    async def cancel_once_entered(scope: trio.CancelScope) -> None:
        await server.entered.wait()
        scope.cancel()

    async with connected(server) as (session, _):
        await lead(session, taken)
        before = len(taken)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_once_entered, nursery.cancel_scope)
            await session.call_tool("hold")
        assert nursery.cancel_scope.cancelled_caught
        assert len(taken) == before + 1
        assert taken[-1] is None
        while not server.ended:
            await session.call_tool("echo", {"text": "x"})
        assert session.statistics().abandoned == 1


async def test_a_leaders_deadline_is_kept(taken: list[bytes | None]) -> None:
    async with connected(Held()) as (session, _):
        await lead(session, taken)
        with pytest.raises(DeadlineExceeded):
            await session.call_tool("hold", deadline=Deadline(idle=0.05, cap=1))
        await lead(session, taken)


async def test_the_end_of_the_session_reaches_a_leader_under_a_shield(
    taken: list[bytes | None],
) -> None:
    leads, ended = trio.Event(), trio.Event()

    async def hold(session: ClientSession) -> None:
        await lead(session, taken)
        leads.set()
        with pytest.raises(SessionClosed), trio.CancelScope(shield=True):
            await session.call_tool("hold")
        ended.set()

    async with connected(Held()) as (session, _):
        session.session.start_soon(hold, session)
        await leads.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert taken[-1] is None
    assert ended.is_set()


async def test_a_server_that_goes_away_is_noticed_by_a_leader(taken: list[bytes | None]) -> None:
    async with connected(Held()) as (session, http):

        async def cut() -> None:
            await trio.testing.wait_all_tasks_blocked()
            for connection in list(http.connections):
                await connection.aclose()

        await lead(session, taken)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut)
            with pytest.raises(Exception, match="broke before the answer"):
                await session.call_tool("hold")
        assert taken[-1] == b""
        await lead(session, taken)
