"""``key=value`` and ``key:=json``: arguments of a tool as words of a command line.

``key=value`` is text. It becomes a number or yes/no only where the tool's schema wants an
integer, a number or a boolean at that key and no string: a schema that allows both gets the
text as typed. For everything else there is ``key:=json``, which never looks at the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from attrs import frozen

from .outcome import CommandError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Pair", "parse_pairs", "read_value", "typed"]

_WORDS: Final[Mapping[str, bool]] = {
    "true": True,
    "yes": True,
    "y": True,
    "false": False,
    "no": False,
    "n": False,
}


@final
@frozen
class Pair:
    """One argument: what it is called, what was typed, and whether that is JSON."""

    key: str
    text: str
    json: bool


def parse_pairs(words: Sequence[str]) -> tuple[Pair, ...]:
    """Return the arguments of a command line.

    Raises:
        CommandError: a word is none, or a key comes twice.
    """
    pairs: dict[str, Pair] = {}
    for word in words:
        key, equals, text = word.partition("=")
        json = key.endswith(":")
        key = key.removesuffix(":")
        if not equals or not key:
            raise CommandError(f"{word!r} is neither key=value nor key:=json")
        if key in pairs:
            raise CommandError(f"the argument {key} is given twice")
        pairs[key] = Pair(key, text, json)
    return tuple(pairs.values())


def typed(pairs: Sequence[Pair], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as values, by *schema*, the tool's.

    Raises:
        CommandError: one is no JSON, or not of the type that the schema wants.
    """
    properties = schema.get("properties")
    known: Mapping[str, Any] = properties if isinstance(properties, dict) else {}
    values = {}
    for pair in pairs:
        try:
            if pair.json:
                values[pair.key] = _decode(pair.text)
            else:
                values[pair.key] = read_value(pair.text, _types(known.get(pair.key)))
        except ValueError as exc:
            raise CommandError(f"{pair.key}: {exc}") from None
    return values


def read_value(text: str, types: frozenset[str]) -> Any:
    """Return *text* as a value of one of the JSON Schema *types*, as text where that is one.

    Raises:
        ValueError: it is none of these.
    """
    if "string" in types or not types & {"integer", "number", "boolean"}:
        return text
    if "boolean" in types and text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for name, read in (("integer", int), ("number", float)):
        # 3 is a number too, and stays what was typed.
        if name in types or (name == "integer" and "number" in types):
            try:
                return read(text)
            except ValueError:
                continue
    wanted = " or ".join(sorted(types & {"integer", "number", "boolean"}))
    raise ValueError(f"expected {wanted}, not {text!r}")


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ValueError(f"expected JSON, not {text!r}") from None


def _types(schema: Any) -> frozenset[str]:
    """Return the types that a schema allows, as far as it says so at once."""
    if not isinstance(schema, dict):
        return frozenset()
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(name for name in kind if isinstance(name, str))
    choices = schema.get("anyOf") or schema.get("oneOf") or ()
    return frozenset().union(*map(_types, choices)) if isinstance(choices, list) else frozenset()
