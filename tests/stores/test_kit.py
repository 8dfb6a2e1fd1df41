"""The conformance kit finds what is wrong with a store, and says it in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_trio.stores.sqlite import SqliteStore
from mcp_trio.testing.stores import (
    DURABLE_EVENT_STORE_REQUIREMENTS,
    EVENT_STORE_REQUIREMENTS,
    check_durable_event_store,
    check_event_store,
)
from tests.stores.broken import BROKEN, ForgetsNoSession, Whole
from tests.stores.opening import memory_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_trio.limits import Limits

every_broken_store = pytest.mark.parametrize(
    ("broken", "name"), BROKEN, ids=[f"{broken.__name__}-{name}" for broken, name in BROKEN]
)
by_name = {requirement.name: requirement for requirement in EVENT_STORE_REQUIREMENTS}


async def test_a_whole_store_passes() -> None:
    """What is found in the others is not the fault of how they are written."""
    await check_event_store(Whole.opened)


@every_broken_store
async def test_a_broken_store_fails_with_the_requirement(broken: type[Whole], name: str) -> None:
    requirement = by_name[name]

    with pytest.raises(AssertionError) as caught:
        await requirement.check(broken.opened)

    assert str(caught.value).startswith(requirement.sentence)


async def test_the_whole_kit_stops_at_a_broken_requirement() -> None:
    with pytest.raises(AssertionError, match="Forgetting a session takes its streams"):
        await check_event_store(ForgetsNoSession.opened)


def test_every_requirement_has_a_store_that_breaks_it() -> None:
    assert set(by_name) - {name for _, name in BROKEN} == set()


async def test_a_store_that_does_not_outlive_its_process_is_not_durable() -> None:
    with pytest.raises(AssertionError, match="are there after opening again"):
        await check_durable_event_store(memory_store)


async def test_every_durable_requirement_can_fail(tmp_path: Path) -> None:
    def open_frozen(limits: Limits, clock: Callable[[], float]) -> SqliteStore:
        return SqliteStore(tmp_path / "frozen.sqlite", limits=limits, clock=lambda: 1_000.0)

    failed = []
    for requirement in DURABLE_EVENT_STORE_REQUIREMENTS:
        for open_store in (memory_store, open_frozen):
            try:
                await requirement.check(open_store)
            except AssertionError:
                failed.append((requirement.name, open_store))

    assert failed == [
        ("what_was_stored_outlives_the_store", memory_store),
        ("age_counts_while_nothing_is_open", memory_store),
        ("age_counts_while_nothing_is_open", open_frozen),
        ("two_may_share_one_place", memory_store),
    ]
