"""How much of the peers' work one process takes on: requests in flight and worker threads.

Past the limit the answer is Busy, never "stop reading": handlers wait for answers that may
sit behind the next request, and a reader that waited for a free slot would wait for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    from mcp_trio.limits import Limits

__all__ = ["Admission", "ThreadShare"]


class Admission:
    """Counts the requests in flight over all sessions that share it."""

    __slots__ = ("_limit", "in_flight", "refused", "threads")

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.in_flight_total
        self.in_flight = 0
        self.refused = 0
        self.threads = trio.CapacityLimiter(limits.threads)

    def enter(self) -> bool:
        """Take a place; false, and counted, where there is none."""
        if self.in_flight >= self._limit:
            self.refused += 1
            return False
        self.in_flight += 1
        return True

    def leave(self) -> None:
        """Give a place back."""
        self.in_flight -= 1


class ThreadShare:
    """One session's share of the worker threads, as the limiter of ``trio.to_thread.run_sync``.

    A slot counts until its thread ends, also when the call it served was cancelled, so a
    session whose sync handlers hang uses up its own share and nobody else's.
    """

    __slots__ = ("_all", "_own")

    def __init__(self, everybody: trio.CapacityLimiter, share: int) -> None:
        self._all = everybody
        self._own = trio.CapacityLimiter(share)

    async def acquire_on_behalf_of(self, borrower: Any) -> None:
        """Wait for a slot of the share, then for one of all. A checkpoint."""
        await self._own.acquire_on_behalf_of(borrower)
        try:
            await self._all.acquire_on_behalf_of(borrower)
        except BaseException:
            self._own.release_on_behalf_of(borrower)
            raise

    def release_on_behalf_of(self, borrower: Any) -> None:
        """Give both slots back."""
        self._all.release_on_behalf_of(borrower)
        self._own.release_on_behalf_of(borrower)
