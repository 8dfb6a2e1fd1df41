"""Sessions over HTTP: whose they are, how many there may be, and how they end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio import Limits, Server
from mcp_trio.errors import Refusal
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.stores.sqlite import SqliteStore
from mcp_trio.transports import http_server
from tests.transports.http_raw import (
    BATCHES,
    EVERY,
    HEADERS,
    PRIMES,
    Client,
    Workshop,
    connected,
    dial,
    expected_errors,
    quiet_log,
    serving,
    text_of,
    until,
)

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_trio.wire.http_head import RequestHead

__all__ = ["expected_errors", "quiet_log"]  # fixtures

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LOOK", 0.02)


async def settle() -> None:
    await trio.testing.wait_all_tasks_blocked(0.01)


# ---------------------------------------------------------------- ids


async def test_initialize_gives_an_id_that_nobody_can_guess() -> None:
    async with serving(Workshop()) as http:
        ids = set()
        for _ in range(20):
            async with connected(http) as client:
                assert len(client.session_id) >= 32
                assert all("!" <= c <= "~" for c in client.session_id)
                ids.add(client.session_id)
        assert len(ids) == 20


@pytest.mark.case("08")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_request_needs_the_id_of_a_session_that_is_there(method: str) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        body = PING if method == "POST" else None
        assert (await client.request(method, body, Mcp_Session_Id=None)).status == 400
        assert (await client.request(method, body, Mcp_Session_Id="é")).status == 400
        response = await client.request(method, body, Mcp_Session_Id="f" * 40)
        assert response.status == 404
        assert "initialize" in response.error["message"]
        assert (await client.post(PING)).status == 200


async def test_a_session_goes_on_over_any_connection() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        await client.raw.stream.aclose()
        for _ in range(3):
            assert (await client.post(PING, raw=await client.dial())).status == 200
        assert http.sessions.statistics().open == 1


async def test_an_initialize_that_fails_leaves_no_session() -> None:
    async with serving(Workshop()) as http, connected(http, open=False) as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        response = await client.post(message)
        assert response.json["error"]["code"] == -32602
        assert "mcp-session-id" not in response.headers
        assert len(http.sessions) == 0
        assert (await client.initialize()).status == 200


async def test_a_session_is_initialized_once() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.initialize()
        assert response.json["error"]["code"] == -32600
        assert "mcp-session-id" not in response.headers
        assert len(http.sessions) == 1


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("stored", [False, True])
async def test_delete_ends_a_session_and_all_that_goes_on_in_it(stored: bool) -> None:  # noqa: FBT001 - a parameter
    server = Workshop(Limits(sse_after=0.01))
    store = MemoryStore() if stored else None
    async with serving(server, store=store) as http, connected(http) as client:
        standing = await client.listen()
        talking = await client.start_call(
            "hold", {"name": "a", "before": 1}, raw=await client.dial()
        )
        await talking.head()
        silent = await client.start_call("hold", {"name": "b"}, raw=await client.dial())
        asking = await client.start_call("ask", raw=await client.dial())
        await asking.head()
        question = await asking.message()
        await server.until_entered("b")
        await trio.sleep(0.02)

        assert (await client.request("DELETE")).status == 200

        assert await standing.rest() == []
        assert (await talking.rest())[-1]["error"]["code"] == -32603
        response = await silent.response()
        is_json = response.headers["content-type"] == "application/json"
        answer = response.json if is_json else response.messages[-1]
        assert answer["error"]["code"] == -32603
        *withdrawn, answer = await asking.rest()
        assert [m["params"]["requestId"] for m in withdrawn] == [question["id"]]
        assert answer["result"]["isError"]
        for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
            assert (await client.request(method, body)).status == 404
        assert sorted(server.left) == ["a", "b"]
        await settle()
        if store is not None:
            statistics = await store.statistics()
            assert (statistics.sessions, statistics.events) == (0, 0)


async def test_requests_that_race_with_the_end_all_get_an_answer() -> None:
    """A closing session takes nothing more, and breaks nobody's connection."""
    server = Workshop(Limits(sse_after=0))
    async with serving(server, store=MemoryStore()) as http:
        for _ in range(10):
            async with connected(http) as client:
                statuses: list[int] = []

                async def one(i: int, client: Client, statuses: list[int]) -> None:
                    raw = await client.dial()
                    accept = ("text/event-stream", "application/json", "*/*")[i % 3]
                    if i == 4:
                        response = await client.request("DELETE", raw=raw)
                    elif i % 4 == 3:
                        response = await client.request("GET", raw=raw)
                    else:
                        response = await client.call("steps", {"n": 3}, raw=raw, Accept=accept)
                    statuses.append(response.status)

                async with trio.open_nursery() as nursery:
                    for i in range(12):
                        nursery.start_soon(one, i, client, statuses)
                assert set(statuses) <= {200, 404, 406}
                assert 200 in statuses
        assert len(http.sessions) == 0


