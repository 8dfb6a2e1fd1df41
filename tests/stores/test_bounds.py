"""The policy of what is dropped, to the byte, which the kit leaves to each store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcp_trio.abc import SessionRecord, StoredEvent
from mcp_trio.errors import EventsExpired
from mcp_trio.limits import Limits
from mcp_trio.stores.bounds import EVENT_COST, SESSION_COST, STREAM_COST
from mcp_trio.testing.stores import SettableClock
from tests.stores.opening import memory_store, sqlite_store

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = SessionRecord(revision="r")
both_stores = pytest.mark.parametrize("open_store", [memory_store, sqlite_store])


@both_stores
async def test_a_store_that_fits_exactly_drops_nothing(open_store: Callable[..., Any]) -> None:
    total = SESSION_COST + STREAM_COST + 4 * (EVENT_COST + 10)
    async with open_store(Limits(event_bytes_total=total), SettableClock()) as store:
        await store.open_session("s", RECORD)
        for n in range(1, 5):
            await store.append("s", "a", (StoredEvent(n, b"x" * 10),))
        assert (await store.statistics()).bytes == total
        assert len((await store.read("s", "a", 0)).events) == 4
        await store.append("s", "a", (StoredEvent(5, b"x" * 10),))

        assert (await store.statistics()).bytes == total
        assert len((await store.read("s", "a", 1)).events) == 4


@both_stores
async def test_the_session_at_hand_stays(open_store: Callable[..., Any]) -> None:
    """Even where it is too large by itself: its streams then tell that they lost their events."""
    async with open_store(Limits(event_bytes_total=SESSION_COST), SettableClock()) as store:
        await store.open_session("s", RECORD)
        await store.append("s", "a", (StoredEvent(1, b"x"),))
        with pytest.raises(EventsExpired) as caught:
            await store.read("s", "a", 0)

        assert caught.value.dropped == 1
        assert await store.session("s") == RECORD


@both_stores
async def test_the_charge_for_what_is_forgotten_is_given_back(
    open_store: Callable[..., Any],
) -> None:
    async with open_store(Limits(), SettableClock()) as store:
        await store.open_session("s", RECORD)
        await store.append("s", "a", (StoredEvent(1, b"x"), StoredEvent(2, b"y")))
        await store.append("s", "b", ())
        await store.finish("s", "a")
        await store.forget_session("s")

        assert (await store.statistics()).bytes == 0
