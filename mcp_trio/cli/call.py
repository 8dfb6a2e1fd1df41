"""``mcp-trio call``: call a tool with arguments from the command line."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from mcp_trio.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from .client import connect, make_client, print_json, to_json
from .outcome import CommandError, Exit, plain, run_async
from .terminal import Terminal
from .values import parse_pairs, typed

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_trio.client import ClientSession

__all__ = ["run"]


def run(options: argparse.Namespace) -> Exit:
    """Call the tool and print its result."""
    pairs = parse_pairs(options.arguments)
    client = make_client(options)
    terminal = Terminal()
    client.elicitation(url=True)(terminal.ask)
    client.log(terminal.log)

    async def command() -> Exit:
        async with connect(options, client) as session:
            schema: Mapping[str, Any] = {}
            if any(not pair.json for pair in pairs):
                schema = await _schema_of(session, options.tool)
            arguments = typed(pairs, schema)
            try:
                result = await session.call_tool(
                    options.tool, arguments, progress=terminal.progress
                )
            finally:
                terminal.clear()
            if options.json:
                print_json(to_json(session, result))
            return _show(result, options.tool, quiet=options.json)

    return run_async(command)


async def _schema_of(session: ClientSession, name: str) -> Mapping[str, Any]:
    """Return the tool's schema; of one that is not listed nothing is known."""
    async for tool in session.list_tools():
        if tool.name == name:
            return tool.input_schema
    return {}


def _show(result: CallToolResult, tool: str, *, quiet: bool) -> Exit:
    text = "\n".join(_describe(block) for block in result.content)
    if result.is_error:
        raise CommandError(f"{tool} says error: {text or 'and nothing else'}", Exit.TOOL_ERROR)
    if not quiet:
        if not result.content and isinstance(result.structured_content, dict):
            text = msgspec.json.encode(result.structured_content).decode()
        # A program that reads the text gets it as it is.
        print(plain(text, keep="\n\t") if sys.stdout.isatty() else text, flush=True)
    return Exit.OK


def _describe(block: object) -> str:
    match block:
        case TextContent(text=text) | EmbeddedResource(resource=TextResourceContents(text=text)):
            return text
        case ImageContent(data=data, mime_type=kind) | AudioContent(data=data, mime_type=kind):
            return f"[{kind}, {len(base64.b64decode(data))} bytes; --json shows them]"
        case ResourceLink(uri=uri, name=name):
            return f"[{name}: {uri}]"
        case EmbeddedResource(resource=resource):
            return f"[{resource.uri}, {resource.mime_type}; --json shows it]"
    return f"[{type(block).__name__}; --json shows it]"