@pytest.mark.case("23")
async def test_a_session_that_nobody_uses_ends(quick_watch: None) -> None:
    """One with an open stream or call is in use."""
    server = Workshop(Limits(session_idle=0.15))
    async with serving(server) as http:
        async with connected(http) as listening, connected(http) as calling:
            stream = await listening.listen()
            call = await calling.start_call("hold", {"name": "a"}, raw=await calling.dial())
            async with connected(http) as idle:
                await until(lambda: len(http.sessions) <= 2)
                assert (await idle.post(PING)).status == 404
            await trio.sleep(0.2)
            assert len(http.sessions) == 2
            server.open("a")
            assert (await call.response()).status == 200
            await stream.stream.aclose()
            assert (await calling.post(PING)).status == 200
            await until(lambda: len(http.sessions) <= 1)
        assert http.sessions.statistics().evicted == 2


@pytest.mark.case("23")
async def test_five_thousand_sessions_stay_within_the_bound() -> None:
    """The one that was unused for longest makes room; those in use stay."""
    server = Workshop(Limits(sessions=100))
    async with serving(server, patience=60) as http, connected(http) as first:
        stream = await first.listen()
        raw = await dial(http)
        client = Client(http, raw)
        ids = []
        for _ in range(5_000):
            client.defaults.pop("Mcp-Session-Id", None)
            client.defaults.pop("MCP-Protocol-Version", None)
            assert (await client.initialize()).status == 200
            ids.append(client.session_id)
            assert len(http.sessions) <= 100
        await settle()
        assert len(server.sessions()) == 100
        assert (await client.post(PING, Mcp_Session_Id=ids[-99])).status == 200
        assert (await client.post(PING, Mcp_Session_Id=ids[-100])).status == 404
        assert (await first.post(PING)).status == 200
        statistics = http.sessions.statistics()
        assert (statistics.opened, statistics.evicted) == (5_001, 4_901)
        await stream.stream.aclose()


@pytest.mark.case("23")
async def test_where_all_are_in_use_there_is_no_room() -> None:
    async with (
        serving(Workshop(Limits(sessions=2))) as http,
        connected(http) as one,
        connected(http) as two,
        connected(http, open=False) as no,
    ):
        await one.listen()
        await two.listen()
        response = await no.initialize()
        assert response.status == 503
        assert response.headers["retry-after"] == "1"
        assert response.error["code"] == -32600
        assert (await one.request("DELETE")).status == 200
        assert (await no.initialize()).status == 200
        assert http.sessions.statistics().refused == 1


# ---------------------------------------------------------------- principals


async def by_authorization(head: RequestHead) -> str:
    name = head.headers.get("authorization")
    if name is None:
        raise Refusal(-32001, "who are you?")
    return name


async def test_a_session_is_its_openers_alone() -> None:
    async with (
        serving(Workshop(), authenticate=by_authorization) as http,
        connected(http, Authorization="alice") as alice,
    ):
        for method, body in (("POST", PING), ("GET", None), ("DELETE", None)):
            response = await alice.request(method, body, Authorization="bob")
            assert response.status == 404
        assert (await alice.post(PING)).status == 200


@pytest.mark.case("24")
async def test_nobody_resumes_the_stream_of_another(tmp_path: Path) -> None:
    """Neither while the session is there, nor from the store when it has gone."""
    server = Workshop(Limits(sse_after=0))
    server.open("a")
    options: dict[str, Any] = {"authenticate": by_authorization}
    async with (
        SqliteStore(tmp_path / "events.db") as store,
        serving(server, store=store, **options) as http,
        connected(http, HEADERS, Authorization="alice") as alice,
    ):
        response = await alice.call("hold", {"name": "a", "before": 2})
        event_id = response.events[0].id
        again = partial(alice.request, "GET", Last_Event_ID=event_id)
        assert (await again(Authorization="bob")).status == 404
        assert (await again()).status == 200
        http.stop_accepting()
    async with (
        SqliteStore(tmp_path / "events.db") as store,
        serving(Workshop(), store=store, **options) as http,
        connected(http, open=False) as client,
    ):
        client.defaults = alice.defaults
        again = partial(client.request, "GET", Last_Event_ID=event_id)
        assert (await again(Authorization="bob")).status == 404
        assert text_of((await again()).messages[-1]) == "held a"


