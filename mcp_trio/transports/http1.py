"""HTTP/1.1 on one server connection, between bytes and requests: h11 reads, we format.

h11 is the only parser, and parses each distinct head once: a head that differs from one of the
last on this connection only in the digits of its single Content-Length parses the same, and
so does one that differs from a head of any connection in that and in its session id
(`mcp_trio.transports.http_memo`). The conditions of `_is_repeatable` are what makes that
sound; a differential test holds them. Responses are formatted here, since their heads are few
and known.
"""

from __future__ import annotations

import re
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, final

import h11
from attrs import define, frozen

from mcp_trio.wire.http import SSE_HEADERS

from .http_memo import HeadCut, HeadMemo

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "BadRequest",
    "EndOfRequests",
    "Head",
    "RequestReader",
    "chunk",
    "last_chunk",
    "response",
]

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,12})\r\n")
_ANY_LENGTH: Final = re.compile(rb"content-length", re.IGNORECASE)
#: Distinct heads that are kept: one client's ``initialize`` and its other requests.
_HEADS: Final = 2
_NEVER_REPEATABLE: Final = frozenset({b"transfer-encoding", b"expect", b"upgrade"})


@final
class BadRequest(Exception):
    """The peer's bytes are no request that can be served; the connection ends after the answer."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.reason: Final = reason


@final
class EndOfRequests(Exception):
    """The peer has closed its side, between two requests."""


@final
@define(eq=False)
class Head:
    """The head of a request. One object serves all requests whose heads are alike.

    Attributes:
        headers: lower-case names and values, as h11 gives them.
        keep_alive: the connection may serve another request after this one.
        wants_continue: the client waits for ``100 Continue`` before it sends the body.
        chunks: it understands a chunked response (HTTP/1.1).
        facts: whatever the server concluded from this head.
        like: a head that differs only in length and session id, if one was seen before.
    """

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    keep_alive: bool
    wants_continue: bool
    chunks: bool
    facts: Any = None
    like: Head | None = None


@final
@frozen
class _Memo:
    """The last head, cut at the digits of its Content-Length."""

    before: bytes
    after: bytes
    head: Head


class RequestReader:
    """The incoming side of one connection: feed bytes, take heads and bodies in turn."""

    __slots__ = (
        "_body",
        "_body_size",
        "_buffer",
        "_ended",
        "_h11",
        "_known",
        "_length",
        "_limit",
        "_memos",
    )

    def __init__(self, header_bytes: int, known: HeadMemo | None = None) -> None:
        self._limit = header_bytes
        self._known = HeadMemo() if known is None else known
        self._buffer = b""
        self._ended = False
        self._memos: tuple[_Memo, ...] = ()  # of the last distinct heads, the newest first
        self._h11: h11.Connection | None = None
        self._length: int | None = None  # of the body, where it is known beforehand
        self._body: list[bytes] = []
        self._body_size = 0

    @property
    def idle(self) -> bool:
        """True while nothing of a next request has arrived."""
        return not self._buffer

    def receive(self, data: bytes) -> None:
        """Take bytes of the connection; ``b""`` is its end."""
        if not data:
            self._ended = True
        if self._h11 is not None:
            self._h11.receive_data(data)
        elif self._length is not None:
            self._body.append(data)
            self._body_size += len(data)
        else:
            self._buffer = self._buffer + data if self._buffer else data

    # ------------------------------------------------------------ heads

    def read_head(self) -> Head | None:
        """Return the next request's head, None while it is incomplete.

        Raises:
            EndOfRequests: the peer has ended instead.
            BadRequest: h11 refuses it, or it is too large.
        """
        buffer = self._buffer
        blank = _BLANK_LINE.search(buffer, 0, self._limit)
        if blank is None:
            if len(buffer) >= self._limit:
                raise BadRequest(431, f"the request's head is over {self._limit} bytes")
            if self._ended:
                if buffer:
                    raise BadRequest(400, "the connection ended within a request")
                raise EndOfRequests
            return None
        end = blank.end()
        length = _LENGTH.search(buffer, 0, end)
        if length is not None:
            before, after = buffer[: length.start(1)], buffer[length.end(1) : end]
            for memo in self._memos:
                if before == memo.before and after == memo.after:
                    return self._begin_sized(memo.head, int(length[1]), end)
        text = buffer[:end]
        cut = HeadCut.of(text)
        head = None if cut is None else self._known.recall(cut)
        if head is None:
            return self._parse(text, length, cut)
        if length is not None:
            self._remember(text, length, head)
        return self._begin_sized(head, 0 if length is None else int(length[1]), end)

    def _remember(self, text: bytes, length: re.Match[bytes], head: Head) -> None:
        memo = _Memo(text[: length.start(1)], text[length.end(1) :], head)
        self._memos = (memo, *self._memos[: _HEADS - 1])

    def _parse(self, text: bytes, length: re.Match[bytes] | None, cut: HeadCut | None) -> Head:
        end = len(text)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limit)
        try:
            connection.receive_data(text)
            event = connection.next_event()
        except h11.RemoteProtocolError as exc:
            raise BadRequest(exc.error_status_hint or 400, str(exc)) from None
        if type(event) is not h11.Request:
            raise BadRequest(400, "no request line")
        head = _head_of(event)
        names = {name for name, _ in head.headers}
        if b"transfer-encoding" in names and b"content-length" in names:
            # Two lengths for one body: RFC 9112 section 6.1 allows to refuse what smuggles.
            raise BadRequest(400, "both Transfer-Encoding and Content-Length")
        if connection.trailing_data[0]:
            sized = False
        elif length is None:
            sized = cut is not None and cut.length is None and _is_repeatable(event)
        else:
            sized = b"content-length" in names and len(_ANY_LENGTH.findall(text)) == 1
        if sized:
            if _is_repeatable(event):
                if length is not None:
                    self._remember(text, length, head)
                if cut is not None:
                    self._known.keep(cut, head)
            return self._begin_sized(head, 0 if length is None else int(length[1]), end)
        rest = self._buffer[end:]
        self._buffer = b""
        self._h11 = connection
        if rest:
            connection.receive_data(rest)
        if self._ended:
            connection.receive_data(b"")
        return head

    def _begin_sized(self, head: Head, length: int, end: int) -> Head:
        self._length = length
        self._body = [self._buffer[end:]]
        self._body_size = len(self._body[0])
        self._buffer = b""
        return head

    # ------------------------------------------------------------ bodies

    @property
    def body_length(self) -> int | None:
        """The declared size of the body; None where only its end will tell."""
        return self._length

    def read_body(self, limit: int) -> bytes | None:
        """Return the body of the request whose head was read, None while it is incomplete.

        Raises:
            BadRequest: it is over *limit* bytes (413), broken, or cut off.
        """
        if self._length is None:
            return self._read_events(limit)
        if self._length > limit:
            raise BadRequest(413, f"a body of {self._length} bytes; the limit is {limit}")
        if self._body_size < self._length:
            if self._ended:
                raise BadRequest(400, "the connection ended within a request")
            return None
        data = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        body, self._buffer = data[: self._length], data[self._length :]
        self._length = None
        self._body = []
        return body

    def _read_events(self, limit: int) -> bytes | None:
        connection = self._h11
        if connection is None:
            return b""
        try:
            while True:
                event = connection.next_event()
                if type(event) is h11.Data:
                    self._body.append(bytes(event.data))
                    self._body_size += len(event.data)
                    if self._body_size > limit:
                        raise BadRequest(413, f"the body is over {limit} bytes")
                elif type(event) is h11.EndOfMessage:
                    break
                else:  # NEED_DATA, PAUSED, ConnectionClosed
                    return None
        except h11.RemoteProtocolError as exc:
            raise BadRequest(exc.error_status_hint or 400, str(exc)) from None
        body = b"".join(self._body)
        self._body, self._body_size = [], 0
        self._buffer = connection.trailing_data[0]
        self._h11 = None
        return body


def _head_of(event: h11.Request) -> Head:
    headers = tuple((bytes(name), bytes(value)) for name, value in event.headers)
    modern = event.http_version == b"1.1"
    connection = {
        token.strip().lower()
        for name, value in headers
        if name == b"connection"
        for token in value.split(b",")
    }
    expect = any(n == b"expect" and v.lower() == b"100-continue" for n, v in headers)
    return Head(
        bytes(event.method),
        bytes(event.target),
        headers,
        keep_alive=modern and b"close" not in connection,
        wants_continue=modern and expect,
        chunks=modern,
    )


def _is_repeatable(event: h11.Request) -> bool:
    """Tell whether a head like this one, but for the digits of its length, parses the same."""
    return (
        event.method in (b"POST", b"GET", b"DELETE")
        and event.http_version == b"1.1"
        and not any(name in _NEVER_REPEATABLE for name, _ in event.headers)
        and all(
            value.lower() == b"keep-alive" for name, value in event.headers if name == b"connection"
        )
    )


# ---------------------------------------------------------------- responses

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Date:
    """The Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second = 0
        self._line = b""

    def line(self) -> bytes:
        now = int(time.time())
        if now != self._second:
            self._second = now
            self._line = b"date: " + formatdate(now, usegmt=True).encode("ascii") + b"\r\n"
        return self._line


