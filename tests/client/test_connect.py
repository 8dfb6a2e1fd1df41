"""Opening a session, the block it lives in, and its end."""

from __future__ import annotations

import contextlib
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcp_trio.client import (
    Client,
    ClientSession,
    connect_memory,
    connect_stdio,
    connect_stream,
    connect_transport,
)
from mcp_trio.errors import ConnectFailed, PeerError, SessionClosed, SessionLost
from mcp_trio.limits import Deadline, Limits
from mcp_trio.runtime.session import Session
from mcp_trio.transports.memory import byte_pair
from mcp_trio.types import Icon
from mcp_trio.wire.jsonrpc import Notification, Request
from mcp_trio.wire.revisions import LEGACY, REVISIONS
from tests.client.scripted import NEWEST, OLDEST, Outcome, Script, scripted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MODERN = next(version for version in REVISIONS if version not in {r.version for r in LEGACY})


@asynccontextmanager
async def unopened() -> AsyncIterator[tuple[Any, Script]]:
    """A transport, and the script at its other end."""
    ours, theirs = byte_pair(Limits())
    script = Script(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script.run)  # noqa: ASYNC113 - nothing has to be ready
        yield ours, script
        nursery.cancel_scope.cancel()


async def connected(transport: Any, client: Client | None = None) -> ClientSession:
    """Open a session and close it at once."""
    async with connect_transport(transport, client=client) as session:
        return session


# ---------------------------------------------------------------- the handshake


async def opening_of(client: Client | None) -> dict[str, Any]:
    """Return the params of the client's ``initialize``."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: connected(transport, client))
        params = (await script.shake_hands()).params
        await call.wait()
    assert params is not None
    return params


async def test_a_client_introduces_itself_and_offers_its_newest_revision() -> None:
    """Name and version at least; no handlers, no capabilities."""
    client = Client(
        "me",
        version="2",
        title="Me",
        description="a client",
        icons=[Icon(src="data:,")],
        website_url="https://example.com",
    )

    assert await opening_of(client) == {
        "protocolVersion": NEWEST,
        "capabilities": {},
        "clientInfo": {
            "name": "me",
            "version": "2",
            "title": "Me",
            "description": "a client",
            "icons": [{"src": "data:,"}],
            "websiteUrl": "https://example.com",
        },
    }
    assert (await opening_of(None))["clientInfo"]["name"] == "mcp-trio"


@pytest.mark.parametrize(
    ("modes", "newest", "middle"),
    [
        ({}, {"form": {}}, {}),
        ({"url": True}, {"form": {}, "url": {}}, {}),
        ({"form": False}, {"url": {}}, None),
    ],
)
async def test_capabilities_follow_the_handlers_and_the_revision(
    modes: Any, newest: Any, middle: Any
) -> None:
    """What a revision does not know is not declared to it; {} would mean forms."""
    handlers: list[Any] = []

    def client(version: str) -> Client:
        made = Client(
            "me",
            version="1",
            revisions=[version],
            roots=[],
            sampling_tools=True,
            sampling_context=True,
        )
        made.sampling(handlers.append)
        made.elicitation(**modes)(handlers.append)
        return made

    declared = [(await opening_of(client(revision.version)))["capabilities"] for revision in LEGACY]
    roots = {"listChanged": True}

    assert declared[0] == {"roots": roots, "sampling": {}}
    assert declared[-2] == {
        "roots": roots,
        "sampling": {},
        **({} if middle is None else {"elicitation": middle}),
    }
    assert declared[-1] == {
        "roots": roots,
        "sampling": {"tools": {}, "context": {}},
        "elicitation": newest,
    }


@pytest.mark.parametrize("revision", LEGACY)
async def test_the_servers_revision_holds_where_the_client_speaks_it(revision: Any) -> None:
    """Any of the offered ones; what the server said of itself is kept."""
    async with scripted(version=revision.version) as (session, _):
        assert session.revision is revision
        assert session.server_info.name == "script"
        assert session.capabilities.tools is not None
        assert session.instructions is None


@pytest.mark.parametrize("answer", ["1999-01-01", MODERN, 5, None])
async def test_a_revision_the_client_does_not_speak_fails_and_names_both(answer: Any) -> None:
    """ConnectFailed, and the client hangs up without ``initialized``."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: connected(transport))
        opening = await script.request("initialize")
        script.answer(opening, {"protocolVersion": answer, "capabilities": {}})
        with pytest.raises(ConnectFailed, match=NEWEST) as caught:
            await call.wait()
        await script.closed.wait()
        with pytest.raises(trio.EndOfChannel):
            await script.next()

    assert repr(answer) in str(caught.value)


