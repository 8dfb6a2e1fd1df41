"""Opening a session over HTTP, its calls, its faults and its end."""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import (
    Client,
    ConnectFailed,
    Context,
    HttpFailure,
    InvalidMessage,
    InvalidResult,
    Limits,
    OutcomeUnknown,
    PeerError,
    Server,
    SessionClosed,
    connect_http,
    serve_http,
)
from mcp_trio.wire.revisions import LEGACY
from tests.client.http_sessions import raw_session, session_of, text_of
from tests.client.raw_http import INFO, NEWEST, SESSION, raw_server
from tests.client.scripted import Outcome

HTTP_VERSIONS = [revision.version for revision in LEGACY]


def open_descriptors() -> set[str]:
    folder = Path("/proc/self/fd")
    return {each.name for each in folder.iterdir()} if folder.is_dir() else set()


@contextlib.asynccontextmanager
async def our_server(server: Server, **options: Any) -> Any:
    """Our own server, and its URL."""
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server, 0, **options))
        yield http
        nursery.cancel_scope.cancel()


def weather() -> Server:
    server = Server("weather", version="1")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def count(ctx: Context, n: int) -> str:
        for i in range(n):
            await ctx.progress(i + 1, total=n)
        return "counted"

    return server


# ---------------------------------------------------------------- with our own server


@pytest.mark.parametrize("answers", ["json", "sse", "both"])
async def test_a_session_with_our_own_server(answers: Any) -> None:
    """Calls, progress, many at once; nothing is left on either side."""
    before = open_descriptors()
    async with our_server(weather(), answers=answers) as http:
        async with connect_http(http.url) as session:
            assert text_of(await session.call_tool("echo", {"text": "hi"})) == "hi"
            assert [tool.name async for tool in session.list_tools()] == ["echo", "count"]
            seen: list[Any] = []
            await session.call_tool("count", {"n": 5}, progress=seen.append)
            assert [p.progress for p in seen] == ([] if answers == "json" else [1, 2, 3, 4, 5])

            texts: list[str] = []

            async def call(i: int) -> None:
                texts.append(text_of(await session.call_tool("echo", {"text": str(i)})))

            async with trio.open_nursery() as nursery:
                for i in range(40):
                    nursery.start_soon(call, i)
            assert sorted(texts, key=int) == [str(i) for i in range(40)]
            assert len(http.sessions) == 1
        assert len(http.sessions) == 0
    assert open_descriptors() <= before


@pytest.mark.parametrize("version", HTTP_VERSIONS)
async def test_every_revision_is_spoken(version: str) -> None:
    async with (
        our_server(weather()) as http,
        connect_http(http.url, client=Client("c", version="1", revisions=[version])) as session,
    ):
        assert session.revision.version == version
        assert text_of(await session.call_tool("echo", {"text": "hi"})) == "hi"


async def test_a_question_in_the_middle_of_a_call() -> None:
    """The reverse request comes on the call's stream, its answer goes by POST."""
    server = Server("asker", version="1")

    @server.tool
    async def ask(ctx: Context) -> str:
        roots = await ctx.list_roots()
        return roots[0].uri

    client = Client("c", version="1", roots=["file:///home"])
    async with our_server(server) as http, connect_http(http.url, client=client) as session:
        assert text_of(await session.call_tool("ask")) == "file:///home"


async def test_leaving_a_call_ends_its_dialog_at_once() -> None:
    """What the server asked in the course of a call ends with it, without a round trip."""
    server = Server("asker", version="1")
    ended_on_server = trio.Event()

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            await ctx.list_roots()
        finally:
            ended_on_server.set()
        return "?"

    client = Client("c", version="1")
    asked, cancelled = trio.Event(), trio.Event()

    @client.roots
    async def roots(ctx: Any) -> list[str]:
        asked.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()
        return []

    async with our_server(server) as http, connect_http(http.url, client=client) as session:
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.call_tool, "ask")
                await asked.wait()
                nursery.cancel_scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert cancelled.is_set()
            await ended_on_server.wait()
        assert session.calls() == ()


