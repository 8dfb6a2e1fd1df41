"""Revision 2026-07-28 over real sockets: answers, streams, and what a client that leaves ends.

Each request stands for itself and is served where it was read. Clauses without a document
are those of 2026-07-28 basic/transports/streamable-http.
"""

from __future__ import annotations

import json
import ssl
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
import trio.testing
import trustme

from mcp_trio import Context, Limits, connect_http, serve_http
from mcp_trio.errors import Refusal
from mcp_trio.transports import http_server
from mcp_trio.wire.revisions import ENVELOPED, REVISIONS
from tests.transports.http_raw import (
    Client,
    Message,
    Raw,
    Response,
    Workshop,
    connected,
    dial,
    hang_up,
    head_bytes,
    quiet_log,
    text_of,
    until,
)
from tests.transports.http_raw import serving as serving_any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio import ClientSession
    from mcp_trio.transports.http_server import HttpServer
    from mcp_trio.wire.http_head import RequestHead

__all__ = ["quiet_log"]  # a fixture for all

NOW: Final = ENVELOPED[-1].version
_PREFIX: Final = "io.modelcontextprotocol/"
ABOUT: Final = f"{_PREFIX}subscriptionId"
JSON_ONLY: Final[dict[str, Any]] = {"Accept": "application/json"}
#: What a server runs besides connections, their watches, and sessions.
_OWN_TASKS: Final = 5

USER: ContextVar[str] = ContextVar("USER", default="nobody")


# ---------------------------------------------------------------- the two sides


class Shop(Workshop):
    """A workshop of both eras.

    Attributes:
        downstream: the session with another server that `relay` calls.
    """

    def __init__(self, limits: Limits | None = None, revisions: Any = REVISIONS) -> None:
        super().__init__(limits, revisions=[*revisions])
        self.downstream: ClientSession | None = None
        for tool in (self.quiz, self.ask_model, self.relay, self.family, self.chatter, self.big):
            self.tool(name=tool.__name__)(tool)
        self.method("test/refuse")(self.refuse)

    async def refuse(self, ctx: Context, params: Any) -> None:
        if params.get("first"):
            await ctx.progress(1)
        raise Refusal(params["code"], "as asked")

    async def quiz(self, ctx: Context) -> str:
        await ctx.progress(1)
        answer = await ctx.call("elicitation/create", {"message": "?", "requestedSchema": {}})
        return str(answer["content"])

    async def ask_model(self, ctx: Context) -> str:
        return str(await ctx.sample("?", 10))

    async def relay(self, name: str) -> str:
        assert self.downstream is not None
        await self.downstream.call_tool("hold", {"name": name})
        return "relayed"

    async def family(self, ctx: Context, name: str) -> str:
        async with trio.open_nursery() as nursery:
            for child in range(2):
                nursery.start_soon(self.hold, ctx, f"{name}{child}")
        return "home"

    async def chatter(self, ctx: Context, name: str, size: int = 1, tidy: float = 0) -> str:
        """Talk until somebody cancels it, and take *tidy* seconds to end then."""
        self.entered.append(name)
        n = 0
        try:
            while True:
                n += 1
                await ctx.progress(n, message="x" * size)
                await trio.lowlevel.checkpoint()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(tidy)
            self.left.append(name)
            self._news.unpark_all()

    async def big(self, size: int) -> str:
        return "x" * size


