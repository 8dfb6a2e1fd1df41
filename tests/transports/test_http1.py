"""HTTP/1.1 between bytes and requests: h11 is the judge, however the bytes are cut."""

from __future__ import annotations

import re
from typing import Any

import h11
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.transports.http1 import (
    BadRequest,
    EndOfRequests,
    Head,
    RequestReader,
    chunk,
    json_response,
    last_chunk,
    response,
)
from mcp_trio.transports.http_memo import HeadMemo
from tests.feed import cuts_of, feed_every_way

LIMIT = 16_384
POST = (
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\n"
    b"Content-Length: %d\r\nX-Y: z\r\n\r\n%b"
)


@frozen
class Seen:
    """One request as it came out, for comparison."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    keep_alive: bool


class Feeder:
    """A reader that yields whole requests, as `feed_every_way` wants it."""

    def __init__(
        self, limit: int = LIMIT, body_limit: int = 1_000_000, known: HeadMemo | None = None
    ) -> None:
        self.reader = RequestReader(limit, known)
        self.body_limit = body_limit
        self.head: Head | None = None
        self.broken = False

    def receive(self, data: bytes) -> list[Any]:
        return self._take(data) if data else []

    def end(self) -> list[Any]:
        return self._take(b"")

    def _take(self, data: bytes) -> list[Any]:
        if self.broken:
            return []
        self.reader.receive(data)
        return self._drain()

    def _drain(self) -> list[Any]:
        seen: list[Any] = []
        try:
            while True:
                if self.head is None:
                    self.head = self.reader.read_head()
                    if self.head is None:
                        return seen
                body = self.reader.read_body(self.body_limit)
                if body is None:
                    return seen
                head, self.head = self.head, None
                seen.append(
                    Seen(head.method, head.target, lengthless(head.headers), body, head.keep_alive)
                )
        except EndOfRequests:
            self.broken = True
            return [*seen, "end"]
        except BadRequest as exc:
            self.broken = True
            return [*seen, exc.status]


def lengthless(headers: tuple[tuple[bytes, bytes], ...]) -> tuple[tuple[bytes, bytes], ...]:
    """A head is shared by requests of several lengths, so its own length says nothing."""
    return tuple((n, v) for n, v in headers if n != b"content-length")


def truth(data: bytes) -> list[Any]:
    """What h11 alone makes of *data*, request by request, and of its end."""
    seen: list[Any] = []
    rest = data
    while rest:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=LIMIT)
        connection.receive_data(rest)
        connection.receive_data(b"")
        body = b""
        try:
            request = connection.next_event()
            if not isinstance(request, h11.Request):
                return [*seen, "odd"]
            while isinstance(event := connection.next_event(), h11.Data):
                body += event.data
        except h11.RemoteProtocolError as exc:
            return [*seen, exc.error_status_hint]
        headers = tuple((bytes(n), bytes(v)) for n, v in request.headers)
        if {b"transfer-encoding", b"content-length"} <= {n for n, _ in headers}:
            return [*seen, 400]  # h11 takes it, as RFC 9112 allows; we do not
        options = b",".join(v for n, v in headers if n == b"connection").lower().split(b",")
        keep = request.http_version == b"1.1" and b"close" not in [o.strip() for o in options]
        seen.append(Seen(request.method, request.target, lengthless(headers), body, keep))
        rest = connection.trailing_data[0]
    return [*seen, "end"]


FRAGMENTS = st.sampled_from(
    [
        b"Content-Length: 5\r\n",
        b"content-length:5\r\n",
        b"CONTENT-LENGTH: 5, 5\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"Connection: keep-alive\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b"\x00",
        b"\xff",
        b" fold\r\n",
        b"\n\n",
        b"0",
        b",",
    ]
)


@st.composite
def odd_requests(draw: st.DrawFn, *plain: bytes) -> bytes:
    """A request with a few insertions and deletions in its head."""
    data = draw(st.sampled_from(plain)) if plain else POST % (5, b"hello")
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data) - 5))
        if draw(st.booleans()):
            data = data[:at] + draw(FRAGMENTS) + data[at:]
        else:
            data = data[:at] + data[at + draw(st.integers(1, 3)) :]
    return data


def relength(data: bytes, body: bytes) -> bytes:
    """The same head with another length and body; itself where it has no plain length."""
    head, blank, _ = data.partition(b"\r\n\r\n")
    changed, n = re.subn(
        rb"(\r\n[Cc]ontent-[Ll]ength: )[0-9]+", rb"\g<1>%d" % len(body), head, count=1
    )
    return changed + blank + body if n else data


@given(odd_requests(), st.binary(max_size=12))
def test_a_head_that_was_seen_before_is_read_as_h11_reads_it(data: bytes, body: bytes) -> None:
    """Two requests on one connection, alike but for the length: the memo never changes a thing."""
    both = data + relength(data, body)
    expected = truth(both)

    feeder = Feeder()
    seen = feeder.receive(both) + feeder.end()

    assert [s for s in seen if isinstance(s, Seen)] == [s for s in expected if isinstance(s, Seen)]
    assert (seen[-1] == "end") == (expected[-1] == "end")


OF_SESSION = (
    POST.replace(b"Host", b"Mcp-Session-Id: one\r\nHost") % (5, b"hello"),
    POST.replace(b"X-Y: z", b"MCP-Session-ID: one.1") % (5, b"hello"),
    b"GET /mcp HTTP/1.1\r\nHost: x\r\nMcp-Session-Id: one\r\nX-Y: Z\r\n\r\n",
    b"DELETE /mcp HTTP/1.1\r\nMcp-Session-Id: one\r\nHost: x\r\n\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n",
)


@given(
    odd_requests(*OF_SESSION),
    st.binary(max_size=12),
    st.from_regex(rb"[0-9A-Za-z._-]{1,12}", fullmatch=True),
)
def test_a_head_that_another_connection_sent_is_read_as_h11_reads_it(
    data: bytes, body: bytes, session: bytes
) -> None:
    """Alike but for the length and the session's id, which comes out as it was sent."""
    known = HeadMemo()
    first = Feeder(known=known)
    first.receive(data)
    first.end()
    field = re.compile(rb"(\r\nmcp-session-id: )[0-9A-Za-z._-]+", re.IGNORECASE)
    again = field.sub(rb"\g<1>" + session, data)
    again = relength(again, body)
    expected = truth(again)

    feeder = Feeder(known=known)
    seen = feeder.receive(again) + feeder.end()

    assert [s for s in seen if isinstance(s, Seen)] == [s for s in expected if isinstance(s, Seen)]
    assert (seen[-1] == "end") == (expected[-1] == "end")


