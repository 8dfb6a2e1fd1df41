"""Calling a user's function: bound arguments, the injected context, sync ones in threads."""

from __future__ import annotations

import inspect
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_origin

import trio

from mcp_trio.runtime.context import Context
from mcp_trio.schema import arguments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Invocation", "short_reason"]


def is_context(annotation: Any) -> bool:
    """Tell whether a parameter of this annotation is given the request's context."""
    kind = get_origin(annotation) or annotation
    return isinstance(kind, type) and issubclass(kind, Context)


class Invocation:
    """A user's function, ready to be called with JSON arguments.

    Attributes:
        arguments: its schema and binder.
    """

    __slots__ = ("_fn", "_injected", "_positional", "_sync", "arguments")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn
        self.arguments: Final = arguments_of(fn, skip=is_context)
        self._injected = self.arguments.injected
        self._positional = bool(self.arguments.positional)
        self._sync = not _is_async(fn)

    async def __call__(self, ctx: Context[Any], values: dict[str, Any]) -> Any:
        """Call the function with bound *values* and return what it returns.

        A sync function runs in a worker thread; when the request is cancelled the thread is
        abandoned, and its slot counts until it ends.
        """
        for name in self._injected:
            values[name] = ctx
        args: tuple[Any, ...] = ()
        if self._positional:
            args, values = self.arguments.split(values)
        if not self._sync:
            return await self._fn(*args, **values)
        return await trio.to_thread.run_sync(
            partial(self._fn, *args, **values),
            limiter=ctx.session.threads,  # type: ignore[arg-type]  # it has the two methods that are used
            abandon_on_cancel=True,
        )

    def bind(self, raw: Mapping[str, Any] | None, *, strict: bool = True) -> dict[str, Any]:
        """Return *raw* as the function's arguments; not *strict*, strings become numbers."""
        return self.arguments.bind(raw, strict=strict)


def _is_async(fn: Callable[..., Any]) -> bool:
    while isinstance(fn, partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(
        getattr(fn, "__call__", None)  # noqa: B004 - an object whose __call__ is async
    )


def short_reason(exc: BaseException) -> str:
    """Return one line about what went wrong, without the traceback that goes to the log."""
    if isinstance(exc, BaseExceptionGroup):
        return "; ".join(short_reason(inner) for inner in exc.exceptions[:3])
    text = str(exc).strip().splitlines()
    return f"{type(exc).__name__}: {text[0][:500]}" if text else type(exc).__name__