class Modern(Client):
    """A client whose requests carry their envelope, and headers that repeat it."""

    def asking(
        self,
        method: str,
        params: Message | None = None,
        id_: object = None,
        capabilities: Message | None = None,
        version: str = NOW,
    ) -> Message:
        id_ = next(self.ids) if id_ is None else id_
        meta = {
            f"{_PREFIX}protocolVersion": version,
            f"{_PREFIX}clientCapabilities": capabilities or {},
            f"{_PREFIX}clientInfo": {"name": "raw", "version": "1"},
            "progressToken": id_,
        }
        params = {**(params or {}), "_meta": meta}
        return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}

    def calling(
        self,
        name: str,
        arguments: Any = None,
        id_: object = None,
        capabilities: Message | None = None,
    ) -> Message:
        params = {"name": name, "arguments": arguments or {}}
        return self.asking("tools/call", params, id_, capabilities)

    async def start(
        self,
        method: str,
        message: object = None,
        *,
        raw: Raw | None = None,
        path: str = "/mcp",
        **headers: str | None,
    ) -> Raw:
        """Send a request; headers that are not given repeat what the body says."""
        if isinstance(message, dict):
            name = (message.get("params") or {}).get("name")
            headers = {
                "MCP_Protocol_Version": NOW,
                "Mcp_Method": message.get("method"),
                "Mcp_Name": name,
                **headers,
            }
        return await super().start(method, message, raw=raw, path=path, **headers)

    async def ask(self, method: str, params: Message | None = None, **options: Any) -> Response:
        return await self.post(self.asking(method, params), **options)

    async def hold(self, name: str, *, raw: Raw | None = None, **options: Any) -> Raw:
        """Call ``hold`` on a connection of its own; keywords are its arguments."""
        accept = options.pop("Accept", None)
        headers = {"Accept": accept} if accept else {}
        raw = raw or await self.dial()
        return await self.start_call("hold", {"name": name, **options}, raw=raw, **headers)

    async def listen_to(self, id_: object = 1, **wanted: Any) -> Raw:
        """Open a subscription on a connection of its own, and read its acknowledgement."""
        params = {"notifications": wanted}
        message = self.asking("subscriptions/listen", params, id_)
        raw = await self.start("POST", message, raw=await self.dial())
        assert (await raw.head()).headers["content-type"] == "text/event-stream"
        ack = await raw.message()
        assert ack["method"] == "notifications/subscriptions/acknowledged"
        assert ack["params"]["notifications"] == wanted
        assert ack["params"]["_meta"] == {ABOUT: id_}
        return raw


class Told:
    """A tracer (``mcp_trio.abc.Tracer``) that keeps the names of what it is told."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def event(self, name: str, fields: dict[str, Any]) -> None:
        self.names.append(f"{name} {fields.get('status', '')}".strip())


@asynccontextmanager
async def modern(http: HttpServer, raw: Raw | None = None) -> AsyncIterator[Modern]:
    client = Modern(http, raw or await dial(http))
    try:
        yield client
    finally:
        with trio.move_on_after(1, shield=True):
            await hang_up(client.dialed)


def nothing_is_left(http: HttpServer) -> bool:
    """No request, no watch, and no task but the server's, each connection's and each session's."""
    assert http._nursery is not None
    return (
        not http.enveloped
        and not http._unwatched
        and not http.open_requests
        and not http.exchanges.child_tasks
        and len(http._nursery.child_tasks)
        <= _OWN_TASKS + len(http.connections) + len(http.sessions)
    )


@asynccontextmanager
async def serving(server: Workshop, **options: Any) -> AsyncIterator[HttpServer]:
    """*server* on a port of this machine; whatever a test does, nothing of it is left."""
    async with serving_any(server, **options) as http:
        yield http
        await until(partial(nothing_is_left, http))


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LOOK", 0.02)


