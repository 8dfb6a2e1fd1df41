"""A client that drives the weather server: lists its tools, calls one, reads a resource.

python -m mcp_trio.examples.agent
"""

from __future__ import annotations

import sys

import trio

from mcp_trio import Client, connect_stdio
from mcp_trio.types import TextResourceContents

SERVER = [sys.executable, "-m", "mcp_trio.examples.weather"]

client = Client("agent", version="1.0")


async def main() -> None:
    """Print what the server offers and says."""
    async with connect_stdio(SERVER, client=client) as session:
        async for tool in session.list_tools():
            print(f"{session.server_info.name} offers {tool.name}: {tool.description}")

        async with session.open_call("forecast", {"city": "Oslo", "days": 2}) as call:
            async for update in call.updates:
                print(f"working: {update.message}")
            result = await call.wait_result()
        print(f"result: {result.structured_content}")

        with trio.move_on_after(0.2) as scope:  # leaving the scope cancels the call at the server
            await session.call_tool("forecast", {"city": "Oslo", "days": 100})
        print(f"a long forecast, given up: {scope.cancelled_caught}")

        read = await session.read_resource("weather://Oslo/current")
        for contents in read.contents:
            if isinstance(contents, TextResourceContents):
                print(f"{contents.uri}: {contents.text}")


if __name__ == "__main__":
    trio.run(main)
