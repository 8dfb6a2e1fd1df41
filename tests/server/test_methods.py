"""Methods and notifications of the user's own, raw handlers, and middleware both ways."""

from __future__ import annotations

from typing import Any

import pytest
import trio.testing
from attrs import evolve

from mcp_trio import Context, ErrorCode, PeerError, Refusal, Server
from mcp_trio.types import CallToolResult, ListToolsResult, TextContent, Tool
from tests.server.host import EVERY, NEWEST, Error, hosting

SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"}


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("params", [None, {}, {"n": 2, "_meta": {"k": 1}}])
async def test_a_custom_method_gets_its_params_as_they_came(version: str, params: Any) -> None:
    """An empty object where the host sent none."""
    server = Server("s")

    @server.method("x/double")
    async def double(ctx: Context, given: dict[str, Any]) -> dict[str, Any]:
        return {"given": given, "meta": dict(ctx.meta), "method": ctx.method}

    async with hosting(server, version) as host:
        assert await host.result("x/double", params) == {
            "given": params or {},
            "meta": (params or {}).get("_meta", {}),
            "method": "x/double",
        }


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (None, {}),
        ({"a": 1}, {"a": 1}),
        (
            CallToolResult(content=(TextContent(text="t", meta={"k": 1}),)),
            {"content": [{"type": "text", "text": "t", "_meta": {"k": 1}}]},
        ),
    ],
)
async def test_a_custom_method_returns_raw_or_typed_results(value: Any, result: Any) -> None:
    server = Server("s")

    @server.method("x/give")
    async def give(ctx: Context, params: dict[str, Any]) -> Any:
        return value

    async with hosting(server) as host:
        assert await host.result("x/give") == result


async def test_a_typed_result_is_written_as_the_version_has_it() -> None:
    server = Server("s")

    @server.method("tools/list")
    async def tools(ctx: Context, params: dict[str, Any]) -> ListToolsResult:
        return ListToolsResult(tools=(Tool(name="t", title="T", input_schema={"type": "object"}),))

    async with hosting(server, "2025-03-26") as host:
        assert "title" not in (await host.result("tools/list"))["tools"][0]
    async with hosting(server) as host:
        assert (await host.result("tools/list"))["tools"][0]["title"] == "T"


