"""Heads of requests, and the ids in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.wire.http_head import (
    Headers,
    RequestHead,
    format_event_id,
    is_session_id,
    parse_event_id,
)


def test_names_are_compared_ignoring_case() -> None:
    headers = Headers.read([(b"MCP-Session-Id", b" \tAbC "), (b"accept", b"a"), (b"ACCEPT", b"b")])

    assert headers.get("mcp-session-id") == "AbC"
    assert headers.get("accept") == "a"
    assert headers.all("accept") == ("a", "b")
    assert headers.get("host") is None
    assert headers.all("host") == ()
    assert headers.repeated == {"accept"}


@pytest.mark.spec("HL-36")
def test_a_repr_tells_no_secrets() -> None:
    secret = b"s3cret"
    head = RequestHead.read(
        b"POST",
        b"/messages?sessionId=" + secret,
        [(b"Mcp-Session-Id", secret), (b"Authorization", b"Bearer " + secret)],
    )

    assert "s3cret" not in repr(head)
    assert "mcp-session-id authorization" in repr(head)


@pytest.mark.parametrize(
    ("target", "path", "query", "host"),
    [
        (b"/mcp", "/mcp", "", "here"),
        (b"/messages?a=b?c", "/messages", "a=b?c", "here"),
        (b"http://there:80/mcp?x", "/mcp", "x", "there:80"),
        (b"HTTPS://there", "/", "", "there"),
        (b"http://", "/", "", ""),
        (b"*", "*", "", "here"),
        (b"there:443", "there:443", "", "here"),
        (b"/\xff", "/\xff", "", "here"),
    ],
)
def test_targets_have_several_forms(target: bytes, path: str, query: str, host: str) -> None:
    head = RequestHead.read(b"GET", target, [(b"Host", b"here")])

    assert (head.method, head.path, head.query, head.host) == ("GET", path, query, host)


@pytest.mark.spec("HL-30")
def test_session_ids_are_visible_ascii() -> None:
    assert is_session_id("".join(map(chr, range(0x21, 0x7F))))
    for bad in ("", " ", "a b", "a\x7f", "a\n", "\x00", "\xe9", "a\t"):
        assert not is_session_id(bad), bad


streams = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True)


@pytest.mark.spec("HL-25", "HL-26")
@given(stream=streams, n=st.integers(0, 10**18 - 1))
def test_an_event_id_names_its_stream(stream: str, n: int) -> None:
    assert parse_event_id(format_event_id(stream, n)) == (stream, n)


@given(text=st.text(max_size=12) | st.from_regex(r"[a.0-9+ _-]{0,6}", fullmatch=True))
def test_what_is_read_as_an_event_id_was_written_as_one(text: str) -> None:
    found = parse_event_id(text)

    assert found is None or format_event_id(*found) == text


@pytest.mark.case("24")
@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "a.", ".1", "a.01", "a.-1", "a.1.2", "a.1 ", "a.1\n", "a.\u0661", "a.1_0"),
        *("s1:0", "a." + "9" * 19, "a" * 65 + ".1", "x" * 10_000),
    ],
)
def test_anything_else_is_no_event_id(text: str) -> None:
    assert parse_event_id(text) is None


@pytest.mark.parametrize(
    ("stream", "n"), [("", 1), ("a.b", 1), ("a\n", 1), ("a", -1), ("a", 10**18)]
)
def test_an_event_id_that_could_not_be_read_is_not_written(stream: str, n: int) -> None:
    with pytest.raises(ValueError, match="no event id"):
        format_event_id(stream, n)
