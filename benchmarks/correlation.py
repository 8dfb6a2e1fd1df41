"""What a call costs as K calls are outstanding, and how fast a cancellation arrives.

usage: python -m benchmarks.correlation [--sizes 1,10,...] [--rounds N] [--peers]

A scripted peer holds K calls back and answers them in FIFO, reverse and random order, over
the typed memory pair and over stdio. With ``--peers`` the official Python SDK's client is
installed in a throw-away environment, does the same against the same peer in the same run,
and ratios are printed. Figures are microseconds of CPU per call (median of the rounds).
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from benchmarks.answerer import Answerer
from mcp_trio import Client, ClientSession, Limits, connect_stdio, connect_transport
from mcp_trio.transports.memory import memory_pair
from mcp_trio.types import CallToolResult, TextContent
from mcp_trio.wire.jsonrpc import Request, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HERE = Path(__file__).resolve().parent
ANSWERER = HERE / "answerer.py"
ORDERS = ("fifo", "reverse", "random")
PEER = "mcp==2.3.0"


def client() -> Client:
    return Client("bench", version="1", limits=Limits(in_flight=20_000))


@asynccontextmanager
async def over_memory() -> AsyncIterator[ClientSession]:
    """Connect to the answerer in this process, message by message."""
    ours, theirs = memory_pair(high=100_000)
    answerer = Answerer()

    def deliver(message: Any, _: object) -> None:
        raw = {"method": message.method, "params": message.params}
        if isinstance(message, Request):
            raw["id"] = message.id
        for id_, result in answerer.handle(raw):
            theirs.route.send_nowait(Result(id_, result))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(theirs.run_reader, deliver)
        async with connect_transport(ours, client=client()) as session:
            yield session
        nursery.cancel_scope.cancel()


def over_stdio() -> AbstractAsyncContextManager[ClientSession]:
    return connect_stdio([sys.executable, str(ANSWERER)], client=client())


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def gate(session: ClientSession, k: int, order: str) -> float:
    """Return the CPU of one call (us) while *k* are outstanding."""
    rounds = max(1, 1_000 // k)
    start = time.process_time()
    for _ in range(rounds):
        async with trio.open_nursery() as nursery:
            for _ in range(k):
                nursery.start_soon(session.call_tool, "gate", {"k": k, "order": order})
    return (time.process_time() - start) / (k * rounds) * 1e6


async def cancel(session: ClientSession) -> float:
    """Return how long a cancellation takes from the caller to the peer (us)."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.call_tool, "hold", {})
        await trio.sleep(0.05)
        start = time.monotonic_ns()
        nursery.cancel_scope.cancel()
    for _ in range(200):
        result = await session.call_tool("seen", {})
        at = int(text_of(result))
        if at >= start:
            return (at - start) / 1e3
        await trio.sleep(0.005)
    return float("inf")


async def measure(connect: Any, sizes: list[int]) -> dict[str, float]:
    async with connect() as session:
        await gate(session, 100, "fifo")  # warm-up
        out = {f"{k}-{order}": await gate(session, k, order) for k in sizes for order in ORDERS}
        out["cancel"] = statistics.median([await cancel(session) for _ in range(7)])
    return out


def official(python: Path, sizes: list[int]) -> dict[str, float]:
    script = HERE / "peers" / "official_client.py"
    command = [str(python), str(script), str(ANSWERER), ",".join(map(str, sizes))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def install(folder: Path) -> Path:
    """Make an environment with the official SDK in *folder* and return its python."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-q", PEER], check=True)
    return python


def median_of(runs: list[dict[str, float]]) -> dict[str, float]:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def show(figures: dict[str, dict[str, float]], sizes: list[int]) -> None:
    names = list(figures)
    print(f"{'outstanding':>12} {'order':>8} " + " ".join(f"{name:>12}" for name in names))
    for k in sizes:
        for order in ORDERS:
            row = [figures[name].get(f"{k}-{order}") for name in names]
            print(f"{k:>12} {order:>8} " + " ".join(f"{v:12.1f}" for v in row if v is not None))
    print(f"{'cancellation':>21} " + " ".join(f"{figures[n]['cancel']:12.1f}" for n in names))
    base = 100 if 100 in sizes else min(sizes)
    small, large = f"{base}-random", f"{max(sizes)}-random"
    for name in names:
        growth = figures[name][large] / figures[name][small]
        print(f"{name}: cost per call, K={max(sizes)} over K={base}, random: {growth:.2f}")
    if "official" in figures:
        ratio = figures["stdio"][large] / figures["official"][large]
        arrival = figures["stdio"]["cancel"] / figures["official"]["cancel"]
        print(f"stdio over official at K={max(sizes)}, random order: {ratio:.2f}")
        print(f"stdio over official, arrival of a cancellation: {arrival:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="1,10,100,1000,10000", help="calls outstanding")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", action="store_true", help="measure the official client too")
    args = parser.parse_args()
    sizes = [int(k) for k in args.sizes.split(",")]
    gc.collect()
    gc.freeze()  # see docs/design.md on garbage
    runs: dict[str, list[dict[str, float]]] = {"memory": [], "stdio": []}
    with tempfile.TemporaryDirectory() as folder:
        python = install(Path(folder)) if args.peers else None
        for _ in range(args.rounds):
            runs["memory"].append(trio.run(measure, over_memory, sizes))
            runs["stdio"].append(trio.run(measure, over_stdio, sizes))
            if python is not None:
                runs.setdefault("official", []).append(official(python, sizes))
    show({name: median_of(each) for name, each in runs.items()}, sizes)


if __name__ == "__main__":
    main()
