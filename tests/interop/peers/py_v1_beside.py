"""The official Python SDK, version 1, as a client of `modern.py`, beside clients of 2026-07-28.

usage: py_v1_beside.py TARGET... (see `report.target`)
"""

import sys

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from report import Report, target

report = Report()


async def sample(context, params):
    content = types.TextContent(type="text", text=f"a reply to {params.messages[0].content.text}")
    return types.CreateMessageResult(role="assistant", content=content, model="peer-model")


async def elicit(context, params):
    content = {"name": "Ann"} if params.message == "Who are you?" else {"age": 30}
    return types.ElicitResult(action="accept", content=content)


async def code_of(awaitable):
    try:
        await awaitable
    except McpError as exc:
        return exc.error.code
    return None


async def main(arguments):
    url, command, _ = target(arguments)
    if url:
        transport = streamable_http_client(url)
    else:
        transport = stdio_client(StdioServerParameters(command=command[0], args=command[1:]))
    async with (
        transport as (read, write, *_),
        ClientSession(read, write, sampling_callback=sample, elicitation_callback=elicit) as client,
    ):

        async def revision():
            return (await client.initialize()).protocolVersion

        async def text(name, **arguments):
            return (await client.call_tool(name, arguments)).content[0].text

        async def structured(name, **arguments):
            return (await client.call_tool(name, arguments)).structuredContent

        async def progress():
            seen = []

            async def on_progress(value, total, message):
                seen.append([value, total, message])

            await client.call_tool("steps", {"n": 3}, progress_callback=on_progress)
            return seen

        async def resource():
            return (await client.read_resource(AnyUrl("memo://text"))).contents[0].text

        async def prompt():
            messages = (await client.get_prompt("greet", {"name": "Ann"})).messages
            return [[message.role, message.content.text] for message in messages]

        async def unknown():
            return await code_of(client.read_resource(AnyUrl("memo://no")))

        who = "python v1"
        check = report.check
        await check("revision", revision)
        await check("call a tool", lambda: text("echo", text="grüße 🙂"))
        await check("structured content", lambda: structured("add", a=2, b=3))
        await check("progress", progress)
        await check("elicitation", lambda: structured("ask"))
        await check("sampling", lambda: text("ask_model", prompt="a poem"))
        await check("two questions in one round", lambda: structured("ask_both", who=who))
        await check("two rounds", lambda: structured("ask_twice", who=who))
        await check("read a resource", resource)
        await check("unknown resource", unknown)
        await check("get a prompt", prompt)
    report.print()


anyio.run(main, sys.argv[1:])
