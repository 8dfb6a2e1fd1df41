"""How the tests open the stores."""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_trio.stores.memory import MemoryStore
from mcp_trio.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_trio.limits import Limits


@asynccontextmanager
async def memory_store(limits: Limits, clock: Callable[[], float]) -> AsyncIterator[MemoryStore]:
    async with MemoryStore(limits=limits, clock=clock) as store:
        yield store


@asynccontextmanager
async def sqlite_store(limits: Limits, clock: Callable[[], float]) -> AsyncIterator[SqliteStore]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.sqlite")
        async with SqliteStore(path, limits=limits, clock=clock) as store:
            yield store
