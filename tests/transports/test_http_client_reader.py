"""HTTP/1.1 between bytes and responses: h11 is the judge, however the bytes are cut."""

from __future__ import annotations

import re
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.transports.http_response import BadResponse, CutShort, Head, ResponseReader
from mcp_trio.wire.http_head import Headers
from tests.feed import cuts_of, feed_every_way

LIMIT = 16_384
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Y: z\r\n\r\n%b"

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Feeder:
    """A reader that yields whole responses, as `feed_every_way` wants it."""

    def __init__(self, limit: int = LIMIT) -> None:
        self.reader = ResponseReader(limit)
        self.head: Head | None = None
        self.body = b""
        self.over = False

    def receive(self, data: bytes) -> list[Any]:
        return self._take(data) if data else []

    def end(self) -> list[Any]:
        return self._take(b"")

    def _take(self, data: bytes) -> list[Any]:
        if self.over:
            return []
        self.reader.receive(data)
        seen: list[Any] = []
        try:
            while True:
                if self.head is None:
                    self.head = self.reader.read_head()
                    if self.head is None:
                        return seen
                body, complete = self.reader.read_body()
                self.body += body
                if not complete:
                    return seen
                head, whole = self.head, self.body
                self.head, self.body = None, b""
                self.reader.expect("POST")
                seen.append((head.status, names(head.headers), whole, head.keep_alive))
                if not head.keep_alive:
                    self.over = True
                    return [*seen, "end"]
        except CutShort as exc:
            self.over = True
            return [*seen, "cut" if exc.begun else "end"]
        except BadResponse:
            self.over = True
            return [*seen, "bad"]


def names(headers: Headers) -> str:
    return repr(headers)


def truth(data: bytes) -> list[Any]:
    """What h11 alone makes of *data*, response by response, and of its end."""
    seen: list[Any] = []
    rest = data
    while rest:
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=LIMIT)
        connection.send(h11.Request(method="POST", target="/", headers=[("Host", "x")]))
        connection.send(h11.EndOfMessage())
        connection.receive_data(rest)
        connection.receive_data(b"")
        body = b""
        try:
            response = connection.next_event()
            while isinstance(response, h11.InformationalResponse):
                response = connection.next_event()
            if not isinstance(response, h11.Response):
                return [*seen, "cut"]
        except h11.RemoteProtocolError:
            return [*seen, "bad"]
        try:
            while isinstance(event := connection.next_event(), h11.Data):
                body += event.data
        except h11.RemoteProtocolError:
            return [*seen, "cut or bad"]
        headers = Headers.read((bytes(n), bytes(v)) for n, v in response.headers)
        options = ",".join(headers.all("connection")).lower().split(",")
        keep = response.http_version == b"1.1" and "close" not in [o.strip() for o in options]
        seen.append((response.status_code, names(headers), body, keep))
        if not keep:
            return [*seen, "end"]
        rest = connection.trailing_data[0]
    return [*seen, "end"]


FRAGMENTS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.0 200 OK",
        b"HTTP/1.1 202 Accepted",
        b"HTTP/1.1 204 No Content",
        b"HTTP/1.1 304 Not Modified",
        b"HTTP/1.1 100 Continue",
        b"HTTP/1.1 101 Switching Protocols",
        b"HTTP/1.1 404 Not Found",
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"\n\n",
        b"Content-Length: 3",
        b"content-length: 3",
        b"Content-Length: 03",
        b"Content-Length:3",
        b"Content-Length: 3, 3",
        b"Content-Length: +3",
        b"Content-Length : 3",
        b"X-Content-Length: 3",
        b"X: Content-Length: 3",
        b" Content-Length: 3",
        b"Transfer-Encoding: chunked",
        b"Connection: close",
        b"Connection: keep-alive",
        b"Connection: upgrade",
        b"Upgrade: x",
        b"Date: today",
        b"abc",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"0\r\n\r\n",
        b"\0",
    ]
)


def assert_like_h11(data: bytes, cuts: list[int]) -> None:
    """Where h11 finds a fault within a body, whether it is one or a cut is a matter of taste."""
    expected = truth(data)
    feeder = Feeder()
    pieces = [
        data[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True)
    ]
    seen = [each for piece in pieces for each in feeder.receive(piece)] + feeder.end()
    if seen and seen[-1] in ("cut", "bad") and expected[-1] in ("cut", "bad", "cut or bad"):
        seen[-1] = expected[-1]

    assert seen == expected


