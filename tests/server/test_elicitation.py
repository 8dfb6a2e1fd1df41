"""Asking the user: forms and pages, and every way in which there is no answer."""

from __future__ import annotations

import enum
from typing import Annotated, Any, Literal

import msgspec
import pytest
import trio
from attrs import field, frozen

from mcp_trio import (
    Accepted,
    CapabilityMissing,
    Context,
    Declined,
    Dismissed,
    Elicit,
    ErrorCode,
    InvalidMessage,
    InvalidResult,
    Refusal,
    Server,
)
from mcp_trio.server import url_elicitation_required
from mcp_trio.types import ElicitRequestURLParams
from tests.server.host import EVERY, EVERYTHING, NEWEST, Error, hosting

RICH, PLAIN = "2025-11-25", "2025-06-18"
FORMS = [PLAIN, RICH]
ELICIT = "elicitation/create"


@frozen
class Booking:
    name: Annotated[str, msgspec.Meta(title="Name", min_length=1, max_length=40)]
    nights: Annotated[int, msgspec.Meta(ge=1)] = 2
    vegan: bool = False


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@frozen
class Choice:
    one: Literal["a", "b"]
    colour: Colour = Colour.RED
    note: str | None = None


@frozen
class Many:
    some: list[Literal["a", "b", "c"]] = field(factory=list)


class Asked:
    """A server whose tool asks, and what came of it."""

    def __init__(self, question: Any) -> None:
        self.server = Server("s")
        self.outcome: Any = None
        self.error: Exception | None = None

        @self.server.tool
        async def ask(ctx: Context) -> str:
            try:
                self.outcome = await question(ctx)
            except Exception as exc:
                self.error = exc
                raise
            return "asked"

    async def run(
        self, answer: Any, version: str = NEWEST, capabilities: Any = EVERYTHING
    ) -> list[dict[str, Any]]:
        """Call the tool, answer its question, and return the params that arrived."""
        async with hosting(self.server, version, capabilities) as host:
            host.answers[ELICIT] = answer
            await host.tool("ask")
            assert all(request["method"] == ELICIT for request in host.asked)
            return [request["params"] for request in host.asked]


def form(kind: Any) -> Asked:
    return Asked(lambda ctx: ctx.elicit(kind, "Please"))


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


# ---------------------------------------------------------------- forms


@pytest.mark.spec("EL-6", "EL-8")
@pytest.mark.parametrize("version", FORMS)
async def test_a_class_is_a_form_and_its_answer_an_instance(version: str) -> None:
    """Defaults of all kinds, and the mode, are shown since 2025-11-25."""
    asked = form(Booking)
    (params,) = await asked.run(accept(name="Ann", nights=3), version)

    rich = version == RICH
    assert asked.outcome == Accepted(Booking("Ann", 3))
    assert params == {
        **({"mode": "form"} if rich else {}),
        "message": "Please",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 40},
                "nights": {"type": "integer", "minimum": 1, **({"default": 2} if rich else {})},
                "vegan": {"type": "boolean", "default": False},
            },
            "required": ["name"],
        },
    }


@pytest.mark.parametrize("version", FORMS)
async def test_choices_of_one_are_enums(version: str) -> None:
    asked = form(Choice)
    (params,) = await asked.run(accept(one="b", colour="blue"), version)

    assert asked.outcome == Accepted(Choice("b", Colour.BLUE))
    properties = params["requestedSchema"]["properties"]
    assert properties["one"]["enum"] == ["a", "b"]
    assert set(properties["colour"]["enum"]) == {"red", "blue"}
    assert properties["note"]["type"] == "string"


async def test_choices_of_several_are_arrays_where_the_version_has_them() -> None:
    asked = form(Many)
    (params,) = await asked.run(accept(some=["a", "c"]), RICH)
    assert asked.outcome == Accepted(Many(["a", "c"]))
    some = params["requestedSchema"]["properties"]["some"]
    assert some["type"] == "array"
    assert some["items"] == {"type": "string", "enum": ["a", "b", "c"]}

    asked = form(Many)
    assert await asked.run(accept(), PLAIN) == []
    assert isinstance(asked.error, InvalidMessage)


