"""What a client of Streamable HTTP sends, and what it makes of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.errors import ProtocolViolation
from mcp_trio.wire.http import check_head
from mcp_trio.wire.http_client_rules import (
    Follow,
    HttpMethod,
    Redirected,
    Refused,
    Reply,
    StayPut,
    decide_redirect,
    is_resumable,
    may_be_sse_pair,
    read_error,
    read_response,
    read_session_id,
    read_stream_response,
    request_headers,
)
from mcp_trio.wire.http_head import Headers, RequestHead
from mcp_trio.wire.http_policy import HttpPolicy, Reject
from mcp_trio.wire.jsonrpc import Failure
from mcp_trio.wire.revisions import LEGACY, REVISIONS
from tests.spec_files import json_lines

R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25 = LEGACY
METHODS: tuple[HttpMethod, ...] = ("POST", "GET", "DELETE")


def headers(**fields: str) -> Headers:
    return Headers.read((n.replace("_", "-").encode(), v.encode()) for n, v in fields.items())


JSON = headers(content_type="application/json; charset=utf-8")
SSE = headers(content_type="text/event-stream")
HTML = headers(content_type="text/html")
NOTHING = headers()

# ---------------------------------------------------------------- requests


@pytest.mark.spec("HL-6", "HL-21", "HL-31", "HL-39", "LC-11")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_requests_are_those_of_the_specification(version: str) -> None:
    """Every request of the examples that is right, header for header."""
    seen = set()
    for exchange in json_lines(f"{version}.http.jsonl"):
        request = exchange["request"]
        if exchange["response"]["status"] >= 400 or exchange["name"] == "no-version-header":
            continue
        theirs = {name.lower(): value for name, value in request["headers"].items()}
        begun = exchange["name"] != "initialize-json"
        ours = request_headers(
            request["method"],
            revision=REVISIONS[version] if begun else None,
            session_id=theirs.get("mcp-session-id"),
            last_event_id=theirs.get("last-event-id"),
        )

        assert {n.decode().lower(): v.decode() for n, v in ours} == theirs
        seen.add(request["method"])
    assert seen == set(METHODS)


@pytest.mark.spec("LC-11")
def test_the_version_header_came_later_than_sessions() -> None:
    for method in METHODS:
        for revision, sent in ((R2024_11_05, 0), (R2025_03_26, 0), (R2025_06_18, 1)):
            names = [n for n, _ in request_headers(method, revision=revision, session_id="a")]
            assert names.count(b"MCP-Protocol-Version") == sent
            assert names.count(b"Mcp-Session-Id") == 1


@given(method=st.sampled_from(METHODS), revision=st.none() | st.sampled_from(LEGACY))
def test_our_server_takes_what_our_client_sends(method: HttpMethod, revision: Any) -> None:
    raw = request_headers(method, revision=revision, session_id="S1")
    head = RequestHead.read(method.encode(), b"/mcp", [(b"Host", b"localhost"), *raw])

    assert not isinstance(check_head(head, HttpPolicy()), Reject)


@pytest.mark.spec("HL-27")
def test_last_event_id_is_for_get() -> None:
    sent = request_headers("GET", revision=None, last_event_id="caf\xe9.1")

    assert (b"Last-Event-ID", "caf\xe9.1".encode()) in sent
    for method in ("POST", "DELETE"):
        with pytest.raises(ValueError, match="cannot send Last-Event-ID"):
            request_headers(method, revision=None, last_event_id="a.1")
    with pytest.raises(ValueError, match="cannot send Last-Event-ID"):
        request_headers("GET", revision=None, last_event_id="a\nb")


def test_a_header_cannot_carry_every_event_id() -> None:
    for good in ("1", "a b", "a\tb", "{x}", "\u20ac", "a" * 999):
        assert is_resumable(good), good
    for bad in (
        None,
        "",
        " ",
        " a",
        "a ",
        "\ta",
        "a\n",
        "a\nb",
        "a\rb",
        "a\0b",
        "a\x7fb",
        "a\x1bb",
    ):
        assert not is_resumable(bad), bad


# ---------------------------------------------------------------- answers


@pytest.mark.spec("HL-9")
def test_a_request_is_answered_in_either_form() -> None:
    assert read_response(200, JSON, answer_due=True) is Reply.JSON
    assert read_response(200, SSE, answer_due=True) is Reply.STREAM
    for got, named in ((HTML, "text/html"), (NOTHING, "of no content type")):
        for status in (200, 202):
            assert read_response(status, got, answer_due=True) == Refused(
                status, f"the answer is {named}, not application/json or text/event-stream"
            )


@pytest.mark.spec("HL-7")
def test_a_notification_is_accepted_by_any_success() -> None:
    for status in (200, 202, 204):
        assert read_response(status, HTML, answer_due=False, session_id="S1") is Reply.ACCEPTED


@pytest.mark.case("08")
@pytest.mark.spec("HL-34")
def test_404_ends_a_session_and_nothing_else() -> None:
    for answer_due in (True, False):
        gone = read_response(404, JSON, answer_due=answer_due, session_id="S1")
        assert gone is Reply.SESSION_GONE
        never = read_response(404, JSON, answer_due=answer_due)
        assert never == Refused(404, "the server answered with HTTP status 404")
    assert read_stream_response(404, JSON, session_id="S1") is Reply.SESSION_DOUBTFUL
    assert isinstance(read_stream_response(404, JSON), Refused)


@pytest.mark.spec("HL-22")
def test_a_standing_stream_is_there_or_not() -> None:
    assert read_stream_response(200, SSE, session_id="S1") is Reply.STREAM
    assert read_stream_response(405, HTML, session_id="S1") is Reply.NO_STREAM
    assert read_stream_response(200, JSON) == Refused(
        200, "the answer is application/json; charset=utf-8, not text/event-stream"
    )


def test_a_redirection_is_told_apart_from_a_refusal() -> None:
    there = headers(location="/mcp/")

    assert read_response(307, there, answer_due=True) == Redirected(307, "/mcp/")
    assert read_stream_response(302, NOTHING) == Redirected(302, None)
    for status in (100, 400, 401, 403, 500, 503):
        assert isinstance(read_response(status, there, answer_due=True, session_id="a"), Refused)
        assert isinstance(read_stream_response(status, there, session_id="a"), Refused)


@pytest.mark.spec("HL-30")
def test_a_session_id_is_one_visible_word() -> None:
    assert read_session_id(NOTHING) is None
    assert read_session_id(headers(Mcp_Session_Id="S1")) == "S1"
    twice = Headers.read([(b"mcp-session-id", b"a"), (b"MCP-Session-Id", b"a")])
    for bad in (headers(Mcp_Session_Id="a b"), headers(Mcp_Session_Id=""), twice):
        with pytest.raises(ProtocolViolation, match="visible ASCII"):
            read_session_id(bad)


@pytest.mark.spec("HL-8")
def test_a_refusal_may_be_an_error_of_json_rpc() -> None:
    body = b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"no"}}'

    assert read_error(JSON, body, depth=9) == Failure(None, -32600, "no", omit_id=True)
    assert read_error(HTML, body, depth=9) is None
    assert read_error(NOTHING, body, depth=9) is None
    assert read_error(JSON, b"no", depth=9) is None
    assert read_error(JSON, b'{"jsonrpc":"2.0","id":1,"result":{}}', depth=9) is None


@pytest.mark.spec("HL-40")
def test_few_refusals_hint_at_an_old_server() -> None:
    assert [s for s in range(100, 600) if may_be_sse_pair(s)] == [400, 404, 405]


@pytest.mark.spec("HL-8", "HL-9", "HL-22", "HL-34")
@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_answers_of_the_specification_are_understood(version: str) -> None:
    for exchange in json_lines(f"{version}.http.jsonl"):
        request, response = exchange["request"], exchange["response"]
        got = Headers.read((n.encode(), v.encode()) for n, v in response["headers"].items())
        session_id = next(
            (v for n, v in request["headers"].items() if n.lower() == "mcp-session-id"), None
        )
        status = response["status"]
        if request["method"] == "GET":
            reply = read_stream_response(status, got, session_id=session_id)
            expected: object = {200: Reply.STREAM, 405: Reply.NO_STREAM}[status]
        else:
            due = "sse" in response or ("json" in response and status == 200)
            reply = read_response(status, got, answer_due=due, session_id=session_id)
            expected = Reply.STREAM if "sse" in response else Reply.JSON
            if not due:
                expected = {404: Reply.SESSION_GONE}.get(status, Reply.ACCEPTED)
        if status >= 400 and status not in (404, 405):
            assert isinstance(reply, Refused), exchange["name"]
        else:
            assert reply is expected, exchange["name"]


# ---------------------------------------------------------------- redirects

URL = "http://localhost:8000/mcp"


@pytest.mark.spec("AF-12")
@pytest.mark.parametrize(
    ("status", "location", "url"),
    [
        (307, "/mcp/", "http://localhost:8000/mcp/"),
        (308, "mcp/v2?x=1#part", "http://localhost:8000/mcp/v2?x=1"),
        (307, "http://LOCALHOST:8000/x", "http://LOCALHOST:8000/x"),
        (308, "//localhost:8000/x", "http://localhost:8000/x"),
        (301, "/mcp/", None),
        (302, "/mcp/", None),
        (303, "/mcp/", None),
        (300, "/mcp/", None),
        (307, None, None),
        (307, "http://localhost:8001/mcp", None),
        (307, "https://localhost:8000/mcp", None),
        (308, "//evil.com/mcp", None),
        (307, "http://localhost:8000@evil.com/", None),
        (307, "http://user@localhost:8000/", None),
        (307, "http://[::1/", None),
        (307, "javascript:alert(1)", None),
    ],
)
def test_redirects_stay_at_home(status: int, location: str | None, url: str | None) -> None:
    decision = decide_redirect(URL, status, location)

    assert decision == Follow(url) if url is not None else isinstance(decision, StayPut)


def test_a_redirect_that_is_not_followed_says_where_it_went() -> None:
    assert decide_redirect(URL, 301, "/mcp/") == StayPut(
        "HTTP status 301 would turn a POST into a GET; "
        "connect to http://localhost:8000/mcp/ instead"
    )
    assert decide_redirect(URL, 307, "//evil.com/") == StayPut(
        "redirected to another origin; connect to http://evil.com/ instead"
    )
    assert decide_redirect(URL, 307, None) == StayPut("HTTP status 307 without a Location")
    assert decide_redirect(URL, 307, "http://[") == StayPut(
        "HTTP status 307 with a malformed Location: http://["
    )
