"""``mcp-trio probe``: what the server at a URL speaks, as far as asking it politely tells.

It opens a session for each revision, newest first, and looks at what crosses the wire.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import ConnectFailed, McpError
from mcp_trio.trace.calls import view
from mcp_trio.trace.http import HttpView, http_view
from mcp_trio.trace.record import Recorder
from mcp_trio.wire.revisions import LEGACY

from .client import connect_url, make_client, print_json
from .outcome import Exit, plain, run_async

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_trio.client import ClientSession
    from mcp_trio.trace.record import Entry

__all__ = ["run"]

#: How long the standing stream may take to open and to say its first event (seconds).
_PATIENCE: Final = 0.5
#: Headers of the answer to ``initialize`` that say something about the server.
_TELLING: Final = (
    "server",
    "content-type",
    "mcp-protocol-version",
    "cache-control",
    "x-accel-buffering",
    "content-encoding",
    "vary",
    "access-control-allow-origin",
    "strict-transport-security",
)


def run(options: argparse.Namespace) -> Exit:
    """Probe, and print what was found."""

    async def command() -> Exit:
        found: dict[str, Any] = {"url": options.url, "revisions": {}}
        failures: list[ConnectFailed] = []
        for revision in reversed(LEGACY):
            try:
                details = await _probe(options, revision.version)
            except ConnectFailed as exc:
                failures.append(exc)
                found["revisions"][revision.version] = {"spoken": False, "reason": exc.reason}
            else:
                found.setdefault("server", details.pop("server"))
                details.pop("server", None)
                found["revisions"][revision.version] = {"spoken": True, **details}
        if len(failures) == len(LEGACY):
            raise failures[0]
        if options.json:
            print_json(found)
        else:
            print(plain(_text(found), keep="\n"), flush=True)
        return Exit.OK

    return run_async(command)


async def _probe(options: argparse.Namespace, version: str) -> dict[str, Any]:
    """Return what a session of this revision shows.

    Raises:
        ConnectFailed: there is none.
    """
    recorder = Recorder()
    async with connect_url(options, make_client(options, [version]), recorder) as session:
        pinged = await _ping(session)
        with trio.move_on_after(_PATIENCE):
            await trio.lowlevel.checkpoint()
            while not _has_listened(recorder):  # noqa: ASYNC110 - a recorder wakes nobody
                await trio.sleep(0.01)
        entries = recorder.recording().entries
        http = http_view(view(recorder.recording()), entries)
        assert http is not None  # noqa: S101 - there is a session over HTTP
        info = session.server_info
        return {
            "server": f"{info.name} {info.version}",
            "ping": pinged,
            **_of_wire(http, entries),
        }


async def _ping(session: ClientSession) -> str:
    try:
        await session.ping()
    except McpError as exc:
        return str(exc)
    return "ok"


def _has_listened(recorder: Recorder) -> bool:
    """Tell whether the standing stream was refused, or has brought an event."""
    http = http_view(view(recorder.recording()), recorder.recording().entries)
    gets = [each for each in http.exchanges if each.method == "GET"] if http is not None else []
    return bool(gets) and (gets[0].ended or bool(gets[0].events))


def _of_wire(http: HttpView, entries: tuple[Entry, ...]) -> dict[str, Any]:
    posts = [each for each in http.exchanges if each.method == "POST"]
    gets = [each for each in http.exchanges if each.method == "GET"]
    answers = {each.content_type.partition(";")[0] for each in posts if each.content_type}
    events = [event for each in http.exchanges for event in each.events]
    pair = any(e.name == "sse.event" and e.fields["event"] == "endpoint" for e in entries)
    return {
        "transport": "HTTP+SSE" if pair else "Streamable HTTP",
        "answers": sorted(answers),
        "session": http.issued is not None,
        "standing_stream": gets[0].status if gets else None,
        "event_ids": _some(events, lambda event: event.id is not None),
        "priming_event": not pair and any(event.body is None for event in events),
        "headers": _headers(entries),
    }


def _some(items: list[Any], holds: Any) -> bool | None:
    """Return whether one of *items* is so; None where there is none to tell by."""
    return any(holds(item) for item in items) if items else None


def _headers(entries: tuple[Entry, ...]) -> dict[str, str]:
    for entry in entries:
        if entry.name == "http.response":
            headers = entry.fields["headers"]
            return {name: value for name in _TELLING if (value := headers.get(name)) is not None}
    return {}


# ---------------------------------------------------------------- as text


def _text(found: Mapping[str, Any]) -> str:
    lines = [f"{found['url']}: {found['server']}"]
    alike = groupby(found["revisions"].items(), key=lambda item: item[1])
    for details, group in alike:
        versions = ", ".join(version for version, _ in group)
        if not details["spoken"]:
            lines.append(f"{versions}: not spoken: {details['reason']}")
            continue
        lines.append(f"{versions}: {details['transport']}")
        lines += [f"    {name:<14} {text}" for name, text in _rows(details)]
    return "\n".join(lines)


def _rows(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    standing, ids = details["standing_stream"], details["event_ids"]
    streams = {None: "not asked for", 200: "offered", 405: "not offered (405)"}
    resumable = {None: "no event came to tell by", True: "yes, events have ids"}
    rows = [
        ("answers", " and ".join(details["answers"]) or "none in bodies"),
        ("session", "has an id" if details["session"] else "no id: stateless, or the stream's"),
        ("standing GET", streams.get(standing, f"refused ({standing})")),
        ("resumable", resumable.get(ids, "no, events have no ids")),
        ("priming event", "yes" if details["priming_event"] else "none"),
    ]
    if details["ping"] != "ok":
        rows.append(("ping", details["ping"]))
    rows += [("header", f"{name}: {value}") for name, value in details["headers"].items()]
    return rows
