"""The official Python client against the answerer; prints one JSON object of figures.

usage: python official_client.py ANSWERER K[,K...]    (in an environment that has ``mcp``)
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

warnings.simplefilter("ignore")
logging.disable(logging.WARNING)

ORDERS = ("fifo", "reverse", "random")


async def gate(client: Client, k: int, order: str) -> float:
    start = time.process_time()
    rounds = max(1, 1_000 // k)
    for _ in range(rounds):
        async with anyio.create_task_group() as group:
            for _ in range(k):
                group.start_soon(client.call_tool, "gate", {"k": k, "order": order})
    return (time.process_time() - start) / (k * rounds) * 1e6


async def cancel(client: Client) -> float:
    async with anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "hold", {})
        await anyio.sleep(0.05)
        start = time.monotonic_ns()
        group.cancel_scope.cancel()
    for _ in range(200):
        result = await client.call_tool("seen", {})
        at = int(result.content[0].text)
        if at >= start:
            return (at - start) / 1e3
        await anyio.sleep(0.005)
    return float("inf")


async def main(answerer: str, sizes: list[int]) -> None:
    target = StdioServerParameters(command=sys.executable, args=[answerer])
    async with Client(target, mode="legacy") as client:
        out = {f"{k}-{order}": await gate(client, k, order) for k in sizes for order in ORDERS}
        out["cancel"] = sorted([await cancel(client) for _ in range(7)])[3]
    print(json.dumps(out))


anyio.run(main, sys.argv[1], [int(k) for k in sys.argv[2].split(",")])
