"""What the tests of leader and follower share: who read what for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_trio.transports.turn import Turn

if TYPE_CHECKING:
    from mcp_trio.transports.turn import Waiting


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bytes | None]:
    """What callers have read for themselves."""
    reads: list[bytes | None] = []
    take = Turn.take

    async def watched(self: Turn, call: Waiting) -> bytes | None:
        reads.append(None)
        reads[-1] = await take(self, call)
        return reads[-1]

    monkeypatch.setattr(Turn, "take", watched)
    return reads
