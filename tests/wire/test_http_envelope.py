"""What a server does with a POST of the modern era, rule by rule and in order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.envelope import CLIENT_CAPABILITIES, PROTOCOL_VERSION, read_envelope
from mcp_trio.wire.http import Accepted, OpenSession, PostHead, check_head, decide_post
from mcp_trio.wire.http_envelope import (
    ServeEnveloped,
    decide_enveloped,
    is_modern,
    status_of_enveloped,
)
from mcp_trio.wire.http_head import RequestHead
from mcp_trio.wire.http_policy import HttpPolicy, Reject, render_error_body
from mcp_trio.wire.jsonrpc import (
    Batch,
    Failure,
    Notification,
    Request,
    Result,
    classify,
    decode,
    encode,
)
from mcp_trio.wire.media import BOTH, Accepts
from mcp_trio.wire.revisions import ENVELOPED, REVISIONS
from tests.spec_files import json_lines

R2026_07_28 = REVISIONS["2026-07-28"]
#: A second modern revision, such as there will be.
NEXT = R2026_07_28.evolve("2099-01-01")

MODERN_ONLY = HttpPolicy(revisions=(), envelopes=ENVELOPED)
DUAL = HttpPolicy(envelopes=ENVELOPED)
JSON_ONLY = Accepts(json=True, sse=False)
SSE_ONLY = Accepts(json=False, sse=True)

LISTEN = "subscriptions/listen"
LOCAL = {"Host": "localhost:8000"}
USUAL = {
    **LOCAL,
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


def head_of(*more: tuple[str, str], method: str = "POST", **changes: str | None) -> RequestHead:
    """The usual head with *changes* (``Mcp_Name="a"``, None to leave one out) and *more* lines."""
    headers = {**USUAL, **{name.replace("_", "-"): value for name, value in changes.items()}}
    lines = [(name, value) for name, value in headers.items() if value is not None] + [*more]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in lines]
    return RequestHead.read(method.encode(), b"/mcp", raw)


def enveloped(
    method: str = "tools/list", version: str = "2026-07-28", id_: int | str = 7, **params: Any
) -> Request:
    meta = {PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: {}}
    return Request(id_, method, {"_meta": meta, **params})


def head_for(
    message: Request, *more: tuple[str, str], version: str = "2026-07-28", **changes: str | None
) -> RequestHead:
    """A head that says what *message* says, but for *changes*."""
    changes = {"Mcp_Method": message.method, "MCP_Protocol_Version": version, **changes}
    return head_of(*more, method="POST", **changes)


def decide(head: RequestHead, body: bytes, policy: HttpPolicy = MODERN_ONLY) -> object:
    """All of it, as a server of both eras calls it."""
    post = check_head(head, policy)
    if not isinstance(post, PostHead):
        return post
    message = decode(body, depth=32)
    if is_modern(head, message):
        return decide_enveloped(head, message, post.accepts, policy)
    return decide_post(post, message, None, policy)


def refusal(decision: object) -> tuple[int, int, str]:
    assert isinstance(decision, Reject)
    assert decision.error is not None
    return decision.status, decision.error.code, decision.error.message


def told(decision: object) -> dict[str, Any]:
    """The body that goes with a refusal."""
    assert isinstance(decision, Reject)
    body: dict[str, Any] = json.loads(render_error_body(decision))
    return body


# ---------------------------------------------------------------- the specification's own

#: Exchanges that are refused by what comes after these rules, and by what.
LATER = {
    "param-header-missing": "the tool's schema",
    "missing-capability": "the tool",
    "unknown-method": "the table of methods",
    "tool-protocol-error": "the tool",
    "unauthorized": "who is asking",
    "insufficient-scope": "who is asking",
}


@pytest.mark.spec("HM-2", "HM-5", "HM-19", "HM-20", "HM-37", "HM-38", "B-29", "V-1", "V-10", "V-11")
def test_the_exchanges_of_the_specification_are_decided_as_they_say() -> None:
    seen = set()
    for exchange in json_lines("2026-07-28.http.jsonl"):
        request, response, name = exchange["request"], exchange["response"], exchange["name"]
        seen.add(name)
        raw = [(n.encode(), v.encode()) for n, v in {**LOCAL, **request["headers"]}.items()]
        head = RequestHead.read(request["method"].encode(), request["target"].encode(), raw)
        decision = decide(head, json.dumps(request.get("json")).encode())

        if response["status"] == 202:
            assert decision == Accepted(message=None), name
        elif response["status"] == 200 or name in LATER:
            assert isinstance(decision, ServeEnveloped), name
            assert decision.message == classify(request["json"]), name
        else:
            assert isinstance(decision, Reject), name
            assert decision.status == response["status"], name
            if "Allow" in response["headers"]:
                allow = response["headers"]["Allow"].encode()
                assert decision.headers == ((b"Allow", allow),), name
            if "json" in response:
                ours, theirs = told(decision), response["json"]
                assert ours["error"]["code"] == theirs["error"]["code"], name
                assert ours.get("id") == theirs.get("id"), name
                assert ("data" in ours["error"]) == ("data" in theirs["error"]), name
                if "data" in theirs["error"]:
                    expected = theirs["error"]["data"]["supported"]
                    assert ours["error"]["data"]["supported"] == expected, name
    assert seen > set(LATER)
    assert len(seen) >= 32


@pytest.mark.spec("HM-21", "B-31")
def test_the_answers_of_the_specification_have_their_status() -> None:
    """But one: the status of a handler's -32602 is free, and is 400 here whoever found it."""
    seen = set()
    for exchange in json_lines("2026-07-28.http.jsonl"):
        response = exchange["response"]
        answer = classify(response.get("json"))
        if not isinstance(answer, Result | Failure) or exchange["name"] == "bad-origin":
            continue
        expected = 400 if exchange["name"] == "tool-protocol-error" else response["status"]
        assert status_of_enveloped(answer) == expected, exchange["name"]
        seen.add(expected)
    assert seen == {200, 400, 404}


