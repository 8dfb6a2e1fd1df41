"""What a server of Streamable HTTP does with a request, rule by rule and in order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.http import (
    JSON_HEADERS,
    SSE_HEADERS,
    Accepted,
    DeleteHead,
    EndSession,
    GetHead,
    OpenSession,
    OpenStream,
    PostHead,
    Preflight,
    ResumeStream,
    Serve,
    SessionFacts,
    accepts,
    check_head,
    decide_delete,
    decide_get,
    decide_post,
    for_session,
    reject_event,
    reject_session,
    reject_size,
    session_header,
    status_of,
)
from mcp_trio.wire.http_head import RequestHead
from mcp_trio.wire.http_policy import HttpPolicy, Reject, render_error_body
from mcp_trio.wire.jsonrpc import (
    Batch,
    Failure,
    Notification,
    Request,
    Result,
    decode,
)
from mcp_trio.wire.media import BOTH, Accepts
from mcp_trio.wire.revisions import LATEST_LEGACY, LEGACY, REVISIONS
from tests.spec_files import json_lines

R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25 = LEGACY

SESSIONS = HttpPolicy(body_bytes=100)
STATELESS = HttpPolicy(stateless=True)
JSON_ONLY = Accepts(json=True, sse=False)
SSE_ONLY = Accepts(json=False, sse=True)

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/list"}'
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
ANSWER = b'{"jsonrpc":"2.0","id":"s-1","result":{}}'

Headers = dict[str, str]
USUAL: Headers = {
    "Host": "localhost:8000",
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


def head_of(
    method: str = "POST", target: str = "/mcp", without: str = "", **changes: str
) -> RequestHead:
    """The usual head with *changes*: ``session_id="a"`` for ``Mcp-Session-Id: a``, and so on."""
    names = {"session_id": "Mcp-Session-Id", "version": "MCP-Protocol-Version"}
    headers = {**USUAL, **{names.get(n, n.replace("_", "-")): v for n, v in changes.items()}}
    headers.pop(without, None)
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    return RequestHead.read(method.encode(), target.encode(), raw)


def decide(
    head: RequestHead,
    body: bytes = b"",
    session: SessionFacts | None = None,
    policy: HttpPolicy = SESSIONS,
) -> object:
    """Both halves, as a server calls them."""
    first = check_head(head, policy)
    match first:
        case PostHead():
            return decide_post(first, decode(body, depth=32), session, policy)
        case GetHead():
            return decide_get(first, session, policy)
        case DeleteHead():
            return decide_delete(first, session, policy)
        case _:
            return first


def refusal(decision: object) -> tuple[int, str]:
    assert isinstance(decision, Reject)
    assert decision.error is not None
    assert decision.error.code == ErrorCode.INVALID_REQUEST
    assert b'"id"' not in render_error_body(decision)
    return decision.status, decision.error.message


LATEST = SessionFacts(revision=LATEST_LEGACY)
OLD = SessionFacts(revision=R2025_03_26)


# ---------------------------------------------------------------- the order of checks

#: Each is a fault and the status it has; a request with several has that of the first.
FAULTS: list[tuple[int, dict[str, str]]] = [
    (404, {"target": "/other"}),
    (405, {"method": "PUT"}),
    (421, {"Host": "evil.com"}),
    (403, {"Origin": "http://evil.com"}),
    (413, {"Content-Length": "101"}),
    (415, {"Content-Type": "text/plain"}),
    (406, {"Accept": "text/html"}),
    (400, {"session_id": "a b"}),
    (404, {"session_id": "S1"}),
]


@given(chosen=st.sets(st.sampled_from(range(len(FAULTS))), min_size=1))
def test_the_first_fault_decides(chosen: set[int]) -> None:
    changes: dict[str, str] = {}
    for index in sorted(chosen, reverse=True):  # of two for one header the first stays
        changes.update(FAULTS[index][1])

    status, _ = refusal(decide(head_of(**changes), CALL))

    assert status == FAULTS[min(chosen)][0]


def test_a_post_without_a_fault_goes_on_to_its_body() -> None:
    head = head_of(session_id="S1", version="2025-11-25", Content_Length="100")

    assert check_head(head, SESSIONS) == PostHead(
        session_id="S1", version="2025-11-25", accepts=BOTH
    )
    assert "S1" not in repr(check_head(head, SESSIONS))


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "PUT", "OPTIONS"])
@pytest.mark.parametrize("one", ["S1", None])
def test_a_decision_holds_for_another_session(method: str, one: str | None) -> None:
    """Only the id in it differs, so it need not be made again."""
    without = "" if one else "Mcp-Session-Id"
    first = head_of(method, without=without, session_id=str(one))
    second = head_of(method, without=without, session_id="S2")

    kept = for_session(check_head(first, SESSIONS), second)

    assert kept == check_head(second, SESSIONS)
    raw = [(b"content-length", b"7"), (b"mcp-session-id", b"S3"), (b"x", b"y")]
    refilled = first.refilled(raw, {b"mcp-session-id", b"content-length"})
    assert refilled.headers.get("mcp-session-id") == "S3"
    assert refilled.headers.get("content-length") == "7"
    assert refilled.headers.get("x") is None
    assert refilled.path == first.path
    assert first.headers.get("mcp-session-id") == one


# ---------------------------------------------------------------- path and method


@pytest.mark.spec("HL-1")
@pytest.mark.parametrize(
    ("target", "status"), [("/mcp?x=1", 415), ("/mcp/", 404), ("/MCP", 404), ("*", 404), ("", 404)]
)
def test_paths_are_compared_as_they_stand(target: str, status: int) -> None:
    assert refusal(check_head(head_of(target=target, Content_Type="x"), SESSIONS))[0] == status


@pytest.mark.spec("HL-22")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "TRACE", "OPTIONS", "post", "GET", "DELETE"])
def test_a_method_that_is_not_served_gets_405_and_the_others(method: str) -> None:
    decision = check_head(head_of(method), STATELESS)

    assert refusal(decision) == (405, "this endpoint takes POST")
    assert isinstance(decision, Reject)
    assert decision.headers == ((b"Allow", b"POST"),)


def test_a_head_request_gets_no_body() -> None:
    assert check_head(head_of("HEAD"), SESSIONS) == Reject(
        status=405, error=None, headers=((b"Allow", b"POST, GET, DELETE"),)
    )


def test_a_preflight_is_answered_where_cors_is_on() -> None:
    policy = HttpPolicy(cors=True)
    decision = check_head(head_of("OPTIONS", Origin="http://localhost:6274"), policy)

    assert isinstance(decision, Preflight)
    assert (b"Allow", b"POST, GET, DELETE, OPTIONS") in decision.headers
    assert refusal(check_head(head_of("OPTIONS", Origin="http://evil.com"), policy))[0] == 403


@pytest.mark.spec("HL-2")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_every_method_is_for_friends_only(method: str) -> None:
    assert refusal(check_head(head_of(method, Origin="http://evil.com"), SESSIONS))[0] == 403


# ---------------------------------------------------------------- the body's head


@pytest.mark.case("14")
@pytest.mark.parametrize(
    ("length", "status"),
    [
        ("0", 200),
        ("100", 200),
        ("000000000000000000000000100", 200),
        ("101", 413),
        ("1073741824", 413),
        ("9" * 5_000, 413),
        ("-1", 400),
        ("1e1", 400),
        ("\xb2", 400),
        ("", 400),
    ],
)
def test_a_body_over_the_limit_is_not_read(length: str, status: int) -> None:
    decision = check_head(head_of(Content_Length=length), SESSIONS)

    assert (decision.status if isinstance(decision, Reject) else 200) == status


@pytest.mark.case("14")
def test_a_body_may_turn_out_too_long() -> None:
    assert refusal(reject_size(SESSIONS)) == (413, "the body is longer than 100 bytes")


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"Content-Type": "application/json; charset=UTF-8"}, 200),
        ({"Content-Type": "application/json;charset=latin-1"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"without": "Content-Type"}, 415),
        ({"Content-Encoding": "identity"}, 200),
        ({"Content-Encoding": "gzip"}, 415),
    ],
)
def test_the_body_is_plain_json(changes: dict[str, str], status: int) -> None:
    decision = check_head(head_of(**changes), SESSIONS)

    assert (decision.status if isinstance(decision, Reject) else 200) == status


# ---------------------------------------------------------------- Accept


@pytest.mark.case("20")
@pytest.mark.spec("HL-6", "HL-9")
@pytest.mark.parametrize(
    ("accept", "any_form", "json_form", "sse_form"),
    [
        ("application/json, text/event-stream", BOTH, JSON_ONLY, SSE_ONLY),
        ("*/*", BOTH, JSON_ONLY, SSE_ONLY),
        ("application/json", JSON_ONLY, JSON_ONLY, None),
        ("text/event-stream", SSE_ONLY, None, SSE_ONLY),
        ("text/html", None, None, None),
    ],
)
def test_the_forms_of_an_answer_are_those_that_both_sides_take(
    accept: str, any_form: Accepts | None, json_form: Accepts | None, sse_form: Accepts | None
) -> None:
    for answers, expected in ((BOTH, any_form), (JSON_ONLY, json_form), (SSE_ONLY, sse_form)):
        decision = check_head(head_of(Accept=accept), HttpPolicy(answers=answers))
        if expected is None:
            assert refusal(decision)[0] == 406
        else:
            assert isinstance(decision, PostHead)
            assert decision.accepts == expected


@pytest.mark.case("20")
def test_no_accept_is_any() -> None:
    assert accepts(head_of(without="Accept")) == BOTH
    assert isinstance(check_head(head_of("GET", without="Accept"), SESSIONS), GetHead)


@pytest.mark.case("20")
def test_a_406_names_what_is_served() -> None:
    for answers, text in (
        (BOTH, "application/json or text/event-stream"),
        (JSON_ONLY, "application/json"),
        (SSE_ONLY, "text/event-stream"),
    ):
        _, reason = refusal(check_head(head_of(Accept="a/b"), HttpPolicy(answers=answers)))
        assert reason == f"the answer is {text}, which Accept does not allow"


@pytest.mark.case("20")
@pytest.mark.spec("HL-21")
def test_a_stream_must_be_accepted() -> None:
    for accept, status in (("text/event-stream", 200), ("*/*", 200), ("application/json", 406)):
        decision = check_head(head_of("GET", Accept=accept), SESSIONS)
        assert (decision.status if isinstance(decision, Reject) else 200) == status


# ---------------------------------------------------------------- JSON and JSON-RPC


@pytest.mark.parametrize(
    ("body", "code", "id_"),
    [
        (b"", ErrorCode.PARSE_ERROR, None),
        (b"{", ErrorCode.PARSE_ERROR, None),
        (b'"\xff"', ErrorCode.PARSE_ERROR, None),
        (b"1", ErrorCode.INVALID_REQUEST, None),
        (b"[]", ErrorCode.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":true,"method":"m"}', ErrorCode.INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', ErrorCode.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":[]}', ErrorCode.INVALID_PARAMS, 7),
        (b'{"jsonrpc":"2.0","id":7,"result":[]}', ErrorCode.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","method":"m","params":[]}', ErrorCode.INVALID_REQUEST, None),
    ],
)
def test_what_is_no_message_is_told_so_before_anything_else(
    body: bytes, code: int, id_: int | None
) -> None:
    for policy in (SESSIONS, STATELESS):
        decision = decide(head_of(session_id="gone", version="x"), body, None, policy)

        assert isinstance(decision, Reject)
        assert decision.error is not None
        assert (decision.status, decision.error.code) == (400, code)
        assert (decision.error.id, decision.error.omit_id) == (id_, True)


# ---------------------------------------------------------------- sessions


@pytest.mark.spec("HL-29")
def test_initialize_opens_a_session() -> None:
    decision = decide(head_of(Accept="application/json"), INITIALIZE)

    assert decision == OpenSession(
        request=Request(1, "initialize", {}), accepts=JSON_ONLY, keep=True
    )
    assert decide(head_of(), INITIALIZE, None, STATELESS) == OpenSession(
        request=Request(1, "initialize", {}), accepts=BOTH, keep=False
    )


def test_initialize_is_legacy_whatever_its_headers_say() -> None:
    for version in ("2026-07-28", "2025-06-18", "1900-01-01"):
        assert isinstance(decide(head_of(version=version), INITIALIZE), OpenSession)


def test_initialize_inside_a_session_is_that_sessions_matter() -> None:
    decision = decide(head_of(session_id="S1"), INITIALIZE, LATEST)

    assert isinstance(decision, Serve)
    assert refusal(decide(head_of(session_id="S1"), INITIALIZE))[0] == 404


@pytest.mark.case("08")
@pytest.mark.spec("HL-32", "HL-33")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize("body", [CALL, INITIALIZED, ANSWER, b"[" + CALL + b"]"])
def test_a_missing_session_id_is_400_and_an_unknown_one_404(method: str, body: bytes) -> None:
    missing = decide(head_of(method), body)
    unknown = decide(head_of(method, session_id="S1"), body)

    assert refusal(missing) == (400, "Mcp-Session-Id is missing; start a session with initialize")
    assert refusal(unknown) == (404, "there is no session of this id; start one with initialize")
    assert unknown == reject_session()


@pytest.mark.spec("HL-30")
@pytest.mark.parametrize("bad", ["", "a b", "\xe9", "a\x7f"])
def test_a_session_id_that_cannot_be_one_is_malformed(bad: str) -> None:
    for method in ("POST", "GET", "DELETE"):
        for body in (CALL, INITIALIZE):
            assert refusal(decide(head_of(method, session_id=bad), body))[0] == 400
    with pytest.raises(ValueError, match="visible ASCII"):
        session_header(bad)


@pytest.mark.spec("HL-7")
def test_a_message_that_wants_no_answer_is_accepted() -> None:
    head = head_of(session_id="S1", version="2025-11-25")

    assert decide(head, INITIALIZED, LATEST) == Accepted(
        message=Notification("notifications/initialized")
    )
    assert decide(head, ANSWER, LATEST) == Accepted(message=Result("s-1", {}))


def test_without_sessions_nothing_but_a_request_means_anything() -> None:
    """Another client's call must not be reachable."""
    cancel = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}'

    for body in (cancel, INITIALIZED, ANSWER, b"[" + cancel + b"]"):
        assert decide(head_of(), body, None, STATELESS) == Accepted(message=None)


