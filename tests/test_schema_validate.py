"""Foreign schemas: enforced, bounded, and never fetched."""

from __future__ import annotations

import http.server
import threading
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types; an oracle only
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.errors import InvalidMessage
from mcp_trio.limits import Limits
from mcp_trio.schema import compile_schema
from mcp_trio.schema.paths import clip

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAFT7 = "http://json-schema.org/draft-07/schema#"
DRAFT2020 = "https://json-schema.org/draft/2020-12/schema"


def refused(schema: Any, **limits: int) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        compile_schema(schema, limits=Limits(**limits))
    return caught.value


def fault(schema: Any, value: Any) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        compile_schema(schema).check(value)
    return caught.value


@pytest.fixture
def canary() -> Iterator[tuple[str, list[str]]]:
    """A loopback HTTP server that notes every request and answers with a permissive schema."""
    hits: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            self.send_response(200)
            self.send_header("content-length", "4")
            self.end_headers()
            self.wfile.write(b"true")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", hits
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("schema", "value", "path", "expected"),
    [
        ({"type": "string"}, 1, "$", "expected string, got 1"),
        ({"type": ["string", "null"]}, 1, "$", "expected null or string, got 1"),
        (
            {"properties": {"a": {"items": {"type": "null"}}}},
            {"a": [None, 1]},
            "$.a[1]",
            "expected null, got 1",
        ),
        ({"properties": {"a b": {"const": 1}}}, {"a b": 2}, '$["a b"]', "expected 1, got 2"),
        ({"enum": ["a", None]}, "b", "$", 'expected one of ["a", null], got "b"'),
        ({"minimum": 3}, 2, "$", "expected at least 3, got 2"),
        ({"exclusiveMaximum": 3}, 3, "$", "expected less than 3, got 3"),
        ({"multipleOf": 2}, 3, "$", "expected a multiple of 2, got 3"),
        ({"minLength": 2}, "a", "$", "expected at least 2 characters, got 1"),
        ({"maxItems": 1}, [1, 2], "$", "expected at most 1 elements, got 2"),
        ({"maxProperties": 0}, {"a": 1}, "$", "expected at most 0 members, got 1"),
        ({"pattern": "^a+$"}, "b", "$", 'expected a string matching "^a+$", got "b"'),
        ({"required": ["a"]}, {}, "$.a", "missing, but required"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "$.b", "missing, but required"),
        ({"additionalProperties": False}, {"x": 1}, "$", "expected no members"),
        (
            {"properties": {"a": True}, "additionalProperties": False},
            {"x": 1},
            "$.x",
            "not allowed here",
        ),
        (
            {"properties": {"a": True}, "unevaluatedProperties": False},
            {"b": 1},
            "$.b",
            "not allowed here",
        ),
        ({"prefixItems": [True], "items": False}, [1, 2], "$[1]", "not allowed here"),
        ({"uniqueItems": True}, [1, 1], "$", "expected no element twice"),
        (
            {"propertyNames": {"maxLength": 1}},
            {"ab": 1},
            "$",
            "a member's name: expected at most 1 characters, got 2",
        ),
        ({"contains": {"const": 1}}, [2], "$", "expected a value that fits contains, got [2]"),
        ({"not": {"const": 1}}, 1, "$", "expected anything but what the schema excludes, got 1"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            1,
            "$",
            "expected string or null, got 1",
        ),
        (
            {"properties": {"a": {"oneOf": [{"type": "string"}, {"type": "null"}]}}},
            {"a": 1},
            "$.a",
            "expected string or null, got 1",
        ),
        (
            {"oneOf": [{"type": "string"}, {"minLength": 1}]},
            "a",
            "$",
            'expected one of 2 alternatives to fit, got "a"',
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            "$",
            "expected one of 2 alternatives to fit, got {}",
        ),
        ({"if": {"type": "integer"}, "then": {"minimum": 5}}, 2, "$", "expected at least 5, got 2"),
        ({"$schema": DRAFT7, "items": [{"type": "string"}]}, [1], "$[0]", "expected string, got 1"),
        (
            {"$schema": DRAFT7, "definitions": {"a": {"type": "null"}}, "$ref": "#/definitions/a"},
            1,
            "$",
            "expected null, got 1",
        ),
        (
            {"$schema": DRAFT2020, "$defs": {"a": {"$anchor": "x", "type": "null"}}, "$ref": "#x"},
            1,
            "$",
            "expected null, got 1",
        ),
        (
            {"$id": "https://h/s", "$defs": {"a": {"$id": "t", "type": "null"}}, "$ref": "t"},
            1,
            "$",
            "expected null, got 1",
        ),
        (
            {"$id": "urn:x:y", "$defs": {"a": {"type": "null"}}, "$ref": "#/$defs/a"},
            1,
            "$",
            "expected null, got 1",
        ),
        (
            {"$defs": {"a/b~c": {"type": "null"}}, "$ref": "#/$defs/a~1b~0c"},
            1,
            "$",
            "expected null, got 1",
        ),
        (
            {"prefixItems": [{"type": "null"}], "properties": {"a": {"$ref": "#/prefixItems/0"}}},
            {"a": 1},
            "$.a",
            "expected null, got 1",
        ),
        ({"x-own": {"type": "null"}, "$ref": "#/x-own"}, 1, "$", "expected null, got 1"),
        (False, 1, "$", "not allowed here"),
    ],
)
def test_a_fault_is_named_in_the_words_of_the_constraint(
    schema: Any, value: Any, path: str, expected: str
) -> None:
    """Path in the value, and what the schema asks for there."""
    error = fault(schema, value)

    assert (error.path, error.expected) == (path, expected)


