"""HTTP+SSE of 2024-11-05, the server's side, next to the endpoint of the newer transport."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import pytest
import trio
import trio.testing

from mcp_trio import Limits, serve_http
from mcp_trio.errors import Refusal
from mcp_trio.transports import http_server
from tests.transports.http_raw import (
    CAPABLE,
    EVERY,
    Client,
    Message,
    Raw,
    Workshop,
    connected,
    dial,
    hang_up,
    quiet_log,
    serving,
    text_of,
    until,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio.transports.http_server import HttpServer
    from mcp_trio.wire.http_head import RequestHead

__all__ = ["quiet_log"]  # a fixture for all

OLDEST = EVERY[0]
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


class Pair(Client):
    """A client of the pair: one stream to read, and a URI to POST to."""

    def __init__(self, http: HttpServer, stream: Raw, raw: Raw, uri: str, **defaults: str) -> None:
        super().__init__(http, raw, **defaults)
        self.dialed.append(stream)
        self.stream = stream
        self.uri = uri

    async def send(self, message: object) -> None:
        """POST a message, which is accepted."""
        response = await self.post(message, path=self.uri)
        assert (response.status, response.body) == (202, b"")

    async def result(self, message: Message) -> Message:
        """POST a request and return the next message of the stream, which answers it."""
        await self.send(message)
        answer = await self.stream.message()
        assert answer["id"] == message["id"]
        return answer


@asynccontextmanager
async def paired(
    http: HttpServer, version: str = OLDEST, *, path: str = "/sse", **defaults: str
) -> AsyncIterator[Pair]:
    """A client of the pair whose session is open."""
    stream = await dial(http)
    starter = Client(http, stream, **defaults)
    await starter.start("GET", path=path, Accept="text/event-stream")
    head = await stream.head()
    assert head.status == 200, head
    assert head.headers["content-type"] == "text/event-stream"
    first = await stream.event()
    assert first is not None
    assert first.event == "endpoint"
    uri = urljoin(path, first.data.decode())
    pair = Pair(http, stream, await dial(http), uri, **defaults)
    try:
        params = {
            "protocolVersion": version,
            "capabilities": CAPABLE,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        opening = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = await pair.result(opening)
        assert answer["result"]["protocolVersion"] == version
        await pair.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield pair
    finally:
        with trio.move_on_after(1, shield=True):
            await hang_up(pair.dialed)


@pytest.mark.parametrize("version", [EVERY[0], EVERY[-1]])
@pytest.mark.parametrize("path", ["/sse", "/sse/"])
async def test_everything_comes_on_the_one_stream(version: str, path: str) -> None:
    server = Workshop()
    async with (
        serving(server, sse_path="/sse") as http,
        paired(http, version, path=path) as pair,
    ):
        for i in range(3):
            answer = await pair.result(pair.calling("echo", {"text": str(i)}))
            assert text_of(answer) == str(i)
        await pair.send(pair.calling("steps", {"n": 2}, 70))
        messages = [await pair.stream.message() for _ in range(3)]
        assert [m["params"]["progress"] for m in messages[:2]] == [1, 2]
        assert messages[2]["id"] == 70
        await pair.send(pair.calling("ask", id_=71))
        question = await pair.stream.message()
        assert question["method"] == "elicitation/create"
        await pair.send(
            {
                "jsonrpc": "2.0",
                "id": question["id"],
                "result": {"action": "accept", "content": {"n": 1}},
            }
        )
        assert text_of(await pair.stream.message()) == "{'n': 1}"


async def test_requests_are_served_at_once_and_can_be_cancelled() -> None:
    server = Workshop()
    async with serving(server, sse_path="/sse") as http, paired(http) as pair:
        await pair.send(pair.calling("hold", {"name": "a"}, 1))
        await pair.send(pair.calling("hold", {"name": "b"}, 2))
        await server.until_entered("b")
        cancel = {"requestId": 1}
        await pair.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel})
        await server.until_left("a")
        server.open("b")
        assert (await pair.stream.message())["id"] == 2
        assert (await pair.result(PING))["result"] == {}


async def test_both_transports_are_there_and_share_no_session() -> None:
    server = Workshop()
    async with (
        serving(server, sse_path="/sse") as http,
        paired(http) as pair,
        connected(http) as client,
    ):
        assert (await client.call("echo", {"text": "x"})).status == 200
        session_id = pair.uri.rpartition("=")[2]
        assert (await client.post(PING, Mcp_Session_Id=session_id)).status == 404
        uri = pair.uri.replace(session_id, client.session_id)
        assert (await client.post(PING, path=uri)).status == 404
        assert http.sessions.statistics().open == 2


async def test_the_pair_is_there_on_request_only() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        assert (await client.request("GET", path="/sse")).status == 404


async def test_a_client_of_the_newer_transport_learns_that_this_is_the_older() -> None:
    """By a 405 to its initialize, after which it has to GET."""
    async with (
        serving(Workshop(), sse_path="/sse") as http,
        connected(http, open=False) as client,
    ):
        response = await client.initialize(path="/sse")
        assert (response.status, response.headers["allow"]) == (405, "GET")
        response = await client.request("GET", path="/sse/messages")
        assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_what_is_wrong_is_refused() -> None:
    limits = Limits(message_bytes=10_000)
    async with serving(Workshop(limits), sse_path="/sse") as http, paired(http) as pair:

        async def status(message: object = PING, path: str = pair.uri, **headers: str) -> int:
            response = await pair.post(message, path=path, **headers)
            assert response.error["code"] in (-32600, -32700)
            return response.status

        assert await status(path="/sse/messages") == 400
        assert await status(path="/sse/messages?sessionId=1&sessionId=2") == 400
        assert await status(path="/sse/messages?sessionId=" + "f" * 40) == 404
        assert await status(b"{") == 400
        assert await status([PING]) == 400
        assert await status({"jsonrpc": "2.0", "id": 1, "method": 1}) == 400
        assert await status(Content_Type="text/plain") == 415
        assert await status(Host="evil.com") == 421
        assert await status(Origin="http://evil.com") == 403
        response = await pair.request("GET", path="/sse", Accept="application/json")
        assert response.status == 406
        assert (await pair.result(PING))["result"] == {}
        assert await status({**PING, "params": {"x": "x" * 10_000}}) == 413


async def test_a_session_is_its_openers_alone() -> None:
    async def authenticate(head: RequestHead) -> str:
        name = head.headers.get("authorization")
        if name is None:
            raise Refusal(-32001, "who are you?")
        return name

    server = Workshop()
    async with (
        serving(server, sse_path="/sse", authenticate=authenticate) as http,
        paired(http, Authorization="alice") as pair,
    ):
        response = await pair.post(PING, path=pair.uri, Authorization="bob")
        assert response.status == 404
        response = await pair.post(PING, path=pair.uri, Authorization=None)
        assert response.status == 401
        assert (await pair.result(PING))["result"] == {}


async def test_the_end_of_the_stream_is_that_of_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_server, "_LOOK", 0.02)
    server = Workshop()  # noticed long before the next comment is due
    async with serving(server, sse_path="/sse") as http, paired(http) as pair:
        await pair.send(pair.calling("hold", {"name": "a"}))
        await server.until_entered("a")
        await pair.stream.stream.aclose()
        await server.until_left("a")
        await until(lambda: not len(http.sessions))
        assert (await pair.post(PING, path=pair.uri)).status == 404
        assert http.open_requests == 0


async def test_sessions_of_the_pair_are_bounded() -> None:
    async with serving(Workshop(Limits(sessions=1)), sse_path="/sse") as http, paired(http):
        raw = await dial(http)
        client = Client(http, raw)
        response = await client.request("GET", path="/sse")
        assert response.status == 503


async def test_a_drain_waits_for_the_answers_that_are_owed() -> None:
    server = Workshop()
    async with (
        serving(server, sse_path="/sse") as http,
        paired(http) as busy,
        paired(http) as idle,
    ):
        await busy.send(busy.calling("hold", {"name": "a"}, 1))
        await server.until_entered("a")

        http.stop_accepting()

        assert await idle.stream.rest() == []
        with trio.move_on_after(0.05):
            await http.wait_drained()
            pytest.fail("a call is under way")
        server.open("a")
        await http.wait_drained()
        assert [m["id"] for m in await busy.stream.rest()] == [1]


async def test_a_cancelled_server_tells_every_waiter() -> None:
    server = Workshop(Limits(drain=0.5))
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, sse_path="/sse"))
        async with paired(http) as pair:
            await pair.send(pair.calling("hold", {"name": "a"}, 1))
            await server.until_entered("a")
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                [answer] = await pair.stream.rest()
                assert answer["id"] == 1
                assert answer["error"]["code"] == -32603


async def test_a_client_that_never_reads_loses_no_answer_and_holds_up_nobody() -> None:
    """Its handlers wait; when it reads at last, everything is there, in order."""
    limits = Limits(events_per_stream=10)
    server = Workshop(limits)
    async with (
        serving(server, sse_path="/sse") as http,
        paired(http) as stalled,
        paired(http) as other,
    ):
        await stalled.send(stalled.calling("echo", {"text": "x" * 8_000_000}, 0))
        await trio.testing.wait_all_tasks_blocked(0.01)
        for i in range(1, 31):
            await stalled.send(stalled.calling("echo", {"text": "x" * (i * 2_000)}, i))
        assert (await other.result(PING))["result"] == {}
        session = next(iter(http.sessions))
        assert session.session.statistics().in_flight > 0
        ids = [(await stalled.stream.message())["id"] for _ in range(31)]
        assert sorted(ids) == [*range(31)]
