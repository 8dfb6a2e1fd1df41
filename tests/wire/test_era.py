"""Which era a message is of, and what a client makes of the answer to its probe."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.era import (
    MAX_VERSION_LENGTH,
    MAX_VERSIONS,
    MODERN_ERRORS,
    GiveUp,
    HttpDecision,
    Legacy,
    Modern,
    NoAnswer,
    NoEvidence,
    ProbeDecision,
    Restart,
    Retry,
    choose,
    decide_http_probe,
    decide_probe,
    era_of_message,
    era_of_post,
    legacy_of,
    modern_of,
    read_versions,
)
from mcp_trio.wire.http_client_rules import may_be_sse_pair
from mcp_trio.wire.jsonrpc import (
    Batch,
    Failure,
    Flaw,
    Malformed,
    Notification,
    Request,
    Result,
    classify,
)
from mcp_trio.wire.revisions import LATEST_LEGACY, LEGACY, REVISIONS, Era, Revision
from tests.spec_files import json_lines

R2025_06_18, R2025_11_25 = LEGACY[-2:]
R2026_07_28 = REVISIONS["2026-07-28"]
#: A second modern revision, such as there will be.
NEXT = R2026_07_28.evolve("2099-01-01")

ALL = tuple(REVISIONS.values())[::-1]
BOTH = (R2026_07_28, R2025_11_25)
MODERN_ONLY = (R2026_07_28,)
ASKED = (R2026_07_28,)

INVALID = Malformed(Flaw.REQUEST, ErrorCode.INVALID_REQUEST, "no", 1)


def envelope(version: object = "2026-07-28") -> dict[str, Any]:
    return {"_meta": {"io.modelcontextprotocol/protocolVersion": version}}


# ---------------------------------------------------------------- the server, on a pipe


@pytest.mark.spec("V-12", "V-14", "B-27")
@pytest.mark.parametrize("version", list(REVISIONS))
def test_every_example_on_a_pipe_is_of_its_era(version: str) -> None:
    """Only cancellations say nothing: those of the modern era carry no envelope either."""
    seen = set()
    for line in json_lines(f"{version}.jsonl"):
        if line["dir"] != "c2s":
            continue
        message = classify(line["msg"])
        era = era_of_message(message)
        if type(message) is Notification and message.method == "notifications/cancelled":
            assert era is None, line
        elif line["note"].startswith("legacy client"):
            assert era is Era.LEGACY, line
            continue
        else:
            assert era is REVISIONS[version].era, line
        seen.add(era)
    assert seen == {REVISIONS[version].era, None}


@pytest.mark.spec("V-12")
@pytest.mark.parametrize(
    ("message", "era"),
    [
        (Request(1, "tools/list", envelope()), Era.MODERN),
        (Request(1, "tools/list", envelope("1999-01-01")), Era.MODERN),
        (Request(1, "tools/list", envelope(None)), Era.MODERN),  # broken, but not legacy
        (Request(1, "initialize", envelope()), Era.MODERN),
        (Notification("notifications/cancelled", envelope()), Era.MODERN),
        (Request(1, "initialize", {"protocolVersion": "2026-07-28"}), Era.LEGACY),
        (Request(1, "initialize"), Era.LEGACY),
        (Request(1, "server/discover"), Era.MODERN),
        (Request(1, "server/discover", {"_meta": {}}), Era.MODERN),
        (Request(1, "tools/list", {"_meta": {"progressToken": 1}}), Era.LEGACY),
        (Request(1, "tools/list", {"_meta": [[*envelope()["_meta"]]]}), Era.LEGACY),
        (Request(1, "tools/list", envelope()["_meta"]), Era.LEGACY),
        (Notification("server/discover"), Era.LEGACY),
        (Notification("notifications/initialized"), Era.LEGACY),
        (Result("s-1", {}), Era.LEGACY),
        (Failure("s-1", -1, "no"), Era.LEGACY),
        (Batch([{}]), Era.LEGACY),
        (Notification("notifications/cancelled", {"requestId": 1}), None),
        (INVALID, None),
    ],
)
def test_a_message_on_a_pipe_tells_its_era(message: Any, era: Era | None) -> None:
    assert era_of_message(message) is era


# ---------------------------------------------------------------- the server, over HTTP


def headers_of(request: dict[str, Any]) -> dict[str, str | None]:
    theirs = {name.lower(): value for name, value in request["headers"].items()}
    return {
        "version": theirs.get("mcp-protocol-version"),
        "method": theirs.get("mcp-method"),
        "session_id": theirs.get("mcp-session-id"),
    }


@pytest.mark.spec("V-12", "HM-38")
@pytest.mark.parametrize("version", [v for v in REVISIONS if v != "2024-11-05"])
def test_every_posted_example_is_of_its_era(version: str) -> None:
    """Also those that are refused, whose refusal is the one of their era."""
    posted = 0
    for exchange in json_lines(f"{version}.http.jsonl"):
        request, name = exchange["request"], exchange["name"]
        if request["method"] != "POST" or "json" not in request:
            continue
        posted += 1
        era = REVISIONS[version].era
        if name == "legacy-initialize-on-modern-only":
            era = Era.LEGACY

        assert era_of_post(classify(request["json"]), **headers_of(request)) is era, name
    assert posted > 5


CALL = Request(1, "tools/list", {})


@pytest.mark.spec("V-12")
@pytest.mark.parametrize(
    ("version", "method", "session_id", "era"),
    [
        (None, None, None, Era.LEGACY),
        ("2026-07-28", None, None, Era.MODERN),
        ("2026-07-28", None, "S1", Era.MODERN),
        ("v999.0.0", None, None, Era.MODERN),
        ("", None, None, Era.MODERN),
        (None, "tools/list", None, Era.MODERN),
        ("v999.0.0", "tools/list", None, Era.MODERN),
        ("2025-06-18", None, None, Era.LEGACY),
        ("2025-06-18", "tools/list", "S1", Era.LEGACY),
        (None, None, "S1", Era.LEGACY),
        (None, "tools/list", "S1", Era.LEGACY),
        ("v999.0.0", None, "S1", Era.LEGACY),
    ],
)
def test_headers_tell_the_era_of_a_body_that_does_not(
    version: str | None, method: str | None, session_id: str | None, era: Era
) -> None:
    for body in (CALL, INVALID, Result(1, {}), Batch([{}]), Notification("x")):
        found = era_of_post(body, version=version, method=method, session_id=session_id)
        assert found is era, body


@given(
    version=st.none() | st.sampled_from([*REVISIONS, "v999.0.0"]),
    method=st.none() | st.just("tools/list"),
    session_id=st.none() | st.just("S1"),
)
def test_no_header_outweighs_the_body(**headers: str | None) -> None:
    assert era_of_post(Request(1, "tools/list", envelope()), **headers) is Era.MODERN
    assert era_of_post(Request(1, "server/discover"), **headers) is Era.MODERN
    assert era_of_post(Request(1, "initialize"), **headers) is Era.LEGACY


# ---------------------------------------------------------------- versions


@pytest.mark.spec("V-2")
def test_the_client_prefers_in_its_own_order() -> None:
    assert choose(["2025-11-25", "2026-07-28"], BOTH) is R2026_07_28
    assert choose(["2026-07-28", "2025-11-25"], BOTH[::-1]) is R2025_11_25
    assert choose(iter(["x", "2025-11-25"]), BOTH) is R2025_11_25
    assert choose(["2025-06-18", "x"], BOTH) is None
    assert choose([], BOTH) is None
    assert choose(REVISIONS, ()) is None


def test_what_a_client_is_willing_to_speak_is_of_two_eras() -> None:
    assert modern_of((NEXT, *ALL)) == (NEXT, R2026_07_28)
    assert legacy_of(ALL) == LEGACY[::-1]
    assert modern_of(LEGACY) == legacy_of(MODERN_ONLY) == ()


def test_a_list_of_versions_is_short_and_of_short_strings() -> None:
    assert read_versions(["b", "a", "a"]) == ("b", "a", "a")
    assert read_versions([]) == ()
    assert read_versions(["v"] * MAX_VERSIONS) == ("v",) * MAX_VERSIONS
    assert read_versions(["v" * MAX_VERSION_LENGTH]) == ("v" * MAX_VERSION_LENGTH,)
    for bad in (
        None,
        True,
        "2026-07-28",
        {"2026-07-28": 1},
        ["2026-07-28", None],
        ["2026-07-28", 20260728],
        [["2026-07-28"]],
        ["v"] * (MAX_VERSIONS + 1),
        ["v" * (MAX_VERSION_LENGTH + 1)],
    ):
        assert read_versions(bad) is None, bad


# ---------------------------------------------------------------- the client's probe

Outcome = Result | Failure | NoAnswer
Answer = Result | Failure | None


def discovered(*versions: object) -> Result:
    return Result("d-1", {"supportedVersions": [*versions], "capabilities": {}})


def failed(code: int, *supported: object) -> Failure:
    data = {"supported": [*supported], "requested": "2026-07-28"} if supported else None
    return Failure("d-1", code, "no", data)


def stdio(outcome: Outcome, willing: tuple[Revision, ...] = ALL) -> ProbeDecision:
    return decide_probe(outcome, willing, asked=ASKED)


def http(
    status: int | None, answer: Answer = None, willing: tuple[Revision, ...] = ALL
) -> HttpDecision:
    return decide_http_probe(status, answer, willing, asked=ASKED)


MODERN = Modern(revision=R2026_07_28)
INITIALIZE = Legacy(revision=R2025_11_25)

#: What each vector says (how its decision begins), and what is decided: (found, expected).
VECTORS: dict[tuple[str, str], tuple[str, list[tuple[object, object]]]] = {
    ("stdio", "result with supportedVersions including a common modern version"): (
        "modern: use it",
        [
            (stdio(discovered("2025-11-25", "2026-07-28")), MODERN),
            (stdio(discovered("2099-01-01", "2026-07-28"), MODERN_ONLY), MODERN),
        ],
    ),
    (
        "stdio",
        (
            "result with supportedVersions listing only handshake versions the client speaks"
            " (dual-era server)"
        ),
    ): (
        "connect with initialize (the list names the version)",
        [
            (stdio(discovered("2025-11-25", "2025-06-18")), INITIALIZE),
            (stdio(discovered("2025-06-18")), Legacy(revision=R2025_06_18)),
        ],
    ),
    ("stdio", "error -32022 with data.supported containing a common modern version"): (
        "modern: retry with it; never initialize",
        [
            (stdio(failed(-32022, "2025-11-25", "2099-01-01"), (NEXT, *ALL)), Retry(revision=NEXT)),
            (
                decide_probe(
                    failed(-32022, "2025-11-25", "2026-07-28"), (NEXT, *ALL), asked=[NEXT]
                ),
                Retry(revision=R2026_07_28),
            ),
        ],
    ),
    ("stdio", "error -32022 with data.supported containing only handshake versions"): (
        "spec says do NOT fall back on a recognised modern error",
        [
            (stdio(failed(-32022, "2024-01-01", "2025-06-18")), Legacy(revision=R2025_06_18)),
            (
                stdio(failed(-32022, "2025-06-18"), BOTH),
                GiveUp(
                    reason="the server speaks '2025-06-18'; spoken here: 2026-07-28, 2025-11-25"
                ),
            ),
        ],
    ),
    ("stdio", "error -32021 or -32020"): (
        "modern: correct the request",
        [(stdio(failed(-32021)), MODERN), (stdio(failed(-32020)), MODERN)],
    ),
    ("stdio", "error -32601"): ("legacy: initialize", [(stdio(failed(-32601)), INITIALIZE)]),
    ("stdio", "error -32602"): ("legacy: initialize", [(stdio(failed(-32602)), INITIALIZE)]),
    ("stdio", "error -32600 / -32000 / any other code"): (
        "legacy: initialize",
        [(stdio(failed(c)), INITIALIZE) for c in (-32600, -32000, -32700, -32023, -32019, 0, 404)],
    ),
    ("stdio", "no answer within the timeout"): (
        "legacy: initialize",
        [(stdio(NoAnswer.SILENCE), INITIALIZE)],
    ),
    ("stdio", "process exits on the probe"): (
        "not specified: restart and initialize once, then report",
        [(stdio(NoAnswer.ENDED), Restart(revision=R2025_11_25))],
    ),
    ("http", "2xx with a JSON-RPC result or modern SSE"): (
        "modern",
        [(http(200, discovered("2026-07-28")), MODERN)],
    ),
    ("http", "400 + body -32020/-32021/-32022"): (
        "modern: fix or re-version",
        [
            (http(400, failed(-32020)), MODERN),
            (http(400, failed(-32021)), MODERN),
            (http(400, failed(-32022, "2099-01-01"), (NEXT, *ALL)), Retry(revision=NEXT)),
            (http(400, failed(-32022, "2025-11-25")), INITIALIZE),
        ],
    ),
    ("http", "400 + body -32602 with the request id"): (
        "ambiguous",
        [
            (http(400, failed(-32602)), INITIALIZE),
            (
                decide_http_probe(400, failed(-32602), ALL, asked=ASKED, discovered=True),
                NoEvidence(
                    reason="the server answered server/discover with HTTP status 400"
                    " and error -32602"
                ),
            ),
        ],
    ),
    ("http", "404 + body -32601"): (
        "modern server without that method (for server/discover this cannot happen",
        [(http(404, failed(-32601)), INITIALIZE)],
    ),
    ("http", "400 with empty or non-JSON-RPC body"): (
        "legacy: POST initialize",
        [(http(400), INITIALIZE)],
    ),
    ("http", "404/405 with empty or HTML body"): (
        "legacy: POST initialize, then GET for HTTP+SSE `endpoint`",
        [
            (http(404), INITIALIZE),
            (http(405), INITIALIZE),
            (may_be_sse_pair(404) and may_be_sse_pair(405), True),
        ],
    ),
    ("http", "401 / 403 insufficient_scope"): (
        "says nothing about the era",
        [
            (type(http(status, answer)), NoEvidence)
            for status in (401, 403)
            for answer in (None, failed(-32601), failed(-32022, "2025-11-25"))
        ],
    ),
    ("http", "5xx or network failure"): (
        "not an era signal",
        [
            (type(http(status, answer)), NoEvidence)
            for status in (None, 500, 501, 503, 599)
            for answer in (None, failed(-32603))
        ],
    ),
    ("http", "200 with a JSON-RPC error of a non-modern code"): (
        "not covered by the page (it keys on 400): treat as legacy",
        [(http(200, failed(-32601)), INITIALIZE), (http(200, failed(-32000)), INITIALIZE)],
    ),
}


@pytest.mark.spec("V-2", "V-6", "V-7", "V-8", "HM-39")
@pytest.mark.parametrize(("transport", "answer"), list(VECTORS))
def test_the_vectors_of_the_probe(transport: str, answer: str) -> None:
    says, decided = VECTORS[transport, answer]
    [vector] = (
        line
        for line in json_lines("era-probe.vectors.jsonl")
        if (line["transport"], line["answer"]) == (transport, answer)
    )

    assert vector["decision"].startswith(says)
    assert [found for found, _ in decided] == [expected for _, expected in decided]


def test_no_vector_is_left_out() -> None:
    vectors = json_lines("era-probe.vectors.jsonl")

    assert {(line["transport"], line["answer"]) for line in vectors} == set(VECTORS)


@pytest.mark.spec("V-6")
def test_the_offer_is_the_preferred_legacy_revision() -> None:
    willing = (R2026_07_28, R2025_06_18, LATEST_LEGACY)

    assert stdio(failed(-32601), willing) == Legacy(revision=R2025_06_18)
    assert stdio(NoAnswer.ENDED, willing) == Restart(revision=R2025_06_18)


@pytest.mark.spec("V-13")
def test_a_modern_only_client_is_never_led_back() -> None:
    """Whatever comes from a legacy server, or from a proxy that would have it downgraded."""
    for outcome, reason in (
        (NoAnswer.SILENCE, "did not answer server/discover, and no revision with a handshake"),
        (NoAnswer.ENDED, "ended on server/discover, and no"),
        (failed(-32601), "answered server/discover with -32601, and no"),
        (Result("d-1", {}), "names no versions, and no"),
        (discovered("2025-11-25"), "speaks '2025-11-25'; spoken here: 2026-07-28"),
        (failed(-32022, "2025-11-25"), "speaks '2025-11-25'; spoken here: 2026-07-28"),
    ):
        decision = stdio(outcome, MODERN_ONLY)
        assert isinstance(decision, GiveUp), outcome
        assert reason in decision.reason
    for status in (400, 404, 405):
        decision_over_http = http(status, None, MODERN_ONLY)
        assert isinstance(decision_over_http, GiveUp)
        assert f"HTTP status {status} and no JSON-RPC error, and" in decision_over_http.reason


@pytest.mark.spec("V-7")
@pytest.mark.parametrize("data", [None, "x", [], {}, {"supported": None}, {"supported": [1]}])
def test_a_refused_version_without_a_list_is_no_reason_to_initialize(data: object) -> None:
    refused = Failure("d-1", ErrorCode.UNSUPPORTED_VERSION, "no", data)
    reason = "the server refuses version 2026-07-28 and names no other"

    assert stdio(refused) == http(400, refused) == GiveUp(reason=reason)


@pytest.mark.spec("V-7")
def test_a_server_that_names_what_it_refuses_is_asked_once_more() -> None:
    """Some refuse whatever comes first; but not round and round, nor by ``initialize``."""
    reason = "the server refuses version 2026-07-28, yet names it supported"
    refused = failed(-32022, "2026-07-28", "2025-11-25")

    again = Retry(revision=R2026_07_28)
    assert stdio(refused) == again
    assert decide_probe(refused, (NEXT, *ALL), asked=[R2026_07_28, NEXT]) == again
    for asked in ([R2026_07_28] * 2, [R2026_07_28, NEXT, R2026_07_28]):
        assert decide_probe(refused, (NEXT, *ALL), asked=asked) == GiveUp(reason=reason)


@pytest.mark.spec("V-7")
def test_other_modern_errors_leave_the_version_last_asked_at() -> None:
    """The version was not at fault, nor do these errors name another."""
    for code in (-32020, -32021):
        failure = failed(code, "2025-11-25")
        decision = decide_probe(failure, (NEXT, *ALL), asked=[NEXT, R2026_07_28])
        assert decision == MODERN


@pytest.mark.spec("V-2")
def test_a_newer_server_is_spoken_to_in_the_legacy_revision_that_it_names() -> None:
    assert stdio(failed(-32022, "2099-01-01", "2025-11-25")) == INITIALIZE
    assert stdio(discovered("2099-01-01", "2025-11-25")) == INITIALIZE


def test_a_result_that_names_no_versions_is_not_of_a_modern_server() -> None:
    for versions in (None, "2026-07-28", ["2026-07-28", 1], ["2026-07-28"] * 65):
        result = Result("d-1", {"supportedVersions": versions})
        assert stdio(result) == http(200, result) == INITIALIZE, versions
    assert stdio(Result("d-1", {})) == INITIALIZE


def test_a_reason_quotes_a_few_versions_safely() -> None:
    def reason(*versions: str, willing: tuple[Revision, ...] = MODERN_ONLY) -> str:
        decision = stdio(discovered(*versions), willing)
        assert isinstance(decision, GiveUp)
        return decision.reason

    assert reason("\x1b[2J") == r"the server speaks '\x1b[2J'; spoken here: 2026-07-28"
    assert reason(*"abcdefgh").count("'") == 16
    assert "'h'; spoken" in reason(*"abcdefgh")
    assert "'h' and more; spoken" in reason(*"abcdefghi")
    assert reason(willing=()) == "the server speaks nothing; spoken here: nothing"


@pytest.mark.spec("V-8", "HM-39")
@pytest.mark.parametrize("status", [200, 202, 204, 301, 307, 406, 408, 410, 415, 429])
def test_only_three_statuses_without_an_answer_lead_to_initialize(status: int) -> None:
    decision = http(status)

    assert isinstance(decision, NoEvidence)
    assert f"HTTP status {status}" in decision.reason


def test_an_answer_counts_only_with_its_status() -> None:
    assert http(422, failed(-32602)) == INITIALIZE
    assert http(422, failed(-32021)) == MODERN
    assert isinstance(http(429, failed(-32000)), NoEvidence)
    assert isinstance(http(307, discovered("2026-07-28")), NoEvidence)
    assert isinstance(http(422, discovered("2026-07-28")), NoEvidence)
    assert http(404, discovered("2026-07-28")) == INITIALIZE


@pytest.mark.spec("V-9")
def test_a_server_known_as_modern_is_not_left_for_an_error_of_no_era() -> None:
    """But modern errors still count, and so does a body that is none of a modern server's."""

    def again(status: int, answer: Answer) -> HttpDecision:
        return decide_http_probe(status, answer, ALL, asked=ASKED, discovered=True)

    assert isinstance(again(404, failed(-32601)), NoEvidence)
    assert again(400, failed(-32022, "2025-11-25")) == INITIALIZE
    assert again(400, failed(-32020)) == MODERN
    assert again(200, discovered("2026-07-28")) == MODERN
    assert again(404, None) == INITIALIZE


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.sampled_from([*REVISIONS]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)
hostile = st.builds(
    Result, st.just(1), st.fixed_dictionaries({}, optional={"supportedVersions": json_values})
) | st.builds(
    Failure,
    st.just(1),
    st.sampled_from([*MODERN_ERRORS, -32601, -32000]),
    st.text(max_size=9),
    json_values | st.fixed_dictionaries({"supported": json_values}),
)


@given(
    answer=hostile,
    willing=st.permutations([NEXT, *ALL]).flatmap(
        lambda every: st.integers(0, len(every)).map(lambda n: tuple(every[:n]))
    ),
    status=st.sampled_from([200, 400, 404, 405]),
)
def test_no_answer_leads_beyond_what_the_client_is_willing_to_speak(
    answer: Result | Failure, willing: tuple[Revision, ...], status: int
) -> None:
    """A retry, moreover, is never at a version that has been asked already."""
    for decision in (stdio(answer, willing), http(status, answer, willing)):
        if isinstance(decision, Retry):
            assert decision.revision in modern_of(willing)
            assert decision.revision not in ASKED
        elif isinstance(decision, Modern):
            assert decision.revision in (*ASKED, *modern_of(willing))
        elif isinstance(decision, Legacy):
            assert decision.revision in legacy_of(willing)
        else:
            assert isinstance(decision, GiveUp | NoEvidence)
            assert decision.reason