def test_true_and_an_empty_schema_take_everything() -> None:
    """Whatever JSON can hold."""
    schemas: tuple[Any, ...] = (True, {}, MappingProxyType({}))
    for schema in schemas:
        for value in (None, 1, "a", [1], {"a": None}):
            compile_schema(schema).check(value)


def test_nested_mappings_of_any_kind_are_schemas() -> None:
    """Messages hold mappings that are no dicts."""
    schema = MappingProxyType({"properties": MappingProxyType({"a": {"type": "null"}})})

    assert fault(schema, {"a": 1}).path == "$.a"


def test_format_is_an_annotation() -> None:
    """2020-12 section 7.2.1: no assertion by default."""
    compile_schema({"format": "date"}).check("no date")


def test_several_faults_are_collected_within_bounds() -> None:
    """Ten at most, each short, in ASCII."""
    error = fault({"items": {"type": "null"}}, ["\u20ac" * 10_000] * 100)

    assert len(error.problems) == 10
    assert error.problems[3][0] == "$[3]"
    assert len(str(error)) < 2000
    assert str(error).isascii()


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strin"}, "$.type"),
        ({"properties": {"a": {"minimum": "x"}}}, "$.properties.a.minimum"),
        ({"properties": [1]}, "$.properties"),
        ({"required": "a"}, "$.required"),
        ({"allOf": [], "$ref": 3}, "$"),
        ({"pattern": "("}, "$.pattern"),
        ([], "$"),
        (None, "$"),
        ("text", "$"),
        ({"a": object()}, "$"),
        ({"a\ud800": 1}, "$"),
        ({"minimum": float("nan")}, "$.minimum"),
    ],
)
def test_an_invalid_schema_is_refused_with_the_place(schema: Any, path: str) -> None:
    """Checked against the metaschema when it is compiled."""
    assert refused(schema).path.startswith(path)


