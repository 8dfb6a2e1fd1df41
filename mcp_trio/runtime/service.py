"""A background coroutine that lives as long as a block of code, and never hurts it.

What every ``connect_*`` promises: background tasks raise nothing into the block; the block's
own exception leaves bare, the very object, not wrapped in a group; when the block is cancelled
from outside it unwinds first, with its service still alive, and only then is the service
torn down, within its own bounds.
"""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import trio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from .session import Session

__all__ = ["hold_session", "run_beside"]

_log: Final = logging.getLogger("mcp_trio.runtime")

T = TypeVar("T")


class _Status(Generic[T]):
    """A ``task_status`` that is legal under a cancelled scope.

    ``nursery.start`` leaves a child that calls ``started()`` under a cancelled scope where it
    is and waits for its end; a shielded child has none.
    """

    def __init__(self) -> None:
        self.begun: Final = trio.Event()
        self.ended: Final = trio.Event()
        self.value: Any = None

    def started(self, value: T | None = None) -> None:
        """Keep *value* for the block, and let it begin."""
        self.value = value
        self.begun.set()


@asynccontextmanager
async def run_beside(
    run: Callable[..., Awaitable[object]], stop: Callable[[], object]
) -> AsyncIterator[Any]:
    """Run ``run(task_status=...)`` while the block runs; yield what it passes to ``started``.

    At the end of the block *stop* is called and the end of *run*, which must then be near, is
    awaited under a shield. A fault of *run* is logged and hurts nobody.
    """
    status: _Status[Any] = _Status()
    leaving: BaseException | None = None
    async with trio.open_nursery(strict_exception_groups=True) as nursery:
        nursery.start_soon(_run_shielded, run, status)
        with trio.CancelScope(shield=True):  # it begins at once, or has failed
            await status.begun.wait()
        try:
            yield status.value
        except BaseException as exc:  # noqa: BLE001, ASYNC103 - raised again where no nursery wraps it
            leaving = exc
        stop()
        with trio.CancelScope(shield=True):
            await status.ended.wait()
    if leaving is not None:
        try:
            raise leaving
        finally:
            del leaving  # the traceback holds this frame, and the frame would hold the traceback


async def _run_shielded(  # noqa: ASYNC910 - as *run* is
    run: Callable[..., Awaitable[object]], status: _Status[Any]
) -> None:
    with trio.CancelScope(shield=True):  # noqa: ASYNC912 - as *run* is
        try:
            await run(task_status=status)
        except Exception:  # noqa: BLE001 - faults of the background stay there
            _log.exception("a background task failed")
        finally:
            status.begun.set()
            status.ended.set()


def hold_session(session: Session) -> AbstractAsyncContextManager[Session]:
    """Run *session* while the block runs, then close it; see the module's docstring.

    A fault of the connection ends the session and not the block: each waiting call raises
    `SessionLost`. Entering is no checkpoint; leaving takes at most ``limits.drain`` and what
    the transport needs to close.
    """
    return run_beside(session.run, session.close)
