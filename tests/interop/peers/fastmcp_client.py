"""FastMCP as a client. See `report.target`.

usage: fastmcp_client.py TARGET...
"""

import asyncio
import sys
import warnings

import anyio
import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from mcp import MCPError
from report import CHOICES, FORM, Heard, Report, target

warnings.simplefilter("ignore")  # some methods are deprecated by the next revision

report = Report()
heard = Heard()
state = {"answer": "accept", "roots": ["file:///peer/one"], "abandoned": 0}


async def sample(messages, params, context):
    if params.tools is None:
        return _said(f"a reply to {messages[0].content.text}")
    last = messages[-1].content
    blocks = last if isinstance(last, list) else [last]
    if blocks[0].type == "tool_result":
        return _said(f"It says: {blocks[0].content[0].text}")
    use = types.ToolUseContent(id="use-1", name=params.tools[0].name, input={"city": "Oslo"})
    return types.CreateMessageResultWithTools(
        role="assistant", content=[use], model="peer-model", stop_reason="toolUse"
    )


def _said(text):
    return types.CreateMessageResult(
        role="assistant", content=types.TextContent(text=text), model="peer-model"
    )


async def elicit(message, response_type, params, context):
    heard.put(("asked", params.message, params))
    if params.message == "hold":
        try:
            await anyio.sleep_forever()
        finally:
            state["abandoned"] += 1
    if params.mode == "url":
        return types.ElicitResult(action="accept")
    if params.message == "Choose":
        return CHOICES
    accepted = state["answer"] == "accept"
    return types.ElicitResult(action=state["answer"], content=FORM if accepted else None)


async def list_roots(context):
    return state["roots"]


async def logged(params):
    heard.put(("log", params.level, params.data))


async def message(message):
    if not isinstance(message, Exception):
        heard.put((message.method, message.params))


async def code_of(awaitable):
    try:
        await awaitable
    except MCPError as exc:
        return exc.code
    return None


async def lists(client):
    async def tools():
        return sorted(tool.name for tool in await client.list_tools())

    async def resources():
        return sorted(str(r.uri) for r in await client.list_resources())

    async def templates():
        found = await client.list_resource_templates()
        return [template.uri_template for template in found]

    async def prompts():
        found = await client.list_prompts()
        return [[p.name, [[a.name, a.required] for a in p.arguments]] for p in found]

    await report.check("list tools", tools)
    await report.check("list resources", resources)
    await report.check("list resource templates", templates)
    await report.check("list prompts", prompts)


async def calls(client):
    async def call():
        return (await client.call_tool("echo", {"text": "grüße 🙂"})).content[0].text

    async def structured():
        return (await client.call_tool("add", {"a": 2, "b": 3})).structured_content

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

        await client.call_tool("progress", {"n": 3}, progress_handler=on_progress)
        return seen

    async def tool_error():
        result = await client.call_tool("fail", {"reason": "on purpose"}, raise_on_error=False)
        return [result.is_error, "on purpose" in result.content[0].text]

    async def bad_arguments():
        return (await client.call_tool("add", {"a": "two", "b": 3}, raise_on_error=False)).is_error

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
        return (await client.call_tool("ask", {})).structured_content

    async def choices():
        chosen = (await client.call_tool("choose", {})).structured_content
        asked = await heard.until(lambda item: item[:2] == ("asked", "Choose"))
        return [asked[2].requested_schema, chosen]

    async def complete():
        note = await heard.until(lambda item: item[0] == "notifications/elicitation/complete")
        return note[1].elicitation_id

    async def roots():
        return (await client.call_tool("roots", {})).structured_content["result"]

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
        return (await client.read_resource(uri))[0]

    async def read_text():
        return (await read("memo://text")).text

    async def read_blob():
        return (await read("memo://blob")).blob

    async def read_template():
        return (await read("memo://notes/first")).text

    async def updates():
        await client.session.subscribe_resource("memo://notes/first")
        await client.call_tool("touch", {"name": "first", "text": "1"})
        method = "notifications/resources/updated"
        note = await heard.until(lambda item: item[0] == method)
        await client.session.unsubscribe_resource("memo://notes/first")
        return str(note[1].uri)

    await report.check("read text", read_text)
    await report.check("read blob", read_blob)
    await report.check("read through a template", read_template)
    await report.check("resource updates", updates)
    await report.check("unknown resource", lambda: code_of(client.read_resource("memo://no")))


async def others(client):
    async def prompt():
        result = await client.get_prompt("greet", {"name": "Ann", "style": "french"})
        return [[message.role, message.content.text] for message in result.messages]

    async def complete(ref, name, value, context=None):
        result = await client.complete(ref, {"name": name, "value": value}, context)
        return result.values

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
        return "grown" in [tool.name for tool in await client.list_tools()]

    greet = types.PromptReference(name="greet")
    note = types.ResourceTemplateReference(uri="memo://notes/{name}")
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
            record = (await client.call_tool("record", {})).structured_content
            if key in record:
                return record
            await anyio.sleep(0.02)

    async def give_up(tool, when):
        async def on_progress(value, total, text):
            heard.put(("running", tool))

        async def call():
            await client.call_tool(tool, {}, progress_handler=on_progress)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await heard.until(when)
            group.cancel_scope.cancel()  # the SDK sends notifications/cancelled

    async def cancel_call():
        await give_up("slow", lambda item: item == ("running", "slow"))
        return (await recorded("slow ended"))["slow ended"]

    async def cancel_reverse():
        await give_up("hold", lambda item: item[:2] == ("asked", "hold"))
        while not state["abandoned"]:
            await anyio.sleep(0.02)
        seen = await recorded("hold cancelled")
        return [seen["hold cancelled"], seen["open"], state["abandoned"]]

    await report.check("cancel a call", cancel_call)
    await report.check("cancel a call that asks", cancel_reverse)


async def resumption(client):
    async def lose(n, **where):
        seen = []

        async def on_progress(value, total, text):
            seen.append([value, total, text])

        arguments = {"n": n, **where}
        result = await client.call_tool("progress", arguments, progress_handler=on_progress)
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


def transport(url, command):
    if url:
        return StreamableHttpTransport(url)
    return StdioTransport(command[0], command[1:], keep_alive=False)


async def main(arguments):
    url, command, resumable = target(arguments)
    client = Client(
        transport(url, command),
        sampling_handler=sample,
        sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
        elicitation_handler=elicit,
        roots=list_roots,
        log_handler=logged,
        message_handler=message,
    )
    async with client:

        async def initialize():
            return [client.server_info.name, client.server_info.version, client.protocol_version]

        await report.check("initialize", initialize)
        await report.check("ping", client.ping)
        for part in (lists, calls, reverse, resources, others, cancellation):
            await part(client)
        if resumable:
            await resumption(client)
    report.print()


asyncio.run(main(sys.argv[1:]))