@pytest.mark.parametrize(
    "dialect",
    [
        "http://json-schema.org/draft-04/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://example.com/mine",
        7,
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_another_dialect_is_refused_and_the_supported_ones_named(
    dialect: Any, *, inside: bool
) -> None:
    """At the root or in an embedded schema."""
    schema: dict[str, Any] = {"$schema": dialect}
    error = refused({"properties": {"a": {"$id": "x", **schema}}} if inside else schema)

    assert error.path == ("$.properties.a.$schema" if inside else "$.$schema")
    assert "draft/2020-12" in error.expected
    assert "draft-07" in error.expected


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
@pytest.mark.parametrize(
    "place",
    [
        lambda ref: ref,
        lambda ref: {"properties": {"a": ref}},
        lambda ref: {"$defs": {"a": ref}},
        lambda ref: {"$defs": {"a": {"anyOf": [True, {"not": ref}]}}, "$ref": "#/$defs/a"},
        lambda ref: {"$id": "{base}/root", **ref},
        lambda ref: {"$schema": DRAFT7, "dependencies": {"a": ref}, "definitions": {"b": ref}},
        lambda ref: {"patternProperties": {"a": {"items": [ref]}}},
        lambda ref: {"x-own": ref, "$ref": "#/x-own"},
    ],
)
def test_a_reference_to_the_network_is_refused_and_never_fetched(
    canary: tuple[str, list[str]], keyword: str, place: Any
) -> None:
    """2026-07-28 basic § JSON Schema Usage: wherever it stands, the server is not asked."""
    base, hits = canary
    schema = place({keyword: f"{base}/schema.json"})
    if "$id" in schema:
        schema["$id"] = f"{base}/root"
    error = refused(schema)

    assert "inside this schema" in error.expected
    assert not hits


@pytest.mark.parametrize("keyword", ["const", "default", "examples", "enum", "x-own"])
def test_a_reference_that_is_mere_data_is_let_be(
    canary: tuple[str, list[str]], keyword: str
) -> None:
    """It is no reference, so nothing is refused and nothing fetched."""
    base, hits = canary
    data: Any = {"$ref": f"{base}/x"}
    schema = {keyword: [data] if keyword in {"examples", "enum"} else data}
    compile_schema(schema).check(data)
    compile_schema({"properties": {"$ref": {"type": "string"}}}).check({"$ref": f"{base}/x"})

    assert not hits


@pytest.mark.parametrize(
    "reference",
    [
        "other.json",
        "#/nope",
        "#/$defs/0",
        "#nope",
        "#/allOf/7",
        "#/allOf/x",
        "file:///etc/passwd",
        "http://[::bad",
        "//[x#/a",
        "%zz",
    ],
)
def test_an_unresolved_reference_is_refused(reference: str) -> None:
    """Not treated as permissive."""
    error = refused({"allOf": [{"$ref": reference}], "$defs": {}})

    assert error.path == "$.allOf[0].$ref"


def test_a_reference_that_only_the_library_finds_external_is_not_fetched(
    canary: tuple[str, list[str]],
) -> None:
    """Draft-07 ignores an ``$id`` beside a ``$ref``; the refusing retriever is the last line."""
    base, hits = canary
    inner = {"$id": f"{base}/x", "$ref": "#/definitions/b", "definitions": {"b": True}}
    error = refused(
        {"$schema": DRAFT7, "$ref": f"{base}/x", "definitions": {"a": inner, "b": True}}
    )

    assert error.path == "$"
    assert not hits


def test_a_malformed_reference_below_an_identifier_is_refused() -> None:
    """Joining it to the base fails, which is a refusal like any other."""
    error = refused({"$id": "https://h/s", "properties": {"a": {"$ref": "http://[::bad"}}})

    assert error.path == "$.properties.a.$ref"


def test_what_cannot_be_shown_is_named_by_its_type() -> None:
    """Error messages never fail themselves."""
    endless: list[Any] = []
    endless.append(endless)

    assert clip(endless) == "a list"
    assert clip("\u20ac\n") == '"\\u20ac\\n"'


def test_the_metaschema_is_outside_too() -> None:
    """A reference is inside the document or refused, with no exception."""
    assert "inside this schema" in refused({"$ref": DRAFT2020}).expected


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"$ref": "#"}},
        {"$dynamicAnchor": "x", "$dynamicRef": "#x"},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"if": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_circle_without_progress_is_refused(schema: Any) -> None:
    """It would never descend into the value."""
    assert "refers to itself" in refused(schema).expected


