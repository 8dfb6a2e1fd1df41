"""Clients that are not ours, by their public API, against our server over stdio."""

from __future__ import annotations

import pytest

from tests.interop.features import SEEN
from tests.interop.survey import CLIENTS, report_of

pytestmark = pytest.mark.interop

#: What a peer shows its user differently, though it was sent the same.
SHOWN_OTHERWISE = {
    # Its ResourceNotFoundError carries the code of 2026-07-28 at every revision.
    ("typescript-v2-auto", "unknown resource"): -32602,
    ("typescript-v2-legacy", "unknown resource"): -32602,
}


@pytest.mark.parametrize("feature", SEEN)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_is_not_ours_uses_our_server(client: str, feature: str) -> None:
    """Each feature of our server works with the client, as far as the client has it."""
    found = report_of(client)[feature]
    if found["how"] == "not offered":
        pytest.skip(found["why"])
    assert found.get("error") is None
    assert found["got"] == SHOWN_OTHERWISE.get((client, feature), SEEN[feature])


@pytest.mark.parametrize("client", CLIENTS)
def test_every_feature_is_reported(client: str) -> None:
    """A client's program leaves out no feature, and invents none."""
    assert set(report_of(client)) == set(SEEN)