def test_without_sessions_a_session_id_means_nothing() -> None:
    for session_id in ("S1", "a b"):
        decision = decide(head_of(session_id=session_id), CALL, None, STATELESS)
        assert isinstance(decision, Serve)


# ---------------------------------------------------------------- revisions


@pytest.mark.spec("HL-37")
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_the_version_header_is_the_negotiated_one(method: str) -> None:
    session = SessionFacts(revision=R2025_06_18)
    for version in ("2025-03-26", "2025-11-25", "2026-07-28", "1900-01-01", "", "2025-06-18 x"):
        decision = decide(head_of(method, session_id="S1", version=version), CALL, session)
        assert refusal(decision) == (
            400,
            "MCP-Protocol-Version must be 2025-06-18, as this session negotiated",
        )
    for right in ({}, {"version": "2025-06-18"}):
        head = head_of(method, session_id="S1", **right)
        assert not isinstance(decide(head, CALL, session), Reject)


def test_a_session_of_a_revision_without_the_header_does_not_read_it() -> None:
    for revision in (R2024_11_05, R2025_03_26):
        facts = SessionFacts(revision=revision)
        decision = decide(head_of(session_id="S1", version="2025-11-25"), CALL, facts)
        assert decision == Serve(message=Request(7, "tools/list"), revision=revision, accepts=BOTH)


