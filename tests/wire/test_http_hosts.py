"""Hosts and origins in a form that compares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.wire.http_hosts import (
    Authority,
    Origin,
    is_loopback,
    origin_of,
    parse_authority,
    parse_origin,
)


@pytest.mark.case("21")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", Authority("localhost")),
        ("LOCALHOST", Authority("localhost")),
        ("localhost:8000", Authority("localhost", 8000)),
        ("localhost:", Authority("localhost")),
        ("[::1]:8000", Authority("::1", 8000)),
        ("[0:0:0:0:0:0:0:1]", Authority("::1")),
        ("[::FFFF:127.0.0.1]", Authority("::ffff:7f00:1")),
        ("127.0.0.1", Authority("127.0.0.1")),
        ("Mcp.Example.com.", Authority("mcp.example.com")),
        ("a_service:65535", Authority("a_service", 65535)),
        ("localhost:65536", None),
        ("localhost:123456", None),
        ("localhost:http", None),
        ("localhost:\u0663", None),
        ("::1", None),
        ("[::1", None),
        ("[::1]x", None),
        ("[1.2.3.4]", None),
        ("[fe80::1%eth0]", None),
        ("user@localhost", None),
        ("localhost/", None),
        ("localhost localhost", None),
        ("localhost\n", None),
        ("a,b", None),
        (".", None),
        (":80", None),
        ("", None),
    ],
)
def test_authorities(text: str, expected: Authority | None) -> None:
    assert parse_authority(text) == expected


@pytest.mark.case("21")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://localhost:3000", Origin("http", "localhost", 3000)),
        ("http://localhost", Origin("http", "localhost", 80)),
        ("HTTPS://Example.COM.", Origin("https", "example.com", 443)),
        ("https://[::1]:0", Origin("https", "::1", 0)),
        ("null", None),
        ("", None),
        ("localhost", None),
        ("file://", None),
        ("chrome-extension://abcdef", None),
        ("http://localhost/", None),
        ("http://localhost http://evil.com", None),
        ("http://user@localhost", None),
    ],
)
def test_origins(text: str, expected: Origin | None) -> None:
    assert parse_origin(text) == expected


def test_urls_have_the_origin_they_name() -> None:
    assert origin_of("http://Example.com/mcp?x#y") == Origin("http", "example.com", 80)
    assert origin_of("https://example.com:8443") == Origin("https", "example.com", 8443)
    assert origin_of("https://user:secret@example.com/") is None
    assert origin_of("ftp://example.com/") is None
    assert origin_of("/mcp") is None
    assert origin_of("http://[::1/mcp") is None
    assert origin_of("http://example.com:99999/mcp") is None


def test_this_machine_has_many_names() -> None:
    for name in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:7f00:1"):
        assert is_loopback(name), name
    for name in ("localhost.evil.com", "evil.com", "0.0.0.0", "10.0.0.1", "::", "::ffff:a00:1"):  # noqa: S104  # not bound to
        assert not is_loopback(name), name


@given(st.text(max_size=30))
def test_any_text_is_an_authority_or_none(text: str) -> None:
    for parse in (parse_authority, parse_origin, origin_of):
        parse(text)
        parse("http://" + text)
