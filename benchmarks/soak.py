"""A server under load for a while: does its memory stay, does a call's cost stay?

usage: python -m benchmarks.soak [--minutes M] [--sessions N] [--idle N]

Starts ``benchmarks.server --http`` as a child. First, what a call costs it with 10 sessions
open and with ``--idle`` of them (CPU of the server, medians; each may take two descriptors in
either process, so that ``ulimit -n`` bounds the number). Then ``--sessions`` sessions
come and go for ``--minutes``: each connects, calls, reports progress, and closes. Printed are
the server's resident memory after the first minute and at the end, and their ratio.
"""

from __future__ import annotations

import argparse
import random
import socket
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import trio

from mcp_trio import Client, ClientSession, connect_http

TEXT = "hello world, this is a typical short tool argument"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def cpu_us(pid: int) -> float:
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e3


async def wait_up(port: int) -> None:
    for _ in range(200):
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            await trio.sleep(0.05)
        else:
            await stream.aclose()
            return
    raise SystemExit("the server did not come up")


async def hold(url: str, *, task_status: trio.TaskStatus[ClientSession]) -> None:
    async with connect_http(url, client=Client("soak", version="1")) as session:
        task_status.started(session)
        await trio.sleep_forever()


async def cost(session: ClientSession, pid: int, calls: int = 500) -> float:
    """Return the server's CPU for one call (us), the median of five rounds."""
    rounds = []
    for _ in range(5):
        before = cpu_us(pid)
        for _ in range(calls):
            await session.call_tool("echo", {"text": TEXT})
        rounds.append((cpu_us(pid) - before) / calls)
    return statistics.median(rounds)


async def idle_cost(url: str, pid: int, idle: int) -> None:
    async with trio.open_nursery() as nursery:
        session: Any = None
        for _ in range(10):
            session = await nursery.start(partial(hold, url))
        few = await cost(session, pid)
        for _ in range(idle - 10):
            await nursery.start(partial(hold, url))
        many = await cost(session, pid)
        ratio = many / few
        print(
            f"a call with 10 sessions open: {few:.0f} us; with {idle}: {many:.0f} us; {ratio:.2f}",
            flush=True,
        )
        nursery.cancel_scope.cancel()


async def come_and_go(url: str, until: float, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a load, no secret
    while time.monotonic() < until:
        async with connect_http(url, client=Client("soak", version="1")) as session:
            for _ in range(chance.randrange(1, 20)):
                await session.call_tool("echo", {"text": TEXT * chance.randrange(1, 50)})
                await trio.sleep(chance.random() * 0.1)
            await session.call_tool("progress", {"n": 20}, progress=lambda _: None)


async def soak(url: str, pid: int, sessions: int, minutes: float) -> None:
    until = time.monotonic() + minutes * 60
    settled = 0
    async with trio.open_nursery() as nursery:
        for seed in range(sessions):
            nursery.start_soon(come_and_go, url, until, seed)
        await trio.sleep(min(60, minutes * 30))
        settled = rss_kib(pid)
        print(f"after the first minute: {settled} KiB", flush=True)
    end = rss_kib(pid)
    print(f"at the end: {end} KiB; ratio {end / settled:.3f}")


async def run(args: argparse.Namespace) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = [sys.executable, "-m", "benchmarks.server", "--http", str(port)]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, check=False)
        process = await nursery.start(start)
        try:
            await wait_up(port)
            if args.idle:
                await idle_cost(url, process.pid, args.idle)
            if args.minutes:
                await soak(url, process.pid, args.sessions, args.minutes)
        finally:
            process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--idle", type=int, default=0, help="compare with this many idle sessions")
    trio.run(run, parser.parse_args())


if __name__ == "__main__":
    main()
