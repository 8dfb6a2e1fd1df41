"""The ways to a server: TLS, proxies, redirections, credentials; what a tracer hears."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
import trustme

from mcp_trio import ConnectFailed, HttpFailure, McpError, connect_http
from tests.client.http_sessions import raw_session, session_of, text_of
from tests.client.raw_http import NEWEST, RawServer, raw_server
from tests.client.scripted import Outcome

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def call(session: Any) -> str:
    return text_of(await session.call_tool("t"))


async def one_call(session: Any, server: RawServer, text: str = "hi") -> Any:
    """Make a call, answer it, return the request."""
    async with trio.open_nursery() as nursery:
        outcome = Outcome(nursery, lambda: call(session))
        request = await server.next("tools/call")
        await request.text(text)
        assert await outcome.wait() == text
    return request


# ---------------------------------------------------------------- TLS


def authority() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Contexts of a server at ``localhost`` and of a client that trusts it."""
    ca = trustme.CA()
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ca.issue_cert("localhost").configure_cert(ours)
    theirs = ssl.create_default_context()
    ca.configure_trust(theirs)
    return ours, theirs


async def test_https() -> None:
    """Also with requests that do not fit in one record."""
    ours, theirs = authority()
    async with raw_server(ours) as server, session_of(server, ssl_context=theirs) as session:
        assert server.url.startswith("https://")
        request = await one_call(session, server)
        assert request.headers["host"] == f"localhost:{server.port}"
        async with trio.open_nursery() as nursery:
            large = {"text": "x" * 1_000_000}
            outcome = Outcome(nursery, lambda: session.call_tool("t", large))
            request = await server.next("tools/call")
            assert request.message["params"]["arguments"] == large
            await request.text("")
            await outcome.wait()


async def test_a_certificate_that_nobody_trusts() -> None:
    ours, _ = authority()
    async with raw_server(ours) as server:
        with pytest.raises(ConnectFailed, match="certificate"):
            async with connect_http(server.url, proxy=None):
                pass


# ---------------------------------------------------------------- proxies


class TinyProxy:
    """Tunnels by CONNECT and forwards nothing else; every name is this machine."""

    def __init__(self, listener: trio.SocketListener, status: int) -> None:
        self.port = listener.socket.getsockname()[1]
        self.status = status
        self.heads: list[str] = []
        self.port_of_all = 0

    async def serve(self, client: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += await client.receive_some(1)
        self.heads.append(head.decode())
        await client.send_all(b"HTTP/1.1 %d X\r\nX: y\r\n\r\n" % self.status)
        if self.status != 200:
            await client.aclose()
            return
        server = await trio.open_tcp_stream("127.0.0.1", self.port_of_all)

        async def pump(source: trio.SocketStream, sink: trio.SocketStream) -> None:
            try:
                async for data in source:
                    await sink.send_all(data)
                await sink.send_eof()
            except (trio.BrokenResourceError, OSError):
                pass

        async with client, server, trio.open_nursery() as nursery:
            nursery.start_soon(pump, client, server)
            nursery.start_soon(pump, server, client)


@asynccontextmanager
async def tiny_proxy(status: int = 200) -> AsyncIterator[TinyProxy]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    proxy = TinyProxy(listener, status)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])  # noqa: ASYNC113 - it listens
        yield proxy
        nursery.cancel_scope.cancel()


async def test_https_goes_through_a_tunnel() -> None:
    ours, theirs = authority()
    async with raw_server(ours) as server, tiny_proxy() as proxy:
        proxy.port_of_all = server.port
        options: dict[str, Any] = {
            "proxy": f"http://me:secret@127.0.0.1:{proxy.port}",
            "ssl_context": theirs,
        }
        async with session_of(server, headers={"X-Key": "k"}, **options) as session:
            request = await one_call(session, server)
        assert request.target == "/mcp"
        assert "proxy-authorization" not in request.headers
    for head in proxy.heads:
        assert head.startswith(f"CONNECT localhost:{server.port} HTTP/1.1\r\n")
        assert "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n" in head
        assert "k" not in head.split("\r\n", 1)[1].lower().partition("x-key")[2]


async def test_a_proxy_that_refuses_the_tunnel() -> None:
    _, theirs = authority()
    async with tiny_proxy(407) as proxy:
        with pytest.raises(ConnectFailed, match="HTTP status 407"):
            async with connect_http(
                "https://mcp.example/", proxy=f"127.0.0.1:{proxy.port}", ssl_context=theirs
            ):
                pass


async def test_http_is_asked_of_the_proxy_by_its_whole_url(monkeypatch: Any) -> None:
    """Here the variable of the environment decides, and the server stands for the proxy."""
    async with raw_server() as server, trio.open_nursery() as nursery:
        monkeypatch.setenv("http_proxy", f"http://u:p@127.0.0.1:{server.port}")
        monkeypatch.setenv("no_proxy", "")
        nursery.start_soon(server.shake_hands)
        async with connect_http("http://mcp.example:8080/a?b=c") as session:
            request = await one_call(session, server)
            nursery.start_soon(server.end_session)
        assert request.target == "http://mcp.example:8080/a?b=c"
        assert request.headers["host"] == "mcp.example:8080"
        assert request.headers["proxy-authorization"] == "Basic dTpw"
        nursery.cancel_scope.cancel()


