"""Streamable HTTP, the server's side: statuses, headers and hostile bytes, over real sockets."""

from __future__ import annotations

import gc
import json
import ssl
import weakref
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
import trustme

from mcp_trio import Context, Limits, serve_http
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.transports import http_server
from tests.transports.http_raw import (
    BATCHES,
    EVERY,
    Client,
    Workshop,
    connected,
    dial,
    head_bytes,
    quiet_log,
    serving,
    text_of,
    until,
)

if TYPE_CHECKING:
    from mcp_trio.wire.http_head import RequestHead

__all__ = ["quiet_log"]  # a fixture for all

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
NOTICE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def calling(arguments: object) -> bytes:
    params = {"name": "echo", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LOOK", 0.02)


# ---------------------------------------------------------------- what a request gets


@pytest.mark.parametrize("version", EVERY)
async def test_each_revision_is_served_at_one_url(version: str) -> None:
    async with serving(Workshop()) as http, connected(http, version) as client:
        assert http.url.endswith("/mcp")

        response = await client.call("echo", {"text": version})

        assert response.status == 200
        assert response.headers["content-type"] == "application/json"
        assert text_of(response.json) == version


async def test_a_notification_is_accepted_without_a_body() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.post(NOTICE)

        assert (response.status, response.body) == (202, b"")
        assert response.headers["content-length"] == "0"


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/mcp?x=1", "http://localhost/mcp"])
async def test_the_endpoint_is_served_with_and_without_a_slash(path: str) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.post(PING, path=path)

        assert response.status == 200
        assert response.json == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_another_path_is_not_found() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        for path in ("/", "/mcpx", "/mcp//", "/other"):
            assert (await client.post(PING, path=path)).error["code"] == -32600
            assert (await client.post(PING, path=path)).status == 404


async def test_a_path_of_ones_own() -> None:
    async with (
        serving(Workshop(), path="/api/") as http,
        connected(http, open=False) as client,
    ):
        assert http.url.endswith("/api")
        assert (await client.initialize(path="/api")).status == 200
        assert (await client.post(PING)).status == 404


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "BREW"])
async def test_other_methods_are_answered_with_those_that_there_are(method: str) -> None:
    """The connection goes on, and no answer to HEAD has a body."""
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.request(method)

        assert response.status == 405
        assert response.headers["allow"] == "POST, GET, DELETE"
        assert (await client.request(method, path="/other")).status == 404
        assert (await client.post(PING)).status == 200


async def test_what_is_switched_off_is_no_method() -> None:
    async with (
        serving(Workshop(), standing_stream=False) as http,
        connected(http) as client,
    ):
        response = await client.request("GET")

        assert (response.status, response.headers["allow"]) == (405, "POST, DELETE")


@pytest.mark.case("20")
@pytest.mark.parametrize(
    ("accept", "status", "form"),
    [
        ("*/*", 200, "application/json"),
        ("application/*, text/*", 200, "application/json"),
        ("text/event-stream, application/json", 200, "application/json"),
        ("application/json;q=0.5,text/event-stream;q=0.9", 200, "application/json"),
        ("APPLICATION/JSON, TEXT/EVENT-STREAM", 200, "application/json"),
        ("application/json", 200, "application/json"),
        ("text/event-stream", 200, "text/event-stream"),
        ("application/json;q=0, */*", 200, "text/event-stream"),
        (None, 200, "application/json"),
        ("text/html", 406, "application/json"),
    ],
)
async def test_accept_decides_the_form_of_the_answer(
    accept: str | None, status: int, form: str
) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.call("echo", {"text": "x"}, Accept=accept)

        assert response.status == status
        assert response.headers["content-type"] == form
        if status == 406:
            assert "Accept" in response.error["message"]


async def test_an_endpoint_that_answers_in_one_form_only() -> None:
    async with serving(Workshop(), answers="sse") as http, connected(http, open=False) as client:
        assert (await client.initialize()).messages[0]["id"] == "i"
        assert text_of((await client.call("echo", {"text": "x"})).messages[0]) == "x"
        assert (await client.call("echo", {"text": "x"}, Accept="application/json")).status == 406
    async with serving(Workshop(), answers="json") as http, connected(http) as client:
        assert (await client.call("steps", {"n": 3})).json["id"] == 1
        assert (await client.call("echo", {"text": "x"}, Accept="text/event-stream")).status == 406


