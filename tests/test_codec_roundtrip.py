"""Whatever a revision can say survives the wire, and the wire satisfies the official schema."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import attrs
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from jsonschema import (  # type: ignore[import-untyped]  # it has no types of its own
    Draft7Validator,
    Draft202012Validator,
)

from mcp_trio import types
from mcp_trio.codec import codec_for
from mcp_trio.errors import InvalidMessage
from mcp_trio.types._meta import OneOrMany, rule_of
from mcp_trio.types.methods import NOTIFICATIONS, REQUESTS
from tests.spec_files import schema_of

words = st.text("ab ", max_size=4)
# 2026-07-28's JSONValue knows neither null nor fractions (schema.json), so no leaf is one.
leaves = words | st.integers(-9, 9) | st.booleans()
json_objects = st.dictionaries(words, leaves | st.lists(leaves, max_size=2), max_size=2)
object_maps = st.dictionaries(words, json_objects, max_size=2)
string_maps = st.dictionaries(words, words, max_size=2)
object_schemas = st.just({"type": "object"})
numbers = st.integers(-9, 9) | st.floats(-9, 9)

#: Values of the aliases that are read by a function of their own.
SPECIAL: Mapping[str, st.SearchStrategy[Any]] = {
    "CacheScope": st.sampled_from(["public", "private"]),
    "CompletionValues": st.lists(words, max_size=3).map(tuple),
    # schema.json says integer where schema.ts, which is normative, says number.
    "ElicitContent": st.dictionaries(words, leaves, max_size=2),
    "Fraction": st.floats(0, 1),
    "ObjectMap": object_maps,
    "ObjectSchema": object_schemas,
    "StringMap": string_maps,
    "TtlMs": st.integers(0, 9),
}


@cache
def special_kinds() -> dict[Any, st.SearchStrategy[Any]]:
    return {getattr(types, name): strategy for name, strategy in SPECIAL.items()}


def request_metas(revision: str) -> st.SearchStrategy[Any]:
    if revision != types.R2026_07_28:
        return json_objects
    envelope = {types.META_PROTOCOL_VERSION: revision, types.META_CLIENT_CAPABILITIES: {}}
    return json_objects.map(lambda more: {**more, **envelope})


def values_of(kind: Any, revision: str) -> st.SearchStrategy[Any]:
    """Draw values of an annotation, as the revision can say them."""
    simple = {str: words, int: st.integers(-9, 9), float: numbers, bool: st.booleans()}
    if kind in simple:
        return simple[kind]
    if kind is types.RequestMeta:
        return request_metas(revision)
    if kind in special_kinds():
        return special_kinds()[kind]
    if kind is Any:
        return leaves | json_objects
    if hasattr(kind, "__supertype__"):
        return values_of(kind.__supertype__, revision)
    if isinstance(kind, type) and attrs.has(kind):
        return messages(kind, revision)
    return compound_values(kind, revision)


def compound_values(kind: Any, revision: str) -> st.SearchStrategy[Any]:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple:
        return st.lists(values_of(args[0], revision), max_size=2).map(tuple)
    if origin is Mapping:
        if args[1] is Any:
            return json_objects
        return st.dictionaries(words, values_of(args[1], revision), max_size=2)
    if origin is Annotated:
        if isinstance(args[1], OneOrMany) and types.RANK[revision] < args[1].since:
            return values_of(get_args(args[0])[0], revision)
        return values_of(args[0], revision)
    assert origin in {Union, UnionType}, kind
    branches: list[st.SearchStrategy[Any]] = []
    for arg in args:
        if arg is NoneType:
            branches.append(st.none())
        elif arg is types.Unset:
            branches.append(st.just(types.UNSET))
        elif not attrs.has(arg) or types.is_live(arg, types.RANK[revision]):
            branches.append(values_of(arg, revision))
    return st.one_of(branches)


def field_values(cls: type, field: types.WireField, revision: str) -> st.SearchStrategy[Any]:
    name = field.attribute.name
    if (cls, name) == (types.Tool, "output_schema"):
        return st.none() | object_schemas
    if (cls, name) == (types.LegacyTitledEnumSchema, "enum_names"):
        # Without names it is, on the wire, an UntitledSingleSelectEnumSchema.
        return st.lists(words, max_size=2).map(tuple)
    if (cls, name) == (types.SubscriptionsListenResult, "meta"):
        return st.just({types.META_SUBSCRIPTION_ID: 1})
    values = values_of(field.type, revision)
    demanded = field.required and field.attribute.default is None
    return values.filter(lambda value: value is not None) if demanded else values


@cache
def messages(cls: type, revision: str) -> st.SearchStrategy[Any]:
    """Draw instances of *cls* with the fields that the revision has."""
    rule = rule_of(cls)
    built = st.deferred(
        lambda: st.builds(
            cls,
            **{
                field.attribute.name: field_values(cls, field, revision)
                for field in types.fields_at(cls, revision)
            },
        )
    )
    if rule is None:
        return built
    return built.filter(lambda value: rule(value, types.RANK[revision]) is None)


@cache
def classes_of(revision: str) -> list[type]:
    found = [getattr(types, name) for name in types.__all__]
    return [
        cls
        for cls in found
        if isinstance(cls, type) and attrs.has(cls) and types.is_live(cls, types.RANK[revision])
    ]


@cache
def validator_for(revision: str, name: str) -> Any:
    schema = schema_of(revision)
    key = "$defs" if "$defs" in schema else "definitions"
    defs = schema[key]
    if name not in defs:
        return None
    make = Draft202012Validator if key == "$defs" else Draft7Validator
    return make({"$ref": f"#/{key}/{name}", key: defs})


@pytest.mark.parametrize("revision", types.REVISIONS)
@given(data=st.data())
def test_every_message_survives_the_wire(revision: str, data: st.DataObject) -> None:
    """Structuring what was unstructured gives the message back, for every class."""
    cls = data.draw(st.sampled_from(classes_of(revision)))
    value = data.draw(messages(cls, revision))
    codec = codec_for(revision)

    assert codec.structure(codec.unstructure(value), cls) == value


@pytest.mark.parametrize("revision", types.REVISIONS)
@given(data=st.data())
def test_what_is_sent_satisfies_the_official_schema(revision: str, data: st.DataObject) -> None:
    """Every class that the revision's schema defines is valid by it."""
    source = "ext-tasks" if revision == types.R2026_07_28 and data.draw(st.booleans()) else revision
    named = [cls for cls in classes_of(revision) if validator_for(source, cls.__name__)]
    cls = data.draw(st.sampled_from(named))
    raw = codec_for(revision).unstructure(data.draw(messages(cls, revision)))
    if cls.__name__.endswith(("Request", "Notification")) and "jsonrpc" in str(
        validator_for(source, cls.__name__).schema
    ):
        raw = {**raw, "jsonrpc": "2.0", "id": 1}

    errors = [error.message for error in validator_for(source, cls.__name__).iter_errors(raw)]

    assert errors == []


