"""Our own stores pass the kit that we ask others' stores to pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_trio.stores.sqlite import SqliteStore
from mcp_trio.testing.stores import (
    DURABLE_EVENT_STORE_REQUIREMENTS,
    EVENT_STORE_REQUIREMENTS,
    Requirement,
    check_durable_event_store,
    check_event_store,
)
from tests.stores.opening import memory_store, sqlite_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mcp_trio.limits import Limits

every_requirement = pytest.mark.parametrize(
    "requirement", EVENT_STORE_REQUIREMENTS, ids=lambda requirement: requirement.name
)
every_durable_requirement = pytest.mark.parametrize(
    "requirement", DURABLE_EVENT_STORE_REQUIREMENTS, ids=lambda requirement: requirement.name
)


@pytest.mark.case("24")
@every_requirement
async def test_the_memory_store(requirement: Requirement) -> None:
    await requirement.check(memory_store)


@pytest.mark.case("24")
@every_requirement
async def test_the_sqlite_store(requirement: Requirement) -> None:
    await requirement.check(sqlite_store)


@every_durable_requirement
async def test_the_sqlite_store_is_durable(requirement: Requirement, tmp_path: Path) -> None:
    def open_store(limits: Limits, clock: Callable[[], float]) -> SqliteStore:
        return SqliteStore(tmp_path / "events.sqlite", limits=limits, clock=clock)

    await requirement.check(open_store)


async def test_the_whole_kit_passes_at_once(tmp_path: Path) -> None:
    def open_store(limits: Limits, clock: Callable[[], float]) -> SqliteStore:
        return SqliteStore(tmp_path / "events.sqlite", limits=limits, clock=clock)

    await check_event_store(memory_store)
    await check_durable_event_store(open_store)


def test_every_requirement_is_a_sentence() -> None:
    """The sentence is what the author of a store reads when the kit fails."""
    requirements = (*EVENT_STORE_REQUIREMENTS, *DURABLE_EVENT_STORE_REQUIREMENTS)

    assert [r.name for r in requirements if not r.sentence.endswith(".")] == []
    assert [r.name for r in requirements if len(r.sentence.splitlines()) != 1] == []