async def test_get_needs_an_event_stream() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.request("GET", Accept="application/json")

        assert response.status == 406


@pytest.mark.parametrize(
    "content", [None, "text/plain", "application/json-rpc", "application/json; charset=latin-1"]
)
async def test_a_body_that_is_not_json_by_its_type_is_refused(content: str | None) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.post(PING, Content_Type=content)

        assert response.status == 415
        assert response.error["code"] == -32600
        assert (await client.post(PING)).status == 200


@pytest.mark.parametrize("content", ["APPLICATION/JSON", 'application/json; charset="UTF-8"'])
async def test_content_type_in_any_spelling(content: str) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        assert (await client.post(PING, Content_Type=content)).status == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"", -32700),
        (b'{"a": NaN}', -32700),
        (b"[" * 1000 + b"]" * 1000, -32600),
        (b"[]", -32600),
        (b"17", -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
    ],
)
async def test_what_is_no_message_gets_a_400(body: bytes, code: int) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.post(body)

        assert response.status == 400
        assert response.error["code"] in (code, -32700)
        assert (await client.post(PING)).status == 200


async def test_a_modern_client_is_told_that_it_meets_an_older_server() -> None:
    """Not by a code that only a modern server has: it would stop the client's fallback."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    probe = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}}
    async with serving(Workshop()) as http, connected(http, open=False) as client:
        response = await client.post(probe, MCP_Protocol_Version="2026-07-28")

        assert response.status == 400
        assert response.error["code"] not in (-32020, -32021, -32022)


async def test_the_version_header_must_be_what_was_negotiated() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        assert (await client.post(PING, MCP_Protocol_Version=EVERY[2])).status == 400
        assert (await client.post(PING, MCP_Protocol_Version="v999.0.0")).status == 400
        assert (await client.post(PING, MCP_Protocol_Version=None)).status == 200


async def test_an_unknown_method_is_an_answer() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.post({**PING, "method": "no/such"})

        assert response.status == 200
        assert response.json["error"]["code"] == -32601


async def test_too_many_requests_are_told_to_come_again() -> None:
    server = Workshop(Limits(in_flight=1))
    async with serving(server) as http, connected(http) as client:
        held = await client.start_call("hold", {"name": "a"}, raw=await client.dial())
        await server.until_entered("a")

        response = await client.call("echo", {"text": "x"})

        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert response.json["error"]["code"] == -31001
        assert response.json["id"] == 2
        server.open("a")
        assert text_of((await held.response()).json) == "held a"


async def test_an_id_that_is_in_flight_is_refused() -> None:
    server = Workshop()
    async with serving(server) as http, connected(http) as client:
        held = await client.start(
            "POST", client.calling("hold", {"name": "a"}, 7), raw=await client.dial()
        )
        await server.until_entered("a")

        response = await client.post(client.calling("echo", {"text": "x"}, 7))

        assert response.json["error"]["code"] == -32600
        server.open("a")
        assert text_of((await held.response()).json) == "held a"


# ---------------------------------------------------------------- batches


async def test_a_batch_is_answered_by_one_array() -> None:
    async with serving(Workshop()) as http, connected(http, BATCHES) as client:
        batch = [
            client.calling("echo", {"text": "a"}, 1),
            NOTICE,
            client.calling("echo", {"text": "b"}, 2),
            {"jsonrpc": "2.0", "id": 3, "method": 17},
        ]

        response = await client.post(batch)

        assert response.status == 200
        answers = {answer["id"]: answer for answer in response.json}
        assert set(answers) == {1, 2, 3}
        assert text_of(answers[2]) == "b"
        assert answers[3]["error"]["code"] == -32600


async def test_a_batch_that_says_more_is_a_stream() -> None:
    async with serving(Workshop()) as http, connected(http, BATCHES) as client:
        batch = [client.calling("steps", {"n": 2}, i) for i in (1, 2)]

        *progress, answers = (await client.post(batch)).messages

        assert sorted(m["params"]["progressToken"] for m in progress) == [1, 1, 2, 2]
        together: Any = answers  # one event, of which the data is an array
        assert sorted(answer["id"] for answer in together) == [1, 2]


async def test_a_batch_without_a_request_is_accepted() -> None:
    async with serving(Workshop()) as http, connected(http, BATCHES) as client:
        response = await client.post([NOTICE, NOTICE])

        assert (response.status, response.body) == (202, b"")


async def test_batches_are_refused_where_there_are_none() -> None:
    server = Workshop(Limits(batch=3))
    async with serving(server) as http:
        for version in EVERY:
            async with connected(http, version) as client:
                assert (await client.post([PING] * 2)).status == (
                    200 if version == BATCHES else 400
                )
                assert (await client.post([PING] * 4)).status == 400


# ---------------------------------------------------------------- Host, Origin, CORS


@pytest.mark.case("21")
@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("127.0.0.1", 200),
        ("localhost.", 200),
        ("mcp.example.com.", 421),
        ("evil.com", 421),
        ("localhost.evil.com", 421),
        (None, 400),
        ("localhost\r\nHost: localhost", 400),
    ],
)
async def test_a_server_of_this_machine_serves_its_names_only(
    host: str | None, status: int
) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.post(PING, Host=host)

        assert response.status == status
        if status == 421:
            assert "allowed_hosts" in response.error["message"]


@pytest.mark.case("21")
async def test_hosts_are_served_that_are_named() -> None:
    async with (
        serving(Workshop(), allowed_hosts=["mcp.example.com"]) as http,
        connected(http) as client,
    ):
        assert (await client.post(PING, Host="MCP.example.com.")).status == 200
        assert (await client.post(PING, Host="mcp.example.com:99")).status == 200
        assert (await client.post(PING, Host="evil.com")).status == 421


@pytest.mark.case("21")
@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://localhost:3000", 200),
        ("https://app.example.com", 200),
        ("null", 403),
        ("http://evil.com", 403),
        ("http://localhost.evil.com", 403),
    ],
)
async def test_pages_of_other_sites_are_refused(origin: str | None, status: int) -> None:
    async with (
        serving(Workshop(), allowed_origins=["https://app.example.com"]) as http,
        connected(http) as client,
    ):
        response = await client.post(PING, Origin=origin)

        assert response.status == status
        assert "access-control-allow-origin" not in response.headers
        if status == 403:
            assert "allowed_origins" in response.error["message"]


async def test_pages_may_read_the_answers_where_cors_is_on() -> None:
    page = "https://app.example.com"
    async with (
        serving(Workshop(), allowed_origins=[page], cors=True) as http,
        connected(http, open=False) as client,
    ):
        preflight = await client.request(
            "OPTIONS", Origin=page, Access_Control_Request_Method="POST"
        )
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-origin"] == page
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "Mcp-Session-Id" in preflight.headers["access-control-allow-headers"]

        opened = await client.initialize(Origin=page)
        assert opened.headers["access-control-allow-origin"] == page
        assert "Mcp-Session-Id" in opened.headers["access-control-expose-headers"]
        for response in (
            await client.call("steps", {"n": 1}, Origin=page),
            await client.call("echo", {"text": ""}, Origin=page),
            await client.post(NOTICE, Origin=page),
            await client.post(b"{", Origin=page),
        ):
            assert response.headers["access-control-allow-origin"] == page
            assert response.headers["vary"] == "Origin"
        evil = await client.request("OPTIONS", Origin="https://evil.com")
        assert evil.status == 403
        assert "access-control-allow-origin" not in evil.headers


# ---------------------------------------------------------------- bytes, sizes, times


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        for i in range(20):
            await (
                client.start_call("steps", {"n": 1})
                if i % 3
                else client.start_call("echo", {"text": str(i)})
            )
        for i in range(20):
            response = await client.raw.response()
            assert (response.messages[-1] if i % 3 else response.json)["id"] == i + 1


async def test_a_request_in_single_bytes() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        body = json.dumps(client.calling("echo", {"text": "ü"})).encode()
        fields = {**client.defaults, "Content-Type": "application/json"}
        for framing, framed in (
            ({"Content-Length": str(len(body))}, body),
            (
                {"Transfer-Encoding": "chunked"},
                b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n",
            ),
        ):
            for byte in head_bytes("POST", {**fields, **framing}) + framed:
                await client.raw.send(bytes([byte]))
            assert text_of((await client.raw.response()).json) == "ü"


async def test_an_http_1_0_client_gets_an_answer_and_the_end() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        for name, arguments in (("echo", {"text": "x"}), ("steps", {"n": 2})):
            body = json.dumps(client.calling(name, arguments)).encode()
            fields = {**client.defaults, "Content-Type": "application/json"}
            head = head_bytes("POST", {**fields, "Content-Length": str(len(body))})
            raw = await client.dial()
            await raw.send(head.replace(b"HTTP/1.1", b"HTTP/1.0") + body)
            response = await raw.response()
            assert response.headers["connection"] == "close"
            assert "transfer-encoding" not in response.headers
            if name == "steps":
                assert [m.get("id") for m in response.messages] == [None, None, 2]
            assert await raw.is_closed()


async def test_a_client_that_says_close_gets_its_answer_first() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.call("steps", {"n": 1}, Connection="close")

        assert response.headers["connection"] == "close"
        assert len(response.messages) == 2
        assert await client.raw.is_closed()


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        fields = {**client.defaults, "Content-Type": "application/json", "Expect": "100-continue"}
        body = json.dumps(PING).encode()
        await client.raw.send(head_bytes("POST", {**fields, "Content-Length": str(len(body))}))
        assert (await client.raw.response()).status == 100
        await client.raw.send(body)
        assert (await client.raw.response()).json["result"] == {}


@pytest.mark.case("14")
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 1 << 20])
async def test_messages_around_the_sizes_of_buffers(size: int, chunked: bool) -> None:  # noqa: FBT001 - a parameter
    async with serving(Workshop()) as http, connected(http) as client:
        text = "x" * size
        if chunked:
            body = calling({"text": text})
            framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
            fields = {**client.defaults, "Content-Type": "application/json"}
            await client.raw.send(
                head_bytes("POST", {**fields, "Transfer-Encoding": "chunked"}) + framed
            )
            response = await client.raw.response()
        else:
            response = await client.call("echo", {"text": text})
        assert text_of(response.json) == text


@pytest.mark.case("14")
async def test_a_body_up_to_the_limit_is_read_and_a_longer_one_refused() -> None:
    """The refusal can be read although the client is still sending."""
    limit = 100_000
    async with serving(Workshop(Limits(message_bytes=limit))) as http:
        async with connected(http) as client:
            text = "x" * (limit - len(calling({"text": ""})))
            assert (await client.post(calling({"text": text}))).status == 200
            response = await client.post(calling({"text": text + "x"}))
            assert response.status == 413
            assert str(limit) in response.error["message"]
            assert response.headers["connection"] == "close"
        async with connected(http) as client:
            response = await client.post(calling({"text": "x" * 3_000_000}))
            assert response.status == 413
            assert await client.raw.is_closed()


@pytest.mark.case("14")
async def test_a_body_that_only_claims_to_be_huge_is_refused_at_once() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        fields = {**client.defaults, "Content-Type": "application/json"}
        await client.raw.send(head_bytes("POST", {**fields, "Content-Length": "1073741824"}))
        assert (await client.raw.response()).status == 413


@pytest.mark.case("14")
async def test_a_body_without_an_end_is_refused_at_the_limit() -> None:
    async with (
        serving(Workshop(Limits(message_bytes=100_000))) as http,
        connected(http) as client,
        trio.open_nursery() as nursery,
    ):

        async def send() -> None:
            fields = {**client.defaults, "Content-Type": "application/json"}
            await client.raw.send(head_bytes("POST", {**fields, "Transfer-Encoding": "chunked"}))
            while True:
                await client.raw.send(b"400\r\n" + b"x" * 1024 + b"\r\n")

        nursery.start_soon(send)
        assert (await client.raw.response()).status == 413
        nursery.cancel_scope.cancel()


SMUGGLED = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
        (b"Content-Length: 2\r\nContent-Length: 50\r\n", b"{}" + SMUGGLED),
        (b"Content-Length: +2\r\n", b"{}" + SMUGGLED),
        (b"Content-Length: 0x2\r\n", b"{}" + SMUGGLED),
        (b"Content-Length: -1\r\n", b"{}"),
        (b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
        (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
        (b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
        (b"Transfer-Encoding: chunked\r\n", b"0x5\r\nhello\r\n0\r\n\r\n"),
        (b"Transfer-Encoding: chunked\r\n", b"-5\r\nhello\r\n0\r\n\r\n"),
        (b"X: a\r\n folded: b\r\nContent-Length : 2\r\n", b"{}"),
        (b"Bad Name: x\r\n", b""),
        (b"X: \0\r\n", b""),
    ],
)
async def test_what_two_readers_would_read_differently_ends_the_connection(
    fields: bytes, body: bytes
) -> None:
    """One refusal, and nothing that follows it is taken for a request."""
    async with serving(Workshop()) as http, connected(http) as client:
        typical = b"Host: localhost\r\nContent-Type: application/json\r\nAccept: */*\r\n"
        await client.raw.send(b"POST /mcp HTTP/1.1\r\n" + typical + fields + b"\r\n" + body)

        response = await client.raw.response()

        assert 400 <= response.status < 502
        assert response.headers["connection"] == "close"
        assert await client.raw.is_closed()


@pytest.mark.parametrize(
    "sent",
    [b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"{}\n\n"],
)
async def test_what_is_no_http_gets_a_400(sent: bytes) -> None:
    async with serving(Workshop()) as http:
        raw = await dial(http)
        await raw.send(sent)
        assert (await raw.response()).status in (400, 505)
        assert await raw.is_closed()


async def test_a_head_that_never_ends_is_refused() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        await client.raw.send(b"POST /mcp HTTP/1.1\r\n" + b"X: y\r\n" * 4_000)
        assert (await client.raw.response()).status == 431
        assert await client.raw.is_closed()


async def test_a_slow_head_and_a_slow_body_are_cut_off(quick_watch: None) -> None:
    """A client that stays between two requests has more time."""
    limits = Limits(request_time=0.1, connection_idle=60)
    async with serving(Workshop(limits)) as http, connected(http) as client:
        idle = await client.dial()
        slow_head, slow_body = await client.dial(), await client.dial()
        fields = {**client.defaults, "Content-Type": "application/json", "Content-Length": "9"}
        await slow_head.send(b"POST /mcp HT")
        await slow_body.send(head_bytes("POST", fields) + b"{")
        assert await slow_head.is_closed()
        assert await slow_body.is_closed()
        assert (await client.post(PING, raw=idle)).status == 200


async def test_time_between_requests_is_not_that_of_the_next_one(quick_watch: None) -> None:
    limits = Limits(request_time=0.3, connection_idle=60)
    async with serving(Workshop(limits)) as http, connected(http) as client:
        await trio.sleep(0.4)
        fields = {**client.defaults, "Content-Type": "application/json"}
        body = json.dumps(PING).encode()
        head = head_bytes("POST", {**fields, "Content-Length": str(len(body))})
        await client.raw.send(head[:20])
        await trio.sleep(0.08)
        await client.raw.send(head[20:] + body)
        assert (await client.raw.response()).status == 200


async def test_a_silent_connection_is_closed(quick_watch: None) -> None:
    async with serving(Workshop(Limits(connection_idle=0.1))) as http:
        raw = await dial(http)
        assert await raw.is_closed()
        assert http.connections == set()


async def test_connections_beyond_the_limit_wait_until_there_is_room() -> None:
    async with serving(Workshop(Limits(connections=2))) as http, connected(http) as client:
        second, third = await client.dial(), await client.dial()
        assert (await client.post(PING, raw=second)).status == 200
        await client.start("POST", PING, raw=third)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(http.connections) == 2
        await second.stream.aclose()
        assert (await third.response()).status == 200


async def test_a_client_that_never_reads_disturbs_nobody(quick_watch: None) -> None:
    """Its own handler waits for it, with bounded memory, until it has waited too long."""
    limits = Limits(request_time=0.5)
    async with serving(Workshop(limits)) as http, connected(http) as client:
        stalled = await client.start_call(
            "steps", {"n": 20_000, "size": 1_000}, raw=await client.dial()
        )
        await trio.sleep(0.1)
        [session] = http.sessions
        stream = max(session.transport.streams.values(), key=lambda s: s.number)
        assert stream.full
        assert stream.number < 15_000
        for i in range(50):
            assert text_of((await client.call("echo", {"text": str(i)})).json) == str(i)
        await until(lambda: len(http.connections) <= 1)
        await until(lambda: set(session.transport.streams) == {"0"})
        await stalled.stream.aclose()


async def test_clients_that_reset_disturb_nobody() -> None:
    server = Workshop()
    async with serving(server) as http, connected(http) as client:
        for i in range(30):
            raw = await client.dial()
            if i % 3 == 0:
                await raw.send(b"POST /mcp HTTP/1.1\r\nConte")
            elif i % 3 == 1:
                await client.start_call("hold", {"name": "x", "before": i % 2}, raw=raw)
            else:
                await client.start("GET", raw=raw)
            await raw.cut()
        assert (await client.call("echo", {"text": "x"})).status == 200
        server.open("x")
        await until(lambda: server.left.count("x") >= server.entered.count("x"))
        [session] = http.sessions
        assert session.session.statistics().in_flight == 0


async def test_ten_thousand_calls_leave_nothing_behind() -> None:
    """Streams, connections and the memory of the process stay as they were."""
    async with serving(Workshop(), patience=60) as http, connected(http) as client:
        request = await _request_bytes(client)

        async def calls(n: int) -> None:
            for _ in range(n // 50):
                await client.raw.send(request * 50)
                for _ in range(50):
                    assert (await client.raw.response()).status == 200

        await calls(1_000)
        gc.collect()
        before = len(gc.get_objects())
        await calls(10_000)
        gc.collect()
        assert len(gc.get_objects()) - before < 200
        await until(lambda: http.open_requests == 0)  # the last answer left a pass before that
        [session] = http.sessions
        assert set(session.transport.streams) == {"0"}
        assert session.open_requests == 0


async def test_a_session_that_has_ended_is_not_kept() -> None:
    """Nothing of the server holds it, and it goes without the help of the collector."""
    server = Workshop()
    kept = []
    async with serving(server) as http:
        gc.disable()
        try:
            for _ in range(3):
                async with connected(http) as client:
                    assert (await client.call("echo", {"text": "x"})).status == 200
                    [entry] = http.sessions
                    kept += [weakref.ref(entry.session), weakref.ref(entry.transport)]
                    del entry
                    assert (await client.request("DELETE")).status == 200
            await until(lambda: not any(ref() for ref in kept))
            assert server.sessions() == ()
        finally:
            gc.enable()


async def _request_bytes(client: Client) -> bytes:
    body = calling({"text": "x"})
    fields = {**client.defaults, "Content-Type": "application/json"}
    return head_bytes("POST", {**fields, "Content-Length": str(len(body))}) + body


async def test_users_on_one_connection_share_no_context() -> None:
    """A proxy sends the requests of many over one connection."""
    user: ContextVar[str] = ContextVar("user", default="nobody")
    server = Workshop()

    @server.tool
    async def who(ctx: Context, name: str) -> str:
        seen = user.get()
        user.set(name)
        await trio.lowlevel.checkpoint()
        return seen

    @server.tool
    async def mark(ctx: Context, name: str) -> str:
        user.set(name)
        await ctx.progress(1)  # from here on another task has the connection
        await trio.testing.wait_all_tasks_blocked()
        return "done"

    async def authenticate(head: RequestHead) -> None:
        if head.headers.get("authorization") is not None:
            assert user.get() == "nobody"
            user.set(str(head.headers.get("authorization")))

    for hook in (None, authenticate):
        async with serving(server, authenticate=hook) as http, connected(http) as client:
            seen = [
                text_of((await client.call("who", {"name": "x"}, Authorization=name)).json)
                for name in ("alice", "bob", None)
            ]
            marked = await client.call("mark", {"name": "y"})
            assert len(marked.messages) == 2
            seen.append(text_of((await client.call("who", {"name": "x"})).json))
        assert seen == (["alice", "bob", "nobody", "nobody"] if hook else ["nobody"] * 4)


async def test_https() -> None:
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    async with serving(Workshop(), ssl_context=tls) as http:
        assert http.url.startswith("https://127.0.0.1:")
        raw = await dial(http, trust)
        client = Client(http, raw)
        assert (await client.initialize()).status == 200
        assert (await client.call("echo", {"text": "x" * 300_000})).status == 200
        *progress, answer = (await client.call("steps", {"n": 50})).messages
        assert len(progress) == 50
        assert text_of(answer) == "done"

        plain = await dial(http)
        await plain.send(b"GET / HTTP/1.1\r\n\r\n")
        while not await plain.is_closed():
            plain.buffer = b""
        assert (await client.post(PING)).status == 200
        await raw.stream.aclose()


async def test_listeners_of_ones_own_are_served_and_closed() -> None:
    """Who opens them says by *allowed_hosts* what names they have."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with (
        serving(Workshop(), listeners=listeners, allowed_hosts=["example.com"]) as http,
        connected(http, Host="example.com") as client,
    ):
        assert (await client.post(PING)).status == 200
        assert (await client.post(PING, Host="localhost")).status == 421
    assert all(listener.socket.fileno() == -1 for listener in listeners)


