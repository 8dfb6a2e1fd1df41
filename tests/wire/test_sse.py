"""Server-sent events, by the standard's algorithm and however the bytes are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.wire.jsonrpc import Flaw, Malformed, decode
from mcp_trio.wire.sse import (
    KEEP_ALIVE,
    Overlong,
    ServerSentEvent,
    SSEDecoder,
    encode_comment,
    encode_event,
    encode_priming,
)
from tests.feed import cuts_of, feed_every_way
from tests.spec_files import json_lines

LIMIT = 1_000


class Feed:
    """A decoder without its ``end``, which returns nothing."""

    def __init__(self, limit: int = LIMIT, last_event_id: str | None = None) -> None:
        self.decoder = SSEDecoder(limit, last_event_id=last_event_id)

    def receive(self, data: bytes, /) -> list[ServerSentEvent | Overlong]:
        return self.decoder.receive(data)


def feeds(stream: bytes, *expect: object, limit: int = LIMIT) -> list[SSEDecoder]:
    return [feed.decoder for feed in feed_every_way(lambda: Feed(limit), stream, expect)]


def message(data: bytes, id_: str | None = None) -> ServerSentEvent:
    return ServerSentEvent(data, "message", id_)


# ---------------------------------------------------------------- the algorithm, once more


def by_the_standard(stream: bytes) -> tuple[list[ServerSentEvent], str | None, int | None]:
    """WHATWG HTML § 9.2.6, sentence by sentence and without a thought for speed."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    data, event, id_, last, retry = b"", "", "", "", None
    events = []
    for line in text.split(b"\n")[:-1]:
        if line == b"":
            last = id_
            if data:
                events.append(ServerSentEvent(data[:-1], event or "message", id_ or None))
            data, event = b"", ""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"event":
                event = value.decode(errors="replace")
            elif field == b"data":
                data += value + b"\n"
            elif field == b"id" and b"\0" not in value:
                id_ = value.decode(errors="replace")
            elif field == b"retry" and value and not value.strip(b"0123456789"):
                retry = int(value)
    return events, last or None, retry


pieces = st.sampled_from(
    [
        *(b"data", b"event", b"id", b"retry", b":", b": ", b" ", b"x", b"message\n"),
        *(b"\n", b"\n\n", b"\r", b"\r\n", b"\0", b"\xff", b"\xef\xbb\xbf", b"\xbf", b"\xc3\xa9"),
        *(b"data: {}\n\n", b"data:\n", b"data\n", b":note\n", b"event: message\ndata: 1\n\n"),
        *(b"event: message\n", b"event: x\n", b"id: 7\n", b"id:\n", b"retry: 12\n"),
    ]
)


@given(chosen=st.lists(pieces, max_size=24), cuts=st.data())
@example(chosen=[b"\xef\xbb\xbf", b"data: 1", b"\r", b"\n", b"\r\n"], cuts=None)
@example(chosen=[b"\n", b"\n\n", b"data: 1", b"\n\n", b"\n", b"data: 2\n"], cuts=None)
@example(chosen=[b"id: 7\n", b"event: message\n", b"id: 8\n", b"data: 1\n\n"], cuts=None)
def test_events_are_those_of_the_standard(chosen: list[bytes], cuts: st.DataObject | None) -> None:
    stream = b"".join(chosen)
    events, last_event_id, retry = by_the_standard(stream)
    drawn = [] if cuts is None else cuts.draw(cuts_of(len(stream)))

    for feed in feed_every_way(Feed, stream, events, cuts=drawn):
        assert (feed.decoder.last_event_id, feed.decoder.retry) == (last_event_id, retry)


# ---------------------------------------------------------------- one rule at a time


def test_a_bom_is_skipped_once_and_only_at_the_start() -> None:
    bom = b"\xef\xbb\xbf"

    feeds(bom + b"data: 1\n\n" + bom + b"data: 2\n\n", message(b"1"))
    feeds(bom + bom + b"data: 1\n\n")
    feeds(b"\xef\xbb" + b"data: 1\n\n")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_any_line_end_ends_a_line(end: bytes) -> None:
    stream = end.join([b"event: e", b"data: 1", b"data: 2", b"", b"data: 3", b"", b""])

    feeds(stream, ServerSentEvent(b"1\n2", "e"), message(b"3"))


def test_an_event_is_there_with_the_cr_that_ends_it() -> None:
    """Waiting for the LF that may follow would hold the last event back."""
    decoder = SSEDecoder(LIMIT)

    assert decoder.receive(b"data: 1\r\r") == [message(b"1")]
    assert decoder.receive(b"\n") == []
    assert decoder.receive(b"data: 2\r\n\r") == [message(b"2")]
    assert decoder.receive(b"") == []
    assert decoder.receive(b"\ndata: 3\r\n\r\n") == [message(b"3")]