@pytest.fixture
def no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher that passes by each second finds nobody out."""
    monkeypatch.setattr(http_server, "_LOOK", 1e9)


# ---------------------------------------------------------------- what a request gets


async def test_a_call_without_a_handshake_is_answered_with_json() -> None:
    async with serving(Shop()) as http, modern(http) as client:
        response = await client.call("echo", {"text": "x"})

        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        assert text_of(response.json) == "x"
        assert response.json["result"]["resultType"] == "complete"


@pytest.mark.parametrize("size", [0, 65_000, 70_000, 3_000_000])
async def test_answers_of_any_size_arrive(size: int) -> None:
    async with serving(Shop()) as http, modern(http) as client:
        for _ in range(2):
            assert len(text_of((await client.call("big", {"size": size})).json)) == size


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (-32700, 400),
        (-32600, 400),
        (-32602, 400),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-32601, 404),
        (-32603, 200),
        (-32000, 200),
        (-1, 200),
        (17, 200),
    ],
)
async def test_an_error_decides_the_status_while_nothing_has_been_said(
    code: int, status: int
) -> None:
    """§ Error Codes. Once a stream has begun its status is 200, and the error its last event."""
    async with serving(Shop()) as http, modern(http) as client:
        response = await client.ask("test/refuse", {"code": code})

        assert response.status == status
        assert (response.json["id"], response.json["error"]["code"]) == (1, code)

        late = await client.ask("test/refuse", {"code": code, "first": True})

        assert late.status == 200
        progress, error = late.messages
        assert progress["method"] == "notifications/progress"
        assert (error["id"], error["error"]["code"]) == (2, code)


@pytest.mark.parametrize(
    "method", ["no/such", "ping", "logging/setLevel", "resources/subscribe", "prompts/list"]
)
async def test_what_is_no_method_here_is_not_found(method: str) -> None:
    """§ Error Codes: -32601 is 404 with a body; so are removed methods and undeclared ones."""
    async with serving(Shop()) as http, modern(http) as client:
        response = await client.ask(method, {"level": "info", "uri": "x:y"})

        assert response.status == 404
        assert (response.json["id"], response.json["error"]["code"]) == (1, -32601)


async def test_requests_that_cannot_be_served_are_refused_with_their_code() -> None:
    async with serving(Shop()) as http, modern(http) as client:

        async def refused(status: int, code: int, message: object, **headers: Any) -> Any:
            response = await client.post(message, **headers)
            assert (response.status, response.json["error"]["code"]) == (status, code)
            return response.json

        echo = partial(client.calling, "echo", {"text": "x"})
        assert (await refused(400, -32020, echo(7), Mcp_Method="tools/list"))["id"] == 7
        await refused(400, -32020, echo(), Mcp_Method=None)
        await refused(400, -32020, echo(), Mcp_Name="other")
        await refused(400, -32020, echo(), Mcp_Name=None)
        await refused(400, -32020, echo(), MCP_Protocol_Version="2025-11-25")
        await refused(400, -32020, echo(), MCP_Protocol_Version=None)
        bare = echo()
        del bare["params"]["_meta"]
        await refused(400, -32602, bare)
        halves = echo()
        del halves["params"]["_meta"][f"{_PREFIX}clientCapabilities"]
        await refused(400, -32602, halves)
        await refused(400, -32602, client.calling("no such tool"))
        future = client.asking("tools/list", version="2099-01-01")
        told = await refused(400, -32022, future, MCP_Protocol_Version="2099-01-01")
        assert told["error"]["data"] == {"supported": [NOW], "requested": "2099-01-01"}
        told = await refused(400, -32021, client.calling("ask_model"))
        assert told["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
        modern_headers = {"MCP_Protocol_Version": NOW, "Mcp_Method": "tools/call"}
        assert "id" not in await refused(400, -32700, b"{", **modern_headers)
        batch = json.dumps([echo()]).encode()
        assert "id" not in await refused(400, -32600, batch, **modern_headers)
        answer = {"jsonrpc": "2.0", "id": 1, "result": {}}
        await refused(400, -32600, json.dumps(answer).encode(), **modern_headers)
        # The connection has survived all of it.
        assert (await client.post(echo())).status == 200


async def test_a_head_that_agreed_once_is_compared_with_each_body() -> None:
    """Heads are remembered; what they were found to repeat holds for that body alone."""
    async with serving(Shop()) as http, modern(http) as client:
        named = {"Mcp_Method": "tools/call", "Mcp_Name": "echo"}
        for _ in range(3):
            good = client.calling("echo", {"text": "abcdef"}, "a")
            assert (await client.post(good, **named)).status == 200
            bad = client.calling("hold", {"name": "abcdef"}, "a")
            response = await client.post(bad, **named)
            assert (response.status, response.json["error"]["code"]) == (400, -32020)


async def test_too_many_requests_are_told_to_come_again() -> None:
    server = Shop(Limits(in_flight_total=1))
    async with serving(server) as http, modern(http) as client:
        held = await client.hold("a")
        await server.until_entered("a")

        response = await client.call("echo", {"text": "x"})

        assert (response.status, response.headers["retry-after"]) == (503, "1")
        assert response.json["error"]["code"] == -31001
        server.open("a")
        assert text_of((await held.response()).json) == "held a"
        assert (await client.call("echo", {"text": "x"})).status == 200


async def test_a_notification_is_accepted_and_reaches_nobody() -> None:
    """A cancellation by notification is none here: ids of other clients must not be guessed."""
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        held = await client.hold("a")
        await server.until_entered("a")
        meta = client.asking("x")["params"]["_meta"]
        for id_ in range(1, 5):
            params = {"requestId": id_, "_meta": meta}
            notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
            response = await client.post(notice)
            assert (response.status, response.body) == (202, b"")
        assert server.left == []
        server.open("a")
        assert text_of((await held.response()).json) == "held a"


async def test_no_session_is_opened_and_none_is_known() -> None:
    """``Mcp-Session-Id`` and ``Last-Event-ID`` are ignored, and never sent."""
    async with serving(Shop()) as http, modern(http) as client:
        for name, arguments in (("echo", {"text": "x"}), ("steps", {"n": 1})):
            response = await client.call(
                name, arguments, Mcp_Session_Id="no such one", Last_Event_ID="0.1"
            )

            assert response.status == 200
            assert "mcp-session-id" not in response.headers
            assert list(http.sessions) == []


# ---------------------------------------------------------------- one era, or both


async def test_a_modern_server_knows_no_get_and_no_delete() -> None:
    async with serving(Shop(revisions=[NOW])) as http, modern(http) as client:
        for method in ("GET", "DELETE"):
            response = await client.request(method, Mcp_Session_Id="x")

            assert (response.status, response.headers["allow"]) == (405, "POST")
        assert (await client.call("echo", {"text": "x"})).status == 200


async def test_a_modern_server_tells_an_older_client_what_it_speaks() -> None:
    """2026-07-28 basic/versioning: its refusal of ``initialize`` names the versions."""
    async with (
        serving(Shop(revisions=[NOW])) as http,
        connected(http, open=False) as old,
    ):
        response = await old.initialize()

        assert response.status == 400
        assert NOW in response.json["error"]["message"]
        assert response.json["error"]["data"]["supported"] == [NOW]
        assert "mcp-session-id" not in response.headers


async def test_both_eras_are_served_on_one_connection() -> None:
    server = Shop()
    async with (
        serving(server) as http,
        connected(http) as old,
        modern(http, old.raw) as new,
    ):
        for _ in range(3):
            assert text_of((await old.call("echo", {"text": "old"})).json) == "old"
            assert text_of((await new.call("echo", {"text": "new"})).json) == "new"
            assert [m.get("id") is None for m in (await new.call("steps", {"n": 2})).messages] == [
                True,
                True,
                False,
            ]
            assert len((await old.call("steps", {"n": 2})).messages) == 3
        assert "resultType" in (await new.call("echo", {"text": ""})).json["result"]
        assert "resultType" not in (await old.call("echo", {"text": ""})).json["result"]
        assert len(http.sessions) == 1


async def test_a_client_that_leaves_ends_the_calls_of_its_own_era_only() -> None:
    """In the legacy revisions a disconnect is no cancellation."""
    server = Shop()
    async with serving(server) as http, connected(http) as old, modern(http) as new:
        kept = await old.start_call("hold", {"name": "old"}, raw=await old.dial())
        ended = await new.hold("new")
        for name in ("old", "new"):
            await server.until_entered(name)
        await kept.stream.aclose()
        await ended.stream.aclose()
        await server.until_left("new")
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert server.left == ["new"]
        server.open("old")
        await server.until_left("old")


# ---------------------------------------------------------------- streams


async def test_progress_makes_the_answer_the_last_event_of_a_stream() -> None:
    """§ Receiving Messages: nothing has an id, since nothing can be resumed."""
    async with serving(Shop()) as http, modern(http) as client:
        response = await client.call("steps", {"n": 3})

        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        *progress, answer = response.messages
        assert [m["params"]["progress"] for m in progress] == [1, 2, 3]
        assert {m["params"]["progressToken"] for m in progress} == {1}
        assert (answer["id"], text_of(answer)) == (1, "done")
        assert b"id: " not in response.body
        assert b"retry" not in response.body


async def test_a_question_is_the_last_event_after_progress_too() -> None:
    """2026-07-28 basic/patterns/mrtr; in the next round the answer is there at once."""
    can: Message = {"elicitation": {}}
    async with serving(Shop()) as http, modern(http) as client:
        progress, asked = (await client.post(client.calling("quiz", capabilities=can))).messages

        assert progress["method"] == "notifications/progress"
        result = asked["result"]
        assert result["resultType"] == "input_required"
        ((key, question),) = result["inputRequests"].items()
        assert question["method"] == "elicitation/create"

        again = client.calling("quiz", capabilities=can)
        again["params"]["inputResponses"] = {key: {"action": "accept", "content": {"a": 1}}}
        again["params"]["requestState"] = result["requestState"]
        _, answer = (await client.post(again)).messages
        assert text_of(answer) == "{'a': 1}"


async def test_a_question_that_comes_first_is_json() -> None:
    async with serving(Shop()) as http, modern(http) as client:
        response = await client.post(client.calling("ask", capabilities={"elicitation": {}}))

        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        assert response.json["result"]["resultType"] == "input_required"


async def test_who_takes_json_only_gets_the_answer_and_no_notices() -> None:
    async with serving(Shop()) as http, modern(http) as client:
        response = await client.call("steps", {"n": 3}, **JSON_ONLY)

        assert response.headers["content-type"] == "application/json"
        assert text_of(response.json) == "done"
        refused = await client.ask(
            "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, **JSON_ONLY
        )
        assert refused.status == 406


async def test_who_takes_streams_only_gets_one() -> None:
    async with serving(Shop(Limits(sse_after=0.01))) as http, modern(http) as client:
        (answer,) = (await client.call("echo", {"text": "x"}, Accept="text/event-stream")).messages
        assert text_of(answer) == "x"
        held = await client.hold("a", Accept="text/event-stream")
        assert (await held.head()).headers["content-type"] == "text/event-stream"
        await held.stream.aclose()


async def test_a_client_that_reads_slowly_gets_everything() -> None:
    async with serving(Shop()) as http, modern(http) as client:
        raw = await client.start_call("steps", {"n": 3_000, "size": 1_000}, raw=await client.dial())
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert (await client.call("echo", {"text": "x"})).status == 200

        *progress, answer = (await raw.response()).messages

        assert [m["params"]["progress"] for m in progress] == [*range(1, 3_001)]
        assert text_of(answer) == "done"


async def test_a_client_that_never_reads_is_cut_off_and_its_handler_cancelled(
    quick_watch: None,
) -> None:
    """Until then the handler waits for it, with bounded memory."""
    server = Shop(Limits(request_time=0.1))
    async with serving(server) as http, modern(http) as client:
        arguments = {"name": "a", "size": 1_000}
        stalled = await client.start_call("chatter", arguments, raw=await client.dial())
        await until(lambda: "a" in server.entered)
        assert text_of((await client.call("echo", {"text": "x"})).json) == "x"
        await server.until_left("a")
        await until(lambda: len(http.connections) == 1)
        await stalled.stream.aclose()


# ---------------------------------------------------------------- one connection


async def test_a_connection_serves_many_requests() -> None:
    async with serving(Shop()) as http, modern(http) as client:
        for i in range(100):
            name, arguments = (("echo", {"text": "x"}), ("steps", {"n": 1}))[i % 2]
            response = await client.call(name, arguments)
            assert response.status == 200
        assert len(http.connections) == 1


async def test_requests_in_one_write_are_answered_in_order() -> None:
    async with serving(Shop()) as http, modern(http) as client:
        paper, copy = trio.testing.memory_stream_pair()
        for i in range(20):
            name, arguments = (("echo", {"text": "x"}), ("steps", {"n": 2}))[i % 2]
            await client.start_call(name, arguments, raw=Raw(paper))
        await client.raw.send(bytes(await copy.receive_some()))
        for i in range(20):
            response = await client.raw.response()
            answer = response.messages[-1] if i % 2 else response.json
            assert answer["id"] == i + 1


@pytest.mark.parametrize("before", [0, 1])
async def test_what_is_sent_behind_a_request_does_not_cancel_it(before: int) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        raw = await client.hold("a", before=before)
        await server.until_entered("a")
        await trio.testing.wait_all_tasks_blocked(0.02)  # it is watched
        for i in range(3):
            await client.start_call("echo", {"text": str(i)}, raw=raw)
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.left == []
        server.open("a")
        first = await raw.response()
        answer = first.messages[-1] if before else first.json
        assert text_of(answer) == "held a"
        for i in range(3):
            assert text_of((await raw.response()).json) == str(i)


async def test_the_same_id_on_two_connections_is_served_twice() -> None:
    """Ids are those of one client; requests of two have nothing to do with each other."""
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        raws = {}
        for name in "ab":
            message = client.calling("hold", {"name": name}, 7)
            raws[name] = await client.start("POST", message, raw=await client.dial())
            await server.until_entered(name)
        server.open("b")
        assert text_of((await raws["b"].response()).json) == "held b"
        server.open("a")
        assert text_of((await raws["a"].response()).json) == "held a"


async def test_users_on_one_connection_share_no_context() -> None:
    """A proxy sends the requests of many over one connection, which changes hands meanwhile."""
    server = Shop()

    @server.tool
    async def who(ctx: Context, name: str, say: bool = False) -> str:  # noqa: FBT001, FBT002 - a tool
        seen = USER.get()
        USER.set(name)
        if say:
            await ctx.progress(1)  # from here on another task has the connection
        await trio.testing.wait_all_tasks_blocked()
        assert USER.get() == name
        return seen

    async def authenticate(head: RequestHead) -> None:
        assert USER.get() == "nobody"
        if head.headers.get("authorization") is not None:
            USER.set(str(head.headers.get("authorization")))

    for hook in (None, authenticate):
        async with serving(server, authenticate=hook) as http, modern(http) as client:
            seen = []
            for name, say in (("ann", False), ("bob", True), (None, False), ("eve", True)):
                response = await client.call("who", {"name": "x", "say": say}, Authorization=name)
                seen.append(text_of(response.messages[-1] if say else response.json))
            assert seen == (["ann", "bob", "nobody", "eve"] if hook else ["nobody"] * 4)


# ---------------------------------------------------------------- a client that leaves


async def leave(raw: Raw, how: str) -> None:
    """Go away: by closing, by a reset, or by saying that nothing more will be sent."""
    if how == "reset":
        await raw.cut()
    elif how == "half":
        assert isinstance(raw.stream, trio.SocketStream)
        await raw.stream.send_eof()
    else:
        await raw.stream.aclose()


ANY_WAY: Final = pytest.mark.parametrize("how", ["close", "reset", "half"])


@ANY_WAY
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "application/json"])
async def test_a_client_that_leaves_before_anything_was_said_cancels_its_request(
    no_look: None, how: str, accept: str
) -> None:
    """2026-07-28 basic/patterns/cancellation: the server MUST treat a disconnect as one."""
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        raw = await client.hold("a", Accept=accept)
        await server.until_entered("a")
        await leave(raw, how)
        with trio.fail_after(1):
            await server.until_left("a")
            await until(lambda: len(http.connections) == 1)


@ANY_WAY
@pytest.mark.parametrize("pause", [0, 0.02])
async def test_a_client_that_leaves_a_stream_cancels_its_request(
    no_look: None, how: str, pause: float
) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        raw = await client.hold("a", before=2)
        await raw.head()
        await raw.message()
        await server.until_entered("a")
        await trio.sleep(pause)  # before and after it is watched
        await leave(raw, how)
        with trio.fail_after(1):
            await server.until_left("a")
            await until(lambda: len(http.connections) == 1)


async def test_a_request_whose_client_has_ended_gets_no_answer(no_look: None) -> None:
    """2026-07-28 basic/patterns/cancellation: nothing more is sent for it."""
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        silent, talking = await client.hold("a"), await client.hold("b", before=1)
        await talking.head()
        await talking.message()
        await server.until_entered("a")
        for raw in (silent, talking):
            await leave(raw, "half")
        assert await talking.rest() == []
        said = await silent.response()
        assert b"data" not in said.body
        for raw in (silent, talking):
            assert await raw.is_closed()


@ANY_WAY
@pytest.mark.parametrize("before", [0, 1])
async def test_what_was_sent_behind_a_request_does_not_hide_that_its_client_leaves(
    no_look: None, how: str, before: int
) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        raw = await client.hold("a", before=before)
        await server.until_entered("a")
        await trio.testing.wait_all_tasks_blocked(0.02)
        await client.start_call("hold", {"name": "never"}, raw=raw)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert server.left == []
        await leave(raw, how)
        with trio.fail_after(1):
            await server.until_left("a")
            await until(lambda: len(http.connections) == 1)
        assert server.entered == ["a"]


@ANY_WAY
async def test_a_client_that_leaves_while_the_handler_talks_cancels_it(
    no_look: None, how: str
) -> None:
    """It is found out by whoever is first: who watches, or who writes."""
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        for i in range(10):
            raw = await client.start_call("chatter", {"name": str(i)}, raw=await client.dial())
            await raw.head()
            await leave(raw, how)
        with trio.fail_after(2):
            await until(lambda: len(server.left) == 10)


async def test_clients_that_leave_at_once_disturb_nobody(no_look: None) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        for i in range(60):
            raw = await client.dial()
            if i % 2:
                await client.hold(str(i), raw=raw, before=i % 3)
            else:
                await client.start_call("chatter", {"name": str(i)}, raw=raw)
            await leave(raw, ("reset", "close", "half")[i % 3])
        await until(lambda: len(server.left) == len(server.entered))
        await until(lambda: len(http.connections) == 1)
        assert text_of((await client.call("echo", {"text": "x"})).json) == "x"


async def test_no_watch_begins_on_a_connection_that_is_closed(
    no_look: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client has reset it, and the handler takes longer to end than until it is watched."""
    monkeypatch.setattr(http_server, "_GRACE", 0.03)
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        for name in "ab":
            arguments = {"name": name, "tidy": 0.06}
            raw = await client.start_call("chatter", arguments, raw=await client.dial())
            await raw.head()
            await leave(raw, "reset")
        for name in "ab":
            await server.until_left(name)
        assert text_of((await client.call("echo", {"text": "x"})).json) == "x"