async def test_an_address_that_is_taken_is_an_error_of_the_caller() -> None:
    async with serving(Workshop()) as http:
        port = int(http.url.rpartition(":")[2].partition("/")[0])
        with pytest.raises(OSError, match="in use"):
            await serve_http(Workshop(), port)


# ---------------------------------------------------------------- the end


@pytest.mark.case("18")
async def test_a_drain_lets_calls_finish_and_ends_streams_properly() -> None:
    server = Workshop()
    async with serving(server) as http, connected(http) as client:
        standing = [await client.listen() for _ in range(3)]
        idle = await client.dial()
        held = await client.start_call("hold", {"name": "a"}, raw=await client.dial())
        talking = await client.start_call(
            "hold", {"name": "a", "before": 1, "after": 1}, raw=await client.dial()
        )
        await talking.head()
        await server.until_entered("a")

        http.stop_accepting()
        http.stop_accepting()

        for raw in standing:
            assert await raw.rest() == []
            assert await raw.is_closed()
        assert await idle.is_closed()
        with pytest.raises(OSError, match="connect"):
            await client.dial()
        with trio.move_on_after(0.05):
            await http.wait_drained()
            pytest.fail("two calls are under way")
        server.open("a")
        await http.wait_drained()
        response = await held.response()
        assert text_of(response.json) == "held a"
        assert response.headers["connection"] == "close"
        assert text_of((await talking.rest())[-1]) == "held a"
        assert await talking.is_closed()