@pytest.mark.spec("B-29", "HM-4")
def test_what_the_digest_calls_invalid_is_refused_if_it_is_the_envelope_that_is() -> None:
    """What is wrong with the params is found later, by those who know the method."""
    found = set()
    for line in json_lines("2026-07-28.invalid.jsonl"):
        if line["dir"] != "c2s":
            continue
        method = line["msg"].get("method")
        head = head_of(
            MCP_Protocol_Version="2026-07-28",
            Mcp_Method=method,
            Mcp_Name="t" if method == "tools/call" else None,
        )
        decision = decide(head, json.dumps(line["msg"]).encode())

        if "method" not in line["msg"]:
            assert refusal(decision)[:2] == (400, ErrorCode.INVALID_REQUEST), line
            assert "id" not in told(decision)
        elif line["verdict"] == "ignore":
            assert decision == Accepted(message=None), line
        elif "HTTP 400" in line["expect"]:
            assert refusal(decision)[:2] == (400, ErrorCode.INVALID_PARAMS), line
            assert told(decision)["id"] == 1, line
        else:
            assert isinstance(decision, ServeEnveloped), line
        found.add(type(decision))
    assert found == {Reject, Accepted, ServeEnveloped}


# ---------------------------------------------------------------- the order of checks

#: Each is a fault with its status, its code and what its reason speaks of, in the order of
#: the digest's revisions § 3.5. Of steps 5 and 6 the second comes first.
FAULTS: dict[str, tuple[int, int, str]] = {
    "verb": (405, ErrorCode.INVALID_REQUEST, "takes POST"),
    "origin": (403, ErrorCode.INVALID_REQUEST, "evil.com"),
    "size": (413, ErrorCode.INVALID_REQUEST, "bytes"),
    "json": (400, ErrorCode.PARSE_ERROR, "JSON"),
    "shape": (400, ErrorCode.INVALID_REQUEST, "batch"),
    "envelope": (400, ErrorCode.INVALID_PARAMS, CLIENT_CAPABILITIES),
    "version header": (400, ErrorCode.HEADER_MISMATCH, "MCP-Protocol-Version"),
    "version": (400, ErrorCode.UNSUPPORTED_VERSION, "version"),
    "method header": (400, ErrorCode.HEADER_MISMATCH, "Mcp-Method"),
    "stream": (406, ErrorCode.INVALID_REQUEST, LISTEN),
}
#: Of a refusal for one of these, the body has been read as a request, whose id it has.
OF_A_REQUEST = list(FAULTS)[list(FAULTS).index("envelope") :]


