"""Server-sent events: messages to frames, and chunks of bytes to events.

The decoder follows the algorithm of the WHATWG HTML standard, § 9.2.6, with one difference
in what it hands out: ``data`` stays bytes. The standard decodes with replacement, which
would turn damaged JSON into valid JSON without a word; `mcp_trio.wire.jsonrpc.decode`
refuses it instead. Nothing but an overlong line or event can go wrong here.

Source: WHATWG HTML § 9.2; 2025-11-25 basic/transports § Streamable HTTP.
"""

from __future__ import annotations

import re
from typing import Final, final

from attrs import frozen

__all__ = [
    "KEEP_ALIVE",
    "Overlong",
    "SSEDecoder",
    "ServerSentEvent",
    "encode_comment",
    "encode_event",
    "encode_priming",
]


@final
@frozen
class ServerSentEvent:
    """One dispatched event.

    ``id`` is the stream's last event id at this event: the event's own or, where it has
    none, the latest before it; None where there is none or an empty ``id`` has reset it.
    """

    data: bytes
    event: str = "message"
    id: str | None = None


@final
@frozen
class Overlong:
    """A line or an event was longer than the *limit*; nothing of the stream is read after it."""

    limit: int


# ---------------------------------------------------------------- event -> bytes

_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")
_NOT_IN_A_FIELD: Final = re.compile("[\r\n\0]")

#: What is written on a silent stream, so that nobody on the way takes it for dead.
KEEP_ALIVE: Final = b": keep-alive\n\n"


def encode_event(
    data: bytes,
    *,
    event: str | None = "message",
    id: str | None = None,  # noqa: A002 - the field's name in the standard
    retry: int | None = None,
) -> bytes:
    """Write one event; several lines of *data* become several ``data:`` lines.

    Raises:
        ValueError: *event* or *id* has a CR, LF or NUL in it, or *retry* is negative.
    """
    head = b"" if event is None else b"event: %b\n" % _field("event", event)
    if id is not None:
        head += b"id: %b\n" % _field("id", id)
    if retry is not None:
        if retry < 0:
            raise ValueError(f"retry must not be negative, not {retry}")
        head += b"retry: %d\n" % retry
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_ENDS.split(data))
    return b"%bdata: %b\n\n" % (head, data)


def encode_priming(id: str, *, retry: int | None = None) -> bytes:  # noqa: A002 - as above
    """Write the event that only gives the client an id to resume from.

    "SHOULD immediately send an SSE event consisting of an event ID and an empty data field"
    (2025-11-25 basic/transports § Sending Messages to the Server 6).
    """
    return encode_event(b"", event=None, id=id, retry=retry)


def encode_comment(text: str) -> bytes:
    """Write a comment, which every reader ignores."""
    return b": %b\n\n" % _field("comment", text)


def _field(name: str, text: str) -> bytes:
    if _NOT_IN_A_FIELD.search(text):
        raise ValueError(f"{name} must have no CR, LF or NUL in it: {text!r}")
    return text.encode()


# ---------------------------------------------------------------- bytes -> events

_BOM: Final = b"\xef\xbb\xbf"
#: How nearly every event of MCP begins, which is worth a short way (see `_take_block`).
_USUAL: Final = re.compile(
    rb"(?:id: ([^\0\n]+)\n)?(?:event: message\n)?(?:id: ([^\0\n]+)\n)?data: "
)
_DATA_NAME: Final = len(b"data: ")
#: Digits of a ``retry`` that is believed; a longer one is ignored, since it is no time.
_RETRY_DIGITS: Final = 15


class _TooLong(Exception):
    """Never leaves this module."""


