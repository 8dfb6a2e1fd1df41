"""What the JSON Schema library found wrong, in the words of the constraint and in our paths."""

from __future__ import annotations

from typing import Any, Final

from mcp_trio.schema.paths import at, clip, path_of

__all__ = ["explain"]

_BOUNDS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} elements",
    "maxItems": "at most {} elements",
    "minProperties": "at least {} members",
    "maxProperties": "at most {} members",
}


def explain(error: Any) -> list[tuple[str, str]]:
    """Turn one error of the library into ``(path, expected)``, one for each name it mentions."""
    path, kind = path_of(error.instance_path), error.kind
    match kind.name:
        case "required":
            return [(at(path, kind.property), "missing, but required")]
        case "additionalProperties" | "unevaluatedProperties":
            return [(at(path, name), "not allowed here") for name in kind.unexpected]
        case "falseSchema":
            # Where no member at all is allowed the library names none.
            closed = error.schema_path[-1:] == ["additionalProperties"]
            return [(path, "expected no members" if closed else "not allowed here")]
        case "uniqueItems":
            return [(path, "expected no element twice")]
        case "propertyNames":
            return [(path, f"a member's name: {explain(kind.error)[0][1]}")]
        case name:
            return [(path, f"expected {_wanted(name, error)}, got {_got(name, error.instance)}")]


def _wanted(name: str, error: Any) -> str:
    """Say what the keyword *name* asks for."""
    kind = error.kind
    if name in _BOUNDS:
        return _BOUNDS[name].format(kind.limit)
    match name:
        case "type":
            return " or ".join(kind.types)
        case "enum":
            return f"one of {clip(kind.options)}"
        case "const":
            return clip(kind.expected_value)
        case "multipleOf":
            return f"a multiple of {kind.multiple_of}"
        case "pattern":
            # Without the pattern: it was given up after too many steps.
            shown = clip(kind.pattern) if hasattr(kind, "pattern") else "the pattern in few steps"
            return f"a string matching {shown}"
        case "not":
            return "anything but what the schema excludes"
        case "anyOf" | "oneOf":
            return _alternatives(error)
        case _:
            return f"a value that fits {name}"


def _alternatives(error: Any) -> str:
    """Name the types that alternatives ask for, where that is all that is wrong with each."""
    wanted: dict[str, None] = {}
    for branch in error.kind.context:
        elsewhere = any(each.instance_path != error.instance_path for each in branch)
        if elsewhere or [each.kind.name for each in branch] != ["type"]:
            return f"one of {len(error.kind.context)} alternatives to fit"
        wanted |= dict.fromkeys(branch[0].kind.types)
    return " or ".join(wanted)


def _got(name: str, value: Any) -> str:
    """Say what is there instead, in the terms that the keyword *name* asks for."""
    if name in _BOUNDS and isinstance(value, str | list | tuple | dict):
        return str(len(value))
    return clip(value)
