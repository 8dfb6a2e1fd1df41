"""JSON-RPC 2.0 as MCP uses it: bytes to messages and back, one line per message.

``decode`` never raises: what is no message becomes a `Malformed` that says what is
wrong, whose id it carries and whether its sender may be told. ``encode`` raises
`Unencodable` and nothing else. Ids are kept exactly as sent: ``7`` is not ``"7"``.

Source: JSON-RPC 2.0; every revision, basic § Messages; 2025-11-25 basic/transports § stdio.
"""

from __future__ import annotations

import json
import math
import re
from enum import Enum
from typing import Any, Final, TypeAlias, final

import msgspec
from attrs import define, frozen, setters

from mcp_trio.errors import ErrorCode

__all__ = [
    "Batch",
    "Discarded",
    "Failure",
    "Flaw",
    "LineFramer",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "Result",
    "Unencodable",
    "classify",
    "decode",
    "encode",
    "encode_batch",
    "find_unencodable",
]

RequestId: TypeAlias = int | str
JsonObject: TypeAlias = dict[str, Any]


# ``define`` with this hook is ``frozen`` with an ``__init__`` twice as fast; two of these
# classes are made for every call.


@final
@define(on_setattr=setters.frozen)
class Request:
    """A call that wants an answer. ``params`` is None where the member was absent."""

    id: RequestId
    method: str
    params: JsonObject | None = None


@final
@define(on_setattr=setters.frozen)
class Notification:
    """A message that is never answered."""

    method: str
    params: JsonObject | None = None


@final
@define(on_setattr=setters.frozen)
class Result:
    """The good answer to a request."""

    id: RequestId
    result: Any


@final
@frozen
class Failure:
    """The error answer to a request; ``id`` is None where the request's id was unreadable.

    Such an answer says ``"id": null`` (JSON-RPC 2.0 section 5), or with *omit_id* nothing
    (2025-11-25 schema, ``JSONRPCErrorResponse.id`` is optional and never null).
    """

    id: RequestId | None
    code: int
    message: str
    data: Any = None
    omit_id: bool = False


@final
class Flaw(Enum):
    """What a malformed message looks like, which decides who may be told of it."""

    UNPARSABLE = "not JSON, or no JSON-RPC message at all"
    REQUEST = "a request"
    NOTIFICATION = "a notification, never answered"
    ANSWER = "an answer, never answered"


@final
@frozen
class Malformed:
    """Input that is no valid message.

    ``id`` is the id it carries where one can be read, ``code`` and ``reason`` are the
    JSON-RPC error to tell its sender, if `flaw` allows telling.
    """

    flaw: Flaw
    code: int
    reason: str
    id: RequestId | None = None


@final
@frozen
class Batch:
    """An array of messages, still to be classified one by one (2025-03-26 only)."""

    members: list[Any]


Message: TypeAlias = Request | Notification | Result | Failure