class SSEDecoder:
    """Makes events of a stream's bytes, however they are cut.

    *limit* bounds the data of one event, in bytes, and any line of the stream (with six
    more for the name of a ``data`` line). Where it is exceeded the last thing returned is
    an `Overlong`, and nothing more is.

    Attributes:
        last_event_id: what to send as ``Last-Event-ID`` to resume after the events so far.
        retry: milliseconds the server asks to wait before a reconnection, None if it does not.
    """

    __slots__ = (
        "_after_cr",
        "_data",
        "_event",
        "_head",
        "_id",
        "_limit",
        "_line",
        "_longest",
        "_open",
        "_overlong",
        "last_event_id",
        "retry",
    )

    def __init__(self, limit: int, *, last_event_id: str | None = None) -> None:
        self._limit = limit
        self._longest = limit + _DATA_NAME
        self._overlong = False
        self.last_event_id = last_event_id
        self.retry: int | None = None
        self.end()

    def end(self) -> None:
        """The stream has ended: forget the incomplete event, and be ready for the next stream.

        "Once the end of the file is reached, any pending data must be discarded" (§ 9.2.6);
        so must the id of an event that was cut. What was dispatched keeps its effect.
        """
        self._head: bytes | None = b""  # until it is known whether there is a BOM
        self._after_cr = False
        self._open = False  # a line or an event has begun
        self._line = bytearray()
        self._data: bytes | bytearray | None = None
        self._event = ""
        self._id = self.last_event_id

    def receive(self, data: bytes) -> list[ServerSentEvent | Overlong]:
        """Take the next bytes of the stream, return the events they complete."""
        events: list[ServerSentEvent | Overlong] = []
        if self._overlong:
            return events
        if self._head is not None:
            data = self._without_bom(self._head + data)
        if self._after_cr or b"\r" in data:
            data = self._with_lf_only(data)
        if data:
            try:
                self._read(data, events)
            except _TooLong:
                self._overlong = True
                events.append(Overlong(self._limit))
        return events

    def _without_bom(self, start: bytes) -> bytes:
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._head = start
            return b""
        self._head = None
        return start.removeprefix(_BOM)

    def _with_lf_only(self, data: bytes) -> bytes:
        """A CR ends its line at once; the LF that may follow it in the next chunk is dropped."""
        if not data:
            return data
        if self._after_cr:
            data = data.removeprefix(b"\n")
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read(self, data: bytes, events: list[ServerSentEvent | Overlong]) -> None:
        at = 0
        if self._open:
            at = self._finish_event(data, events)
            if at < 0:
                return
        blocks = data[at:].split(b"\n\n")
        rest = blocks.pop()
        for block in blocks:
            self._take_block(block, events)
        if rest:
            self._open = True
            *lines, last = rest.split(b"\n")
            for line in lines:
                self._take_line(line)
            self._begin_line(last)

    def _finish_event(self, data: bytes, events: list[ServerSentEvent | Overlong]) -> int:
        """Take lines up to the blank one; return where it ended, or -1 if it is not in *data*."""
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            line = data[at:end]
            if self._line:
                self._line += line
                line = bytes(self._line)
                self._line.clear()
            at = end + 1
            if not line:
                self._dispatch(events)
                return at
            self._take_line(line)
        self._begin_line(data[at:])
        return -1

    def _begin_line(self, piece: bytes) -> None:
        self._line += piece
        if len(self._line) > self._longest:
            raise _TooLong

    def _take_block(self, block: bytes, events: list[ServerSentEvent | Overlong]) -> None:
        """Take the lines of a whole event."""
        usual = _USUAL.match(block)
        if usual is not None and block.find(b"\n", usual.end()) < 0 and len(block) <= self._limit:
            if usual.lastindex is not None:
                self._id = self.last_event_id = usual[usual.lastindex].decode("utf-8", "replace")
            events.append(ServerSentEvent(block[usual.end() :], "message", self._id))
            return
        for line in block.split(b"\n"):
            self._take_line(line)
        self._dispatch(events)

    def _take_line(self, line: bytes) -> None:
        if len(line) > self._longest:
            raise _TooLong
        if line.startswith(b"data:"):  # before the others, and with one copy of the value
            self._add(line[_DATA_NAME:] if line.startswith(b"data: ") else line[5:])
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._add(value)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace") or None
        elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
            self.retry = int(value)

    def _add(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
        else:
            if isinstance(self._data, bytes):
                self._data = bytearray(self._data)
            self._data += b"\n"
            self._data += value
        if len(self._data) > self._limit:
            raise _TooLong

    def _dispatch(self, events: list[ServerSentEvent | Overlong]) -> None:
        """A blank line: without any ``data`` line only the id takes effect."""
        self.last_event_id = self._id
        if self._data is not None:
            events.append(ServerSentEvent(bytes(self._data), self._event or "message", self._id))
            self._data = None
        self._event = ""
        self._open = False
