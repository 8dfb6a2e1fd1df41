"""Forms for elicitation: classes and schemas in, plain fields out, values back."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import attrs
import msgspec
import pytest

from mcp_trio.codec import codec_for
from mcp_trio.errors import InvalidMessage
from mcp_trio.schema import form_of
from mcp_trio.types import RequestedSchema
from mcp_trio.wire.revisions import LEGACY


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@attrs.frozen
class Booking:
    name: Annotated[str, msgspec.Meta(min_length=1, description="who travels")]
    seats: Annotated[int, msgspec.Meta(ge=1, le=9)] = 1
    price: float = 0.0
    window: bool = False
    colour: Colour = Colour.RED
    meal: Literal["veg", "fish"] | None = None
    extras: list[Literal["bike", "dog"]] = attrs.field(factory=list)


def test_a_class_becomes_a_flat_form_that_the_newest_legacy_revision_accepts() -> None:
    """Every field is a PrimitiveSchemaDefinition of the official schema."""
    schema = form_of(Booking).schema_for(LEGACY[-1])

    assert schema["required"] == ["name"]
    assert schema["properties"]["name"] == {
        "type": "string",
        "description": "who travels",
        "minLength": 1,
    }
    assert schema["properties"]["seats"] == {
        "type": "integer",
        "default": 1,
        "minimum": 1,
        "maximum": 9,
    }
    assert schema["properties"]["colour"]["enum"] == ["red", "blue"]
    assert schema["properties"]["meal"] == {"type": "string", "enum": ["veg", "fish"]}
    assert schema["properties"]["extras"]["items"]["enum"] == ["bike", "dog"]
    codec_for(LEGACY[-1].version).structure(schema, RequestedSchema)


def test_what_was_filled_in_comes_back_as_the_class() -> None:
    """Absent fields take the class's defaults."""
    value = form_of(Booking).read({"name": "Ada", "colour": "blue", "extras": ["dog"]})

    assert value == Booking("Ada", colour=Colour.BLUE, extras=["dog"])


def test_a_field_that_does_not_fit_is_named() -> None:
    """The path leads to the field."""
    with pytest.raises(InvalidMessage) as caught:
        form_of(Booking).read({"name": "Ada", "seats": 12})

    assert caught.value.path == "$.seats"


def test_an_older_revision_gets_no_defaults_and_no_choice_of_several() -> None:
    """2025-06-18 has defaults for booleans only, and no array fields."""
    older = LEGACY[-2]

    @dataclass
    class Small:
        n: int = 3
        yes: bool = True

    assert form_of(Small).schema_for(older)["properties"] == {
        "n": {"type": "integer"},
        "yes": {"type": "boolean", "default": True},
    }
    with pytest.raises(InvalidMessage, match="several"):
        form_of(Booking).schema_for(older)


@pytest.mark.parametrize("bad", [dict[str, int], list[str], Booking | None])
def test_a_field_that_is_not_plain_is_refused_by_name(bad: Any) -> None:
    """The error names class and field."""
    nested = attrs.make_class("nested", {"odd": attrs.field(type=bad)})

    with pytest.raises(TypeError, match=r"nested\.odd"):
        form_of(nested)


def test_a_schema_given_as_json_is_enforced() -> None:
    """The user's own schema is sent as it is, and the answer is checked against it."""
    form = form_of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})

    assert form.read({"n": 4}) == {"n": 4}
    with pytest.raises(InvalidMessage):
        form.read({"n": "four"})


def test_something_that_is_no_form_is_refused() -> None:
    """A bare type has no named fields."""
    with pytest.raises(TypeError, match="no form"):
        form_of(int)


def test_a_pydantic_model_makes_a_form() -> None:
    """Where the user brought pydantic, its models serve too."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Trip", city=(str, ...), days=(int, 3))

    form = form_of(model)

    assert form.schema["properties"]["days"]["default"] == 3
    assert form.read({"city": "Oslo"}).days == 3
    with pytest.raises(InvalidMessage, match="days"):
        form.read({"city": "Oslo", "days": "many"})
