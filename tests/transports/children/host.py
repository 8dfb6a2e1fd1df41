"""A host that starts a server, says which process it is, and waits to be killed."""

from __future__ import annotations

import ast
import sys

import trio

from mcp_trio.transports.stdio import open_child


async def main() -> None:
    child = await open_child(ast.literal_eval(sys.argv[1]))
    sys.stdout.write(f"{child.pid}\n")
    sys.stdout.flush()
    await trio.sleep_forever()


trio.run(main)