@pytest.mark.spec("HL-37", "HL-38")
def test_without_a_session_the_header_names_the_revision() -> None:
    served = {
        version: decide(head_of(version=version), CALL, None, STATELESS) for version in REVISIONS
    }
    modern = served.pop("2026-07-28")
    assumed = decide(head_of(), CALL, None, STATELESS)

    assert [d.revision for d in served.values() if isinstance(d, Serve)] == list(LEGACY)
    assert isinstance(assumed, Serve)
    assert assumed.revision is R2025_03_26
    assert refusal(modern) == (
        400,
        f"an unsupported protocol version; supported are {', '.join(map(str, LEGACY))}",
    )


def test_a_server_may_be_too_new_for_requests_without_a_version() -> None:
    policy = HttpPolicy(stateless=True, revisions=(R2025_11_25,))

    assert refusal(decide(head_of(), CALL, None, policy)) == (
        400,
        "no MCP-Protocol-Version; supported are 2025-11-25",
    )


@pytest.mark.parametrize("policy", [SESSIONS, STATELESS])
def test_a_modern_probe_is_refused_with_a_code_that_is_not_modern(policy: HttpPolicy) -> None:
    """It then tries ``initialize``, which a modern code would keep it from."""
    probe = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "server/discover",
        "params": {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}},
    }
    head = head_of(version="2026-07-28", Mcp_Method="server/discover")

    assert refusal(decide(head, json.dumps(probe).encode(), None, policy))[0] == 400


