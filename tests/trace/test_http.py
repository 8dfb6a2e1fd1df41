"""What HTTP was under a session: requests, responses, events, and the messages on them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcp_trio import Client, ConnectFailed, Context, Server, connect_http, serve_http
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.trace.calls import view
from mcp_trio.trace.http import HttpView, http_view
from mcp_trio.trace.record import Entry, Recorder, Recording, Side
from mcp_trio.trace.render import layer_table, sequence_diagram
from mcp_trio.wire.jsonrpc import Batch, Request

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


def make_server() -> Server:
    server = Server("tests", version="1")

    @server.tool
    async def echo(text: str) -> str:
        return text

    @server.tool
    async def poll(ctx: Context) -> str:
        ctx.close_stream()
        await trio.sleep(0.05)
        return "polled"

    return server


@asynccontextmanager
async def serving(recorder: Recorder, **options: Any) -> AsyncIterator[str]:
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            run = partial(serve_http, make_server(), tracer=recorder, **options)
            http = await nursery.start(run)
            yield http.url
            nursery.cancel_scope.cancel()


async def call(
    tool: str = "echo", *, arguments: dict[str, Any] | None = None, **options: Any
) -> Recording:
    """Record a session with one call, from both sides."""
    recorder = Recorder()
    async with (
        serving(recorder, **options) as url,
        connect_http(url, client=Client("c", version="1"), tracer=recorder) as session,
    ):
        await session.call_tool(tool, {"text": "x"} if arguments is None else arguments)
        while not has_listened(recorder.recording()):  # noqa: ASYNC110 - a recorder wakes nobody
            await trio.sleep(0.001)
    return recorder.recording()


def has_listened(recording: Recording) -> bool:
    """The standing GET was answered, in whatever way."""
    exchanges = of(recording, "client").exchanges
    return any(each.method == "GET" and each.status is not None for each in exchanges)


def of(recording: Recording, side: Side) -> HttpView:
    found = http_view(view(recording, side), recording.seen_by(side))
    assert found is not None
    return found


def bodies(recording: Recording, name: str) -> dict[Side, list[str]]:
    return {
        side: sorted(
            repr(entry.fields["body"])
            for entry in recording.seen_by(side)
            if entry.name == name and entry.fields["body"] is not None
        )
        for side in recording.sides
    }


@pytest.mark.parametrize("answers", ["json", "sse", "both"])
@pytest.mark.parametrize("stored", [False, True])
async def test_both_sides_tell_the_same(answers: str, stored: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """What the server tells is what it wrote, however it chose to answer."""
    recording = await call(answers=answers, store=MemoryStore() if stored else None)

    for name in ("http.request", "sse.event"):
        told = bodies(recording, name)
        assert told["client"] == told["server"]
    assert [len(of(recording, side).exchanges) for side in recording.sides] == [5, 5]
    assert all(each.ended for side in recording.sides for each in of(recording, side).exchanges)
    messages = [row for row in of(recording, "client").rows if row.crossing is not None]
    assert len(messages) == len(view(recording).crossings) == 5


async def test_events_without_ids_are_only_counted() -> None:
    table = layer_table(await call(answers="sse"))

    assert "POST 1: 1 without an id; POST 4: 1 without an id" in table


async def test_answers_in_json_are_no_events() -> None:
    table = layer_table(await call(standing_stream=False))

    assert "SSE event             0  every answer came as JSON" in table
    assert "refused: 3 (405)" in table


async def test_a_stateless_server_gives_no_session_id() -> None:
    table = layer_table(await call(stateless=True))

    assert "no session id" in table
    assert "the session id is on" not in table


async def test_a_stream_that_is_resumed_is_another_request_and_the_same_stream() -> None:
    """2025-11-25 basic/transports § Resumability and Redelivery: polling."""
    recording = await call("poll", arguments={}, store=MemoryStore())
    diagram = sequence_diagram(recording)

    assert "GET after event " in diagram
    gets = [each for each in of(recording, "client").exchanges if each.method == "GET"]
    assert ["1"] in [[event.counter for event in each.events] for each in gets]
    assert 'result #2: "polled"' in diagram


async def test_a_session_that_does_not_come_about_shows_how_it_was_refused() -> None:
    recorder = Recorder()
    async with serving(recorder) as url:
        with pytest.raises(ConnectFailed):
            async with connect_http(url + "x", transport="streamable", tracer=recorder):
                pass
    recording = recorder.recording()

    assert "refused: 1 (404)" in layer_table(recording)
    server = of(recording, "server")
    assert [(each.method, each.status, each.body) for each in server.exchanges] == [
        ("POST", 404, None)
    ]


async def test_the_old_pair_of_endpoints_has_one_stream_for_everything() -> None:
    """2024-11-05 basic/transports § HTTP with SSE, as the client falls back to it."""
    recorder = Recorder()
    async with (
        serving(recorder, sse_path="/sse") as url,
        connect_http(url.replace("/mcp", "/sse"), tracer=recorder) as session,
    ):
        await session.call_tool("echo", {"text": "x"})
    recording = recorder.recording()
    table, lines = layer_table(recording), sequence_diagram(recording).splitlines()

    assert "4 POST (1, 3, 4, 5), 1 GET (2); refused: 1 (405)" in table
    assert "GET 2: 3 without an id" in table
    (answer,) = [line for line in lines if 'result #2: "x"' in line]
    assert answer.split()[1:4] == ["GET", "2", "-"]
    assert bodies(recording, "sse.event")["client"] == bodies(recording, "sse.event")["server"]


async def test_a_pipe_has_no_http() -> None:
    assert http_view(view(Recording(())), ()) is None


# ---------------------------------------------------------------- made by hand


def told(name: str, **fields: Any) -> Entry:
    every = {"exchange": 1, "session_id": None}
    return Entry(time=0.0, name=name, side="client", fields={**every, **fields})


def asked(body: Any, **fields: Any) -> Entry:
    return told("http.request", method="POST", last_event_id=None, body=body, **fields)


def brought(id_: str | None, body: Any = None, event: str = "message") -> Entry:
    return told("sse.event", id=id_, event=event, body=body)


def test_ids_of_another_s_making_are_shown_as_they_are() -> None:
    entries = (asked(None), brought("a/b+c"), brought("9.z"))

    assert "POST 1: a/b+c, 9.z" in layer_table(Recording(entries))


def test_what_carries_no_message_of_the_session_is_named() -> None:
    batch = Batch([{"jsonrpc": "2.0", "method": "x"}])
    entries = (asked(batch), brought("1.0"), brought(None, event="endpoint"))
    lines = sequence_diagram(Recording(entries)).splitlines()[2:-1]

    assert [line[26:].strip(" │┈▶◀") for line in lines] == ["batch", "event id", "event endpoint"]


def test_two_equal_messages_travel_on_two_requests() -> None:
    entries: list[Entry] = []
    for number in (1, 2):
        request = Request("same", "ping")
        entries.append(asked(request, exchange=number))
        entries.append(
            Entry(time=0.0, name="message.sent", side="client", fields={"message": request})
        )
    rows = of(Recording(tuple(entries)), "client").rows

    assert [row.exchange and row.exchange.number for row in rows] == [1, 2]
    assert len({id(row.crossing) for row in rows}) == 2


def test_more_than_three_numbers_in_a_row_are_a_range() -> None:
    entries = [asked(None, exchange=number) for number in range(7)]
    entries[4] = told("http.request", method="GET", last_event_id=None, body=None, exchange=4)
    table = layer_table(Recording(tuple(entries)))

    assert "6 POST (1-4, 6, 7), 1 GET (5); at most 7 open at once; still open: 1-7" in table