async def test_what_the_server_says_unasked_comes_on_the_standing_stream() -> None:
    server = weather()
    client = Client("c", version="1")
    heard = trio.Event()

    @client.tools_changed
    def changed(session: Any, params: Any) -> None:
        heard.set()

    async with our_server(server) as http, connect_http(http.url, client=client) as session:
        await session.ping()

        @server.tool
        async def another() -> str:
            return ""

        with trio.fail_after(5):
            await heard.wait()


# ---------------------------------------------------------------- the handshake


async def test_the_headers_of_a_session() -> None:
    """Version and session id on all requests after ``initialize``, and on nothing before."""
    async with raw_server() as server, trio.open_nursery() as nursery:
        opened = Outcome(nursery, lambda: one_call(server.url, headers={"X-Team": "blue"}))
        opening = await server.next("initialize")
        assert opening.target == "/mcp"
        assert opening.headers["accept"] == "application/json, text/event-stream"
        assert opening.headers["content-type"] == "application/json"
        assert opening.headers["host"] == f"127.0.0.1:{server.port}"
        assert not {"mcp-session-id", "mcp-protocol-version"} & opening.headers.keys()
        await opening.result(
            {"protocolVersion": NEWEST, "capabilities": {"tools": {}}, "serverInfo": INFO},
            headers=f"mcp-session-id: {SESSION}\r\n",
        )
        for rpc in ("notifications/initialized", "tools/call", "GET", "DELETE"):
            request = await server.next(rpc)
            assert request.headers["mcp-session-id"] == SESSION
            assert request.headers["mcp-protocol-version"] == NEWEST
            assert request.headers["x-team"] == "blue"
            if rpc == "tools/call":
                await request.text("hi")
            else:
                assert request.headers["accept"] if rpc == "GET" else True
                await request.respond(405 if rpc == "GET" else 202)
        assert await opened.wait() == "hi"


def hasty() -> Client:
    """A client that does not wait for long when it leaves."""
    return Client("c", version="1", limits=Limits(drain=0.05))


async def one_call(url: str, **options: Any) -> str:
    async with connect_http(url, proxy=None, **options) as session:
        return text_of(await session.call_tool("t"))


async def test_older_revisions_do_not_name_their_version() -> None:
    async with (
        raw_session(hands={"version": HTTP_VERSIONS[1]}) as (session, server),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(session.ping)
        ping = await server.next("ping")
        assert "mcp-protocol-version" not in ping.headers
        await ping.result()


async def test_nothing_overtakes_the_end_of_the_handshake() -> None:
    """Requests wait until ``notifications/initialized`` is taken; POSTs can overtake each other."""
    async with raw_server() as server, trio.open_nursery() as nursery:
        opened = Outcome(nursery, lambda: one_call(server.url))
        opening = await server.next("initialize")
        await opening.result(
            {"protocolVersion": NEWEST, "capabilities": {"tools": {}}, "serverInfo": INFO}
        )
        initialized = await server.next()
        assert initialized.rpc == "notifications/initialized"
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.waiting() == []
        await initialized.accept()
        await (await server.next("tools/call")).text("hi")
        assert await opened.wait() == "hi"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("status", "content", "body", "said"),
    [
        (500, "text/html", b"<html>oops</html>", "<html>oops</html>"),
        (403, "text/plain", b"no", "no"),
        (200, "application/json", b"", ""),
        (200, "text/html", b"<p>", ""),
    ],
)
async def test_a_handshake_that_fails_says_what_the_server_said(
    status: int, content: str, body: bytes, said: str
) -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opened = Outcome(nursery, lambda: one_call(server.url))
        await (await server.next()).respond(status, body, content=content)
        with pytest.raises(ConnectFailed) as caught:
            await opened.wait()
        if status != 200:
            assert (caught.value.status, caught.value.body) == (status, said)
        nursery.cancel_scope.cancel()


async def test_a_server_that_refuses_initialize_by_json_rpc() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opened = Outcome(nursery, lambda: one_call(server.url))
        request = await server.next()
        body = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"speak newer"}}'
        await request.respond(400, body)
        with pytest.raises(ConnectFailed, match="speak newer"):
            await opened.wait()
        nursery.cancel_scope.cancel()


