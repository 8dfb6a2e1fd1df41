"""Servers that are published as programs, each with tools of its own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import evolve

from mcp_trio.types import PromptReference, ResourceTemplateReference
from tests.interop import checks, install
from tests.interop.checks import CHECKS, text_of
from tests.interop.features import RESUMED, SEEN
from tests.interop.peer import ServerPeer

if TYPE_CHECKING:
    from .talk import Talk

__all__ = ["EVERYTHING", "EVERYTHING_HTTP", "EVERYTHING_SSE", "FILES", "MEMORY"]

# ---------------------------------------------------------------- server-everything

_TEXT: Final = "demo://resource/dynamic/text/7"
_TEAM: Final = PromptReference(name="completable-prompt")
_NUMBER: Final = ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")


async def _call(tool: str, arguments: dict[str, Any], talk: Talk) -> list[str]:
    """Return the kinds of blocks and, for text, the first words."""
    result = await talk.session.call_tool(tool, arguments)
    return [getattr(block, "text", block.type)[:40] for block in result.content]


async def _structured(tool: str, arguments: dict[str, Any], talk: Talk) -> Any:
    await talk.session.list_tools().all()  # so that the result is held to its schema
    return (await talk.session.call_tool(tool, arguments)).structured_content


async def _is_error(tool: str, arguments: dict[str, Any], talk: Talk) -> Any:
    return (await talk.session.call_tool(tool, arguments)).is_error


async def _concurrent(tool: str, talk: Talk) -> Any:
    """Call *tool* twenty times at once, and return how many gave what one gives alone."""
    alone = text_of(await talk.session.call_tool(tool))
    found: list[str] = []

    async def one() -> None:
        found.append(text_of(await talk.session.call_tool(tool)))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(one)
    return found.count(alone)


async def _progress(talk: Talk) -> Any:
    seen: list[list[Any]] = []
    await talk.session.call_tool(
        "trigger-long-running-operation",
        {"duration": 0.3, "steps": 3},
        progress=lambda p: seen.append([p.progress, p.total]),
    )
    return seen


async def _sampling(talk: Talk) -> Any:
    result = await talk.session.call_tool("trigger-sampling-request", {"prompt": "a poem"})
    return "a reply to Resource trigger-sampling-request context: a poem" in text_of(result)


async def _elicitation(answer: str, talk: Talk) -> Any:
    talk.answer, talk.form = answer, {"name": "Ann"}
    return await _call("trigger-elicitation-request", {}, talk)


async def _choices(talk: Talk) -> Any:
    """Accept with nothing but the name: the form's defaults are filled in."""
    talk.form = {"name": "Ann"}
    result = await talk.session.call_tool("trigger-elicitation-request")
    raw = getattr(result.content[-1], "text", "")
    return [name in raw for name in ("Monica", "Guitar", "hero-1", "fish-1", "pet-1")]


async def _roots(talk: Talk) -> Any:
    result = await talk.session.call_tool("get-roots-list")
    return "URI: file:///peer/one\n" in text_of(result)


async def _roots_changed(talk: Talk) -> Any:
    await talk.session.call_tool("get-roots-list")
    await talk.session.set_roots(["file:///peer/two", "file:///peer/three"])
    await talk.until("log", "info", "Roots updated: 2 root(s) received from client")
    return text_of(await talk.session.call_tool("get-roots-list")).count("file:///peer/")


async def _read(uri: str, talk: Talk) -> Any:
    contents = (await talk.session.read_resource(uri)).contents[0]
    return [contents.uri, contents.mime_type]


async def _read_document(talk: Talk) -> Any:
    resources = await talk.session.list_resources().all()
    return len(await checks.read_text(resources[0].uri, talk)) > 0


async def _updates(talk: Talk) -> Any:
    await talk.session.subscribe(_TEXT)
    await talk.session.call_tool("toggle-subscriber-updates")
    uri = (await talk.until("updated"))[1]
    await talk.session.unsubscribe(_TEXT)
    return uri


async def _prompt(talk: Talk) -> Any:
    result = await talk.session.get_prompt("args-prompt", {"city": "Oslo"})
    return [[message.role, getattr(message.content, "text", None)] for message in result.messages]


