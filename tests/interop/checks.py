"""What our client does with a server like ours, feature by feature; see `features.SEEN`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio

from mcp_trio import PeerError
from mcp_trio.types import (
    BlobResourceContents,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.types import CallToolResult

    from .talk import Talk

__all__ = [
    "CHECKS",
    "Check",
    "cancel_silent_call",
    "code_of",
    "cut_and_listen",
    "give_up",
    "text_of",
]

Check: TypeAlias = "Callable[[Talk], Awaitable[Any]]"


def text_of(result: CallToolResult) -> str:
    """Return the text of the first block."""
    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


async def code_of(call: Awaitable[object]) -> int | None:
    """Return the code of the error that *call* ends with."""
    try:
        await call
    except PeerError as exc:
        return exc.code
    return None


async def text(talk: Talk, tool: str, **arguments: Any) -> str:
    return text_of(await talk.session.call_tool(tool, arguments))


async def structured(talk: Talk, tool: str, **arguments: Any) -> Any:
    return (await talk.session.call_tool(tool, arguments)).structured_content


# ---------------------------------------------------------------- lists, calls


async def initialize(talk: Talk) -> Any:
    info = talk.session.server_info
    return [info.name, info.version, talk.session.revision.version]


async def ping(talk: Talk) -> Any:
    await talk.session.ping()
    return True


async def list_tools(talk: Talk) -> Any:
    return sorted(tool.name for tool in await talk.session.list_tools().all())


async def list_resources(talk: Talk) -> Any:
    return sorted(resource.uri for resource in await talk.session.list_resources().all())


async def list_templates(talk: Talk) -> Any:
    return sorted(each.uri_template for each in await talk.session.list_resource_templates().all())


async def list_prompts(talk: Talk) -> Any:
    prompts = await talk.session.list_prompts().all()
    return [[p.name, [[a.name, bool(a.required)] for a in p.arguments or ()]] for p in prompts]


async def structured_content(talk: Talk) -> Any:
    await talk.session.list_tools().all()  # so that the result is held to its schema
    return await structured(talk, "add", a=2, b=3)


async def kinds_of_content(talk: Talk) -> Any:
    return [block.type for block in (await talk.session.call_tool("contents")).content]


async def concurrent_calls(talk: Talk) -> Any:
    found: dict[int, str] = {}

    async def one(n: int) -> None:
        found[n] = await text(talk, "echo", text=str(n))

    async with trio.open_nursery() as nursery:
        for n in range(20):
            nursery.start_soon(one, n)
    return [found[n] for n in range(20)]


async def progress(talk: Talk) -> Any:
    seen: list[list[Any]] = []
    await talk.session.call_tool(
        "progress", {"n": 3}, progress=lambda p: seen.append([p.progress, p.total, p.message])
    )
    return seen


async def tool_error(talk: Talk) -> Any:
    result = await talk.session.call_tool("fail", {"reason": "on purpose"})
    return [result.is_error, "on purpose" in text_of(result)]


async def bad_arguments(talk: Talk) -> Any:
    return (await talk.session.call_tool("add", {"a": "two", "b": 3})).is_error


async def unknown_tool(talk: Talk) -> Any:
    return await code_of(talk.session.call_tool("nothing"))


async def unknown_tool_is_a_result(talk: Talk) -> Any:
    return (await talk.session.call_tool("nothing")).is_error


# ---------------------------------------------------------------- what the server asks


async def elicitation(answer: str, talk: Talk) -> Any:
    talk.answer = answer
    return await structured(talk, "ask")


async def choices(talk: Talk) -> Any:
    chosen = await structured(talk, "choose")
    question = (await talk.until("asked", "Choose"))[2]
    return [question.raw_schema, {key: chosen[key] for key in chosen if key != "day"}]


async def url_visited(talk: Talk) -> Any:
    await text(talk, "ask_url")
    return (await talk.until("visited"))[1]


async def roots(talk: Talk) -> Any:
    return (await structured(talk, "roots"))["result"]


async def roots_changed(talk: Talk) -> Any:
    await talk.session.set_roots(["file:///peer/two"])
    return await roots(talk)


# ---------------------------------------------------------------- resources, prompts


async def read_text(uri: str, talk: Talk) -> Any:
    contents = (await talk.session.read_resource(uri)).contents[0]
    assert isinstance(contents, TextResourceContents)
    return contents.text


async def read_blob(uri: str, talk: Talk) -> Any:
    contents = (await talk.session.read_resource(uri)).contents[0]
    assert isinstance(contents, BlobResourceContents)
    return contents.blob


async def unknown_resource(talk: Talk) -> Any:
    return await code_of(talk.session.read_resource("memo://no"))


async def resource_updates(talk: Talk) -> Any:
    await talk.session.subscribe("memo://notes/first")
    await talk.session.call_tool("touch", {"name": "first", "text": "1"})
    uri = (await talk.until("updated"))[1]
    await talk.session.unsubscribe("memo://notes/first")
    return uri


async def get_prompt(talk: Talk) -> Any:
    result = await talk.session.get_prompt("greet", {"name": "Ann", "style": "french"})
    return [
        [message.role, message.content.text]
        for message in result.messages
        if isinstance(message.content, TextContent)
    ]


async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: str,
    value: str,
    context: dict[str, str] | None,
    talk: Talk,
) -> Any:
    result = await talk.session.complete(ref, argument, value, context)
    return list(result.completion.values)


_GREET: Final = PromptReference(name="greet")
_NOTE: Final = ResourceTemplateReference(uri="memo://notes/{name}")

# ---------------------------------------------------------------- what the server tells


async def log(talk: Talk) -> Any:
    await talk.session.call_tool("log", {"level": "info", "text": "hello"})
    await talk.until("log")
    return talk.all("log")


async def log_level(talk: Talk) -> Any:
    await talk.session.set_log_level("warning")
    await talk.session.call_tool("log", {"level": "info", "text": "quiet"})
    await talk.session.call_tool("log", {"level": "error", "text": "loud"})
    await talk.until("log", "error")
    return talk.all("log")


async def tools_changed(talk: Talk) -> Any:
    await text(talk, "grow")
    await talk.until("tools changed")
    return "grown" in await list_tools(talk)


# ---------------------------------------------------------------- cancellation


async def give_up(talk: Talk, tool: str, arguments: dict[str, Any], *begin: Any) -> None:
    """Call *tool* and leave the call once something was heard that begins with *begin*."""

    def running(_: object) -> None:
        talk.hear("running", tool)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(talk.session.call_tool, tool, arguments, progress=running))
        await talk.until(*begin)
        nursery.cancel_scope.cancel()
    assert talk.session.statistics().outgoing == 0


async def recorded(talk: Talk, key: str) -> dict[str, Any]:
    """Return the server's record once *key* is in it: cancellation takes a moment there."""
    while True:
        record: dict[str, Any] = await structured(talk, "record")
        if key in record:
            return record
        await trio.sleep(0.02)


