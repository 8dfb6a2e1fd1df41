"""A peer that holds calls back and answers them together, in a chosen order. Standard library only.

usage: python answerer.py    (speaks JSON-RPC on stdin and stdout)

Tools: ``gate(k, order)`` answers once *k* calls are waiting, in ``fifo``, ``reverse`` or
``random`` order; ``hold()`` is never answered; ``seen()`` tells when the last cancellation
came in, on the monotonic clock (ns), or 0.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any


def text(value: object) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": str(value)}]}


def arrange(waiting: list[Any], order: str) -> list[Any]:
    if order == "reverse":
        return waiting[::-1]
    if order == "random":
        return random.Random(1).sample(waiting, len(waiting))  # noqa: S311 - an order, no secret
    return list(waiting)


class Answerer:
    """What to answer to each message, as pairs of id and result."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.cancelled_at = 0

    def handle(self, message: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            if method == "notifications/cancelled":
                self.cancelled_at = time.monotonic_ns()
            return []
        if method == "initialize":
            info = {"name": "answerer", "version": "1"}
            version = params["protocolVersion"]
            opened = {
                "protocolVersion": version,
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            return [(message["id"], opened)]
        if method == "tools/list":
            schema = {"type": "object"}
            tools = [{"name": name, "inputSchema": schema} for name in ("gate", "hold", "seen")]
            return [(message["id"], {"tools": tools})]
        return self._call(message["id"], params.get("name"), params.get("arguments") or {})

    def _call(
        self, id_: Any, name: str | None, arguments: dict[str, Any]
    ) -> list[tuple[Any, dict[str, Any]]]:
        if name == "seen":
            return [(id_, text(self.cancelled_at))]
        if name == "hold":
            return []
        self.waiting.append(id_)
        if len(self.waiting) < arguments.get("k", 1):
            return []
        waiting, self.waiting = self.waiting, []
        return [(each, text("ok")) for each in arrange(waiting, arguments.get("order", "fifo"))]


def main() -> None:
    answerer = Answerer()
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for line in sys.stdin:
        answers = answerer.handle(json.loads(line))
        if answers:
            lines = [encode({"jsonrpc": "2.0", "id": i, "result": r}) for i, r in answers]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
