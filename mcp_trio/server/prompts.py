"""Prompts, and the completion of their arguments and of template variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import evolve

from mcp_trio.errors import ErrorCode, InvalidMessage, Refusal
from mcp_trio.schema import describe
from mcp_trio.types import (
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from .invoke import Invocation, call_any, own_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp_trio.runtime.context import Context

__all__ = ["PromptEntry", "complete"]


class PromptEntry:
    """A prompt whose arguments come from its function's signature."""

    __slots__ = ("_invocation", "definition")

    def __init__(self, fn: Callable[..., Any], definition: dict[str, Any]) -> None:
        self._invocation = Invocation(fn)
        schema = self._invocation.arguments.schema
        required = schema.get("required", ())
        arguments = tuple(
            PromptArgument(
                name=name, description=each.get("description"), required=name in required
            )
            for name, each in schema["properties"].items()
        )
        definition.setdefault("description", describe(fn))
        self.definition: Final = Prompt(arguments=arguments or None, **definition)

    async def get(self, ctx: Context[Any], arguments: Mapping[str, str] | None) -> dict[str, Any]:
        """Fill the prompt in and return the raw result of ``prompts/get``."""
        try:
            bound = self._invocation.bind(arguments, strict=False)
        except InvalidMessage as exc:
            text = f"invalid arguments for {self.definition.name}: {exc}"
            raise Refusal(ErrorCode.INVALID_PARAMS, text) from None
        with own_fault():
            value = await self._invocation(ctx, bound)
            if not isinstance(value, GetPromptResult):
                parts = value if isinstance(value, list | tuple) else (value,)
                value = GetPromptResult(
                    messages=tuple(_message(part) for part in parts),
                    description=self.definition.description,
                )
            raw: dict[str, Any] = ctx.peer.codec.unstructure(value)
        return raw


def _message(value: Any) -> PromptMessage:
    if isinstance(value, PromptMessage):
        return value
    if isinstance(value, str):
        return PromptMessage(role="user", content=TextContent(text=value))
    return PromptMessage(role="user", content=value)


async def complete(
    ctx: Context[Any],
    params: CompleteRequestParams,
    completer: Callable[..., Any],
    most: int,
) -> dict[str, Any]:
    """Run *completer* and return the raw result of ``completion/complete``.

    Source: 2025-11-25 server/utilities/completion: at most 100 values, best first.
    """
    settled = params.context.arguments if params.context is not None else None
    value = await call_any(ctx, completer, ctx, params.argument.value, settled or {})
    if not isinstance(value, Completion):
        values = tuple(value)
        value = Completion(values=values, total=len(values), has_more=False)
    if len(value.values) > most:
        value = evolve(value, values=value.values[:most], has_more=True)
    raw: dict[str, Any] = ctx.peer.codec.unstructure(CompleteResult(completion=value))
    return raw