async def _log(talk: Talk) -> Any:
    await talk.session.subscribe(_TEXT)
    return (await talk.until("log"))[1]


async def _log_level(talk: Talk) -> Any:
    await talk.session.call_tool(
        "get-roots-list"
    )  # which logs that there are roots, the first time
    await talk.until("log")
    before = len(talk.all("log"))
    await talk.session.set_log_level("error")
    await talk.session.subscribe(_TEXT)  # which logs at info
    await talk.session.ping()
    return talk.all("log")[before:]


async def _cancel(talk: Talk) -> Any:
    """The server runs on, without a word: the connection is as good as before."""
    tool = "trigger-long-running-operation"
    await checks.give_up(talk, tool, {"duration": 0.5, "steps": 5}, "running", tool)
    return [await checks.ping(talk), talk.session.statistics().outgoing]


async def _tools_changed(talk: Talk) -> Any:
    await talk.until("tools changed")  # when it knows what the client can do
    return await _conditional_tools(talk)


async def _conditional_tools(talk: Talk) -> Any:
    return "trigger-url-elicitation" in await checks.list_tools(talk)


async def _cut_while_listening(talk: Talk) -> Any:
    await checks.cut_and_listen(talk, "echo", message="cut here")
    await _updates(talk)
    return "done"


EVERYTHING: Final = ServerPeer(
    title="server-everything",
    install=install.SERVERS,
    program="@modelcontextprotocol/server-everything/dist/index.js",
    args=("stdio",),
    shutdown_wait=0.1,  # it does not end with its stdin
    checks={
        **CHECKS,
        "list tools": _tools_changed,
        "call a tool": partial(_call, "echo", {"message": "grüße 🙂"}),
        "structured content": partial(
            _structured, "get-structured-content", {"location": "Chicago"}
        ),
        "kinds of content": partial(_call, "get-tiny-image", {}),
        "concurrent calls": partial(_concurrent, "get-tiny-image"),
        "progress": _progress,
        "tool error": partial(_is_error, "get-resource-reference", {"resourceId": 0}),
        "bad arguments": partial(_is_error, "get-sum", {"a": "two", "b": 3}),
        "unknown tool": partial(_is_error, "nothing", {}),
        "sampling": _sampling,
        "elicitation: accept": partial(_elicitation, "accept"),
        "elicitation: decline": partial(_elicitation, "decline"),
        "elicitation: cancel": partial(_elicitation, "cancel"),
        "elicitation: choices": _choices,
        "elicitation: url": partial(
            _call, "trigger-url-elicitation", {"url": "https://example.org/pay"}
        ),
        "roots": _roots,
        "roots changed": _roots_changed,
        "read text": _read_document,
        "read blob": partial(_read, "demo://resource/dynamic/blob/7"),
        "read through a template": partial(_read, _TEXT),
        "resource updates": _updates,
        "get a prompt": _prompt,
        "complete a prompt": partial(checks.complete, _TEAM, "department", "S", None),
        "complete with context": partial(
            checks.complete, _TEAM, "name", "", {"department": "Sales"}
        ),
        "complete a template": partial(checks.complete, _NUMBER, "resourceId", "12", None),
        "log": _log,
        "log level": _log_level,
        "tools changed": _tools_changed,
        "cancel a call": _cancel,
        "cut while listening": _cut_while_listening,
    },
    seen={
        "initialize": ["mcp-servers/everything", "2.0.0", "2025-11-25"],
        "list tools": True,
        "list resources": [
            f"demo://resource/static/document/{name}.md"
            for name in (
                "architecture",
                "extension",
                "features",
                "how-it-works",
                "instructions",
                "startup",
                "structure",
            )
        ],
        "list resource templates": [
            "demo://resource/dynamic/blob/{resourceId}",
            "demo://resource/dynamic/text/{resourceId}",
        ],
        "list prompts": [
            ["simple-prompt", []],
            ["args-prompt", [["city", True], ["state", False]]],
            ["completable-prompt", [["department", True], ["name", True]]],
            ["resource-prompt", [["resourceType", True], ["resourceId", True]]],
        ],
        "call a tool": ["Echo: grüße 🙂"],
        "structured content": {
            "temperature": 36,
            "conditions": "Light rain / drizzle",
            "humidity": 82,
        },
        "kinds of content": [
            "Here's the image you requested:",
            "image",
            "The image above is the MCP logo.",
        ],
        "concurrent calls": 20,
        "progress": [[1, 3], [2, 3], [3, 3]],
        "tool error": True,
        "unknown tool": True,
        "sampling": True,
        "elicitation: accept": [
            "✅ User provided the requested informatio",
            "User inputs:\n- Name: Ann\n- Favorite Inte",
            '\nRaw result: {\n  "action": "accept",\n  "',
        ],
        "elicitation: decline": [
            "❌ User declined to provide the requested",
            '\nRaw result: {\n  "action": "decline"\n}',
        ],
        "elicitation: cancel": [
            "⚠️ User cancelled the elicitation dialog",
            '\nRaw result: {\n  "action": "cancel"\n}',
        ],
        "elicitation: choices": [True] * 5,
        "elicitation: url": [
            "✅ User completed the URL elicitation flo",
            '\nRaw result: {\n  "action": "accept"\n}',
        ],
        "roots": True,
        "roots changed": 2,
        "read text": True,
        "read blob": ["demo://resource/dynamic/blob/7", "text/plain"],
        "read through a template": [_TEXT, "text/plain"],
        "resource updates": _TEXT,
        "unknown resource": -32602,
        "get a prompt": [["user", "What's weather in Oslo?"]],
        "complete a prompt": ["Sales", "Support"],
        "complete with context": ["David", "Eve", "Frank"],
        "complete a template": ["12"],
        "log": "info",
        "log level": [],
        "cancel a call": [True, 0],
    },
    lacks={
        "sampling with tools": "it never sends tools",
        "elicitation: url visited": "it never tells of the end",
        "cancel a call that asks": "a cancelled tool does not take its question back",
    },
)

