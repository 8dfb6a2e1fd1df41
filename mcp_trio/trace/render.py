"""A recording as plain text: the layers it crossed as a table, and its messages as a sequence."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mcp_trio.wire.jsonrpc import Batch, Failure, Notification, Request, Result

from .calls import Call, Crossing, View, view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_trio.wire.jsonrpc import Message

    from .record import Entry, Recording

__all__ = ["WIDTH", "layer_table", "sequence_diagram"]

WIDTH: Final = 100

_CANCELLED: Final = "notifications/cancelled"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


# ---------------------------------------------------------------- the layers

#: Where the two sides are, by the transport of the side that was recorded.
_PLACES: Final = {
    "ChildTransport": "the client is this process, the server is its child",
    "ServerTransport": "the server is this process, the client is its parent",
}


def layer_table(recording: Recording, *, width: int = WIDTH) -> str:
    """Return how the session nests, from the host process down to the JSON-RPC messages.

    Computed from what crossed the wire at the side that was recorded; where both were, at the
    client's.
    """
    seen = view(recording)
    entries = recording.seen_by(seen.side)
    opened = _first(entries, "session.opened")
    transport = None if opened is None else opened.fields.get("transport")
    rows = [
        _host_row(recording, transport),
        _session_row(seen, entries),
        ("call", str(len(seen.calls)), _calls_text(seen)),
        ("HTTP request", "-", "a pipe is one stream in each direction, it has no requests"),
        _line_row(seen, entries, transport),
        ("JSON-RPC message", str(len(seen.crossings)), _messages_text(seen)),
    ]
    if recording.dropped:
        rows.append(("(not recorded)", str(recording.dropped), "events after the last one shown"))
    return _table(("layer", "count", "what"), rows, width)


def _table(head: tuple[str, str, str], rows: list[tuple[str, str, str]], width: int) -> str:
    first = max(len(row[0]) for row in [head, *rows])
    second = max(len(row[1]) for row in [head, *rows])
    rest = width - first - second - 4
    lines = [
        f"{head[0]:<{first}}  {head[1]:>{second}}  {head[2]}",
        f"{'─' * first}  {'─' * second}  {'─' * rest}",
    ]
    for name, count, text in rows:
        for part in textwrap.wrap(text, rest) or [""]:
            lines.append(f"{name:<{first}}  {count:>{second}}  {part}")
            name = count = ""  # noqa: PLW2901 - said once, on the first line of the row
    return "\n".join(lines)


def _first(entries: Iterable[Entry], name: str) -> Entry | None:
    return next((entry for entry in entries if entry.name == name), None)


def _host_row(recording: Recording, transport: str | None) -> tuple[str, str, str]:
    if len(recording.sides) > 1:
        return "host process", "1", "both sides are in one process"
    side = "".join(recording.sides) or "client"
    where = _PLACES.get(transport or "", f"the {side} is this process, its peer is elsewhere")
    return "host process", "1", where


def _session_row(seen: View, entries: tuple[Entry, ...]) -> tuple[str, str, str]:
    start, end = _first(entries, "session.opened"), _first(entries, "session.closed")
    answer = next((c.answer for c in seen.calls if c.request.method == "initialize"), None)
    parts = ["not initialized"]
    if isinstance(answer, Result):
        parts = [f"{_introduction(answer.result)}"]
    if start is not None:
        until = end or entries[-1]
        parts.append(f"open for {(until.time - start.time) * 1000:.0f} ms")
    if end is not None:
        parts.append(f"ended: {end.fields.get('reason')}")
    return "MCP session", "1", ", ".join(parts)


def _calls_text(seen: View) -> str:
    forward = [call for call in seen.calls if call.origin is None]
    reverse = [call for call in seen.calls if call.origin is not None]
    groups = [f"{len(forward)} forward ({_ids(forward)})"]
    if reverse:
        groups.append(f"{len(reverse)} reverse, inside of others ({_ids(reverse)})")
    answered = sum(call.answer is not None for call in seen.calls)
    cancelled = sum(call.answer is None and bool(call.cancels) for call in seen.calls)
    left = len(seen.calls) - answered - cancelled
    ends = f"{answered} answered, {cancelled} cancelled" + (f", {left} open" if left else "")
    return "; ".join([*groups, ends])


def _ids(calls: list[Call]) -> str:
    return " ".join(f"#{call.id}" for call in calls) or "none"


def _line_row(
    seen: View, entries: tuple[Entry, ...], transport: str | None
) -> tuple[str, str, str]:
    if transport == "MemoryTransport":
        return "line", "-", "messages crossed as objects, nothing was encoded"
    if any(isinstance(entry.fields.get("message"), Batch) for entry in entries):
        return "line", "-", "batches put several messages on one line, lines were not counted"
    sent = sum(crossing.sender == "client" for crossing in seen.crossings)
    got = len(seen.crossings) - sent
    noise = sum(entry.name == "line.skipped" for entry in entries)
    text = f"{sent} to the server, {got} to the client; one message on each"
    if noise:
        text += f"; {_plural(noise, 'line')} more on the server's stdout, no JSON-RPC: skipped"
    return "line", str(len(seen.crossings) + noise), text


def _messages_text(seen: View) -> str:
    kinds = [type(crossing.message) for crossing in seen.crossings]
    answers = kinds.count(Result) + kinds.count(Failure)
    return ", ".join(
        (
            _plural(kinds.count(Request), "request"),
            _plural(answers, "answer"),
            _plural(kinds.count(Notification), "notification"),
        )
    )


# ---------------------------------------------------------------- the sequence

#: What a line spends on the time and on the two lanes.
_TIME: Final = 8
_INDENT: Final = 4


def sequence_diagram(recording: Recording, *, width: int = WIDTH) -> str:
    """Return the messages in order, the client's lane at the left and the server's at the right.

    A reverse call stands indented under the forward call it came from, and names it. A
    cancellation is a broken line. Times are milliseconds since the first message.
    """
    seen = view(recording)
    inner = width - _TIME - 3
    blank = " " * (_TIME + 1)
    lines = [
        f"{'ms':>{_TIME}} client{'server':>{inner - 4}}",
        f"{blank}┬{' ' * inner}┬",
    ]
    start = seen.crossings[0].time if seen.crossings else 0.0
    for crossing in seen.crossings:
        time = f"{(crossing.time - start) * 1000:>{_TIME}.0f}"
        lines.append(f"{time} │{_arrow(crossing, inner)}│")
    lines.append(f"{blank}┴{' ' * inner}┴")
    return "\n".join(lines)


def _arrow(crossing: Crossing, inner: int) -> str:
    message, call = crossing.message, crossing.call
    indent = min(_INDENT * (0 if call is None else call.depth), inner // 2)
    dash = "╌" if _is_cancellation(message) else "─"
    label = _clip(_label(message, call), inner - indent - 8)
    line = f" {label} ".ljust(inner - indent - 5, dash)
    if crossing.sender == "client":
        return f"{' ' * indent}{dash * 3}{line}{dash}▶"
    return f"{' ' * indent}◀{dash * 3}{line}{dash}"


def _is_cancellation(message: Message) -> bool:
    return isinstance(message, Notification) and message.method == _CANCELLED


def _label(message: Message, call: Call | None) -> str:
    if isinstance(message, Request):
        text = f"{message.method} #{message.id}"
        if call is not None and call.origin is not None:
            text += f" caused by #{call.origin.id}"
        return f"{text} {_request_brief(message)}"
    if isinstance(message, Notification):
        return _notification_label(message, call)
    if isinstance(message, Failure):
        return f"error #{message.id}: {message.message} ({message.code})"
    method = "" if call is None else call.request.method
    return f"result #{message.id}: {_result_brief(method, message.result)}"


def _notification_label(message: Notification, call: Call | None) -> str:
    name, params = message.method.removeprefix("notifications/"), message.params or {}
    if message.method == _CANCELLED:
        return f"cancelled #{params.get('requestId')}: {params.get('reason', '')}"
    if name == "progress":
        id_ = params.get("progressToken") if call is None else call.id
        total = f"/{params['total']:g}" if _is_number(params.get("total")) else ""
        done = f"{params['progress']:g}" if _is_number(params.get("progress")) else "?"
        return f"progress #{id_}: {done}{total} {params.get('message', '')}"
    if name == "message":
        return f"message {params.get('level')}: {_json(params.get('data'))}"
    return message.method if not params else f"{message.method} {_json(params)}"


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _request_brief(message: Request) -> str:
    params = {key: value for key, value in (message.params or {}).items() if key != "_meta"}
    if message.method == "initialize":
        name = _get(params, "clientInfo", "name")
        return f"{name}, {params.get('protocolVersion')}"
    if message.method == "tools/call":
        return f"{params.get('name')} {_json(params.get('arguments', {}))}"
    if message.method == "elicitation/create":
        return f'"{params.get("message")}"'
    return _json(params) if params else ""


def _result_brief(method: str, result: Any) -> str:
    if method == "initialize":
        return _introduction(result)
    if method == "tools/call":
        content = _get(result, "content")
        blocks = content if isinstance(content, list) else []
        texts = [f'"{text}"' for block in blocks if (text := _get(block, "text")) is not None]
        failed = "the tool failed: " if _get(result, "isError") is True else ""
        return failed + " ".join(texts)
    if isinstance(result, dict) and method.endswith("/list"):
        lists = {key: value for key, value in result.items() if isinstance(value, list)}
        return ", ".join(f"{len(value)} {key}" for key, value in lists.items())
    return _json(result)


def _introduction(result: Any) -> str:
    name, version = _get(result, "serverInfo", "name"), _get(result, "serverInfo", "version")
    return f"{name} {version}, revision {_get(result, 'protocolVersion')}"


def _get(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8", "replace")


def _clip(text: str, width: int) -> str:
    """Return *text* on one line of at most *width* characters, without control characters."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= width else plain[: width - 1] + "…"
