"""Finding out what a server speaks, and answering what its results ask for."""

from __future__ import annotations

import gc
import weakref
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio import (
    Client,
    ConnectFailed,
    Deadline,
    ErrorCode,
    InvalidResult,
    Limits,
    ProtocolViolation,
    Refusal,
    Server,
    connect_http,
    connect_stdio,
    connect_transport,
    serve_http,
)
from mcp_trio.runtime.isolation import in_own_context
from mcp_trio.transports.memory import byte_pair
from mcp_trio.wire.revisions import ENVELOPED, LEGACY, REVISIONS
from tests.client.scripted import Outcome, Script
from tests.transports.children.launch import HERE, plain
from tests.transports.http_raw import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio import ClientSession

ALL = list(REVISIONS)
MODERN, NEWEST = ENVELOPED[-1].version, LEGACY[-1].version
DISCOVERED: dict[str, Any] = {
    "resultType": "complete",
    "supportedVersions": [MODERN, NEWEST],
    "capabilities": {"tools": {}},
    "ttlMs": 0,
    "cacheScope": "private",
}


def a_client(**options: Any) -> Client:
    return Client("finder", version="1", **{"revisions": ALL, **options})


@asynccontextmanager
async def unopened() -> AsyncIterator[tuple[Any, Script]]:
    ours, theirs = byte_pair(Limits())
    script = Script(theirs)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(script.run)  # noqa: ASYNC113 - nothing has to be ready
        yield ours, script
        nursery.cancel_scope.cancel()


async def revision_with(client: Client, transport: Any) -> str:
    async with connect_transport(transport, client=client) as session:
        return session.revision.version


@asynccontextmanager
async def discovered(client: Client) -> AsyncIterator[tuple[ClientSession, Script]]:
    async with unopened() as (transport, script), trio.open_nursery() as nursery:

        async def introduce() -> None:
            script.answer(await script.request("server/discover"), DISCOVERED)

        nursery.start_soon(introduce)
        async with connect_transport(transport, client=client) as session:
            yield session, script


# ---------------------------------------------------------------- the era


async def test_a_silent_server_is_asked_to_initialize(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Late answers to the probe belong to nobody."""
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        opened = Outcome(nursery, partial(revision_with, a_client(), transport))
        probe = await script.request("server/discover")
        await script.notification("notifications/cancelled")
        opening = script.shake_hands()
        script.answer(probe, DISCOVERED)
        await opening
        await opened.wait()
        assert opened.value == NEWEST
    assert autojump_clock.current_time() >= Limits().probe_time


@pytest.mark.parametrize("code", [-32601, -32600, -32602, -32000, 1])
async def test_an_error_of_no_modern_code_leads_to_the_handshake(code: int) -> None:
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        opened = Outcome(nursery, partial(revision_with, a_client(), transport))
        script.refuse(await script.request("server/discover"), code, "what?")
        await script.shake_hands()
        await opened.wait()
        assert opened.value == NEWEST


async def test_a_client_that_does_no_handshake_says_so() -> None:
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        opened = Outcome(nursery, partial(revision_with, a_client(revisions=[MODERN]), transport))
        script.refuse(await script.request("server/discover"), -32601, "what?")
        await opened.ended()
        assert isinstance(opened.error, ConnectFailed)


async def test_a_malformed_introduction_is_an_error_of_the_connection() -> None:
    async with unopened() as (transport, script), trio.open_nursery() as nursery:
        opened = Outcome(nursery, partial(revision_with, a_client(), transport))
        broken = {**DISCOVERED, "capabilities": 5}
        script.answer(await script.request("server/discover"), broken)
        await opened.ended()
        assert isinstance(opened.error, ConnectFailed)
        assert "capabilities" in str(opened.error)


async def test_a_server_that_ends_on_the_probe_is_started_again() -> None:
    """With a handshake, then; a client that does none hears of it."""
    script = (HERE / "scripted.py").read_text()
    touchy = script.replace(
        'if message["method"] == "initialize":',
        'if message["method"] == "server/discover":\n        sys.exit(3)\n'
        '    if message["method"] == "initialize":',
    )
    assert touchy != script
    async with connect_stdio(plain(touchy), client=a_client()) as session:
        assert session.revision.version == NEWEST
        assert not (await session.call_tool("plain")).is_error
    with pytest.raises(ConnectFailed):
        async with connect_stdio(plain(touchy), client=a_client(revisions=[MODERN])):
            raise AssertionError("not reached")


async def test_what_is_no_answer_over_http_is_an_error_of_the_connection() -> None:
    """Neither a page nor silence beyond the client's deadline leaves as anything else."""
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p/>"

    async def answer(said: bytes, stream: trio.SocketStream) -> None:
        while await stream.receive_some():
            await stream.send_all(said)

    for said, client in (
        (page, a_client()),
        (b"", a_client(deadline=Deadline(idle=0.1, cap=0.1))),
    ):
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_tcp, partial(answer, said), 0, host="127.0.0.1")
            (listener,) = await nursery.start(serve)
            port = listener.socket.getsockname()[1]
            with pytest.raises(ConnectFailed):
                async with connect_http(f"http://127.0.0.1:{port}/mcp", client=client):
                    raise AssertionError("not reached")
            nursery.cancel_scope.cancel()


