"""Questions to the user: forms of every kind, pages, and what goes back."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcp_trio.client import Accepted, Client, Declined, Dismissed, Elicitation
from mcp_trio.errors import ErrorCode, PeerError
from mcp_trio.types import BooleanSchema, NumberSchema, StringSchema
from mcp_trio.wire.jsonrpc import Failure, Result
from mcp_trio.wire.revisions import LEGACY
from tests.client.scripted import NEWEST, Outcome, scripted

#: The first revision with elicitation.
FIRST = next(r.version for r in LEGACY if "elicitation/create" in r.methods)

OPTIONS = ["one", "two", "three"]
TITLED = [{"const": value, "title": value.title()} for value in OPTIONS]
FIELDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 2, "maxLength": 5, "default": "abc"},
    "integer": {"type": "integer", "minimum": 1, "maximum": 9, "default": 3},
    "number": {"type": "number", "default": 95.5},
    "boolean": {"type": "boolean", "default": False},
    "untitled": {"type": "string", "enum": OPTIONS, "default": "two"},
    "titled": {"type": "string", "oneOf": TITLED, "default": "two"},
    "legacy": {"type": "string", "enum": OPTIONS, "enumNames": ["1", "2", "3"], "default": "two"},
    "untitled_multi": {
        "type": "array",
        "items": {"type": "string", "enum": OPTIONS},
        "maxItems": 2,
        "default": ["one"],
    },
    "titled_multi": {
        "type": "array",
        "items": {"anyOf": TITLED},
        "minItems": 1,
        "default": ["two"],
    },
}
DEFAULTS = {name: field["default"] for name, field in FIELDS.items()}


def form(*names: str, required: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return the params of a form with these of the `FIELDS`."""
    properties = {name: FIELDS[name] for name in names}
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"message": "Well?", "requestedSchema": schema, **more}


PAGE = {"mode": "url", "message": "Go", "url": "https://example.com/x", "elicitationId": "e1"}


def answering(answer: Any, seen: list[Elicitation] | None = None, **modes: Any) -> Client:
    """Return a client whose user answers so."""
    client = Client("c", version="1")

    async def ask(ctx: Any, question: Elicitation) -> Any:
        if seen is not None:
            seen.append(question)
        return answer

    client.elicitation(**modes)(ask)
    return client


async def asked(client: Client, params: Any, version: str = NEWEST) -> Any:
    """Return the client's answer to one question."""
    async with scripted(client, version=version) as (_, script):
        script.ask("r", "elicitation/create", params)
        return await script.answer_to("r")


@pytest.mark.parametrize("version", [FIRST, NEWEST])
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Accepted({"boolean": True}), {"action": "accept", "content": {"boolean": True}}),
        ({"boolean": True}, {"action": "accept", "content": {"boolean": True}}),
        (Declined(), {"action": "decline"}),
        (Dismissed(), {"action": "cancel"}),
    ],
)
async def test_the_four_answers_of_a_user(answer: Any, result: Any, version: str) -> None:
    """A bare mapping counts as accepted; content goes with accept alone."""
    assert await asked(answering(answer), form("boolean"), version) == Result("r", result)


async def test_the_handler_gets_a_typed_question() -> None:
    """With the form both typed and raw; an absent mode means form."""
    seen: list[Elicitation] = []
    params = form("text", "integer", "boolean", required=("text",))
    await asked(answering(Declined(), seen), params)
    (question,) = seen

    assert (question.message, question.mode, question.url) == ("Well?", "form", None)
    assert question.raw_schema == params["requestedSchema"]
    assert question.schema is not None
    assert [type(field) for field in question.schema.properties.values()] == [
        StringSchema,
        NumberSchema,
        BooleanSchema,
    ]
    assert question.schema.required == ("text",)
    assert question.defaults() == {"text": "abc", "integer": 3, "boolean": False}


