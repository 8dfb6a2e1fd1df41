"""Asking the client's model, and for its roots."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio.testing

from mcp_trio import (
    CapabilityMissing,
    Context,
    Elicit,
    InvalidMessage,
    InvalidResult,
    PeerError,
    Sample,
    Server,
)
from mcp_trio.types import (
    AudioContent,
    ImageContent,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    TextContent,
    Tool,
    ToolChoice,
    ToolResultContent,
    ToolUseContent,
)
from tests.server.host import EVERY, EVERYTHING, NEWEST, OLDEST, Error, Host, hosting
from tests.server.test_elicitation import Asked

SAMPLE, ROOTS = "sampling/createMessage", "roots/list"
ANSWER = {
    "role": "assistant",
    "content": {"type": "text", "text": "4"},
    "model": "m1",
    "stopReason": "endTurn",
}


async def sampled(
    question: Any, version: str = NEWEST, capabilities: Any = EVERYTHING, answer: Any = ANSWER
) -> tuple[Asked, list[Any]]:
    """Return what came of a question, and the params that arrived."""
    asked = Asked(question)
    async with hosting(asked.server, version, capabilities) as host:
        host.answers[SAMPLE] = answer
        await host.tool("ask")
        return asked, [request["params"] for request in host.asked]


def text(role: Any, words: str) -> SamplingMessage:
    return SamplingMessage(role=role, content=TextContent(text=words))


# ---------------------------------------------------------------- sampling


@pytest.mark.spec("SA-6")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("messages", ["2+2?", text("user", "2+2?"), [text("user", "2+2?")]])
async def test_a_question_is_text_a_message_or_several(version: str, messages: Any) -> None:
    asked, (params,) = await sampled(lambda ctx: ctx.sample(messages, 10), version)

    assert params == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
        "maxTokens": 10,
    }
    assert asked.outcome.content == TextContent(text="4")
    assert (asked.outcome.model, asked.outcome.stop_reason) == ("m1", "endTurn")


@pytest.mark.parametrize("version", EVERY)
async def test_every_option_is_sent_as_the_version_has_it(version: str) -> None:
    tool = Tool(name="t", title="T", input_schema={"type": "object"})

    def question(ctx: Context) -> Any:
        return ctx.sample(
            "2+2?",
            10,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["."],
            model_preferences=ModelPreferences(hints=(ModelHint(name="m"),), cost_priority=1.0),
            include_context="thisServer",
            metadata={"k": 1},
            tools=[tool] if rich else None,
            tool_choice=ToolChoice(mode="auto") if rich else None,
        )

    rich = version >= "2025-11-25"
    _, (params,) = await sampled(question, version)

    expected: dict[str, Any] = {
        "systemPrompt": "Be brief.",
        "temperature": 0.5,
        "stopSequences": ["."],
        "modelPreferences": {"hints": [{"name": "m"}], "costPriority": 1.0},
        "includeContext": "thisServer",
        "metadata": {"k": 1},
    }
    if rich:
        expected["tools"] = [{"name": "t", "title": "T", "inputSchema": {"type": "object"}}]
        expected["toolChoice"] = {"mode": "auto"}
    assert {k: v for k, v in params.items() if k not in ("messages", "maxTokens")} == expected


@pytest.mark.spec("SA-3", "SA-5", "LC-10")
@pytest.mark.parametrize(
    ("version", "declared", "options", "missing"),
    [
        (NEWEST, {}, {}, "sampling"),
        (OLDEST, {"roots": {}}, {}, "sampling"),
        (NEWEST, {"sampling": {}}, {"tools": []}, "sampling.tools"),
        (NEWEST, {"sampling": {}}, {"tool_choice": ToolChoice()}, "sampling.tools"),
        (NEWEST, {"sampling": {}}, {"include_context": "allServers"}, "sampling.context"),
    ],
)
async def test_what_the_client_did_not_declare_is_not_asked(
    version: str, declared: Any, options: Any, missing: str
) -> None:
    asked, params = await sampled(lambda ctx: ctx.sample("?", 1, **options), version, declared)

    assert params == []
    assert isinstance(asked.error, CapabilityMissing)
    assert asked.error.capability == missing


@pytest.mark.parametrize("context", ["none", "thisServer"])
async def test_context_needs_no_capability_where_the_version_has_none(context: Any) -> None:
    _, params = await sampled(
        lambda ctx: ctx.sample("?", 1, include_context=context), "2025-06-18", {"sampling": {}}
    )

    assert params[0]["includeContext"] == context


def use(*ids: str, role: Any = "assistant") -> SamplingMessage:
    uses = tuple(ToolUseContent(id=id_, name="t", input={}) for id_ in ids)
    return SamplingMessage(role=role, content=uses)


def results(*ids: str, role: Any = "user", more: Any = ()) -> SamplingMessage:
    blocks = tuple(ToolResultContent(tool_use_id=id_, content=()) for id_ in ids)
    return SamplingMessage(role=role, content=(*blocks, *more))


HELLO = text("user", "hello")


@pytest.mark.spec("SA-7", "SA-8", "SA-15")
@pytest.mark.parametrize(
    "messages",
    [
        [HELLO, use("a"), results("a")],
        [HELLO, use("a", "b"), results("b", "a"), use("c"), results("c"), text("user", "so?")],
    ],
)
async def test_tool_uses_and_their_results_can_be_sent(messages: Any) -> None:
    _, params = await sampled(lambda ctx: ctx.sample(messages, 10))

    assert [message["role"] for message in params[0]["messages"]] == [m.role for m in messages]


@pytest.mark.spec("SA-7", "SA-8", "SA-15")
@pytest.mark.parametrize(
    ("messages", "where"),
    [
        ([HELLO, use("a")], "$.messages: no result follows the tool use a"),
        ([HELLO, use("a"), HELLO], "$.messages[2].content"),
        ([HELLO, results("a")], "$.messages[1].content"),
        ([HELLO, use("a"), results("b")], "$.messages[2].content"),
        ([HELLO, use("a", "b"), results("a")], "$.messages[2].content"),
        ([HELLO, use("a"), results("a", "b")], "$.messages[2].content"),
        ([HELLO, use("a"), results("a", "a")], "$.messages[2].content"),
        ([HELLO, use("a"), results("a", more=[TextContent(text="t")])], "stand alone"),
        ([HELLO, use("a", role="user"), results("a")], "$.messages[1].content"),
        ([HELLO, use("a"), results("a", role="assistant")], "$.messages[2].content"),
    ],
)
async def test_tool_uses_and_results_that_do_not_match_are_not_sent(
    messages: Any, where: str
) -> None:
    asked, params = await sampled(lambda ctx: ctx.sample(messages, 10))

    assert params == []
    assert isinstance(asked.error, InvalidMessage)
    assert where in str(asked.error)


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (AudioContent(data="AA==", mime_type="audio/wav"), OLDEST),
        (ToolUseContent(id="a", name="t", input={}), "2025-06-18"),
        ((TextContent(text="a"), TextContent(text="b")), "2025-06-18"),
    ],
)
async def test_content_that_the_version_does_not_know_is_not_sent(
    content: Any, version: str
) -> None:
    messages = [SamplingMessage(role="assistant", content=content)]
    if isinstance(content, ToolUseContent):
        messages.append(results("a"))
    asked, params = await sampled(lambda ctx: ctx.sample(messages, 10), version)

    assert params == []
    assert isinstance(asked.error, InvalidMessage)


async def test_the_model_may_use_several_tools_or_draw() -> None:
    content = [{"type": "tool_use", "id": "a", "name": "t", "input": {"x": 1}}]
    asked, _ = await sampled(
        lambda ctx: ctx.sample("?", 1, tools=[]), answer={**ANSWER, "content": content}
    )
    assert asked.outcome.content == (ToolUseContent(id="a", name="t", input={"x": 1}),)

    picture = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    asked, _ = await sampled(
        lambda ctx: ctx.sample("?", 1), OLDEST, answer={**ANSWER, "content": picture}
    )
    assert asked.outcome.content == ImageContent(data="AA==", mime_type="image/png")


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({}, InvalidResult),
        ({**ANSWER, "role": "system"}, InvalidResult),
        ({**ANSWER, "content": {"type": "film"}}, InvalidResult),
        (Error(-1, "the user said no"), PeerError),
    ],
)
async def test_an_answer_that_is_none_is_an_error(answer: Any, error: type[Exception]) -> None:
    asked, _ = await sampled(lambda ctx: ctx.sample("?", 1), answer=answer)

    assert type(asked.error) is error


async def test_the_model_and_the_user_can_be_asked_at_once() -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}}}
    asked = Asked(
        lambda ctx: ctx.ask(
            {"model": Sample("2+2?", 10, {"temperature": 0.0}), "user": Elicit(form, "2+2?")}
        )
    )
    async with hosting(asked.server, NEWEST, EVERYTHING) as host:
        host.answers = {
            SAMPLE: ANSWER,
            "elicitation/create": {"action": "accept", "content": {"n": 4}},
        }
        await host.tool("ask")

    assert asked.outcome["model"].content.text == "4"
    assert asked.outcome["user"].content == {"n": 4}


# ---------------------------------------------------------------- roots


def rooted(**options: Any) -> Server:
    server = Server("s", **options)

    @server.tool
    async def roots(ctx: Context) -> list[str]:
        return [root.uri for root in await ctx.list_roots()]

    @server.tool
    async def known(ctx: Context) -> list[str] | None:
        return None if ctx.roots is None else [root.uri for root in ctx.roots]

    return server


class Folders:
    """The roots of a host, which it counts the questions for."""

    def __init__(self, host: Host, *uris: str) -> None:
        self.uris = uris
        self.questions = 0
        host.answers[ROOTS] = self.answer

    def answer(self, _: Any) -> Any:
        self.questions += 1
        return {"roots": [{"uri": uri} for uri in self.uris]}


async def said(host: Host, name: str) -> Any:
    return json.loads(await host.text(name))


@pytest.mark.spec("RO-7")
@pytest.mark.parametrize("version", EVERY)
async def test_roots_are_fetched_once_and_again_when_they_change(version: str) -> None:
    async with hosting(rooted(), version, {"roots": {"listChanged": True}}) as host:
        folders = Folders(host, "file:///a")
        assert await said(host, "known") is None
        for _ in range(3):
            assert await said(host, "roots") == ["file:///a"]
        assert folders.questions == 1

        folders.uris = ("file:///b", "file:///c")
        await host.tell("notifications/roots/list_changed")
        assert await said(host, "roots") == ["file:///b", "file:///c"]
        await trio.testing.wait_all_tasks_blocked()
        assert await said(host, "known") == ["file:///b", "file:///c"]


async def test_roots_of_which_no_change_is_told_are_fetched_each_time() -> None:
    async with hosting(rooted(), capabilities={"roots": {}}) as host:
        folders = Folders(host, "file:///a")
        assert await said(host, "roots") == ["file:///a"]
        folders.uris = ("file:///b",)

        assert await said(host, "roots") == ["file:///b"]
        assert await said(host, "known") == ["file:///b"]


async def test_a_change_while_roots_are_being_fetched_is_not_missed() -> None:
    """The answer that was already under way is not the last word."""
    async with hosting(rooted(), capabilities={"roots": {"listChanged": True}}) as host:
        id_ = await host.start("tools/call", {"name": "roots"})
        first = await host.next_asked()
        await host.tell("notifications/roots/list_changed")
        second = await host.next_asked()
        await host.answer(second, {"roots": [{"uri": "file:///new"}]})
        await host.result("ping")
        await host.answer(first, {"roots": [{"uri": "file:///old"}]})
        await host.reply(id_)

        assert await said(host, "known") == ["file:///new"]
        assert await said(host, "roots") == ["file:///new"]


async def test_a_client_without_roots_is_not_asked_for_them() -> None:
    """Neither by a handler nor ahead of time, whatever it tells."""
    async with hosting(rooted(prefetch_roots=True)) as host:
        await host.tell("notifications/roots/list_changed")
        result = await host.tool("roots")

        assert "'roots'" in result["content"][0]["text"]
        assert result["isError"] is True
        assert host.asked == []


async def test_roots_can_be_fetched_ahead_of_time() -> None:
    server = rooted(prefetch_roots=True)
    async with hosting(server, capabilities={"roots": {"listChanged": True}}) as host:
        request = await host.next_asked()
        assert request["method"] == ROOTS
        await host.answer(request, {"roots": [{"uri": "file:///a"}]})
        assert await host.result("ping") == {}
        await trio.testing.wait_all_tasks_blocked()

        assert await said(host, "known") == ["file:///a"]
        assert await said(host, "roots") == ["file:///a"]


@pytest.mark.parametrize("answer", [{}, {"roots": [{"uri": 5}]}, Error(-32603, "broken")])
async def test_roots_that_cannot_be_fetched_hurt_only_who_wants_them(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with hosting(rooted(), capabilities={"roots": {"listChanged": True}}) as host:
        folders = Folders(host, "file:///a")
        await said(host, "roots")
        host.answers[ROOTS] = answer
        await host.tell("notifications/roots/list_changed")
        assert (await host.tool("roots"))["isError"] is True
        await trio.testing.wait_all_tasks_blocked()
        assert "roots could not be fetched" in caplog.text

        host.answers[ROOTS] = folders.answer
        assert await said(host, "roots") == ["file:///a"]
