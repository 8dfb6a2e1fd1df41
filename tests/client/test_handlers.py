"""What a client serves: reverse requests, their origin, middleware, roots and sampling."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcp_trio.client import Client, ClientContext
from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.types import CreateMessageResult, ImageContent, Root, TextContent
from mcp_trio.wire.jsonrpc import Failure, Result
from tests.client.scripted import NEWEST, OLDEST, Outcome, scripted

QUESTION: dict[str, Any] = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
    "maxTokens": 100,
}


def client(**options: Any) -> Client:
    return Client("c", version="1", **options)


async def asked(
    served: Client, method: str, params: dict[str, Any] | None, version: str = NEWEST
) -> Result | Failure:
    """Return the client's answer to one reverse request."""
    async with scripted(served, version=version) as (_, script):
        script.ask("r", method, params)
        return await script.answer_to("r")


# ---------------------------------------------------------------- requests in general


async def test_a_raw_handler_gets_and_returns_plain_objects() -> None:
    """Of any method."""
    served = client()

    @served.method("x/double")
    async def double(ctx: ClientContext, params: dict[str, Any]) -> dict[str, Any]:
        assert ctx.method == "x/double"
        assert ctx.request_id == "r"
        return {"n": params["n"] * 2}

    assert await asked(served, "x/double", {"n": 2}) == Result("r", {"n": 4})


@pytest.mark.parametrize("method", ["x/unknown", "roots/list", "sampling/createMessage"])
async def test_what_has_no_handler_is_not_found(method: str) -> None:
    """-32601, whether the specification knows the method or not."""
    answer = await asked(client(), method, {})

    assert isinstance(answer, Failure)
    assert answer.code == ErrorCode.METHOD_NOT_FOUND


async def test_a_method_of_a_later_revision_is_not_found() -> None:
    """Elicitation does not exist at the oldest revision."""
    served = client()

    @served.elicitation
    async def never(ctx: object, question: object) -> dict[str, Any]:
        raise AssertionError

    answer = await asked(served, "elicitation/create", {"message": "?"}, OLDEST)

    assert isinstance(answer, Failure)
    assert answer.code == ErrorCode.METHOD_NOT_FOUND


async def test_params_that_do_not_fit_are_refused_with_their_path() -> None:
    """-32602, before the handler is asked."""
    served = client()

    @served.sampling
    async def never(ctx: object, params: object) -> str:
        raise AssertionError

    answer = await asked(served, "sampling/createMessage", {"messages": []})

    assert isinstance(answer, Failure)
    assert answer.code == ErrorCode.INVALID_PARAMS
    assert "$.maxTokens" in answer.message


