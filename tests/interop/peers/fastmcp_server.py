"""FastMCP as a server with a little of everything. usage: fastmcp_server.py PORT"""

import sys
import warnings
from typing import Any, Literal

import anyio
import mcp_types as types
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.prompts import Message
from fastmcp.server.event_store import EventStore
from fastmcp.tools import ToolResult
from pydantic import BaseModel
from report import CHOICES_FORM, PNG, WAV, WEATHER

warnings.simplefilter("ignore")  # some methods are deprecated by the next revision

server = FastMCP("everything", version="1.0")
notes = {"first": "one", "second": "two"}
seen = {"open": 0}


class Sum(BaseModel):
    total: int
    parts: list[int]


class Person(BaseModel):
    name: str
    email: str
    age: int
    height: float
    colour: Literal["red", "green"]
    happy: bool = True


@server.tool()
async def echo(text: str) -> ToolResult:
    return ToolResult(content=[types.TextContent(text=text)])


@server.tool()
async def add(a: int, b: int) -> Sum:
    return Sum(total=a + b, parts=[a, b])


@server.tool()
async def fail(reason: str) -> str:
    raise RuntimeError(reason)


@server.tool()
async def contents() -> ToolResult:
    inside = types.TextResourceContents(uri="memo://inside", text="inside")
    return ToolResult(
        content=[
            types.TextContent(text="text"),
            types.ImageContent(data=PNG, mime_type="image/png"),
            types.AudioContent(data=WAV, mime_type="audio/wav"),
            types.ResourceLink(uri="memo://text", name="text"),
            types.EmbeddedResource(resource=inside),
        ]
    )


@server.tool()
async def progress(n: int, ctx: Context, hang_up: int = 0) -> str:
    for step in range(1, n + 1):
        await ctx.report_progress(step, n, f"step {step}")
        await anyio.sleep(0.02)
        if step == hang_up:
            await ctx.close_sse_stream()
    return "done"


@server.tool()
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.log(text, level)
    return level


@server.tool()
async def grow(ctx: Context) -> str:
    server.tool(echo, name="grown")
    await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
async def ask(ctx: Context) -> dict[str, Any]:
    answer = await ctx.elicit("Who are you?", Person)
    if answer.action != "accept":
        return {"action": answer.action}
    return {"action": "accept", "name": answer.data.name, "happy": answer.data.happy}


@server.tool()
async def choose(ctx: Context) -> dict[str, Any]:
    return (await ctx.session.elicit_form("Choose", CHOICES_FORM)).content


@server.tool()
async def ask_url(ctx: Context) -> ToolResult:
    answer = await ctx.session.elicit_url("Pay, please", "https://example.org/pay", "visit")
    await ctx.session.send_elicit_complete("visit")
    return ToolResult(content=[types.TextContent(text=f"{answer.action}ed".title())])


def _user(content):
    return types.SamplingMessage(role="user", content=content)


@server.tool()
async def sample(prompt: str, ctx: Context) -> ToolResult:
    asked = _user(types.TextContent(text=prompt))
    answer = await ctx.session.create_message([asked], max_tokens=100)
    text = f"{answer.model}: {answer.content.text}"
    return ToolResult(content=[types.TextContent(text=text)])


@server.tool()
async def sample_with_tools(city: str, ctx: Context) -> ToolResult:
    tools = [types.Tool.model_validate(WEATHER)]
    asked = _user(types.TextContent(text=f"Weather in {city}?"))
    first = await ctx.session.create_message([asked], max_tokens=100, tools=tools)
    results = [
        types.ToolResultContent(
            tool_use_id=use.id, content=[types.TextContent(text=f"rain in {use.input['city']}")]
        )
        for use in first.content_as_list
    ]
    used = types.SamplingMessage(role="assistant", content=first.content)
    last = await ctx.session.create_message(
        [asked, used, _user(results)], max_tokens=100, tools=tools
    )
    return ToolResult(content=last.content_as_list)


@server.tool()
async def roots(ctx: Context) -> list[str]:
    return [str(root.uri) for root in (await ctx.session.list_roots()).roots]


@server.tool()
async def slow(ctx: Context) -> str:
    try:
        await ctx.report_progress(1, None, "waiting")
        await anyio.sleep_forever()
    finally:
        seen["slow ended"] = seen.get("slow ended", 0) + 1


@server.tool()
async def hold(ctx: Context) -> str:
    seen["open"] += 1
    try:
        await ctx.elicit("hold", Person)
    except anyio.get_cancelled_exc_class():
        seen["hold cancelled"] = seen.get("hold cancelled", 0) + 1
        raise
    finally:
        seen["open"] -= 1
    return "answered"


@server.tool()
async def record() -> dict[str, int]:
    return seen


@server.resource("memo://text", mime_type="text/plain")
async def text_resource() -> str:
    return "some text"


@server.resource("memo://blob", mime_type="image/png")
async def blob_resource() -> bytes:
    return b"\x00\x01\xfe\xff"


@server.resource("memo://notes/{name}")
async def note(name: str) -> str:
    return notes[name]


@server.prompt()
async def greet(name: str, style: str = "formal") -> list:
    return [Message(f"Greet {name}, {style}."), Message("As you wish.", "assistant")]


@server.completion()
async def complete(ref, argument, context):
    if isinstance(ref, types.ResourceTemplateReference):
        found = notes
    elif context is not None and context.arguments == {"name": "Marianne"}:
        found = ["french"]
    else:
        found = ["formal", "friendly", "french"]
    return types.Completion(values=[each for each in found if each.startswith(argument.value)])


app = server.http_app(event_store=EventStore(), retry_interval=100)
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
