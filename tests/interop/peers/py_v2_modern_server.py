"""The official Python SDK, version 2, as a server at 2026-07-28, with what `modern.py` has.

usage: py_v2_modern_server.py [PORT]
"""

import sys
import warnings
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.resolve import Elicit, Resolve, Sample
from pydantic import BaseModel

warnings.simplefilter("ignore")  # some methods are deprecated by this revision

server = MCPServer("modern", version="1.0", log_level="ERROR")
given_up = {}


class Sum(BaseModel):
    total: int
    parts: list[int]


class Person(BaseModel):
    name: str


class Age(BaseModel):
    age: int


def text(value):
    return types.CallToolResult(content=[types.TextContent(text=value)])


async def who_is_it() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


async def how_old(person: Annotated[Person, Resolve(who_is_it)]) -> Elicit[Age]:
    return Elicit(f"How old is {person.name}?", Age)


def _sample(prompt):
    asked = types.SamplingMessage(role="user", content=types.TextContent(text=prompt))
    return Sample([asked], max_tokens=100)


async def model_says(prompt: str) -> Sample:
    return _sample(prompt)


async def poem() -> Sample:
    return _sample("a poem")


@server.tool()
async def echo(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)])


@server.tool()
async def add(a: int, b: int) -> Sum:
    return Sum(total=a + b, parts=[a, b])


@server.tool()
async def steps(n: int, ctx: Context) -> str:
    for step in range(1, n + 1):
        await ctx.report_progress(step, n, f"step {step}")
    return "done"


@server.tool()
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.log(level, {"text": text})
    return level


@server.tool()
async def ask(person: Annotated[ElicitationResult[Person], Resolve(who_is_it)]) -> dict[str, Any]:
    if person.action != "accept":
        return {"action": person.action}
    return {"action": "accept", "name": person.data.name}


@server.tool()
async def ask_model(
    prompt: str, answer: Annotated[types.CreateMessageResult, Resolve(model_says)]
) -> types.CallToolResult:
    return text(f"{answer.model}: {answer.content.text}")


@server.tool()
async def ask_both(
    who: str,
    person: Annotated[Person, Resolve(who_is_it)],
    answer: Annotated[types.CreateMessageResult, Resolve(poem)],
) -> dict[str, Any]:
    return {"name": person.name, "said": f"{answer.model}: {answer.content.text}"}


@server.tool()
async def ask_twice(
    who: str,
    person: Annotated[Person, Resolve(who_is_it)],
    answer: Annotated[Age, Resolve(how_old)],
) -> dict[str, Any]:
    return {"name": person.name, "age": answer.age}


@server.tool()
async def hold(who: str, ctx: Context) -> str:
    try:
        await ctx.report_progress(1, None, "waiting")
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        given_up[who] = given_up.get(who, 0) + 1
        raise


@server.tool()
async def count_given_up(who: str) -> types.CallToolResult:
    return text(str(given_up.get(who, 0)))


@server.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated("memo://text")
    return "touched"


@server.tool()
async def grow(ctx: Context) -> str:
    await ctx.notify_tools_changed()  # which is all that the tests want to hear
    return "grown"


@server.resource("memo://text", mime_type="text/plain")
async def text_resource() -> str:
    return "some text"


@server.prompt()
async def greet(name: str) -> list:
    return [UserMessage(f"Greet {name}.")]


@server.prompt()
async def welcome(ctx: Context) -> list | types.InputRequiredResult:
    answer = (ctx.input_responses or {}).get("person")
    if answer is None:
        form = types.ElicitRequestFormParams(
            message="Who are you?", requested_schema=Person.model_json_schema()
        )
        person = types.ElicitRequest(params=form)
        return types.InputRequiredResult(input_requests={"person": person})
    return [UserMessage(f"Welcome {answer.content['name']}.")]


if sys.argv[1:]:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
