"""The official Python SDK, version 1, as a client. See `report.target`.

usage: py_v1.py TARGET...
"""

import sys

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from report import CHOICES, FORM, Heard, Report, target

report = Report()
heard = Heard()
state = {"answer": "accept", "roots": ["file:///peer/one"]}


async def sample(context, params):
    if params.tools is None:
        return _said(f"a reply to {params.messages[0].content.text}")
    last = params.messages[-1].content
    blocks = last if isinstance(last, list) else [last]
    if blocks[0].type == "tool_result":
        return _said(f"It says: {blocks[0].content[0].text}")
    use = types.ToolUseContent(
        type="tool_use", id="use-1", name=params.tools[0].name, input={"city": "Oslo"}
    )
    return types.CreateMessageResultWithTools(
        role="assistant", content=[use], model="peer-model", stopReason="toolUse"
    )


def _said(text):
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(type="text", text=text), model="peer-model"
    )


async def elicit(context, params):
    heard.put(("asked", params.message, params))
    if params.mode == "url":
        return types.ElicitResult(action="accept")
    if params.message == "Choose":
        return types.ElicitResult(action="accept", content=CHOICES)
    accepted = state["answer"] == "accept"
    return types.ElicitResult(action=state["answer"], content=FORM if accepted else None)


async def list_roots(context):
    return types.ListRootsResult(roots=[types.Root(uri=uri) for uri in state["roots"]])


async def logged(params):
    heard.put(("log", params.level, params.data))


async def message(message):
    if isinstance(message, types.ServerNotification):
        heard.put((message.root.method, message.root.params))


async def pages(lister, attribute):
    found, cursor = [], None
    while True:
        page = await lister(params=types.PaginatedRequestParams(cursor=cursor))
        found += getattr(page, attribute)
        cursor = page.nextCursor
        if cursor is None:
            return found


async def code_of(awaitable):
    try:
        await awaitable
    except McpError as exc:
        return exc.error.code
    return None


async def lists(client):
    async def tools():
        return sorted(tool.name for tool in await pages(client.list_tools, "tools"))

    async def resources():
        return sorted(str(r.uri) for r in await pages(client.list_resources, "resources"))

    async def templates():
        found = await pages(client.list_resource_templates, "resourceTemplates")
        return [template.uriTemplate for template in found]

    async def prompts():
        found = await pages(client.list_prompts, "prompts")
        return [[p.name, [[a.name, a.required] for a in p.arguments]] for p in found]

    await report.check("list tools", tools)
    await report.check("list resources", resources)
    await report.check("list resource templates", templates)
    await report.check("list prompts", prompts)


async def calls(client):
    async def call():
        return (await client.call_tool("echo", {"text": "grüße 🙂"})).content[0].text

    async def structured():
        return (await client.call_tool("add", {"a": 2, "b": 3})).structuredContent

    async def kinds():
        return [block.type for block in (await client.call_tool("contents", {})).content]

    async def concurrent():
        found = {}

        async def one(n):
            found[n] = (await client.call_tool("echo", {"text": str(n)})).content[0].text

        async with anyio.create_task_group() as group:
            for n in range(20):
                group.start_soon(one, n)
        return [found[n] for n in range(20)]

    async def progress():
        seen = []

        async def on_progress(value, total, text):
            seen.append([value, total, text])

        await client.call_tool("progress", {"n": 3}, progress_callback=on_progress)
        return seen

    async def tool_error():
        result = await client.call_tool("fail", {"reason": "on purpose"})
        return [result.isError, "on purpose" in result.content[0].text]

    async def bad_arguments():
        return (await client.call_tool("add", {"a": "two", "b": 3})).isError

    await report.check("call a tool", call)
    await report.check("structured content", structured)
    await report.check("kinds of content", kinds)
    await report.check("concurrent calls", concurrent)
    await report.check("progress", progress)
    await report.check("tool error", tool_error)
    await report.check("bad arguments", bad_arguments)
    await report.check("unknown tool", lambda: code_of(client.call_tool("nothing", {})))


async def reverse(client):
    async def text(name, arguments=None):
        return (await client.call_tool(name, arguments or {})).content[0].text

    async def elicitation(answer):
        state["answer"] = answer
        return (await client.call_tool("ask", {})).structuredContent

    async def choices():
        chosen = (await client.call_tool("choose", {})).structuredContent
        asked = await heard.until(lambda item: item[:2] == ("asked", "Choose"))
        return [asked[2].requestedSchema, chosen]

    async def complete():
        note = await heard.until(lambda item: item[0] == "notifications/elicitation/complete")
        return note[1].elicitationId

    async def roots():
        return (await client.call_tool("roots", {})).structuredContent["result"]

    async def roots_changed():
        state["roots"] = ["file:///peer/two"]
        await client.send_roots_list_changed()
        while await roots() != state["roots"]:
            await anyio.sleep(0.02)
        return await roots()

    await report.check("sampling", lambda: text("sample", {"prompt": "a poem"}))
    await report.check("sampling with tools", lambda: text("sample_with_tools", {"city": "Oslo"}))
    await report.check("elicitation: accept", lambda: elicitation("accept"))
    await report.check("elicitation: decline", lambda: elicitation("decline"))
    await report.check("elicitation: cancel", lambda: elicitation("cancel"))
    await report.check("elicitation: choices", choices)
    await report.check("elicitation: url", lambda: text("ask_url"))
    await report.check("elicitation: url visited", complete)
    await report.check("roots", roots)
    await report.check("roots changed", roots_changed)