@pytest.mark.spec("HM-12")
@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_comments_are_ignored(end: bytes) -> None:
    feeds(b": x" + end + b":" + end + b"data: 1" + end + b":y" + end + end, message(b"1"))


def test_fields_need_neither_colon_nor_space() -> None:
    feeds(b"data\n\n", message(b""))
    feeds(b"data\ndata\n\n", message(b"\n"))
    feeds(b"data:1\n\ndata: 2\n\ndata:  3\n\n", message(b"1"), message(b"2"), message(b" 3"))
    feeds(b"event\ndata: 1\n\n", message(b"1"))
    feeds(b"data: a: b\n\n", message(b"a: b"))


def test_unknown_fields_are_ignored() -> None:
    feeds(b"Data: 1\ndata : 2\n data: 3\nfoo: 4\ndata: 5\n\n", message(b"5"))


def test_the_type_is_of_one_event_only() -> None:
    feeds(
        b"event: a\n\ndata: 1\n\nevent: b\ndata: 2\n\ndata: 3\n\n",
        message(b"1"),
        ServerSentEvent(b"2", "b"),
        message(b"3"),
    )


def test_an_id_stays_until_the_next() -> None:
    (decoder, *_) = feeds(
        b"id: 1\ndata: a\n\ndata: b\n\nid: 2\n\ndata: c\n\nid: x\0y\ndata: d\n\nid\ndata: e\n\n",
        message(b"a", "1"),
        message(b"b", "1"),
        message(b"c", "2"),
        message(b"d", "2"),
        message(b"e", None),
    )

    assert decoder.last_event_id is None


def test_the_id_of_an_incomplete_event_has_no_effect() -> None:
    for decoder in feeds(b"id: 1\ndata: a\n\nid: 2\ndata: b\n", message(b"a", "1")):
        assert decoder.last_event_id == "1"


def test_retry_is_digits_only() -> None:
    for decoder in feeds(b"retry: 1500\nretry: 1.5\nretry: -1\nretry:\nretry: +2\nretry: x\n\n"):
        assert decoder.retry == 1500
    for decoder in feeds(b"retry: " + b"9" * 16 + b"\n\n" + "retry: \u0663\n\n".encode()):
        assert decoder.retry is None


@pytest.mark.spec("HL-15", "HL-17", "HL-18")
def test_a_priming_event_gives_id_and_retry() -> None:
    primed = encode_priming("s5.0", retry=1500)

    for decoder in feeds(primed, message(b"", "s5.0")):
        assert (decoder.last_event_id, decoder.retry) == ("s5.0", 1500)


def test_without_a_data_line_nothing_is_dispatched() -> None:
    for decoder in feeds(b"id: 7\nretry: 3\nevent: e\n\n"):
        assert (decoder.last_event_id, decoder.retry) == ("7", 3)


def test_the_end_discards_the_incomplete_event() -> None:
    decoder = SSEDecoder(LIMIT, last_event_id="0")

    assert decoder.last_event_id == "0"
    assert decoder.receive(b"data: 1\n\nretry: 9\nid: 1\nevent: e\ndata: 2\nda") == [
        message(b"1", "0")
    ]
    decoder.end()
    assert decoder.receive(b"\xef\xbb\xbfdata: 3\n\n") == [message(b"3", "0")]
    assert decoder.retry == 9
    assert decoder.receive(b"data: 4\r") == []
    decoder.end()
    assert decoder.receive(b"\ndata: 5\n\n") == [message(b"5", "0")]


def test_damaged_data_is_refused_and_not_repaired() -> None:
    """With a replacement character in it the text would be valid JSON."""
    (event,) = SSEDecoder(LIMIT).receive(b'data: {"jsonrpc":"2.0","method":"\xff"}\n\n')

    assert isinstance(event, ServerSentEvent)
    malformed = decode(event.data, depth=9)
    assert isinstance(malformed, Malformed)
    assert malformed.flaw is Flaw.UNPARSABLE


def test_names_are_decoded_with_replacement() -> None:
    feeds(b"event: \xff\nid: \xfe\ndata: 1\n\n", ServerSentEvent(b"1", "\ufffd", "\ufffd"))
    feeds(b"id: \xfe\ndata: 1\n\n", message(b"1", "\ufffd"))


# ---------------------------------------------------------------- limits


@pytest.mark.case("14")
@pytest.mark.parametrize(
    "head", [b"data: ", b"data:", b"event: message\ndata: ", b"id: 1\nevent: e\ndata: "]
)
def test_data_may_be_as_long_as_the_limit(head: bytes) -> None:
    for size, fits in ((19, True), (20, True), (21, False), (40, False)):
        decoder = SSEDecoder(20)
        events = decoder.receive(b"data: 1\n\n" + head + b"x" * size + b"\n\ndata: 2\n\n")

        assert len(events) == (3 if fits else 2)
        assert (events[-1] == Overlong(20)) is not fits


