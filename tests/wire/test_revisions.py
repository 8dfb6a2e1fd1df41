"""The five revisions against the official schemas, and version negotiation."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.wire.revisions import (
    LATEST_LEGACY,
    LEGACY,
    REVISIONS,
    Era,
    Feature,
    Http,
    Method,
    Revision,
    Sender,
    negotiate,
)
from tests.spec_files import schema_of, spec_dir

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]

#: Who sends the members of each union of the schemas.
UNIONS = {
    "ClientRequest": Sender.CLIENT,
    "ClientNotification": Sender.CLIENT,
    "ServerRequest": Sender.SERVER,
    "ServerNotification": Sender.SERVER,
}


def method_of(definition: dict[str, Any]) -> str | None:
    const: str | None = definition.get("properties", {}).get("method", {}).get("const")
    return const


def senders(version: str) -> dict[str, Sender]:
    """Each method that travels as a message at *version*, by the schema alone."""
    schema = schema_of(version)
    definitions = schema.get("$defs") or schema["definitions"]
    found: dict[str, set[Sender]] = defaultdict(set)
    for union, sender in UNIONS.items():
        # A union of one member is written as that member itself.
        definition = definitions.get(union, {"anyOf": []})
        for member in definition.get("anyOf", [definition]):
            method = method_of(
                definitions[member["$ref"].split("/")[-1]] if "$ref" in member else member
            )
            assert method is not None
            found[method].add(sender)
    return {
        method: sent_by.pop() if len(sent_by) == 1 else Sender.BOTH
        for method, sent_by in found.items()
    }


@pytest.mark.spec("T-14")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_methods_are_those_of_the_schema_in_both_directions(version: str) -> None:
    methods = REVISIONS[version].methods

    assert {name: method.sender for name, method in methods.items()} == senders(version)


@pytest.mark.spec("T-7")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_method_outside_the_unions_travels_in_results_only(version: str) -> None:
    """Every method the schema defines is in the table, or is a question of the modern era."""
    schema = schema_of(version)
    definitions = schema.get("$defs") or schema["definitions"]
    defined = {method_of(definition) for definition in definitions.values()} - {None}
    in_results = defined - set(REVISIONS[version].methods)

    if Feature.MRTR in REVISIONS[version].features:
        assert in_results == {"elicitation/create", "sampling/createMessage", "roots/list"}
    else:
        assert in_results == set()


@pytest.mark.parametrize("version", VERSIONS)
def test_methods_are_listed_under_their_own_name(version: str) -> None:
    assert all(name == method.name for name, method in REVISIONS[version].methods.items())


@pytest.mark.spec("LC-10")
@pytest.mark.parametrize("version", VERSIONS)
def test_the_capability_a_method_needs_is_one_that_its_declarer_can_declare(version: str) -> None:
    schema = schema_of(version)
    definitions = schema.get("$defs") or schema["definitions"]
    declarable = {
        side: definitions[f"{side.name.title()}Capabilities"]["properties"]
        for side in (Sender.CLIENT, Sender.SERVER)
    }
    other = {Sender.CLIENT: Sender.SERVER, Sender.SERVER: Sender.CLIENT}
    for method in REVISIONS[version].methods.values():
        if method.needs is None:
            continue
        is_notification = method.name.startswith("notifications/")
        for sender in (s for s in other if method.sender in (s, Sender.BOTH)):
            properties = declarable[sender if is_notification else other[sender]]
            for part in method.needs.split("."):
                assert part in properties, f"{method.name} sent by {sender.name}"
                properties = properties[part].get("properties", {})


#: The switches of the digest's table that decide how messages travel.
SINCE = {
    Feature.REVERSE_REQUESTS: VERSIONS[:4],
    Feature.BATCH: VERSIONS[1:2],
    Feature.SESSION_ID: VERSIONS[1:4],
    Feature.RESUME: VERSIONS[1:4],
    Feature.VERSION_HEADER: VERSIONS[2:],
    Feature.PRIMING_EVENT: VERSIONS[3:4],
    Feature.STRUCTURED_CONTENT: VERSIONS[2:],
    Feature.BARE_STRUCTURED_CONTENT: VERSIONS[4:],
    Feature.ARGUMENT_ERRORS_ARE_RESULTS: VERSIONS[3:],
    Feature.RICH_FORMS: VERSIONS[3:],
    Feature.SAMPLING_TOOLS: VERSIONS[3:],
    Feature.PROGRESS_MESSAGE: VERSIONS[1:],
    Feature.URL_ELICITATION: VERSIONS[3:],
    Feature.ERROR_WITHOUT_ID: VERSIONS[3:],
    Feature.NOT_FOUND_IS_INVALID_PARAMS: VERSIONS[4:],
    Feature.ENVELOPE: VERSIONS[4:],
    Feature.MRTR: VERSIONS[4:],
    Feature.RESULT_TYPE: VERSIONS[4:],
    Feature.CACHE_HINTS: VERSIONS[4:],
    Feature.ROUTING_HEADERS: VERSIONS[4:],
}


@pytest.mark.spec("HL-10", "HL-11", "HL-15", "HL-37", "HM-14", "B-10", "B-14", "B-19", "B-27")
@pytest.mark.parametrize("feature", Feature)
def test_a_feature_holds_in_its_revisions_and_no_other(feature: Feature) -> None:
    assert [r.version for r in REVISIONS.values() if feature in r.features] == SINCE[feature]


def test_every_schema_of_the_digest_has_its_revision() -> None:
    folders = [path.parent.name for path in (spec_dir() / "schema").glob("2*/schema.json")]

    assert list(REVISIONS) == sorted(folders) == VERSIONS
    assert [str(revision) for revision in REVISIONS.values()] == VERSIONS
    assert len(set(REVISIONS.values())) == len(VERSIONS)


def test_eras_and_http_transports_follow_the_revisions() -> None:
    assert [r.era for r in REVISIONS.values()] == [Era.LEGACY] * 4 + [Era.MODERN]
    assert [r.http for r in REVISIONS.values()] == [
        Http.SSE_PAIR,
        *[Http.STREAMABLE] * 3,
        Http.STREAMABLE_STATELESS,
    ]
    assert [r.version for r in LEGACY] == VERSIONS[:4]
    assert LATEST_LEGACY is LEGACY[-1]


def test_a_revision_is_a_diff_and_leaves_its_parent_alone() -> None:
    parent = REVISIONS["2024-11-05"]
    before = dict(parent.methods)

    child = parent.evolve(
        "next",
        add=iter([Method("new", Sender.BOTH)]),
        drop=iter(["ping", "roots/list"]),
        add_features=iter([Feature.BATCH]),
        drop_features=iter([Feature.REVERSE_REQUESTS]),
    )

    assert set(child.methods) == (set(before) | {"new"}) - {"ping", "roots/list"}
    assert child.features == {Feature.BATCH}
    assert (child.era, child.http) == (parent.era, parent.http)
    assert parent.methods == before


# ---------------------------------------------------------------- negotiation


@pytest.mark.spec("LC-7")
@pytest.mark.parametrize("version", VERSIONS[:4])
def test_a_supported_offer_is_taken(version: str) -> None:
    assert negotiate(version).version == version


@pytest.mark.spec("LC-7")
@given(offered=st.sampled_from([VERSIONS[4], "", "v999.0.0", "2025-11-25 "]) | st.text())
def test_any_other_offer_is_answered_with_the_newest_handshake_revision(offered: str) -> None:
    answer = negotiate(offered)

    assert answer is (REVISIONS[offered] if offered in VERSIONS[:4] else LATEST_LEGACY)


@pytest.mark.spec("LC-7")
@given(offered=st.sampled_from(VERSIONS), supported=st.sets(st.sampled_from(LEGACY), min_size=1))
def test_a_server_answers_only_what_it_supports(offered: str, supported: set[Revision]) -> None:
    ordered = tuple(r for r in LEGACY if r in supported)

    answer = negotiate(offered, ordered)

    assert answer.version == offered if REVISIONS[offered] in supported else answer is ordered[-1]