def with_faults(chosen: set[str]) -> tuple[RequestHead, bytes]:
    version = "2027-01-01" if "version" in chosen else "2026-07-28"
    meta: dict[str, Any] = {PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: {}}
    if "envelope" in chosen:
        del meta[CLIENT_CAPABILITIES]
    request = {"jsonrpc": "2.0", "id": 7, "method": LISTEN, "params": {"_meta": meta}}
    body = json.dumps([request] if "shape" in chosen else request).encode()
    head = head_of(
        method="GET" if "verb" in chosen else "POST",
        Origin="http://evil.com" if "origin" in chosen else None,
        Content_Length="999999999" if "size" in chosen else None,
        MCP_Protocol_Version="2098-01-01" if "version header" in chosen else version,
        Mcp_Method=LISTEN.upper() if "method header" in chosen else LISTEN,
        Accept="application/json" if "stream" in chosen else "text/event-stream",
    )
    return head, body[:-1] if "json" in chosen else body


@pytest.mark.spec("HM-2", "HM-4", "HM-19", "HM-20", "HM-36", "HM-37", "B-29", "V-1")
@given(chosen=st.sets(st.sampled_from([*FAULTS]), min_size=1))
def test_the_first_fault_decides(chosen: set[str]) -> None:
    first = next(fault for fault in FAULTS if fault in chosen)
    status, code, word = FAULTS[first]

    decision = decide(*with_faults(chosen))

    assert refusal(decision)[:2] == (status, code)
    assert word in refusal(decision)[2]
    assert told(decision).get("id") == (7 if first in OF_A_REQUEST else None)


def test_a_request_without_a_fault_is_served() -> None:
    decision = decide(*with_faults(set()))

    assert isinstance(decision, ServeEnveloped)
    assert decision.message.method == LISTEN


@pytest.mark.spec("HM-19")
def test_a_supported_header_does_not_make_up_for_an_unsupported_body() -> None:
    """The official suite wants the mismatch told, not the version."""
    message = enveloped(version="v999.0.0")
    decision = decide_enveloped(head_for(message), message, BOTH, MODERN_ONLY)

    assert refusal(decision)[1] == ErrorCode.HEADER_MISMATCH


@pytest.mark.spec("V-1", "HM-20")
def test_a_later_revision_is_told_the_versions_whatever_its_headers_are() -> None:
    """It may have other headers: "unsupported" is what its client can act on."""
    message = enveloped(version="2199-01-01")
    head = head_for(message, version="2199-01-01", Mcp_Method=None)

    decision = decide(head, encode(message), DUAL)

    assert refusal(decision)[1] == ErrorCode.UNSUPPORTED_VERSION


# ---------------------------------------------------------------- whose it is


@pytest.mark.spec("V-12", "HM-38")
@pytest.mark.parametrize(
    ("headers", "modern"),
    [
        ({}, False),
        ({"MCP_Protocol_Version": "2026-07-28"}, True),
        ({"MCP_Protocol_Version": "v999.0.0"}, True),
        ({"MCP_Protocol_Version": "2025-11-25"}, False),
        ({"MCP_Protocol_Version": "2025-11-25", "Mcp_Method": "tools/list"}, False),
        ({"Mcp_Method": "tools/list"}, True),
        ({"Mcp_Session_Id": "S1"}, False),
        ({"Mcp_Session_Id": "S1", "Mcp_Method": "tools/list"}, False),
        ({"Mcp_Session_Id": "S1", "MCP_Protocol_Version": "2026-07-28"}, True),
    ],
)
def test_the_headers_tell_whose_a_post_is_where_its_body_does_not(
    headers: dict[str, str], *, modern: bool
) -> None:
    head = head_of(**headers)

    assert is_modern(head, Request(7, "tools/list", {})) is modern
    assert is_modern(head, enveloped()) is True
    assert is_modern(head, Request(7, "server/discover")) is True
    assert is_modern(head, Request(7, "initialize", {})) is False


# ---------------------------------------------------------------- what is no request


