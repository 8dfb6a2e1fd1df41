"""Leader and follower: a caller that waits for the only answer reads it from the pipe itself.

Between the reader and the caller whom it wakes lies a pass of the scheduler, which is much of
what a round trip costs. So a caller may take the reader's turn, while the reader does not
wait for the pipe itself. It keeps nothing but the answer that it waits for; whatever else it
reads goes to the reader, whose task (and whose context) serves the requests of the peer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import trio

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Source", "Turn", "Waiting"]


class Waiting(Protocol):
    """A call that waits: its id, and where to leave what wakes its caller early."""

    @property
    def id(self) -> int | str:
        """The id that its answer has."""
        ...

    wake: Callable[[], None] | None


class Source(Protocol):
    """What is read: a pipe or a socket."""

    @property
    def fd(self) -> int:
        """Its descriptor, -1 once it is closed."""
        ...

    async def receive(self) -> bytes:
        """Return the next bytes, ``b""`` at the end. A checkpoint."""
        ...

    def receive_nowait(self) -> bytes:
        """Return what is there, or raise `BlockingIOError`."""
        ...


class Turn:
    """Whose turn it is to read from *source*: the reader's, or for one read a caller's."""

    __slots__ = ("_claimed", "_handed", "_led", "_reader", "_reading", "_source")

    def __init__(self, source: Source) -> None:
        self._source: Final = source
        self._reading = False  # the reader waits for the source itself
        self._led = False
        self._claimed = False
        self._handed: bytes | None = None
        self._reader: trio.lowlevel.Task | None = None  # while it is parked

    def claim(self) -> bool:
        """Say whether a caller may take the turn; if not, the reader gives way next time."""
        if self._reading or self._led or self._handed is not None:
            self._claimed = True
            return False
        return True

    async def receive(self) -> bytes:
        """Return the next bytes that belong to the reader, ``b""`` at the end. A checkpoint."""
        if self._claimed:  # the caller whom the reader has just woken may go first, and lead next
            self._claimed = False
            await trio.lowlevel.checkpoint()
        while self._led:
            await self._park()
        handed, self._handed = self._handed, None
        if handed is not None:
            return handed  # noqa: ASYNC910 - it was waited for
        self._reading = True
        try:
            return await self._source.receive()
        finally:
            self._reading = False

    async def _park(self) -> None:
        def abort(_: object) -> trio.lowlevel.Abort:
            self._reader = None
            return trio.lowlevel.Abort.SUCCEEDED

        self._reader = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(abort)

    async def take(self, call: Waiting) -> bytes | None:
        """Read once in the reader's place, after a `claim` that was granted. A checkpoint.

        None where the reader has to see for itself: *call* was settled otherwise, or the
        source is closed or broken.
        """
        source = self._source
        self._led = True
        call.wake = self._interrupt
        try:
            await trio.lowlevel.wait_readable(source.fd)
            return source.receive_nowait()
        except (OSError, trio.ClosedResourceError):
            return None  # noqa: ASYNC910 - after the wait
        finally:
            call.wake = None
            self._led = False
            if self._reader is not None:
                task, self._reader = self._reader, None
                trio.lowlevel.reschedule(task)

    def _interrupt(self) -> None:
        """Let go of the caller that waits, with `trio.ClosedResourceError`."""
        if self._source.fd >= 0:
            trio.lowlevel.notify_closing(self._source.fd)

    def hand(self, data: bytes) -> None:
        """Give the reader what was taken, before it runs again."""
        self._handed = data
