"""Measures our client against a reference server; prints one JSON object.

usage: python -m benchmarks.client stdio|http --ref PATH/ref_server.py [--secs S]

The reference server is started with the python that REF_PYTHON names (it may need packages
that this one lacks). Figures: calls in a row, 64 at once, progress notifications received,
how fast a cancellation arrives, and K calls outstanding that are answered in FIFO, reverse
and random order (stdio only).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import statistics
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from mcp_trio import Client, ClientSession, Limits, connect_http, connect_stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TEXT = "hello world, this is a typical short tool argument"
GATES = [(k, how) for k in (100, 1_000, 10_000) for how in ("fifo", "reverse", "random")]


def schedule() -> tuple[float, float]:
    """Return this process's CPU seconds, and the seconds it waited for a core."""
    used = waited = 0.0
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "schedstat").read_text().split()
        used += int(fields[0]) / 1e9
        waited += int(fields[1]) / 1e9
    return used, waited


class Meter:
    """Wall time and CPU from here on; ``quiet`` leaves out the waiting for a core."""

    def __init__(self) -> None:
        self._start = (*schedule(), time.perf_counter())

    def done(self, n: int) -> dict[str, float]:
        used, waited, wall = (
            b - a for a, b in zip(self._start, (*schedule(), time.perf_counter()), strict=True)
        )
        return {
            "n": n,
            "per_s": n / wall,
            "quiet_per_s": n / max(wall - waited, used),
            "cpu_us": used / n * 1e6,
            "wall_us": wall / n * 1e6,
        }


class Log:
    """What the reference server saw."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def read(self) -> list[dict[str, Any]]:
        lines = self.path.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    async def wait(self, skip: int, *kinds: str) -> list[dict[str, Any]]:
        """Return the events of *kinds* after the first *skip*, waiting at most two seconds."""
        for _ in range(200):
            found = [event for event in self.read()[skip:] if event["ev"] in kinds]
            if found:
                return found
            await trio.sleep(0.01)
        return []


async def echo(session: ClientSession) -> Any:
    return await session.call_tool("echo", {"text": TEXT})


async def sequential(session: ClientSession, secs: float) -> dict[str, float]:
    latencies = []
    meter, end = Meter(), time.perf_counter() + secs
    while (start := time.perf_counter()) < end:
        await echo(session)
        latencies.append(time.perf_counter() - start)
    latencies.sort()
    n = len(latencies)
    return {
        **meter.done(n),
        "p50_us": latencies[n // 2] * 1e6,
        "p99_us": latencies[int(n * 0.99)] * 1e6,
    }


async def concurrent(session: ClientSession, secs: float, width: int = 64) -> dict[str, float]:
    count = 0
    meter, end = Meter(), time.perf_counter() + secs

    async def loop() -> None:
        nonlocal count
        while time.perf_counter() < end:
            await echo(session)
            count += 1

    async with trio.open_nursery() as nursery:
        for _ in range(width):
            nursery.start_soon(loop)
    return meter.done(count)


async def progress(session: ClientSession, n: int = 2_000) -> dict[str, float]:
    seen: list[object] = []
    meter = Meter()
    await session.call_tool("progress", {"n": n}, progress=seen.append)
    return {**meter.done(n), "delivered": len(seen)}


async def cancellation(session: ClientSession, log: Log, rounds: int = 12) -> dict[str, Any]:
    returned, arrived, kinds = [], [], set()
    for _ in range(rounds):
        before = len(log.read())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "hold", {})
            await log.wait(before, "call")
            await trio.sleep(0.02)
            seen = len(log.read())
            start = time.monotonic_ns()
            nursery.cancel_scope.cancel()
        returned.append((time.monotonic_ns() - start) / 1e3)
        events = await log.wait(seen, "cancelled", "closed")
        if events:
            arrived.append((events[0]["t"] - start) / 1e3)
            kinds |= {event["ev"] for event in events}
    return {
        "arrived": len(arrived),
        "of": rounds,
        "kinds": sorted(kinds),
        "arrive_us_p50": statistics.median(arrived) if arrived else None,
        "return_us_p50": statistics.median(returned),
    }


async def gate(session: ClientSession, k: int, how: str) -> dict[str, float]:
    """Keep *k* calls outstanding; the server answers them together, in the order of *how*."""
    rounds = max(1, 2_000 // k)
    meter = Meter()
    for _ in range(rounds):
        async with trio.open_nursery() as nursery:
            for _ in range(k):
                nursery.start_soon(session.call_tool, "gate", {"k": k, "order": how})
    return meter.done(k * rounds)


async def measure(session: ClientSession, log: Log, secs: float, *, gates: bool) -> dict[str, Any]:
    for _ in range(100):
        result = await echo(session)
    assert result.content[0].text == TEXT
    out: dict[str, Any] = {
        "seq": await sequential(session, secs),
        "conc64": await concurrent(session, secs),
        "prog": await progress(session),
        "cancel": await cancellation(session, log),
    }
    for k, how in GATES if gates else ():
        out[f"gate{k}-{how}"] = await gate(session, k, how)
    return out


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def http_server(command: list[str], port: int) -> AsyncIterator[None]:
    """Run the reference server; it is there when the block begins, and gone after it."""
    process = await trio.lowlevel.open_process(command)
    try:
        with trio.fail_after(10):
            while True:
                try:
                    stream = await trio.open_tcp_stream("127.0.0.1", port)
                except OSError:
                    await trio.sleep(0.02)
                else:
                    await stream.aclose()
                    break
        yield
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


@asynccontextmanager
async def connect(
    transport: str, ref: list[str], log: Log, client: Client
) -> AsyncIterator[ClientSession]:
    if transport == "stdio":
        command = [*ref, "stdio", str(log.path), "--cpu", "0"]
        async with connect_stdio(command, client=client) as session:
            yield session
        return
    port = free_port()
    async with (
        http_server([*ref, "http", str(port), str(log.path), "--cpu", "0"], port),
        connect_http(f"http://127.0.0.1:{port}/mcp", client=client) as session,
    ):
        yield session


async def run(transport: str, ref: Path, secs: float) -> dict[str, Any]:
    # What was imported lives as long as the process; see docs/design.md on garbage.
    gc.collect()
    gc.freeze()
    client = Client("bench", version="1", limits=Limits(in_flight=20_000))
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder) / "log")
        python = os.environ.get("REF_PYTHON", sys.executable)
        async with connect(transport, [python, str(ref)], log, client) as session:
            return await measure(session, log, secs, gates=transport == "stdio")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transport", choices=["stdio", "http"])
    parser.add_argument("--ref", type=Path, required=True, help="the reference server's script")
    parser.add_argument("--secs", type=float, default=1.0, help="how long each rate is measured")
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {1})
    print(json.dumps(trio.run(run, args.transport, args.ref, args.secs)))


if __name__ == "__main__":
    main()