# ---------------------------------------------------------------- batches


@pytest.mark.spec("HL-10", "HL-11")
def test_only_one_revision_has_batches() -> None:
    for revision in LEGACY:
        facts = SessionFacts(revision=revision)
        decision = decide(head_of(session_id="S1"), b"[" + CALL + b"]", facts)
        if revision is R2025_03_26:
            assert decision == Serve(
                message=Batch([json.loads(CALL)]), revision=revision, accepts=BOTH
            )
        else:
            assert refusal(decision) == (400, f"batches are no part of revision {revision}")


@pytest.mark.spec("HL-7", "HL-11")
@pytest.mark.parametrize(
    ("members", "answered"),
    [
        ([CALL], True),
        ([INITIALIZED, CALL], True),
        ([INITIALIZED], False),
        ([ANSWER, ANSWER], False),
        ([b"1"], True),
        ([b"[]"], True),
        ([b"[1]"], True),
        ([b'{"jsonrpc":"2.0","id":null,"method":"m"}'], True),
        ([b'{"jsonrpc":"2.0","method":7}'], False),
        ([b'{"jsonrpc":"2.0","id":7,"result":7}'], False),
    ],
)
def test_a_batch_is_answered_if_a_member_is(members: list[bytes], answered: bool) -> None:  # noqa: FBT001  # a table
    decision = decide(head_of(session_id="S1"), b"[" + b",".join(members) + b"]", OLD)

    assert isinstance(decision, Serve if answered else Accepted)


