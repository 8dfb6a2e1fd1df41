"""Calling tools: arguments, results of every kind, and failures, as each revision has them."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import logging
import math
import threading
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
import trio
import trio.testing
from attrs import frozen

from mcp_trio import Context, ErrorCode, Limits, Refusal, Server
from mcp_trio.types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.server.host import EVERY, NEWEST, OLDEST, hosting

STRUCTURED = [version for version in EVERY if version >= "2025-06-18"]
ERRORS_ARE_RESULTS = [version for version in EVERY if version >= "2025-11-25"]


@frozen
class Point:
    x: int
    y: int


@dataclasses.dataclass
class Line:
    start: Point
    end: Point


class Weather(TypedDict):
    city: str
    celsius: float


class Colour(enum.Enum):
    RED = "red"


def returning(value: Any, annotation: Any = Any) -> Server:
    """Return a server whose tool ``give`` returns *value*."""
    server = Server("s")

    async def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    server.tool(give)
    return server


async def given(value: Any, annotation: Any = Any, version: str = NEWEST) -> dict[str, Any]:
    """Return the result of a tool that returns *value*."""
    async with hosting(returning(value, annotation), version) as host:
        return await host.tool("give")


# ---------------------------------------------------------------- results


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("annotation", [str, str | None, Any])
async def test_text_is_one_block_of_text(version: str, annotation: Any) -> None:
    """And no structured content."""
    assert await given("hällo\n", annotation, version) == {
        "content": [{"type": "text", "text": "hällo\n"}]
    }


async def test_nothing_is_no_content() -> None:
    assert await given(None, None) == {"content": []}


@pytest.mark.spec("TL-9", "TL-11", "TL-12")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("value", "annotation", "plain"),
    [
        (Point(1, 2), Point, {"x": 1, "y": 2}),
        (
            Line(Point(1, 2), Point(3, 4)),
            Line,
            {"start": {"x": 1, "y": 2}, "end": {"x": 3, "y": 4}},
        ),
        ({"city": "Oslo", "celsius": 3.5}, Weather, {"city": "Oslo", "celsius": 3.5}),
        ({"a": [1, None]}, dict[str, Any], {"a": [1, None]}),
        ({"a": 1}, Any, {"a": 1}),
        (Point(1, 2), Any, {"x": 1, "y": 2}),
    ],
)
async def test_an_object_is_structured_content_and_text(
    version: str, value: Any, annotation: Any, plain: Any
) -> None:
    """Since 2025-06-18; before that the text alone."""
    result = await given(value, annotation, version)

    assert msgspec.json.decode(result["content"][0]["text"]) == plain
    assert result.get("structuredContent") == (plain if version in STRUCTURED else None)


@pytest.mark.spec("TL-12")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("value", "annotation", "plain"),
    [
        (7, int, 7),
        (1.5, Any, 1.5),
        (True, bool, True),
        ([1, 2], list[int], [1, 2]),
        ((1, "a"), Any, [1, "a"]),
        (frozenset({5}), Any, [5]),
        ([], list[str], []),
        (None, int | None, None),
        (Colour.RED, Colour, "red"),
        ("a", Literal["a", "b"], "a"),
        (b"\x00\x01", bytes, "AAE="),
        (dt.date(2025, 1, 2), dt.date, "2025-01-02"),
    ],
)
async def test_what_is_no_object_is_wrapped(
    version: str, value: Any, annotation: Any, plain: Any
) -> None:
    """As ``{"result": value}``, which its outputSchema says too."""
    async with hosting(returning(value, annotation), version) as host:
        result = await host.tool("give")
        (tool,) = (await host.result("tools/list"))["tools"]

    text = result["content"][0]["text"]
    assert text == plain or msgspec.json.decode(text) == plain
    if version in STRUCTURED:
        assert result["structuredContent"] == {"result": plain}
        assert annotation is Any or "result" in tool["outputSchema"]["properties"]
    else:
        assert "structuredContent" not in result
        assert "outputSchema" not in tool


def blocks(version: str) -> list[tuple[Any, dict[str, Any]]]:
    """Content of every kind that *version* knows, and how it looks on the wire."""
    meta = {"_meta": {"k": 1}} if version >= "2025-06-18" else {}
    found: list[tuple[Any, dict[str, Any]]] = [
        (
            TextContent(text="t", annotations=Annotations(audience=("user",)), meta={"k": 1}),
            {"type": "text", "text": "t", "annotations": {"audience": ["user"]}, **meta},
        ),
        (
            ImageContent(data="AA==", mime_type="image/png"),
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
        ),
        (
            EmbeddedResource(resource=TextResourceContents(uri="a:b", text="t")),
            {"type": "resource", "resource": {"uri": "a:b", "text": "t"}},
        ),
        (
            EmbeddedResource(
                resource=BlobResourceContents(uri="a:b", blob="AA==", mime_type="x/y")
            ),
            {"type": "resource", "resource": {"uri": "a:b", "blob": "AA==", "mimeType": "x/y"}},
        ),
    ]
    if version >= "2025-03-26":
        found.append(
            (
                AudioContent(data="AA==", mime_type="audio/wav"),
                {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            )
        )
    if version >= "2025-06-18":
        found.append(
            (
                ResourceLink(uri="a:b", name="b", size=3),
                {"type": "resource_link", "uri": "a:b", "name": "b", "size": 3},
            )
        )
    return found


@pytest.mark.parametrize("version", EVERY)
async def test_content_of_every_kind_is_sent_as_it_is(version: str) -> None:
    """One block, a list of them with text in between, and a whole result."""
    for block, wire in blocks(version):
        assert await given(block, Any, version) == {"content": [wire]}
    everything = [block for block, _ in blocks(version)]
    wires = [wire for _, wire in blocks(version)]
    assert await given([*everything, "text"], Any, version) == {
        "content": [*wires, {"type": "text", "text": "text"}]
    }
    whole = CallToolResult(content=tuple(everything), is_error=True)
    assert await given(whole, CallToolResult, version) == {"content": wires, "isError": True}


@pytest.mark.parametrize(
    ("block", "version"),
    [
        (AudioContent(data="AA==", mime_type="audio/wav"), OLDEST),
        (ResourceLink(uri="a:b", name="b"), "2025-03-26"),
    ],
)
async def test_content_that_a_version_does_not_know_is_a_failure(block: Any, version: str) -> None:
    """It would not be understood; the text names it."""
    result = await given(block, Any, version)

    assert result["isError"] is True
    assert type(block).__name__ in result["content"][0]["text"]


@pytest.mark.spec("TL-12")
@pytest.mark.parametrize(("data", "wire"), [({"a": 1}, {"a": 1}), ([1], {"result": [1]})])
async def test_the_structured_content_of_a_whole_result_is_an_object(data: Any, wire: Any) -> None:
    result = CallToolResult(content=(), structured_content=data, meta={"k": 1})

    assert await given(result, CallToolResult) == {
        "content": [],
        "structuredContent": wire,
        "_meta": {"k": 1},
    }
    assert await given(result, CallToolResult, OLDEST) == {"content": [], "_meta": {"k": 1}}


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (math.nan, float),
        ({"a": [math.inf]}, Any),
        ({"a": "\ud800"}, Any),
        (Point, Any),
        (object(), Any),
        ({"a": object()}, dict[str, Any]),
        ("x", int),
        (Point("a", 2), Point),  # type: ignore[arg-type]  # that is the point
    ],
)
async def test_what_does_not_fit_or_has_no_json_form_is_a_failure(
    value: Any, annotation: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It is never sent, and never sent as something else."""
    result = await given(value, annotation)

    assert result["isError"] is True
    assert "structuredContent" not in result
    assert "the tool give failed" in caplog.text