async def test_accepted_content_is_completed_with_the_defaults() -> None:
    """Of every kind of field; what the user filled in goes before them."""
    answer = await asked(answering({"text": "mine"}), form(*FIELDS, required=tuple(FIELDS)))

    assert answer == Result("r", {"action": "accept", "content": {**DEFAULTS, "text": "mine"}})


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("text", "abcde", True),
        ("text", "a", False),
        ("text", 5, False),
        ("integer", 9, True),
        ("integer", 10, False),
        ("integer", 1.5, False),
        ("integer", True, False),
        ("number", -1, True),
        ("number", "1", False),
        ("boolean", True, True),
        ("boolean", 1, False),
        ("boolean", None, False),
        ("untitled", "three", True),
        ("untitled", "four", False),
        ("titled", "three", True),
        ("titled", "Three", False),
        ("legacy", "three", True),
        ("legacy", "3", False),
        ("untitled_multi", ["one", "three"], True),
        ("untitled_multi", ["one", "four"], False),
        ("untitled_multi", ["one", "two", "three"], False),
        ("untitled_multi", "one", False),
        ("titled_multi", ["three"], True),
        ("titled_multi", [], False),
        ("titled_multi", ["Three"], False),
    ],
)
async def test_content_is_held_to_the_form(
    name: str,
    value: object,
    good: bool,  # noqa: FBT001 - a parameter of the test
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What does not fit is logged for the author, and an error for the server."""
    answer = await asked(answering({name: value}), form(name))

    if good:
        assert answer == Result("r", {"action": "accept", "content": {name: value}})
    else:
        assert isinstance(answer, Failure)
        assert answer.code == ErrorCode.INTERNAL_ERROR
        assert "does not fit the requested schema" in caplog.text
        assert name in caplog.text


async def test_a_required_field_must_be_filled_in() -> None:
    """Unless it has a default."""
    params = form("text", required=("text",))
    params["requestedSchema"]["properties"]["text"] = {"type": "string"}

    answer = await asked(answering(Accepted(None)), params)

    assert isinstance(answer, Failure)


async def test_an_answer_that_is_none_is_an_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says what a handler may return."""
    answer = await asked(answering(True), form("boolean"))

    assert isinstance(answer, Failure)
    assert answer.code == ErrorCode.INTERNAL_ERROR
    assert "returns Accepted, Declined, Dismissed or a mapping, not bool" in caplog.text


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": {"type": "object"}}},
        {"type": "object", "properties": {"x": {"type": "string", "minLength": -1}}},
        {"type": "array"},
    ],
)
async def test_a_form_that_is_none_is_the_servers_fault(schema: Any) -> None:
    """-32602, and nobody is bothered with it."""
    seen: list[Elicitation] = []

    answer = await asked(answering({}, seen), {"message": "?", "requestedSchema": schema})

    assert isinstance(answer, Failure)
    assert answer.code == ErrorCode.INVALID_PARAMS
    assert "$.requestedSchema" in answer.message
    assert seen == []


# ---------------------------------------------------------------- modes


@pytest.mark.parametrize(
    ("modes", "params", "good"),
    [
        ({}, form("boolean", mode="form"), True),
        ({}, PAGE, False),
        ({"url": True}, PAGE, True),
        ({"url": True}, form("boolean"), True),
        ({"form": False}, PAGE, True),
        ({"form": False}, form("boolean"), False),
        ({"url": True}, {"mode": "dream", "message": "?"}, False),
    ],
)
async def test_a_mode_that_was_not_declared_is_invalid(
    modes: Any,
    params: Any,
    good: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """-32602 (2025-11-25 client/elicitation § Error Handling)."""
    answer = await asked(answering(Accepted(None), **modes), params)

    assert isinstance(answer, Result) is good
    assert good or answer.code == ErrorCode.INVALID_PARAMS


async def test_a_page_comes_with_its_url_and_goes_back_without_content() -> None:
    """Content belongs to forms."""
    seen: list[Elicitation] = []

    answer = await asked(answering(Accepted(None), seen, url=True), PAGE)
    wrong = await asked(answering({"x": 1}, url=True), PAGE)

    assert answer == Result("r", {"action": "accept"})
    assert seen == [
        Elicitation(message="Go", mode="url", url="https://example.com/x", elicitation_id="e1")
    ]
    assert isinstance(wrong, Failure)


def test_a_handler_supports_some_mode() -> None:
    """None at all is refused."""
    with pytest.raises(ValueError, match="at least one mode"):
        Client("c", version="1").elicitation(form=False, url=False)


# ---------------------------------------------------------------- the end of a visit


async def test_the_end_of_a_visit_is_heard_of_once(nursery: trio.Nursery) -> None:
    """Of accepted pages and of pages that an error named; others are ignored."""
    client = answering(Accepted(None), url=True)
    ended = []

    @client.elicitation_complete
    def heard(session: Any, params: Any) -> None:
        ended.append(params.elicitation_id)

    async with scripted(client) as (session, script):
        script.ask("r", "elicitation/create", PAGE)
        await script.answer_to("r")
        call = Outcome(nursery, lambda: session.call_tool("x"))
        pages = {"elicitations": [{**PAGE, "elicitationId": "e2"}]}
        script.refuse(
            await script.request(), ErrorCode.URL_ELICITATION_REQUIRED, "visit first", pages
        )
        with pytest.raises(PeerError):
            await call.wait()
        for name in ("e1", "e0", "e2", "e1", 5):
            script.tell("notifications/elicitation/complete", {"elicitationId": name})
        await trio.testing.wait_all_tasks_blocked()

    assert ended == ["e1", "e2"]


async def test_a_visit_that_was_declined_has_no_end() -> None:
    """Nothing is expected any more."""
    client = answering(Declined(), url=True)
    ended = []
    client.elicitation_complete(lambda _, params: ended.append(params))

    async with scripted(client) as (_, script):
        script.ask("r", "elicitation/create", PAGE)
        await script.answer_to("r")
        script.tell("notifications/elicitation/complete", {"elicitationId": "e1"})
        await trio.testing.wait_all_tasks_blocked()

    assert ended == []
