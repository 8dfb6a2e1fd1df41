"""A tool call in the making: its updates while it runs, its result when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.types import CallToolResult, ProgressNotificationParams

__all__ = ["ToolCall", "Updates"]


@final
class Updates:
    """The progress of a call, as it comes in: ``async for update in call.updates``.

    Holds one update: while nobody waits for the next one, the newest replaces it. (A
    ``progress=`` callback sees every one.) Ends when the call ends.
    """

    __slots__ = ("_ended", "_newest", "_readers")

    def __init__(self) -> None:
        self._newest: ProgressNotificationParams | None = None
        self._ended = False
        self._readers = trio.lowlevel.ParkingLot()

    def put(self, update: ProgressNotificationParams) -> None:
        """Take *update*."""
        self._newest = update
        self._readers.unpark()

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._readers.unpark_all()

    def __aiter__(self) -> Updates:
        return self

    async def __anext__(self) -> ProgressNotificationParams:
        await trio.lowlevel.checkpoint()
        while self._newest is None:
            if self._ended:
                raise StopAsyncIteration
            await self._readers.park()
        update, self._newest = self._newest, None
        return update


@final
class ToolCall:
    """A call of ``session.open_call``.

    Attributes:
        updates: its progress.
    """

    __slots__ = ("_ended", "_error", "_make", "_result", "_scope", "updates")

    def __init__(
        self, make: Callable[[Callable[[Any], object]], Awaitable[CallToolResult]]
    ) -> None:
        self.updates = Updates()
        self._make = make
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._result: CallToolResult | None = None
        self._error: Exception | None = None

    async def wait_result(self) -> CallToolResult:
        """Wait until the call is done and return its result. A checkpoint.

        Cancelling the wait leaves the call alone: leaving its block cancels it.

        Raises:
            RuntimeError: the block was left before the call was done.
            McpError: whatever ``session.call_tool`` raises.
        """
        await self._ended.wait()
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RuntimeError("the call was given up when its block was left")
        return self._result

    async def run(self, *, task_status: trio.TaskStatus[ToolCall]) -> None:  # noqa: ASYNC910 - every call is a checkpoint
        """Make the call; its outcome is kept for `wait_result`."""
        task_status.started(self)
        try:
            with self._scope:
                self._result = await self._make(self.updates.put)
        except Exception as exc:  # noqa: BLE001 - it belongs to whoever waits for the result
            self._error = exc
        finally:
            self.updates.end()
            self._ended.set()

    def cancel(self) -> None:
        """Give the call up; the server is told."""
        self._scope.cancel(reason="the block of the call was left")
