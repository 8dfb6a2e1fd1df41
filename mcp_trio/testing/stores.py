"""What every event store must do, as a kit: run it over a store of your own.

::

    @asynccontextmanager
    async def open_store(limits: Limits, clock: Callable[[], float]) -> AsyncIterator[EventStore]:
        async with RedisStore(prefix=token_hex(), limits=limits, clock=clock) as store:
            yield store

    async def test_it_is_an_event_store() -> None:
        await check_event_store(open_store)

Each call of *open_store* opens an empty store that keeps to the limits and asks the clock it
is given. A store that outlives its process also passes `check_durable_event_store`, for which
*open_store* opens the same place each time. To see each requirement as a test of its own,
parametrize a test with the tuples below and call `Requirement.check`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import trio
from attrs import frozen

from ._stores import bounds, durable, streams, tasks
from ._stores.expect import SettableClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ._stores.expect import OpenStore

__all__ = [
    "DURABLE_EVENT_STORE_REQUIREMENTS",
    "EVENT_STORE_REQUIREMENTS",
    "Requirement",
    "SettableClock",
    "check_durable_event_store",
    "check_event_store",
]


@final
@frozen
class Requirement:
    """One thing that a store must do; the function's docstring says it in one sentence."""

    function: Callable[[OpenStore], Awaitable[None]]

    @property
    def name(self) -> str:
        """What is required, as a name."""
        return getattr(self.function, "__name__", "")

    @property
    def sentence(self) -> str:
        """What is required, as a sentence."""
        return self.function.__doc__ or ""

    async def check(self, open_store: OpenStore) -> None:
        """Try it on a store. A checkpoint.

        Raises:
            AssertionError: the store does not do it; the message says what is required.
        """
        await trio.lowlevel.checkpoint()
        try:
            await self.function(open_store)
        except Exception as error:
            detail = str(error) if isinstance(error, AssertionError) else f"It raised {error!r}."
            raise AssertionError(f"{self.sentence} {detail}") from error


EVENT_STORE_REQUIREMENTS: Final = tuple(
    Requirement(function)
    for function in (
        streams.sessions_are_remembered,
        streams.opening_a_session_again_changes_nothing,
        streams.a_tail_is_exact,
        streams.an_append_may_be_repeated,
        streams.an_append_is_all_or_nothing,
        streams.a_stream_begins_with_its_first_append,
        streams.a_finished_stream_stays_as_it_is,
        streams.a_session_has_its_own_streams_only,
        streams.a_forgotten_session_is_gone,
        streams.a_late_append_brings_nothing_back,
        bounds.a_stream_is_bounded_by_count,
        bounds.a_stream_is_bounded_by_bytes,
        bounds.events_are_dropped_when_they_are_old,
        bounds.finished_streams_are_forgotten_when_they_are_old,
        bounds.unused_sessions_are_forgotten,
        bounds.finished_streams_go_first,
        bounds.then_the_oldest_events_go,
        bounds.then_the_longest_unused_sessions_go,
        bounds.statistics_tell_what_is_held,
        tasks.every_method_is_a_checkpoint,
        tasks.a_cancelled_call_does_nothing,
        tasks.a_cancel_parts_no_append,
        tasks.tasks_may_use_a_store_at_once,
        tasks.a_closed_store_refuses,
    )
)

DURABLE_EVENT_STORE_REQUIREMENTS: Final = tuple(
    Requirement(function)
    for function in (
        durable.what_was_stored_outlives_the_store,
        durable.age_counts_while_nothing_is_open,
        durable.two_may_share_one_place,
    )
)


async def check_event_store(open_store: OpenStore) -> None:
    """Try all requirements, each on an empty store. A checkpoint.

    Raises:
        AssertionError: one is broken; the message says which.
    """
    await trio.lowlevel.checkpoint()
    for requirement in EVENT_STORE_REQUIREMENTS:
        await requirement.check(open_store)


async def check_durable_event_store(open_store: OpenStore) -> None:
    """Try what a store must do that outlives its process. A checkpoint.

    Raises:
        AssertionError: a requirement is broken; the message says which.
    """
    await trio.lowlevel.checkpoint()
    for requirement in DURABLE_EVENT_STORE_REQUIREMENTS:
        await requirement.check(open_store)