async def cancel_call(talk: Talk) -> Any:
    await give_up(talk, "slow", {}, "running", "slow")
    return (await recorded(talk, "slow ended"))["slow ended"]


async def cancel_silent_call(talk: Talk) -> Any:
    """The same where nothing is heard of a call that runs."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(talk.session.call_tool, "slow")
        await recorded(talk, "slow begun")
        nursery.cancel_scope.cancel()
    assert talk.session.statistics().outgoing == 0
    return (await recorded(talk, "slow ended"))["slow ended"]


async def cancel_call_that_asks(talk: Talk) -> Any:
    await give_up(talk, "hold", {}, "asked", "hold")
    record = await recorded(talk, "hold cancelled")
    await talk.until("taken back")
    return [record["hold cancelled"], record["open"], len(talk.all("taken back"))]


# ---------------------------------------------------------------- lost connections


async def lose(talk: Talk, n: int, **where: int) -> list[Any]:
    """Call a tool that reports n times, on a connection that is about to be lost."""
    seen: list[Any] = []
    result = await talk.session.call_tool(
        "progress",
        {"n": n, **where},
        progress=lambda p: seen.append([p.progress, p.total, p.message]),
    )
    return [*seen, text_of(result)]


async def cut_in_a_call(talk: Talk) -> Any:
    talk.wire.cut_after("step 1")
    seen = await lose(talk, 3)
    return seen if talk.wire.resumed else "nothing was cut"


async def hung_up_in_a_call(talk: Talk) -> Any:
    seen = await lose(talk, 3, hang_up=1)
    return seen if talk.wire.resumed else "nobody hung up"


async def cut_while_listening(talk: Talk) -> Any:
    await cut_and_listen(talk, "echo", text="cut here")
    await text(talk, "grow")
    await talk.until("tools changed")
    return "done"


async def cut_and_listen(talk: Talk, tool: str, **arguments: str) -> None:
    """Lose every connection with the answer, and wait until the client listens again."""
    cut = talk.wire.cut_after("cut here")
    await talk.session.call_tool(tool, arguments)
    await cut.wait()
    await talk.wire.listening.wait()


CHECKS: Final[dict[str, Check]] = {
    "initialize": initialize,
    "ping": ping,
    "list tools": list_tools,
    "list resources": list_resources,
    "list resource templates": list_templates,
    "list prompts": list_prompts,
    "call a tool": partial(text, tool="echo", text="grüße 🙂"),
    "structured content": structured_content,
    "kinds of content": kinds_of_content,
    "concurrent calls": concurrent_calls,
    "progress": progress,
    "tool error": tool_error,
    "bad arguments": bad_arguments,
    "unknown tool": unknown_tool,
    "sampling": partial(text, tool="sample", prompt="a poem"),
    "sampling with tools": partial(text, tool="sample_with_tools", city="Oslo"),
    "elicitation: accept": partial(elicitation, "accept"),
    "elicitation: decline": partial(elicitation, "decline"),
    "elicitation: cancel": partial(elicitation, "cancel"),
    "elicitation: choices": choices,
    "elicitation: url": partial(text, tool="ask_url"),
    "elicitation: url visited": url_visited,
    "roots": roots,
    "roots changed": roots_changed,
    "read text": partial(read_text, "memo://text"),
    "read blob": partial(read_blob, "memo://blob"),
    "read through a template": partial(read_text, "memo://notes/first"),
    "resource updates": resource_updates,
    "unknown resource": unknown_resource,
    "get a prompt": get_prompt,
    "complete a prompt": partial(complete, _GREET, "style", "f", None),
    "complete with context": partial(complete, _GREET, "style", "", {"name": "Marianne"}),
    "complete a template": partial(complete, _NOTE, "name", "fi", None),
    "log": log,
    "log level": log_level,
    "tools changed": tools_changed,
    "cancel a call": cancel_call,
    "cancel a call that asks": cancel_call_that_asks,
    "cut in a call": cut_in_a_call,
    "hung up in a call": hung_up_in_a_call,
    "cut while listening": cut_while_listening,
}
