"""Tools: from a function to its definition, and from its return value to a result."""

from __future__ import annotations

import functools
import logging
import re
import types
import warnings
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec
from attrs import evolve

from mcp_trio.errors import CapabilityMissing, ErrorCode, InvalidMessage, Refusal
from mcp_trio.schema import Output, compile_schema, describe, output_of, return_annotation
from mcp_trio.types import (
    UNSET,
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    Tool,
)
from mcp_trio.wire.http_routing import read_annotations
from mcp_trio.wire.revisions import Feature

from .invoke import Invocation, short_reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_trio.limits import Limits
    from mcp_trio.runtime.context import Context
    from mcp_trio.wire.revisions import Revision

__all__ = ["RawTool", "TypedTool"]

_log: Final = logging.getLogger("mcp_trio.server")

_CONTENT: Final = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource)
# 2025-11-25 server/tools § Tool Names: SHOULD, so another name is a warning and no refusal.
_NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")

JsonObject: TypeAlias = dict[str, Any]

_output_of_type: Final[Any] = functools.lru_cache(maxsize=256)(output_of)


def check_name(name: str, taken: Mapping[str, Any], what: str) -> None:
    """Refuse an empty or duplicate *name*."""
    if not name:
        raise ValueError(f"a {what} needs a name")
    if name in taken:
        raise ValueError(f"there is a {what} named {name!r} already")


