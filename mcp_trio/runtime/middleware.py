"""Middleware in both directions, composed once; an empty chain costs nothing.

Incoming: ``async def mw(ctx, request, call_next)`` around the handling of each request;
``await call_next(ctx, request)`` goes on inwards and returns the raw result.
Outgoing: ``async def mw(ctx, call, call_next)`` around each call of this side, likewise.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["OutgoingRequest", "compose"]

Handler: TypeAlias = "Callable[[Any, Any], Awaitable[Any]]"


@final
@frozen
class OutgoingRequest:
    """A call that is about to be sent."""

    method: str
    params: dict[str, Any] | None = None
    #: Of a question, where it travels in a result; see `Context.elicit`.
    key: str | None = None


def compose(middleware: Sequence[Callable[..., Awaitable[Any]]], innermost: Handler) -> Handler:
    """Return *innermost* wrapped in *middleware*, the first one outermost."""
    handler = innermost
    for layer in reversed(middleware):
        handler = partial(_through, layer, handler)
    return handler


async def _through(
    layer: Callable[..., Awaitable[Any]], call_next: Handler, ctx: Any, request: Any
) -> Any:
    return await layer(ctx, request, call_next)