# ---------------------------------------------------------------- rounds


async def one_round(client: Client, result: dict[str, Any]) -> tuple[Outcome, list[Any]]:
    """Make a call that is answered with *result*, then with a complete one."""
    sent: list[Any] = []
    async with discovered(client) as (session, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, partial(session.call_tool, "t", {"a": 1}))
        sent.append(await script.request("tools/call"))
        script.answer(sent[-1], result)
        with trio.move_on_after(1):
            sent.append(await script.request("tools/call"))
            script.answer(sent[-1], {"resultType": "complete", "content": []})
        await call.ended()
    return call, sent


async def test_the_state_goes_back_as_it_came_and_nothing_else_does(
    autojump_clock: trio.testing.MockClock,
) -> None:
    client = a_client(roots=["file:///x"])
    result = {
        "resultType": "input_required",
        "inputRequests": {"k": {"method": "roots/list"}},
        "requestState": "\u00fc state ",
    }
    call, (first, second) = await one_round(client, result)
    assert call.error is None
    assert second.id != first.id
    extra = {"inputResponses", "requestState"}
    assert {k: v for k, v in second.params.items() if k not in extra} == first.params
    assert second.params["requestState"] == "\u00fc state "
    assert second.params["inputResponses"] == {"k": {"roots": [{"uri": "file:///x"}]}}


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"inputRequests": {}},
        {"inputRequests": []},
        {"inputRequests": {"k": 5}},
        {"inputRequests": {"k": {"method": 5}}},
        {"inputRequests": {"k": {"method": "roots/list", "params": []}}},
        {"inputRequests": {str(n): {"method": "roots/list"} for n in range(101)}},
        {"requestState": 5},
    ],
)
async def test_a_result_that_asks_for_nothing_sensible_is_invalid(
    rest: dict[str, Any], autojump_clock: trio.testing.MockClock
) -> None:
    call, sent = await one_round(a_client(roots=[]), {"resultType": "input_required", **rest})
    assert isinstance(call.error, InvalidResult)
    assert len(sent) == 1


async def test_a_question_that_is_refused_ends_the_call_and_the_other_questions(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """There is no way to send a refusal back: nothing more is sent."""
    client = a_client()
    ended: list[str] = []

    @client.sampling
    async def refuse(*_: Any) -> str:
        raise Refusal(ErrorCode.USER_REJECTED, "the user said no")

    @client.elicitation
    async def hold(*_: Any) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            ended.append("held")

    form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    prompt = {"messages": [], "maxTokens": 1}
    questions = {
        "a": {"method": "elicitation/create", "params": form},
        "b": {"method": "sampling/createMessage", "params": prompt},
    }
    result = {"resultType": "input_required", "inputRequests": questions}
    call, sent = await one_round(client, result)
    assert isinstance(call.error, Refusal)
    assert len(sent) == 1
    assert ended == ["held"]


async def test_rounds_come_to_an_end() -> None:
    client = a_client(limits=Limits(rounds=3))
    async with discovered(client) as (session, script), trio.open_nursery() as nursery:
        call = Outcome(nursery, partial(session.call_tool, "t", {}))
        for _ in range(4):
            asked = await script.request("tools/call")
            script.answer(asked, {"resultType": "input_required", "requestState": "s"})
        await call.ended()
        assert isinstance(call.error, ProtocolViolation)
        assert "3 rounds" in str(call.error)


# ---------------------------------------------------------------- what is left


async def test_cancelled_calls_leave_nothing_to_be_posted() -> None:
    """Over HTTP the end of the connection tells the server; no bytes are on their way."""
    server = Server("held", version="1", revisions=ALL)

    @server.tool
    async def hold() -> str:
        """Wait for ever."""
        await trio.sleep_forever()
        return ""

    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, 0))
        async with connect_http(http.url, client=a_client(revisions=[MODERN])) as session:
            for _ in range(3):
                with trio.move_on_after(0.02):
                    await session.call_tool("hold")
            transport: Any = session.session.transport
            assert transport._posting_bytes == 0
            assert not transport.calls
            await until(lambda: not http.enveloped)
        nursery.cancel_scope.cancel()


async def test_a_handler_that_is_cancelled_leaves_no_cycle() -> None:
    class Held:
        """What a handler holds."""

    gone: list[weakref.ref[Held]] = []

    async def hold() -> None:
        held = Held()
        gone.append(weakref.ref(held))
        await trio.sleep_forever()

    gc.disable()
    try:
        with trio.move_on_after(0):
            await in_own_context(hold())
        await trio.lowlevel.checkpoint()
        assert gone[0]() is None
    finally:
        gc.enable()
