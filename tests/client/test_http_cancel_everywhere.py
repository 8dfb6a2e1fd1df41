"""Cancelled at any step whatever, a session over HTTP leaves nothing behind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcp_trio import Client, Context, Limits, Server, connect_http, serve_http
from tests.client.http_sessions import text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Every k-th step is tried; the steps of two runs over sockets are not the same ones anyway.
STRIDE = 3


class Bomb(trio.abc.Instrument):
    """Cancels a scope before the k-th step of any task after it was aimed."""

    def __init__(self, k: int) -> None:
        self.left = k
        self.scope: trio.CancelScope | None = None

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel(reason="the bomb")


def descriptors() -> set[str]:
    found = set()
    for each in Path("/proc/self/fd").iterdir():
        try:
            found.add(f"{each.name} {each.readlink()}")
        except OSError:
            continue
    return {each for each in found if "socket:" in each}


def asker() -> Server:
    server = Server("asker", version="1", limits=Limits(drain=0.05))

    @server.tool
    async def ask(ctx: Context) -> str:
        await ctx.progress(1)
        roots = await ctx.list_roots()
        return roots[0].uri

    return server


async def talk(url: str) -> None:
    client = Client("c", version="1", limits=Limits(drain=0.05))

    @client.roots
    async def roots(ctx: Any) -> list[str]:
        await trio.lowlevel.checkpoint()
        return ["file:///x"]

    async with connect_http(url, client=client) as session:
        for _ in range(2):
            result = await session.call_tool("ask", progress=lambda _: None)
            assert text_of(result) == "file:///x"


async def run(k: int, scenario: Callable[[str], Awaitable[None]]) -> bool:
    """Return whether the bomb went off before the scenario was through."""
    bomb = Bomb(k)
    async with trio.open_nursery() as nursery:
        http = await nursery.start(serve_http, asker(), 0)
        trio.lowlevel.add_instrument(bomb)
        try:
            with trio.fail_after(5), trio.CancelScope() as bomb.scope:
                await scenario(http.url)
        finally:
            trio.lowlevel.remove_instrument(bomb)
        nursery.cancel_scope.cancel()
    return bomb.left <= 0


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
async def test_cancelled_anywhere_no_socket_and_no_task_is_left() -> None:
    before = descriptors()
    k = 1
    while await run(k, talk):
        assert descriptors() <= before, k
        k += STRIDE
    assert k > 30
