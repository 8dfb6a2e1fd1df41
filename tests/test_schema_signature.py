"""From a signature to an input schema, and from JSON arguments to Python ones."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import functools
import subprocess
import sys
import textwrap
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import attrs
import jsonschema  # type: ignore[import-untyped]  # it ships no types; an oracle only
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.errors import InvalidMessage
from mcp_trio.schema import Arguments, arguments_of, describe


class Context:
    """Stands for what a server injects."""


def read(fn: Callable[..., Any]) -> Arguments:
    arguments = arguments_of(fn, skip=lambda annotation: annotation is Context)
    jsonschema.Draft202012Validator.check_schema(arguments.schema)
    return arguments


def refusal(arguments: Arguments, raw: Any) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        arguments.bind(raw)
    return caught.value


class Odd:
    """Nothing that JSON has a form for."""


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@attrs.define
class Box:
    corner: Point
    tags: set[str] = attrs.field(factory=set)


class Options(TypedDict):
    verbose: bool
    depth: NotRequired[int]


class Pair(NamedTuple):
    left: int
    right: str = "r"


class Model(pydantic.BaseModel):
    size: int
    name: str = "m"


class Node(pydantic.BaseModel):
    value: int
    following: Node | None = None


@dataclass
class HoldsModel:
    model: Model


def accept(annotation: Any) -> Callable[..., Any]:
    def fn(value: Any) -> None: ...

    fn.__annotations__["value"] = annotation
    return fn


@pytest.mark.parametrize(
    ("annotation", "given_", "expected"),
    [
        (str, "a", "a"),
        (int, 3, 3),
        (float, 3, 3.0),
        (bool, True, True),
        (None, None, None),
        (Any, [1, {"a": None}], [1, {"a": None}]),
        (int | None, None, None),
        (int | str, "x", "x"),
        (Literal["a", 1], 1, 1),
        (Colour, "red", Colour.RED),
        (list[int], [1, 2], [1, 2]),
        (Sequence[int], [1, 2], [1, 2]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (set[str], ["a", "b"], {"a", "b"}),
        (frozenset[int], [1], frozenset({1})),
        (Point, {"x": 1}, Point(1, 0)),
        (Tree, {"name": "a", "children": [{"name": "b"}]}, Tree("a", [Tree("b")])),
        (Box, {"corner": {"x": 1}, "tags": ["t"]}, Box(Point(1), {"t"})),
        (Options, {"verbose": True}, {"verbose": True}),
        (Pair, [1], Pair(1)),
        (list[Point | None], [None, {"x": 2}], [None, Point(2)]),
        (dt.date, "2026-01-31", dt.date(2026, 1, 31)),
        (
            dt.datetime,
            "2026-01-31T01:02:03Z",
            dt.datetime(2026, 1, 31, 1, 2, 3, tzinfo=dt.UTC),
        ),
        (
            uuid.UUID,
            "12345678123456781234567812345678",
            uuid.UUID(int=0x12345678123456781234567812345678),
        ),
        (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
        (bytes, "aGk=", b"hi"),
        (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
        (Model, {"size": 1}, Model(size=1)),
        (list[Model], [{"size": 1}], [Model(size=1)]),
        (Model | str, "text", "text"),
        (Node, {"value": 1, "following": {"value": 2}}, Node(value=1, following=Node(value=2))),
        (HoldsModel, {"model": {"size": 2}}, HoldsModel(Model(size=2))),
    ],
)
def test_values_arrive_as_the_annotated_type(annotation: Any, given_: Any, expected: Any) -> None:
    """Structured, accepted by the schema, and refused by both when it does not fit."""
    arguments = read(accept(annotation))
    raw = {"value": given_}
    value = arguments.bind(raw)["value"]

    assert expected == value
    assert type(expected) is type(value)
    assert jsonschema.Draft202012Validator(arguments.schema).is_valid(raw)


@pytest.mark.parametrize(
    ("annotation", "wrong", "problem"),
    [
        (int, "x", ("$.value", "expected int, got str")),
        (int, True, ("$.value", "expected int, got bool")),
        (int | None, "x", ("$.value", "expected int | null, got str")),
        (Colour, "green", ("$.value", 'expected one of "blue", "red"; got "green"')),
        (Literal["a", "b"], "c", ("$.value", 'expected one of "a", "b"; got "c"')),
        (list[Colour], ["x"], ("$.value[0]", 'expected one of the values of the enum; got "x"')),
        (list[int], [1, "x"], ("$.value[1]", "expected int, got str")),
        (tuple[int, str], [1], ("$.value", "expected array of length 2, got 1")),
        (Point, {}, ("$.value.x", "missing, but required")),
        (
            Tree,
            {"name": "a", "children": [{"name": 1}]},
            ("$.value.children[0].name", "expected str, got int"),
        ),
        (Options, {"verbose": 1}, ("$.value.verbose", "expected bool, got int")),
        (dt.date, "x", ("$.value", "invalid RFC3339 encoded date")),
        (Annotated[int, msgspec.Meta(ge=1, le=9)], 0, ("$.value", "expected int >= 1")),
        (
            Annotated[str, msgspec.Meta(max_length=2)],
            "abc",
            ("$.value", "expected str of length <= 2"),
        ),
        (
            Annotated[int, pydantic.Field(ge=1)],
            0,
            ("$.value", "Input should be greater than or equal to 1"),
        ),
        (
            Model,
            {"size": "x"},
            (
                "$.value.size",
                "Input should be a valid integer, unable to parse string as an integer",
            ),
        ),
    ],
)
def test_a_refusal_names_where_and_what(
    annotation: Any, wrong: Any, problem: tuple[str, str]
) -> None:
    """The path is in wire names, the text in words."""
    arguments = read(accept(annotation))
    error = refusal(arguments, {"value": wrong})

    assert problem == (error.path, error.expected)


def test_the_schema_is_one_flat_object() -> None:
    """Properties, required, defaults and descriptions; definitions are referred to."""

    def fn(
        city: Annotated[str, "Where"],
        days: Annotated[int, msgspec.Meta(ge=1, description="How many")] = 3,
        *,
        at: Point | None = None,
    ) -> None: ...

    assert read(fn).schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "Where"},
            "days": {"type": "integer", "minimum": 1, "description": "How many", "default": 3},
            "at": {"anyOf": [{"$ref": "#/$defs/Point"}, {"type": "null"}], "default": None},
        },
        "required": ["city"],
        "additionalProperties": False,
        "$defs": {
            "Point": {
                "title": "Point",
                "type": "object",
                "properties": {
                    "x": {"type": "integer"},
                    "y": {"type": "integer", "default": 0},
                },
                "required": ["x"],
            }
        },
    }


def test_no_parameters_is_an_empty_closed_object() -> None:
    """Absent and empty arguments bind alike."""

    def fn() -> None: ...

    arguments = read(fn)

    assert arguments.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert {} == arguments.bind(None) == arguments.bind({})


def test_an_unannotated_parameter_takes_anything() -> None:
    """Its schema says nothing."""

    def fn(x, y=1): ...  # type: ignore[no-untyped-def]  # what the test is about

    arguments = read(fn)

    assert arguments.schema["properties"] == {"x": {}, "y": {"default": 1}}
    assert arguments.bind({"x": None, "y": [2]}) == {"x": None, "y": [2]}


def test_injected_parameters_are_left_to_the_caller() -> None:
    """They are neither in the schema nor in what ``bind`` returns."""

    def fn(ctx: Context, text: str, other: Context) -> None: ...

    arguments = read(fn)

    assert arguments.injected == ("ctx", "other")
    assert list(arguments.schema["properties"]) == ["text"]
    assert arguments.bind({"text": "a"}) == {"text": "a"}
    assert refusal(arguments, {"text": "a", "ctx": 1}).path == "$.ctx"


def test_positional_only_parameters_are_split_off_for_the_call() -> None:
    """``split`` puts them in front, injected ones too."""

    def fn(ctx: Context, a: int, /, b: int, *, c: int = 3) -> tuple[object, ...]:
        return ctx, a, b, c

    arguments = read(fn)
    injected = Context()
    args, kwargs = arguments.split({"ctx": injected, **arguments.bind({"b": 2, "a": 1})})

    assert arguments.positional == ("ctx", "a")
    assert (injected, 1, 2, 3) == fn(*args, **kwargs)


@pytest.mark.parametrize("kind", ["*args", "**kwargs"])
def test_any_number_of_arguments_is_refused_at_registration(kind: str) -> None:
    """The error names the parameter and what to do instead."""

    def args_fn(*args: int) -> None: ...

    def kwargs_fn(**kwargs: int) -> None: ...

    with pytest.raises(TypeError, match=rf"'{kind.lstrip('*')}' of .*takes any number"):
        read(args_fn if kind == "*args" else kwargs_fn)


@pytest.mark.parametrize("annotation", [Odd, list[Odd], Point | Odd, Callable[[], int], 3])
def test_an_annotation_without_json_form_is_refused_at_registration(annotation: Any) -> None:
    """The error names the parameter."""
    with pytest.raises(
        TypeError, match=r"parameter 'value' of accept.<locals>\.fn cannot be descr"
    ):
        arguments_of(accept(annotation), skip=lambda _: False)


def test_an_annotation_that_cannot_be_found_is_refused_with_its_parameter() -> None:
    """Text that names nothing at run time."""
    with pytest.raises(TypeError, match=r"parameter 'value' of .*'Nowhere'.*cannot be resolved"):
        read(accept("Nowhere"))


def test_names_of_an_enclosing_function_are_found() -> None:
    """String annotations may use what the function closes over."""

    class Local(TypedDict):
        a: int

    def fn(value: Local) -> type[Local]:
        return Local

    assert read(fn).bind({"value": {"a": 1}}) == {"value": {"a": 1}}


def test_defaults_are_handed_out_as_python_would() -> None:
    """The very object, in the schema only if JSON can hold it and it fits."""
    marker = Point(1)

    def fn(
        a: Any = marker,
        b: Any = object,
        c: float = float("nan"),
        d: set[int] = frozenset({1}),  # type: ignore[assignment]  # what the test is about
        e: int = None,  # type: ignore[assignment]  # noqa: RUF013 - as many people write
        f: Colour = Colour.RED,
        g: Model = Model(size=4),  # noqa: B008 - what the test is about
        h: tuple[int, ...] = (1, 2),
    ) -> None: ...

    arguments = read(fn)
    values = arguments.bind({})
    properties = arguments.schema["properties"]
    shown = {name: each["default"] for name, each in properties.items() if "default" in each}

    assert marker is values["a"]
    assert object is values["b"]
    assert Model(size=4) == values["g"]
    assert shown == {
        "a": {"x": 1, "y": 0},
        "d": [1],
        "f": "red",
        "g": {"size": 4, "name": "m"},
        "h": (1, 2),
    }
    assert "required" not in arguments.schema


def test_a_pydantic_field_as_default_is_refused() -> None:
    """It would reach the handler as the value."""

    def fn(a: int = pydantic.Field(ge=1)) -> None: ...

    with pytest.raises(TypeError, match=r"'a' of .*write Annotated"):
        read(fn)


def test_unknown_and_missing_arguments_are_all_named() -> None:
    """With the closest name as a hint."""

    def fn(city: str, days: int) -> None: ...

    error = refusal(read(fn), {"citty": "x", "zzz": 1})

    assert error.problems == (
        ("$.citty", 'unknown argument; did you mean "city"?'),
        ("$.zzz", "unknown argument"),
        ("$.city", "missing, but required"),
        ("$.days", "missing, but required"),
    )
    assert error.path == "$.citty"


def test_a_flood_of_unknown_arguments_is_named_in_part() -> None:
    """Ten problems, each short, whatever the peer sends."""

    def fn(a: int) -> None: ...

    error = refusal(read(fn), {f"{n}\n\u20ac" + "x" * 10_000: 1 for n in range(1000)})

    assert len(error.problems) == 10
    assert len(str(error)) < 2000
    assert str(error).isascii()


def test_text_becomes_numbers_only_where_the_caller_says_so() -> None:
    """Prompt arguments and template variables are always text."""

    def fn(days: int, *, exact: bool = False, name: str = "") -> None: ...

    arguments = read(fn)
    raw = {"days": "3", "exact": "true", "name": "4"}

    assert arguments.bind(raw, strict=False) == {"days": 3, "exact": True, "name": "4"}
    assert refusal(arguments, raw).path == "$.days"
    with pytest.raises(InvalidMessage, match=r"\$\.days: expected int, got str"):
        arguments.bind({"days": "three"}, strict=False)


def test_lone_surrogates_are_refused() -> None:
    """They cannot come off the wire, but a test or an in-process peer may hold some."""
    error = refusal(read(accept(str)), {"value": "a", "\ud800": 1})

    assert error.expected == "expected text without lone surrogates"


@pytest.mark.parametrize("raw", [[], "text", 1])
def test_arguments_that_are_no_object_are_refused(raw: Any) -> None:
    """Whatever else arrives there."""
    error = refusal(read(accept(int)), raw)

    assert error.path == "$"
    assert error.expected.startswith("expected object")


def test_deep_arguments_are_refused() -> None:
    """Nesting past the interpreter's limit is a refusal, not a crash."""
    value: dict[str, Any] = {"name": "a"}
    for _ in range(50_000):
        value = {"name": "a", "children": [value]}
    error = refusal(read(accept(Tree)), {"value": value})

    assert "nested" in error.expected
    while value.get("children"):  # take it apart without recursion
        value = value["children"].pop()


