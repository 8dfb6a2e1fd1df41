"""A tool's return annotation as an output schema, and its results as JSON."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Never, NoReturn, final

import attrs
import msgspec
from attrs import field, frozen

from mcp_trio.schema.paths import at, clip
from mcp_trio.schema.shapes import (
    adapter_for,
    explain,
    explain_foreign,
    foreign_refusal,
    json_schemas,
)
from mcp_trio.schema.signature import annotation_of

__all__ = ["Output", "output_of", "return_annotation"]

_SAYS_NOTHING: Final = (None, type(None), Any, object, NoReturn, Never, inspect.Signature.empty)
_PROBLEMS: Final = 10


@final
@frozen(kw_only=True)
class Output:
    """What a tool returns: its JSON Schema, and how a Python value becomes JSON.

    Attributes:
        schema: the JSON Schema 2020-12 of the bare value.
        wrapped: the value is no JSON object, so revisions before 2026-07-28 need it as
            ``{"result": value}``.
    """

    schema: dict[str, Any]
    wrapped: bool
    _kind: Any = field(repr=False)
    _adapter: Any = field(repr=False)

    def encode(self, value: Any) -> Any:
        """Return *value* in the types that JSON has, after checking that it fits.

        Raises:
            TypeError: it holds an object that JSON has no form for; names where.
            ValueError: it does not fit the annotation, or holds NaN, Infinity, a lone
                surrogate or itself; names where.
        """
        if self._adapter is not None:
            return _plain(self._dump(value))
        plain = _plain(value)
        try:
            msgspec.convert(plain, self._kind, strict=True, str_keys=True)
        except msgspec.ValidationError as error:
            raise ValueError(": ".join(explain(error, self.schema))) from None
        return plain

    def _dump(self, value: Any) -> Any:
        """Let pydantic check *value* and turn it into JSON types."""
        try:
            checked = self._adapter.validate_python(value)
            return self._adapter.dump_python(checked, mode="json")
        except foreign_refusal() as error:
            problems = explain_foreign(error, most=_PROBLEMS)
            raise ValueError("; ".join(map(": ".join, problems))) from None


def output_of(annotation: Any) -> Output | None:
    """Return how values of *annotation* leave as JSON; None if it says nothing about them.

    ``None``, ``Any``, ``object``, ``NoReturn`` and a missing annotation say nothing.
    *annotation* is already resolved; ``return_annotation`` does that.

    Raises:
        TypeError: *annotation* cannot be described in JSON.
    """
    if any(annotation is nothing for nothing in _SAYS_NOTHING):
        return None
    adapter = adapter_for(annotation, "the return annotation")
    (schema,), definitions = json_schemas([annotation], [adapter], "serialization")
    texts = [extra for extra in getattr(annotation, "__metadata__", ()) if isinstance(extra, str)]
    if texts:
        schema.setdefault("description", texts[0])
    whole = _flatten(schema, definitions)
    return Output(
        schema=whole, wrapped=whole.get("type") != "object", kind=annotation, adapter=adapter
    )


def return_annotation(fn: Callable[..., Any]) -> Any:
    """Return the resolved return annotation of *fn*, ``Any`` if there is none.

    Raises:
        TypeError: it names something that cannot be found at run time.
    """
    return annotation_of(fn, "return", inspect.signature(fn).return_annotation)


def _flatten(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace a ``$ref`` at the top by what it names, and keep the definitions still needed."""
    reference = schema.pop("$ref", None)
    if reference is not None:
        name = reference.rpartition("/")[2]
        schema = {**definitions[name], **schema}
        if f'"{reference}"'.encode() not in msgspec.json.encode(definitions):
            definitions = {key: each for key, each in definitions.items() if key != name}
    return {**schema, "$defs": definitions} if definitions else schema


def _plain(value: Any) -> Any:
    """Return *value* in builtin types, or raise what ``Output.encode`` promises."""
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_model_dump)
        encoded = msgspec.json.encode(plain)
    except RecursionError:
        raise ValueError("$: nested too deeply, or inside itself") from None
    except (TypeError, ValueError, NotImplementedError):
        _refuse_unencodable(value, "$")
        raise
    # msgspec writes null for NaN and Infinity, so only then is a closer look due.
    if b"null" in encoded:
        _refuse_unencodable(plain, "$")
    return plain


def _model_dump(value: Any) -> Any:
    """Encode a pydantic model inside something that is none."""
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"a {type(value).__name__} has no JSON form")
    return dump(mode="json")


def _refuse_unencodable(value: Any, path: str) -> None:
    """Raise for the first thing in *value* that JSON cannot hold."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{path}: {value} has no JSON form")
    elif isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"{path}: lone surrogate in {clip(value)}")
    elif isinstance(value, Mapping):
        for key, each in value.items():
            _refuse_unencodable(key, at(path, str(key)))
            _refuse_unencodable(each, at(path, str(key)))
    elif isinstance(value, list | tuple | set | frozenset):
        for index, each in enumerate(value):
            _refuse_unencodable(each, at(path, index))
    elif dataclasses.is_dataclass(value) or attrs.has(type(value)):
        names = getattr(value, "__dataclass_fields__", None) or attrs.fields_dict(type(value))
        for name in names:
            _refuse_unencodable(getattr(value, name, None), at(path, name))
    else:
        _refuse_other(value, path)


def _refuse_other(value: Any, path: str) -> None:
    """Raise if msgspec has no form for a *value* that holds no others we can look into."""
    try:
        msgspec.to_builtins(value, str_keys=True, enc_hook=_model_dump)
    except (TypeError, NotImplementedError):
        raise TypeError(f"{path}: a {type(value).__name__} has no JSON form") from None