@pytest.mark.parametrize("text", OF_SESSION)
def test_a_head_of_another_connection_is_not_parsed_again(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session's id and another length are put in their places."""
    known = HeadMemo()
    one = head_of(text, known)
    monkeypatch.delattr(h11, "Connection")

    other = head_of(text.replace(b"one", b"other").replace(b"h: 5", b"h: 4"), known)

    assert other is not one
    changed = {b"mcp-session-id": (b"one", b"other"), b"content-length": (b"5", b"4")}
    assert other.headers == tuple(
        (name, value.replace(*changed.get(name, (b"", b"")))) for name, value in one.headers
    )
    assert other.like is not None
    assert not any(b"one" in value for _, value in other.like.headers)


@pytest.mark.parametrize(
    "odd",
    [
        b"Authorization: Bearer t\r\n",
        b"Cookie: c=1\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"Expect: 100-continue\r\n",
        b"Connection: close\r\n",
        b"mcp-session-id: two\r\n",
        b"X: " + b"y" * 5_000 + b"\r\n",
    ],
)
def test_other_heads_stay_with_their_connection(
    odd: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What names its sender, has a say about the connection, or is ambiguous or large."""
    known = HeadMemo()
    text = OF_SESSION[2].replace(b"Host", odd + b"Host")
    head_of(text, known)
    monkeypatch.delattr(h11, "Connection")
    with pytest.raises(AttributeError):
        head_of(text, known)


def test_the_number_of_heads_that_are_kept_is_bounded() -> None:
    """The oldest are forgotten."""
    known = HeadMemo()
    for n in range(200):
        head_of(OF_SESSION[2].replace(b"Z", b"%d" % n), known)
    assert len(known) == 64


def head_of(text: bytes, known: HeadMemo) -> Head:
    reader = RequestReader(LIMIT, known)
    reader.receive(text)
    head = reader.read_head()
    assert head is not None
    return head


PIPELINE = (
    POST % (2, b"hi")
    + POST % (5, b"there")
    + b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n"
    + b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    + POST % (0, b"")
)


@given(cuts=cuts_of(len(PIPELINE)))
def test_pipelined_requests_come_out_one_by_one_however_they_are_cut(cuts: list[int]) -> None:
    """Sized, chunked and empty bodies, one after another."""
    feed_every_way(Feeder, PIPELINE, truth(PIPELINE), cuts=cuts)


def test_the_same_head_is_parsed_once() -> None:
    """The head object, and what the server concluded from it, serve the next request."""
    reader = RequestReader(LIMIT)
    heads = []
    for body in (b"a", b"bb", b"ccc" * 100):
        reader.receive(POST % (len(body), body))
        heads.append(reader.read_head())
        assert reader.read_body(1_000) == body

    assert heads[0] is heads[1] is heads[2]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (
            b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            400,
        ),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length : 5\r\n\r\nhello", 400),
        (
            b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            501,
        ),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (
            b"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"POST /mcp HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\nX: " + b"y" * LIMIT, 431),
        (POST % (2_000_000, b""), 413),
        (b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel", 400),  # cut off
        (b"POST /mcp HT", 400),  # cut off
    ],
)
def test_what_is_no_request_is_refused_with_a_status(text: bytes, status: int) -> None:
    """Shapes that smuggle, that are too large, and that end too early."""
    feeder = Feeder()

    assert [*feeder.receive(text), *feeder.end()][0] == status


def test_a_chunked_body_without_end_stops_at_the_limit() -> None:
    """Nothing is collected past the limit."""
    feeder = Feeder(body_limit=1_000)
    seen = feeder.receive(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    rounds = 0
    while not seen:
        seen = feeder.receive(chunk(b"x" * 100))
        rounds += 1

    assert seen == [413]
    assert rounds == 11


@pytest.mark.parametrize(
    ("version", "connection", "keeps"),
    [
        (b"1.1", b"", True),
        (b"1.1", b"Connection: close\r\n", False),
        (b"1.1", b"Connection: Keep-Alive, Close\r\n", False),
        (b"1.0", b"", False),
    ],
)
def test_who_asks_for_the_end_of_the_connection_gets_it(
    version: bytes, connection: bytes, *, keeps: bool
) -> None:
    """HTTP/1.0 clients and those that say close."""
    reader = RequestReader(LIMIT)
    reader.receive(b"GET / HTTP/" + version + b"\r\nHost: x\r\n" + connection + b"\r\n")
    head = reader.read_head()

    assert head is not None
    assert head.keep_alive is keeps
    assert head.chunks is (version == b"1.1")


def test_a_client_that_waits_for_continue_is_known() -> None:
    """RFC 9110 section 10.1.1."""
    reader = RequestReader(LIMIT)
    reader.receive(
        b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    )
    head = reader.read_head()

    assert head is not None
    assert head.wants_continue
    assert reader.read_body(10) is None
    reader.receive(b"abc")
    assert reader.read_body(10) == b"abc"


@pytest.mark.parametrize("status", [200, 202, 404, 599])
def test_h11_reads_what_we_format(status: int) -> None:
    """Sized, chunked and JSON responses are HTTP/1.1."""
    begin = response(status, [(b"x-a", b"b")], None, chunked=True)
    chunked = begin + chunk(b"hello") + last_chunk()
    for data, body in (
        (response(status, [(b"x-a", b"b")], b"hello", keep_alive=False), b"hello"),
        (chunked, b"hello"),
        (json_response(b"{}"), b"{}"),
    ):
        connection = h11.Connection(h11.CLIENT)
        connection.send(h11.Request(method="GET", target="/", headers=[("host", "x")]))
        connection.send(h11.EndOfMessage())
        connection.receive_data(data)
        head = connection.next_event()
        got = b""
        while isinstance(event := connection.next_event(), h11.Data):
            got += event.data

        assert isinstance(head, h11.Response)
        assert isinstance(event, h11.EndOfMessage)
        assert got == body