def warn_of_name(name: str, *, stacklevel: int) -> None:
    """Warn of a tool's *name* that not every host takes."""
    if not _NAME.fullmatch(name):
        warnings.warn(
            f"the tool name {name!r} is outside [A-Za-z0-9_.-]{{1,128}}; some hosts refuse it",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def _missing_capability(exc: BaseException) -> CapabilityMissing | None:
    """Return what a handler needs of its client and does not get; the first of several."""
    if isinstance(exc, CapabilityMissing):
        return exc
    for inner in exc.exceptions if isinstance(exc, BaseExceptionGroup) else ():
        found = _missing_capability(inner)
        if found is not None:
            return found
    return None


def failed(text: str) -> JsonObject:
    """Return the raw result that says a tool failed."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


class _AnyTool(ABC):
    """What typed and raw tools have in common: bad arguments, and failures, by the revision."""

    __slots__ = ("_annotated", "_wrapped", "definition")

    def __init__(self, definition: Tool) -> None:
        self.definition = definition
        try:
            self._annotated = read_annotations(definition.input_schema)
        except ValueError as exc:
            # 2026-07-28 server/tools § Custom Headers: clients would drop the tool
            raise InvalidMessage("$.inputSchema", f"without this fault: {exc}") from None
        schema = definition.output_schema
        self._wrapped = (
            None
            if schema is None or schema.get("type") == "object"
            else evolve(definition, output_schema=_wrap_schema(schema))
        )

    @property
    def annotated(self) -> Mapping[tuple[str, ...], str]:
        """The arguments that HTTP headers repeat, each with the name of its header."""
        return self._annotated

    def definition_for(self, revision: Revision) -> Tool:
        """Return the definition; a result that is no object is wrapped before 2026-07-28."""
        if self._wrapped is None or Feature.BARE_STRUCTURED_CONTENT in revision.features:
            return self.definition
        return self._wrapped

    async def call(self, ctx: Context[Any], arguments: Mapping[str, Any] | None) -> JsonObject:
        """Check *arguments*, run the tool, return its raw result."""
        try:
            bound = self._bind(arguments)
        except InvalidMessage as exc:
            text = f"invalid arguments for {self.definition.name}: {exc}"
            # 2025-11-25 server/tools § Error Handling: the model is to see it and try again.
            if ctx.peer.has_feature(Feature.ARGUMENT_ERRORS_ARE_RESULTS):
                return failed(text)
            raise Refusal(ErrorCode.INVALID_PARAMS, text) from None
        try:
            return self._result(ctx, await self._run(ctx, bound))
        except Refusal:
            raise
        except (Exception, SystemExit) as exc:
            missing = _missing_capability(exc)
            # 2026-07-28 basic § Missing Required Client Capability: an error of its own, -32021
            if missing is not None and ctx.peer.has_feature(Feature.ENVELOPE):
                raise missing from exc
            return self._failed(exc)

    def _failed(self, exc: BaseException) -> JsonObject:
        _log.error("the tool %s failed", self.definition.name, exc_info=exc)
        return failed(f"{self.definition.name} failed: {short_reason(exc)}")

    @abstractmethod
    def _bind(self, arguments: Mapping[str, Any] | None) -> Any:
        """Return checked arguments, or raise `InvalidMessage`."""

    @abstractmethod
    async def _run(self, ctx: Context[Any], bound: Any) -> Any:
        """Call the handler."""

    @abstractmethod
    def _result(self, ctx: Context[Any], value: Any) -> JsonObject:
        """Return the raw result for what the handler returned."""


class TypedTool(_AnyTool):
    """A tool whose schemas come from its function's signature."""

    __slots__ = ("_invocation", "_output")

    def __init__(self, fn: Callable[..., Any], definition: dict[str, Any]) -> None:
        self._invocation = Invocation(fn)
        annotation = return_annotation(fn)
        self._output: Output | None = None if _is_content(annotation) else output_of(annotation)
        definition.setdefault("description", describe(fn))
        output = self._output
        super().__init__(
            Tool(
                input_schema=self._invocation.arguments.schema,
                output_schema=output.schema if output else None,
                **definition,
            )
        )

    def _bind(self, arguments: Mapping[str, Any] | None) -> Any:
        return self._invocation.bind(arguments)

    async def _run(self, ctx: Context[Any], bound: Any) -> Any:
        return await self._invocation(ctx, bound)

    def _result(self, ctx: Context[Any], value: Any) -> JsonObject:
        if self._output is None:
            return content_result(ctx, value)
        plain = self._output.encode(value)
        return _structured(ctx, plain, wrapped=self._output.wrapped)


class RawTool(_AnyTool):
    """A tool with schemas given as JSON; its handler takes the arguments as they came."""

    __slots__ = ("_checks_input", "_checks_output", "_handler")

    def __init__(
        self,
        definition: Tool,
        handler: Callable[[Context[Any], JsonObject], Awaitable[Any]],
        limits: Limits,
    ) -> None:
        # 2025-11-25 server/tools § Tool: the root of an inputSchema is of type object.
        if definition.input_schema.get("type") != "object":
            raise InvalidMessage("$.inputSchema.type", "'object', and required")
        super().__init__(definition)
        self._handler = handler
        self._checks_input = compile_schema(definition.input_schema, limits=limits)
        schema = definition.output_schema
        self._checks_output = None if schema is None else compile_schema(schema, limits=limits)

    def _bind(self, arguments: Mapping[str, Any] | None) -> Any:
        given = {} if arguments is None else arguments
        self._checks_input.check(given)
        return given

    async def _run(self, ctx: Context[Any], bound: Any) -> Any:
        return await self._handler(ctx, bound)

    def _result(self, ctx: Context[Any], value: Any) -> JsonObject:
        checks = self._checks_output
        if checks is None or (isinstance(value, CallToolResult) and value.is_error):
            return content_result(ctx, value)
        whole = isinstance(value, CallToolResult)
        plain = value.structured_content if whole else _plain(value)
        try:
            checks.check(plain)
        except InvalidMessage as exc:
            raise ValueError(f"the result does not fit its outputSchema: {exc}") from None
        wrapped = self._wrapped is not None
        if whole:
            return _written(ctx, value, wrapped=wrapped)
        return _structured(ctx, plain, wrapped=wrapped)


# ---------------------------------------------------------------- results


def content_result(ctx: Context[Any], value: Any) -> JsonObject:
    """Return the raw result for *value*, whose type is known only now."""
    if type(value) is str:
        return {"content": [{"type": "text", "text": value}]}
    if value is None:
        return {"content": []}
    if isinstance(value, _CONTENT):
        value = (value,)
    if isinstance(value, list | tuple) and any(isinstance(item, _CONTENT) for item in value):
        blocks = tuple(TextContent(text=v) if isinstance(v, str) else v for v in value)
        value = CallToolResult(content=blocks)
    if isinstance(value, CallToolResult):
        data = value.structured_content
        return _written(ctx, value, wrapped=data is not UNSET and not isinstance(data, dict))
    plain = _plain(value)
    return _structured(ctx, plain, wrapped=not isinstance(plain, dict))


def _plain(value: Any) -> Any:
    """Return *value* as JSON; its type is all there is to go by."""
    output: Output | None = _output_of_type(type(value))
    return value if output is None else output.encode(value)


def _written(ctx: Context[Any], result: CallToolResult, *, wrapped: bool) -> JsonObject:
    """Return the raw form of a result that the handler has made itself."""
    if wrapped and not ctx.peer.has_feature(Feature.BARE_STRUCTURED_CONTENT):
        result = evolve(result, structured_content={"result": result.structured_content})
    raw: JsonObject = ctx.peer.codec.unstructure(result)
    return raw


def _structured(ctx: Context[Any], plain: Any, *, wrapped: bool) -> JsonObject:
    """Structured content, and the same as text for clients that know only that.

    2025-06-18 server/tools § Structured Content.
    """
    text = plain if type(plain) is str else msgspec.json.encode(plain).decode()
    raw: JsonObject = {"content": [{"type": "text", "text": text}]}
    peer = ctx.peer
    if peer.has_feature(Feature.STRUCTURED_CONTENT):
        bare = not wrapped or peer.has_feature(Feature.BARE_STRUCTURED_CONTENT)
        raw["structuredContent"] = plain if bare else {"result": plain}
    return raw


def _wrap_schema(schema: Mapping[str, Any]) -> JsonObject:
    """Return the schema of ``{"result": value}``; what has to be at the root stays there."""
    at_root = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in at_root}
    return {
        "type": "object",
        "properties": {"result": inner},
        "required": ["result"],
        **at_root,
    }


def _is_content(annotation: Any) -> bool:
    """Tell whether an annotation speaks of text or content, which need no schema."""
    if {*_CONTENT, CallToolResult}.intersection(_parts(annotation, within=(list, tuple))):
        return True
    return {str, type(None)}.issuperset(_parts(annotation))


def _parts(annotation: Any, within: tuple[Any, ...] = ()) -> list[Any]:
    """Return what a union is made of; with *within* also what such collections hold."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _parts(args[0], within)
    if origin in (Union, types.UnionType, *within):
        return [part for each in args for part in _parts(each, within)]
    return [annotation]
