"""Our client, by its public API, against servers that are not ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import trio

from tests.interop.servers import SERVERS
from tests.interop.talk import talk_to

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.processes import Hosts

pytestmark = pytest.mark.interop

_PAIRS = [(name, feature) for name, server in SERVERS.items() for feature in server.features]
_PATIENCE = 20  # seconds, the start and the end of the server included


@pytest.mark.parametrize(("name", "feature"), _PAIRS)
async def test_our_client_uses_a_server_that_is_not_ours(
    name: str, feature: str, tmp_path: Path, hosts: Hosts
) -> None:
    """Each feature of the server works with our client."""
    server = SERVERS[name]
    with trio.fail_after(_PATIENCE):
        async with talk_to(server, feature, tmp_path, hosts) as talk:
            seen = await server.checks[feature](talk)
    assert seen == server.seen.get(feature, server.all_seen[feature])


@pytest.mark.parametrize("name", SERVERS)
def test_what_a_server_lacks_is_a_feature(name: str) -> None:
    """No feature is left out of the tables of a server by a slip of the pen."""
    server = SERVERS[name]
    assert set(server.lacks) <= set(server.all_seen)
    assert set(server.seen) <= set(server.features)