async def test_whatever_the_handler_has_begun_ends_with_its_client() -> None:
    """Its child tasks, and what it asked of another server."""
    server, inner = Shop(), Workshop()
    async with (
        serving_any(inner) as beyond,
        connect_http(beyond.url) as session,
        serving(server) as http,
        modern(http) as client,
    ):
        server.downstream = session
        parent = await client.start_call("family", {"name": "a"}, raw=await client.dial())
        relay = await client.start_call("relay", {"name": "b"}, raw=await client.dial())
        for name in ("a0", "a1"):
            await server.until_entered(name)
        await inner.until_entered("b")
        await parent.stream.aclose()
        await relay.stream.aclose()
        for name in ("a0", "a1"):
            await server.until_left(name)
        await inner.until_left("b")


async def test_a_traced_server_notices_as_well(no_look: None) -> None:
    """There a handler has a task of its own, which does not end with the connection's."""
    server, told = Shop(), Told()
    async with serving(server, tracer=told) as http, modern(http) as client:
        for before in (0, 1):
            raw = await client.hold(str(before), before=before)
            await server.until_entered(str(before))
            await raw.stream.aclose()
            with trio.fail_after(1):
                await server.until_left(str(before))
        assert (await client.call("steps", {"n": 1})).messages[-1]["id"] == 3
        assert "http.response 200" in told.names