@given(parts=st.lists(FRAGMENTS, max_size=14), n=st.integers(0, 20), data=st.data())
def test_after_any_response_whatever_comes_is_read_as_h11_reads_it(
    parts: list[bytes], n: int, data: st.DataObject
) -> None:
    """The remembered head is not mistaken for another one."""
    stream = OK % (n, b"x" * n) + b"".join(parts)
    assert_like_h11(stream, data.draw(cuts_of(len(stream))))


@given(
    at=st.integers(0, 95),
    old=st.integers(0, 3),
    new=st.binary(max_size=4) | FRAGMENTS,
    n=st.integers(0, 30),
)
def test_a_head_that_was_changed_anywhere_is_read_as_h11_reads_it(
    at: int, old: int, new: bytes, n: int
) -> None:
    changed = OK % (n, b"y" * n)
    changed = changed[:at] + new + changed[at + old :]
    assert_like_h11(OK % (2, b"{}") + changed, [])


RESPONSES = {
    "sized": (OK % (2, b"{}"), (200, b"{}", True)),
    "empty": (b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", (202, b"", True)),
    "no content": (b"HTTP/1.1 204 X\r\n\r\n", (204, b"", True)),
    "no content, with a length": (b"HTTP/1.1 204 X\r\nContent-Length: 5\r\n\r\n", (204, b"", True)),
    "chunked": (
        CHUNKED + b"2\r\nab\r\n1;x=y\r\nc\r\n0\r\nT: t\r\n\r\n",
        (200, b"abc", True),
    ),
    "interim": (b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK % (1, b"1"), (200, b"1", True)),
    "lf only": (b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", (200, b"x", True)),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_framings_that_occur(name: str) -> None:
    data, (status, body, keep) = RESPONSES[name]
    shown = truth(data)[0][1]
    feed_every_way(Feeder, data * 2, [(status, shown, body, keep)] * 2 + ["end"])


def test_a_body_that_ends_with_the_connection() -> None:
    data = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n"
    feed_every_way(Feeder, data, [(200, "<Headers content-type>", b"data: 1\n\n", True), "end"])


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", "end"),
        (b"HTTP/1.1 200 OK\r\nConte", "cut"),
        (OK % (5, b"1234"), "cut"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "cut"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12", "cut"),
        (b"SSH-2.0-x\r\n\r\n", "bad"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "bad"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "bad"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "bad"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * LIMIT + b"\r\n\r\n", "bad"),
    ],
)
def test_what_is_no_whole_response(data: bytes, end: str) -> None:
    feed_every_way(Feeder, data, [end])


def test_the_same_head_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its length differs; the object is the same, with what was concluded from it."""
    made: list[object] = []
    original = h11.Connection.__init__

    def counted(self: Any, *args: Any, **kwargs: Any) -> None:
        made.append(self)
        original(self, *args, **kwargs)

    monkeypatch.setattr(h11.Connection, "__init__", counted)
    reader = ResponseReader(LIMIT)
    heads = set()
    for n in (2, 3, 40_000):
        reader.receive(OK % (n, b"x" * n))
        heads.add(reader.read_head())
        assert reader.read_body() == (b"x" * n, True)
        assert reader.reusable
    assert len(heads) == len(made) == 1


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 204 X\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nConnection: close\r\n\r\n",
        b"HTTP/1.0 200 X\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nX: content-length\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 X\r\nContent-Length: 2\r\nUpgrade: h2c\r\n\r\n",
    ],
)
def test_heads_with_another_meaning_are_not_remembered(head: bytes) -> None:
    reader = ResponseReader(LIMIT)
    reader.receive(head)
    assert reader.read_head() is not None
    assert re.search("_memo=None", f"_memo={reader._memo}")


def test_a_connection_is_reusable_after_a_whole_response_and_nothing_more() -> None:
    for data, reusable in [
        (OK % (2, b"{}"), True),
        (OK % (2, b"{"), False),
        (OK % (2, b"{}x"), False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", False),
        (
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            False,
        ),
    ]:
        reader = ResponseReader(LIMIT)
        reader.receive(data)
        reader.read_head()
        reader.read_body()
        assert reader.reusable is reusable, data