async def test_who_cannot_be_named_is_challenged() -> None:
    async with (
        serving(Workshop(), authenticate=by_authorization) as http,
        connected(http, open=False) as client,
    ):
        response = await client.initialize()
        assert response.status == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.error == {"code": -32001, "message": "who are you?"}
        client.defaults["Authorization"] = "alice"
        assert (await client.initialize()).status == 200


async def test_an_authenticator_that_fails_lets_nobody_in(
    expected_errors: pytest.LogCaptureFixture,
) -> None:
    async def authenticate(head: RequestHead) -> str:
        raise LookupError("the secret name of the database")

    async with (
        serving(Workshop(), authenticate=authenticate) as http,
        connected(http, open=False) as client,
    ):
        response = await client.initialize()
        assert response.status == 500
        assert b"secret" not in response.body
        assert len(http.sessions) == 0
    assert "the authenticator failed" in expected_errors.text


@pytest.mark.case("23")
async def test_one_principal_cannot_take_all_sessions() -> None:
    server = Workshop(Limits(sessions=10, sessions_per_principal=2))
    async with (
        serving(server, authenticate=by_authorization) as http,
        connected(http, Authorization="bob") as bob,
    ):
        for _ in range(20):
            async with connected(http, Authorization="alice") as alice:
                assert (await alice.post(PING)).status == 200
        assert len(http.sessions) == 3
        assert (await bob.post(PING)).status == 200


# ---------------------------------------------------------------- without sessions


@pytest.mark.parametrize("version", EVERY)
async def test_a_stateless_server_serves_each_request_by_itself(version: str) -> None:
    async with serving(Workshop(), stateless=True) as http, connected(http, version) as client:
        assert "Mcp-Session-Id" not in client.defaults
        header = {"MCP_Protocol_Version": version if version != EVERY[0] else EVERY[1]}
        for session in (None, "anything"):
            options = {**header, "Mcp_Session_Id": session}
            response = await client.call("echo", {"text": "x"}, **options)
            assert text_of(response.json) == "x"
            *progress, answer = (await client.call("steps", {"n": 2}, **options)).messages
            assert len(progress) == 2
            assert text_of(answer) == "done"
        assert (await client.request("GET")).status == 405
        assert (await client.request("DELETE")).status == 405
        assert len(http.sessions) == 0


async def test_a_stateless_server_assumes_the_first_revision_of_the_transport() -> None:
    async with serving(Workshop(), stateless=True) as http, connected(http, open=False) as client:
        batch = [PING, {**PING, "id": 2}]
        response = await client.post(batch, MCP_Protocol_Version=BATCHES)
        assert response.status in (200, 400)
        assert (await client.post(PING)).json["result"] == {}
        assert (await client.post(PING, MCP_Protocol_Version="v999")).status == 400
        assert (await client.post(batch, MCP_Protocol_Version=PRIMES)).status == 400


async def test_stateless_clients_may_use_the_same_ids_and_cancel_only_nothing() -> None:
    server = Workshop()
    async with serving(server, stateless=True) as http, connected(http, open=False) as client:
        raws = [
            await client.start(
                "POST", client.calling("hold", {"name": "a"}, 1), raw=await client.dial()
            )
            for _ in range(2)
        ]
        await until(lambda: server.entered == ["a", "a"])
        await client.tell("notifications/cancelled", {"requestId": 1})
        await settle()
        assert server.left == []
        server.open("a")
        for raw in raws:
            assert text_of((await raw.response()).json) == "held a"


async def test_a_stateless_client_cannot_be_asked(
    expected_errors: pytest.LogCaptureFixture,
) -> None:
    async with serving(Workshop(), stateless=True) as http, connected(http, open=False) as client:
        response = await client.call("ask")
        assert response.json["result"]["isError"]


async def test_a_server_that_speaks_some_revisions_only() -> None:
    server = Server("few", revisions=[HEADERS])
    async with serving(server) as http, connected(http, open=False) as client:
        assert (await client.initialize(PRIMES)).json["result"]["protocolVersion"] == HEADERS
        assert (await client.post(PING, MCP_Protocol_Version=HEADERS)).status == 200
        assert (await client.post(PING, MCP_Protocol_Version=PRIMES)).status == 400
