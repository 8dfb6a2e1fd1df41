"""Prompts, and the completion of their arguments and of template variables."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from mcp_trio import Context, ErrorCode, Server
from mcp_trio.types import (
    AudioContent,
    Completion,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    PromptMessage,
    TextContent,
    TextResourceContents,
)
from tests.server.host import EVERY, NEWEST, OLDEST, hosting


class Tone(enum.Enum):
    WARM = "warm"
    COLD = "cold"


def with_prompts() -> Server:
    server = Server("s")

    @server.prompt
    async def plan(
        ctx: Context,
        city: Annotated[str, "Where to"],
        days: int,
        tone: Tone = Tone.WARM,
        *,
        cheap: bool = False,
    ) -> str:
        """Plan a journey."""
        return f"{city!r} {days!r} {tone.name} {cheap!r} {ctx.method}"

    return server


async def got(server: Server, version: str = NEWEST, **arguments: str) -> dict[str, Any]:
    """Return the result of the server's only prompt."""
    async with hosting(server, version) as host:
        (name,) = server.prompts
        return await host.result("prompts/get", {"name": name, "arguments": arguments})


def giving(value: Any) -> Server:
    server = Server("s")

    @server.prompt(description="Says it.")
    async def say() -> Any:
        return value

    return server


# ---------------------------------------------------------------- listing


@pytest.mark.parametrize("version", EVERY)
async def test_a_prompt_is_described_by_its_signature(version: str) -> None:
    async with hosting(with_prompts(), version) as host:
        (prompt,) = (await host.result("prompts/list"))["prompts"]

    assert prompt == {
        "name": "plan",
        "description": "Plan a journey.",
        "arguments": [
            {"name": "city", "description": "Where to", "required": True},
            {"name": "days", "required": True},
            {"name": "tone", "required": False},
            {"name": "cheap", "required": False},
        ],
    }


@pytest.mark.parametrize("version", EVERY)
async def test_each_version_shows_the_members_that_it_knows(version: str) -> None:
    server = Server("s")
    server.prompt(
        name="p", title="P", description="It.", icons=[Icon(src="data:,")], meta={"k": 1}
    )(lambda: "")
    async with hosting(server, version) as host:
        (prompt,) = (await host.result("prompts/list"))["prompts"]

    expected: dict[str, Any] = {"name": "p", "description": "It."}
    if version >= "2025-06-18":
        expected |= {"title": "P", "_meta": {"k": 1}}
    if version >= "2025-11-25":
        expected["icons"] = [{"src": "data:,"}]
    assert prompt == expected


# ---------------------------------------------------------------- getting


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"city": "7", "days": "3"}, "'7' 3 WARM False prompts/get"),
        (
            {"city": "Oslo", "days": "-1", "tone": "cold", "cheap": "true"},
            "'Oslo' -1 COLD True prompts/get",
        ),
    ],
)
async def test_arguments_arrive_as_what_their_text_spells(
    arguments: dict[str, str], text: str
) -> None:
    """They are always text on the wire."""
    result = await got(with_prompts(), **arguments)

    assert result == {
        "description": "Plan a journey.",
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
    }


@pytest.mark.spec("PP-3", "PP-4")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"name": "nobody"}, "unknown prompt: nobody"),
        ({"name": "plan"}, "$.city: missing"),
        ({"name": "plan", "arguments": {"city": "Oslo"}}, "$.days: missing"),
        ({"name": "plan", "arguments": {"city": "Oslo", "days": "three"}}, "$.days"),
        ({"name": "plan", "arguments": {"city": "Oslo", "days": 3}}, "$.arguments.days"),
        ({"name": "plan", "arguments": {"city": "a", "days": "1", "x": ""}}, "$.x: unknown"),
        ({"name": "plan", "arguments": {"city": "a", "days": "1", "tone": "hot"}}, "$.tone"),
        (None, "$.name"),
    ],
)
async def test_a_bad_request_for_a_prompt_is_a_protocol_error(
    version: str, params: Any, text: str
) -> None:
    async with hosting(with_prompts(), version) as host:
        error = await host.error("prompts/get", params)

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert text in error["message"]


