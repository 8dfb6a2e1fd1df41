"""Streams that are cut and taken up again, and sessions that the server forgets."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Client, ClientSession, HttpFailure, OutcomeUnknown, SessionLost
from mcp_trio.limits import Limits
from mcp_trio.wire.revisions import LEGACY
from tests.client.http_sessions import raw_session, text_of
from tests.client.raw_http import INFO, NEWEST, SESSION, RawServer, Received
from tests.client.scripted import Outcome

VERSIONS = [revision.version for revision in LEGACY]
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}


def progress(request: Received, n: int) -> dict[str, Any]:
    token = request.message["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": n}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


# ---------------------------------------------------------------- a call's stream


@pytest.mark.case("24")
@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("how", ["close", "reset", "end"])
async def test_a_call_goes_on_after_its_stream_was_cut(version: str, how: str) -> None:
    """By GET with the last event id; each event counts once."""
    async with (
        raw_session(hands={"version": version}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        seen: list[float] = []
        first = trio.Event()

        def progressed(told: Any) -> None:
            seen.append(told.progress)
            first.set()

        call = Outcome(nursery, lambda: session.call_tool("t", progress=progressed))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event(id="a.0", more="retry: 1\n")
        await request.event(progress(request, 1), id="a.1")
        await first.wait()
        await {"close": request.close, "reset": request.reset, "end": request.stream_ends}[how]()
        get = await server.next("GET")
        assert get.headers["last-event-id"] == "a.1"
        assert get.headers["mcp-session-id"] == SESSION
        await get.stream_begins()
        await get.event(progress(request, 2), id="a.2")
        await get.event(request.answer({"content": [{"type": "text", "text": "done"}]}), id="a.3")
        await get.stream_ends()
        assert text_of(await call.wait()) == "done"
        assert seen == [1, 2]


async def test_the_oldest_revision_does_not_resume() -> None:
    async with (
        raw_session(hands={"version": VERSIONS[0]}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event(LOG, id="a.1")
        await request.close()
        with pytest.raises(OutcomeUnknown):
            await call.wait()


@pytest.mark.case("24")
@pytest.mark.parametrize("status", [400, 405, 409, 500])
async def test_a_stream_that_cannot_be_resumed_leaves_the_outcome_unknown(status: int) -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event(id="a.1", more="retry: 1\n")
        await request.close()
        await (await server.next("GET")).respond(status)
        with pytest.raises(OutcomeUnknown, match="cannot be resumed"):
            await call.wait()


async def test_polling_waits_as_long_as_the_server_asks() -> None:
    """The server ends the stream in order, several times, and says when to come back."""
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event(id="a.1", more="retry: 120\n")
        await request.stream_ends()
        start = trio.current_time()
        get = await server.next("GET")
        assert trio.current_time() - start >= 0.11
        await get.stream_begins()
        await get.event(LOG, id="a.2", more="retry: 1\n")
        await get.stream_ends()
        get = await server.next("GET")
        assert get.headers["last-event-id"] == "a.2"
        await get.stream_begins()
        await get.event(request.answer({"content": []}))
        await call.wait()


async def test_a_call_that_is_being_resumed_can_be_cancelled() -> None:
    async with raw_session() as (session, server):
        for stage in ("waiting", "listening"):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.call_tool, "t")
                request = await server.next("tools/call")
                await request.stream_begins()
                retry = 9999 if stage == "waiting" else 1
                await request.event(id="a.1", more=f"retry: {retry}\n")
                await request.close()
                if stage == "listening":
                    get = await server.next("GET")
                    await get.stream_begins()
                await trio.testing.wait_all_tasks_blocked(0.01)
                nursery.cancel_scope.cancel()
            cancelled = await server.next("notifications/cancelled")
            assert cancelled.message["params"]["requestId"] == request.message["id"]
            await cancelled.accept()
        assert server.waiting() == []
        assert await get.stream.receive_some() == b""


async def test_the_answer_may_come_on_another_stream() -> None:
    async with (
        raw_session(hands={"stream": True}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        standing = server.standing
        assert standing is not None
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await standing.event(request.answer({"content": []}))
        await call.wait()
        assert await request.stream.receive_some() == b""


async def test_a_reverse_answer_is_posted_again_where_its_connection_broke() -> None:
    client = Client("c", version="1", roots=["file:///x"])
    async with raw_session(client=client) as (session, server), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"})
        answer = await server.next("answer")
        await answer.close()
        answer = await server.next("answer")
        assert answer.message["id"] == "r1"
        await answer.accept()
        await request.event(request.answer({"content": []}))
        await call.wait()


# ---------------------------------------------------------------- the standing stream


async def test_the_standing_stream_is_resumed_after_its_last_event() -> None:
    heard = [trio.Event(), trio.Event()]
    waiting = iter(heard)
    client = Client("c", version="1")
    client.log(lambda _session, _params: next(waiting).set())
    async with raw_session(client=client, hands={"stream": True}) as (_, server):
        get = server.standing
        assert get is not None
        await get.event(LOG, id="0.7", more="retry: 1\n")
        await get.close()
        get = await server.next("GET")
        assert get.headers["last-event-id"] == "0.7"
        await get.stream_begins()
        await get.event(LOG, id="0.8")
        await heard[1].wait()


async def test_a_standing_stream_whose_events_have_expired_begins_anew() -> None:
    async with raw_session(hands={"stream": True}) as (_, server):
        get = server.standing
        assert get is not None
        await get.event(LOG, id="0.7", more="retry: 1\n")
        await get.close()
        await (await server.next("GET")).respond(400)
        get = await server.next("GET")
        assert "last-event-id" not in get.headers
        await get.respond(405)


async def test_a_404_for_the_standing_stream_alone_is_no_lost_session() -> None:
    """It is confirmed with a ping; such a server has no standing stream."""
    async with (
        raw_session(hands={"get_status": 404}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        await (await server.next("ping")).result()
        call = Outcome(nursery, lambda: session.call_tool("t"))
        await (await server.next("tools/call")).text("x")
        await call.wait()
        assert server.waiting() == []


# ---------------------------------------------------------------- lost sessions


async def reopen(server: RawServer, session_id: str = "S2") -> Received:
    """Play the server's part of a second handshake."""
    opening = await server.next("initialize")
    assert not {"mcp-session-id", "mcp-protocol-version"} & opening.headers.keys()
    await opening.result(
        {"protocolVersion": NEWEST, "capabilities": {"tools": {}}, "serverInfo": INFO},
        headers=f"Mcp-Session-Id: {session_id}\r\n",
    )
    initialized = await server.next("notifications/initialized")
    assert initialized.headers["mcp-session-id"] == session_id
    await initialized.accept()
    return opening


