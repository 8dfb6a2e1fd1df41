"""From a return annotation to an output schema, and from results to JSON."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, NoReturn, TypedDict

import attrs
import jsonschema  # type: ignore[import-untyped]  # it ships no types; an oracle only
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.schema import Output, output_of, return_annotation


class Odd:
    pass


class Unit(enum.Enum):
    C = "c"


@dataclass
class Weather:
    temperature: float
    unit: Unit = Unit.C


@attrs.define
class Report:
    rows: list[Weather]
    on: dt.date


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Row(TypedDict):
    a: int


class Pair(NamedTuple):
    a: int
    b: str


class Model(pydantic.BaseModel):
    x: int
    when: dt.date | None = None


def output(annotation: Any) -> Output:
    found = output_of(annotation)
    assert found is not None
    jsonschema.Draft202012Validator.check_schema(found.schema)
    return found


@pytest.mark.parametrize("annotation", [None, type(None), Any, object, NoReturn])
def test_an_annotation_that_says_nothing_gives_no_output(annotation: Any) -> None:
    """There is no schema to promise."""
    assert output_of(annotation) is None


@pytest.mark.parametrize(
    ("annotation", "value", "expected", "wrapped"),
    [
        (str, "a", "a", True),
        (int, 10**30, 10**30, True),
        (list[int], [1], [1], True),
        (set[int], {1}, [1], True),
        (Row, {"a": 1}, {"a": 1}, False),
        (dict[str, int], {"a": 1}, {"a": 1}, False),
        (dict[int, int], {1: 1}, {"1": 1}, False),
        (Weather, Weather(1.5), {"temperature": 1.5, "unit": "c"}, False),
        (Weather | None, None, None, True),
        (
            Report,
            Report([Weather(1)], dt.date(2026, 1, 2)),
            {"rows": [{"temperature": 1, "unit": "c"}], "on": "2026-01-02"},
            False,
        ),
        (
            Tree,
            Tree("a", [Tree("b")]),
            {"name": "a", "children": [{"name": "b", "children": []}]},
            False,
        ),
        (Pair, Pair(1, "b"), (1, "b"), True),
        (tuple[int, ...], (1, 2), (1, 2), True),
        (Model, Model(x=1), {"x": 1, "when": None}, False),
        (list[Model], [Model(x=1)], [{"x": 1, "when": None}], True),
        (
            dict[str, Any],
            {"m": Model(x=1), "n": None},
            {"m": {"x": 1, "when": None}, "n": None},
            False,
        ),
        (Annotated[dict[str, int], "counts"], {"a": 1}, {"a": 1}, False),
    ],
)
def test_values_leave_as_json(annotation: Any, value: Any, expected: Any, *, wrapped: bool) -> None:
    """Encoded to builtin types that fit the schema; ``wrapped`` tells what is no object."""
    found = output(annotation)
    encoded = found.encode(value)

    assert expected == encoded
    assert wrapped is found.wrapped
    assert jsonschema.Draft202012Validator(found.schema).is_valid(
        msgspec.json.decode(msgspec.json.encode(encoded))
    )


def test_the_schema_is_flat_at_the_top() -> None:
    """An object schema says so itself; definitions stay where something refers to them."""
    tree = output(Tree).schema

    assert tree["type"] == "object"
    assert tree["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert {"Tree"} == tree["$defs"].keys()
    assert {"Unit"} == output(Weather).schema["$defs"].keys()
    assert "$defs" not in output(Row).schema
    assert output(Annotated[dict[str, int], "counts"]).schema["description"] == "counts"


@pytest.mark.parametrize(
    ("annotation", "value", "error", "text"),
    [
        (float, float("nan"), ValueError, r"^\$: nan has no JSON form"),
        (list[float], [1.0, float("inf")], ValueError, r"^\$\[1\]: inf"),
        (Weather, Weather(float("-inf")), ValueError, r"^\$\.temperature: -inf"),
        (dict[str, Any], {"a": [None, float("nan")]}, ValueError, r"^\$\.a\[1\]: nan"),
        (str, "a\ud800", ValueError, r"^\$: lone surrogate"),
        (dict[str, Any], {"a": {"b\udfff": 1}}, ValueError, r"lone surrogate"),
        (dict[str, Any], {"a": object()}, TypeError, r"^\$\.a: a object has no JSON form"),
        (dict[str, Any], {"a": Model}, TypeError, r"^\$\.a: a ModelMetaclass has no JSON form"),
        (list[Any], [Weather(object())], TypeError, r"^\$\[0\]\.temperature: a object"),  # type: ignore[arg-type]  # what the test is about
        (list[Any], [Report([object()], None)], TypeError, r"^\$\[0\]\.rows\[0\]: a object"),  # type: ignore[list-item,arg-type]  # as above
        (dict[str, Any], {(1, 2): 1}, TypeError, r"keys are supported"),
        (int, "1", ValueError, r"^\$: expected int, got str"),
        (Row, {}, ValueError, r"^\$\.a: missing, but required"),
        (list[Row], [{"a": "x"}], ValueError, r"^\$\[0\]\.a: expected int, got str"),
        (Weather, {"temperature": "x"}, ValueError, r"^\$\.temperature: expected float, got str"),
        (Model, {"x": "y"}, ValueError, r"^\$\.x: Input should be a valid integer"),
        (list[Model], [Model(x=1), 3], ValueError, r"^\$\[1\]: Input should be"),
        (pydantic.BaseModel, 3, ValueError, r"^\$: Input should be"),
    ],
)
def test_what_cannot_leave_is_refused_with_its_place(
    annotation: Any, value: Any, error: type[Exception], text: str
) -> None:
    """No NaN, no surrogates, no foreign objects, nothing that breaks the promised schema."""
    with pytest.raises(error, match=text):
        output(annotation).encode(value)


def test_nan_inside_a_model_is_refused() -> None:
    """Pydantic would let it pass."""
    kind = pydantic.create_model("Kind", x=(float, ...))

    with pytest.raises(ValueError, match=r"^\$\.x: nan"):
        output(kind).encode(kind(x=float("nan")))


def test_what_a_model_cannot_dump_is_refused() -> None:
    """Pydantic's own error is a ``ValueError`` already."""
    kind = pydantic.create_model("Kind", x=(Any, ...))

    with pytest.raises(ValueError, match="Unable to serialize unknown type"):
        output(kind).encode(kind(x=object()))