@pytest.mark.spec("PP-3")
async def test_a_prompt_that_fails_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.prompt
    async def fail() -> str:
        raise ValueError("swordfish")

    async with hosting(server) as host:
        error = await host.error("prompts/get", {"name": "fail"})

    assert error["code"] == ErrorCode.INTERNAL_ERROR
    assert "swordfish" not in str(error)
    assert "swordfish" in caplog.text


async def test_content_that_the_version_does_not_know_is_the_servers_fault() -> None:
    async with hosting(giving(AudioContent(data="AA==", mime_type="audio/wav")), OLDEST) as host:
        error = await host.error("prompts/get", {"name": "say"})

    assert error["code"] == ErrorCode.INTERNAL_ERROR


TEXT = {"type": "text", "text": "hi"}


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("hi", [{"role": "user", "content": TEXT}]),
        (TextContent(text="hi"), [{"role": "user", "content": TEXT}]),
        (
            ["hi", PromptMessage(role="assistant", content=TextContent(text="hi"))],
            [{"role": "user", "content": TEXT}, {"role": "assistant", "content": TEXT}],
        ),
        (
            (
                ImageContent(data="AA==", mime_type="image/png"),
                EmbeddedResource(
                    resource=TextResourceContents(uri="a:b", text="t", mime_type="text/plain")
                ),
            ),
            [
                {
                    "role": "user",
                    "content": {"type": "image", "data": "AA==", "mimeType": "image/png"},
                },
                {
                    "role": "user",
                    "content": {
                        "type": "resource",
                        "resource": {"uri": "a:b", "text": "t", "mimeType": "text/plain"},
                    },
                },
            ],
        ),
    ],
)
async def test_a_prompt_returns_text_content_or_messages(
    version: str, value: Any, messages: list[Any]
) -> None:
    assert await got(giving(value), version) == {"description": "Says it.", "messages": messages}


async def test_a_prompt_may_return_the_whole_result() -> None:
    message = PromptMessage(role="user", content=TextContent(text="hi"))
    whole = GetPromptResult(messages=(message,), description="Own.", meta={"k": 1})

    assert await got(giving(whole)) == {
        "description": "Own.",
        "messages": [{"role": "user", "content": TEXT}],
        "_meta": {"k": 1},
    }


async def test_a_sync_prompt_runs_in_a_thread() -> None:
    server = Server("s")

    @server.prompt
    def sync(n: Annotated[int, msgspec.Meta(ge=1)]) -> str:
        return "x" * n

    result = await got(server, n="3")

    assert result["messages"][0]["content"]["text"] == "xxx"


def test_a_prompt_can_be_withdrawn() -> None:
    server = with_prompts()
    with pytest.raises(ValueError, match="a prompt named 'plan' already"):
        server.prompt(name="plan")(lambda: "")

    server.remove_prompt("plan")
    assert server.prompts == {}
    with pytest.raises(KeyError):
        server.remove_prompt("plan")


# ---------------------------------------------------------------- completion


def completing(candidates: Any) -> Server:
    """Return a server that completes ``city`` of ``plan`` and ``name`` of a template."""
    server = with_prompts()
    server.resource("memo://{name}", name="memo")(lambda name: name)
    server.resource("memo://fixed", name="fixed")(lambda: "")
    server.completion("plan", "city")(candidates)
    server.completion("memo://{name}", "name")(candidates)
    return server


def question(
    ref: Literal["prompt", "resource"], called: str, argument: str = "city", value: str = "o"
) -> dict[str, Any]:
    key = "name" if ref == "prompt" else "uri"
    return {
        "ref": {"type": f"ref/{ref}", key: called},
        "argument": {"name": argument, "value": value},
    }


