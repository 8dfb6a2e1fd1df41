"""A host that a test plays by hand: JSON lines in, JSON lines out, nothing of the client face."""

from __future__ import annotations

import json
import math
from contextlib import asynccontextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import trio
import trio.testing

from mcp_trio import serve_stream
from mcp_trio.wire.revisions import LEGACY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from mcp_trio import Server
    from mcp_trio.runtime.session import Session

EVERY: Final = [revision.version for revision in LEGACY]
OLDEST, NEWEST = EVERY[0], EVERY[-1]

#: Everything a client can declare.
EVERYTHING: Final[dict[str, Any]] = {
    "roots": {"listChanged": True},
    "sampling": {"tools": {}, "context": {}},
    "elicitation": {"form": {}, "url": {}},
}

Message = dict[str, Any]


class Host:
    """A client's end of the pipe.

    Attributes:
        notices: the notifications that arrived, in order.
        asked: the requests of the server that arrived, in order.
        answers: what to answer to the server's requests, by method: a result, or a function
            from params to a result or to an ``Error``; a method without an entry waits
            for `answer`.
        session: the server's session.
    """

    def __init__(self, stream: trio.StapledStream[Any, Any]) -> None:
        self._stream = stream
        self._ids = count(1)
        self._waiting: dict[object, trio.Event] = {}
        self._replies: dict[object, Message] = {}
        self._news = trio.Condition()
        self.notices: list[Message] = []
        self.asked: list[Message] = []
        self.answers: dict[str, Any] = {}
        self.strays: list[Message] = []
        self.session: Session

    async def read(self) -> None:
        """Sort what the server sends until it closes."""
        buffer = b""
        while data := await self._stream.receive_some():
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                assert message["jsonrpc"] == "2.0"
                await self._take(message)

    async def _take(self, message: Message) -> None:
        if "method" not in message:
            self._replies[message.get("id")] = message
            if message.get("id") in self._waiting:
                self._waiting[message["id"]].set()
            else:
                self.strays.append(message)
        elif "id" not in message:
            self.notices.append(message)
        else:
            self.asked.append(message)
            if message["method"] in self.answers:
                answer = self.answers[message["method"]]
                await self.answer(
                    message, answer(message.get("params")) if callable(answer) else answer
                )
        async with self._news:
            self._news.notify_all()

    async def send(self, message: object) -> None:
        """Send anything as one line of JSON."""
        text = message if isinstance(message, str) else json.dumps(message)
        await self._stream.send_all(text.encode() + b"\n")

    async def tell(self, method: str, params: object = None) -> None:
        """Send a notification."""
        await self.send(_message(method, params))

    async def start(self, method: str, params: object = None, *, id_: object = None) -> object:
        """Send a request and return its id; `reply` waits for its answer."""
        id_ = next(self._ids) if id_ is None else id_
        self._waiting[id_] = trio.Event()
        await self.send({"id": id_, **_message(method, params)})
        return id_

    async def reply(self, id_: object) -> Message:
        """Return the answer to a request, the whole message."""
        await self._waiting[id_].wait()
        return self._replies[id_]

    async def call(self, method: str, params: object = None) -> Message:
        """Send a request and return its answer, the whole message."""
        return await self.reply(await self.start(method, params))

    async def result(self, method: str, params: object = None) -> Message:
        """Send a request whose answer has to be a result, and return that."""
        answer = await self.call(method, params)
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    async def error(self, method: str, params: object = None) -> Message:
        """Send a request whose answer has to be an error, and return that."""
        answer = await self.call(method, params)
        assert "error" in answer, answer
        error: Message = answer["error"]
        return error

    async def tool(self, name: str, /, **arguments: Any) -> Message:
        """Call a tool and return its result."""
        return await self.result("tools/call", {"name": name, "arguments": arguments})

    async def text(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that must not fail and return the text of its first block."""
        result = await self.tool(name, **arguments)
        assert "isError" not in result, result
        text: str = result["content"][0]["text"]
        return text

    async def answer(self, request: Message, result: object) -> None:
        """Answer a request of the server."""
        member = result.member if isinstance(result, Error) else {"result": result}
        await self.send({"jsonrpc": "2.0", "id": request["id"], **member})

    async def until(self, ready: Callable[[], object]) -> None:
        """Wait until *ready* is true; it is asked after each message."""
        async with self._news:
            while not ready():
                await self._news.wait()

    async def next_asked(self) -> Message:
        """Wait for a request of the server that nobody has taken, and take it."""
        await self.until(lambda: self.asked)
        return self.asked.pop(0)

    def noticed(self, method: str) -> list[Any]:
        """Return the params of the notifications of this *method* so far."""
        return [each.get("params") for each in self.notices if each["method"] == method]

    async def initialize(
        self,
        version: str = NEWEST,
        capabilities: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Message:
        """Send ``initialize`` and ``notifications/initialized``; return the whole answer."""
        params = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "host", "version": "1"},
            **more,
        }
        answer = await self.call("initialize", params)
        await self.tell("notifications/initialized")
        return answer

    async def hang_up(self) -> None:
        """Send no more, as a host does that ends."""
        await self._stream.send_eof()


class Error:
    """An error answer to a request of the server."""

    def __init__(self, code: int, message: str) -> None:
        self.member = {"error": {"code": code, "message": message}}


def _message(method: str, params: object) -> Message:
    message: Message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


@asynccontextmanager
async def plugged_in(server: Server, *, patience: float = math.inf) -> AsyncIterator[Host]:
    """A host and a server that have said nothing to each other so far."""
    ours, theirs = trio.testing.memory_stream_pair()
    host = Host(ours)
    with trio.fail_after(patience):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.read)  # noqa: ASYNC113 - nothing has to be ready
            host.session = await nursery.start(serve_stream, server, theirs)
            yield host
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def hosting(
    server: Server, version: str = NEWEST, capabilities: Mapping[str, Any] | None = None
) -> AsyncIterator[Host]:
    """A host that has opened a session at *version*."""
    async with plugged_in(server) as host:
        answer = await host.initialize(version, capabilities)
        assert answer["result"]["protocolVersion"] == version
        await host.result("ping")  # so `initialized` has been read
        yield host
