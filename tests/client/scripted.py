"""A server that a test plays by hand, message by message, over a pair of transports."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from mcp_trio.client import Client, ClientSession, connect_transport
from mcp_trio.limits import Limits
from mcp_trio.transports.memory import byte_pair, memory_pair
from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result
from mcp_trio.wire.revisions import LEGACY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from mcp_trio.abc import Transport

OLDEST = LEGACY[0].version
NEWEST = LEGACY[-1].version

#: Everything a server can declare.
EVERYTHING: dict[str, Any] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}


class Script:
    """The server's end: `next` waits for a message of the client, the others send one."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._send, self._receive = trio.open_memory_channel[Any](1000)
        self.closed = trio.Event()

    async def run(self) -> None:
        """Read and write until the client's end closes."""
        async with trio.open_nursery() as nursery:
            assert self._transport.run_writer is not None
            nursery.start_soon(self._transport.run_writer)
            await self._transport.run_reader(lambda message, _: self._send.send_nowait(message))
            self._send.close()
            await self._transport.aclose()
            self.closed.set()
            nursery.cancel_scope.cancel()

    async def hang_up(self) -> None:
        """Close the server's end."""
        await self._transport.drain()
        await self._transport.aclose()

    async def next(self) -> Any:
        """Return the next message of the client."""
        return await self._receive.receive()

    async def request(self, method: str | None = None) -> Request:
        """Return the next message, which has to be a request (of *method*)."""
        message = await self.next()
        assert isinstance(message, Request), message
        assert method is None or message.method == method, message
        return message

    async def notification(self, method: str) -> Notification:
        """Return the next message, which has to be this notification."""
        message = await self.next()
        assert isinstance(message, Notification), message
        assert message.method == method
        return message

    async def answer_to(self, id_: int | str) -> Result | Failure:
        """Return the next message, which has to be the answer to a request of the script."""
        message = await self.next()
        assert isinstance(message, Result | Failure), message
        assert message.id == id_
        return message

    def answer(self, request: Request, result: dict[str, Any]) -> None:
        """Answer a request of the client."""
        self._transport.route.send_nowait(Result(request.id, result))

    def refuse(self, request: Request, code: int, reason: str, data: Any = None) -> None:
        """Answer a request of the client with an error."""
        self._transport.route.send_nowait(Failure(request.id, code, reason, data))

    def ask(self, id_: int | str, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a reverse request."""
        self._transport.route.send_nowait(Request(id_, method, params))

    def tell(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a notification."""
        self._transport.route.send_nowait(Notification(method, params))

    async def shake_hands(
        self, *, version: str | None = None, capabilities: dict[str, Any] | None = None
    ) -> Request:
        """Play the server's part of the handshake; return the client's ``initialize``."""
        opening = await self.request("initialize")
        assert opening.params is not None
        self.answer(
            opening,
            {
                "protocolVersion": version or opening.params["protocolVersion"],
                "capabilities": EVERYTHING if capabilities is None else capabilities,
                "serverInfo": {"name": "script", "version": "1"},
            },
        )
        await self.notification("notifications/initialized")
        return opening


@asynccontextmanager
async def scripted(
    client: Client | None = None,
    *,
    version: str | None = None,
    capabilities: dict[str, Any] | None = None,
    typed: bool = False,
) -> AsyncIterator[tuple[ClientSession, Script]]:
    """A session that is open, and the script at its other end."""
    ours, theirs = memory_pair() if typed else byte_pair(Limits())
    script = Script(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script.run)  # noqa: ASYNC113 - nothing has to be ready
        opening = Outcome(
            nursery, lambda: script.shake_hands(version=version, capabilities=capabilities)
        )
        async with connect_transport(ours, client=client) as session:
            await opening.wait()
            yield session, script
        nursery.cancel_scope.cancel()


class Outcome:
    """What became of a call made in a nursery."""

    def __init__(self, nursery: trio.Nursery, fn: Callable[[], Awaitable[Any]]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        self.scope = trio.CancelScope()
        self._ended = trio.Event()
        nursery.start_soon(self._run, fn)

    async def _run(self, fn: Callable[[], Awaitable[Any]]) -> None:
        try:
            with self.scope:
                self.value = await fn()
        except Exception as exc:  # noqa: BLE001 - for `wait`
            self.error = exc
        finally:
            self._ended.set()

    async def ended(self) -> None:
        """Wait for its end, whatever that is."""
        await self._ended.wait()

    async def wait(self) -> Any:
        """Return the value, or raise what the call raised."""
        await self._ended.wait()
        if self.error is not None:
            raise self.error
        return self.value