@pytest.mark.case("14")
@pytest.mark.parametrize(
    "long",
    [
        b"data: " + b"x" * 21 + b"\n\n",
        b"data: " + b"x" * 21,
        b"data:" + b"x" * 21 + b"\n",
        b"event: message\ndata: " + b"x" * 21 + b"\n\n",
        b"event: message\ndata: " + b"x" * 40,
        b"data: 0123456789\ndata: 0123456789\n",
        b"data:\n" * 22,
        b": " + b"x" * 25,
        b": " + b"x" * 25 + b"\n",
        b"id: " + b"x" * 25 + b"\n",
        b"x" * 27,
    ],
)
def test_what_is_too_long_is_the_last_that_is_read(long: bytes) -> None:
    stream = b"data: 1\n\n" + long + b"\n\ndata: 2\n\n"

    for decoder in feeds(stream, message(b"1"), Overlong(20), limit=20):
        assert decoder.receive(b"data: 3\n\n") == []


def test_lines_that_are_dropped_do_not_add_up() -> None:
    feeds(b": x\nid: 1\nevent: e\n" * 60 + b"data: 1\n\n", ServerSentEvent(b"1", "e", "1"), limit=9)


def test_a_long_event_in_many_pieces() -> None:
    data = b"x" * 300_000
    stream = encode_event(data, id="a.1")
    decoder = SSEDecoder(len(data))
    events = [e for at in range(0, len(stream), 4096) for e in decoder.receive(stream[at:][:4096])]

    assert events == [message(data, "a.1")]


# ---------------------------------------------------------------- writing

ids = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1)


@given(
    data=st.binary(max_size=60),
    event=st.none() | ids.filter(lambda name: name != " "),
    id_=st.none() | ids,
    retry=st.none() | st.integers(0, 10**9),
)
@example(data=b"a\r\nb\rc\nd\n\n", event=None, id_=None, retry=None)
@example(data=b"", event="endpoint", id_=" x", retry=0)
def test_an_event_comes_back_as_it_was(
    data: bytes, event: str | None, id_: str | None, retry: int | None
) -> None:
    decoder = SSEDecoder(LIMIT)
    events = decoder.receive(encode_event(data, event=event, id=id_, retry=retry))
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    assert events == [ServerSentEvent(lines, event or "message", id_)]
    assert (decoder.last_event_id, decoder.retry) == (id_, retry)


def test_how_events_look() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", id="a.1") == b"event: message\nid: a.1\ndata: {}\n\n"
    assert encode_event(b"1\n2", event=None) == b"data: 1\ndata: 2\n\n"
    assert encode_event(b"1\r\n\r2", event="x") == b"event: x\ndata: 1\ndata: \ndata: 2\n\n"
    assert encode_priming("a.0") == b"id: a.0\ndata: \n\n"
    assert encode_priming("a.0", retry=1500) == b"id: a.0\nretry: 1500\ndata: \n\n"


@pytest.mark.spec("HM-13")
def test_comments_are_read_by_nobody() -> None:
    assert encode_comment("keep-alive") == KEEP_ALIVE
    feeds(KEEP_ALIVE + encode_comment("") + encode_event(b"1") + KEEP_ALIVE, message(b"1"))


@pytest.mark.parametrize("bad", ["a\nb", "a\rb", "a\0b", "\n", "a\n"])
def test_nothing_can_be_smuggled_into_a_field(bad: str) -> None:
    with pytest.raises(ValueError, match="id must have no CR"):
        encode_event(b"", id=bad)
    with pytest.raises(ValueError, match="id must have no CR"):
        encode_priming(bad)
    with pytest.raises(ValueError, match="event must have no CR"):
        encode_event(b"", event=bad)
    with pytest.raises(ValueError, match="comment must have no CR"):
        encode_comment(bad)


def test_a_negative_retry_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        encode_event(b"", retry=-1)


# ---------------------------------------------------------------- golden streams


@pytest.mark.spec("HS-4", "HL-25")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_streams_of_the_specification(revision: str) -> None:
    """What another parser would see: blocks between blank lines, their fields by name."""
    seen = 0
    for exchange in json_lines(f"{revision}.http.jsonl"):
        stream: str | None = exchange["response"].get("sse")
        if stream is None:
            continue
        last_id: str | None = None
        expect: list[Any] = []
        for block in stream.split("\n\n")[:-1]:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line[0] != ":")
            if fields:
                last_id = fields.get("id", last_id)
                data = fields["data"].encode()
                expect.append(ServerSentEvent(data, fields.get("event", "message"), last_id))
        feeds(stream.encode(), *expect, limit=10_000)
        messages = [json.loads(e.data) for e in expect if e.data[:1] == b"{"]
        seen += len(messages)

        assert len(messages) == len(exchange["response"]["defs"])
    assert seen >= 2
