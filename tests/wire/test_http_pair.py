"""HTTP+SSE of 2024-11-05: the event that says where to POST."""

from __future__ import annotations

import pytest

from mcp_trio.errors import ProtocolViolation
from mcp_trio.wire.http_pair import ENDPOINT, encode_endpoint, read_endpoint
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
