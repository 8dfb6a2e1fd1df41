"""Our server with a little of everything, for clients that are not ours.

usage: python -m tests.interop.server [--http | --http-resumable]

Over HTTP it prints its URL; its client's connections run over a wire that can be cut.
"""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import trio
from attrs import field, frozen
from msgspec import Meta

from mcp_trio import Accepted, Context, Declined, Limits, Server, serve_http, serve_stdio
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    ResourceLink,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from tests.interop.features import CHOICES
from tests.interop.wire import Wire

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
STYLES = ("formal", "friendly", "french")

server = Server(
    "everything",
    version="1.0",
    title="Everything",
    instructions="Call anything.",
    page_size=7,
    limits=Limits(sse_retry=100),
)
wire = Wire()
notes = {"first": "one", "second": "two"}
seen: Counter[str] = Counter()


@frozen
class Sum:
    total: int
    parts: tuple[int, ...]


@frozen
class Person:
    """A form with every kind of field."""

    name: Annotated[str, Meta(title="Name", min_length=1, max_length=40)]
    email: Annotated[str, Meta(extra_json_schema={"format": "email"})]
    age: Annotated[int, Meta(ge=0, le=150)]
    height: float
    colour: Literal["red", "green"]
    tags: list[Literal["a", "b", "c"]] = field(factory=list)
    happy: bool = True


# ---------------------------------------------------------------- plain tools


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool(title="Addition")
async def add(a: int, b: int) -> Sum:
    """Add two numbers."""
    return Sum(a + b, (a, b))


@server.tool
async def fail(reason: str) -> str:
    """Raise an error."""
    raise RuntimeError(reason)


@server.tool
async def contents() -> CallToolResult:
    """Return one block of each kind."""
    return CallToolResult(
        content=(
            TextContent(text="text"),
            ImageContent(data=PNG, mime_type="image/png"),
            AudioContent(data=WAV, mime_type="audio/wav"),
            ResourceLink(uri="memo://text", name="text", mime_type="text/plain"),
            EmbeddedResource(resource=TextResourceContents(uri="memo://inside", text="inside")),
        )
    )


@server.tool
async def progress(ctx: Context, n: int, cut: int = 0, hang_up: int = 0) -> str:
    """Report progress n times, a while apart; over HTTP, lose the connection after a step."""
    for step in range(1, n + 1):
        is_cut = wire.cut_after(f"step {step}") if step == cut else None
        await ctx.progress(step, total=n, message=f"step {step}")
        if is_cut is not None:
            await is_cut.wait()
        # The TypeScript clients lose progress that arrives in one read with the answer.
        await trio.sleep(0.02)
        if step == hang_up and not ctx.close_stream():
            raise RuntimeError("there is no stream to close")
    return "done"


@server.tool
async def log(ctx: Context, level: str, text: str) -> str:
    """Log one message."""
    await ctx.log(level, {"text": text}, logger="interop")
    return level


@server.tool
async def grow() -> str:
    """Offer one more tool, and take it back the next time."""
    if "grown" in server.tools:
        server.remove_tool("grown")
        return "shrunk"
    server.tool(name="grown")(echo)
    return "grown"


@server.tool
async def touch(name: str, text: str) -> str:
    """Change a note, and tell those who watch it."""
    notes[name] = text
    server.resource_updated(f"memo://notes/{name}")
    return text


# ---------------------------------------------------------------- tools that ask


@server.tool
async def ask(ctx: Context) -> dict[str, Any]:
    """Ask the user to fill in a form."""
    answer = await ctx.elicit(Person, "Who are you?")
    if isinstance(answer, Accepted):
        return {"action": "accept", "name": answer.content.name, "happy": answer.content.happy}
    return {"action": "decline" if isinstance(answer, Declined) else "cancel"}


@server.tool
async def choose(ctx: Context) -> dict[str, Any]:
    """Ask for every kind of choice, by a schema given as JSON."""
    answer = await ctx.elicit(CHOICES, "Choose")
    return answer.content if isinstance(answer, Accepted) else {}


@server.tool
async def ask_url(ctx: Context) -> str:
    """Ask the user to visit a page, and say when that is over."""
    answer = await ctx.elicit_url("https://example.org/pay", "Pay, please", elicitation_id="visit")
    if isinstance(answer, Accepted):
        await ctx.elicitation_complete("visit")
    return type(answer).__name__


