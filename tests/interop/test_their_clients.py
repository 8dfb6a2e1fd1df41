"""Clients that are not ours, by their public API, against our server."""

from __future__ import annotations

import pytest

from tests.interop.survey import CLIENTS, TRANSPORTS, report_of

pytestmark = pytest.mark.interop

_FEATURES = [(transport, feature) for transport, seen in TRANSPORTS.items() for feature in seen]

#: What a peer shows its user differently, though it was sent the same.
SHOWN_OTHERWISE = {
    # Its ResourceNotFoundError carries the code of 2026-07-28 at every revision.
    ("typescript-v2-auto", "unknown resource"): -32602,
    ("typescript-v2-legacy", "unknown resource"): -32602,
}


@pytest.mark.parametrize(("transport", "feature"), _FEATURES)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_is_not_ours_uses_our_server(
    client: str, transport: str, feature: str
) -> None:
    """Each feature of our server works with the client, as far as the client has it."""
    found = report_of(client, transport)[feature]
    if found["how"] == "not offered":
        pytest.skip(found["why"])
    assert found.get("error") is None
    seen = TRANSPORTS[transport][feature]
    assert found["got"] == SHOWN_OTHERWISE.get((client, feature), seen)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_every_feature_is_reported(client: str, transport: str) -> None:
    """A client's program leaves out no feature, and invents none."""
    assert set(report_of(client, transport)) == set(TRANSPORTS[transport])