# ---------------------------------------------------------------- redirections


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirection_within_the_origin_is_followed_whole(status: int) -> None:
    """With method, body and credentials; a permanent one is remembered."""
    async with (
        raw_session(headers={"Authorization": "Bearer t"}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        outcome = Outcome(nursery, lambda: call(session))
        first = await server.next("tools/call")
        await first.respond(status, headers="Location: /v2/mcp?x=1\r\n")
        second = await server.next("tools/call")
        assert (second.method, second.target) == ("POST", "/v2/mcp?x=1")
        assert second.body == first.body
        assert second.headers == first.headers
        await second.text("hi")
        assert await outcome.wait() == "hi"
        third = await one_call(session, server)
        assert third.target == ("/v2/mcp?x=1" if status == 308 else "/mcp")


@pytest.mark.parametrize(
    ("status", "location", "reason"),
    [
        (301, "/x", "turn a POST into a GET"),
        (302, "/x", "turn a POST into a GET"),
        (303, "/x", "turn a POST into a GET"),
        (307, "http://evil.example/mcp", "another origin"),
        (308, "//evil.example/mcp", "another origin"),
        (308, "https://127.0.0.1/mcp", "another origin"),
        (307, None, "without a Location"),
    ],
)
async def test_other_redirections_are_refused(
    status: int, location: str | None, reason: str
) -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        outcome = Outcome(nursery, lambda: call(session))
        line = "" if location is None else f"Location: {location}\r\n"
        await (await server.next("tools/call")).respond(status, headers=line)
        with pytest.raises(HttpFailure, match=reason) as caught:
            await outcome.wait()
        assert caught.value.status == status
        assert server.waiting() == []


async def test_redirections_that_go_round_in_a_circle() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        outcome = Outcome(nursery, lambda: call(session))
        for _ in range(6):
            await (await server.next("tools/call")).respond(307, headers="Location: /mcp\r\n")
        with pytest.raises(HttpFailure, match="5 redirections"):
            await outcome.wait()


# ---------------------------------------------------------------- credentials


class Keys:
    """An auth hook: a new token for each challenge."""

    def __init__(self) -> None:
        self.challenges: list[str] = []
        self.error: Exception | None = None

    async def __call__(self, challenge: str | None) -> dict[str, str]:
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        if challenge is not None:
            self.challenges.append(challenge)
        return {"Authorization": f"Bearer t{len(self.challenges)}"}


async def test_the_auth_hook_is_asked_for_each_request_and_after_a_challenge() -> None:
    keys = Keys()
    async with raw_session(auth=keys) as (session, server), trio.open_nursery() as nursery:
        assert (await one_call(session, server)).headers["authorization"] == "Bearer t0"
        outcome = Outcome(nursery, lambda: call(session))
        request = await server.next("tools/call")
        await request.respond(401, headers='WWW-Authenticate: Bearer scope="x"\r\n')
        request = await server.next("tools/call")
        assert request.headers["authorization"] == "Bearer t1"
        assert keys.challenges == ['Bearer scope="x"']
        await request.text("in")
        assert await outcome.wait() == "in"


async def test_a_second_refusal_is_final() -> None:
    async with raw_session(auth=Keys()) as (session, server), trio.open_nursery() as nursery:
        outcome = Outcome(nursery, lambda: call(session))
        for _ in range(2):
            await (await server.next("tools/call")).respond(401, b"no")
        with pytest.raises(HttpFailure) as caught:
            await outcome.wait()
        assert (caught.value.status, caught.value.body) == (401, "no")


async def test_a_hook_that_fails_costs_one_request() -> None:
    """An error of ours comes as it is, any other as the cause."""
    keys = Keys()
    async with raw_session(auth=keys) as (session, server):
        keys.error = RuntimeError("no key")
        with pytest.raises(HttpFailure, match="no key") as caught:
            await session.call_tool("t")
        assert caught.value.__cause__ is keys.error
        keys.error = McpError("log in first")
        with pytest.raises(McpError, match="log in first"):
            await session.call_tool("t")
        keys.error = None
        await one_call(session, server)


async def test_without_a_hook_401_is_an_error_like_others() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        outcome = Outcome(nursery, lambda: call(session))
        await (await server.next("tools/call")).respond(401)
        with pytest.raises(HttpFailure, match="401"):
            await outcome.wait()
        assert server.waiting() == []


# ---------------------------------------------------------------- tracing


class Trace:
    """Keeps the events of HTTP."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def event(self, name: str, fields: dict[str, Any]) -> None:
        if name.startswith(("http.", "sse.")):
            self.events.append((name, fields))


async def test_a_tracer_hears_of_requests_responses_and_events() -> None:
    trace = Trace()
    async with raw_session(tracer=trace) as (session, server), trio.open_nursery() as nursery:
        trace.events.clear()
        outcome = Outcome(nursery, lambda: call(session))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event(id="e.0")
        await request.event(request.answer({"content": [{"type": "text", "text": "x"}]}), id="e.1")
        await outcome.wait()
        shown = [(n, f.get("id"), f.get("method"), f.get("status")) for n, f in trace.events]
        assert shown == [
            ("http.request", None, "POST", None),
            ("http.response", None, None, 200),
            ("sse.event", "e.0", None, None),
            ("sse.event", "e.1", None, None),
        ]
        assert len({f["exchange"] for _, f in trace.events}) == 1
        assert {f["session_id"] for _, f in trace.events} == {"S1"}
    assert NEWEST not in repr(trace.events)