async def test_nobody_listens() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(ConnectFailed, match="cannot be reached"):
        await one_call(f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Host": "x"}},
        {"headers": {"Mcp-Session-Id": "x"}},
        {"headers": {"A": "b\r\nC: d"}},
        {"headers": {"A B": "c"}},
        {"proxy": "socks5://127.0.0.1:1"},
    ],
)
async def test_what_cannot_be_sent_is_refused_beforehand(options: Any) -> None:
    with pytest.raises(ValueError, match=r"header|proxy"):
        async with connect_http("http://127.0.0.1:1/", **options):
            pass


@pytest.mark.parametrize("url", ["ftp://x/", "http://me:secret@x/", "x", "http://"])
async def test_what_is_no_url_of_http_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="URL"):
        async with connect_http(url):
            pass


# ---------------------------------------------------------------- faults of one call


async def faulty_call(respond: Any, *, hands: dict[str, Any] | None = None) -> Exception:
    """Return what a call raises; the next one succeeds."""
    async with (
        raw_session(hands=hands) as (session, server),
        trio.open_nursery() as nursery,
    ):
        call = Outcome(nursery, lambda: session.call_tool("t"))
        await respond(await server.next("tools/call"))
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at it
            await call.wait()
        fine = Outcome(nursery, lambda: session.call_tool("t"))
        await (await server.next("tools/call")).text("fine")
        assert text_of(await fine.wait()) == "fine"
        assert session.calls() == ()
    return caught.value


@pytest.mark.case("07")
async def test_an_http_error_fails_one_call_with_status_and_body() -> None:
    error = await faulty_call(lambda r: r.respond(500, b"<h1>oops</h1>", content="text/html"))
    assert type(error) is HttpFailure
    assert (error.status, error.body) == (500, "<h1>oops</h1>")
    assert "oops" in str(error)


@pytest.mark.case("07")
@pytest.mark.parametrize(
    ("body", "content"),
    [
        (b"", "application/json"),
        (b"<html>", "text/html"),
        (b"{", "application/json"),
        (b"[]", "application/json"),
        (b'{"jsonrpc":"2.0","method":"notifications/message"}', "application/json"),
        (b'{"jsonrpc":"2.0","id":99,"result":{}}', "application/json"),
        (b'{"jsonrpc":"2.0","id":2,"result":1}', "application/json"),
    ],
)
async def test_an_answer_that_is_none_fails_one_call(body: bytes, content: str) -> None:
    error = await faulty_call(lambda r: r.respond(200, body, content=content))
    assert type(error) is InvalidResult


async def test_an_answer_in_an_encoding_that_nobody_asked_for() -> None:
    error = await faulty_call(lambda r: r.respond(200, b"x", headers="Content-Encoding: gzip\r\n"))
    assert type(error) is InvalidResult
    assert "gzip" in str(error)


@pytest.mark.parametrize("status", [400, 404, 503])
@pytest.mark.parametrize("id_", ["2", "null"])
async def test_a_json_rpc_error_with_an_http_error_is_the_peers(status: int, id_: str) -> None:
    """Also where the server could not read the id: it is the answer to this request."""
    body = b'{"jsonrpc":"2.0","id":%b,"error":{"code":-7,"message":"no","data":[1]}}' % id_.encode()
    error = await faulty_call(lambda r: r.respond(status, body), hands={"session_id": None})
    assert isinstance(error, PeerError)
    assert (error.code, error.message, error.data) == (-7, "no", [1])


@pytest.mark.case("07")
@pytest.mark.parametrize(
    "cut", ["before", "in the head", "in the body", "in an event", "after an event"]
)
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_cut_before_the_answer_leaves_the_outcome_unknown(cut: str, how: str) -> None:
    async def respond(request: Any) -> None:
        if cut == "in the head":
            await request.send(b"HTTP/1.1 200 OK\r\nContent-")
        elif cut == "in the body":
            await request.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
            )
        elif cut == "in an event":
            await request.stream_begins()
            await request.chunk(b"data: {")
        elif cut == "after an event":
            await request.stream_begins()
            await request.event({"jsonrpc": "2.0", "method": "notifications/message"})
        await (request.close() if how == "close" else request.reset())

    error = await faulty_call(respond)
    assert type(error) is OutcomeUnknown


