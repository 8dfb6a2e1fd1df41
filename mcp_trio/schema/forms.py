"""Forms for elicitation: flat JSON schemas of plain fields, from a class or as given.

Source: 2025-06-18 client/elicitation § Requested Schema; 2025-11-25 adds defaults and
choices of several values.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, final, get_type_hints

import msgspec
from attrs import field, frozen

from mcp_trio.errors import InvalidMessage
from mcp_trio.schema.shapes import (
    adapter_for,
    explain,
    explain_foreign,
    in_declared_order,
    json_schemas,
)
from mcp_trio.schema.validate import compile_schema
from mcp_trio.wire.revisions import Feature, Revision

__all__ = ["Form", "form_of"]

#: The members that a field of each type may have (2025-11-25 schema, PrimitiveSchemaDefinition).
_SHARED: Final = ("title", "description", "default")
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "format", "enum", "enumNames", "oneOf"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": (),
    "array": ("minItems", "maxItems", "items"),
}
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


@final
@frozen(kw_only=True)
class Form:
    """A form to ask for, and how what was filled in becomes a Python value."""

    schema: dict[str, Any]
    _kind: Any = field(repr=False)
    _adapter: Any = field(repr=False)

    def schema_for(self, revision: Revision) -> dict[str, Any]:
        """Return the form as *revision* can show it.

        Raises:
            InvalidMessage: a field lets the user choose several values, which *revision* cannot.
        """
        if Feature.RICH_FORMS in revision.features:
            return self.schema
        shown = {}
        for name, each in self.schema["properties"].items():
            if each["type"] == "array":
                raise InvalidMessage(f"$.{name}", f"a choice of several is unknown to {revision}")
            plain = each["type"] == "boolean"
            shown[name] = {k: v for k, v in each.items() if plain or k != "default"}
        return {**self.schema, "properties": shown}

    def read(self, content: Mapping[str, Any]) -> Any:
        """Return what was filled in as an instance of the form's class, or as it came.

        Raises:
            InvalidMessage: it does not fit; the path names the field.
        """
        if self._kind is None:
            compile_schema(self.schema).check(content)
            return dict(content)
        try:
            if self._adapter is not None:
                return self._adapter.validate_python(content)
            return msgspec.convert(content, self._kind, strict=True)
        except msgspec.ValidationError as error:
            raise InvalidMessage(*explain(error, self.schema)) from None
        except ValueError as error:  # pydantic's ValidationError is one
            if not hasattr(error, "errors"):
                raise
            problems = explain_foreign(error, most=10)
            raise InvalidMessage(*problems[0], problems=problems) from None


def form_of(form: Any) -> Form:
    """Return the form for a class with plain fields, or for a flat JSON schema.

    Raises:
        TypeError: a field is not plain: text, a number, yes or no, a choice, choices.
    """
    if isinstance(form, Mapping):
        return Form(schema=_flat(dict(form), {}, "the schema"), kind=None, adapter=None)
    return _form_of_class(form)


@functools.lru_cache(maxsize=256)
def _form_of_class(kind: Any) -> Form:
    where = getattr(kind, "__name__", str(kind))
    adapter = adapter_for(kind, where)
    (schema,), definitions = json_schemas([kind], [adapter], "validation")
    flat = _flat(schema, definitions, where)
    hints = get_type_hints(kind, include_extras=True)
    for name, each in flat["properties"].items():
        in_declared_order(each, hints.get(name))
    return Form(schema=flat, kind=kind, adapter=adapter)


def _flat(schema: dict[str, Any], definitions: Mapping[str, Any], where: str) -> dict[str, Any]:
    schema = _resolved(schema, definitions)
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict):
        raise TypeError(f"{where} is no form: it needs an object with named fields")
    properties = {
        name: _plain(each, definitions, f"{where}.{name}")
        for name, each in schema["properties"].items()
    }
    form: dict[str, Any] = {"type": "object", "properties": properties}
    if schema.get("required"):
        form["required"] = list(schema["required"])
    return form


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Follow a reference to its definition, keeping what stands beside it."""
    ref = schema.get("$ref")
    if isinstance(ref, str) and ref.startswith("#/$defs/"):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return {**definitions.get(ref.removeprefix("#/$defs/"), {}), **beside}
    return dict(schema)


def _plain(each: Any, definitions: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return one field as a PrimitiveSchemaDefinition."""
    schema = _optional(_resolved(each, definitions), definitions)
    if "enum" in schema and all(isinstance(value, str) for value in schema["enum"]):
        schema["type"] = "string"
    kind = str(schema.get("type"))
    if kind == "array":
        schema["items"] = _items(_resolved(schema.get("items") or {}, definitions), where)
    if kind not in _MEMBERS or (kind != "string" and "enum" in schema):
        raise TypeError(
            f"{where} is no plain field: a form holds text, numbers, yes or no, and choices of text"
        )
    allowed = (*_SHARED, *_MEMBERS[kind])
    plain = {"type": kind, **{key: schema[key] for key in allowed if key in schema}}
    if plain.get("format") not in _FORMATS:
        plain.pop("format", None)
    if plain.get("default", 0) is None:
        del plain["default"]
    return plain


def _optional(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Strip "or null": a form leaves out what is not filled in."""
    choices = schema.pop("anyOf", None)
    if choices is None:
        if isinstance(schema.get("type"), list):
            schema["type"] = next((t for t in schema["type"] if t != "null"), "null")
        return schema
    values = [c for c in choices if c.get("type") != "null"]
    if len(values) != 1:
        return schema
    return {**_resolved(values[0], definitions), **schema}


def _items(items: dict[str, Any], where: str) -> dict[str, Any]:
    if "anyOf" in items:
        return {"anyOf": items["anyOf"]}
    if not items.get("enum") or not all(isinstance(value, str) for value in items["enum"]):
        raise TypeError(f"{where} is no plain field: a list in a form is a choice of given texts")
    return {"type": "string", "enum": list(items["enum"])}
