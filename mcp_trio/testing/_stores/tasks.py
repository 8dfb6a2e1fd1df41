"""Requirements on checkpoints, cancellation, concurrency and closing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias, final

import trio
import trio.testing

from mcp_trio.limits import Limits

from .expect import RECORD, SettableClock, events, expect, holds, open_sessions, refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.abc import EventStore

    from .expect import OpenStore


Method: TypeAlias = "Callable[[], Awaitable[object]]"


def _checkpoints(store: EventStore) -> tuple[Method, ...]:
    """Every method but `append` and `aclose`, for a store with session s and its stream a."""
    return (
        lambda: store.open_session("new", RECORD),
        lambda: store.session("s"),
        lambda: store.finish("s", "a"),
        lambda: store.read("s", "a", 0),
        store.statistics,
        lambda: store.forget_session("s"),
    )


def _cancel_points(store: EventStore) -> tuple[Method, ...]:
    """The same and `append`."""
    return (lambda: store.append("s", "a", events(2)), *_checkpoints(store))


async def every_method_is_a_checkpoint(open_store: OpenStore) -> None:
    """Each method lets other tasks run, appends in a row at least every few milliseconds."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1))
        for method in _checkpoints(store):
            with trio.testing.assert_checkpoints():
                await method()
        await open_sessions(store, "s")
        others_ran = trio.Event()
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def other() -> None:
                others_ran.set()
                await trio.lowlevel.checkpoint()

            # Far more than the store may take without letting others run, so that a busy
            # machine makes no difference.
            give_up = time.perf_counter() + 0.05
            n = 0
            while not others_ran.is_set() and time.perf_counter() < give_up:
                n += 1
                await store.append("s", "a", events(n))
            expect(others_ran.is_set(), True, "whether another task ran during appends")
        with trio.testing.assert_checkpoints():
            await store.aclose()


async def a_cancelled_call_does_nothing(open_store: OpenStore) -> None:
    """Each method that begins in a cancelled scope raises Cancelled and changes nothing."""
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        await store.append("s", "a", events(1))
        before = await store.statistics()
        for method in _cancel_points(store):
            with trio.CancelScope() as scope:
                scope.cancel()
                await method()
                raise AssertionError("A method went on in a cancelled scope.")
        expect(await store.statistics(), before, "the statistics")
        await holds(store, "s", "a", 0, 1, finished=False)


@final
class _CancelAfter(trio.abc.Instrument):
    """Cancels *scope* when the current task has been suspended for the *steps*-th time."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self._task = trio.lowlevel.current_task()
        self._steps = steps

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._steps -= 1
            if self._steps == 0:
                self._scope.cancel()


async def a_cancel_parts_no_append(open_store: OpenStore) -> None:
    """An append that is cancelled while it runs adds nothing, or returns with all added."""
    numbers = tuple(range(1, 51))
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")
        for steps in range(1, 6):
            stream = f"a{steps}"
            await store.append("s", stream, ())
            returned = False
            with trio.CancelScope() as scope:
                instrument = _CancelAfter(scope, steps)
                trio.lowlevel.add_instrument(instrument)
                try:
                    await store.append("s", stream, events(*numbers))
                    returned = True
                finally:
                    trio.lowlevel.remove_instrument(instrument)
            await holds(store, "s", stream, 0, *(numbers if returned else ()))
            await store.append("s", stream, events(*numbers))
            await holds(store, "s", stream, 0, *numbers)


async def tasks_may_use_a_store_at_once(open_store: OpenStore) -> None:
    """Appends of many tasks all arrive, and a reader sees each of them whole or not at all."""
    batches = tuple(tuple(range(k, k + 5)) for k in range(1, 51, 5))
    async with open_store(Limits(), SettableClock()) as store:
        await open_sessions(store, "s")

        async def write(stream: str) -> None:
            await trio.lowlevel.checkpoint()
            for batch in batches:
                await store.append("s", stream, events(*batch))

        async def watch(stream: str) -> None:
            await trio.lowlevel.checkpoint()
            seen = 0
            while seen < 50:
                seen = len((await store.read("s", stream, 0)).events)
                expect(seen % 5, 0, "events of a half-read append")

        async with trio.open_nursery() as nursery:
            for stream in ("a", "b", "c"):
                await store.append("s", stream, ())
                nursery.start_soon(write, stream)
                nursery.start_soon(watch, stream)
        for stream in ("a", "b", "c"):
            await holds(store, "s", stream, 0, *range(1, 51))


async def a_closed_store_refuses(open_store: OpenStore) -> None:
    """After `aclose`, which may be repeated and cancelled, ClosedResourceError is raised."""
    for cancelled in (False, True):
        async with open_store(Limits(), SettableClock()) as store:
            await open_sessions(store, "s")
            await store.append("s", "a", events(1))
            with trio.CancelScope() as scope:
                if cancelled:
                    scope.cancel()
                await store.aclose()
            await store.aclose()
            for method in _cancel_points(store):
                await refused(trio.ClosedResourceError, method(), "using a closed store")
