"""These tests install and start software that is not ours, so they run by request only."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.interop import install, survey
from tests.interop.processes import Hosts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ASKED = os.environ.get("MCP_INTEROP") == "1"


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    here = Path(__file__).parent
    unasked = pytest.mark.skip(reason="talks to peers that must be installed: set MCP_INTEROP=1")
    for item in items:
        if here in item.path.parents and not _ASKED:
            item.add_marker(unasked)


@pytest.fixture(scope="session", autouse=True)
def _peers(request: pytest.FixtureRequest) -> None:
    """Install every peer before the first test, so that no test's time is spent on that.

    Then begin the surveys that the selected tests are going to ask for.
    """
    if _ASKED:
        for peer in install.ALL:
            install.ensure(peer)
        survey.begin(_surveys(request.session.items))


def _surveys(items: Sequence[pytest.Item]) -> Iterator[tuple[str, str]]:
    for item in items:
        if item.path.name == "test_their_clients.py":
            params = item.callspec.params  # type: ignore[attr-defined] # each is parametrized
            yield params["client"], params["transport"]


@pytest.fixture(scope="session")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Servers over HTTP."""
    running = Hosts(tmp_path_factory.mktemp("hosts"))
    with running.ends:
        yield running