async def test_a_client_that_stays_is_never_cancelled(quick_watch: None) -> None:
    server = Shop(Limits(request_time=0.1, connection_idle=0.1, sse_keep_alive=0.05))
    async with serving(server) as http, modern(http) as client:
        raws = [await client.hold(f"{i}", before=i % 2) for i in range(20)]
        for i in range(20):
            await server.until_entered(f"{i}")
        await trio.sleep(0.3)
        assert server.left == []
        for i, raw in enumerate(raws):
            server.open(f"{i}")
            response = await raw.response()
            answer = response.messages[-1] if i % 2 else response.json
            assert text_of(answer) == f"held {i}"


async def test_the_next_request_of_a_connection_is_watched_anew(no_look: None) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        raw = await client.dial()
        for name, before in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
            await client.hold(name, raw=raw, before=before)
            await server.until_entered(name)
            await trio.testing.wait_all_tasks_blocked(0.01)
            if name != "d":
                server.open(name)
                await raw.response()
        await raw.stream.aclose()
        with trio.fail_after(1):
            await server.until_left("d")


# ---------------------------------------------------------------- listening


async def test_a_subscription_is_acknowledged_and_told_of_changes() -> None:
    """2026-07-28 basic/patterns/subscriptions: what was not asked for is not sent."""
    server = Shop()
    server.resource("a:b", name="b")(lambda: "b")
    async with serving(server) as http, modern(http) as client:
        tools = await client.listen_to("t", toolsListChanged=True)
        watch = await client.listen_to(7, resourceSubscriptions=["a:b"])

        server.remove_tool("echo")
        server.resource_updated("a:b")
        server.resource_updated("a:c")

        changed = await tools.message()
        assert changed["method"] == "notifications/tools/list_changed"
        assert changed["params"] == {"_meta": {ABOUT: "t"}}
        updated = await watch.message()
        assert updated["params"] == {"uri": "a:b", "_meta": {ABOUT: 7}}
        http.stop_accepting()
        for raw, id_ in ((tools, "t"), (watch, 7)):
            (answer,) = await raw.rest()
            assert answer["id"] == id_
            assert answer["result"]["resultType"] == "complete"
            assert answer["result"]["_meta"][ABOUT] == id_
            assert await raw.is_closed()
        await http.wait_drained()


