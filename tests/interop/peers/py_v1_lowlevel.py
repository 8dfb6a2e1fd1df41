"""The official Python SDK, version 1: what only its low-level server takes part in."""

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
state = {"level": "debug", "watched": set()}
server = Server("everything", version="1.0")


@server.list_tools()
async def list_tools():
    schema = {"type": "object"}
    return [types.Tool(name=name, inputSchema=schema) for name in ("log", "touch")]


@server.call_tool()
async def call_tool(name, args):
    session = server.request_context.session
    if name == "log" and LEVELS.index(args["level"]) >= LEVELS.index(state["level"]):
        await session.send_log_message(args["level"], {"text": args["text"]})
    uri = f"memo://notes/{args.get('name')}"
    if name == "touch" and uri in state["watched"]:
        await session.send_resource_updated(uri)
    return []


@server.list_resources()
async def list_resources():
    return []


@server.subscribe_resource()
async def subscribe(uri):
    state["watched"].add(str(uri))


@server.unsubscribe_resource()
async def unsubscribe(uri):
    state["watched"].discard(str(uri))


@server.set_logging_level()
async def set_level(level):
    state["level"] = level


async def main():
    options = server.create_initialization_options()
    options.capabilities.resources.subscribe = True  # it never declares that of itself
    async with stdio_server() as (read, write):
        await server.run(read, write, options)


anyio.run(main)