async def lose(session: ClientSession, server: RawServer, nursery: trio.Nursery, n: int = 3) -> Any:
    """*n* calls are open when one of them hears that the session is unknown."""
    calls = [Outcome(nursery, lambda: session.call_tool("t")) for _ in range(n)]
    requests = [await server.next("tools/call") for _ in range(n)]
    await requests[0].respond(404)
    return calls, requests


@pytest.mark.case("08")
async def test_a_lost_session_is_opened_again_once() -> None:
    """All calls under way fail at once; later ones go on in the new session."""
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        calls, requests = await lose(session, server, nursery)
        for call in calls:
            with pytest.raises(SessionLost, match="404"):
                await call.wait()
        later = Outcome(nursery, lambda: session.call_tool("t"))
        await reopen(server)
        request = await server.next("tools/call")
        assert request.headers["mcp-session-id"] == "S2"
        await request.text("new")
        assert text_of(await later.wait()) == "new"
        await (await server.next("GET")).respond(405)
        assert server.waiting() == []
        for old in requests[1:]:
            assert await old.stream.receive_some() == b""


@pytest.mark.case("08")
async def test_what_was_set_up_is_set_up_again() -> None:
    capabilities = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}
    async with (
        raw_session(hands={"capabilities": capabilities}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        asked = [
            lambda: session.subscribe("x://1"),
            lambda: session.subscribe("x://2"),
            lambda: session.unsubscribe("x://2"),
            lambda: session.set_log_level("error"),
        ]
        for ask in asked:
            call = Outcome(nursery, ask)
            await (await server.next()).result()
            await call.wait()
        await lose(session, server, nursery, 1)
        await reopen(server)
        again = []
        for _ in range(2):
            request = await server.next()
            again.append((request.rpc, request.message["params"]))
            await request.result()
        assert again == [
            ("resources/subscribe", {"uri": "x://1"}),
            ("logging/setLevel", {"level": "error"}),
        ]
        await (await server.next("GET")).respond(405)
        nursery.cancel_scope.cancel()


@pytest.mark.case("08")
async def test_calls_that_are_safe_to_repeat_are_repeated_by_policy() -> None:
    tools = [
        {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
        {"name": "add", "inputSchema": {"type": "object"}, "annotations": {}},
    ]
    async with (
        raw_session(on_session_lost="retry") as (session, server),
        trio.open_nursery() as nursery,
    ):

        async def list_tools() -> None:
            async for _ in session.list_tools():
                pass

        listing = Outcome(nursery, list_tools)
        await (await server.next("tools/list")).result({"tools": tools})
        await listing.wait()
        calls = {
            name: Outcome(nursery, lambda name=name: session.call_tool(name))  # type: ignore[misc]  # a default argument
            for name in ("read", "set", "add", "unheard")
        }
        requests = [await server.next("tools/call") for _ in calls]
        await requests[0].respond(404)
        await reopen(server)
        for name in ("add", "unheard"):
            with pytest.raises(SessionLost):
                await calls[name].wait()
        for _ in ("read", "set"):
            request = await server.next("tools/call")
            assert request.headers["mcp-session-id"] == "S2"
            await request.text(request.message["params"]["name"])
        for name in ("read", "set"):
            assert text_of(await calls[name].wait()) == name
        await (await server.next("GET")).respond(405)


async def test_a_lost_session_may_be_the_end() -> None:
    async with (
        raw_session(on_session_lost="fail") as (session, server),
        trio.open_nursery() as nursery,
    ):
        calls, _ = await lose(session, server, nursery)
        for call in calls:
            with pytest.raises(SessionLost, match="404"):
                await call.wait()
        with pytest.raises(SessionLost):
            await session.ping()
        assert server.waiting() == []


@pytest.mark.parametrize("fault", ["status", "error", "revision", "initialized"])
async def test_a_session_that_cannot_be_opened_again_is_lost(fault: str) -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        await lose(session, server, nursery, 1)
        later = Outcome(nursery, session.ping)
        opening = await server.next("initialize")
        if fault == "status":
            await opening.respond(500, b"oops")
        elif fault == "error":
            id_ = opening.message["id"].encode()
            body = b'{"jsonrpc":"2.0","id":"%b","error":{"code":1,"message":"no"}}' % id_
            await opening.respond(200, body)
        else:
            version = VERSIONS[1] if fault == "revision" else NEWEST
            await opening.result(
                {"protocolVersion": version, "capabilities": {}, "serverInfo": INFO}
            )
            if fault == "initialized":
                await (await server.next("notifications/initialized")).respond(400)
        with pytest.raises(SessionLost, match="could not be opened"):
            await later.wait()
        nursery.cancel_scope.cancel()


async def test_a_404_of_the_standing_stream_that_the_ping_confirms() -> None:
    async with raw_session(hands={"get_status": 404}) as (session, server):
        await (await server.next("ping")).respond(404)
        await reopen(server)
        await (await server.next("GET")).respond(405)
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.ping)
                await (await server.next("ping")).result()


async def test_a_404_without_a_session_is_one_calls_fault() -> None:
    async with (
        raw_session(hands={"session_id": None}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        call = Outcome(nursery, lambda: session.call_tool("t"))
        await (await server.next("tools/call")).respond(404)
        with pytest.raises(HttpFailure):
            await call.wait()


async def test_dialogs_of_a_lost_session_end() -> None:
    client = Client("c", version="1", limits=Limits(drain=0.1))
    cancelled = trio.Event()

    @client.roots
    async def roots(ctx: Any) -> list[str]:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        return []

    async with raw_session(client=client) as (session, server), trio.open_nursery() as nursery:
        first = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})
        await trio.testing.wait_all_tasks_blocked(0.01)
        _, (second,) = await lose(session, server, nursery, 1)
        with pytest.raises(SessionLost):
            await first.wait()
        with trio.fail_after(5):
            await cancelled.wait()
        await reopen(server)
        await (await server.next("GET")).respond(405)
        assert second.done.is_set()
        nursery.cancel_scope.cancel()