async def test_a_stream_that_ends_in_order_before_the_answer() -> None:
    async def respond(request: Any) -> None:
        await request.stream_begins()
        await request.stream_ends()

    assert type(await faulty_call(respond)) is OutcomeUnknown


async def test_a_response_that_is_no_http() -> None:
    async def respond(request: Any) -> None:
        await request.send(b"SSH-2.0-OpenSSH_9\r\n\r\n")
        request.done.set()

    assert type(await faulty_call(respond)) is InvalidResult


async def test_an_answer_over_the_limit() -> None:
    client = Client("c", version="1", limits=Limits(message_bytes=1000))
    async with raw_session(client=client) as (session, server), trio.open_nursery() as nursery:
        for stream in (False, True):
            call = Outcome(nursery, lambda: session.call_tool("t"))
            request = await server.next("tools/call")
            if stream:
                await request.stream_begins()
                await request.event({"jsonrpc": "2.0", "method": "x" * 2000})
            else:
                await request.text("x" * 2000)
            with pytest.raises(InvalidResult, match="1000"):
                await call.wait()
            request.done.set()


async def test_an_unreachable_server_fails_calls_and_not_the_session() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        first = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        server.stop_listening()
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(HttpFailure, match="cannot be reached"):
            await session.call_tool("t")
        await request.text("still here")
        assert text_of(await first.wait()) == "still here"


async def test_params_that_are_no_json_are_not_sent() -> None:
    async with raw_session() as (session, server):
        with pytest.raises(InvalidMessage):
            await session.call_tool("t", {"x": float("nan")})
        assert server.waiting() == []


# ---------------------------------------------------------------- connections


async def test_one_connection_serves_calls_in_a_row() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        accepted = server.accepted
        for i in range(5):
            call = Outcome(nursery, lambda: session.call_tool("t"))
            await (await server.next("tools/call")).text(str(i))
            assert text_of(await call.wait()) == str(i)
        assert server.accepted == accepted


async def test_a_connection_that_the_server_closes_while_it_is_idle_is_not_used() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        for _ in range(3):
            call = Outcome(nursery, lambda: session.call_tool("t"))
            request = await server.next("tools/call")
            await request.text("x")
            await call.wait()
            await request.close()  # and nobody of the client has run since


