"""A hypothesis state machine whose rules act on a trio run: guest mode, and a clock by hand."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

import outcome
import trio
import trio.testing
from hypothesis.stateful import RuleBasedStateMachine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: Real seconds after which a run in which nothing moves any more is given up.
_PATIENCE = 20


class TrioMachine(RuleBasedStateMachine):
    """Rules are plain functions; trio runs while they `settle`, `run` something or `sleep`.

    Attributes:
        nursery: for the machine's own tasks; whatever leaves it fails the test.
        clock: stands still but for `sleep`.
    """

    nursery: trio.Nursery

    def __init__(self) -> None:
        super().__init__()
        self.clock = trio.testing.MockClock(rate=0)
        self._turns: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._end: outcome.Outcome[None] | None = None
        self._ready = False
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self._turns.put,
            done_callback=self._ended,
            host_uses_signal_set_wakeup_fd=False,
            clock=self.clock,
        )
        self._pump(lambda: self._ready)
        try:
            self.begin()
        except BaseException:
            self.teardown()  # hypothesis would not: and one thread holds one run
            raise

    def begin(self) -> None:
        """What a machine does before its first rule."""

    async def _main(self) -> None:
        async with trio.open_nursery() as self.nursery:
            self._ready = True
            await trio.sleep_forever()

    def _ended(self, end: outcome.Outcome[None]) -> None:
        self._end = end

    def _pump(self, until: Callable[[], bool]) -> None:
        while not until():
            if self._end is not None:
                self._end.unwrap()
                raise AssertionError("the run has ended")
            self._turns.get(timeout=_PATIENCE)()

    def run(self, fn: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Run an async function to its end and return what it returns."""
        box: list[outcome.Outcome[Any]] = []

        async def runner() -> None:
            box.append(await outcome.acapture(fn, *args))

        self.nursery.start_soon(runner)
        self._pump(lambda: bool(box))
        return box[0].unwrap()

    def settle(self) -> None:
        """Let every task run until it waits."""
        self.run(trio.testing.wait_all_tasks_blocked)

    def sleep(self, seconds: int) -> None:
        """Let time pass, a second at a time: one long jump would wake all sleepers at once."""
        for _ in range(seconds):
            self.clock.jump(1)
            self.settle()

    def teardown(self) -> None:
        """End the run; what went wrong in it is raised here."""
        if self._end is None:
            self.nursery.cancel_scope.cancel()
            while self._end is None:
                self._turns.get(timeout=_PATIENCE)()
            self._end.unwrap()