async def test_older_revisions_can_be_chosen() -> None:
    """The newest of them is offered, and the others are accepted."""
    client = Client("me", version="1", revisions=[OLDEST, LEGACY[1].version])

    assert (await opening_of(client))["protocolVersion"] == LEGACY[1].version
    async with scripted(client, version=OLDEST) as (session, _):
        assert session.revision.version == OLDEST


@pytest.mark.parametrize("revisions", [[], ["1999-01-01"], [NEWEST, "x"]])
def test_an_unknown_revision_cannot_be_chosen(revisions: list[str]) -> None:
    """Nor none at all."""
    with pytest.raises(ValueError, match="revision"):
        Client("me", version="1", revisions=revisions)


async def test_a_server_that_refuses_initialize() -> None:
    """Its words are in the error."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: connected(transport))
        script.refuse(await script.request("initialize"), -32602, "Unsupported version")
        with pytest.raises(ConnectFailed, match="Unsupported version") as caught:
            await call.wait()

    assert isinstance(caught.value.__cause__, PeerError)


@pytest.mark.parametrize(
    ("result", "path"),
    [
        ({"capabilities": {}}, r"\$\.serverInfo"),
        ({"capabilities": [], "serverInfo": {"name": "s", "version": "1"}}, r"\$\.capabilities"),
    ],
)
async def test_an_answer_to_initialize_that_does_not_fit(result: Any, path: str) -> None:
    """The error names the path."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: connected(transport))
        opening = await script.request("initialize")
        script.answer(opening, {"protocolVersion": NEWEST, **result})
        with pytest.raises(ConnectFailed, match=path):
            await call.wait()


async def test_a_server_that_goes_away_during_the_handshake() -> None:
    """ConnectFailed, bare."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: connected(transport))
        await script.request("initialize")
        await script.hang_up()
        with pytest.raises(ConnectFailed, match="closed the connection"):
            await call.wait()


async def test_a_server_that_never_answers_initialize(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The client's deadline holds for the opening; it is never cancelled on the wire."""
    client = Client("me", version="1", deadline=Deadline(idle=3, cap=9))
    async with unopened() as (transport, script):
        with pytest.raises(ConnectFailed, match="within 3 s"):
            await connected(transport, client)
        await script.request("initialize")
        await script.closed.wait()
        with pytest.raises(trio.EndOfChannel):
            await script.next()

    assert trio.current_time() == 3


@pytest.mark.case("03")
async def test_initialize_is_never_cancelled_on_the_wire() -> None:
    """Giving up the connection says nothing."""
    async with unopened() as (transport, script):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connected, transport)
                await script.request("initialize")
                scope.cancel()
        await script.closed.wait()

        with pytest.raises(trio.EndOfChannel):
            await script.next()


# ---------------------------------------------------------------- the block


async def test_the_blocks_own_exception_leaves_bare() -> None:
    """The very object, with its cause and context, and the session is closed."""
    mine, cause = KeyError("mine"), ValueError("cause")
    kept: list[ClientSession] = []

    async def block(transport: Any) -> None:
        async with connect_transport(transport) as session:
            kept.append(session)
            raise mine from cause

    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        Outcome(nursery, script.shake_hands)
        with pytest.raises(KeyError) as caught:
            await block(transport)
        with pytest.raises(SessionClosed):
            await kept[0].ping()

    assert caught.value is mine
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is None


async def test_an_exception_raised_while_another_is_handled_keeps_its_context() -> None:
    """As it would without the block."""
    first, second = KeyError("first"), ValueError("second")

    async def block(transport: Any) -> None:
        async with connect_transport(transport):
            try:
                raise first
            except KeyError:
                raise second  # noqa: B904 - the context is what is tested

    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        Outcome(nursery, script.shake_hands)
        with pytest.raises(ValueError, match="second") as caught:
            await block(transport)

    assert caught.value is second
    assert caught.value.__context__ is first