async def test_a_silent_subscription_is_kept_alive(quick_watch: None) -> None:
    """§ Sending Messages to the Server: comments, since proxies close what is silent."""
    async with serving(Shop(Limits(sse_keep_alive=0.04))) as http, modern(http) as client:
        raw = await client.listen_to(toolsListChanged=True)
        for _ in range(3):
            assert await raw._chunk() == b": keep-alive\n\n"
        await raw.stream.aclose()


@ANY_WAY
async def test_a_subscription_ends_with_its_client(no_look: None, how: str) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        for _ in range(3):
            await leave(await client.listen_to(toolsListChanged=True), how)
        with trio.fail_after(1):
            await until(lambda: not server.listeners._open)


# ---------------------------------------------------------------- the end


async def test_a_drain_lets_calls_finish() -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        held, talking = await client.hold("a"), await client.hold("a", before=1, after=1)
        listening = await client.listen_to(toolsListChanged=True)
        await talking.head()
        await until(lambda: server.entered == ["a", "a"])

        http.stop_accepting()

        assert (await listening.rest())[-1]["result"]["resultType"] == "complete"
        assert await client.raw.is_closed()
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


async def test_a_client_that_leaves_during_the_drain_is_not_waited_for(no_look: None) -> None:
    server = Shop()
    async with serving(server) as http, modern(http) as client:
        held, talking = await client.hold("a"), await client.hold("a", before=1)
        await until(lambda: server.entered == ["a", "a"])
        http.stop_accepting()
        for raw in (held, talking):
            await raw.stream.aclose()
        with trio.fail_after(1):
            await http.wait_drained()