async def cities(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
    return [f"{value}slo", f"{value}tta", *(f"{k}={v}" for k, v in settled.items())]


def cities_in_a_thread(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
    return [f"{value}slo", f"{value}tta"]


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("completer", [cities, cities_in_a_thread])
@pytest.mark.parametrize(
    "params", [question("prompt", "plan"), question("resource", "memo://{name}", "name")]
)
async def test_an_argument_or_a_variable_is_completed(
    version: str, completer: Any, params: dict[str, Any]
) -> None:
    async with hosting(completing(completer), version) as host:
        assert (await host.result("completion/complete", params))["completion"] == {
            "values": ["oslo", "otta"],
            "total": 2,
            "hasMore": False,
        }


@pytest.mark.spec("CO-6")
@pytest.mark.parametrize("version", EVERY)
async def test_a_completer_is_told_what_is_settled(version: str) -> None:
    """Since 2025-06-18; before that nobody says."""
    params = {**question("prompt", "plan"), "context": {"arguments": {"days": "3"}}}
    async with hosting(completing(cities), version) as host:
        completion = (await host.result("completion/complete", params))["completion"]

    assert ("days=3" in completion["values"]) == (version >= "2025-06-18")


@pytest.mark.spec("CO-2")
@pytest.mark.parametrize("whole", [False, True])
async def test_at_most_100_values_are_sent(*, whole: bool) -> None:
    many = tuple(str(n) for n in range(500))

    async def numbers(ctx: Context, value: str, settled: dict[str, str]) -> Any:
        return Completion(values=many, total=1000) if whole else iter(many)

    async with hosting(completing(numbers)) as host:
        result = await host.result("completion/complete", question("prompt", "plan"))

    assert result["completion"] == {
        "values": list(many[:100]),
        "total": 1000 if whole else 500,
        "hasMore": True,
    }


@pytest.mark.parametrize(
    "params",
    [
        question("prompt", "plan", "days"),
        question("resource", "memo://fixed", "x"),
        question("prompt", "plan", "nothing"),
    ],
)
async def test_what_nobody_completes_has_no_candidates(params: dict[str, Any]) -> None:
    async with hosting(completing(cities)) as host:
        assert (await host.result("completion/complete", params))["completion"] == {
            "values": [],
            "total": 0,
            "hasMore": False,
        }


@pytest.mark.spec("CO-3")
@pytest.mark.parametrize(
    "params",
    [
        None,
        {"ref": {"type": "ref/prompt", "name": "plan"}},
        {**question("prompt", "plan"), "ref": {"type": "ref/tool", "name": "plan"}},
        question("prompt", "nobody"),
        question("prompt", "memo://fixed", "name"),
        question("resource", "memo://other"),
        question("resource", "plan", "days"),
    ],
)
async def test_a_question_about_nothing_is_a_bad_request(params: Any) -> None:
    async with hosting(completing(cities)) as host:
        error = await host.error("completion/complete", params)

        assert error["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.spec("CO-3")
async def test_without_completers_there_is_no_such_method_but_in_the_oldest_version() -> None:
    """That one has no capability for it."""
    params = question("prompt", "plan")
    async with hosting(with_prompts()) as host:
        error = await host.error("completion/complete", params)
        assert error["code"] == ErrorCode.METHOD_NOT_FOUND
    async with hosting(with_prompts(), OLDEST) as host:
        result = await host.result("completion/complete", params)
        assert result["completion"]["values"] == []


@pytest.mark.spec("CO-3")
async def test_a_completer_that_fails_is_an_internal_error() -> None:
    def fail(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
        raise ValueError(value)

    async with hosting(completing(fail)) as host:
        error = await host.error("completion/complete", question("prompt", "plan"))

        assert error["code"] == ErrorCode.INTERNAL_ERROR


def test_an_argument_is_completed_by_one_function() -> None:
    server = completing(cities)

    with pytest.raises(ValueError, match="'city' of 'plan' is completed already"):
        server.completion("plan", "city")(cities)
