"""A session to record, on a clock that nothing but its sleeps moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from mcp_trio import Accepted, Client, Context, Server, connect_memory
from mcp_trio.trace.record import Recorder, Recording

if TYPE_CHECKING:
    from mcp_trio.abc import Tracer
    from mcp_trio.client import ClientContext, Elicitation

FORM = {"type": "object", "properties": {"ok": {"type": "boolean"}}}


class OneSide:
    """Passes on the events of one side."""

    def __init__(self, recorder: Recorder, role: str) -> None:
        self._recorder = recorder
        self._role = role

    def event(self, name: str, fields: dict[str, Any]) -> None:
        if fields["role"] == self._role:
            self._recorder.event(name, fields)


def make_server() -> Server:
    server = Server("diner", version="2")

    @server.tool
    async def order(ctx: Context, dish: str, wait: float = 0) -> str:
        await ctx.progress(0.5, message="asking")
        await trio.sleep(wait)
        answer = await ctx.elicit(FORM, f"{dish}?")
        await ctx.log("info", {"dish": dish})
        return f"{dish}: {type(answer).__name__}"

    @server.tool
    async def menu() -> list[str]:
        return ["soup", "fish"]

    return server


def make_client() -> Client:
    client = Client("guest", version="3")

    @client.elicitation
    async def ask(ctx: ClientContext, question: Elicitation) -> Accepted[dict[str, Any]]:
        if question.message == "soup?":
            await ctx.session.call_tool("menu")  # which comes from the question
        if question.message == "fish?":
            await trio.sleep_forever()
        return Accepted({"ok": True})

    return client


async def dine(*, typed: bool = False, side: str | None = None) -> Recording:
    """Two calls at once, each with a question; one is answered, the other call is cancelled."""
    recorder = Recorder()
    tracer: Tracer = recorder if side is None else OneSide(recorder, side)
    async with connect_memory(
        make_server(), client=make_client(), typed=typed, tracer=tracer
    ) as session:
        with trio.move_on_after(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(order, session, "fish", 1.0)
                await trio.sleep(0.5)
                await order(session, "soup", 1.0)
        await trio.sleep(0.25)
        await session.ping()
    return recorder.recording()


async def order(session: Any, dish: str, wait: float) -> None:
    await session.call_tool("order", {"dish": dish, "wait": wait}, progress=lambda _: None)
