"""What a request of the modern era says of itself."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode, InvalidMessage, Refusal
from mcp_trio.wire.envelope import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    Envelope,
    is_enveloped,
    missing_capability,
    read_envelope,
    revision_of,
)
from mcp_trio.wire.jsonrpc import Request, classify
from mcp_trio.wire.revisions import LATEST_LEGACY, REVISIONS, Revision
from tests.spec_files import json_lines, schema_of

R2026_07_28 = REVISIONS["2026-07-28"]
#: A second modern revision, such as there will be.
NEXT = R2026_07_28.evolve("2099-01-01")

LEAST: dict[str, Any] = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}


# ---------------------------------------------------------------- the specification's own


def test_the_keys_are_those_of_the_schema() -> None:
    """2026-07-28 schema: RequestMetaObject, ResultMetaObject and NotificationMetaObject."""
    definitions = schema_of("2026-07-28")["$defs"]
    of_request = definitions["RequestMetaObject"]

    assert set(of_request["properties"]) == {*LEAST, CLIENT_INFO, LOG_LEVEL, "progressToken"}
    assert set(of_request["required"]) == set(LEAST)
    assert SERVER_INFO in definitions["ResultMetaObject"]["properties"]
    assert SUBSCRIPTION_ID in definitions["NotificationMetaObject"]["properties"]


@pytest.mark.spec("B-27", "B-29")
def test_the_envelopes_of_the_examples_are_read_as_they_stand() -> None:
    refused, with_level = [], 0
    for line in json_lines("2026-07-28.jsonl"):
        message = classify(line["msg"])
        if line["dir"] != "c2s" or type(message) is not Request or message.method == "initialize":
            continue
        assert is_enveloped(message.params), line
        assert message.params is not None
        meta = message.params["_meta"]
        if line["note"].startswith("required _meta key missing"):
            with pytest.raises(InvalidMessage):
                read_envelope(message.params)
            refused.append(line["n"])
            continue
        envelope = read_envelope(message.params)
        with_level += envelope.log_level is not None
        assert envelope == Envelope(
            version=meta[PROTOCOL_VERSION],
            capabilities=meta[CLIENT_CAPABILITIES],
            client_info=meta.get(CLIENT_INFO),
            log_level=meta.get(LOG_LEVEL),
        ), line
    assert len(refused) == 1
    assert with_level > 0


@pytest.mark.spec("V-1", "B-31")
def test_the_errors_of_the_examples_have_the_same_data() -> None:
    def version_refused() -> Refusal:
        with pytest.raises(Refusal) as caught:
            revision_of(Envelope(version="2027-01-01"), (R2026_07_28, LATEST_LEGACY))
        return caught.value

    made = {
        2: version_refused(),
        16: missing_capability("elicitation.form", "it asks"),
        65: missing_capability("extensions.io.modelcontextprotocol/tasks", "it is a task"),
    }

    for line in json_lines("2026-07-28.jsonl"):
        if line["dir"] != "s2c" or line["msg"].get("id") not in made or "error" not in line["msg"]:
            continue
        ours, theirs = made.pop(line["msg"]["id"]), line["msg"]["error"]
        assert (ours.code, ours.data) == (theirs["code"], theirs["data"])
    assert made == {}


# ---------------------------------------------------------------- is there one


@pytest.mark.spec("V-12")
@pytest.mark.parametrize(
    ("params", "enveloped"),
    [
        (None, False),
        ({}, False),
        ({"name": "sum"}, False),
        ({"_meta": {}}, False),
        ({"_meta": None}, False),
        ({"_meta": PROTOCOL_VERSION}, False),
        ({"_meta": [PROTOCOL_VERSION]}, False),
        ({"_meta": {"progressToken": 1}}, False),
        ({"_meta": {CLIENT_CAPABILITIES: {}}}, False),
        ({"_meta": {PROTOCOL_VERSION.lower(): "2026-07-28"}}, False),
        (LEAST, False),  # the key is in `_meta` or it is nothing
        ({"_meta": LEAST}, True),
        ({"_meta": {PROTOCOL_VERSION: None}}, True),
        ({"_meta": {PROTOCOL_VERSION: "1999-01-01"}}, True),
    ],
)
def test_one_key_makes_a_request_modern(params: dict[str, Any] | None, *, enveloped: bool) -> None:
    """Whatever its value; a bare ``_meta`` does not, since legacy progress tokens are there."""
    assert is_enveloped(params) is enveloped


# ---------------------------------------------------------------- reading it


def test_capabilities_and_keys_that_nobody_knows_are_tolerated() -> None:
    capabilities = {"telepathy": {"range": 3}, "sampling": None}
    meta = {**LEAST, CLIENT_CAPABILITIES: capabilities, "com.example/x": [1], "traceparent": "00-"}

    assert read_envelope({"_meta": meta}) == Envelope(
        version="2026-07-28", capabilities=capabilities
    )


def test_who_the_client_is_and_what_it_wants_logged_are_optional() -> None:
    meta = {**LEAST, CLIENT_INFO: {"name": "c"}, LOG_LEVEL: "loud"}

    assert read_envelope({"_meta": LEAST}) == Envelope(version="2026-07-28")
    assert read_envelope({"_meta": meta}) == Envelope(
        version="2026-07-28", client_info={"name": "c"}, log_level="loud"
    )


@pytest.mark.spec("B-29")
@pytest.mark.parametrize(
    ("params", "path", "expected"),
    [
        (None, "$._meta", "an object, and required"),
        ({}, "$._meta", "an object, and required"),
        ({"_meta": None}, "$._meta", "an object, and required"),
        ({"_meta": [LEAST]}, "$._meta", "an object, and required"),
        ({"_meta": {}}, f"$._meta['{PROTOCOL_VERSION}']", "a string, and required"),
        (
            {"_meta": {CLIENT_CAPABILITIES: {}}},
            f"$._meta['{PROTOCOL_VERSION}']",
            "a string, and required",
        ),
        (
            {"_meta": {**LEAST, PROTOCOL_VERSION: 20260728}},
            f"$._meta['{PROTOCOL_VERSION}']",
            "a string, and required",
        ),
        (
            {"_meta": {PROTOCOL_VERSION: "2026-07-28"}},
            f"$._meta['{CLIENT_CAPABILITIES}']",
            "an object, and required",
        ),
        (
            {"_meta": {**LEAST, CLIENT_CAPABILITIES: ["sampling"]}},
            f"$._meta['{CLIENT_CAPABILITIES}']",
            "an object, and required",
        ),
        ({"_meta": {**LEAST, CLIENT_INFO: "c"}}, f"$._meta['{CLIENT_INFO}']", "an object"),
        ({"_meta": {**LEAST, CLIENT_INFO: None}}, f"$._meta['{CLIENT_INFO}']", "an object"),
        ({"_meta": {**LEAST, LOG_LEVEL: 3}}, f"$._meta['{LOG_LEVEL}']", "a string"),
        ({"_meta": {**LEAST, LOG_LEVEL: None}}, f"$._meta['{LOG_LEVEL}']", "a string"),
    ],
)
def test_a_broken_envelope_is_named_with_its_place(
    params: dict[str, Any] | None, path: str, expected: str
) -> None:
    """2026-07-28 basic § _meta: the two keys "MUST be included in every request"."""
    with pytest.raises(InvalidMessage) as caught:
        read_envelope(params)

    assert (caught.value.path, caught.value.expected) == (path, expected)


KINDS: dict[str, type] = {
    PROTOCOL_VERSION: str,
    CLIENT_CAPABILITIES: dict,
    CLIENT_INFO: dict,
    LOG_LEVEL: str,
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=9) | st.sampled_from([*KINDS]), inner, max_size=4)
    ),
    max_leaves=12,
)
#: Half of the values are of the kind that belongs there.
metas = st.fixed_dictionaries(
    {},
    optional={
        key: json_values | (st.text() if kind is str else st.dictionaries(st.text(), json_values))
        for key, kind in KINDS.items()
    },
)


@pytest.mark.spec("B-29")
@given(meta=json_values | metas)
@example(meta=LEAST)
def test_any_value_of_meta_is_read_or_refused(meta: Any) -> None:
    """It is refused with the path of a member that has the wrong type, and is never changed."""
    wrong = {"$._meta"}
    if isinstance(meta, dict):
        wrong = {
            f"$._meta[{key!r}]"
            for key, kind in KINDS.items()
            if not isinstance(meta.get(key), kind) and (key in meta or key in LEAST)
        }
    before = deepcopy(meta)

    try:
        envelope = read_envelope({"_meta": meta})
    except InvalidMessage as exc:
        assert exc.path in wrong  # noqa: PT017 - the other outcome is as good
    else:
        assert wrong == set()
        assert is_enveloped({"_meta": meta})
        assert envelope == Envelope(
            version=meta[PROTOCOL_VERSION],
            capabilities=meta[CLIENT_CAPABILITIES],
            client_info=meta.get(CLIENT_INFO),
            log_level=meta.get(LOG_LEVEL),
        )
    assert meta == before


# ---------------------------------------------------------------- its revision


@pytest.mark.spec("V-14")
@pytest.mark.parametrize("revision", [R2026_07_28, NEXT, LATEST_LEGACY])
def test_a_request_is_in_the_revision_that_it_names(revision: Revision) -> None:
    envelope = Envelope(version=revision.version)

    assert revision_of(envelope, iter([NEXT, R2026_07_28, LATEST_LEGACY])) is revision


@pytest.mark.spec("V-1")
@pytest.mark.parametrize(
    "version", ["v999.0.0", "2025-11-25", "", "2026-07-28 ", "2026-07", "2027-01-01"]
)
def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(version: str) -> None:
    """Compared by membership: a later one is as unknown as an earlier one."""
    with pytest.raises(Refusal) as caught:
        revision_of(Envelope(version=version), iter([NEXT, R2026_07_28]))

    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert caught.value.data == {"supported": ["2099-01-01", "2026-07-28"], "requested": version}


# ---------------------------------------------------------------- what its client cannot do


@pytest.mark.spec("B-31")
@pytest.mark.parametrize(
    ("capability", "required"),
    [
        ("roots", {"roots": {}}),
        ("elicitation.url", {"elicitation": {"url": {}}}),
        ("sampling.tools.parallel", {"sampling": {"tools": {"parallel": {}}}}),
        ("elicitation.elicitation.url", {"elicitation": {"elicitation": {"url": {}}}}),
        ("extensions", {"extensions": {}}),
        ("extensions.com.example/a.b", {"extensions": {"com.example/a.b": {}}}),
    ],
)
def test_a_missing_capability_is_named_as_a_client_would_declare_it(
    capability: str, required: dict[str, Any]
) -> None:
    """2026-07-28 basic § Missing Required Client Capability; an extension's name has dots."""
    refusal = missing_capability(capability, "this tool asks its user")

    assert refusal.code == ErrorCode.MISSING_CLIENT_CAPABILITY
    assert refusal.message == "this tool asks its user"
    assert refusal.data == {"requiredCapabilities": required}


@given(names=st.lists(st.from_regex("[a-z]{1,9}", fullmatch=True), min_size=1, max_size=9))
def test_a_capability_is_as_deep_as_its_path(names: list[str]) -> None:
    at = missing_capability(".".join(["x", *names]), "no").data["requiredCapabilities"]

    for name in ["x", *names]:
        assert list(at) == [name]
        at = at[name]
    assert at == {}
