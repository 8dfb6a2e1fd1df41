"""HTTP/1.1 on one client connection, between bytes and responses: h11 reads.

h11 is the only parser, and parses each distinct head once: a head that differs from the last
one on this connection only in the digits of its single Content-Length parses the same. The
conditions of `_is_repeatable` are what makes that sound; a differential test holds them.
Bodies of known length are cut here, all others are h11's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, final

import h11
from attrs import define, frozen

from mcp_trio.wire.http_head import Headers

if TYPE_CHECKING:
    from mcp_trio.wire.http_client_rules import HttpMethod

__all__ = ["BadResponse", "CutShort", "Head", "ResponseReader"]

_BLANK_LINE: Final = re.compile(rb"\n\r?\n")
_LENGTH: Final = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,12})\r\n")
_ANY_LENGTH: Final = re.compile(rb"content-length", re.IGNORECASE)
#: The bodies of these have an end of their own (RFC 9112 section 6.3).
_BODILESS: Final = frozenset({204, 304})


@final
class BadResponse(Exception):
    """The server's bytes are no response; the connection cannot be used any more."""


@final
class CutShort(Exception):
    """The connection ended before the response did.

    Attributes:
        begun: something of the response had arrived.
    """

    def __init__(self, *, begun: bool) -> None:
        super().__init__("the connection ended before the response did")
        self.begun: Final = begun


@final
@define(eq=False)
class Head:
    """The head of a response. One object serves all responses whose heads are alike.

    Attributes:
        keep_alive: the connection may carry another request after this response.
        reply: what the client concluded from this head.
    """

    status: int
    headers: Headers
    keep_alive: bool
    reply: Any = None


@final
@frozen
class _Memo:
    """The last head, cut at the digits of its Content-Length."""

    before: bytes
    after: bytes
    head: Head