async def test_bytes_that_nobody_asked_for_are_not_taken_for_an_answer() -> None:
    """A 408 of an impatient server, say, while the connection is idle."""
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.text("x")
        await call.wait()
        await request.send(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        call = Outcome(nursery, lambda: session.call_tool("t"))
        await (await server.next("tools/call")).text("y")
        assert text_of(await call.wait()) == "y"


async def test_a_large_request_is_written_while_its_answer_is_awaited() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        text = "x" * 8_000_000
        call = Outcome(nursery, lambda: session.call_tool("t", {"text": text}))
        request = await server.next("tools/call")
        assert request.message["params"]["arguments"]["text"] == text
        await request.text("got it")
        assert text_of(await call.wait()) == "got it"


async def test_connections_that_nobody_needs_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle for too long, or with an answered stream that does not end."""
    client = Client("c", version="1", limits=Limits(drain=0.01))
    async with raw_session(client=client) as (session, server), trio.open_nursery() as nursery:
        pool: Any = session.session.transport._pool  # type: ignore[attr-defined]  # of this transport
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.stream_begins()
        await request.event(request.answer({"content": []}))
        await call.wait()
        pool.sweep()
        many = pool.statistics().open
        await trio.sleep(0.02)
        pool.sweep()
        assert await request.stream.receive_some() == b""
        ping = Outcome(nursery, session.ping)
        await (await server.next("ping")).result()
        await ping.wait()
        assert pool.statistics().open == pool.statistics().idle <= many
        monkeypatch.setattr("mcp_trio.transports.http_pool._IDLE_TIME", 0.0)
        await trio.sleep(0.001)
        pool.sweep()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert pool.statistics().open == 0


async def test_requests_past_the_limit_wait_for_a_connection() -> None:
    client = Client("c", version="1", limits=Limits(in_flight=2))
    async with raw_session(client=client) as (session, server), trio.open_nursery() as nursery:
        calls = []
        for _ in range(4):
            calls.append(Outcome(nursery, lambda: session.call_tool("t")))
            await trio.testing.wait_all_tasks_blocked()
        first, second = [await server.next("tools/call") for _ in range(2)]
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.waiting() == []
        calls[2].scope.cancel()
        await first.text("1")
        fourth = await server.next("tools/call")
        assert fourth.message["id"] - first.message["id"] == 3
        for request in (second, fourth):
            await request.text("x")
        for call in calls:
            await call.wait()
        assert server.waiting() == []


async def test_a_notification_that_is_never_answered_holds_nothing_up_for_ever() -> None:
    client = Client("c", version="1", limits=Limits(request_time=0.01, drain=0.05))
    async with raw_session(client=client) as (session, server):
        await session.notify("notifications/x")
        await session.notify("notifications/y")
        await server.next("notifications/x")
        await trio.sleep(0.02)
        session.session.transport._give_up_late_messages()  # type: ignore[attr-defined]  # as above
        await (await server.next("notifications/y")).accept()


@pytest.mark.parametrize(
    "ids", ["Mcp-Session-Id: a\r\nMcp-Session-Id: b\r\n", "Mcp-Session-Id: a b\r\n"]
)
async def test_a_session_id_that_is_none(ids: str) -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        opened = Outcome(nursery, lambda: one_call(server.url, client=hasty()))
        opening = await server.next("initialize")
        await opening.result(
            {"protocolVersion": NEWEST, "capabilities": {}, "serverInfo": INFO}, headers=ids
        )
        with pytest.raises(ConnectFailed, match="Mcp-Session-Id"):
            await opened.wait()
        nursery.cancel_scope.cancel()


async def test_interim_responses_are_skipped() -> None:
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        call = Outcome(nursery, lambda: session.call_tool("t"))
        request = await server.next("tools/call")
        await request.send(b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n")
        await request.text("x")
        assert text_of(await call.wait()) == "x"


# ---------------------------------------------------------------- cancelling


@pytest.mark.parametrize("begun", ["nothing", "a stream", "half an answer"])
async def test_a_cancelled_call_is_told_and_its_connection_closed(begun: str) -> None:
    async with raw_session() as (session, server):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.call_tool, "t")
            request = await server.next("tools/call")
            if begun == "a stream":
                await request.stream_begins()
                await request.event(id="e1")
            elif begun == "half an answer":
                await request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
            await trio.testing.wait_all_tasks_blocked(0.01)
            nursery.cancel_scope.cancel()
        cancelled = await server.next("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == request.message["id"]
        assert cancelled.headers["mcp-session-id"] == SESSION
        with trio.fail_after(5), contextlib.suppress(trio.BrokenResourceError):
            assert await request.stream.receive_some() == b""
        await cancelled.accept()
        assert session.calls() == ()


async def test_a_call_that_has_not_been_sent_is_taken_back_without_a_word() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        async with connect_later(server) as session:
            with trio.move_on_after(0):
                await session.call_tool("t")
            async with trio.open_nursery() as calls:
                calls.start_soon(session.call_tool, "t")
                await trio.testing.wait_all_tasks_blocked()
                calls.cancel_scope.cancel()
            initialized = await server.next("notifications/initialized")
            await initialized.accept()
            await (await server.next("GET")).respond(405)
            ping = Outcome(nursery, session.ping)
            await (await server.next("ping")).result()
            await ping.wait()
            assert server.waiting() == []
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def connect_later(server: Any) -> Any:
    """A session whose ``notifications/initialized`` is still unanswered."""
    async with trio.open_nursery() as nursery:

        async def open_it() -> None:
            opening = await server.next("initialize")
            await opening.result(
                {"protocolVersion": NEWEST, "capabilities": {"tools": {}}, "serverInfo": INFO}
            )

        nursery.start_soon(open_it)
        async with connect_http(server.url, proxy=None) as session:
            yield session


# ---------------------------------------------------------------- order, room


async def test_notifications_keep_their_order() -> None:
    async with raw_session() as (session, server):
        for i in range(3):
            await session.notify("notifications/x", {"n": i})
        for i in range(3):
            request = await server.next()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert server.waiting() == []
            assert request.message["params"] == {"n": i}
            await request.accept()


async def test_a_server_that_takes_nothing_makes_notifications_wait() -> None:
    client = Client("c", version="1", limits=Limits(outbox_bytes=100, drain=0.05))
    async with raw_session(client=client) as (session, server), trio.open_nursery() as nursery:
        await session.notify("notifications/x", {"text": "x" * 100})
        second = Outcome(nursery, lambda: session.notify("notifications/y"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert [r.rpc for r in [await server.next("notifications/x")]] == ["notifications/x"]
        assert server.waiting() == []
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await second.wait()


# ---------------------------------------------------------------- the end


@pytest.mark.case("18")
async def test_leaving_is_bounded_where_the_delete_is_never_answered() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        nursery.start_soon(server.shake_hands)
        with trio.fail_after(2):
            async with connect_http(server.url, client=hasty(), proxy=None):
                pass
        assert (await server.next("DELETE")).headers["mcp-session-id"] == SESSION
        nursery.cancel_scope.cancel()


async def test_leaving_tells_of_the_calls_that_were_open() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        async with session_of(server, client=hasty()) as session:
            call = Outcome(nursery, lambda: session.call_tool("t"))
            request = await server.next("tools/call")
        with pytest.raises(SessionClosed):
            await call.wait()
        cancelled = await server.next("notifications/cancelled")
        assert cancelled.message["params"]["requestId"] == request.message["id"]
        nursery.cancel_scope.cancel()


async def test_a_session_without_an_id_is_not_deleted() -> None:
    async with raw_server() as server, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: server.shake_hands(session_id=None))
        async with connect_http(server.url, proxy=None):
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert "DELETE" not in server.waiting()
        nursery.cancel_scope.cancel()


async def test_the_blocks_own_exception_leaves_bare() -> None:
    error = KeyError("mine")
    async with our_server(weather()) as http:
        with pytest.raises(KeyError) as caught:
            async with connect_http(http.url):
                raise error
    assert caught.value is error


async def test_a_silent_server_can_be_left_at_any_time() -> None:
    """Cancelled while it connects, and at every stage of the handshake."""
    before = open_descriptors()
    async with raw_server() as server:
        for stage in range(4):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(one_call, server.url, client=hasty()))
                if stage >= 1:
                    opening = await server.next("initialize")
                if stage >= 2:
                    await opening.result(
                        {
                            "protocolVersion": NEWEST,
                            "capabilities": {"tools": {}},
                            "serverInfo": INFO,
                        }
                    )
                    initialized = await server.next("notifications/initialized")
                if stage >= 3:
                    await initialized.accept()
                    await server.next("tools/call")
                nursery.cancel_scope.cancel()
    assert open_descriptors() <= before


async def test_a_connection_that_is_being_closed_is_not_used_again() -> None:
    """Its task may just have been woken by the answer, and would offer the connection as idle."""
    async with raw_session() as (session, server), trio.open_nursery() as nursery:
        for _ in range(20):
            call = Outcome(nursery, lambda: session.call_tool("t"))
            request = await server.next("tools/call")
            await request.text("late")
            call.scope.cancel()  # the answer is there, and nobody has read it
            again = Outcome(nursery, lambda: session.call_tool("t"))
            while True:
                message = await server.next()
                if message.rpc == "tools/call":
                    break
                await message.accept()
            await message.text("x")
            with trio.fail_after(2):
                assert text_of(await again.wait()) == "x"