def test_the_docstring_describes_function_and_parameters() -> None:
    """The first paragraph, and the ``Args:`` section where ``Annotated`` says nothing."""

    def fn(city: str, days: Annotated[int, "annotated"], unit: str, rest: str) -> None:  # noqa: D417 - as people write them
        """Forecast the weather
        of a city.

        More text: not this.

        Args:
            city: The place, with
                a second line: like this.
            days (int): documented
            unit (str, optional):
                On the next line.

        Returns:
            rest: nothing.
        """  # noqa: D205 - as people write them

    properties = read(fn).schema["properties"]

    assert describe(fn) == "Forecast the weather of a city."
    assert properties["city"]["description"] == "The place, with a second line: like this."
    assert properties["days"]["description"] == "annotated"
    assert properties["unit"]["description"] == "On the next line."
    assert "description" not in properties["rest"]


class Callee:
    """Not this text."""

    def __call__(self, a: int) -> int:
        """Call it."""
        return a

    def method(self, a: int, b: int = 1) -> int:
        """Method it."""
        return a + b


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (Callee(), "Call it."),
        (Callee().method, "Method it."),
        (functools.partial(Callee().method, b=2), "Method it."),
        (functools.wraps(Callee().method)(lambda *args: args), "Method it."),
        (lambda a: a, None),
    ],
)
def test_every_kind_of_callable_is_read(fn: Callable[..., Any], text: str | None) -> None:
    """Objects, methods, partials, wrappers and lambdas."""
    assert "a" in read(fn).schema["properties"]
    assert text == describe(fn)


