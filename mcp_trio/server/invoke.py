"""Calling a user's function: bound arguments, the injected context, sync ones in threads."""

from __future__ import annotations

import inspect
import types
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

import trio

from mcp_trio.errors import InvalidMessage
from mcp_trio.runtime.context import Context
from mcp_trio.schema import arguments_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["Invocation", "call_any", "name_of", "own_fault", "short_reason"]


def is_context(annotation: Any) -> bool:
    """Tell whether a parameter of this annotation is given the request's context.

    ``Context | None`` is one too: a function that can also be called without a server.
    """
    kind = get_origin(annotation) or annotation
    if kind is Annotated:
        return is_context(get_args(annotation)[0])
    if kind is Union or kind is types.UnionType:
        return any(is_context(part) for part in get_args(annotation))
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
        """Call the function with bound *values* and return what it returns."""
        for name in self._injected:
            values[name] = ctx
        args: tuple[Any, ...] = ()
        if self._positional:
            args, values = self.arguments.split(values)
        if not self._sync:
            return await self._fn(*args, **values)
        return await _call_in_thread(ctx, partial(self._fn, *args, **values))

    def bind(self, raw: Mapping[str, Any] | None, *, strict: bool = True) -> dict[str, Any]:
        """Return *raw* as the function's arguments; not *strict*, strings become numbers."""
        return self.arguments.bind(raw, strict=strict)


async def call_any(ctx: Context[Any], fn: Callable[..., Any], *args: Any) -> Any:
    """Call *fn*, async or sync, and return what it returns."""
    if _is_async(fn):
        return await fn(*args)
    return await _call_in_thread(ctx, partial(fn, *args))


async def _call_in_thread(ctx: Context[Any], fn: Callable[[], Any]) -> Any:
    """Call a sync function in a worker thread; what it returns is awaited if it can be.

    When the request is cancelled the thread is abandoned, and its slot counts until it ends.
    """
    # In a tuple: from a sync wrapper around an async function comes an awaitable.
    (value,) = await trio.to_thread.run_sync(
        lambda: (fn(),),
        limiter=ctx.session.threads,  # type: ignore[arg-type]  # it has the two methods that are used
        abandon_on_cancel=True,
    )
    return await value if inspect.isawaitable(value) else value


@contextmanager
def own_fault() -> Iterator[None]:
    """What does not fit in here is the handler's fault: an internal error, no bad request."""
    try:
        yield
    except InvalidMessage as exc:
        raise ValueError(str(exc)) from exc


def name_of(fn: Callable[..., Any]) -> str:
    """Return the name of a function, behind partials; of a callable object, its class's."""
    while isinstance(fn, partial):
        fn = fn.func
    return getattr(fn, "__name__", type(fn).__name__)


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
    reason = f"{type(exc).__name__}: {text[0][:500]}" if text else type(exc).__name__
    # The name of a file may hold lone surrogates, which JSON cannot.
    return reason.encode("utf-8", "replace").decode()