async def test_a_handler_that_fails_answers_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without its text; that goes to the log. A refusal goes out as it is."""
    served = client()

    @served.method("x/fail")
    async def fail(ctx: object, params: object) -> dict[str, Any]:
        raise ZeroDivisionError("secret")

    @served.method("x/refuse")
    async def refuse(ctx: object, params: object) -> dict[str, Any]:
        raise Refusal(-1, "no", {"why": "because"})

    failed = await asked(served, "x/fail", None)
    refused = await asked(served, "x/refuse", None)

    assert isinstance(failed, Failure)
    assert failed.code == ErrorCode.INTERNAL_ERROR
    assert "secret" not in failed.message
    assert "ZeroDivisionError: secret" in caplog.text
    assert refused == Failure("r", -1, "no", {"why": "because"})


async def test_a_fault_inside_a_handler_is_not_blamed_on_the_servers_params() -> None:
    """A message the handler itself makes badly is an internal error, not -32602."""
    served = client()

    @served.method("x/nest")
    async def nest(ctx: ClientContext, params: object) -> dict[str, Any]:
        await ctx.session.call_tool("x", {"n": float("inf")})
        return {}

    @served.method("x/list")
    async def listing(ctx: ClientContext, params: object) -> Any:
        return []

    for method in ("x/nest", "x/list"):
        answer = await asked(served, method, None)

        assert isinstance(answer, Failure)
        assert answer.code == ErrorCode.INTERNAL_ERROR


async def test_five_reverse_calls_run_at_once(autojump_clock: trio.testing.MockClock) -> None:
    """The reader never waits for a handler; answers come as they are ready."""
    served = client()
    running = peak = 0

    @served.sampling
    async def think(ctx: object, params: object) -> str:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await trio.sleep(0.2)
        running -= 1
        return "four"

    async with scripted(served) as (_, script):
        for n in range(5):
            script.ask(n, "sampling/createMessage", QUESTION)
        answers = [await script.next() for _ in range(5)]

    assert {answer.id for answer in answers} == set(range(5))
    assert peak == 5
    assert trio.current_time() < 0.4


async def test_the_servers_cancel_ends_the_handler_without_an_answer() -> None:
    """Its scope is cancelled and nothing is sent for its id."""
    served = client()
    ended = trio.Event()

    @served.method("x/hold")
    async def hold(ctx: object, params: object) -> dict[str, Any]:
        try:
            await trio.sleep_forever()
        finally:
            ended.set()
        return {}

    async with scripted(served) as (session, script):
        script.ask("r", "x/hold")
        await trio.testing.wait_all_tasks_blocked()
        script.tell("notifications/cancelled", {"requestId": "r"})
        await ended.wait()
        script.ask("p", "ping")

        assert await script.answer_to("p") == Result("p", {})
        assert session.statistics().cancelled_by_peer == 1


async def test_incoming_middleware_wraps_each_request() -> None:
    """The first one is outermost; it sees the raw request and the raw result."""
    order = []

    async def outer(ctx: Any, request: Any, call_next: Any) -> Any:
        order.append(request.method)
        return {**await call_next(ctx, request), "outer": True}

    async def inner(ctx: Any, request: Any, call_next: Any) -> Any:
        order.append("inner")
        return await call_next(ctx, request)

    served = client(middleware=[outer, inner])

    @served.method("x/y")
    async def handle(ctx: object, params: object) -> dict[str, Any]:
        return {}

    assert await asked(served, "x/y", None) == Result("r", {"outer": True})
    assert order == ["x/y", "inner"]


async def test_a_handler_reports_progress_to_the_server() -> None:
    """With the token of the request, increasing only."""
    served = client()

    @served.method("x/slow")
    async def slow(ctx: ClientContext, params: object) -> dict[str, Any]:
        await ctx.progress(1, total=2)
        await ctx.progress(1)
        await ctx.progress(2, message="done")
        return {}

    async with scripted(served) as (_, script):
        script.ask("r", "x/slow", {"_meta": {"progressToken": "t"}})
        first = await script.notification("notifications/progress")
        second = await script.notification("notifications/progress")
        await script.answer_to("r")

    assert first.params == {"progressToken": "t", "progress": 1, "total": 2}
    assert second.params == {"progressToken": "t", "progress": 2, "message": "done"}


# ---------------------------------------------------------------- origin


@pytest.mark.case("02")
async def test_cancellation_runs_through_two_levels(nursery: trio.Nursery) -> None:
    """Outer call cancelled, then the sampling it caused, then the tool call of its handler."""
    served = client()
    ended = trio.Event()

    @served.sampling
    async def think(ctx: ClientContext, params: object) -> str:
        try:
            result = await ctx.session.call_tool("inner")
            return str(result)
        finally:
            ended.set()

    async with scripted(served) as (session, script):
        outer = Outcome(nursery, lambda: session.call_tool("outer"))
        outer_request = await script.request("tools/call")
        script.ask("b1", "sampling/createMessage", QUESTION)
        inner_request = await script.request("tools/call")
        assert {(row.direction, row.id, row.origin) for row in session.calls()} == {
            ("out", outer_request.id, None),
            ("in", "b1", None),
            ("out", inner_request.id, "b1"),
        }
        outer.scope.cancel()
        told = await script.notification("notifications/cancelled")
        assert told.params is not None
        assert told.params["requestId"] == outer_request.id
        script.tell("notifications/cancelled", {"requestId": "b1"})
        told = await script.notification("notifications/cancelled")
        assert told.params is not None
        assert told.params["requestId"] == inner_request.id
        await ended.wait()
        await trio.testing.wait_all_tasks_blocked()

        assert session.calls() == ()


@pytest.mark.case("02")
async def test_a_nested_call_in_a_foreign_nursery_ends_with_its_request(
    nursery: trio.Nursery,
) -> None:
    """The back-pointer reaches where no scope does."""
    served = client()
    outcome: list[Outcome] = []

    @served.method("x/leak")
    async def leak(ctx: ClientContext, params: object) -> dict[str, Any]:
        outcome.append(Outcome(nursery, lambda: ctx.session.call_tool("inner")))
        await trio.testing.wait_all_tasks_blocked()
        return {}

    async with scripted(served) as (_, script):
        script.ask("r", "x/leak")
        inner = await script.request("tools/call")
        told = await script.notification("notifications/cancelled")
        await script.answer_to("r")

        assert told.params is not None
        assert told.params["requestId"] == inner.id
        await outcome[0]._ended.wait()
        assert type(outcome[0].error).__name__ == "OriginSettled"


# ---------------------------------------------------------------- roots


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
async def test_static_roots_are_listed(version: str) -> None:
    """As URIs or typed."""
    served = client(roots=["file:///a", Root(uri="file:///b", name="b")])

    answer = await asked(served, "roots/list", None, version)

    assert answer == Result(
        "r", {"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}
    )


async def test_a_roots_handler_is_asked_each_time() -> None:
    """Its URIs are checked as static ones are."""
    served = client()
    answers = [["file:///a"], ["https://b"]]

    @served.roots
    async def roots(ctx: ClientContext) -> list[str]:
        return answers.pop(0)

    good = await asked(served, "roots/list", {})
    bad = await asked(served, "roots/list", {})

    assert good == Result("r", {"roots": [{"uri": "file:///a"}]})
    assert isinstance(bad, Failure)
    assert bad.code == ErrorCode.INTERNAL_ERROR


async def test_set_roots_replaces_them_and_tells_the_server() -> None:
    """For this session."""
    async with scripted(client(roots=[])) as (session, script):
        await session.set_roots(["file:///new"])
        await script.notification("notifications/roots/list_changed")
        script.ask("r", "roots/list")

        assert await script.answer_to("r") == Result("r", {"roots": [{"uri": "file:///new"}]})


async def test_roots_that_were_not_declared_cannot_be_set() -> None:
    """The server would not expect them."""
    async with scripted(client()) as (session, _):
        with pytest.raises(RuntimeError, match="declared no roots"):
            await session.set_roots(["file:///new"])


def test_a_root_is_a_file_uri() -> None:
    """Anything else is refused at once."""
    with pytest.raises(ValueError, match="file://"):
        client(roots=["https://example.com"])


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
async def test_a_sampling_handler_may_return_bare_text(version: str) -> None:
    """It becomes the assistant's message of the model the client names."""
    served = client(model_name="m1")

    @served.sampling
    async def think(ctx: ClientContext, params: Any) -> str:
        assert params.messages[0].content == TextContent(text="2+2?")
        assert params.max_tokens == 100
        return "four"

    assert await asked(served, "sampling/createMessage", QUESTION, version) == Result(
        "r",
        {
            "role": "assistant",
            "content": {"type": "text", "text": "four"},
            "model": "m1",
            "stopReason": "endTurn",
        },
    )