@pytest.mark.parametrize("value", [[1], "text", 5, object()])
async def test_what_is_no_object_is_no_result(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.method("x/give")
    async def give(ctx: Context, params: dict[str, Any]) -> Any:
        return value

    async with hosting(server) as host:
        assert (await host.error("x/give"))["code"] == ErrorCode.INTERNAL_ERROR
    assert "the result of x/give is a" in caplog.text


async def test_what_a_custom_method_raises_is_the_answer() -> None:
    server = Server("s")

    @server.method("x/refuse")
    async def refuse(ctx: Context, params: dict[str, Any]) -> None:
        raise Refusal(17, "no", [1])

    @server.method("x/leave")
    async def leave(ctx: Context, params: dict[str, Any]) -> None:
        raise SystemExit(1)

    async with hosting(server) as host:
        assert await host.error("x/refuse") == {"code": 17, "message": "no", "data": [1]}
        assert await host.error("x/leave") == {
            "code": ErrorCode.INTERNAL_ERROR,
            "message": "internal error in x/leave",
        }


async def test_raw_handlers_go_before_decorators() -> None:
    async def tools(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [], "asked": params}

    server = Server("s", handlers={"tools/list": tools})
    server.tool(name="t")(lambda: "called")

    @server.method("logging/setLevel")
    async def level(ctx: Context, params: dict[str, Any]) -> None:
        raise Refusal(ErrorCode.INVALID_PARAMS, "fixed")

    async with hosting(server) as host:
        assert await host.result("tools/list", {"x": 1}) == {"tools": [], "asked": {"x": 1}}
        assert await host.text("t") == "called"
        assert (await host.error("logging/setLevel", {"level": "info"}))["message"] == "fixed"


async def test_a_raw_handler_can_serve_resources_on_its_own() -> None:
    """What it lists and reads can be watched."""

    async def resources(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"resources": []}

    async def read(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {"contents": []}

    server = Server("s", handlers={"resources/list": resources, "resources/read": read})
    async with hosting(server) as host:
        assert await host.result("resources/read", {"uri": "any:thing"}) == {"contents": []}
        assert await host.result("resources/subscribe", {"uri": "any:thing"}) == {}


@pytest.mark.parametrize("method", ["initialize", "ping", "notifications/cancelled"])
def test_what_the_session_itself_does_cannot_be_taken_from_it(method: str) -> None:
    server = Server("s")

    with pytest.raises(ValueError, match="the session itself takes"):
        server.method(method)
    with pytest.raises(ValueError, match="the session itself takes"):
        server.notification(method)
    with pytest.raises(ValueError, match="the session itself takes"):
        Server("s", handlers={method: None})  # type: ignore[dict-item]  # it is not looked at


# ---------------------------------------------------------------- notifications


@pytest.mark.spec("B-15")
async def test_a_custom_notification_reaches_its_handler_and_is_never_answered() -> None:
    """Nor is one that nobody takes, nor one whose handler fails."""
    server = Server("s")
    heard: list[Any] = []

    @server.notification("x/told")
    async def told(session: Any, params: dict[str, Any]) -> None:
        heard.append((session.state.info.name, params))

    @server.notification("x/fails")
    async def fails(session: Any, params: dict[str, Any]) -> None:
        raise ValueError("its own fault")

    async with hosting(server) as host:
        for method, params in [("x/told", None), ("x/told", {"n": 1}), ("x/fails", None)]:
            await host.tell(method, params)
        await host.tell("x/unknown", {})
        await host.result("ping")
        await trio.testing.wait_all_tasks_blocked()

        assert sorted(heard, key=str) == [("host", {"n": 1}), ("host", {})]
        assert host.strays == []


async def test_initialized_can_be_listened_to() -> None:
    server = Server("s")
    heard: list[str] = []

    @server.notification("notifications/initialized")
    async def initialized(session: Any, params: dict[str, Any]) -> None:
        heard.append(session.revision.version)

    async with hosting(server):
        await trio.testing.wait_all_tasks_blocked()

    assert heard == [NEWEST]


# ---------------------------------------------------------------- middleware, inwards


def noting(name: str, notes: list[str]) -> Any:
    async def middleware(ctx: Any, call: Any, call_next: Any) -> Any:
        notes.append(f"{name} > {call.method}")
        try:
            return await call_next(ctx, call)
        finally:
            notes.append(f"{name} <")

    return middleware


def reversing(**options: Any) -> Server:
    """Return a server whose tool asks the model."""
    server = Server("s", **options)

    @server.tool
    async def ask(ctx: Context) -> str:
        try:
            return (await ctx.sample("2+2?", 10)).model
        except PeerError as exc:
            return f"peer said {exc}"

    return server


async def test_incoming_middleware_is_around_every_request_the_first_outermost() -> None:
    notes: list[str] = []
    server = reversing(middleware=[noting("a", notes), noting("b", notes)])
    async with hosting(server) as host:
        await host.result("tools/list")
        await host.error("x/unknown")

    assert notes == [
        "a > tools/list",
        "b > tools/list",
        "b <",
        "a <",
        "a > x/unknown",
        "b > x/unknown",
        "b <",
        "a <",
    ]


async def test_incoming_middleware_can_change_refuse_and_answer() -> None:
    async def rename(ctx: Context, request: Any, call_next: Any) -> Any:
        if request.method == "x/old":
            request = evolve(request, method="x/new", params={"n": 1})
        result = await call_next(ctx, request)
        return {**result, "_meta": {"seen": ctx.request_id}}

    async def guard(ctx: Context, request: Any, call_next: Any) -> Any:
        if request.method == "x/secret":
            raise Refusal(-5, "not for you")
        if request.method == "x/cached":
            return {"cached": True}
        return await call_next(ctx, request)

    server = Server("s", middleware=(rename, guard))

    @server.method("x/new")
    async def new(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return params

    async with hosting(server) as host:
        id_ = await host.start("x/old", {}, id_="one")
        assert (await host.reply(id_))["result"] == {"n": 1, "_meta": {"seen": "one"}}
        assert await host.error("x/secret") == {"code": -5, "message": "not for you"}
        assert (await host.result("x/cached"))["cached"] is True


async def test_middleware_that_forgets_the_result_is_an_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def forgetful(ctx: Context, request: Any, call_next: Any) -> Any:
        await call_next(ctx, request)

    async with hosting(reversing(middleware=[forgetful])) as host:
        assert (await host.error("tools/list"))["code"] == ErrorCode.INTERNAL_ERROR
    assert "the result of tools/list is a NoneType" in caplog.text


# ---------------------------------------------------------------- middleware, outwards


async def test_outgoing_middleware_is_around_every_reverse_call_the_first_outermost() -> None:
    notes: list[str] = []
    server = reversing(
        middleware=[noting("in", notes)], outgoing=[noting("a", notes), noting("b", notes)]
    )
    async with hosting(server, capabilities={"sampling": {}}) as host:
        host.answers["sampling/createMessage"] = SAMPLE
        assert await host.text("ask") == "m"

    assert notes == [
        "in > tools/call",
        "a > sampling/createMessage",
        "b > sampling/createMessage",
        "b <",
        "a <",
        "in <",
    ]


async def test_outgoing_middleware_can_change_refuse_and_answer() -> None:
    async def frugal(ctx: Context, call: Any, call_next: Any) -> Any:
        if call.params["maxTokens"] > 100:
            return SAMPLE
        if call.params["maxTokens"] == 0:
            raise PeerError(-7, "nothing for nothing")
        return await call_next(ctx, evolve(call, params={**call.params, "maxTokens": 1}))

    server = Server("s", outgoing=[frugal])

    @server.tool
    async def ask(ctx: Context, most: int) -> str:
        try:
            return (await ctx.sample("2+2?", most)).model
        except PeerError as exc:
            return str(exc)

    async with hosting(server, capabilities={"sampling": {}}) as host:
        host.answers["sampling/createMessage"] = lambda params: {
            **SAMPLE,
            "model": f"{params['maxTokens']} token",
        }
        assert await host.text("ask", most=50) == "1 token"
        assert await host.text("ask", most=1000) == "m"
        assert await host.text("ask", most=0) == "nothing for nothing (-7)"


async def test_an_error_of_the_client_reaches_the_handler() -> None:
    async with hosting(reversing(), capabilities={"sampling": {}}) as host:
        host.answers["sampling/createMessage"] = Error(-1, "the user said no")

        assert await host.text("ask") == "peer said the user said no (-1)"


async def test_a_handler_can_ask_the_client_anything() -> None:
    server = Server("s")

    @server.tool
    async def forward(ctx: Context, method: str) -> dict[str, Any]:
        return await ctx.call(method, {"a": 1})

    async with hosting(server) as host:
        host.answers["x/any"] = lambda params: {"got": params}
        result = await host.tool("forward", method="x/any")

        assert result["structuredContent"] == {"got": {"a": 1}}
