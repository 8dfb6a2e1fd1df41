"""The official Python SDK, version 2: what only its low-level server takes part in.

usage: py_v2_lowlevel.py [PORT sse|json]
"""

import sys
import warnings

import anyio
import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server

warnings.simplefilter("ignore")  # deprecated by the next revision
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
state = {"level": "debug", "watched": set()}


async def list_tools(ctx, params):
    schema = {"type": "object"}
    tools = [types.Tool(name=name, input_schema=schema) for name in ("log", "touch")]
    return types.ListToolsResult(tools=tools)


async def call_tool(ctx, params):
    args = params.arguments
    if params.name == "log" and LEVELS.index(args["level"]) >= LEVELS.index(state["level"]):
        await ctx.session.send_log_message(args["level"], {"text": args["text"]})
    uri = f"memo://notes/{args.get('name')}"
    if params.name == "touch" and uri in state["watched"]:
        await ctx.session.send_resource_updated(uri)
    return types.CallToolResult(content=[])


async def list_resources(ctx, params):
    return types.ListResourcesResult(resources=[])


async def subscribe(ctx, params):
    state["watched"].add(str(params.uri))
    return types.EmptyResult()


async def unsubscribe(ctx, params):
    state["watched"].discard(str(params.uri))
    return types.EmptyResult()


async def set_level(ctx, params):
    state["level"] = params.level
    return types.EmptyResult()


async def main():
    server = Server(
        "everything",
        version="1.0",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_subscribe_resource=subscribe,
        on_unsubscribe_resource=unsubscribe,
        on_set_logging_level=set_level,
    )
    if sys.argv[1:]:
        app = server.streamable_http_app(json_response=sys.argv[2] == "json")
        config = uvicorn.Config(app, port=int(sys.argv[1]), log_level="error")
        await uvicorn.Server(config).serve()
        return
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


anyio.run(main)
