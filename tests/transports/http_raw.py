"""A client of HTTP that a test plays by hand, and a server for it: bytes over real sockets."""

from __future__ import annotations

import json
import logging
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
import trio

from mcp_trio import Context, Limits, Server, serve_http
from mcp_trio.errors import SessionLost
from mcp_trio.wire.revisions import LEGACY
from mcp_trio.wire.sse import ServerSentEvent, SSEDecoder

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable, Iterator

    from mcp_trio.transports.http_server import HttpServer

EVERY: Final = [revision.version for revision in LEGACY]
BATCHES, HEADERS, PRIMES = EVERY[1], EVERY[2], EVERY[3]
NEWEST: Final = EVERY[-1]

#: Everything a client of these tests can do.
CAPABLE: Final[dict[str, Any]] = {"elicitation": {}, "sampling": {}, "roots": {}}

Message = dict[str, Any]


@pytest.fixture(autouse=True)
def quiet_log(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No test lets the server log an error, unless it asks for `expected_errors`."""
    yield
    if "expected_errors" not in request.fixturenames:
        errors = [
            record
            for record in caplog.get_records("call")
            if record.levelno >= logging.ERROR
            # A tool whose session ends while it says or asks something has failed, and says so.
            and not (record.exc_info and isinstance(record.exc_info[1], SessionLost))
        ]
        assert [r.getMessage() for r in errors] == []


@pytest.fixture
def expected_errors(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What the server logs is part of this test."""
    return caplog


# ---------------------------------------------------------------- the client's side


@attrs.frozen
class Response:
    """A whole response; *headers* have lower-case names, the last of each."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """The error of a refusal, whose JSON-RPC message has no id."""
        assert self.headers["content-type"] == "application/json"
        assert "id" not in self.json
        return self.json["error"]

    @property
    def events(self) -> list[ServerSentEvent]:
        assert self.headers["content-type"] == "text/event-stream"
        return [e for e in SSEDecoder(1 << 30).receive(self.body) if type(e) is ServerSentEvent]

    @property
    def messages(self) -> list[Message]:
        return [json.loads(event.data) for event in self.events if event.data]


class Raw:
    """One connection: bytes out, responses in.

    Attributes:
        comments: bytes of comments that the event stream at hand has carried.
        retry: what the stream at hand told to wait.
        last_event_id: of the last event that was read.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.buffer = b""
        self._chunked = False
        self._decoder = SSEDecoder(1 << 30)
        self._events: list[ServerSentEvent] = []
        self.last_event_id: str | None = None
        self.text = b""

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def _more(self) -> bool:
        data = await self.stream.receive_some(65_536)
        self.buffer += data
        return bool(data)

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            assert await self._more(), f"the connection ended within {self.buffer!r}"
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    async def head(self) -> Response:
        """Read the head of the next response."""
        line, *fields = (await self._until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        assert line.startswith("HTTP/1.1 ")
        pairs = [field.partition(":") for field in fields]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        self._chunked = headers.get("transfer-encoding") == "chunked"
        self._decoder = SSEDecoder(1 << 30)
        self.text = b""
        return Response(int(line.split()[1]), headers)

    async def _chunk(self) -> bytes:
        size = int(await self._until(b"\r\n"), 16)
        while len(self.buffer) < size + 2:
            assert await self._more(), "the connection ended within a chunk"
        data, end, self.buffer = (
            self.buffer[:size],
            self.buffer[size : size + 2],
            self.buffer[size + 2 :],
        )
        assert end == b"\r\n"
        return data

    async def response(self, *, bodiless: bool = False) -> Response:
        """Read the next response to its end."""
        head = await self.head()
        if bodiless or head.status in (204, 100):
            return head
        body = b""
        if self._chunked:
            while data := await self._chunk():
                body += data
        elif "content-length" in head.headers:
            size = int(head.headers["content-length"])
            while len(self.buffer) < size:
                assert await self._more(), "the connection ended within a body"
            body, self.buffer = self.buffer[:size], self.buffer[size:]
        else:
            while await self._more():
                pass
            body, self.buffer = self.buffer, b""
        return attrs.evolve(head, body=body)

    async def event(self) -> ServerSentEvent | None:
        """Read the next event of the stream at hand, None at its proper end."""
        while not self._events:
            data = await self._chunk()
            if not data:
                return None
            self.text += data
            self._events += [e for e in self._decoder.receive(data) if type(e) is ServerSentEvent]
        event = self._events.pop(0)
        self.last_event_id = event.id
        return event

    async def message(self) -> Message:
        """Read the next event that has data, as a message."""
        while True:
            event = await self.event()
            assert event is not None, "the stream ended"
            if event.data:
                message: Message = json.loads(event.data)
                return message

    async def rest(self) -> list[Message]:
        """Read the stream at hand to its end."""
        messages = []
        while (event := await self.event()) is not None:
            if event.data:
                messages.append(json.loads(event.data))
        return messages

    @property
    def retry(self) -> int | None:
        return self._decoder.retry

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; false if bytes come instead."""
        try:
            return not self.buffer and not await self._more()
        except trio.BrokenResourceError:
            return True

    async def cut(self) -> None:
        """Reset the connection, as a process that is killed does."""
        assert isinstance(self.stream, trio.SocketStream)
        self.stream.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER of 0 s: a reset
        await trio.aclose_forcefully(self.stream)


def head_bytes(method: str, headers: dict[str, str | None], path: str = "/mcp") -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value is not None)
    return f"{method} {path} HTTP/1.1\r\n{fields}\r\n".encode("latin-1")


class Client:
    """A client with a session, which it names on each request.

    Attributes:
        defaults: headers of every request.
        raw: the connection that `post`, `get` and `delete` use unless told another.
    """

    def __init__(self, http: HttpServer, raw: Raw, **defaults: str) -> None:
        self.http = http
        self.raw = raw
        self.dialed = [raw]
        self.ids = count(1)
        self.defaults: dict[str, str | None] = {
            "Host": "localhost",
            "Accept": "application/json, text/event-stream",
            **{name.replace("_", "-"): value for name, value in defaults.items()},
        }

    async def dial(self) -> Raw:
        """Connect once more; `connected` closes it in the end."""
        raw = await dial(self.http)
        self.dialed.append(raw)
        return raw

    async def start(
        self,
        method: str,
        message: object = None,
        *,
        raw: Raw | None = None,
        path: str = "/mcp",
        **headers: str | None,
    ) -> Raw:
        """Send a request; keyword arguments are headers, None leaves one out."""
        raw = raw or self.raw
        fields = {**self.defaults, **{n.replace("_", "-"): v for n, v in headers.items()}}
        body = b""
        if message is not None:
            body = message if isinstance(message, bytes) else json.dumps(message).encode()
            fields = {"Content-Type": "application/json", **fields}
        if method == "POST":
            fields = {"Content-Length": str(len(body)), **fields}
        await raw.send(head_bytes(method, fields, path) + body)
        return raw

    async def request(self, method: str, message: object = None, **options: Any) -> Response:
        """Send a request and read its whole response."""
        raw = await self.start(method, message, **options)
        return await raw.response(bodiless=method == "HEAD")

    async def post(self, message: object, **options: Any) -> Response:
        return await self.request("POST", message, **options)

    async def call(self, name: str, arguments: Any = None, **options: Any) -> Response:
        """Call a tool; the progress token is the request's id."""
        return await self.post(self.calling(name, arguments), **options)

    async def start_call(self, name: str, arguments: Any = None, **options: Any) -> Raw:
        """Call a tool and return the connection, to read what comes of it."""
        return await self.start("POST", self.calling(name, arguments), **options)

    def calling(self, name: str, arguments: Any = None, id_: object = None) -> Message:
        id_ = next(self.ids) if id_ is None else id_
        params = {
            "name": name,
            "arguments": arguments or {},
            "_meta": {"progressToken": id_},
        }
        return {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}

    async def tell(self, method: str, params: Any = None) -> None:
        """Send a notification, on a connection of its own."""
        await self._hand_in({"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def answer(self, question: Message, result: object) -> None:
        """Answer a question of the server, on a connection of its own."""
        await self._hand_in({"jsonrpc": "2.0", "id": question["id"], "result": result})

    async def _hand_in(self, message: object) -> None:
        raw = await self.dial()
        response = await self.post(message, raw=raw)
        assert (response.status, response.body) == (202, b"")
        await raw.stream.aclose()

    async def listen(self, **options: Any) -> Raw:
        """Open a GET stream on a connection of its own."""
        raw = await self.start("GET", raw=await self.dial(), **options)
        head = await raw.head()
        assert head.status == 200, head
        assert head.headers["content-type"] == "text/event-stream"
        return raw

    async def initialize(
        self, version: str = NEWEST, capabilities: object = None, **options: Any
    ) -> Response:
        """Send ``initialize``, and use its session from now on."""
        params = {
            "protocolVersion": version,
            "capabilities": CAPABLE if capabilities is None else capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}
        response = await self.post(message, **options)
        if "mcp-session-id" in response.headers:
            self.defaults["Mcp-Session-Id"] = response.headers["mcp-session-id"]
            self.defaults["MCP-Protocol-Version"] = version
        return response

    @property
    def session_id(self) -> str:
        return str(self.defaults["Mcp-Session-Id"])


async def dial(http: HttpServer, tls: ssl.SSLContext | None = None) -> Raw:
    """Connect to where *http* listens."""
    host, port = http.url.partition("://")[2].partition("/")[0].rsplit(":", 1)
    stream: trio.abc.Stream = await trio.open_tcp_stream(host, int(port))
    if tls is not None:
        stream = trio.SSLStream(stream, tls, server_hostname="localhost", https_compatible=True)
    _dialed.append(Raw(stream))
    return _dialed[-1]


async def hang_up(raws: list[Raw]) -> None:
    """Close connections, at once. Shield it: a failure of a test must not become Cancelled."""
    for raw in raws:
        await trio.aclose_forcefully(raw.stream)
    raws.clear()
    await trio.lowlevel.checkpoint()


#: Connections that `serving` closes in the end.
_dialed: list[Raw] = []


async def until(ready: Callable[[], bool]) -> None:
    """Wait for what nobody tells of."""
    while not ready():  # noqa: ASYNC110 - as it says
        await trio.sleep(0.01)


def text_of(message: Message) -> str:
    """The text that a tool returned."""
    text: str = message["result"]["content"][0]["text"]
    return text


# ---------------------------------------------------------------- the server's side


class Workshop(Server):
    """A server whose tools do what transports have to carry.

    Attributes:
        gates: `hold` waits for the one it names.
        entered, left: names that `hold` was entered with, and left with, in order.
    """

    def __init__(self, limits: Limits | None = None, **options: Any) -> None:
        super().__init__("workshop", version="1", limits=limits or Limits(), **options)
        self.gates: dict[str, trio.Event] = {}
        self.entered: list[str] = []
        self.left: list[str] = []
        self._news = trio.lowlevel.ParkingLot()
        for tool in (self.echo, self.steps, self.hold, self.ask, self.leave, self.stubborn):
            self.tool(name=tool.__name__)(tool)

    async def echo(self, text: str) -> str:
        return text

    async def steps(self, ctx: Context, n: int, size: int = 0) -> str:
        for i in range(n):
            await ctx.progress(i + 1, message="x" * size)
        return "done"

    async def hold(self, ctx: Context, name: str, before: int = 0, after: int = 0) -> str:
        self.entered.append(name)
        self._news.unpark_all()
        try:
            for i in range(before):
                await ctx.progress(i + 1)
            await self.gates.setdefault(name, trio.Event()).wait()
            for i in range(after):
                await ctx.progress(before + i + 1)
        finally:
            self.left.append(name)
            self._news.unpark_all()
        return f"held {name}"

    async def ask(self, ctx: Context) -> str:
        answer = await ctx.call("elicitation/create", {"message": "?", "requestedSchema": {}})
        return str(answer["content"])

    async def leave(self, ctx: Context, name: str, silent: bool = False) -> str:  # noqa: FBT001, FBT002 - a tool
        if not silent:
            await ctx.progress(1)
        closed = ctx.close_stream()
        self.entered.append(f"{name} {closed}")
        self._news.unpark_all()
        await self.gates.setdefault(name, trio.Event()).wait()
        return f"left {name}"

    async def stubborn(self) -> str:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.2)
        return "never"

    def open(self, name: str) -> None:
        self.gates.setdefault(name, trio.Event()).set()

    async def until_entered(self, name: str) -> None:
        while name not in self.entered:
            await self._news.park()

    async def until_left(self, name: str) -> None:
        while name not in self.left:
            await self._news.park()


@asynccontextmanager
async def serving(
    server: Server, *, port: int = 0, patience: float = 10.0, **options: Any
) -> AsyncIterator[HttpServer]:
    """*server* on a port of this machine, while the block runs."""
    with trio.fail_after(patience):
        async with trio.open_nursery() as nursery:
            http = await nursery.start(partial(serve_http, server, port, **options))
            try:
                yield http
            finally:
                with trio.move_on_after(1, shield=True):
                    await hang_up(_dialed)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def connected(
    http: HttpServer,
    version: str = NEWEST,
    *,
    open: bool = True,  # noqa: A002 - plain
    **defaults: str,
) -> AsyncIterator[Client]:
    """A client on one connection, with a session at *version* unless *open* is false."""
    client = Client(http, await dial(http), **defaults)
    try:
        if open:
            response = await client.initialize(version)
            assert response.json["result"]["protocolVersion"] == version
            await client.tell("notifications/initialized")
        yield client
    finally:
        with trio.move_on_after(1, shield=True):
            await hang_up(client.dialed)
