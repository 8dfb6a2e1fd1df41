"""A server whose tools say how to answer, without the engine: each answer is one known write."""

from __future__ import annotations

import json
import sys
from typing import Any

out = sys.stdout.buffer  # unbuffered, by -u


def write(*messages: dict[str, Any] | bytes) -> None:
    """Write *messages* in one piece."""
    out.write(
        b"".join(
            each
            if isinstance(each, bytes)
            else json.dumps({"jsonrpc": "2.0", **each}).encode() + b"\n"
            for each in messages
        )
    )


def result(message: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}


def call(message: dict[str, Any]) -> None:
    how, answer = message["params"]["name"], result(message, message["params"]["name"])
    if how == "plain":
        write(answer)
    elif how == "large":
        write(result(message, "x" * 400))
    elif how == "noise":
        write(b"x" * 600 + b"\n", answer)
    elif how == "halves":
        line = json.dumps({"jsonrpc": "2.0", **answer}).encode() + b"\n"
        write(line[:20])
        write(line[20:])
    elif how == "company":
        notice = {"method": "notifications/message", "params": {"level": "info", "data": how}}
        write(notice, answer)
    elif how == "ask":
        write({"id": "q", "method": "roots/list"})
        roots = json.loads(sys.stdin.readline())["result"]["roots"]
        write(result(message, roots[0]["name"]))
    elif how == "stray":
        write({"id": 10_000_000, "result": {}})
        write(answer)
    elif how == "die":
        sys.exit(7)
    elif how == "heard":
        write(result(message, json.dumps(heard)))


heard: list[Any] = []
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "scripted", "version": "1"}
        capabilities: dict[str, Any] = {"tools": {}, "logging": {}}
        answer = {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}
        write({"id": message["id"], "result": answer})
    elif message["method"] == "tools/call":
        call(message)
    elif message["method"] == "notifications/cancelled":
        heard.append(message["params"]["requestId"])