async def test_a_sampling_handler_may_return_a_whole_result() -> None:
    """With any content of the revision."""
    served = client()

    @served.sampling
    async def draw(ctx: object, params: object) -> CreateMessageResult:
        picture = ImageContent(data="aGk=", mime_type="image/png")
        return CreateMessageResult(role="assistant", content=picture, model="m2")

    answer = await asked(served, "sampling/createMessage", QUESTION)

    assert isinstance(answer, Result)
    assert answer.result["content"] == {"type": "image", "data": "aGk=", "mimeType": "image/png"}


async def test_a_sampling_result_the_revision_cannot_hold_is_an_internal_error() -> None:
    """Several blocks of content came later; nothing else is a result at all."""
    served = client()
    text = TextContent(text="a")
    answers: list[Any] = [
        CreateMessageResult(role="assistant", content=(text, text), model="m"),
        5,
    ]

    @served.sampling
    async def think(ctx: object, params: object) -> Any:
        return answers.pop()

    for _ in range(2):
        answer = await asked(served, "sampling/createMessage", QUESTION, OLDEST)

        assert isinstance(answer, Failure)
        assert answer.code == ErrorCode.INTERNAL_ERROR


USE = {"type": "tool_use", "id": "u1", "name": "t", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": []}
WORDS = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    ("messages", "good"),
    [
        ([("user", WORDS), ("assistant", USE), ("user", RESULT)], True),
        ([("assistant", [USE, {**USE, "id": "u2"}]), ("user", [RESULT])], False),
        ([("assistant", USE), ("user", [RESULT, WORDS])], False),
        ([("assistant", USE), ("user", WORDS)], False),
        ([("user", RESULT)], False),
        ([("assistant", USE), ("user", {**RESULT, "toolUseId": "u9"})], False),
        ([("assistant", USE)], False),
    ],
)
async def test_tool_results_answer_the_tool_uses_before_them(
    messages: Any,
    good: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """One each, alone in their message, at once; otherwise -32602."""
    served = client(sampling_tools=True)

    @served.sampling
    async def think(ctx: object, params: object) -> str:
        return "ok"

    params = {
        "messages": [{"role": role, "content": content} for role, content in messages],
        "maxTokens": 1,
        "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
    }
    answer = await asked(served, "sampling/createMessage", params)

    assert isinstance(answer, Result) is good
    assert good or (isinstance(answer, Failure) and answer.code == ErrorCode.INVALID_PARAMS)


@pytest.mark.parametrize("extra", [{"tools": []}, {"toolChoice": {"mode": "none"}}])
async def test_tools_need_their_capability(extra: dict[str, Any]) -> None:
    """-32602 where sampling.tools was not declared; older revisions know no tools."""
    served = client()

    @served.sampling
    async def think(ctx: object, params: Any) -> str:
        assert params.tools is None
        return "ok"

    refused = await asked(served, "sampling/createMessage", {**QUESTION, **extra})
    ignored = await asked(served, "sampling/createMessage", {**QUESTION, **extra}, OLDEST)

    assert isinstance(refused, Failure)
    assert refused.code == ErrorCode.INVALID_PARAMS
    assert isinstance(ignored, Result)


# ---------------------------------------------------------------- registration


def test_each_method_has_one_handler() -> None:
    """A second one is refused, as is a raw one for what has a decorator."""
    served = client(roots=[])

    @served.sampling
    @served.log
    @served.notification("x/y")
    async def handle(*args: object) -> None: ...

    with pytest.raises(ValueError, match="already"):
        served.sampling(handle)
    with pytest.raises(ValueError, match="already"):
        served.log(handle)
    with pytest.raises(ValueError, match="already"):
        served.notification("x/y")(handle)
    with pytest.raises(ValueError, match="decorator of its own"):
        served.method("roots/list")
    with pytest.raises(ValueError, match="static roots"):
        served.roots(handle)