_EVENTLESS: Final = "no event has an id in HTTP+SSE"

EVERYTHING_HTTP: Final = evolve(
    EVERYTHING,
    transport="streamable",
    args=("streamableHttp",),
    env={"PORT": "{port}"},
    checks={**EVERYTHING.checks, "list tools": _conditional_tools},
    lacks={
        **EVERYTHING.lacks,
        "tools changed": "it tells as the session begins, before a client can listen",
        "cut in a call": "once it has replayed a stream, nothing more comes on it",
        "hung up in a call": "it never hangs up",
    },
)

EVERYTHING_SSE: Final = evolve(
    EVERYTHING_HTTP,
    title="server-everything, HTTP+SSE",
    transport="sse",
    path="/sse",
    args=("sse",),
    checks=EVERYTHING.checks,
    lacks={**EVERYTHING.lacks, **dict.fromkeys(RESUMED, _EVENTLESS)},
)

# ---------------------------------------------------------------- the two that do something


def _all_but(*has: str) -> dict[str, str]:
    return {name: "it has nothing of the kind" for name in SEEN if name not in has}


async def _files(talk: Talk) -> Any:
    """Write a file in the first root, and read it."""
    allowed = text_of(await talk.session.call_tool("list_allowed_directories"))
    path = allowed.splitlines()[-1] + "/note.txt"
    await talk.session.call_tool("write_file", {"path": path, "content": "grüße 🙂"})
    return text_of(await talk.session.call_tool("read_text_file", {"path": path}))


async def _allowed(talk: Talk) -> Any:
    result = await talk.session.call_tool("list_allowed_directories")
    assert isinstance(result.structured_content, Mapping)
    return result.structured_content["content"] == text_of(result)


async def _other_root(talk: Talk) -> Any:
    await talk.session.set_roots(["file:///"])
    while True:
        if text_of(await talk.session.call_tool("list_allowed_directories")).endswith("\n/"):
            return True


async def _media(talk: Talk) -> Any:
    folder = text_of(await talk.session.call_tool("list_allowed_directories")).splitlines()[-1]
    path = f"{folder}/note.bin"
    await talk.session.call_tool("write_file", {"path": path, "content": "bytes"})
    result = await talk.session.call_tool("read_media_file", {"path": path})
    return [block.type for block in result.content]