@pytest.mark.spec("HL-11")
def test_a_batch_has_a_limit() -> None:
    policy = HttpPolicy(batch=2)
    for size in (2, 3):
        body = b"[" + b",".join([CALL] * size) + b"]"
        decision = decide(head_of(session_id="S1"), body, OLD, policy)
        assert isinstance(decision, Serve if size == 2 else Reject)
    assert refusal(decision) == (400, "a batch of more than 2 messages")


# ---------------------------------------------------------------- GET and DELETE


@pytest.mark.case("24")
@pytest.mark.spec("HL-27", "HL-28")
@pytest.mark.parametrize(
    ("last_event_id", "status"),
    [("s1.0", 200), ("s1.17", 200), ("s1:1", 400), ("", 400), ("x" * 10_000, 400)],
)
def test_a_stream_is_resumed_after_an_event(last_event_id: str, status: int) -> None:
    head = head_of("GET", session_id="S1", Last_Event_ID=last_event_id)
    decision = decide(head, session=LATEST)

    if status == 200:
        stream, _, n = last_event_id.partition(".")
        assert decision == ResumeStream(revision=LATEST_LEGACY, stream=stream, after=int(n))
    else:
        assert decision == reject_event()
        assert refusal(decision)[0] == status


@pytest.mark.case("24")
def test_an_event_of_a_session_that_is_not_there_is_404() -> None:
    assert decide(head_of("GET", session_id="S2", Last_Event_ID="s1.1")) == reject_session()


