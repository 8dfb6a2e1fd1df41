"""A server to measure: ``echo`` and ``progress``, on the public API, checks and all.

usage: python -m benchmarks.server --stdio | --http PORT [--sse]
"""

from __future__ import annotations

import argparse
import gc
from functools import partial

import trio

from mcp_trio import Context, Limits, Server, serve_http, serve_stdio
from mcp_trio.wire.revisions import REVISIONS

server = Server(
    "bench",
    version="1",
    limits=Limits(in_flight=20_000, in_flight_total=20_000),
    revisions=[*REVISIONS],
)


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
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--stdio", action="store_true", help="serve stdin and stdout")
    where.add_argument("--http", type=int, metavar="PORT", help="serve Streamable HTTP")
    parser.add_argument("--sse", action="store_true", help="answer with event streams only")
    args = parser.parse_args()
    # What every server with many calls or sessions open should do; see docs/design.md.
    gc.freeze()
    gc.set_threshold(50_000, 10, 100)
    if args.stdio:
        trio.run(serve_stdio, server)
    else:
        trio.run(partial(serve_http, server, args.http, answers="sse" if args.sse else "both"))


if __name__ == "__main__":
    main()