async def test_text_that_is_no_unicode_is_an_error_and_the_session_lives(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with hosting(returning("a\udc80b", str)) as host:
        error = await host.error("tools/call", {"name": "give"})

        assert error["code"] == ErrorCode.INTERNAL_ERROR
        assert "$.result.content[0].text" in error["message"]
        assert await host.result("ping") == {}


async def test_a_result_that_holds_itself_is_a_failure() -> None:
    loop: list[Any] = []
    loop.append(loop)

    assert (await given(loop))["isError"] is True


# ---------------------------------------------------------------- failures


class Unspeakable(Exception):
    """Has nothing to say."""


def raise_(exc: BaseException) -> Server:
    server = Server("s")

    @server.tool
    async def fail() -> str:
        raise exc

    @server.tool
    async def fine() -> str:
        return "fine"

    return server


@pytest.mark.spec("TL-18")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ValueError("bad luck\nsecond line"), "fail failed: ValueError: bad luck"),
        (Unspeakable(), "fail failed: Unspeakable"),
        (SystemExit(3), "fail failed: SystemExit: 3"),
        (KeyError("k"), "fail failed: KeyError: 'k'"),
        (
            ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [TypeError("b")])]),
            "fail failed: ValueError: a; TypeError: b",
        ),
        (OSError("no file caf\udce9"), "fail failed: OSError: no file caf?"),
        (RuntimeError("x" * 1000), "fail failed: RuntimeError: " + "x" * 500),
    ],
)
async def test_an_exception_is_a_result_that_says_so(
    version: str, exc: BaseException, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for the model; the traceback goes to the log, and the session goes on."""
    async with hosting(raise_(exc), version) as host:
        result = await host.tool("fail")

        assert result == {"content": [{"type": "text", "text": text}], "isError": True}
        assert await host.text("fine") == "fine"
    (record,) = [r for r in caplog.records if r.name == "mcp_trio.server"]
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    assert record.exc_info[1] is exc


async def test_a_refusal_is_exactly_the_error_that_it_says() -> None:
    async with hosting(raise_(Refusal(-1234, "no", {"why": "so"}))) as host:
        error = await host.error("tools/call", {"name": "fail"})

        assert error == {"code": -1234, "message": "no", "data": {"why": "so"}}


@pytest.mark.spec("TL-15")
@pytest.mark.parametrize("version", EVERY)
async def test_an_unknown_tool_is_a_protocol_error(version: str) -> None:
    async with hosting(raise_(ValueError()), version) as host:
        error = await host.error("tools/call", {"name": "nobody", "arguments": {}})

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "nobody" in error["message"]


async def test_a_tool_that_was_withdrawn_is_unknown() -> None:
    server = raise_(ValueError())
    async with hosting(server) as host:
        assert await host.text("fine") == "fine"
        server.remove_tool("fine")

        assert (await host.error("tools/call", {"name": "fine"}))["code"] == -32602
    with pytest.raises(KeyError):
        server.remove_tool("fine")


# ---------------------------------------------------------------- arguments


def adder() -> Server:
    server = Server("s")

    @server.tool
    async def add(a: Annotated[int, msgspec.Meta(ge=0)], b: int = 10) -> int:
        return a + b

    @server.tool
    async def shift(point: Point, by: Literal[1, 2] = 1) -> Point:
        return Point(point.x + by, point.y + by)

    return server


@pytest.mark.parametrize("version", EVERY)
async def test_arguments_arrive_as_the_types_that_the_function_names(version: str) -> None:
    async with hosting(adder(), version) as host:
        assert await host.text("add", a=1, b=2) == "3"
        assert await host.text("add", a=1) == "11"
        assert await host.text("shift", point={"x": 1, "y": 2}, by=2) == '{"x":3,"y":4}'


@pytest.mark.spec("TL-16", "TL-17")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("add", {}, "$.a: missing"),
        ("add", {"a": "1"}, "$.a"),
        ("add", {"a": True}, "$.a"),
        ("add", {"a": -1}, "$.a"),
        ("add", {"a": 1, "c": 2}, "$.c: unknown argument"),
        ("shift", {"point": {"x": 1, "y": "2"}}, "$.point.y"),
        ("shift", {"point": {"x": 1, "y": 2}, "by": 3}, "$.by"),
    ],
)
async def test_bad_arguments_are_told_to_whom_they_concern(
    version: str, name: str, arguments: dict[str, Any], text: str
) -> None:
    """A protocol error, and since 2025-11-25 a result that the model sees."""
    async with hosting(adder(), version) as host:
        params = {"name": name, "arguments": arguments}
        if version in ERRORS_ARE_RESULTS:
            result = await host.result("tools/call", params)
            assert result["isError"] is True
            reason = result["content"][0]["text"]
        else:
            error = await host.error("tools/call", params)
            assert error["code"] == ErrorCode.INVALID_PARAMS
            reason = error["message"]
        assert reason.startswith(f"invalid arguments for {name}: ")
        assert text in reason


@pytest.mark.spec("TL-17")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    "params",
    [None, {}, {"arguments": {}}, {"name": 5}, {"name": "add", "arguments": [1]}, {"name": None}],
)
async def test_a_malformed_call_is_a_protocol_error_in_every_version(
    version: str, params: Any
) -> None:
    async with hosting(adder(), version) as host:
        assert (await host.error("tools/call", params))["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.parametrize("params", [{"name": "t"}, {"name": "t", "arguments": None}])
async def test_a_host_may_leave_out_arguments_that_nobody_needs(params: dict[str, Any]) -> None:
    server = Server("s")
    server.tool(name="t")(lambda: "done")

    async with hosting(server) as host:
        assert (await host.result("tools/call", params))["content"][0]["text"] == "done"


async def test_a_host_may_leave_out_params_altogether() -> None:
    async with hosting(adder()) as host:
        assert len((await host.result("tools/list"))["tools"]) == 2
        assert len((await host.result("tools/list", {}))["tools"]) == 2


async def test_calls_run_side_by_side_and_are_answered_as_they_end() -> None:
    server = Server("s")
    gate = trio.Event()

    @server.tool
    async def slow() -> str:
        await gate.wait()
        return "slow"

    @server.tool
    async def fast() -> str:
        gate.set()
        return "fast"

    async with hosting(server) as host:
        first = await host.start("tools/call", {"name": "slow"}, id_="1")
        second = await host.start("tools/call", {"name": "fast"}, id_=1)

        assert (await host.reply(second))["result"]["content"][0]["text"] == "fast"
        assert (await host.reply(first))["result"]["content"][0]["text"] == "slow"


# ---------------------------------------------------------------- sync tools


async def test_a_sync_tool_runs_in_a_thread_beside_the_others() -> None:
    server = Server("s")
    gate = threading.Event()

    @server.tool
    def wait() -> str:
        assert gate.wait(5)
        return threading.current_thread().name

    @server.tool
    async def release() -> str:
        gate.set()
        return threading.current_thread().name

    async with hosting(server) as host:
        id_ = await host.start("tools/call", {"name": "wait"})
        ours = await host.text("release")

        theirs = (await host.reply(id_))["result"]["content"][0]["text"]
        assert theirs != ours


async def test_a_sync_tool_can_use_its_context() -> None:
    server = Server("s")

    @server.tool
    def work(ctx: Context, n: int) -> int:
        trio.from_thread.run(ctx.log, "warning", "half way")
        return n + 1

    async with hosting(server) as host:
        assert await host.text("work", n=1) == "2"
        assert host.noticed("notifications/message") == [{"level": "warning", "data": "half way"}]


@pytest.mark.spec("C-5")
async def test_a_sync_tool_is_abandoned_when_its_call_is_cancelled() -> None:
    """The request ends at once; the slot of the thread is free when the thread has ended."""
    server = Server("s", limits=Limits(threads_per_session=1))
    gate, began = threading.Event(), threading.Event()

    @server.tool
    def wait() -> str:
        began.set()
        assert gate.wait(5)
        return "waited"

    async with hosting(server) as host:
        id_ = await host.start("tools/call", {"name": "wait"})
        await trio.to_thread.run_sync(began.wait)
        await host.tell("notifications/cancelled", {"requestId": id_})
        assert await host.result("ping") == {}
        await trio.testing.wait_all_tasks_blocked()
        assert host.session.calls() == ()

        second = await host.start("tools/call", {"name": "wait"})
        gate.set()
        assert (await host.reply(second))["result"]["content"][0]["text"] == "waited"
        assert id_ not in host._replies


async def test_what_a_sync_tool_raises_is_its_result() -> None:
    server = Server("s")

    @server.tool
    def fail() -> str:
        raise ValueError("in the thread")

    @server.tool
    def leave() -> str:
        raise SystemExit("bye")

    async with hosting(server) as host:
        for name, text in [("fail", "ValueError: in the thread"), ("leave", "SystemExit: bye")]:
            result = await host.tool(name)
            assert result["isError"] is True
            assert result["content"][0]["text"] == f"{name} failed: {text}"


@pytest.mark.spec("C-5")
async def test_a_cancelled_async_tool_unwinds_and_says_nothing() -> None:
    server = Server("s")
    events: list[str] = []

    @server.tool
    async def wait() -> str:
        try:
            await trio.sleep_forever()
        finally:
            events.append("unwound")

    async with hosting(server) as host:
        id_ = await host.start("tools/call", {"name": "wait"})
        await host.result("ping")
        await trio.testing.wait_all_tasks_blocked()
        await host.tell("notifications/cancelled", {"requestId": id_})
        await host.result("ping")
        await trio.testing.wait_all_tasks_blocked()

        assert events == ["unwound"]
        assert id_ not in host._replies
