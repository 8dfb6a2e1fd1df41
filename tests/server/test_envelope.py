"""Requests that carry their own envelope, on a pipe that sessions with a handshake share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
import trio.testing
from attrs import frozen

from mcp_trio import Accepted, Context, ErrorCode, Limits, Server
from mcp_trio.server.hints import CacheHint
from mcp_trio.wire.revisions import ENVELOPED, LEGACY, REVISIONS
from tests.server.host import EVERY, EVERYTHING, NEWEST, Host, hosting, plugged_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MODERN: Final = ENVELOPED[-1].version
BOTH: Final = [*REVISIONS]
PREFIX: Final = "io.modelcontextprotocol/"
LOG: Final = "notifications/message"

#: Whose results say how long they hold, each with params that it takes.
CACHEABLE: Final[dict[str, dict[str, Any]]] = {
    "server/discover": {},
    "tools/list": {},
    "prompts/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "memo://one"},
}
OTHERS: Final[dict[str, dict[str, Any]]] = {
    "tools/call": {"name": "hello"},
    "prompts/get": {"name": "greet"},
    "completion/complete": {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "who", "value": ""},
    },
    "x/own": {},
}


@frozen
class Name:
    name: str


def enveloped(
    params: dict[str, Any] | None = None,
    capabilities: object = EVERYTHING,
    *,
    version: object = MODERN,
    **more: object,
) -> dict[str, Any]:
    """Params with an envelope, of which *more* are the members that no request needs."""
    meta = {
        PREFIX + "protocolVersion": version,
        PREFIX + "clientCapabilities": capabilities,
        **{PREFIX + key: value for key, value in more.items()},
    }
    return {**(params or {}), "_meta": meta}


def without(key: str) -> dict[str, Any]:
    params = enveloped({"name": "hello"})
    del params["_meta"][PREFIX + key]
    return params


def a_server(**options: Any) -> Server:
    """Something of everything."""
    server = Server("s", "1.2", **{"revisions": BOTH, **options})

    @server.tool
    async def hello() -> str:
        return "hello"

    @server.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit(Name, "Your name?")
        return answer.content.name if isinstance(answer, Accepted) else "nobody"

    @server.prompt
    async def greet(who: str = "you") -> str:
        return f"Greet {who}."

    @server.resource("memo://one")
    async def one() -> str:
        return "1"

    @server.resource("memo://ask")
    async def asking(ctx: Context) -> str:
        return str(await ctx.elicit(Name, "Which one?"))

    @server.resource("memo://{name}/copy")
    async def copy(name: str) -> str:
        return name

    @server.completion("greet", "who")
    async def whom(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
        return ["me"]

    @server.method("x/own")
    async def own(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"own": True}

    return server


def doing(work: Callable[[Context], Awaitable[object]], **options: Any) -> Server:
    """A server of all revisions whose one tool does *work*."""
    server = Server("s", **{"revisions": BOTH, **options})

    @server.tool
    async def do(ctx: Context) -> str:
        return str(await work(ctx))

    return server


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["content"][0]["text"]
    return text


# ---------------------------------------------------------------- two eras on one pipe


@pytest.mark.spec("V-12", "V-14")
async def test_a_pipe_serves_enveloped_requests_without_any_handshake() -> None:
    async with plugged_in(a_server()) as host:
        result = await host.result("tools/call", enveloped({"name": "hello"}, {}))

        assert text_of(result) == "hello"
        assert host.notices == []
        assert host.session.calls() == ()


@pytest.mark.spec("V-12", "V-14")
@pytest.mark.parametrize("version", EVERY)
async def test_both_eras_share_a_pipe_before_during_and_after_a_handshake(version: str) -> None:
    """2026-07-28 basic/versioning: both "concurrently on the same endpoint or process"."""
    call = {"name": "hello"}
    async with plugged_in(a_server()) as host:
        before = await host.result("tools/call", enveloped(call))
        early = await host.error("tools/call", call)
        opening = await host.start(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": "host", "version": "1"},
            },
        )
        during = await host.result("tools/call", enveloped(call))
        await host.tell("notifications/initialized")
        legacy = await host.result("tools/call", call)
        after = await host.result("tools/call", enveloped(call))

        assert before == during == after
        assert before["resultType"] == "complete"
        assert early["code"] == ErrorCode.INVALID_REQUEST
        assert (await host.reply(opening))["result"]["protocolVersion"] == version
        assert legacy == {"content": [{"type": "text", "text": "hello"}]}
        assert host.session.revision.version == version


@pytest.mark.spec("V-12", "M-1")
async def test_a_handler_asks_each_client_in_the_way_of_its_era() -> None:
    """Both requests are open at the same time, and neither learns of the other's answer."""
    async with hosting(a_server(), NEWEST, EVERYTHING) as host:
        legacy = await host.start("tools/call", {"name": "ask"})
        request = await host.next_asked()
        modern = await host.result("tools/call", enveloped({"name": "ask"}))
        await host.answer(request, {"action": "accept", "content": {"name": "Ann"}})

        assert modern["resultType"] == "input_required"
        assert text_of((await host.reply(legacy))["result"]) == "Ann"
        assert host.asked == []