KINDS: dict[str, dict[str, Any]] = {
    "plain": {"type": "string", "enum": ["a", "b"]},
    "named": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]},
    "titled": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
    "several": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 2},
    "several titled": {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_schema_of_ones_own_can_have_every_kind_of_choice(kind: str) -> None:
    schema = {"type": "object", "properties": {"x": KINDS[kind]}, "required": ["x"]}
    answer = ["a"] if "several" in kind else "a"
    asked = form(schema)
    (params,) = await asked.run(accept(x=answer))

    assert asked.outcome == Accepted({"x": answer})
    assert params["requestedSchema"] == schema


@pytest.mark.spec("EL-8", "EL-18")
@pytest.mark.parametrize("version", FORMS)
@pytest.mark.parametrize(("action", "outcome"), [("decline", Declined()), ("cancel", Dismissed())])
async def test_a_user_may_decline_or_dismiss_the_question(
    version: str, action: str, outcome: Any
) -> None:
    asked = form(Booking)
    await asked.run({"action": action, "content": {"name": 5}}, version)

    assert asked.outcome == outcome


@pytest.mark.spec("EL-9", "EL-18")
@pytest.mark.parametrize("version", FORMS)
@pytest.mark.parametrize(
    ("kind", "answer", "text"),
    [
        (Booking, accept(), "$.name"),
        (Booking, {"action": "accept"}, "$.name"),
        (Booking, accept(name=""), "$.name"),
        (Booking, accept(name="Ann", nights="2"), "$.nights"),
        (Choice, accept(one="z"), "$.one"),
        ({"type": "object", "properties": {"n": {"type": "integer"}}}, accept(n="1"), "$.n"),
        (Booking, accept(name={"deep": 1}), "content.name"),
        (Booking, {"action": "perhaps"}, "$.action"),
        (Booking, {}, "$.action"),
    ],
)
async def test_an_answer_that_does_not_fit_is_an_invalid_result(
    version: str, kind: Any, answer: Any, text: str
) -> None:
    asked = form(kind)
    await asked.run(answer, version)

    assert isinstance(asked.error, InvalidResult)
    assert text in str(asked.error)


@pytest.mark.parametrize(
    "kind",
    [
        {"type": "string"},
        {"type": "object", "properties": {"x": {"type": "object"}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "string"}}}},
        Context,
    ],
)
async def test_a_form_that_is_not_flat_is_refused_before_anything_is_sent(kind: Any) -> None:
    asked = form(kind)

    assert await asked.run(accept()) == []
    assert isinstance(asked.error, TypeError)


@pytest.mark.spec("EL-2", "EL-3", "LC-10")
@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        (RICH, {}),
        (PLAIN, {"sampling": {}}),
        (RICH, {"elicitation": {"url": {}}}),
        ("2025-03-26", EVERYTHING),
        ("2024-11-05", EVERYTHING),
    ],
)
async def test_a_client_without_forms_is_not_asked(version: str, capabilities: Any) -> None:
    asked = form(Booking)

    assert await asked.run(accept(), version, capabilities) == []
    assert isinstance(asked.error, CapabilityMissing)
    assert asked.error.capability.startswith("elicitation")


@pytest.mark.spec("EL-2")
@pytest.mark.parametrize("declared", [{}, {"form": {}}, {"form": {}, "url": {}}])
async def test_an_empty_capability_means_forms(declared: Any) -> None:
    asked = form(Booking)
    await asked.run(accept(name="Ann"), RICH, {"elicitation": declared})

    assert asked.outcome == Accepted(Booking("Ann"))


async def test_an_error_of_the_client_is_raised() -> None:
    asked = form(Booking)
    await asked.run(Error(-32602, "unsupported"))

    assert "unsupported" in str(asked.error)


# ---------------------------------------------------------------- pages


def page(url: str = "https://example.org/pay?id=1", **options: Any) -> Asked:
    return Asked(lambda ctx: ctx.elicit_url(url, "Please pay", **options))


@pytest.mark.spec("EL-6", "EL-18")
@pytest.mark.parametrize(
    ("action", "outcome"),
    [("accept", Accepted(None)), ("decline", Declined()), ("cancel", Dismissed())],
)
async def test_a_user_can_be_sent_to_a_page(action: str, outcome: Any) -> None:
    asked = page(elicitation_id="e1")
    (params,) = await asked.run({"action": action})

    assert asked.outcome == outcome
    assert params == {
        "mode": "url",
        "message": "Please pay",
        "url": "https://example.org/pay?id=1",
        "elicitationId": "e1",
    }


async def test_each_page_has_an_id_of_its_own() -> None:
    async def twice(ctx: Context) -> None:
        for _ in range(2):
            await ctx.elicit_url("https://example.org", "Please")

    first, second = await Asked(twice).run({"action": "accept"})

    assert first["elicitationId"] != second["elicitationId"]
    assert len(first["elicitationId"]) >= 16


@pytest.mark.spec("EL-7")
@pytest.mark.parametrize("url", ["", "example.org", "/pay", "https://", "https:///x", "a b://c"])
async def test_what_is_no_url_is_not_sent(url: str) -> None:
    asked = page(url)

    assert await asked.run({"action": "accept"}) == []
    assert isinstance(asked.error, ValueError)


@pytest.mark.spec("EL-3")
@pytest.mark.parametrize(
    ("version", "capabilities"),
    [
        (RICH, {}),
        (RICH, {"elicitation": {}}),
        (RICH, {"elicitation": {"form": {}}}),
        (PLAIN, EVERYTHING),
    ],
)
async def test_a_client_without_pages_is_not_asked(version: str, capabilities: Any) -> None:
    for question in (
        page(),
        Asked(lambda ctx: ctx.elicitation_complete("e1")),
        Asked(lambda ctx: url_elicitation_required(ctx, [PAGE])),
    ):
        assert await question.run({"action": "accept"}, version, capabilities) == []
        assert isinstance(question.error, CapabilityMissing)
        assert question.error.capability == "elicitation.url"