@pytest.mark.spec("HM-5")
@pytest.mark.parametrize(
    "message",
    [
        Notification("notifications/x-demo"),
        Notification("notifications/cancelled", {"requestId": 7}),
        Notification("notifications/roots/list_changed", {"_meta": {PROTOCOL_VERSION: 1}}),
        Notification("tools/call", {"name": "sum"}),
    ],
)
def test_a_notification_is_accepted_and_reaches_nobody(message: Notification) -> None:
    """Its headers are undefined, so none is asked for (the digest's revisions § 3.6).

    A cancellation least of all: the id in it may be that of another client's request.
    """
    for head in (head_of(), head_of(Mcp_Method="x", MCP_Protocol_Version="v999.0.0")):
        assert decide_enveloped(head, message, BOTH, DUAL) == Accepted(message=None)


@pytest.mark.spec("HM-4")
@pytest.mark.parametrize(
    ("message", "what"),
    [
        (Batch([json.loads(encode(enveloped()))]), "a batch"),
        (Batch([{"jsonrpc": "2.0", "method": "notifications/x"}]), "a batch"),
        (Result(7, {}), "an answer"),
        (Failure(7, -1, "no"), "an answer"),
    ],
)
def test_a_batch_or_an_answer_is_refused_without_an_id(
    message: Batch | Result | Failure, what: str
) -> None:
    decision = decide_enveloped(head_for(enveloped()), message, BOTH, MODERN_ONLY)

    assert told(decision) == {
        "jsonrpc": "2.0",
        "error": {
            "code": ErrorCode.INVALID_REQUEST,
            "message": f"the body must be one request or notification, not {what}",
        },
    }
    assert refusal(decision)[0] == 400


