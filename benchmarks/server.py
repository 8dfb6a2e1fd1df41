"""A server to measure: ``echo`` and ``progress``, on the public API, checks and all.

usage: python -m benchmarks.server --stdio
"""

from __future__ import annotations

import argparse

import trio

from mcp_trio import Context, Limits, Server, serve_stdio

server = Server("bench", version="1", limits=Limits(in_flight=20_000, in_flight_total=20_000))


@server.tool
async def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
async def progress(ctx: Context, n: int) -> str:
    """Send n progress notifications."""
    for i in range(n):
        await ctx.progress(i, n)
    return "done"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stdio", action="store_true", required=True, help="serve stdin/stdout")
    parser.parse_args()
    trio.run(serve_stdio, server)


if __name__ == "__main__":
    main()