async def test_a_broken_connection_does_not_disturb_the_block(
    nursery: trio.Nursery,
) -> None:
    """It raises SessionLost in calls alone, and leaving is quiet."""
    async with scripted() as (session, script):
        await script.hang_up()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(SessionLost, match="closed the connection"):
            await session.ping()
        with trio.move_on_after(0) as scope:
            await trio.sleep_forever()

        assert scope.cancelled_caught


async def test_a_cancelled_block_unwinds_with_its_session_alive(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Its clean-up may still call the server; then the session is closed."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        Outcome(nursery, script.shake_hands)
        answered = []
        with trio.move_on_after(1) as scope:
            async with connect_transport(transport) as session:
                try:
                    await trio.sleep_forever()
                finally:
                    with trio.CancelScope(shield=True):
                        Outcome(nursery, lambda: _answer_all(script))
                        answered.append(await session.call_tool("bye"))

        assert scope.cancelled_caught
        assert len(answered) == 1
        with pytest.raises(SessionClosed):
            await session.ping()


async def _answer_all(script: Script) -> None:
    with contextlib.suppress(trio.EndOfChannel):
        while True:
            message = await script.next()
            if isinstance(message, Request):
                script.answer(message, {"content": []})


async def test_leaving_the_block_cancels_what_is_being_served() -> None:
    """Handlers of reverse requests unwind before the block is left."""
    client = Client("me", version="1")
    ended = trio.Event()

    @client.method("x/hold")
    async def hold(ctx: object, params: object) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        return {}

    async with scripted(client) as (session, script):
        script.ask("r", "x/hold")
        await trio.testing.wait_all_tasks_blocked()
        await session.aclose()

        assert ended.is_set()


async def test_connecting_in_a_cancelled_scope_ends_at_once() -> None:
    """Nothing hangs, and the transport is closed."""
    async with unopened() as (transport, script):
        with trio.CancelScope() as scope:
            scope.cancel()
            await connected(transport)
        await script.closed.wait()

        assert scope.cancelled_caught


# ---------------------------------------------------------------- doors


class EchoServer:
    """A `SessionFactory` whose tools return their names."""

    def __init__(self) -> None:
        self.held = 0
        self.sessions: list[Session] = []

    def open_session(self, transport: Any, *, tracer: Any = None, label: str = "") -> Session:
        self.sessions.append(Session("server", self, transport, tracer=tracer, label=label))
        return self.sessions[-1]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1

    def initialize(self, _: Session, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "echo", "version": "1"},
            "instructions": "call",
        }

    async def handle_request(self, _: Any, message: Request) -> dict[str, Any]:
        assert message.params is not None
        if message.params["name"] == "hold":
            await trio.sleep_forever()
        return {"content": [{"type": "text", "text": message.params["name"]}]}

    def handle_notification(self, session: Session, message: Notification) -> None:
        pass


@pytest.mark.parametrize("typed", [True, False])
async def test_connect_memory_serves_a_server_in_this_process(
    typed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """Both sides end with the block; the server's own block encloses them."""
    server = EchoServer()
    async with connect_memory(server, typed=typed) as session:
        assert server.held == 1
        assert session.instructions == "call"
        result = await session.call_tool("hello")

    assert result.content[0].text == "hello"  # type: ignore[union-attr]  # it is text
    assert server.held == 0
    assert [s.error is not None for s in server.sessions] == [True]


async def test_connect_stream_speaks_lines_over_any_stream() -> None:
    """The stream is closed at the end."""
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_serve_stream, theirs)
        async with connect_stream(ours) as session:
            await session.ping()
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")


async def _serve_stream(stream: trio.abc.Stream) -> None:
    from mcp_trio.transports.pipe import PipeTransport, StreamBytes

    await EchoServer().open_session(PipeTransport(StreamBytes(stream), Limits())).run()


SERVER = """
import json, sys
def answer(result):
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        answer({"protocolVersion": message["params"]["protocolVersion"], "capabilities": {},
                "serverInfo": {"name": sys.argv[1], "version": "1"}})
    elif "id" in message:
        answer({})
"""


async def test_connect_stdio_speaks_with_a_child() -> None:
    """From its start to its end."""
    command = [sys.executable, "-c", SERVER, "child"]
    async with connect_stdio(command, stderr="capture") as session:
        await session.ping()

        assert session.server_info.name == "child"
        assert session.session.label == sys.executable