@pytest.mark.spec("B-14")
@pytest.mark.parametrize(
    ("body", "code", "id_"),
    [
        (b"", ErrorCode.PARSE_ERROR, None),
        (b"{", ErrorCode.PARSE_ERROR, None),
        (b"1", ErrorCode.INVALID_REQUEST, None),
        (b"[]", ErrorCode.INVALID_REQUEST, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"m"}', ErrorCode.INVALID_REQUEST, 7),
        (b'{"jsonrpc":"2.0","id":"7","method":"m","params":[]}', ErrorCode.INVALID_PARAMS, "7"),
        (b'{"jsonrpc":"2.0","id":null,"method":"m"}', ErrorCode.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","method":"m","params":[]}', ErrorCode.INVALID_REQUEST, None),
        (b'{"jsonrpc":"2.0","id":7,"result":[]}', ErrorCode.INVALID_REQUEST, None),
    ],
)
def test_what_is_no_message_is_refused_with_the_id_of_a_request(
    body: bytes, code: int, id_: int | str | None
) -> None:
    head = head_of(MCP_Protocol_Version="2026-07-28")
    message = decode(body, depth=32)
    decision = decide_enveloped(head, message, BOTH, MODERN_ONLY)

    assert is_modern(head, message)
    assert refusal(decision)[:2] == (400, code)
    assert told(decision).get("id") == id_
    assert ("id" in told(decision)) == (id_ is not None)


# ---------------------------------------------------------------- requests


@pytest.mark.spec("B-7", "V-14")
@pytest.mark.parametrize("id_", [7, "7", 0, ""])
def test_a_request_is_served_by_itself_with_what_it_says(id_: int | str) -> None:
    policy = HttpPolicy(envelopes=(R2026_07_28, NEXT))
    for revision in policy.envelopes:
        message = enveloped(version=revision.version, id_=id_)
        head = head_for(message, version=revision.version)

        assert decide_enveloped(head, message, JSON_ONLY, policy) == ServeEnveloped(
            message=message,
            envelope=read_envelope(message.params),
            revision=revision,
            accepts=JSON_ONLY,
            agreement=(revision.version, "tools/list", None),
        )


@pytest.mark.spec("HM-38", "HM-14")
@pytest.mark.parametrize("policy", [MODERN_ONLY, DUAL])
def test_a_session_and_an_event_of_before_are_ignored(policy: HttpPolicy) -> None:
    message = enveloped()
    head = head_for(message, Mcp_Session_Id="S 1", Last_Event_ID="9")

    decision = decide(head, encode(message), policy)

    assert isinstance(decision, ServeEnveloped)


@pytest.mark.spec("B-29")
def test_a_request_without_its_envelope_is_told_what_is_missing() -> None:
    """Even where the headers are right."""
    message = Request("a", "tools/list", {"_meta": {PROTOCOL_VERSION: "2026-07-28"}})
    decision = decide_enveloped(head_for(message), message, BOTH, MODERN_ONLY)

    assert decision == Reject(
        status=400,
        error=Failure(
            "a",
            ErrorCode.INVALID_PARAMS,
            f"invalid params: $._meta['{CLIENT_CAPABILITIES}']: an object, and required",
        ),
    )


@pytest.mark.spec("V-1", "HM-20")
@pytest.mark.parametrize("version", ["v999.0.0", "2025-11-25"])
def test_a_version_without_envelopes_is_refused_with_those_that_have_them(version: str) -> None:
    """Also a legacy one that this endpoint speaks: that wants a handshake."""
    policy = HttpPolicy(envelopes=(NEXT, R2026_07_28))
    message = enveloped(version=version)
    decision = decide_enveloped(head_for(message, version=version), message, BOTH, policy)

    data = {"supported": ["2099-01-01", "2026-07-28"], "requested": version}
    assert decision == Reject(
        status=400,
        error=Failure(7, ErrorCode.UNSUPPORTED_VERSION, "unsupported protocol version", data=data),
    )


CALL = enveloped("tools/call", name="sum")
TWICE = ("Mcp-Name", "sum")


@pytest.mark.spec("HM-19", "HM-22", "HM-24", "HM-31", "HM-36", "HM-37")
@pytest.mark.parametrize(
    ("head", "named"),
    [
        (head_for(CALL, Mcp_Name="sum", MCP_Protocol_Version=None), "MCP-Protocol-Version"),
        (head_for(CALL, Mcp_Name="sum", version="2025-11-25"), "MCP-Protocol-Version"),
        (
            head_for(CALL, ("mcp-protocol-version", "2026-07-28"), Mcp_Name="sum"),
            "MCP-Protocol-Version",
        ),
        (head_for(CALL, Mcp_Name="sum", Mcp_Method=None), "Mcp-Method"),
        (head_for(CALL, Mcp_Name="sum", Mcp_Method="Tools/Call"), "Mcp-Method"),
        (head_for(CALL), "Mcp-Name"),
        (head_for(CALL, Mcp_Name="Sum"), "Mcp-Name"),
        (head_for(CALL, Mcp_Name="=?base64?c3Vt"), "Mcp-Name"),
        (head_for(CALL, Mcp_Name="=?base64?!?="), "Mcp-Name"),
        (head_for(CALL, TWICE, Mcp_Name="sum"), "'mcp-name'"),
    ],
)
def test_headers_must_not_contradict_the_body(head: RequestHead, named: str) -> None:
    """A missing one does, and one that came twice."""
    status, code, reason = refusal(decide_enveloped(head, CALL, BOTH, MODERN_ONLY))

    assert (status, code) == (400, ErrorCode.HEADER_MISMATCH)
    assert named in reason


@pytest.mark.spec("HM-31")
@pytest.mark.parametrize("name", ["sum", "=?base64?c3Vt?="])
def test_a_name_may_come_encoded(name: str) -> None:
    decision = decide_enveloped(head_for(CALL, Mcp_Name=name), CALL, BOTH, MODERN_ONLY)

    assert isinstance(decision, ServeEnveloped)


@pytest.mark.spec("HM-24")
def test_a_name_that_nothing_asks_for_is_not_looked_at() -> None:
    message = enveloped("tools/list", name="sum")
    decision = decide_enveloped(head_for(message, Mcp_Name="x"), message, BOTH, MODERN_ONLY)

    assert isinstance(decision, ServeEnveloped)


# ---------------------------------------------------------------- a head that came before

heads = st.sampled_from(
    [
        head_for(CALL, Mcp_Name="sum"),
        head_for(CALL, Mcp_Name="=?base64?c3Vt?="),
        head_for(enveloped("tools/list")),
        head_for(enveloped("resources/read"), Mcp_Name="a:b"),
        head_for(enveloped(LISTEN), version="v999.0.0"),
    ]
)
requests = st.builds(
    enveloped,
    st.sampled_from(["tools/call", "tools/list", "resources/read", LISTEN]),
    st.sampled_from(["2026-07-28", "v999.0.0"]),
    name=st.sampled_from(["sum", "Sum", None, True, 1, [], "=?base64?c3Vt?="]),
    uri=st.sampled_from(["a:b", "A:b", None]),
)


@given(head=heads, before=requests, message=requests, accepts=st.sampled_from([BOTH, JSON_ONLY]))
@example(head=head_for(CALL, Mcp_Name="sum"), before=CALL, message=CALL, accepts=BOTH)
def test_what_a_head_agreed_with_before_changes_no_decision(
    head: RequestHead, before: Request, message: Request, accepts: Accepts
) -> None:
    earlier = decide_enveloped(head, before, BOTH, MODERN_ONLY)
    agreed = earlier.agreement if isinstance(earlier, ServeEnveloped) else None

    again = decide_enveloped(head, message, accepts, MODERN_ONLY, agreed)

    assert again == decide_enveloped(head, message, accepts, MODERN_ONLY)


@pytest.mark.spec("HM-24")
@pytest.mark.parametrize(
    "message",
    [
        enveloped("tools/call", name="drop"),
        enveloped("tools/call"),
        enveloped("prompts/get", name="sum"),
        enveloped("tools/call", version="2099-01-01", name="sum"),
    ],
)
def test_a_head_agrees_with_no_other_body_than_before(message: Request) -> None:
    policy = HttpPolicy(envelopes=(R2026_07_28, NEXT))
    head = head_for(CALL, Mcp_Name="sum")
    served = decide_enveloped(head, CALL, BOTH, policy)
    assert isinstance(served, ServeEnveloped)
    assert served.agreement == ("2026-07-28", "tools/call", "sum")

    decision = decide_enveloped(head, message, BOTH, policy, served.agreement)

    assert refusal(decision)[:2] == (400, ErrorCode.HEADER_MISMATCH)


def test_what_was_agreed_is_not_compared_again() -> None:
    """Told by a head that would not agree, which is no head to be asked about."""
    agreed = ("2026-07-28", "tools/call", "sum")

    decision = decide_enveloped(head_of(), CALL, BOTH, MODERN_ONLY, agreed)

    assert isinstance(decision, ServeEnveloped)
    assert decision.agreement == agreed


# ---------------------------------------------------------------- the form of the answer


@pytest.mark.spec("HM-6")
@pytest.mark.parametrize("accepts", [BOTH, JSON_ONLY, SSE_ONLY])
def test_only_listening_needs_a_stream(accepts: Accepts) -> None:
    call, listen = enveloped("tools/list"), enveloped(LISTEN)
    served = decide_enveloped(head_for(call), call, accepts, MODERN_ONLY)
    listening = decide_enveloped(head_for(listen), listen, accepts, MODERN_ONLY)

    assert isinstance(served, ServeEnveloped)
    assert served.accepts == accepts
    if accepts.sse:
        assert isinstance(listening, ServeEnveloped)
    else:
        assert refusal(listening) == (
            406,
            ErrorCode.INVALID_REQUEST,
            "the answer to subscriptions/listen is an event stream",
        )
        assert told(listening)["id"] == 7


def test_an_endpoint_that_answers_in_json_has_no_listeners() -> None:
    policy = HttpPolicy(revisions=(), envelopes=ENVELOPED, answers=JSON_ONLY)

    assert refusal(decide(with_faults(set())[0], b"{}", policy))[0] == 406  # it wants a stream
    listen = enveloped(LISTEN)
    assert refusal(decide(head_for(listen), encode(listen), policy))[0] == 406


# ---------------------------------------------------------------- the status of an answer

STATUSES = {
    -32700: 400,
    -32600: 400,
    -32602: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
    -32601: 404,
    -31001: 503,
}


@pytest.mark.spec("HM-21", "B-31", "V-1")
@given(code=st.sampled_from([*ErrorCode, *STATUSES]) | st.integers())
def test_the_status_of_an_error_is_that_of_its_code(code: int) -> None:
    """2026-07-28 basic/transports/streamable-http § Error Codes; what it does not name is 200."""
    assert status_of_enveloped(Failure(7, code, "no")) == STATUSES.get(int(code), 200)


def test_a_result_is_200_whatever_is_in_it() -> None:
    assert status_of_enveloped(Result(7, {"code": -32601, "isError": True})) == 200


# ---------------------------------------------------------------- without a handshake


@pytest.mark.spec("V-10", "V-11")
@pytest.mark.parametrize("version", [None, "2025-11-25", "2026-07-28"])
def test_a_handshake_is_refused_with_what_is_spoken_instead(version: str | None) -> None:
    """2026-07-28 basic/versioning § Backward Compatibility: 400, and the versions by name."""
    policy = HttpPolicy(revisions=(), envelopes=(R2026_07_28, NEXT))
    body = b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"x"}}'
    decision = decide(head_of(MCP_Protocol_Version=version), body, policy)

    assert refusal(decision) == (
        400,
        ErrorCode.UNSUPPORTED_VERSION,
        "there is no handshake here; supported is 2026-07-28, 2099-01-01",
    )
    assert told(decision)["id"] == "i"
    assert told(decision)["error"]["data"]["supported"] == ["2026-07-28", "2099-01-01"]