PAGE = ElicitRequestURLParams(message="Sign in", url="https://example.org", elicitation_id="e9")


@pytest.mark.spec("EL-20")
async def test_only_the_client_that_was_asked_is_told_of_the_end_of_a_visit() -> None:
    async def visit(ctx: Context) -> None:
        await ctx.elicit_url("https://example.org", "Please", elicitation_id="e1")
        await ctx.elicitation_complete("e1")

    server = Asked(visit).server
    async with (
        hosting(server, RICH, EVERYTHING) as host,
        hosting(server, RICH, EVERYTHING) as other,
    ):
        host.answers[ELICIT] = {"action": "accept"}
        await host.tool("ask")

        complete = "notifications/elicitation/complete"
        assert host.noticed(complete) == [{"elicitationId": "e1"}]
        assert other.noticed(complete) == []


@pytest.mark.spec("EL-19")
async def test_a_tool_can_ask_for_pages_first() -> None:
    """Error -32042 names them all, each with an id; the end of the visit is told later."""
    server = Server("s")

    async with trio.open_nursery() as nursery:

        @server.tool
        async def pay(ctx: Context) -> str:
            async def finish(push: Any) -> None:
                await push.notify("notifications/elicitation/complete", {"elicitationId": "e9"})

            ctx.detach(nursery, finish)
            other = ElicitRequestURLParams(message="Pay", url="https://example.org/pay")
            raise url_elicitation_required(ctx, [PAGE, other])

        async with hosting(server, RICH, EVERYTHING) as host:
            error = await host.error("tools/call", {"name": "pay"})
            await host.until(lambda: host.noticed("notifications/elicitation/complete"))

    assert error["code"] == ErrorCode.URL_ELICITATION_REQUIRED
    assert "Sign in, Pay" in error["message"]
    first, second = error["data"]["elicitations"]
    assert first == {
        "mode": "url",
        "message": "Sign in",
        "url": "https://example.org",
        "elicitationId": "e9",
    }
    assert second["url"] == "https://example.org/pay"
    assert second["elicitationId"]


async def test_a_refusal_by_hand_is_the_same_error() -> None:
    server = Server("s")
    data = {"elicitations": [{"mode": "url", "message": "m", "url": "u:", "elicitationId": "e"}]}

    @server.tool
    async def pay() -> str:
        raise Refusal(ErrorCode.URL_ELICITATION_REQUIRED, "pay first", data)

    async with hosting(server) as host:
        error = await host.error("tools/call", {"name": "pay"})

    assert error == {"code": -32042, "message": "pay first", "data": data}


async def test_no_page_is_no_question() -> None:
    asked = Asked(lambda ctx: url_elicitation_required(ctx, []))
    await asked.run(None)

    assert isinstance(asked.error, ValueError)


# ---------------------------------------------------------------- several at once


async def test_several_questions_are_asked_at_once() -> None:
    """The answers come back under the same keys, in the same order."""
    asked = Asked(
        lambda ctx: ctx.ask({"a": Elicit(Booking, "first"), "b": Elicit(Choice, "second")})
    )
    async with hosting(asked.server, RICH, EVERYTHING) as host:
        id_ = await host.start("tools/call", {"name": "ask"})
        await host.until(lambda: len(host.asked) == 2)
        for request in host.asked:
            first = request["params"]["message"] == "first"
            await host.answer(request, accept(name="Ann") if first else {"action": "decline"})
        await host.reply(id_)

    assert list(asked.outcome.items()) == [("a", Accepted(Booking("Ann"))), ("b", Declined())]


async def test_when_one_question_fails_the_others_are_withdrawn() -> None:
    asked = Asked(
        lambda ctx: ctx.ask({"a": Elicit(Booking, "first"), "b": Elicit({"type": "string"}, "bad")})
    )
    async with hosting(asked.server, RICH, EVERYTHING) as host:
        await host.tool("ask")
        withdrawn = [params["requestId"] for params in host.noticed("notifications/cancelled")]

        assert withdrawn == [request["id"] for request in host.asked]
    assert isinstance(asked.error, ExceptionGroup)
    assert asked.error.subgroup(TypeError) is not None


@pytest.mark.parametrize("version", EVERY)
async def test_a_step_is_run_once(version: str) -> None:
    """Where handlers are not run again that is simply now."""
    runs: list[str] = []

    async def step() -> str:
        runs.append("run")
        return "done"

    asked = Asked(lambda ctx: ctx.once("key", step))
    await asked.run(None, version)

    assert asked.outcome == "done"
    assert runs == ["run"]