def test_recursion_into_the_value_is_fine() -> None:
    """A tree, a list, and the recursive alternative that JSON itself is."""
    tree = {"required": ["n"], "properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}}
    compile_schema(tree).check({"n": 1, "l": {"n": 2}, "r": {"n": 3, "l": {"n": 4}}})
    dynamic = {
        "$dynamicAnchor": "t",
        "properties": {"c": {"items": {"$dynamicRef": "#t"}}, "n": {"type": "null"}},
    }
    deep: Any = {"n": 1}
    for _ in range(60):
        deep = {"n": None, "c": [deep]}

    assert fault(tree, {"n": 1, "r": {"l": {"n": 1}}}).path == "$.r.n"
    assert fault(dynamic, deep).path == "$" + ".c[0]" * 60 + ".n"


def test_a_schema_too_large_or_too_deep_is_refused() -> None:
    """By nodes, a huge enum included, and by levels."""

    def nested(levels: int) -> dict[str, Any]:
        schema: dict[str, Any] = {}
        for _ in range(levels - 1):
            schema = {"not": schema}
        return schema

    assert "at most 10000 nodes" in refused({"enum": [str(n) for n in range(10_000)]}).expected
    assert "at most 5 nodes" in refused({"enum": [1, 2, 3, 4]}, schema_nodes=5).expected
    assert "at most 9 levels" in refused(nested(10), json_depth=9).expected
    assert "at most 128 levels" in refused(nested(129)).expected
    assert "at most 200 levels" in refused(nested(201), json_depth=1000).expected
    assert "expected a JSON Schema" in refused(nested(50_000)).expected
    compile_schema(nested(128))


def test_references_that_multiply_are_refused() -> None:
    """Forty definitions, each naming the one before twice: a trillion evaluations."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, 41):
        definitions[f"d{n}"] = {"anyOf": [{"$ref": f"#/$defs/d{n - 1}"}] * 2}
    start = time.process_time()
    error = refused({"$ref": "#/$defs/d40", "$defs": definitions})

    assert "after expansion" in error.expected
    assert time.process_time() - start < 1


def test_a_long_chain_of_references_is_refused() -> None:
    """Evaluating it would recurse on the C stack."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, 2000):
        definitions[f"d{n}"] = {"$ref": f"#/$defs/d{n - 1}"}

    assert "nested references" in refused({"$ref": "#/$defs/d1999", "$defs": definitions}).expected


def test_chains_that_meet_count_together() -> None:
    """Measured from where the references begin, whichever part is looked at first."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for n in range(1, 500):
        definitions[f"d{n}"] = {"$ref": f"#/$defs/d{n - 1}"}
    schema = {"anyOf": [{"$ref": "#/$defs/d250"}, {"$ref": "#/$defs/d499"}], "$defs": definitions}

    assert "nested references" in refused(schema).expected


def test_recursion_that_multiplies_with_the_value_is_bounded() -> None:
    """Twice the work for every level of the value: judged before it is begun."""
    ambiguous = {
        "anyOf": [
            {"properties": {"x": {"$ref": "#"}, "y": {"const": n}}, "required": ["y"]}
            for n in range(2)
        ],
        "type": "object",
    }
    value: dict[str, Any] = {"y": 1}
    shallow = {"x": value, "y": 1}
    for _ in range(60):
        value = {"x": value, "y": 1}
    validator = compile_schema(ambiguous)
    validator.check(shallow)
    start = time.process_time()
    with pytest.raises(InvalidMessage, match="in bounded time"):
        validator.check(value)

    assert time.process_time() - start < 1


def test_recursion_through_a_chain_does_not_overflow_the_stack() -> None:
    """The product of chain and depth counts, and a thread with a small stack survives it."""
    definitions: dict[str, Any] = {"d0": {"properties": {"x": {"$ref": "#/$defs/d50"}}}}
    for n in range(1, 51):
        definitions[f"d{n}"] = {"allOf": [{"$ref": f"#/$defs/d{n - 1}"}]}
    validator = compile_schema({"$ref": "#/$defs/d50", "$defs": definitions})
    value: dict[str, Any] = {}
    for _ in range(100):
        value = {"x": value}
    with pytest.raises(InvalidMessage, match="in bounded time"):
        validator.check(value)
    validator.check({"x": {}})


def test_a_deep_value_is_no_danger() -> None:
    """Deeper than anything the wire lets in: refused where the schema looks that far."""
    value: list[Any] = []
    for _ in range(50_000):
        value = [value]
    verdicts = []
    for schema in (
        {"items": {"$ref": "#"}},
        {"type": "array", "items": {"type": "array"}},
        {"const": 1},
    ):
        try:
            compile_schema(schema).check(value)
        except InvalidMessage as error:
            verdicts.append(error.path)
        else:
            verdicts.append("fits")
    while value:  # take it apart without recursion
        value = value[0]

    assert verdicts == ["$", "fits", "$"]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^(a+)+$", "a" * 50_000 + "!"),
        ("^(?=a)(a+)+$", "a" * 50_000 + "!"),
        ("(a*)*\\1b", "a" * 50_000),
        ("^(?:(?=a)a|a)*$", "a" * 50_000 + "!"),
        ("([a-z]+)*=", "x" * 50_000),
    ],
)
def test_hostile_patterns_are_bounded(pattern: str, text: str) -> None:
    """Linear time, or a bounded number of steps where look-around needs backtracking."""
    validator = compile_schema({"pattern": pattern})
    start = time.process_time()
    with pytest.raises(InvalidMessage, match="string matching"):
        validator.check(text)

    assert time.process_time() - start < 1


@pytest.mark.parametrize("pattern", ["(((a{1000}){1000}){1000})", "(?=a)(((a{999}){999}){999})"])
def test_a_pattern_that_unfolds_without_end_is_refused(pattern: str) -> None:
    """When the schema is compiled."""
    error = refused({"properties": {"a": {"pattern": pattern}}})

    assert error.path == "$.properties.a.pattern"
    assert "regular expression" in error.expected


def test_patterns_with_lookaround_work() -> None:
    """Generators of schemas write them, for e-mail addresses above all."""
    schema = {"pattern": r"^(?!\.)(?!.*\.\.)[\w.+-]+@([a-z0-9-]+\.)+[a-z]{2,}$"}
    compile_schema(schema).check("first.last@example.com")

    assert "string matching" in fault(schema, "first..last@example.com").expected


def test_many_faults_in_a_large_value_are_not_all_spelled_out() -> None:
    """Explaining costs more than judging, so it is bounded too."""
    validator = compile_schema({"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}})
    start = time.process_time()
    with pytest.raises(InvalidMessage, match="too large to say where"):
        validator.check([1] * 200_000)

    assert time.process_time() - start < 2


@pytest.mark.parametrize("value", [object(), {"a": {1, 2}}, {1: 2}, "\ud800", float])
def test_what_is_no_json_value_is_refused(value: Any) -> None:
    """An error of ours, not of the library."""
    assert fault({"type": "object", "properties": {"a": {"type": "null"}}}, value).path in {
        "$",
        "$.a",
    }


def test_equal_schemas_share_one_validator() -> None:
    """Compiling is a thousand times the price of checking."""
    first = compile_schema({"type": "object", "title": "shared"})

    assert compile_schema({"type": "object", "title": "shared"}) is first


def test_changing_a_schema_later_changes_nothing() -> None:
    """The validator has its own copy."""
    schema = {"type": "null", "title": "changes"}
    validator = compile_schema(schema)
    schema["type"] = "string"
    validator.check(None)
    with pytest.raises(InvalidMessage):
        validator.check("text")


types = st.sampled_from(["string", "integer", "null", "array", "object", "boolean", "number"])
leaves = st.one_of(
    st.booleans(),
    st.builds(lambda kind: {"type": kind}, types),
    st.builds(lambda low: {"minimum": low}, st.integers(-3, 3)),
    st.builds(lambda size: {"maxLength": size}, st.integers(0, 3)),
    st.builds(lambda value: {"const": value}, st.sampled_from([1, "a", None, [], {}])),
    st.just({"$ref": "#/$defs/leaf"}),
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda each: {"anyOf": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"allOf": each}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda each: {"not": each}, inner),
        st.builds(lambda each: {"items": each}, inner),
        st.builds(lambda each: {"prefixItems": [each], "items": False}, inner),
        st.builds(lambda each: {"properties": {"a": each}, "required": ["a"]}, inner),
        st.builds(lambda each: {"additionalProperties": each}, inner),
    ),
    max_leaves=6,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "a", "abcd"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(schema=schemas, value=json_values)
def test_verdicts_agree_with_the_oracle(schema: Any, value: Any) -> None:
    """Any schema, any value: accepted here if and only if ``jsonschema`` accepts it."""
    whole = {"allOf": [schema], "$defs": {"leaf": {"type": ["string", "array"]}}}
    expected = jsonschema.Draft202012Validator(whole).is_valid(value)
    try:
        compile_schema(whole).check(value)
    except InvalidMessage as error:
        verdict = False
        problems = error.problems
    else:
        verdict = True
        problems = ()

    assert verdict == expected
    assert all(path.startswith("$") for path, _ in problems)