async def test_a_child_that_ends_during_the_handshake_says_why() -> None:
    """Exit code and the end of stderr."""
    command = [sys.executable, "-c", "import sys; sys.stderr.write('no key'); sys.exit(3)"]
    with pytest.raises(ConnectFailed) as caught:
        async with connect_stdio(command, stderr="capture"):
            raise AssertionError

    assert caught.value.exit_code == 3
    assert "no key" in caught.value.stderr_tail


async def test_a_child_that_writes_no_json_is_given_up() -> None:
    """After ``limits.junk_bytes``; the error shows what came."""
    command = [sys.executable, "-c", "while True: print('Welcome!')"]
    limits = Limits(junk_bytes=100, shutdown_wait=0)
    with pytest.raises(ConnectFailed, match="Welcome!"):
        async with connect_stdio(
            command, client=Client("me", version="1", limits=limits), stderr="capture"
        ):
            raise AssertionError


async def test_a_program_that_does_not_exist() -> None:
    """ConnectFailed as well."""
    with pytest.raises(ConnectFailed, match="no-such-program"):
        async with connect_stdio(["/no-such-program"]):
            raise AssertionError


# ---------------------------------------------------------------- keep-alive


async def test_an_idle_server_is_pinged(autojump_clock: trio.testing.MockClock) -> None:
    """After each span of silence, and only then."""
    client = Client("me", version="1", keep_alive=10)
    async with scripted(client) as (session, script):
        for elapsed in (10, 20):
            script.answer(await script.request("ping"), {})
            assert trio.current_time() == elapsed
        await trio.sleep(5)
        script.tell("x/alive")
        await trio.sleep(14)  # the span at 30 was not silent
        assert session.calls() == ()
        script.refuse(await script.request("ping"), -32601, "no ping here")
        assert trio.current_time() == 40
        await trio.sleep(15)

        assert session.session.error is None


async def test_a_server_that_answers_no_ping_is_lost(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """After the same span; waiting calls settle with SessionLost."""
    client = Client("me", version="1", keep_alive=10)
    async with scripted(client) as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("hold"))
        with pytest.raises(SessionLost, match="not answered a ping within 10 s"):
            await call.wait()
        await script.closed.wait()

    assert trio.current_time() == 20


async def test_a_busy_server_need_not_answer_pings(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Anything that comes in is a sign of life."""
    client = Client("me", version="1", keep_alive=10)
    async with scripted(client) as (session, script):
        await script.request("ping")
        await trio.sleep(5)
        script.tell("x/alive")
        await trio.sleep(6)

        assert session.session.error is None


# ---------------------------------------------------------------- cancellation everywhere


class Bomb(trio.abc.Instrument):
    """Cancels a scope at the k-th step of any task."""

    def __init__(self, k: int) -> None:
        self.k, self.n = k, 0
        self.scope: trio.CancelScope | None = None

    def before_task_step(self, _: trio.lowlevel.Task) -> None:
        if self.scope is not None:
            self.n += 1
            if self.n == self.k:
                self.scope.cancel()


async def scenario(session: ClientSession) -> None:
    """Use the session in every way that waits."""
    await session.call_tool("a", progress=print)
    await session.call_tool("b", deadline=Deadline())
    await session.notify("x/y")
    async with session.open_call("c") as call:
        assert [update async for update in call.updates] == []
        await call.wait_result()
    async with session.open_call("hold"):
        await trio.sleep(1)
    with trio.move_on_after(1):
        await session.call_tool("hold")


def test_cancelled_anywhere_nothing_is_left() -> None:
    """The block ends, both sides are closed and their tables empty, at every point."""
    k = 0
    while True:
        k += 1
        bomb, server = Bomb(k), EchoServer()

        async def main(bomb: Bomb = bomb, server: EchoServer = server) -> None:
            with trio.CancelScope() as scope:
                bomb.scope = scope
                async with connect_memory(server) as session:
                    await scenario(session)
            bomb.scope = None

        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(main, clock=clock, instruments=[bomb])
        for session in server.sessions:
            assert session.error is not None
            assert session.calls() == ()
        assert server.held == 0
        if bomb.n < k:
            break

    assert k > 40
