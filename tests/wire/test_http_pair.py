"""HTTP+SSE of 2024-11-05: the event that says where to POST."""

from __future__ import annotations

import pytest

from mcp_trio.errors import ProtocolViolation
from mcp_trio.wire.http import Preflight
from mcp_trio.wire.http_head import RequestHead
from mcp_trio.wire.http_pair import (
    ENDPOINT,
    PairMessage,
    PairPaths,
    PairStream,
    check_pair,
    encode_endpoint,
    read_endpoint,
)
from mcp_trio.wire.http_policy import HttpPolicy, Reject
from mcp_trio.wire.jsonrpc import Result, decode
from mcp_trio.wire.sse import ServerSentEvent, SSEDecoder
from tests.spec_files import json_lines

URL = "http://localhost:8000/a/sse?x=1"


def endpoint(uri: str) -> ServerSentEvent:
    return ServerSentEvent(uri.encode(), ENDPOINT)


@pytest.mark.spec("HS-2", "HS-3")
@pytest.mark.parametrize(
    ("uri", "url"),
    [
        ("/messages?sessionId=abc", "http://localhost:8000/messages?sessionId=abc"),
        ("messages", "http://localhost:8000/a/messages"),
        ("?sessionId=abc", "http://localhost:8000/a/sse?sessionId=abc"),
        ("http://localhost:8000/m", "http://localhost:8000/m"),
        ("//LOCALHOST:8000/m", "http://LOCALHOST:8000/m"),
    ],
)
def test_the_endpoint_is_resolved_against_the_stream(uri: str, url: str) -> None:
    (event,) = SSEDecoder(1_000).receive(encode_endpoint(uri))

    assert event == endpoint(uri)
    assert read_endpoint(endpoint(uri), URL) == url
    assert read_endpoint(endpoint(f" {uri}\n"), URL) == url


@pytest.mark.spec("HS-3")
@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("http://evil.com/m", "another origin"),
        ("//evil.com/m", "another origin"),
        ("https://localhost:8000/m", "another origin"),
        ("http://localhost/m", "another origin"),
        ("http://localhost:8000@evil.com/m", "another origin"),
        ("http://user:pass@localhost:8000/m", "another origin"),
        ("javascript:alert(1)", "another origin"),
        ("http://[::1/m", "no URI"),
        ("", "no URI"),
        ("/a b", "no URI"),
        ("/a\nb", "no URI"),
        ("/\u20ac", "no URI"),
    ],
)
def test_messages_go_nowhere_else(uri: str, why: str) -> None:
    with pytest.raises(ProtocolViolation, match=why):
        read_endpoint(endpoint(uri), URL)


@pytest.mark.spec("HS-2")
def test_the_first_event_is_the_endpoint() -> None:
    with pytest.raises(ProtocolViolation, match="must be 'endpoint', not 'message'"):
        read_endpoint(ServerSentEvent(b"/messages"), URL)


@pytest.mark.parametrize("uri", ["", "/a b", "/a\n", "/\u20ac"])
def test_what_is_no_uri_is_not_sent(uri: str) -> None:
    with pytest.raises(ValueError, match="no URI"):
        encode_endpoint(uri)


@pytest.mark.spec("HS-2", "HS-3", "HS-4")
def test_the_stream_of_the_specification() -> None:
    opened, *posts = json_lines("2024-11-05.http.jsonl")
    events = SSEDecoder(1_000).receive(opened["response"]["sse"].encode())
    targets = {line["request"]["target"] for line in posts if line["request"]["method"] == "POST"}

    first, *others = [event for event in events if isinstance(event, ServerSentEvent)]
    assert {read_endpoint(first, "http://h/sse")} == {"http://h" + target for target in targets}
    assert len(others) == 2
    for event in others:
        assert event.event == "message"
        assert isinstance(decode(event.data, depth=9), Result)


PATHS = PairPaths("/sse/")
JSON = (b"Content-Type", b"application/json")


def judge(
    method: bytes, target: bytes, *headers: tuple[bytes, bytes], cors: bool = False
) -> object:
    head = RequestHead.read(method, target, ((b"host", b"localhost"), *headers))
    return check_pair(head, PATHS, HttpPolicy(cors=cors))


def test_the_two_endpoints_stand_side_by_side() -> None:
    """The stream with and without a slash at its end, messages below it."""
    assert PATHS.paths == ("/sse", "/sse/", "/sse/messages")
    assert PATHS.endpoint_for("abc") == "/sse/messages?sessionId=abc"


@pytest.mark.parametrize("target", [b"/sse", b"/sse/"])
def test_a_get_opens_the_stream(target: bytes) -> None:
    """Its Accept must allow an event stream, or say nothing."""
    assert judge(b"GET", target) == PairStream(PATHS)
    assert judge(b"GET", target, (b"accept", b"text/event-stream")) == PairStream(PATHS)

    refused = judge(b"GET", target, (b"accept", b"application/json"))

    assert isinstance(refused, Reject)
    assert refused.status == 406


def test_a_post_is_for_the_session_that_its_uri_names() -> None:
    """One session id, and a body of JSON."""
    named = b"/sse/messages?sessionId=abc"
    assert judge(b"POST", named, JSON) == PairMessage("abc")

    for target, headers, status in (
        (b"/sse/messages", (JSON,), 400),
        (b"/sse/messages?sessionId=a&sessionId=b", (JSON,), 400),
        (named, ((b"Content-Type", b"text/plain"),), 415),
    ):
        refused = judge(b"POST", target, *headers)
        assert isinstance(refused, Reject)
        assert refused.status == status


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [(b"POST", b"/sse", b"GET"), (b"GET", b"/sse/messages", b"POST")],
)
def test_each_endpoint_takes_its_own_method(method: bytes, target: bytes, allow: bytes) -> None:
    """By the 405 a client of Streamable HTTP learns that the other transport is meant."""
    refused = judge(method, target)

    assert isinstance(refused, Reject)
    assert (refused.status, refused.headers) == (405, ((b"Allow", allow),))


def test_pages_of_other_origins_are_refused_and_those_allowed_may_ask_first() -> None:
    """Host and Origin are checked as at the new endpoint, and preflights answered."""
    refused = judge(b"GET", b"/sse", (b"origin", b"https://evil.example"))
    assert isinstance(refused, Reject)
    assert refused.status == 403

    assert isinstance(judge(b"OPTIONS", b"/sse", cors=True), Preflight)
