"""``key=value`` on the command line and what is typed into a form, as values."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.cli import form
from mcp_trio.cli.outcome import CommandError
from mcp_trio.cli.values import parse_pairs, typed

PLAIN: dict[str, Any] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "any_number": {"type": "number"},
    "flag": {"type": "boolean"},
    "maybe": {"type": ["integer", "null"]},
    "either": {"anyOf": [{"type": "number"}, {"type": "boolean"}]},
    "both": {"type": ["string", "integer"]},
    "items": {"type": "array"},
    "anything": True,
}


def read(word: str) -> Any:
    return typed(parse_pairs([word]), {"properties": PLAIN})


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("text=1", "1"),
        ("text=", ""),
        ("text=a=b", "a=b"),
        ("whole=-7", -7),
        ("any_number=3", 3),
        ("any_number=0.5", 0.5),
        ("flag=yes", True),
        ("flag=False", False),
        ("maybe=4", 4),
        ("either=no", False),
        ("either=2.5", 2.5),
        ("both=4", "4"),
        ("items=[1]", "[1]"),
        ("anything=1", "1"),
        ("unheard_of=true", "true"),
    ],
)
def test_a_word_is_text_but_where_the_schema_wants_a_number_or_yes_or_no(
    word: str, value: object
) -> None:
    (found,) = read(word).values()

    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("whole=1.5", "whole: expected integer, not '1.5'"),
        ("flag=perhaps", "flag: expected boolean, not 'perhaps'"),
        ("either=x", "either: expected boolean or number, not 'x'"),
        ("whole:=nan", "whole: expected JSON, not 'nan'"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(word: str, reason: str) -> None:
    with pytest.raises(CommandError) as refused:
        read(word)

    assert str(refused.value).startswith(reason)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=JSON, key=st.sampled_from([*PLAIN, "unheard_of"]))
def test_json_is_taken_as_it_is_whatever_the_schema_says(value: Any, key: str) -> None:
    assert read(f"{key}:={msgspec.json.encode(value).decode()}") == {key: value}


TITLED = {"type": "string", "oneOf": [{"const": "w", "title": "Window"}, {"const": "a"}]}
SEVERAL = {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}, "default": ["r"]}


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ({"type": "string"}, "  name: "),
        ({"type": "string", "title": "Your name", "default": "Ada"}, "  Your name [Ada]: "),
        ({"type": "number", "default": 0.5}, "  name (number) [0.5]: "),
        ({"type": "boolean", "default": True}, "  name (y/n) [y]: "),
        ({"type": "string", "enum": ["x", "y"], "default": "y"}, "  name (x, y) [y]: "),
        (TITLED | {"default": "w"}, "  name (Window, a) [Window]: "),
        (SEVERAL, "  name (Red; several with commas) [Red]: "),
    ],
)
def test_a_prompt_shows_what_may_be_answered(field: dict[str, Any], shown: str) -> None:
    assert form.prompt("name", field) == shown


def test_choices_are_taken_by_value_or_title() -> None:
    assert form.read(TITLED, "w") == "w"
    assert form.read(TITLED, "window") == "w"
    assert form.read(SEVERAL, "Red") == ["r"]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ({"type": "integer", "minimum": 18}, "17"),
        ({"type": "string", "maxLength": 2}, "abc"),
        (SEVERAL | {"minItems": 2}, "r"),
        (TITLED, "x"),
    ],
)
def test_what_the_form_does_not_allow_is_refused(field: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|choose from"):
        form.read(field, text)