async def test_a_server_of_handshakes_alone_knows_nothing_of_envelopes() -> None:
    """The envelope is a ``_meta`` like any other there."""
    async with hosting(Server("s", revisions=EVERY)) as host:
        assert await host.result("ping", enveloped()) == {}
        error = await host.error("server/discover", enveloped())

        assert error["code"] == ErrorCode.METHOD_NOT_FOUND


@pytest.mark.spec("B-6", "B-14")
@pytest.mark.parametrize("first", ["legacy", "modern"])
async def test_the_eras_of_a_pipe_share_its_ids(first: str) -> None:
    """An id is free again when its request, of whichever era, has been answered."""

    async def hold(ctx: Context) -> str:
        await gate.wait()
        return "held"

    gate = trio.Event()
    one, other = {"name": "do"}, enveloped({"name": "do"})
    if first == "modern":
        one, other = other, one
    async with hosting(doing(hold)) as host:
        await host.start("tools/call", one, id_="x")
        await host.start("tools/call", other, id_="x")
        refusal = await host.reply("x")
        assert refusal["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert [call.id for call in host.session.calls()] == ["x"]
        assert host.session.statistics().duplicate_ids == 1

        gate.set()
        await host.until(lambda: host._replies["x"] is not refusal)
        await host.start("tools/call", other, id_="x")
        assert text_of((await host.reply("x"))["result"]) == "held"


@pytest.mark.spec("B-7")
async def test_a_number_and_its_text_are_two_ids() -> None:
    async with plugged_in(a_server()) as host:
        for id_ in (7, "7"):
            await host.start("tools/call", enveloped({"name": "hello"}), id_=id_)
        answers = [await host.reply(id_) for id_ in (7, "7")]

        assert [answer["id"] for answer in answers] == [7, "7"]


async def test_an_enveloped_request_in_flight_is_answered_after_the_end_of_input(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def slow(ctx: Context) -> str:
        await trio.sleep(0.5)
        return "late"

    async with plugged_in(doing(slow)) as host:
        before = trio.current_time()
        id_ = await host.start("tools/call", enveloped({"name": "do"}))
        await trio.testing.wait_all_tasks_blocked()
        await host.hang_up()

        assert text_of((await host.reply(id_))["result"]) == "late"
        await host.session.wait_ended()
        assert trio.current_time() - before == pytest.approx(0.5)


# ---------------------------------------------------------------- nothing is remembered


@pytest.mark.spec("B-22", "B-23", "B-30", "B-31")
async def test_each_request_is_judged_by_its_own_capabilities() -> None:
    """2026-07-28 basic § Statelessness; those of a handshake on the pipe do not count either."""
    call = {"name": "ask"}
    async with hosting(a_server(), NEWEST, EVERYTHING) as host:
        for _ in range(2):
            able = await host.result("tools/call", enveloped(call))
            unable = await host.error("tools/call", enveloped(call, {}))

            assert able["resultType"] == "input_required"
            assert unable["code"] == ErrorCode.MISSING_CLIENT_CAPABILITY


@pytest.mark.spec("B-22")
async def test_clients_whose_requests_interleave_are_not_mixed_up() -> None:
    """Each handler sees the client, the revision and the level of its own request."""

    async def who(ctx: Context) -> Any:
        await gate.wait()
        peer = ctx.peer
        return [peer.info.name, peer.has("sampling"), peer.wants("info"), peer.revision.version]

    gate = trio.Event()
    async with hosting(doing(who), NEWEST, {"sampling": {}}) as host:
        ids = [
            await host.start("tools/call", params)
            for params in (
                enveloped({"name": "do"}, {}, clientInfo={"name": "a", "version": "1"}),
                {"name": "do"},
                enveloped({"name": "do"}, {"sampling": {}}, logLevel="error"),
                enveloped({"name": "do"}, {"new": {}}, logLevel="info"),
            )
        ]
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
        texts = [text_of((await host.reply(id_))["result"]) for id_ in ids]

        assert texts == [
            f"['a', False, False, '{MODERN}']",
            f"['host', True, True, '{NEWEST}']",
            f"['', True, False, '{MODERN}']",
            f"['', False, True, '{MODERN}']",
        ]


# ---------------------------------------------------------------- results


@pytest.mark.spec("B-10", "B-32", "CA-1")
@pytest.mark.parametrize("method", [*CACHEABLE, *OTHERS])
async def test_every_result_says_what_it_is_and_whose(method: str) -> None:
    """And the six that may be cached say for how long, and no other does."""
    params = {**CACHEABLE, **OTHERS}[method]
    async with plugged_in(a_server()) as host:
        result = await host.result(method, enveloped(params))

        assert result["resultType"] == "complete"
        assert result["_meta"] == {PREFIX + "serverInfo": {"name": "s", "version": "1.2"}}
        hints = {key: result[key] for key in ("ttlMs", "cacheScope") if key in result}
        assert hints == ({"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE else {})


@pytest.mark.spec("CA-1")
@pytest.mark.parametrize("method", CACHEABLE)
async def test_a_server_says_for_each_method_how_long_its_results_hold(method: str) -> None:
    server = a_server(cache_hints={method: CacheHint(ttl_ms=60_000, scope="public")})
    async with plugged_in(server) as host:
        for each, params in CACHEABLE.items():
            result = await host.result(each, enveloped(params))

            expected = (60_000, "public") if each == method else (0, "private")
            assert (result["ttlMs"], result["cacheScope"]) == expected


@pytest.mark.spec("CA-11")
async def test_all_pages_of_a_list_have_one_scope() -> None:
    server = a_server(page_size=1, cache_hints={"tools/list": CacheHint(scope="public")})
    async with plugged_in(server) as host:
        first = await host.result("tools/list", enveloped())
        second = await host.result("tools/list", enveloped({"cursor": first["nextCursor"]}))

        assert first["tools"] != second["tools"]
        assert first["cacheScope"] == second["cacheScope"] == "public"


@pytest.mark.spec("CA-2", "B-32")
@pytest.mark.parametrize(
    ("method", "params"),
    [("resources/read", {"uri": "memo://ask"}), ("tools/call", {"name": "ask"})],
)
async def test_an_interim_result_has_no_cache_hints(method: str, params: dict[str, Any]) -> None:
    server = a_server(cache_hints={method: CacheHint(ttl_ms=5)})
    async with plugged_in(server) as host:
        result = await host.result(method, enveloped(params))

        assert result["resultType"] == "input_required"
        assert set(result) == {"resultType", "inputRequests", "requestState", "_meta"}
        assert PREFIX + "serverInfo" in result["_meta"]


async def test_what_a_handler_says_of_its_result_is_kept() -> None:
    server = a_server(cache_hints={"resources/read": CacheHint(ttl_ms=5)})

    @server.method("resources/read")
    async def read(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return shared

    shared = {"contents": [], "ttlMs": 9, "_meta": {"x/y": 1}}
    async with plugged_in(server) as host:
        result = await host.result("resources/read", enveloped({"uri": "memo://one"}))

        assert (result["ttlMs"], result["cacheScope"]) == (9, "private")
        assert result["_meta"].keys() == {"x/y", PREFIX + "serverInfo"}
        assert shared == {"contents": [], "ttlMs": 9, "_meta": {"x/y": 1}}


@pytest.mark.parametrize("method", [m for m in CACHEABLE if m != "server/discover"])
async def test_nothing_of_the_envelope_leaks_into_the_results_of_a_session(method: str) -> None:
    """Both eras are served from the same lists."""
    async with hosting(a_server()) as host:
        before = await host.result(method, CACHEABLE[method])
        modern = await host.result(method, enveloped(CACHEABLE[method]))
        after = await host.result(method, CACHEABLE[method])

        assert before == after
        assert set(modern) - set(after) == {"resultType", "ttlMs", "cacheScope", "_meta"}


# ---------------------------------------------------------------- server/discover


@pytest.mark.spec("V-3")
async def test_discovery_tells_what_the_server_is() -> None:
    """2026-07-28 server/discover; there is no serverInfo beside ``_meta``."""
    async with plugged_in(a_server(instructions="Be brief.")) as host:
        result = await host.result("server/discover", enveloped())

        assert result == {
            "resultType": "complete",
            "supportedVersions": [MODERN, *reversed(EVERY)],
            "capabilities": {
                "logging": {},
                "tools": {"listChanged": True},
                "resources": {"subscribe": True, "listChanged": True},
                "prompts": {"listChanged": True},
                "completions": {},
            },
            "instructions": "Be brief.",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": {PREFIX + "serverInfo": {"name": "s", "version": "1.2"}},
        }


@pytest.mark.spec("V-3")
async def test_a_server_without_handshakes_discovers_only_what_it_speaks() -> None:
    async with plugged_in(Server("s", revisions=[MODERN])) as host:
        result = await host.result("server/discover", enveloped())

        assert result["supportedVersions"] == [MODERN]
        assert result["capabilities"] == {"logging": {}}
        assert "instructions" not in result


async def test_discovery_follows_what_is_offered() -> None:
    server = Server("s", revisions=BOTH)
    async with plugged_in(server) as host:
        before = await host.result("server/discover", enveloped())
        server.tool(name="t")(lambda: "text")
        after = await host.result("server/discover", enveloped())

        assert "tools" not in before["capabilities"]
        assert after["capabilities"]["tools"] == {"listChanged": True}


# ---------------------------------------------------------------- what there is not


@pytest.mark.parametrize(
    "method",
    [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "tasks/get",
        "tasks/list",
        "x/unheard",
    ],
)
async def test_removed_and_unknown_methods_are_not_found(method: str) -> None:
    """Also on a pipe whose session has them (2026-07-28, changes)."""
    params = {"level": "info", "uri": "memo://one", "protocolVersion": NEWEST}
    async with hosting(a_server()) as host:
        error = await host.error(method, enveloped(params))

        assert error["code"] == ErrorCode.METHOD_NOT_FOUND
        assert method in error["message"]
        assert await host.result("ping") == {}


async def test_methods_of_what_is_not_offered_are_not_found() -> None:
    async with plugged_in(Server("s", revisions=BOTH)) as host:
        for method in ("tools/list", "prompts/get", "resources/read", "completion/complete"):
            error = await host.error(method, enveloped())

            assert error["code"] == ErrorCode.METHOD_NOT_FOUND


@pytest.mark.spec("B-15")
@pytest.mark.parametrize(
    "method",
    [
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/unheard",
        "notifications/cancelled",
    ],
)
async def test_enveloped_notifications_are_never_answered(method: str) -> None:
    async with plugged_in(a_server()) as host:
        await host.tell(method, enveloped())
        await host.result("server/discover", enveloped())

        assert host.notices == host.strays == []


# ---------------------------------------------------------------- broken envelopes


@pytest.mark.spec("B-29")
@pytest.mark.parametrize(
    ("params", "names"),
    [
        (without("clientCapabilities"), "clientCapabilities"),
        (enveloped(capabilities=None), "clientCapabilities"),
        (enveloped(capabilities=[]), "clientCapabilities"),
        (enveloped(version=None), "protocolVersion"),
        (enveloped(version=20260728), "protocolVersion"),
        (enveloped(clientInfo="me"), "clientInfo"),
        (enveloped(clientInfo=None), "clientInfo"),
        (enveloped(clientInfo={"name": "me"}), "version"),
        (enveloped(capabilities={"elicitation": 5}), "elicitation"),
        (enveloped(logLevel="loud"), "logLevel"),
        (enveloped(logLevel=3), "logLevel"),
        (enveloped(logLevel=None), "logLevel"),
    ],
)
async def test_a_broken_envelope_is_a_bad_request(params: dict[str, Any], names: str) -> None:
    """2026-07-28 basic § _meta: -32602, and what is at fault is named."""
    async with plugged_in(a_server()) as host:
        error = await host.error("tools/call", {"name": "hello", **params})

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert names in error["message"]


@pytest.mark.spec("B-29")
@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": None}, {"_meta": "x"}])
@pytest.mark.parametrize("initialized", [False, True])
async def test_discovery_without_an_envelope_is_a_bad_request(
    *, params: Any, initialized: bool
) -> None:
    """There is no such method with a handshake, so that it cannot be meant for the session."""
    async with plugged_in(a_server()) as host:
        if initialized:
            await host.initialize()
        error = await host.error("server/discover", params)

        assert error["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("B-29")
@pytest.mark.parametrize("params", [{}, without("protocolVersion")])
@pytest.mark.parametrize("method", ["tools/call", "subscriptions/listen", "completion/complete"])
async def test_without_handshakes_every_request_needs_an_envelope(
    method: str, params: dict[str, Any]
) -> None:
    async with plugged_in(a_server(revisions=[MODERN])) as host:
        error = await host.error(method, params)

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "_meta" in error["message"]


async def test_a_meta_without_a_version_belongs_to_the_session() -> None:
    """A bare ``_meta`` is no evidence of an era: there were progress tokens before."""
    async with hosting(a_server()) as host:
        assert "resultType" not in await host.tool("hello")
        assert "resultType" not in await host.result("tools/call", without("protocolVersion"))


@pytest.mark.spec("V-1", "V-4")
@pytest.mark.parametrize("version", ["v999.0.0", "", NEWEST])
async def test_an_unknown_version_is_answered_with_those_that_are_known(version: str) -> None:
    """Those of a handshake cannot be spoken in an envelope, and are none of them."""
    async with plugged_in(a_server()) as host:
        for method in ("tools/call", "server/discover", "x/unheard"):
            error = await host.error(method, enveloped(version=version))

            assert error["code"] == ErrorCode.UNSUPPORTED_VERSION
            assert error["data"] == {"supported": [MODERN], "requested": version}


@pytest.mark.spec("V-10")
async def test_a_server_without_handshakes_names_what_it_speaks_instead() -> None:
    async with plugged_in(Server("s", revisions=[MODERN])) as host:
        answer = await host.initialize()

        assert answer["error"]["code"] == ErrorCode.UNSUPPORTED_VERSION
        assert MODERN in answer["error"]["message"]
        assert answer["error"]["data"]["supported"] == [MODERN]
        assert "result" in await host.call("server/discover", enveloped())


async def test_a_server_of_both_eras_never_negotiates_an_enveloped_version() -> None:
    async with plugged_in(a_server()) as host:
        answer = await host.initialize(MODERN)

        assert answer["result"]["protocolVersion"] == LEGACY[-1].version


# ---------------------------------------------------------------- capabilities


@pytest.mark.spec("B-31", "M-5")
@pytest.mark.parametrize(
    ("declared", "needed", "work"),
    [
        ({}, {"elicitation": {}}, lambda ctx: ctx.elicit(Name, "?")),
        (
            {"elicitation": {"url": {}}},
            {"elicitation": {"form": {}}},
            lambda ctx: ctx.elicit(Name, "?"),
        ),
        (
            {"elicitation": {}},
            {"elicitation": {"url": {}}},
            lambda ctx: ctx.elicit_url("https://example.org/", "?"),
        ),
        ({"elicitation": {}}, {"sampling": {}}, lambda ctx: ctx.sample("hi", 9)),
        (
            {"sampling": {}},
            {"sampling": {"tools": {}}},
            lambda ctx: ctx.sample("hi", 9, tools=()),
        ),
        (
            {"sampling": {"tools": {}}},
            {"sampling": {"context": {}}},
            lambda ctx: ctx.sample("hi", 9, include_context="allServers"),
        ),
        ({"sampling": {}}, {"roots": {}}, lambda ctx: ctx.list_roots()),
    ],
)
async def test_a_missing_capability_is_an_error_that_names_it(
    declared: dict[str, Any], needed: dict[str, Any], work: Any
) -> None:
    """2026-07-28 basic § Missing Required Client Capability."""
    async with plugged_in(doing(work)) as host:
        error = await host.error("tools/call", enveloped({"name": "do"}, declared))

        assert error["code"] == ErrorCode.MISSING_CLIENT_CAPABILITY
        assert error["data"] == {"requiredCapabilities": needed}


async def test_a_session_is_told_of_a_missing_capability_by_a_failed_tool() -> None:
    async with hosting(a_server()) as host:
        result = await host.tool("ask")

        assert result["isError"] is True
        assert "'elicitation'" in text_of(result)


@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "x/own"])
async def test_prompts_resources_and_own_methods_need_capabilities_too(method: str) -> None:
    server = Server("s", revisions=BOTH)

    @server.method(method)
    async def need(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        ctx.peer.require("a.b.c", "this")
        return {"done": True}

    async with plugged_in(server) as host:
        error = await host.error(method, enveloped({}, {"a": {"b": {}}}))
        assert error["code"] == ErrorCode.MISSING_CLIENT_CAPABILITY
        assert error["data"] == {"requiredCapabilities": {"a": {"b": {"c": {}}}}}

        result = await host.result(method, enveloped({}, {"a": {"b": {"c": {}}}}))
        assert result["done"] is True


# ---------------------------------------------------------------- log messages


@pytest.mark.parametrize(
    ("level", "heard"),
    [(None, []), ("debug", ["debug", "error"]), ("warning", ["error"]), ("alert", [])],
)
async def test_a_request_says_which_log_messages_it_wants(
    level: str | None, heard: list[str]
) -> None:
    """2026-07-28 basic § _meta: none at all unless it names a level."""

    async def work(ctx: Context) -> None:
        await ctx.log("debug", 1)
        await ctx.log("error", 2)

    more = {} if level is None else {"logLevel": level}
    async with plugged_in(doing(work)) as host:
        await host.result("tools/call", enveloped({"name": "do"}, **more))

        assert [params["level"] for params in host.noticed(LOG)] == heard


async def test_the_level_of_a_session_and_those_of_requests_are_apart() -> None:
    async with hosting(doing(lambda ctx: ctx.log("info", "x"))) as host:
        await host.result("logging/setLevel", {"level": "error"})
        await host.result("tools/call", enveloped({"name": "do"}, logLevel="debug"))
        assert len(host.noticed(LOG)) == 1

        await host.tool("do")
        assert len(host.noticed(LOG)) == 1
        await host.result("logging/setLevel", {"level": "debug"})
        await host.result("tools/call", enveloped({"name": "do"}))
        assert len(host.noticed(LOG)) == 1


async def test_progress_goes_to_the_token_of_the_request() -> None:
    async def work(ctx: Context) -> None:
        await ctx.progress(1, total=2, message="half")

    params = enveloped({"name": "do"})
    params["_meta"]["progressToken"] = "p7"
    async with plugged_in(doing(work)) as host:
        await host.result("tools/call", params)

        assert host.noticed("notifications/progress") == [
            {"progressToken": "p7", "progress": 1, "total": 2, "message": "half"}
        ]


# ---------------------------------------------------------------- cancellation


async def cancelled(host: Host, params: dict[str, Any]) -> None:
    """Start a call of the tool, and cancel it when it is under way."""
    id_ = await host.start("tools/call", params)
    await trio.testing.wait_all_tasks_blocked()
    assert [call.id for call in host.session.calls()] == [id_]
    await host.tell("notifications/cancelled", {"requestId": id_})
    await trio.testing.wait_all_tasks_blocked()
    assert id_ not in host._replies


@pytest.mark.parametrize("initialized", [False, True])
async def test_a_cancelled_request_is_not_answered(*, initialized: bool) -> None:
    """2026-07-28 basic/utilities/cancellation; nothing is left of it, whatever it was."""
    ended: list[str] = []

    async def hold(ctx: Context) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(ctx.method)

    async with plugged_in(doing(hold)) as host:
        if initialized:
            await host.initialize()
        await cancelled(host, enveloped({"name": "do"}))

        assert ended == ["tools/call"]
        assert host.session.calls() == ()
        assert host.session.statistics().cancelled_by_peer == 1
        assert host.strays == []


async def test_the_end_of_a_session_ends_its_enveloped_requests() -> None:
    """They are answered with an error, as those of the session are."""

    async def close(ctx: Context) -> None:
        host.session.close()
        await trio.sleep_forever()

    async with plugged_in(doing(close)) as host:
        error = await host.error("tools/call", enveloped({"name": "do"}))
        await host.session.wait_ended()

        assert error["code"] == ErrorCode.INTERNAL_ERROR
        assert host.session.calls() == ()


# ---------------------------------------------------------------- bounds


async def test_requests_of_both_eras_count_against_one_bound() -> None:
    async def hold(ctx: Context) -> None:
        await trio.sleep_forever()

    async with hosting(doing(hold, limits=Limits(in_flight=2))) as host:
        await host.start("tools/call", enveloped({"name": "do"}))
        await host.start("tools/call", {"name": "do"})
        for params in (enveloped({"name": "do"}), {"name": "do"}):
            assert (await host.error("tools/call", params))["code"] == ErrorCode.BUSY


@pytest.mark.parametrize("hint", [{"ttl_ms": -1}, {"ttl_ms": 0.5}, {"scope": "ours"}])
def test_a_hint_that_makes_no_sense_is_refused(hint: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        CacheHint(**hint)


def test_a_key_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="a key has at least"):
        Server("s", revisions=[MODERN], state_keys=[b"short"])