class ResponseReader:
    """The incoming side of one connection: feed bytes, take heads and bodies in turn."""

    __slots__ = (
        "_begun",
        "_buffer",
        "_complete",
        "_ended",
        "_h11",
        "_keep_alive",
        "_left",
        "_limit",
        "_memo",
        "_method",
    )

    def __init__(self, header_bytes: int) -> None:
        self._limit = header_bytes
        self._buffer = b""
        self._ended = False
        self._memo: _Memo | None = None
        self._method: HttpMethod = "POST"
        self._begun = False  # an interim response has come
        self._h11: h11.Connection | None = None
        self._left = 0  # of a body of known length
        self._keep_alive = False
        self._complete = True

    def expect(self, method: HttpMethod) -> None:
        """A request of this *method* goes out: its response comes next."""
        self._method = method
        self._begun = False

    def receive(self, data: bytes) -> None:
        """Take bytes of the connection; ``b""`` is its end."""
        if not data:
            self._ended = True
        if self._h11 is not None:
            self._h11.receive_data(data)
        else:
            self._buffer = self._buffer + data if self._buffer else data

    # ------------------------------------------------------------ heads

    def read_head(self) -> Head | None:
        """Return the response's head, None while it is incomplete.

        Raises:
            BadResponse: h11 refuses it, or it is too large.
            CutShort: the connection ended instead.
        """
        while True:
            buffer = self._buffer
            blank = _BLANK_LINE.search(buffer, 0, self._limit)
            if blank is None:
                if len(buffer) >= self._limit:
                    raise BadResponse(f"the response's head is over {self._limit} bytes")
                if self._ended:
                    raise CutShort(begun=self._begun or bool(buffer))
                return None
            end = blank.end()
            length = _LENGTH.search(buffer, 0, end)
            memo = self._memo
            if (
                length is not None
                and memo is not None
                and buffer[: length.start(1)] == memo.before
                and buffer[length.end(1) : end] == memo.after
            ):
                return self._begin_sized(memo.head, int(length[1]), end)
            head = self._parse(end, length)
            if head is not None:
                return head

    def read_whole(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body, if *data* is one whole response to keep a connection after.

        Its head must be known, and nothing else may have been received; else nothing happens.
        """
        memo = self._memo
        blank = None if memo is None or self._buffer else _BLANK_LINE.search(data, 0, self._limit)
        if memo is None or blank is None:
            return None
        end = blank.end()
        length = _LENGTH.search(data, 0, end)
        if (
            length is not None
            and int(length[1]) == len(data) - end
            and memo.head.keep_alive
            and data[: length.start(1)] == memo.before
            and data[length.end(1) : end] == memo.after
        ):
            return memo.head, data[end:]
        return None

    def _parse(self, end: int, length: re.Match[bytes] | None) -> Head | None:
        """Let h11 read the head that ends at *end*; None for an interim response."""
        text = self._buffer[:end]
        connection = _awaiting(self._method, self._limit)
        try:
            connection.receive_data(text)
            event = connection.next_event()
        except h11.RemoteProtocolError as exc:
            raise BadResponse(str(exc)) from None
        if type(event) is h11.InformationalResponse:  # RFC 9110 section 15.2: skipped
            self._buffer = self._buffer[end:]
            self._begun = True
            return None
        if type(event) is not h11.Response:
            raise BadResponse("no status line")
        head = _head_of(event)
        if (
            length is not None
            and not connection.trailing_data[0]
            and len(_ANY_LENGTH.findall(text)) == 1
            and head.status not in _BODILESS
            and head.headers.get("transfer-encoding") is None
        ):
            if _is_repeatable(event, head, self._method):
                self._memo = _Memo(text[: length.start(1)], text[length.end(1) :], head)
            return self._begin_sized(head, int(length[1]), end)
        rest = self._buffer[end:]
        self._buffer = b""
        self._h11 = connection
        if rest:
            connection.receive_data(rest)
        if self._ended:
            connection.receive_data(b"")
        self._keep_alive = head.keep_alive
        self._complete = False
        return head

    def _begin_sized(self, head: Head, length: int, end: int) -> Head:
        self._left = length
        self._buffer = self._buffer[end:]
        self._keep_alive = head.keep_alive
        self._complete = False
        return head

    # ------------------------------------------------------------ bodies

    def read_body(self) -> tuple[bytes, bool]:
        """Return what has arrived of the body, and whether it is complete.

        Raises:
            BadResponse: it is malformed.
            CutShort: the connection ended within it.
        """
        if self._h11 is not None:
            return self._read_events(self._h11)
        data, self._buffer = self._buffer, b""
        if len(data) > self._left:
            data, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(data)
        if self._left and self._ended:
            raise CutShort(begun=True)
        self._complete = not self._left
        return data, self._complete

    def _read_events(self, connection: h11.Connection) -> tuple[bytes, bool]:
        parts: list[bytes] = []
        complete = False
        try:
            while not complete:
                event = connection.next_event()
                if type(event) is h11.Data:
                    parts.append(bytes(event.data))
                elif type(event) is h11.EndOfMessage:
                    complete = True
                else:  # NEED_DATA, PAUSED, ConnectionClosed
                    break
        except h11.RemoteProtocolError as exc:
            if self._ended:
                raise CutShort(begun=True) from None
            raise BadResponse(str(exc)) from None
        if complete:
            self._complete = True
            self._keep_alive = self._keep_alive and connection.our_state is h11.DONE
            self._buffer = connection.trailing_data[0]
            self._h11 = None
        return parts[0] if len(parts) == 1 else b"".join(parts), complete

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request: the response is read to its end."""
        return self._complete and self._keep_alive and not self._buffer and not self._ended


def _awaiting(method: HttpMethod, limit: int) -> h11.Connection:
    """Return an h11 connection that has sent a request and waits for the response."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=limit)
    connection.send(h11.Request(method=method, target="/", headers=_ANY_REQUEST))
    connection.send(h11.EndOfMessage())
    return connection


_ANY_REQUEST: Final = [("Host", "x")]


def _head_of(event: h11.Response) -> Head:
    headers = Headers.read((bytes(name), bytes(value)) for name, value in event.headers)
    options = {
        option.strip().lower() for value in headers.all("connection") for option in value.split(",")
    }
    keep_alive = event.http_version == b"1.1" and "close" not in options
    return Head(event.status_code, headers, keep_alive)


def _is_repeatable(event: h11.Response, head: Head, method: HttpMethod) -> bool:
    """Tell whether a head like this one, but for the digits of its length, parses the same."""
    return (
        method == "POST"
        and event.http_version == b"1.1"
        and head.status >= 200
        and head.headers.get("upgrade") is None
        and all(value.lower() == "keep-alive" for value in head.headers.all("connection"))
    )