def test_two_classes_of_one_name_stay_two() -> None:
    """A model and a dataclass of the same name do not share a definition."""
    other = pydantic.create_model("Point", z=(str, ...))

    def fn(a: Any, b: Any) -> None: ...

    fn.__annotations__.update(a=Point, b=other)
    arguments = read(fn)

    assert {"Point", "pydantic.Point"} == arguments.schema["$defs"].keys()
    assert {"a": Point(1), "b": other(z="z")} == arguments.bind({"a": {"x": 1}, "b": {"z": "z"}})


def test_pydantic_is_neither_needed_nor_imported() -> None:
    """Everything else works in a process where importing pydantic fails."""
    program = """
        import sys
        sys.modules["pydantic"] = None
        from mcp_trio.schema import arguments_of, output_of
        def fn(a: int, b: list[str] = []) -> dict[str, int]: ...
        arguments = arguments_of(fn, skip=lambda _: False)
        assert arguments.bind({"a": 1}) == {"a": 1, "b": []}
        assert output_of(dict[str, int]).encode({"a": 1}) == {"a": 1}
        del sys.modules["pydantic"]
        arguments_of(fn, skip=lambda _: False)
        assert "pydantic" not in sys.modules
        assert "jsonschema_rs" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


kinds = st.sampled_from(
    [int, float, str, bool, int | None, list[int], dict[str, bool], Point, Options, Pair, Colour]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "y", "verbose", "depth"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(kind=kinds, value=json_values)
def test_what_binds_fits_the_schema(kind: Any, value: Any) -> None:
    """Structuring never accepts what the published schema refuses."""
    arguments = read(accept(kind))
    raw = {"value": value}
    fits = jsonschema.Draft202012Validator(arguments.schema).is_valid(raw)
    try:
        arguments.bind(raw)
    except InvalidMessage:
        bound = False
    else:
        bound = True

    assert fits or not bound
