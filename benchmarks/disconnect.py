"""How soon after its client has left is a handler cancelled, while many others wait?

usage: python -m benchmarks.disconnect [--waiting N] [--rounds N] [--streams]

Starts a server as a child in which ``--waiting`` handlers of revision 2026-07-28 wait, each
for a client on a connection of its own. In each of ``--rounds`` rounds one client closes its
connection, and is replaced. Measured is the time from that close to the handler's
``Cancelled``, by a clock that both processes share. Printed are p50, p99 and the slowest, in
milliseconds; p99 should be below 5. With ``--streams`` the handlers have reported progress,
so that their responses have begun. Each client takes a descriptor in either process.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import subprocess
import sys
import time
from functools import partial
from itertools import count

import trio

from mcp_trio import Context, Limits, Server, serve_http
from mcp_trio.wire.revisions import ENVELOPED

NOW = ENVELOPED[-1].version
PREFIX = "io.modelcontextprotocol/"
GOAL = 5.0


# ---------------------------------------------------------------- the child


async def serve() -> None:
    """Serve ``wait``; write a line when a handler begins, and one with the time when it ends."""
    limits = Limits(in_flight_total=100_000)
    server = Server("disconnect", version="1", limits=limits, revisions=[NOW])

    @server.tool
    async def wait(ctx: Context, name: int, talk: bool) -> str:  # noqa: FBT001 - a tool
        if talk:
            await ctx.progress(1)
        print(json.dumps([name, 0]), flush=True)
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            print(json.dumps([name, time.monotonic_ns()]), flush=True)
            raise
        return ""

    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server))
        print(json.dumps(http.url), flush=True)


# ---------------------------------------------------------------- the clients


class Child:
    """The server's process, and what it says of its handlers."""

    def __init__(self, process: trio.Process) -> None:
        assert process.stdout is not None
        self._lines = process.stdout
        self._buffer = b""

    async def line(self) -> object:
        while b"\n" not in self._buffer:
            data = await self._lines.receive_some()
            if not data:
                raise SystemExit("the server has ended")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    async def told(self, name: int) -> int:
        """Return the time that comes with the next line, which is about *name*."""
        line = await self.line()
        assert isinstance(line, list)
        assert line[0] == name, f"{line} instead of {name}"
        return int(line[1])


def request(name: int, *, talk: bool) -> bytes:
    meta = {
        f"{PREFIX}protocolVersion": NOW,
        f"{PREFIX}clientCapabilities": {},
        "progressToken": name,
    }
    params = {"name": "wait", "arguments": {"name": name, "talk": talk}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": params}
    body = json.dumps(message).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"MCP-Protocol-Version: {NOW}\r\nMcp-Method: tools/call\r\nMcp-Name: wait\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def begin(child: Child, port: int, name: int, *, talk: bool) -> trio.SocketStream:
    """Return a connection on which the handler *name* waits."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    await stream.send_all(request(name, talk=talk))
    await child.told(name)
    if talk:
        await stream.receive_some()
    return stream


async def measure(child: Child, port: int, args: argparse.Namespace) -> list[float]:
    """Return the time of each round (ms)."""
    names, waiting = count(), []
    chance = random.Random(0)  # noqa: S311 - a load, no secret
    for _ in range(args.waiting):
        name = next(names)
        waiting.append((name, await begin(child, port, name, talk=args.streams)))
    times = []
    for _ in range(args.rounds):
        await trio.sleep(0.005)  # the newest is watched
        at = chance.randrange(len(waiting))
        name, stream = waiting[at]
        closed = time.monotonic_ns()
        await trio.aclose_forcefully(stream)
        times.append((await child.told(name) - closed) / 1e6)
        name = next(names)
        waiting[at] = name, await begin(child, port, name, talk=args.streams)
    for _, stream in waiting:
        await trio.aclose_forcefully(stream)
    return times


async def run(args: argparse.Namespace) -> None:
    command = [sys.executable, "-m", "benchmarks.disconnect", "--serve"]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, check=False, stdout=subprocess.PIPE)
        process = await nursery.start(start)
        try:
            child = Child(process)
            url = await child.line()
            port = int(str(url).rpartition(":")[2].partition("/")[0])
            times = sorted(await measure(child, port, args))
        finally:
            process.kill()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(
        f"{args.waiting} waiting, {args.rounds} rounds: from close to Cancelled "
        f"p50 {p50:.2f} ms, p99 {p99:.2f} ms (goal {GOAL:g}), slowest {times[-1]:.2f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waiting", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--streams", action="store_true", help="the responses have begun")
    parser.add_argument("--serve", action="store_true", help="be the child")
    args = parser.parse_args()
    gc.collect()
    gc.freeze()  # see docs/design.md on garbage
    if args.serve:
        gc.set_threshold(50_000, 10, 100)
        trio.run(serve)
        return
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # the child has it from here
    trio.run(run, args)


if __name__ == "__main__":
    main()