@pytest.mark.spec("V-12")
def test_both_eras_are_served_at_one_endpoint() -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
    message = enveloped()

    assert isinstance(decide(head_of(), body, DUAL), OpenSession)
    assert isinstance(
        decide(head_for(message), encode(message), DUAL),
        ServeEnveloped,
    )


@pytest.mark.spec("HM-38", "HM-1")
def test_an_endpoint_without_sessions_takes_posts_only() -> None:
    assert MODERN_ONLY.methods == ("POST",)
    assert HttpPolicy(revisions=(), envelopes=ENVELOPED, stateless=True).methods == ("POST",)
    assert HttpPolicy(revisions=(), envelopes=ENVELOPED, cors=True).methods == ("POST", "OPTIONS")
    assert DUAL.methods == HttpPolicy().methods == ("POST", "GET", "DELETE")
    for method in ("GET", "DELETE", "PUT"):
        decision = check_head(head_of(method=method, Mcp_Session_Id="S1"), MODERN_ONLY)
        assert isinstance(decision, Reject)
        assert (decision.status, decision.headers) == (405, ((b"Allow", b"POST"),))


# ---------------------------------------------------------------- hostile bodies

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
metas = st.fixed_dictionaries(
    {},
    optional={
        PROTOCOL_VERSION: st.sampled_from(["2026-07-28", "v999.0.0"]) | json_values,
        CLIENT_CAPABILITIES: st.just({}) | json_values,
    },
)
bodies = json_values | st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0"), "method": st.sampled_from(["tools/call", LISTEN, "initialize"])},
    optional={
        "id": st.integers() | st.text(max_size=5) | json_values,
        "params": st.fixed_dictionaries({}, optional={"_meta": metas, "name": json_values})
        | json_values,
        "result": json_values,
    },
)


@given(
    body=bodies,
    headers=st.fixed_dictionaries(
        {},
        optional={
            "MCP_Protocol_Version": st.sampled_from(["2026-07-28", "v999.0.0"]),
            "Mcp_Method": st.sampled_from(["tools/call", LISTEN]),
            "Mcp_Name": st.sampled_from(["sum", "=?base64?"]),
        },
    ),
    policy=st.sampled_from([MODERN_ONLY, DUAL]),
)
def test_every_body_is_decided_and_every_refusal_can_be_sent(
    body: Any, headers: dict[str, str], policy: HttpPolicy
) -> None:
    """A refusal is a 4xx, with the id of the request that it refuses or with none."""
    head, message = head_of(**headers), classify(body)
    decision = decide_enveloped(head, message, BOTH, policy)

    if isinstance(decision, Reject):
        assert 400 <= decision.status < 500
        answer = told(decision)
        assert set(answer) - {"id"} == {"jsonrpc", "error"}
        if "id" in answer:
            assert isinstance(body, dict)
            assert answer["id"] == body["id"]
    elif isinstance(decision, Accepted):
        assert isinstance(message, Notification)
        assert decision.message is None
    else:
        assert decision.message is message
        assert decision.revision in policy.envelopes