async def test_a_subscription_that_comes_too_late_is_refused() -> None:
    """It would have nobody to end it, and no drain would end before it."""
    async with serving(Shop()) as http, modern(http) as client:
        message = client.asking("subscriptions/listen", {"notifications": {}})
        body = json.dumps(message).encode()
        fields = {
            **client.defaults,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "MCP-Protocol-Version": NOW,
            "Mcp-Method": "subscriptions/listen",
        }
        await client.raw.send(head_bytes("POST", fields) + body[:10])
        await until(lambda: http.open_requests == 1)
        http.stop_accepting()
        await client.raw.send(body[10:])

        response = await client.raw.response()

        assert (response.status, response.headers["retry-after"]) == (503, "1")
        await http.wait_drained()


async def test_a_cancelled_server_tells_every_waiter() -> None:
    server = Shop(Limits(drain=0.5))
    async with trio.open_nursery() as nursery:
        http = await nursery.start(partial(serve_http, server))
        async with modern(http) as client:
            waiting = [
                await client.hold("a"),
                await client.hold("b", before=1),
                await client.hold("c", **JSON_ONLY),
                await client.start_call("stubborn", raw=await client.dial()),
            ]
            listening = await client.listen_to(toolsListChanged=True)
            for name in "abc":
                await server.until_entered(name)
            await until(lambda: len(http.enveloped) == 5)

            began = trio.current_time()
            nursery.cancel_scope.cancel()
            with trio.CancelScope(shield=True):
                for raw in waiting:
                    response = await raw.response()
                    is_json = response.headers["content-type"] == "application/json"
                    answer = response.json if is_json else response.messages[-1]
                    assert answer["error"]["code"] == -32603
                    assert await raw.is_closed()
                assert (await listening.rest())[-1]["result"]["resultType"] == "complete"
            assert trio.current_time() - began < 0.5
    assert sorted(server.left) == ["a", "b", "c"]
    assert not http.enveloped