@pytest.mark.case("18")
@pytest.mark.parametrize("stateless", [False, True])
@pytest.mark.parametrize("stored", [False, True])
async def test_a_cancelled_server_tells_every_waiter(stateless: bool, stored: bool) -> None:  # noqa: FBT001 - parameters
    server = Workshop(Limits(drain=0.5, sse_after=0.01))
    store = MemoryStore() if stored else None
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, stateless=stateless, store=store))
        async with connected(http, open=not stateless) as client:
            held = await client.start_call("hold", {"name": "a"}, raw=await client.dial())
            talking = await client.start_call(
                "hold", {"name": "b", "before": 1}, raw=await client.dial()
            )
            plain = await client.start_call(
                "hold", {"name": "c"}, raw=await client.dial(), Accept="application/json"
            )
            slow = await client.start_call("stubborn", raw=await client.dial())
            for name in "abc":
                await server.until_entered(name)
            await trio.sleep(0.05)

            began = trio.current_time()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                for raw in (held, talking, plain, slow):
                    response = await raw.response()
                    is_json = response.headers["content-type"] == "application/json"
                    answer = response.json if is_json else response.messages[-1]
                    assert answer["error"]["code"] == -32603
                    assert await raw.is_closed()
            assert trio.current_time() - began < 0.5
    assert sorted(server.left) == ["a", "b", "c"]


async def test_a_client_that_never_reads_cannot_stop_the_end() -> None:
    server = Workshop(Limits(drain=0.2))
    async with trio.open_nursery() as nursery:
        http = await nursery.start(serve_http, server)
        async with connected(http) as client:
            stalled = await client.start_call(
                "steps", {"n": 20_000, "size": 1_000}, raw=await client.dial()
            )
            await trio.sleep(0.1)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        await stalled.stream.aclose()
    assert trio.current_time() - began < 1.0
