"""Annotations as JSON sees them: msgspec for nearly all, pydantic where the user brought it.

pydantic is never imported here. An annotation can only mention a pydantic class after the
user imported pydantic, so ``sys.modules`` says whether it needs to be considered at all.
"""

from __future__ import annotations

import enum
import re
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, get_origin

import msgspec

from mcp_trio.schema.paths import clip, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "adapter_for",
    "explain",
    "explain_foreign",
    "foreign_refusal",
    "in_declared_order",
    "json_schemas",
]

Mode = Literal["validation", "serialization"]

_REF_TEMPLATE: Final = "#/$defs/{name}"
_LOCATED: Final = re.compile(r"(?s)(?P<what>.*) - at `(?P<path>\$.*)`")
_MISSING: Final = re.compile(r"Object missing required field `(?P<name>\w+)`")
_ENUM: Final = re.compile(r"(?s)Invalid enum value (?P<value>.*)")


def adapter_for(annotation: Any, where: str) -> Any:
    """Return a pydantic ``TypeAdapter`` where *annotation* needs one, else None.

    Raises:
        TypeError: neither msgspec nor pydantic can describe *annotation*; names *where*.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and _mentions_pydantic(annotation):
        return pydantic.TypeAdapter(annotation)
    try:
        msgspec.json.schema_components([annotation])
        # msgspec judges some types only when it builds a decoder for them.
        msgspec.json.Decoder(annotation)
    except Exception as error:
        adapter = pydantic and _adapter_or_none(pydantic, annotation)
        if adapter is None:
            raise TypeError(f"{where} cannot be described in JSON: {_reason(error)}") from error
        return adapter
    return None


def _adapter_or_none(pydantic: Any, annotation: Any) -> Any:
    """Let pydantic describe what msgspec could not, for example a dataclass holding a model."""
    try:
        adapter = pydantic.TypeAdapter(annotation)
        adapter.json_schema()
    except Exception:  # noqa: BLE001 - pydantic's reasons are many; msgspec's error is shown
        return None
    return adapter


def _mentions_pydantic(annotation: Any) -> bool:
    """Tell whether a model, or metadata such as ``Field(ge=1)``, is somewhere in *annotation*."""
    if hasattr(annotation, "__pydantic_core_schema__") or hasattr(annotation, "model_validate"):
        return True
    metadata = getattr(annotation, "__metadata__", ())
    if any(type(extra).__module__.partition(".")[0] == "pydantic" for extra in metadata):
        return True
    return any(_mentions_pydantic(part) for part in get_args(annotation))


def _reason(error: Exception) -> str:
    """Say in one line what msgspec found wrong with a type."""
    text = str(error)
    if "custom types" in text and " - type `" not in text:
        kind = re.search(r"type (<.*>|.*)\Z", text)
        named = kind[1] if kind else "the type"
        return f"{named} is no JSON-like type (use a dataclass, TypedDict, attrs class or model)"
    return text.partition("\n")[0]


def json_schemas(
    types: Sequence[Any], adapters: Sequence[Any], mode: Mode
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return one schema for each of *types*, and the ``$defs`` that they share.

    ``adapters[i]`` is what ``adapter_for`` returned for ``types[i]``.
    """
    plain = [kind for kind, adapter in zip(types, adapters, strict=True) if adapter is None]
    schemas, definitions = msgspec.json.schema_components(plain, ref_template=_REF_TEMPLATE)
    foreign = [adapter for adapter in adapters if adapter is not None]
    foreign_schemas, foreign_definitions = _foreign_schemas(foreign, mode, definitions.keys())
    ours, theirs = iter(schemas), iter(foreign_schemas)
    ordered = [dict(next(ours if adapter is None else theirs)) for adapter in adapters]
    return ordered, {**definitions, **foreign_definitions}


def in_declared_order(schema: Any, annotation: Any) -> None:
    """Put the choices of *schema* in the order in which *annotation* names them.

    msgspec sorts them; whoever shows them wants them as their author wrote them.
    """
    if not isinstance(schema, dict):
        return
    if isinstance(schema.get("enum"), list):
        for values in _choices(annotation):
            if sorted(map(str, values)) == sorted(map(str, schema["enum"])):
                schema["enum"] = list(values)
    for inner in (schema.get("items"), *schema.get("anyOf", ())):
        in_declared_order(inner, annotation)


def _choices(annotation: Any) -> list[tuple[Any, ...]]:
    """Return the values of every Literal and Enum that *annotation* mentions."""
    if get_origin(annotation) is Literal:
        return [get_args(annotation)]
    if isinstance(annotation, enum.EnumMeta):
        return [tuple(member.value for member in annotation)]  # type: ignore[var-annotated]  # of any enum
    return [values for part in get_args(annotation) for values in _choices(part)]


def _foreign_schemas(
    adapters: Sequence[Any], mode: Mode, taken: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return pydantic's schemas and definitions, prefixed where a name is *taken*."""
    if not adapters:
        return [], {}
    inputs = [(index, mode, adapter) for index, adapter in enumerate(adapters)]
    for prefix in ("", "pydantic."):
        template = f"#/$defs/{prefix}{{model}}"
        by_index, document = type(adapters[0]).json_schemas(inputs, ref_template=template)
        definitions = {prefix + name: schema for name, schema in document.get("$defs", {}).items()}
        if not definitions.keys() & taken:
            break
    return [by_index[index, mode] for index in range(len(adapters))], definitions


def explain(error: msgspec.ValidationError, schema: Mapping[str, Any]) -> tuple[str, str]:
    """Turn msgspec's message into ``(path, expected)``; *schema* says what an enum holds."""
    text, path = str(error), "$"
    if located := _LOCATED.fullmatch(text):
        text, path = located["what"], located["path"]
    if missing := _MISSING.fullmatch(text):
        return f"{path}.{missing['name']}", "missing, but required"
    if enum := _ENUM.fullmatch(text):
        allowed = _enum_at(schema, path)
        expected = ", ".join(map(clip, allowed[:20])) if allowed else "the values of the enum"
        return path, f"expected one of {expected}; got {clip(enum['value'].strip(chr(39)))}"
    return path, text[:1].lower() + text[1:].replace("`", "")


def _enum_at(schema: Mapping[str, Any], path: str) -> list[Any]:
    """Return the values allowed at *path*, looked up in *schema* at most one level deep."""
    here = schema
    if name := re.fullmatch(r"\$\.(\w+)", path):
        here = schema.get("properties", {}).get(name[1], {})
    if "$ref" in here:
        here = schema.get("$defs", {}).get(here["$ref"].rpartition("/")[2], {})
    return list(here.get("enum", ()))


def foreign_refusal() -> type[Exception]:
    """Return pydantic's ``ValidationError``; to be asked only where an adapter is at work."""
    kind: type[Exception] = sys.modules["pydantic"].ValidationError
    return kind


def explain_foreign(error: Any, *prefix: str, most: int) -> tuple[tuple[str, str], ...]:
    """Turn a pydantic ``ValidationError`` into ``(path, expected)`` pairs, at most *most*."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple((path_of((*prefix, *each["loc"])), each["msg"]) for each in found[:most])
