"""Accept and Content-Type, by RFC 9110."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.wire.media import (
    BOTH,
    Accepts,
    MediaType,
    is_json,
    is_sse,
    parse_media_type,
    what_is_accepted,
)

ONLY_JSON = Accepts(json=True, sse=False)
ONLY_SSE = Accepts(json=False, sse=True)
NEITHER = Accepts(json=False, sse=False)


@pytest.mark.case("20")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json, text/event-stream", BOTH),
        ("text/event-stream, application/json", BOTH),
        ("text/event-stream,application/json", BOTH),
        ("APPLICATION/JSON, TEXT/EVENT-STREAM", BOTH),
        ("application/json;q=0.5,text/event-stream;q=0.9", BOTH),
        ("application/json ; q=0.001 , text/event-stream;Q=1.000", BOTH),
        ("application/json; charset=utf-8, text/event-stream", BOTH),
        ('application/json;p="a,\\"b";q=1, text/event-stream', BOTH),
        ("*/*", BOTH),
        ("application/*, text/*", BOTH),
        ("text/html, */*;q=0.1", BOTH),
        ("", BOTH),
        (" , ,", BOTH),
        ("application/json", ONLY_JSON),
        ("application/*", ONLY_JSON),
        ("*/*, text/event-stream;q=0", ONLY_JSON),
        ("*/*, text/*;q=0.0", ONLY_JSON),
        ("text/event-stream;q=0, application/json", ONLY_JSON),
        ("text/event-stream", ONLY_SSE),
        ("text/*", ONLY_SSE),
        ("application/json;q=0, */*", ONLY_SSE),
        ("application/json;q=0.000, application/*, text/*", ONLY_SSE),
        ("application/json;v=2;q=0, application/json", ONLY_JSON),
        ("text/html", NEITHER),
        ("*/*;q=0", NEITHER),
        ("application/json-rpc, text/event", NEITHER),
        # Malformed members are ignored, the others are not.
        ("application/json;q=2, text/event-stream", ONLY_SSE),
        ("application/json;q=-1, application/json;q=, text/event-stream", ONLY_SSE),
        ("json, text/event-stream", ONLY_SSE),
        ("application/json/x, text/event-stream", ONLY_SSE),
        ("application/json;, text/event-stream;;", BOTH),
        ('application/json;p="never closed, text/event-stream', NEITHER),
        ('text/event-stream, x/y;p="\\', ONLY_SSE),
        ("garbage", NEITHER),
    ],
)
def test_accept(value: str, expected: Accepts) -> None:
    assert what_is_accepted([value]) == expected


@pytest.mark.case("20")
def test_accept_may_be_absent_or_on_several_lines() -> None:
    assert what_is_accepted([]) == BOTH
    assert what_is_accepted(["application/json", "text/event-stream"]) == BOTH
    assert what_is_accepted(["application/json", "text/html"]) == ONLY_JSON


@given(order=st.permutations(["application/json;q=0", "text/html", "*/*;q=0.3", "text/*;q=0.1"]))
def test_the_order_of_ranges_means_nothing(order: list[str]) -> None:
    assert what_is_accepted([", ".join(order)]) == ONLY_SSE


def test_forms_are_narrowed_by_forms() -> None:
    assert BOTH & ONLY_JSON == ONLY_JSON
    assert ONLY_SSE & ONLY_JSON == NEITHER
    assert [bool(forms) for forms in (BOTH, ONLY_JSON, ONLY_SSE, NEITHER)] == [True] * 3 + [False]


@pytest.mark.parametrize("hostile", ['"\\' * 8_000, '"' * 16_001, ";" * 16_000, "a" * 16_000])
def test_a_hostile_accept_takes_no_time(hostile: str) -> None:
    start = time.perf_counter()
    what_is_accepted([hostile])
    what_is_accepted(["a/b" + hostile])

    assert time.perf_counter() - start < 0.25


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("application/json", True),
        ("Application/JSON", True),
        ("application/json; charset=utf-8", True),
        ('application/json;charset="UTF-8"', True),
        ('application/json;charset="\\utf-8"', True),
        ("application/json ;CHARSET=utf8;foo=bar", True),
        ("application/json;", True),
        ("application/json; charset=latin-1", False),
        ("application/json; charset=utf-16; charset=utf-8", False),
        ("application/json; charset", False),
        ("application/json-rpc", False),
        ("application/vnd.x+json", False),
        ("text/plain", False),
        ("application/json, text/plain", False),
        ("", False),
    ],
)
def test_content_that_is_json(value: str, expected: bool) -> None:  # noqa: FBT001  # a table
    assert is_json(value) is expected


def test_content_that_is_an_event_stream() -> None:
    assert is_sse("text/event-stream")
    assert is_sse("Text/Event-Stream;charset=utf-8")
    assert not is_sse("text/event-streams")
    assert not is_sse("nothing")


def test_parameters_keep_their_first_value() -> None:
    assert parse_media_type(' A/B ; X="y\\"z" ;x=2; c=D') == MediaType(
        "a/b", {"x": 'y"z', "c": "D"}
    )
    assert parse_media_type("a/b; =c") is None
    assert parse_media_type("a / b") is None
