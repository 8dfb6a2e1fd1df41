"""The official Python SDK, version 2, as a client at 2026-07-28. See `report.target`.

usage: py_v2_modern.py auto|2026-07-28 TARGET...
"""

import sys
import warnings

import anyio
import mcp_types as types
from mcp import MCPError, StdioServerParameters
from mcp.client import Client
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from report import Heard, Report, target

warnings.simplefilter("ignore")  # some methods are deprecated by this revision

report = Report()
heard = Heard()
state = {"answer": "accept"}


async def sample(context, params):
    content = types.TextContent(text=f"a reply to {params.messages[0].content.text}")
    return types.CreateMessageResult(role="assistant", content=content, model="peer-model")


async def elicit(context, params):
    if state["answer"] != "accept":
        return types.ElicitResult(action=state["answer"])
    content = {"name": "Ann"} if params.message == "Who are you?" else {"age": 30}
    return types.ElicitResult(action="accept", content=content)


async def logged(params):
    heard.put(("log", params.level, params.data))


async def list_tools(client):
    found, cursor = [], None
    while True:
        page = await client.list_tools(cursor=cursor)
        found += [tool.name for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return sorted(found)


async def structured(client, name, **arguments):
    return (await client.call_tool(name, arguments)).structured_content


async def text(client, name, **arguments):
    return (await client.call_tool(name, arguments)).content[0].text


async def code_of(awaitable):
    try:
        await awaitable
    except MCPError as exc:
        return exc.code
    return None


async def progress(client):
    seen = []

    async def on_progress(value, total, message):
        seen.append([value, total, message])

    await client.call_tool("steps", {"n": 3}, progress_callback=on_progress)
    return seen


async def decline(client):
    state["answer"] = "decline"
    try:
        return await structured(client, "ask")
    finally:
        state["answer"] = "accept"


async def cancel(client, who):
    async def on_progress(value, total, message):
        heard.put(("running", who))

    async def call():
        await client.call_tool("hold", {"who": who}, progress_callback=on_progress)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await heard.until(lambda item: item == ("running", who))
        group.cancel_scope.cancel()
    while True:
        count = int(await text(client, "count_given_up", who=who))
        if count:
            return count
        await anyio.sleep(0.02)


async def log_level(client):
    level = {types.LOG_LEVEL_META_KEY: "warning"}
    await client.call_tool("log", {"level": "error", "text": "not asked for"})
    await client.call_tool("log", {"level": "info", "text": "quiet"}, meta=level)
    await client.call_tool("log", {"level": "error", "text": "loud"}, meta=level)
    await heard.until(lambda item: item[:2] == ("log", "error"))
    return [list(item[1:]) for item in heard.items if item[0] == "log"]


async def read(client):
    return (await client.read_resource("memo://text")).contents[0].text


async def prompt(client, prompt, **arguments):
    messages = (await client.get_prompt(prompt, arguments)).messages
    return [[message.role, message.content.text] for message in messages]


async def listen(client):
    filters = {"tools_list_changed": True, "resource_subscriptions": ["memo://text"]}
    async with client.listen(**filters) as changes:
        await client.call_tool("touch", {})
        first = await anext(changes)
        await client.call_tool("grow", {})
        second = await anext(changes)
    await client.call_tool("grow", {})
    return [first == ResourceUpdated(uri="memo://text"), isinstance(second, ToolsListChanged)]


async def main(mode, arguments):
    url, command, _ = target(arguments)
    async with Client(
        url or StdioServerParameters(command=command[0], args=command[1:]),
        mode=mode,
        sampling_callback=sample,
        elicitation_callback=elicit,
        logging_callback=logged,
    ) as client:
        who = f"python {mode}"

        async def revision():
            return client.protocol_version

        async def check(feature, function, *args, **kwargs):
            await report.check(feature, lambda: function(client, *args, **kwargs))

        await report.check("revision", revision)
        await check("list tools", list_tools)
        await check("call a tool", text, "echo", text="grüße 🙂")
        await check("structured content", structured, "add", a=2, b=3)
        await check("progress", progress)
        await report.check("unknown tool", lambda: code_of(client.call_tool("nothing", {})))
        await check("elicitation", structured, "ask")
        await check("elicitation: decline", decline)
        await check("sampling", text, "ask_model", prompt="a poem")
        await check("two questions in one round", structured, "ask_both", who=who)
        await check("two rounds", structured, "ask_twice", who=who)
        await check("cancel a call", cancel, who)
        await check("log level of a request", log_level)
        await check("read a resource", read)
        await report.check("unknown resource", lambda: code_of(client.read_resource("memo://no")))
        await check("get a prompt", prompt, "greet", name="Ann")
        await check("get a prompt that asks", prompt, "welcome")
        await check("listen", listen)
    report.print()


anyio.run(main, sys.argv[1], sys.argv[2:])
