"""The user-visible notifications of one session, on their way to their handlers.

One bounded queue, one task that empties it, in order. The reader only queues: a handler may
itself call the server, since it is this task that waits and never the reader.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import SessionLost

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.runtime.session import Session

__all__ = ["Notices"]

_log: Final = logging.getLogger("mcp_trio.client")


class Notices:
    """At most ``limits.notifications`` notices that wait for their handlers.

    Notices with one key become one. When there is no room the oldest log message goes first,
    then the oldest progress, then the oldest of all; each is counted.
    """

    __slots__ = ("_logs", "_progress", "_queue", "_running", "_serial", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queue: OrderedDict[object, Callable[[], Awaitable[object]]] = OrderedDict()
        self._logs: deque[object] = deque()
        self._progress: deque[object] = deque()
        self._serial = 0
        self._running = False

    def put(self, handle: Callable[[], Awaitable[object]], *, key: object = None) -> None:
        """Queue *handle*; where one with the same *key* waits, replace that."""
        if key is None:
            key = self._next()
        elif key in self._queue:
            self._queue[key] = handle
            return
        self._append(key, handle)

    def put_log(self, handle: Callable[[], Awaitable[object]]) -> None:
        """Queue the handling of a log message."""
        key = self._next()
        self._append(key, handle)
        self._logs.append(key)

    def put_progress(self, handle: Callable[[], Awaitable[object]]) -> None:
        """Queue the handling of progress."""
        key = self._next()
        self._append(key, handle)
        self._progress.append(key)

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def _append(self, key: object, handle: Callable[[], Awaitable[object]]) -> None:
        if len(self._queue) >= self._session.limits.notifications:
            self._drop()
        self._queue[key] = handle
        if not self._running:
            try:
                self._session.start_soon(self._empty)
            except SessionLost:
                return  # nobody is left to be told
            self._running = True

    def _drop(self) -> None:
        if self._logs:
            del self._queue[self._logs.popleft()]
        elif self._progress:
            del self._queue[self._progress.popleft()]
        else:
            self._queue.popitem(last=False)
        self._session.count_dropped()

    async def _empty(self) -> None:  # noqa: ASYNC910 - it begins with something to handle
        """Handle what waits; there is no task where nothing does."""
        try:
            while self._queue:
                handle = self._pop()
                try:
                    await handle()
                except Exception:  # noqa: BLE001 - a handler's fault hurts nobody else
                    _log.exception("a handler of notifications failed")
                await trio.lowlevel.checkpoint()
        finally:
            self._running = False

    def _pop(self) -> Callable[[], Awaitable[Any]]:
        key, handle = self._queue.popitem(last=False)
        for droppable in (self._logs, self._progress):
            if droppable and droppable[0] == key:
                droppable.popleft()
        return handle
