"""Running a coroutine in a context of its own, inside a task that goes on afterwards."""

from __future__ import annotations

import contextvars
import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

__all__ = ["in_own_context"]

T = TypeVar("T")


def in_own_context(
    coroutine: Coroutine[Any, Any, T], on_wait: Callable[[], None] | None = None
) -> Awaitable[T]:
    """Run *coroutine* in a copy of the current context: what it sets ends with it.

    A task of its own would have the same, for the price of a task. It stays in the caller's
    task for everything else: cancel scopes, deadlines, exceptions. *on_wait* is called once,
    when it waits for the first time.
    """
    return _step(contextvars.copy_context(), coroutine, on_wait)


@types.coroutine
def _step(
    context: contextvars.Context,
    coroutine: Coroutine[Any, Any, T],
    on_wait: Callable[[], None] | None,
) -> Generator[Any, Any, T]:
    run, step, value = context.run, coroutine.send, None
    while True:
        try:
            trap = run(step, value)
        except StopIteration as stop:
            result: T = stop.value
            return result
        finally:
            value = None  # an exception whose traceback holds this frame, else
        if on_wait is not None:
            on_wait()
            on_wait = None
        try:
            value = yield trap
        except BaseException as exc:  # noqa: BLE001, ASYNC103 - it is the coroutine's to deal with
            step, value = coroutine.throw, exc
        else:
            step = coroutine.send
