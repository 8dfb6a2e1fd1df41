"""Our server at all revisions, for clients that are not ours and speak 2026-07-28.

usage: python -m tests.interop.modern --stdio | --http PORT

Over HTTP it prints its URL; port 0 is one that is free.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import Any

import trio
from attrs import frozen

from mcp_trio import Accepted, Context, Declined, Limits, Server, serve_http, serve_stdio
from mcp_trio.types import PromptMessage, TextContent
from mcp_trio.wire.revisions import REVISIONS

server = Server(
    "modern",
    version="1.0",
    revisions=[*REVISIONS],
    limits=Limits(debounce=0.01),
    page_size=5,
)
#: By the tool and by who calls it: runs of the handler that have not come to a result yet.
runs: Counter[tuple[str, str]] = Counter()
#: By who called: calls of `hold` that were cancelled.
given_up: Counter[str] = Counter()


@frozen
class Sum:
    total: int
    parts: tuple[int, ...]


@frozen
class Person:
    name: str


@frozen
class Age:
    age: int


# ---------------------------------------------------------------- plain tools


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(a + b, (a, b))


@server.tool
async def steps(ctx: Context, n: int) -> str:
    """Report progress n times, a while apart."""
    for step in range(1, n + 1):
        await ctx.progress(step, total=n, message=f"step {step}")
        await trio.sleep(0.02)  # see ``server.progress``
    return "done"


@server.tool
async def log(ctx: Context, level: str, text: str) -> str:
    """Log one message."""
    await ctx.log(level, {"text": text}, logger="interop")
    return level


# ---------------------------------------------------------------- tools that ask


@server.tool
async def ask(ctx: Context) -> dict[str, Any]:
    """Ask the user for a name."""
    answer = await ctx.elicit(Person, "Who are you?")
    if isinstance(answer, Accepted):
        return {"action": "accept", "name": answer.content.name}
    return {"action": "decline" if isinstance(answer, Declined) else "cancel"}


@server.tool
async def ask_model(ctx: Context, prompt: str) -> str:
    """Ask the model."""
    answer = await ctx.sample(prompt, 100)
    assert isinstance(answer.content, TextContent)
    return f"{answer.model}: {answer.content.text}"


@server.tool
async def ask_both(ctx: Context, who: str) -> dict[str, Any]:
    """Ask the user and the model at once; tell how often this ran for that."""
    runs["ask_both", who] += 1
    found: dict[str, Any] = {}

    async def person() -> None:
        found["name"] = await _name(ctx)

    async def poem() -> None:
        found["said"] = await ask_model(ctx, "a poem")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(person)
        nursery.start_soon(poem)
    return {**found, "runs": runs.pop(("ask_both", who))}


@server.tool
async def ask_twice(ctx: Context, who: str) -> dict[str, Any]:
    """Ask the user for a name, then for the age that goes with it."""
    runs["ask_twice", who] += 1
    name = await _name(ctx)
    answer = await ctx.elicit(Age, f"How old is {name}?")
    assert isinstance(answer, Accepted)
    return {"name": name, "age": answer.content.age, "runs": runs.pop(("ask_twice", who))}


async def _name(ctx: Context) -> str:
    answer = await ctx.elicit(Person, "Who are you?")
    assert isinstance(answer, Accepted)
    return answer.content.name


# ---------------------------------------------------------------- tools that are given up


@server.tool
async def hold(ctx: Context, who: str) -> str:
    """Wait to be cancelled."""
    try:
        await ctx.progress(1, message="waiting")
        await trio.sleep_forever()
    except trio.Cancelled:
        given_up[who] += 1
        raise
    raise AssertionError


@server.tool
async def count_given_up(who: str) -> int:
    """Return how many calls of `hold` were cancelled."""
    return given_up[who]


# ---------------------------------------------------------------- what changes


@server.tool
async def touch() -> str:
    """Tell that the text has changed."""
    server.resource_updated("memo://text")
    return "touched"


@server.tool
async def grow() -> str:
    """Offer one more tool, and take it back the next time."""
    if "grown" in server.tools:
        server.remove_tool("grown")
        return "shrunk"
    server.tool(name="grown")(echo)
    return "grown"


# ---------------------------------------------------------------- resource, prompts


@server.resource("memo://text", mime_type="text/plain")
async def text_resource() -> str:
    """A line of text."""
    return "some text"


@server.prompt
async def greet(name: str) -> list[PromptMessage]:
    """Greet somebody."""
    return [PromptMessage(role="user", content=TextContent(text=f"Greet {name}."))]


@server.prompt
async def welcome(ctx: Context) -> str:
    """Welcome the user by name."""
    return f"Welcome {await _name(ctx)}."


async def _serve_over_http(port: int) -> None:
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, port))
        print(http.url, flush=True)  # noqa: T201 - see above


if __name__ == "__main__":
    if sys.argv[1] == "--http":
        trio.run(_serve_over_http, int(sys.argv[2]))
    else:
        trio.run(serve_stdio, server)
