"""These tests install and start software that is not ours, so they run by request only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop import install

if TYPE_CHECKING:
    from collections.abc import Sequence

_ASKED = os.environ.get("MCP_INTEROP") == "1"


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    here = Path(__file__).parent
    unasked = pytest.mark.skip(reason="talks to peers that must be installed: set MCP_INTEROP=1")
    for item in items:
        if here in item.path.parents and not _ASKED:
            item.add_marker(unasked)


@pytest.fixture(scope="session", autouse=True)
def _peers() -> None:
    """Install every peer before the first test, so that no test's time is spent on that."""
    if _ASKED:
        for peer in install.ALL:
            install.ensure(peer)