_date: Final = _Date()


def response(
    status: int,
    headers: Iterable[tuple[bytes, bytes]] = (),
    body: bytes | None = b"",
    *,
    keep_alive: bool = True,
    chunked: bool = False,
) -> bytes:
    """Return a response's bytes; *body* None leaves its framing to *chunked* or the end."""
    lines = [b"HTTP/1.1 %d %s\r\n" % (status, _reason(status)), _date.line()]
    lines += [b"%b: %b\r\n" % header for header in headers]
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    if chunked:
        lines.append(b"transfer-encoding: chunked\r\n")
    if body is None:
        lines.append(b"\r\n")
    else:
        lines.append(b"content-length: %d\r\n\r\n" % len(body))
        lines.append(body)
    return b"".join(lines)


_JSON_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


def json_response(body: bytes) -> bytes:
    """Return the response that nearly every request gets: 200, JSON, nothing else to say."""
    return b"%b%bcontent-length: %d\r\n\r\n%b" % (_JSON_HEAD, _date.line(), len(body), body)


def json_head(size: int) -> bytes:
    """Return the head of that response, for a body that is better not copied."""
    return b"%b%bcontent-length: %d\r\n\r\n" % (_JSON_HEAD, _date.line(), size)


_STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\n" + b"".join(
    b"%b: %b\r\n" % header for header in SSE_HEADERS
)


def stream_head() -> bytes:
    """Return the head of the event stream that nearly every stream gets: chunked, 200."""
    return b"%b%btransfer-encoding: chunked\r\n\r\n" % (_STREAM_HEAD, _date.line())


def _reason(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode("ascii")
    except ValueError:
        return b"Unknown"


def chunk(data: bytes) -> bytes:
    """Return *data* as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk() -> bytes:
    """Return the end of a chunked body."""
    return b"0\r\n\r\n"