async def test_a_client_that_never_reads_cannot_stop_the_end() -> None:
    server = Shop(Limits(drain=0.2))
    async with trio.open_nursery() as nursery:
        http = await nursery.start(serve_http, server)
        async with modern(http) as client:
            arguments = {"name": "a", "size": 1_000}
            stalled = await client.start_call("chatter", arguments, raw=await client.dial())
            await until(lambda: "a" in server.entered)
            await trio.testing.wait_all_tasks_blocked(0.02)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        await stalled.stream.aclose()
    assert trio.current_time() - began < 1.0
    assert server.left == ["a"]


async def test_https() -> None:
    """No end of a client is watched for there; that nobody can be written to is noticed."""
    authority = trustme.CA()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(tls)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)
    server = Shop()
    async with (
        serving(server, ssl_context=tls) as http,
        modern(http, await dial(http, trust)) as client,
    ):
        assert text_of((await client.call("echo", {"text": "x" * 300_000})).json) == "x" * 300_000
        held = await client.hold("a", raw=client.raw)
        await server.until_entered("a")
        await trio.testing.wait_all_tasks_blocked(0.02)
        server.open("a")
        assert text_of((await held.response()).json) == "held a"
        *progress, answer = (await client.call("steps", {"n": 50})).messages
        assert len(progress) == 50
        assert text_of(answer) == "done"

        leaver = await dial(http, trust)
        await client.start_call("chatter", {"name": "b"}, raw=leaver)
        await leaver.head()
        await trio.aclose_forcefully(leaver.stream)
        await server.until_left("b")