class Unencodable(ValueError):
    """A message cannot be written as JSON; ``path`` names the value that is in the way."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


# ---------------------------------------------------------------- bytes -> message

_loads: Final = msgspec.json.Decoder().decode
_BOM: Final = b"\xef\xbb\xbf"
_LONE_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NO_ID: Final = "an id must be a string or an integer, not {}"
_NOT_A_NUMBER: Final = re.compile(r"\b(NaN|Infinity)\b")


def decode(data: bytes, *, depth: int) -> Message | Batch | Malformed:
    """Turn one message's bytes into a message; *depth* bounds the nesting of its JSON."""
    if data.startswith(_BOM):
        data = data[3:]  # tolerated at the start of a line: our stated choice
    try:
        raw = _loads(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _explain(data, depth)
    if _has_more_brackets(data, depth) and _deeper_than(raw, depth):
        return _invalid(_flaw_of(raw), f"nested deeper than {depth} levels", _readable_id(raw))
    return classify(raw)


def classify(raw: object) -> Message | Batch | Malformed:
    """Turn one decoded JSON value into a message."""
    if type(raw) is not dict:
        if type(raw) is list:
            if raw:
                return Batch(raw)
            return _invalid(Flaw.UNPARSABLE, "an empty batch")
        return _invalid(Flaw.UNPARSABLE, f"a message is an object, not {_kind(raw)}")
    method = raw.get("method")
    if raw.get("jsonrpc") != "2.0":
        return _invalid(_flaw_of(raw), 'the member "jsonrpc" must be "2.0"', _readable_id(raw))
    if method is None and "method" not in raw:
        return _classify_answer(raw)
    if type(method) is not str:
        return _invalid(
            _flaw_of(raw), f"the method must be a string, not {_kind(method)}", _readable_id(raw)
        )
    if "result" in raw or "error" in raw:
        return _invalid(
            _flaw_of(raw), "a message is a request or an answer, not both", _readable_id(raw)
        )
    # "params": null is read as absent; JSON-RPC wants a structured value or none, and
    # serialisers of several languages write null for none.
    params = raw.get("params")
    if "id" in raw:
        id_ = raw["id"]
        if type(id_) is not int and type(id_) is not str:
            return _invalid(Flaw.REQUEST, _NO_ID.format(_kind(id_)))
        if params is not None and type(params) is not dict:
            return Malformed(
                Flaw.REQUEST,
                ErrorCode.INVALID_PARAMS,
                f"params must be an object, not {_kind(params)}",
                id_,
            )
        return Request(id_, method, params)
    if params is not None and type(params) is not dict:
        return _invalid(Flaw.NOTIFICATION, f"params must be an object, not {_kind(params)}")
    return Notification(method, params)


def _classify_answer(raw: JsonObject) -> Result | Failure | Malformed:
    has_result, has_error = "result" in raw, "error" in raw
    if "id" not in raw and not has_error:
        return _invalid(_flaw_of(raw), "neither a method nor an id")
    id_ = _readable_id(raw)
    if not has_result and not has_error:
        return _invalid(Flaw.REQUEST, "neither a method nor a result nor an error", id_)
    if has_result and has_error:
        return _invalid(Flaw.ANSWER, "an answer has a result or an error, not both", id_)
    if has_error:
        return _classify_failure(raw, id_)
    if id_ is None:
        return _invalid(Flaw.ANSWER, _NO_ID.format(_kind(raw["id"])))
    result = raw["result"]
    if type(result) is not dict:
        return _invalid(Flaw.ANSWER, f"a result must be an object, not {_kind(result)}", id_)
    return Result(id_, result)


def _classify_failure(raw: JsonObject, id_: RequestId | None) -> Failure | Malformed:
    """An error whose id is null or absent is tolerated: nobody waits for it, it is counted."""
    if id_ is None and raw.get("id") is not None:
        return _invalid(Flaw.ANSWER, _NO_ID.format(_kind(raw["id"])))
    error = raw["error"]
    if type(error) is not dict:
        return _invalid(Flaw.ANSWER, f"an error must be an object, not {_kind(error)}", id_)
    code, message = error.get("code"), error.get("message")
    if type(code) is not int:
        return _invalid(Flaw.ANSWER, f"error.code must be an integer, not {_kind(code)}", id_)
    if type(message) is not str:
        return _invalid(Flaw.ANSWER, f"error.message must be a string, not {_kind(message)}", id_)
    return Failure(id_, code, message, error.get("data"), omit_id="id" not in raw)


def _invalid(flaw: Flaw, reason: str, id_: RequestId | None = None) -> Malformed:
    return Malformed(flaw, ErrorCode.INVALID_REQUEST, reason, id_)


def _flaw_of(raw: object) -> Flaw:
    if type(raw) is not dict:
        return Flaw.UNPARSABLE
    if "method" in raw:
        return Flaw.REQUEST if "id" in raw else Flaw.NOTIFICATION
    if "result" in raw or "error" in raw:
        return Flaw.ANSWER
    return Flaw.UNPARSABLE


def _readable_id(raw: object) -> RequestId | None:
    if type(raw) is dict:
        id_ = raw.get("id")
        if type(id_) is int or type(id_) is str:
            return id_
    return None


_KINDS: Final[dict[type, str]] = {
    bool: "a boolean",
    int: "an integer",
    float: "a fraction",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS[type(value)]


def _explain(data: bytes, depth: int) -> Malformed:
    """Say why msgspec refused *data*; the standard library reads the id of what it can."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as exc:
        return Malformed(
            Flaw.UNPARSABLE, ErrorCode.PARSE_ERROR, f"invalid UTF-8 at byte {exc.start}"
        )
    try:
        raw = json.loads(text)
    except RecursionError:
        return Malformed(
            Flaw.UNPARSABLE, ErrorCode.PARSE_ERROR, f"nested deeper than {depth} levels"
        )
    except json.JSONDecodeError as exc:
        return Malformed(
            Flaw.UNPARSABLE,
            ErrorCode.PARSE_ERROR,
            f"invalid JSON: {exc.msg} at character {exc.pos}",
        )
    except ValueError:  # an integer with more digits than Python converts
        return Malformed(Flaw.UNPARSABLE, ErrorCode.PARSE_ERROR, "a number with too many digits")
    id_ = _readable_id(raw)
    if type(id_) is str and _LONE_SURROGATE.search(id_):
        id_ = None  # it could not be sent back
    flaw = _flaw_of(raw)
    if flaw is Flaw.NOTIFICATION:
        flaw = Flaw.UNPARSABLE  # a parse error is told even where the text has no id
    return Malformed(flaw, ErrorCode.PARSE_ERROR, _forbidden_in(raw, text), id_)


def _forbidden_in(raw: object, text: str) -> str:
    """Name what the standard library accepts and JSON does not."""
    found = find_unencodable(raw)
    if found is not None:
        return f"{found[0]}: {found[1]}"
    if _NOT_A_NUMBER.search(text):
        return "NaN and Infinity are not JSON"
    return "invalid JSON"


#: From here on one pass over a message costs more than looking into it (bytes).
_LARGE: Final = 16_384


def _has_more_brackets(data: bytes, limit: int) -> bool:
    """Tell whether *data* opens more than *limit* arrays and objects, so that it may nest deeper.

    ``find`` is a memchr, twenty times as fast as ``count`` over a long text without brackets.
    """
    if len(data) < _LARGE:
        return data.count(b"[") + data.count(b"{") > limit
    left = limit
    for bracket in (b"[", b"{"):
        at = data.find(bracket)
        while at >= 0:
            if left == 0:
                return True
            left -= 1
            at = data.find(bracket, at + 1)
    return False


def _deeper_than(raw: object, limit: int) -> bool:
    """Tell whether arrays and objects nest deeper than *limit*, without recursion."""
    level: list[Any] = [raw] if type(raw) is dict or type(raw) is list else []
    for _ in range(limit):
        if not level:
            return False
        below: list[Any] = []
        for value in level:
            children = value.values() if type(value) is dict else value
            below += [x for x in children if type(x) is dict or type(x) is list]
        level = below
    return bool(level)


# ---------------------------------------------------------------- message -> bytes

_dumps: Final = msgspec.json.Encoder().encode


def encode(message: Message) -> bytes:
    """Write *message* as one JSON text without a line feed in it.

    Raises:
        Unencodable: it holds NaN, an infinity, a lone surrogate or no JSON value at all.
            A value of NaN would otherwise leave as ``null``, without a word.
    """
    return _encode_raw(_as_raw(message))


def encode_batch(messages: list[Result | Failure]) -> bytes:
    """Write the answers to one batch as one array (2025-03-26 basic § Batching)."""
    return _encode_raw([_as_raw(message) for message in messages])


def _as_raw(message: Message) -> JsonObject:
    kind = type(message)
    if kind is Result:
        return {"jsonrpc": "2.0", "id": message.id, "result": message.result}  # type: ignore[union-attr]  # the exact class was tested
    if kind is Notification:
        if message.params is None:  # type: ignore[union-attr]  # the exact class was tested
            return {"jsonrpc": "2.0", "method": message.method}  # type: ignore[union-attr]  # as above
        return {"jsonrpc": "2.0", "method": message.method, "params": message.params}  # type: ignore[union-attr]  # as above
    if kind is Request:
        raw = {"jsonrpc": "2.0", "id": message.id, "method": message.method}  # type: ignore[union-attr]  # as above
        if message.params is not None:  # type: ignore[union-attr]  # as above
            raw["params"] = message.params  # type: ignore[union-attr]  # as above
        return raw
    return _failure_as_raw(message)  # type: ignore[arg-type]  # the only class left


def _failure_as_raw(failure: Failure) -> JsonObject:
    error: JsonObject = {"code": int(failure.code), "message": failure.message}
    if failure.data is not None:
        error["data"] = failure.data
    if failure.id is None and failure.omit_id:
        return {"jsonrpc": "2.0", "error": error}
    return {"jsonrpc": "2.0", "id": failure.id, "error": error}


def _encode_raw(raw: object) -> bytes:
    try:
        data = _dumps(raw)
    except RecursionError:
        raise Unencodable("$", "nested too deeply, or contains itself") from None
    except (TypeError, ValueError, OverflowError) as exc:
        path, reason = find_unencodable(raw, most=_MOST_AFTER_A_FAULT) or ("$", str(exc))
        raise Unencodable(path, reason) from None
    if len(data) >= _LARGE and _is_plain(raw, most=_LARGE >> 6):
        return data  # few large values: looking at them is faster than searching the text
    if b"null" in data and not _is_plain(raw):  # the only trace a non-finite number leaves
        found = find_unencodable(raw)
        if found is not None:
            raise Unencodable(*found)
    return data


def _is_plain(raw: object, *, most: int | None = None) -> bool:
    """Tell whether *raw*, which has been encoded, is builtins and finite numbers throughout.

    Five times as fast as `find_unencodable`, which then need not look. Where there are more
    than *most* values in a row to look at, the answer is no.
    """
    stack: list[Any] = [raw]
    while stack:
        if most is not None and len(stack) > most:
            return False
        value = stack.pop()
        kind = type(value)
        if kind is dict:
            stack.extend(value.values())
        elif kind is list or kind is tuple:
            stack.extend(value)
        elif kind is float:
            if not math.isfinite(value):
                return False
        elif kind is not str and kind is not int and kind is not bool and value is not None:
            return False
    return True


# What has been encoded is a finite tree; what failed to be may contain itself.
_MOST_AFTER_A_FAULT: Final = 1_000


def find_unencodable(raw: object, *, most: int | None = None) -> tuple[str, str] | None:
    """Return path and fault of a value in *raw* that must not be sent, or None.

    At most *most* values are looked at, if it is given.
    """
    stack: list[tuple[str, Any]] = [("$", raw)]
    seen = 0
    while stack and (most is None or seen < most):
        path, value = stack.pop()
        seen += 1
        if isinstance(value, str):
            if _LONE_SURROGATE.search(value):
                return path, "a lone surrogate is no text"
        elif isinstance(value, float):
            if not math.isfinite(value):
                return path, f"{value} is no JSON number"
        elif isinstance(value, dict):
            for key, item in value.items():
                fault = _key_fault(key)
                if fault is not None:
                    return path, fault
                stack.append((f"{path}.{key}", item))
        elif isinstance(value, list | tuple):
            stack += [(f"{path}[{i}]", item) for i, item in enumerate(value)]
        elif value is not None and not isinstance(value, int):
            try:  # what msgspec writes by itself: attrs classes, sets, dates ...
                stack.append((path, msgspec.to_builtins(value)))
            except (TypeError, ValueError, RecursionError) as exc:
                return path, str(exc)
    return None


def _key_fault(key: object) -> str | None:
    if isinstance(key, str):
        return "a lone surrogate is no text" if _LONE_SURROGATE.search(key) else None
    try:
        _dumps({key: None})
    except (TypeError, ValueError) as exc:
        return str(exc)
    return None


# ---------------------------------------------------------------- lines


@final
@frozen
class Discarded:
    """A line longer than the limit was thrown away; ``size`` is what was seen of it."""

    size: int


class LineFramer:
    """Cut a byte stream into lines, at LF only, within bounds.

    U+2028, U+2029 and NEL are data. A CR before the LF and empty lines are dropped. A line
    over *limit* bytes (its CR counts) is discarded up to its LF and reported as one
    `Discarded`; with a line over *discard* bytes `overflowed` turns true, the stream is
    beyond help and nothing more comes out of it.
    Source: 2025-11-25 basic/transports § stdio; the tolerance of CR is our stated choice.
    """

    __slots__ = ("_discard", "_limit", "_parts", "_size", "_small", "overflowed")

    def __init__(self, limit: int, discard: int) -> None:
        self._limit = limit
        self._discard = discard
        # What is kept of the unfinished line: large pieces as they came, which are copied
        # once, and then small ones together, which would cost too much room one by one.
        self._parts: list[bytes] = []
        self._small = bytearray()
        self._size = 0  # how long that line is so far
        self.overflowed = False

    @property
    def midway(self) -> bool:
        """True in the middle of a line."""
        return self._size > 0

    def receive(self, data: bytes) -> list[bytes | Discarded]:
        """Take the next bytes of the stream, return the lines they complete."""
        lines: list[bytes | Discarded] = []
        if self.overflowed:
            return lines
        if b"\n" not in data:
            self._keep(data)
            return lines
        pieces = data.split(b"\n")
        tail = pieces.pop()
        for piece in pieces:
            line = self._finish(piece)
            if self.overflowed:
                return lines
            if line:
                lines.append(line)
        if tail:
            self._keep(tail)
        return lines

    def end(self) -> list[bytes | Discarded]:
        """The stream has ended: return the unterminated last line, if there is one."""
        return self.receive(b"\n")

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._parts.clear()
            self._small.clear()
            self.overflowed = self._size > self._discard
        elif len(piece) < _SMALL:
            self._small += piece
        else:
            self._gather()
            self._parts.append(piece)

    def _gather(self) -> None:
        if self._small:
            self._parts.append(bytes(self._small))
            self._small.clear()

    def _finish(self, piece: bytes) -> bytes | Discarded:
        line = piece
        if self._size or len(piece) > self._limit:
            self._keep(piece)
            self._gather()
            size, line = self._size, b"".join(self._parts)
            self._size = 0
            self._parts.clear()
            if size > self._limit:
                return Discarded(size)
        return line[:-1] if line.endswith(b"\r") else line


#: Pieces of a line below this size are kept together (bytes).
_SMALL: Final = 4_096