@pytest.mark.case("24")
def test_only_get_resumes() -> None:
    head = head_of(session_id="S1", Last_Event_ID="s1.1")

    assert isinstance(decide(head, CALL, LATEST), Serve)


def test_get_opens_the_standing_stream() -> None:
    head = head_of("GET", session_id="S1")

    assert decide(head, session=LATEST) == OpenStream(revision=LATEST_LEGACY)


@pytest.mark.spec("HL-35")
def test_delete_ends_the_session() -> None:
    """It has no body, so nothing is asked of its Content-Type and Accept."""
    head = head_of("DELETE", session_id="S1", Accept="text/html", Content_Type="text/html")

    assert decide(head, session=LATEST) == EndSession()


# ---------------------------------------------------------------- answers


def test_an_answer_is_200_unless_the_server_is_busy() -> None:
    assert status_of(Result(1, {})) == 200
    assert status_of(Failure(1, ErrorCode.INVALID_PARAMS, "no")) == 200
    assert status_of(Failure(1, ErrorCode.BUSY, "too much")) == 503


@pytest.mark.spec("HL-30")
def test_headers_of_answers() -> None:
    assert session_header("S1") == (b"Mcp-Session-Id", b"S1")
    assert dict(JSON_HEADERS) == {b"Content-Type": b"application/json"}
    assert dict(SSE_HEADERS)[b"Content-Type"] == b"text/event-stream"
    assert dict(SSE_HEADERS)[b"Cache-Control"] == b"no-cache"


# ---------------------------------------------------------------- golden exchanges


def request_of(exchange: dict[str, Any]) -> tuple[RequestHead, bytes]:
    request = exchange["request"]
    # The ids of the examples' server are another's, and as opaque as ours.
    headers = {n: v.replace("s1:1", "s1.1") for n, v in request["headers"].items()}
    raw = [(n.encode(), v.encode()) for n, v in {"Host": "localhost", **headers}.items()]
    head = RequestHead.read(request["method"].encode(), request["target"].encode(), raw)
    body = json.dumps(request["json"]) if "json" in request else request.get("raw", "")
    return head, body.encode()


def expected_of(exchange: dict[str, Any]) -> type:
    request, response = exchange["request"], exchange["response"]
    if response["status"] >= 400:
        return Reject
    if request["method"] == "GET":
        return ResumeStream if "Last-Event-ID" in request["headers"] else OpenStream
    if request["method"] == "DELETE":
        return EndSession
    if response["status"] == 202:
        return Accepted
    return OpenSession if exchange["name"] == "initialize-json" else Serve


@pytest.mark.spec("HL-7", "HL-11", "HL-22", "HL-32", "HL-33", "HL-37", "HL-38")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_exchanges_of_the_specification(version: str) -> None:
    exchanges = json_lines(f"{version}.http.jsonl")
    for exchange in exchanges:
        name, response = exchange["name"], exchange["response"]
        policy = HttpPolicy(get_stream=name != "get-not-offered")
        there = name != "after-termination"
        head, body = request_of(exchange)
        facts = SessionFacts(revision=REVISIONS[version]) if there else None
        decision = decide(head, body, facts, policy)

        assert type(decision) is expected_of(exchange), name
        if isinstance(decision, Reject):
            assert decision.status == response["status"], name
            for header, value in response["headers"].items():
                if header == "Allow":
                    assert (b"Allow", value.encode()) in decision.headers
    assert len(exchanges) >= 14
