"""A server on stdin and stdout whose handlers do what handlers should not."""

from __future__ import annotations

import ast
import ctypes
import os
import subprocess
import sys

import trio

from mcp_trio.limits import Limits
from mcp_trio.runtime.session import Session
from mcp_trio.transports.stdio import own_stdio

print("printed at import time", end="")  # noqa: T201 - the point


class Server:
    """Echoes, and makes noise on request."""

    def initialize(self, session, params):
        return {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "t"}}

    def handle_notification(self, session, message):
        pass

    async def handle_request(self, serving, message):
        return await getattr(self, message.method)(serving, **(message.params or {}))

    async def echo(self, serving, **params):
        return params

    async def hold(self, serving):
        sys.stderr.write("holding\n")
        sys.stderr.flush()
        await trio.sleep_forever()

    async def fill(self, serving, size):
        return {"text": "x" * size}

    async def noise(self, serving):
        print("p" * 70_000)
        os.write(1, b"written to 1\n")
        done = subprocess.run(["sh", "-c", "read a; echo leaked:$a:$?"], check=True)
        print("not flushed", end="")
        ctypes.CDLL(None).printf(b"printed by C")
        return {"child": done.returncode}

    async def again(self, serving):
        try:
            with own_stdio():
                return {"error": None}
        except RuntimeError as exc:
            return {"error": str(exc)}

    async def flags(self, serving):
        return {"blocking": [os.get_blocking(fd) for fd in (0, 1, 2)]}

    async def pid(self, serving):
        return {"pid": os.getpid()}


async def main():
    limits = Limits(**ast.literal_eval(sys.argv[1]))
    with own_stdio(limits) as transport:
        session = Session("server", Server(), transport, limits=limits)
        await session.run()


trio.run(main)
