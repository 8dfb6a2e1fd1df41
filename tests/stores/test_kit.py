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
from tests.stores.broken import BROKEN, Whole
from tests.stores.opening import memory_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_trio.limits import Limits

every_broken_store = pytest.mark.parametrize(
    ("broken", "name"), BROKEN.items(), ids=[broken.__name__ for broken in BROKEN]
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


@every_broken_store
async def test_a_broken_store_does_not_pass(broken: type[Whole], name: str) -> None:
    with pytest.raises(AssertionError):
        await check_event_store(broken.opened)


async def broken_requirements(broken: type[Whole]) -> set[str]:
    failed = set()
    for requirement in EVENT_STORE_REQUIREMENTS:
        try:
            await requirement.check(broken.opened)
        except AssertionError:
            failed.add(requirement.name)
    return failed


async def test_every_requirement_can_fail() -> None:
    failed: set[str] = set()
    for broken in BROKEN:
        failed |= await broken_requirements(broken)

    assert set(by_name) - failed == set()


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