FILES: Final = ServerPeer(
    title="server-filesystem",
    install=install.SERVERS,
    program="@modelcontextprotocol/server-filesystem/dist/index.js",
    args=("{folder}",),
    roots=("file://{folder}",),
    checks={
        **CHECKS,
        "call a tool": _files,
        "structured content": _allowed,
        "kinds of content": _media,
        "concurrent calls": partial(_concurrent, "list_allowed_directories"),
        "tool error": partial(_is_error, "read_text_file", {"path": "/etc/hostname"}),
        "bad arguments": partial(_is_error, "read_text_file", {"path": 1}),
        "unknown tool": partial(_is_error, "nothing", {}),
        "roots": partial(_is_error, "list_directory", {"path": "/"}),
        "roots changed": _other_root,
    },
    seen={
        "initialize": ["secure-filesystem-server", "0.2.0", "2025-11-25"],
        "list tools": [
            "create_directory",
            "directory_tree",
            "edit_file",
            "get_file_info",
            "list_allowed_directories",
            "list_directory",
            "list_directory_with_sizes",
            "move_file",
            "read_file",
            "read_media_file",
            "read_multiple_files",
            "read_text_file",
            "search_files",
            "write_file",
        ],
        "structured content": True,
        "kinds of content": ["resource"],
        "concurrent calls": 20,
        "tool error": True,
        "unknown tool": True,
        "roots": True,
        "roots changed": True,
    },
    lacks=_all_but(
        "initialize",
        "ping",
        "list tools",
        "call a tool",
        "structured content",
        "kinds of content",
        "concurrent calls",
        "tool error",
        "bad arguments",
        "unknown tool",
        "roots",
        "roots changed",
    ),
)

_ANN: Final = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
_STRANGE: Final = {"observations": [{"entityName": "nobody", "contents": ["is not there"]}]}


async def _remember(talk: Talk) -> Any:
    await talk.session.call_tool("create_entities", {"entities": [_ANN]})
    return await _structured("search_nodes", {"query": "tea"}, talk)


async def _graph_uri(talk: Talk) -> str:
    (resource,) = await talk.session.list_resources().all()
    return resource.uri


async def _read_graph(talk: Talk) -> Any:
    await talk.session.call_tool("create_entities", {"entities": [_ANN]})
    return "likes tea" in await checks.read_text(await _graph_uri(talk), talk)


async def _graph_updates(talk: Talk) -> Any:
    uri = await _graph_uri(talk)
    await talk.session.subscribe(uri)
    await talk.session.call_tool("create_entities", {"entities": [_ANN]})
    return (await talk.until("updated"))[1] == uri


MEMORY: Final = ServerPeer(
    title="server-memory",
    install=install.SERVERS,
    program="@modelcontextprotocol/server-memory/dist/index.js",
    env={"MEMORY_FILE_PATH": "{folder}/memory.jsonl"},
    checks={
        **CHECKS,
        "call a tool": partial(_call, "read_graph", {}),
        "structured content": _remember,
        "concurrent calls": partial(_concurrent, "read_graph"),
        "tool error": partial(_is_error, "add_observations", _STRANGE),
        "bad arguments": partial(_is_error, "search_nodes", {"query": 1}),
        "unknown tool": partial(_is_error, "nothing", {}),
        "read text": _read_graph,
        "resource updates": _graph_updates,
    },
    seen={
        "initialize": ["memory-server", "0.6.3", "2025-11-25"],
        "list tools": [
            "add_observations",
            "create_entities",
            "create_relations",
            "delete_entities",
            "delete_observations",
            "delete_relations",
            "open_nodes",
            "read_graph",
            "search_nodes",
        ],
        "list resources": ["memory://knowledge-graph"],
        "call a tool": ['{\n  "entities": [],\n  "relations": []\n}'],
        "structured content": {"entities": [_ANN], "relations": []},
        "concurrent calls": 20,
        "tool error": True,
        "unknown tool": True,
        "read text": True,
        "resource updates": True,
        "unknown resource": -32602,
    },
    lacks=_all_but(
        "initialize",
        "ping",
        "list tools",
        "list resources",
        "call a tool",
        "structured content",
        "concurrent calls",
        "tool error",
        "bad arguments",
        "unknown tool",
        "read text",
        "resource updates",
        "unknown resource",
    ),
)