@pytest.mark.parametrize("revision", types.REVISIONS)
@given(data=st.data())
def test_no_revision_shows_a_member_it_does_not_have(revision: str, data: st.DataObject) -> None:
    """A message with the members of another revision is sent without them, at any depth."""
    other = data.draw(st.sampled_from(types.REVISIONS))
    shared = [cls for cls in classes_of(other) if cls in classes_of(revision)]
    cls = data.draw(st.sampled_from(shared))
    value = data.draw(messages(cls, other))
    codec = codec_for(revision)
    try:
        raw = codec.unstructure(value)
        known: Any = codec.structure(raw, cls)
    except InvalidMessage:
        reject()  # a kind of content, or a mandatory member, that the other revision lacks

    assert codec.unstructure(known) == raw
    if cls is not types.GetTaskPayloadResult:  # an open object
        assert set(raw) <= names_at(cls, revision)


def names_at(cls: type, revision: str) -> set[str]:
    names: set[str] = set()
    for field in types.fields_at(cls, revision):
        names |= names_at(types.Task, revision) if field.flat else {field.wire_name}
    return names


@pytest.mark.parametrize("revision", types.REVISIONS)
@given(data=st.data())
def test_params_and_results_survive_by_method(revision: str, data: st.DataObject) -> None:
    """The method table leads to the class that was sent."""
    codec = codec_for(revision)
    live = [s for s in (*REQUESTS.values(), *NOTIFICATIONS.values()) if s.direction(revision)]
    spec = data.draw(st.sampled_from(live))
    params = data.draw(values_of(spec.params, revision))

    assert codec.params(spec.method, codec.unstructure(params)) == params
    if spec.method in REQUESTS:
        result = data.draw(values_of(REQUESTS[spec.method].result, revision))
        assert codec.result(spec.method, codec.unstructure(result)) == result


json_values = st.recursive(
    st.none() | leaves | numbers | st.just("text") | st.just("object"),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                ["type", "text", "content", "name", "tools", "inputSchema", "_meta", "task", "uri"]
            )
            | words,
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("revision", types.REVISIONS)
@given(raw=json_values, data=st.data())
def test_any_json_is_structured_or_refused_with_a_path(
    revision: str, raw: Any, data: st.DataObject
) -> None:
    """Nothing but InvalidMessage comes out, whatever comes in."""
    cls = data.draw(st.sampled_from(classes_of(revision)))
    codec = codec_for(revision)
    problem = None
    try:
        value: Any = codec.structure(raw, cls)
    except InvalidMessage as exc:
        problem = exc
    if problem is None:
        assert codec.structure(codec.unstructure(value), cls) == value
    else:
        assert problem.path.startswith("$")
        assert problem.expected
