"""One field of an elicitation form as a prompt, and what is typed after it as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_trio.errors import InvalidMessage
from mcp_trio.schema import compile_schema

from .values import read_value

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["prompt", "read"]


def prompt(name: str, field: Mapping[str, Any]) -> str:
    """Return what to show: the field, what may be answered, and the default."""
    titles = list(_choices(field).values())
    if titles:
        what = f" ({', '.join(titles)}{'; several with commas' if _many(field) else ''})"
    else:
        what = {"boolean": " (y/n)", "string": ""}.get(field["type"], f" ({field['type']})")
    default = field.get("default")
    shown = "" if default is None else f" [{_show(field, default)}]"
    return f"  {field.get('title') or name}{what}{shown}: "


def read(field: Mapping[str, Any], text: str) -> Any:
    """Return *text* as a value of the field.

    Raises:
        ValueError: it is none; the text says why.
    """
    choices = _choices(field)
    value: Any
    if choices and _many(field):
        value = [_choose(choices, part.strip()) for part in text.split(",") if part.strip()]
    elif choices:
        value = _choose(choices, text)
    else:
        value = read_value(text, frozenset({field["type"]}))
    try:
        compile_schema(field).check(value)
    except InvalidMessage as exc:
        raise ValueError(exc.expected) from None
    return value


def _many(field: Mapping[str, Any]) -> bool:
    return bool(field["type"] == "array")


def _choices(field: Mapping[str, Any]) -> dict[str, str]:
    """Return the values to choose from, with their titles."""
    source = field.get("items", {}) if _many(field) else field
    if "enum" in source:
        values = source["enum"]
        return dict(zip(values, field.get("enumNames") or values, strict=False))
    options = source.get("oneOf") or source.get("anyOf") or ()
    return {option["const"]: option.get("title", option["const"]) for option in options}


def _choose(choices: Mapping[str, str], text: str) -> str:
    for value, title in choices.items():
        if text in (value, title):
            return value
    for value, title in choices.items():
        if text.lower() in (value.lower(), title.lower()):
            return value
    raise ValueError(f"choose from {', '.join(choices.values())}")


def _show(field: Mapping[str, Any], default: Any) -> str:
    choices = _choices(field)
    if isinstance(default, bool):
        return "y" if default else "n"
    if isinstance(default, list):
        return ", ".join(str(choices.get(value, value)) for value in default)
    return choices.get(default, str(default)) if choices else str(default)