def test_a_value_inside_itself_is_refused() -> None:
    """It has no end."""
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(ValueError, match="inside itself"):
        output(list[Any]).encode(endless)


@pytest.mark.parametrize("annotation", [Odd, list[Odd], type])
def test_an_annotation_without_json_form_is_refused(annotation: Any) -> None:
    """When the tool is registered."""
    with pytest.raises(TypeError, match=r"the return annotation cannot be described"):
        output_of(annotation)


def test_the_return_annotation_is_resolved() -> None:
    """Text or not; without one it is ``Any``, which promises nothing."""

    def typed() -> list[Weather]: ...  # type: ignore[empty-body]  # only the signature counts

    def untyped(): ...  # type: ignore[no-untyped-def]  # what the test is about

    def lost() -> Nowhere: ...  # type: ignore[name-defined]  # noqa: F821 - what the test is about

    assert list[Weather] == return_annotation(typed)
    assert return_annotation(untyped) is Any
    with pytest.raises(TypeError, match=r"the return annotation .*'Nowhere'"):
        return_annotation(lost)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(), values))
def test_what_leaves_survives_the_wire(value: dict[str, Any]) -> None:
    """Either refused, or decoding the JSON gives exactly the value back."""
    try:
        encoded = output(dict[str, Any]).encode(value)
    except ValueError:
        assert "NaN" in repr(value).replace("nan", "NaN") or "inf" in repr(value)
    else:
        assert value == msgspec.json.decode(msgspec.json.encode(encoded))
