"""A server on stdin and stdout whose handlers do what handlers should not."""

from __future__ import annotations

import ast
import ctypes
import os
import sys
from typing import Any

import trio

from mcp_trio.limits import Limits
from mcp_trio.runtime.session import Session
from mcp_trio.transports.stdio import own_stdio

print("printed at import time", end="")  # noqa: T201 - what this is about


class Server:
    """Echoes, and makes noise on request."""

    def initialize(self, *_: object) -> dict[str, Any]:
        return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "t"}}

    def handle_notification(self, *_: object) -> None:
        pass

    async def handle_request(self, _: object, message: Any) -> dict[str, Any]:
        answer: dict[str, Any] = await getattr(self, message.method)(**(message.params or {}))
        return answer

    async def echo(self, **params: Any) -> dict[str, Any]:
        return params

    async def hold(self) -> dict[str, Any]:
        sys.stderr.write("holding\n")
        sys.stderr.flush()
        await trio.sleep_forever()
        return {}

    async def fill(self, size: int) -> dict[str, Any]:
        return {"text": "x" * size}

    async def noise(self) -> dict[str, Any]:
        print("p" * 70_000)  # noqa: T201 - what this is about
        os.write(1, b"written to 1\n")
        done = await trio.run_process(["sh", "-c", "read a; echo leaked:$a:$?"], stdin=None)
        print("not flushed", end="")  # noqa: T201 - what this is about
        ctypes.CDLL(None).printf(b"printed by C")
        return {"child": done.returncode}

    async def again(self) -> dict[str, Any]:
        try:
            with own_stdio():
                return {"error": None}
        except RuntimeError as exc:
            return {"error": str(exc)}

    async def flags(self) -> dict[str, Any]:
        return {"blocking": [os.get_blocking(fd) for fd in (0, 1, 2)]}

    async def pid(self) -> dict[str, Any]:
        return {"pid": os.getpid()}


async def main() -> None:
    limits = Limits(**ast.literal_eval(sys.argv[1]))
    with own_stdio(limits) as transport:
        session = Session("server", Server(), transport, limits=limits)
        await session.run()
    if "afterwards" in sys.argv:
        print("printed after serving")  # noqa: T201 - what this is about


trio.run(main)
