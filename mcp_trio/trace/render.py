"""A recording as plain text: the layers it crossed as a table, and its messages as a sequence."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from mcp_trio.wire.jsonrpc import Batch, Failure, Notification, Request, Result

from .calls import Call, Crossing, View, view
from .http import http_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_trio.wire.jsonrpc import Message

    from .http import Exchange, HttpView, Row
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
    http = http_view(seen, entries)
    rows = [
        _host_row(recording, transport),
        _session_row(seen, entries, http),
        ("call", str(len(seen.calls)), _calls_text(seen)),
    ]
    if http is None:
        nothing = "a pipe is one stream in each direction, it has no requests"
        rows += [("HTTP request", "-", nothing), _line_row(seen, entries, transport)]
    else:
        rows += [_request_row(http), _event_row(http)]
    rows.append(("JSON-RPC message", str(len(seen.crossings)), _messages_text(seen, http)))
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


def _session_row(
    seen: View, entries: tuple[Entry, ...], http: HttpView | None
) -> tuple[str, str, str]:
    start, end = _first(entries, "session.opened"), _first(entries, "session.closed")
    openings = [call.answer for call in seen.calls if call.request.method == "initialize"]
    parts = [_introduction(each.result) for each in openings if isinstance(each, Result)][:1]
    parts = parts or ["not initialized"]
    if http is not None:
        parts.append("no session id" if http.issued is None else f"id {http.issued}…")
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
    cancelled = sum(call.cancelled for call in seen.calls)
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


def _request_row(http: HttpView) -> tuple[str, str, str]:
    methods = {exchange.method: 0 for exchange in http.exchanges}
    parts = []
    for method in methods:
        of_it = [exchange for exchange in http.exchanges if exchange.method == method]
        parts.append(f"{len(of_it)} {method} ({_numbers(of_it)})")
    text = ", ".join(parts)
    with_id = [exchange for exchange in http.exchanges if exchange.session_id is not None]
    if with_id:
        text += f"; the session id is on {_numbers(with_id)}"
    refused = [exchange for exchange in http.exchanges if (exchange.status or 0) >= 400]
    if refused:
        text += f"; refused: {', '.join(f'{each.number} ({each.status})' for each in refused)}"
    text += f"; at most {http.most_open} open at once"
    still = [exchange for exchange in http.exchanges if not exchange.ended]
    if still:
        text += f"; still open: {_numbers(still)}"
    return "HTTP request", str(len(http.exchanges)), text


def _event_row(http: HttpView) -> tuple[str, str, str]:
    streams = [exchange for exchange in http.exchanges if exchange.events]
    count = sum(len(exchange.events) for exchange in streams)
    parts = []
    for exchange in streams:
        counters = [event.counter for event in exchange.events]
        if all(event.id is None for event in exchange.events):
            parts.append(f"{exchange.name}: {len(counters)} without an id")
        else:
            parts.append(f"{exchange.name}: {_runs(counters)}")
    text = "; ".join(parts) + ("; each stream counts by itself" if len(parts) > 1 else "")
    return "SSE event", str(count), text or "every answer came as JSON"


def _numbers(exchanges: list[Exchange]) -> str:
    return _runs([str(exchange.number) for exchange in exchanges])


def _runs(numbers: list[str]) -> str:
    """Write numbers in a row, of more than three that follow each other the ends only."""
    runs: list[list[str]] = []
    for number in numbers:
        last = runs[-1][-1] if runs else ""
        if last.isdecimal() and number.isdecimal() and int(number) == int(last) + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 3 else ", ".join(run) for run in runs)


def _messages_text(seen: View, http: HttpView | None) -> str:
    kinds = [type(crossing.message) for crossing in seen.crossings]
    answers = kinds.count(Result) + kinds.count(Failure)
    text = ", ".join(
        (
            _plural(kinds.count(Request), "request"),
            _plural(answers, "answer"),
            _plural(kinds.count(Notification), "notification"),
        )
    )
    if http is None:
        return text
    rows = [row for row in http.rows if row.crossing is not None]
    events = sum(row.event is not None for row in rows)
    bodies = sum(row.event is None and row.up for row in rows)
    json = len(rows) - events - bodies
    return f"{text}; {bodies} in bodies of requests, {json} as JSON, {events} in events"


# ---------------------------------------------------------------- the sequence

#: What a line spends on the time and on the two lanes.
_TIME: Final = 8
_INDENT: Final = 4
#: What the columns of HTTP take: a request, and an event of its stream.
_REQUEST: Final = 8
_EVENT: Final = 6


def sequence_diagram(recording: Recording, *, width: int = WIDTH) -> str:
    """Return the messages in order, the client's lane at the left and the server's at the right.

    A reverse call stands indented under the forward call it came from, and names it. A
    cancellation is a broken line. Times are milliseconds since the first message. Over HTTP
    each message says which request carried it and, in an event, the event's number in its
    stream; a dotted line is HTTP without a message.
    """
    seen = view(recording)
    http = http_view(seen, recording.seen_by(seen.side))
    if http is None:
        return _draw([(c.time, "", _arrow_of(c)) for c in seen.crossings], "", width)
    rows = [(row.time, _carrier(row), _arrow_of_row(row)) for row in http.rows]
    return _draw(rows, f" {'on':<{_REQUEST}} {'event':>{_EVENT}}", width)


#: A line of the picture: its indent, its dash, what it says, and whether it goes to the server.
_Arrow: TypeAlias = "tuple[int, str, str, bool]"


def _draw(rows: list[tuple[float, str, _Arrow]], head: str, width: int) -> str:
    inner = width - _TIME - len(head) - 3
    blank = " " * (_TIME + len(head) + 1)
    lines = [
        f"{'ms':>{_TIME}}{head} client{'server':>{inner - 4}}",
        f"{blank}┬{' ' * inner}┬",
    ]
    start = rows[0][0] if rows else 0.0
    for time, carrier, arrow in rows:
        ms = f"{(time - start) * 1000:>{_TIME}.0f}"
        lines.append(f"{ms}{carrier} │{_draw_arrow(arrow, inner)}│")
    lines.append(f"{blank}┴{' ' * inner}┴")
    return "\n".join(lines)


def _draw_arrow(arrow: _Arrow, inner: int) -> str:
    depth, dash, text, up = arrow
    indent = min(_INDENT * depth, inner // 2)
    label = _clip(text, inner - indent - 8)
    line = f" {label} ".ljust(inner - indent - 5, dash)
    if up:
        return f"{' ' * indent}{dash * 3}{line}{dash}▶"
    return f"{' ' * indent}◀{dash * 3}{line}{dash}"


def _arrow_of(crossing: Crossing) -> _Arrow:
    message, call = crossing.message, crossing.call
    dash = "╌" if _is_cancellation(message) else "─"
    depth = 0 if call is None else call.depth
    return depth, dash, _label(message, call), crossing.sender == "client"


def _arrow_of_row(row: Row) -> _Arrow:
    return (0, "┈", row.text, row.up) if row.crossing is None else _arrow_of(row.crossing)


def _carrier(row: Row) -> str:
    """Return the columns that say what a row travelled on."""
    name = "" if row.exchange is None else row.exchange.name
    counter = "" if row.event is None else row.event.counter
    return f" {_clip(name, _REQUEST):<{_REQUEST}} {_clip(counter, _EVENT):>{_EVENT}}"


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