async def resources(client):
    async def read(uri):
        return (await client.read_resource(AnyUrl(uri))).contents[0]

    async def read_text():
        return (await read("memo://text")).text

    async def read_blob():
        return (await read("memo://blob")).blob

    async def read_template():
        return (await read("memo://notes/first")).text

    async def updates():
        uri = AnyUrl("memo://notes/first")
        await client.subscribe_resource(uri)
        await client.call_tool("touch", {"name": "first", "text": "1"})
        method = "notifications/resources/updated"
        note = await heard.until(lambda item: item[0] == method)
        await client.unsubscribe_resource(uri)
        return str(note[1].uri)

    await report.check("read text", read_text)
    await report.check("read blob", read_blob)
    await report.check("read through a template", read_template)
    await report.check("resource updates", updates)
    await report.check(
        "unknown resource", lambda: code_of(client.read_resource(AnyUrl("memo://no")))
    )


async def others(client):
    async def prompt():
        result = await client.get_prompt("greet", {"name": "Ann", "style": "french"})
        return [[message.role, message.content.text] for message in result.messages]

    async def complete(ref, name, value, context=None):
        result = await client.complete(ref, {"name": name, "value": value}, context)
        return result.completion.values

    def logged():
        return [[item[1], item[2]] for item in heard.items if item[0] == "log"]

    async def log():
        await client.call_tool("log", {"level": "info", "text": "hello"})
        await heard.until(lambda item: item[0] == "log")
        return logged()

    async def log_level():
        before = len(logged())
        await client.set_logging_level("warning")
        await client.call_tool("log", {"level": "info", "text": "quiet"})
        await client.call_tool("log", {"level": "error", "text": "loud"})
        await heard.until(lambda item: item[:2] == ("log", "error"))
        return logged()[before:]

    async def tools_changed():
        await client.call_tool("grow", {})
        await heard.until(lambda item: item[0] == "notifications/tools/list_changed")
        return "grown" in [tool.name for tool in await pages(client.list_tools, "tools")]

    greet = types.PromptReference(type="ref/prompt", name="greet")
    note = types.ResourceTemplateReference(type="ref/resource", uri="memo://notes/{name}")
    settled = {"name": "Marianne"}
    await report.check("get a prompt", prompt)
    await report.check("complete a prompt", lambda: complete(greet, "style", "f"))
    await report.check("complete with context", lambda: complete(greet, "style", "", settled))
    await report.check("complete a template", lambda: complete(note, "name", "fi"))
    await report.check("log", log)
    await report.check("log level", log_level)
    await report.check("tools changed", tools_changed)


async def cancellation(client):
    async def recorded(key):
        """Return the server's record once *key* is in it: cancellation takes a moment there."""
        while True:
            record = (await client.call_tool("record", {})).structuredContent
            if key in record:
                return record
            await anyio.sleep(0.02)

    async def cancel_call():
        async def on_progress(value, total, text):
            pass

        async def call():
            await client.call_tool("slow", {}, progress_callback=on_progress)

        def running(item):
            return item[0] == "notifications/progress" and item[1].message == "waiting"

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            note = await heard.until(running)
            # Leaving a call says nothing to the server; here the token is the request's id.
            params = types.CancelledNotificationParams(requestId=note[1].progressToken)
            cancelled = types.CancelledNotification(params=params)
            await client.send_notification(types.ClientNotification(cancelled))
            group.cancel_scope.cancel()
        return (await recorded("slow ended"))["slow ended"]

    await report.check("cancel a call", cancel_call, how="raw")
    why = "nothing is read while a callback runs, so no cancellation can reach it"
    report.missing("cancel a call that asks", why)


async def resumption(client):
    async def lose(n, **where):
        seen = []

        async def on_progress(value, total, text):
            seen.append([value, total, text])

        arguments = {"n": n, **where}
        result = await client.call_tool("progress", arguments, progress_callback=on_progress)
        return [*seen, result.content[0].text]

    async def listening():
        def changes():
            return [i for i in heard.items if i[0] == "notifications/tools/list_changed"]

        before = len(changes())
        seen = await lose(1, cut=1)
        await client.call_tool("grow", {})
        while len(changes()) == before:
            await anyio.sleep(0.02)
        return seen[-1]

    await report.check("cut in a call", lambda: lose(3, cut=1))
    await report.check("hung up in a call", lambda: lose(3, hang_up=1))
    await report.check("cut while listening", listening)


def connect(url, command):
    if url:
        return streamable_http_client(url)
    return stdio_client(StdioServerParameters(command=command[0], args=command[1:]))


async def main(arguments):
    url, command, resumable = target(arguments)
    capabilities = types.SamplingCapability(tools=types.SamplingToolsCapability())
    async with (
        connect(url, command) as (read, write, *_),
        ClientSession(
            read,
            write,
            sampling_callback=sample,
            sampling_capabilities=capabilities,
            elicitation_callback=elicit,
            list_roots_callback=list_roots,
            logging_callback=logged,
            message_handler=message,
        ) as client,
    ):

        async def initialize():
            result = await client.initialize()
            return [result.serverInfo.name, result.serverInfo.version, result.protocolVersion]

        async def ping():
            await client.send_ping()
            return True

        await report.check("initialize", initialize)
        await report.check("ping", ping)
        for part in (lists, calls, reverse, resources, others, cancellation):
            await part(client)
        if resumable:
            await resumption(client)
    report.print()


anyio.run(main, sys.argv[1:])
