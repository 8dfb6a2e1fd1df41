"""JSON Schemas that somebody else wrote, enforced within bounds and without the network.

jsonschema-rs evaluates. Left alone it would fetch a ``$ref`` from the network, follow
references as long as they multiply, and backtrack in patterns; so here it gets a retriever
that refuses, a schema whose references have been followed first (``graph``), and a regular
expression engine that takes linear time, or a bounded one for patterns with lookaround.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import msgspec
from attrs import field, frozen

from mcp_trio.errors import InvalidMessage
from mcp_trio.limits import Limits
from mcp_trio.schema import graph
from mcp_trio.schema.paths import clip, path_of
from mcp_trio.schema.words import explain

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["Validator", "compile_schema"]

_DEFAULT_LIMITS: Final = Limits()
_PROBLEMS: Final = 10
# jsonschema-rs stops at 255; nesting in a schema is twice that in the values it describes.
_SCHEMA_DEPTH: Final = 200
# Naming faults costs the library some 10 us for each, against some 10 ns for finding one.
_EXPLAINABLE: Final = 100_000
# Compiled size of one pattern: what a counted repetition may unfold to.
_PATTERN_BYTES: Final = 64 * 1024
_BACKTRACKS: Final = 5_000
_BACKTRACKING_WEIGHT: Final = 100
# Larger schemas are compiled each time, so that the cache stays small.
_CACHED_BYTES: Final = 64 * 1024


@final
@frozen(kw_only=True)
class Validator:
    """A compiled schema. Made by ``compile_schema``."""

    _compiled: jsonschema_rs.Validator = field(repr=False)
    _graph: graph.Node | None = field(repr=False)
    _grows: bool = field(repr=False)

    def check(self, value: Any) -> None:
        """Return if *value* fits the schema.

        Raises:
            InvalidMessage: it does not, or finding out would cost too much. ``path`` names
                the first place, ``problems`` up to ten.
        """
        if self._grows and self._cost(value) is None:
            raise InvalidMessage("$", "expected a value that this schema can check in bounded time")
        try:
            if self._compiled.is_valid(value):
                return
            problems = self._problems(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidMessage("$", f"expected a JSON value ({clip(str(error))})") from None
        raise InvalidMessage(*problems[0], problems=problems)

    def _cost(self, value: Any) -> int | None:
        return 1 if self._graph is None else graph.cost(self._graph, value)

    def _problems(self, value: Any) -> tuple[tuple[str, str], ...]:
        """Say what is wrong with *value*, which does not fit."""
        found = self._cost(value)
        if found is None or found > _EXPLAINABLE:
            return (("$", "does not fit the schema; the value is too large to say where"),)
        problems: list[tuple[str, str]] = []
        for error in self._compiled.iter_errors(value):
            problems += explain(error)
            if len(problems) >= _PROBLEMS:
                break
        return tuple(problems[:_PROBLEMS])


def compile_schema(
    schema: Mapping[str, Any] | bool,  # noqa: FBT001 - true and false are schemas
    *,
    limits: Limits = _DEFAULT_LIMITS,
) -> Validator:
    """Compile *schema*, a JSON Schema 2020-12, or draft-07 where its ``$schema`` says so.

    References must stay inside the document; nothing is ever fetched. ``format`` is an
    annotation. Equal schemas share one validator.

    Raises:
        InvalidMessage: *schema* is invalid, of another dialect, refers outside itself or in
            circles, or is larger or deeper than *limits* allow; ``path`` names where.
    """
    try:
        encoded = msgspec.json.encode(schema, enc_hook=_plain_mapping)
        build = _compile_cached if len(encoded) <= _CACHED_BYTES else _compile
        return build(encoded, limits.schema_nodes, min(limits.json_depth, _SCHEMA_DEPTH))
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise InvalidMessage("$", f"expected a JSON Schema ({clip(str(error))})") from None


def _plain_mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} in it")


def _compile(encoded: bytes, most_nodes: int, deepest: int) -> Validator:
    """Compile the schema in *encoded*; a private copy, so that nobody changes it later."""
    document = msgspec.json.decode(encoded)
    _refuse_oversize(document, most_nodes, deepest)
    if isinstance(document, bool):
        return Validator(compiled=_jsonschema(document, _linear())[0], graph=None, grows=False)
    if not isinstance(document, dict):
        raise InvalidMessage("$", f"expected a JSON Schema, got {clip(document)}")
    # References first: the library is not to see one that leaves the document.
    root, grows = graph.build(document, most=most_nodes, pattern_weight=1)
    compiled, fault = _jsonschema(document, _linear())
    if compiled is None and "pattern" in path_of(fault.instance_path):
        compiled, fault = _jsonschema(document, _backtracking())
        root, grows = graph.build(
            document, most=most_nodes * _BACKTRACKING_WEIGHT, pattern_weight=_BACKTRACKING_WEIGHT
        )
    if compiled is None:
        raise InvalidMessage(path_of(fault.instance_path), _explain_schema(fault))
    return Validator(compiled=compiled, graph=root, grows=grows)


_compile_cached = functools.lru_cache(maxsize=_DEFAULT_LIMITS.schemas)(_compile)


def _refuse_oversize(document: Any, most_nodes: int, deepest: int) -> None:
    """Count the values in *document* and how deep they are nested."""
    level, count, depth = [document], 0, 0
    while level:
        count, depth = count + len(level), depth + 1
        if count > most_nodes:
            raise InvalidMessage("$", f"expected a schema of at most {most_nodes} nodes")
        if depth > deepest:
            raise InvalidMessage("$", f"expected a schema of at most {deepest} levels")
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]


def _jsonschema(document: Any, patterns: Any) -> tuple[Any, Any]:
    """Return the library's validator, or None and its error."""
    import jsonschema_rs  # noqa: PLC0415 - 10 ms that only users of foreign schemas pay

    dialect = document.get("$schema", "") if isinstance(document, dict) else ""
    draft7 = "draft-07" in dialect
    kind = jsonschema_rs.Draft7Validator if draft7 else jsonschema_rs.Draft202012Validator
    try:
        compiled = kind(
            document, validate_formats=False, retriever=_refuse_to_fetch, pattern_options=patterns
        )
    except jsonschema_rs.ValidationError as error:
        return None, error
    return compiled, None


def _linear() -> Any:
    import jsonschema_rs  # noqa: PLC0415 - as above

    return jsonschema_rs.RegexOptions(size_limit=_PATTERN_BYTES)


def _backtracking() -> Any:
    """Return the engine for lookaround and back-references, as some generators write them."""
    import jsonschema_rs  # noqa: PLC0415 - as above

    return jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS, size_limit=_PATTERN_BYTES)


def _refuse_to_fetch(uri: str) -> NoReturn:
    # 2026-07-28 basic § JSON Schema Usage: a $ref to the network MUST NOT be followed.
    raise ValueError(f"no schema is ever fetched: {uri}")


def _explain_schema(error: Any) -> str:
    """Say what is wrong with a schema that the library refused."""
    if error.kind.name in {"format", "pattern"}:
        return f"expected a regular expression within bounds, got {clip(error.instance)}"
    (_, expected), *_ = explain(error)
    return expected