@server.tool
async def sample(ctx: Context, prompt: str) -> str:
    """Ask the model."""
    answer = await ctx.sample(prompt, 100, system_prompt="Be brief.", temperature=0.5)
    return f"{answer.model}: {_text(answer.content)}"


WEATHER = Tool(
    name="weather",
    description="The weather in a city.",
    input_schema={"type": "object", "properties": {"city": {"type": "string"}}},
)


@server.tool
async def sample_with_tools(ctx: Context, city: str) -> str:
    """Let the model use a tool, and answer with what the tool gave."""
    asked = SamplingMessage(role="user", content=TextContent(text=f"Weather in {city}?"))
    first = await ctx.sample(asked, 100, tools=(WEATHER,), tool_choice=ToolChoice(mode="required"))
    blocks = first.content if isinstance(first.content, tuple) else (first.content,)
    uses = [block for block in blocks if isinstance(block, ToolUseContent)]
    results = tuple(
        ToolResultContent(
            tool_use_id=use.id, content=(TextContent(text=f"rain in {use.input['city']}"),)
        )
        for use in uses
    )
    last = await ctx.sample(
        (
            asked,
            SamplingMessage(role="assistant", content=tuple(blocks)),
            SamplingMessage(role="user", content=results),
        ),
        100,
        tools=(WEATHER,),
    )
    return _text(last.content)


@server.tool
async def roots(ctx: Context) -> list[str]:
    """Return the client's roots."""
    return [root.uri for root in await ctx.list_roots()]


# ---------------------------------------------------------------- tools that are given up


@server.tool
async def slow(ctx: Context) -> str:
    """Wait to be cancelled."""
    try:
        await ctx.progress(1, message="waiting")
        await trio.sleep_forever()
    finally:
        seen["slow ended"] += 1


@server.tool
async def hold(ctx: Context) -> str:
    """Wait for an answer of the user until cancelled."""
    try:
        await ctx.progress(1, message="asking")
        await ctx.elicit(Person, "hold")
    except trio.Cancelled:
        seen["hold cancelled"] += 1
        raise
    return "answered"


@server.tool
async def record() -> dict[str, int]:
    """Return what has been seen of cancellation, and which calls are open now."""
    open_calls = [call for session in server.sessions() for call in session.calls()]
    return {**seen, "open": sum(call.method != "tools/call" for call in open_calls)}


# ---------------------------------------------------------------- resources, prompts


@server.resource("memo://text", title="Text", mime_type="text/plain")
async def text_resource() -> str:
    """A line of text."""
    return "some text"


@server.resource("memo://blob", mime_type="image/png")
async def blob_resource() -> bytes:
    """Some bytes."""
    return b"\x00\x01\xfe\xff"


@server.resource("memo://notes/{name}")
async def note(name: str) -> str:
    """A note."""
    return notes[name]


@server.prompt(title="Greeting")
async def greet(name: str, style: str = "formal") -> list[PromptMessage]:
    """Greet somebody."""
    return [
        PromptMessage(role="user", content=TextContent(text=f"Greet {name}, {style}.")),
        PromptMessage(role="assistant", content=TextContent(text="As you wish.")),
    ]


@server.completion("greet", "style")
async def complete_style(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
    """Complete a style; a settled name of France speaks French."""
    if settled.get("name") == "Marianne":
        return ["french"]
    return [style for style in STYLES if style.startswith(value)]


@server.completion("memo://notes/{name}", "name")
async def complete_name(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
    """Complete the name of a note."""
    return [name for name in notes if name.startswith(value)]


def _text(content: Any) -> str:
    blocks = content if isinstance(content, tuple) else (content,)
    return "".join(block.text for block in blocks if isinstance(block, TextContent))


async def _serve_over_http(*, resumable: bool) -> None:
    store = MemoryStore() if resumable else None
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, store=store))
        url = urlsplit(http.url)
        port = await nursery.start(wire.run, url.port)
        print(f"http://127.0.0.1:{port}{url.path}", flush=True)  # noqa: T201 - see above


if __name__ == "__main__":
    if sys.argv[1:]:
        trio.run(partial(_serve_over_http, resumable=sys.argv[1] == "--http-resumable"))
    else:
        trio.run(serve_stdio, server)
