"""The worked example of the wire model, run over loopback: four layers, told apart.

Five HTTP requests of one session, two of them open in the live moment: a tool call whose
answer becomes a stream with the events 1, 2 and 3, and the standing GET, which at the same
time brings an unrelated push as its event 42. Ten JSON-RPC messages in all.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import attrs
import trio

from mcp_trio import Client, Context, Server, connect_http, serve_http
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.trace.laws import check
from mcp_trio.trace.record import Recorder, Recording
from mcp_trio.trace.render import layer_table, sequence_diagram
from mcp_trio.wire.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_trio.transports.http_server import HttpServer

#: The revision of the example.
REVISION = list(REVISIONS)[2]

LAYERS = """\
layer             count  what
────────────────  ─────  ───────────────────────────────────────────────────────────────────────────
host process          1  both sides are in one process
MCP session           1  jira 1.0, revision 2025-06-18, id abc123ab…, open for 0 ms
call                  3  3 forward (#1 #2 #7); 3 answered, 0 cancelled
HTTP request          5  4 POST (1, 2, 4, 5), 1 GET (3); the session id is on 2-5; at most 2 open at
                         once; still open: 3
SSE event             4  GET 3: 42; POST 5: 1, 2, 3; each stream counts by itself
JSON-RPC message     10  3 requests, 3 answers, 4 notifications; 4 in bodies of requests, 2 as JSON,
                         4 in events
"""

SEQUENCE = """\
      ms on        event client                                                               server
                         ┬                                                                         ┬
       0 POST 1          │─── initialize #1 agent, 2025-06-18 ────────────────────────────────────▶│
       0 POST 1          │◀─── result #1: jira 1.0, revision 2025-06-18 ───────────────────────────│
       0 POST 2          │─── notifications/initialized ──────────────────────────────────────────▶│
       0 POST 2          │◀┈┈┈ 202 ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈│
       0 GET 3           │┈┈┈ GET ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈▶│
       0 GET 3           │◀┈┈┈ 200 text/event-stream ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈│
       0 POST 4          │─── tools/list #2 ──────────────────────────────────────────────────────▶│
       0 POST 4          │◀─── result #2: 1 tools ─────────────────────────────────────────────────│
       0 POST 5          │─── tools/call #7 jira_search {"text":"SSE"} ───────────────────────────▶│
       0 POST 5          │◀┈┈┈ 200 text/event-stream ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈│
       0 POST 5        1 │◀─── progress #7: 1/2 looking ───────────────────────────────────────────│
       0 POST 5        2 │◀─── progress #7: 2/2 sorting ───────────────────────────────────────────│
       0 GET 3        42 │◀─── notifications/resources/list_changed ───────────────────────────────│
       0 POST 5        3 │◀─── result #7: "PROJ-1" ────────────────────────────────────────────────│
                         ┴                                                                         ┴
"""

SERVER_SEQUENCE_OF_THE_CALL = [
    "progress #7: 1/2 looking",
    "progress #7: 2/2 sorting",
    "notifications/resources/list_changed",
    'result #7: "PROJ-1"',
]


class Gates:
    """What makes the order of things on several connections the same each time."""

    def __init__(self) -> None:
        self.progressed = trio.Event()
        self.pushed = trio.Event()


def make_server(gates: Gates) -> Server:
    server = Server("jira", version="1.0")

    @server.tool
    async def jira_search(ctx: Context, text: str) -> str:
        await ctx.progress(1, total=2, message="looking")
        await ctx.progress(2, total=2, message="sorting")
        await gates.progressed.wait()
        server.resource("jira://PROJ-1")(describe)
        await gates.pushed.wait()
        return "PROJ-1"

    server.resource("jira://PROJ-0")(describe)
    return server


async def describe() -> str:
    return "an issue"


def make_client(gates: Gates) -> Client:
    client = Client("agent", version="1.0", revisions=[REVISION])

    @client.resources_changed
    def changed(*_: object) -> None:
        gates.pushed.set()

    return client


async def run_example() -> tuple[Recording, HttpServer]:
    """Return what crossed the wire up to the answer of the call, while the GET is open."""
    recorder, gates = Recorder(), Gates()

    def progressed(update: Any) -> None:
        if update.progress == update.total:
            gates.progressed.set()

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            http = await nursery.start(
                partial(
                    serve_http,
                    make_server(gates),
                    store=MemoryStore(),
                    tracer=recorder,
                )
            )
            async with connect_http(
                http.url, client=make_client(gates), tracer=recorder
            ) as session:
                await session.list_tools().all()
                (served,) = http.sessions
                # The session is some hours old: 41 pushes, and ids up to 6, went before.
                served.transport.route.number = 41
                session.session._table._last_id = 6
                while not served.transport.listeners:  # noqa: ASYNC110 - nobody announces it
                    await trio.sleep(0.001)
                await session.call_tool("jira_search", {"text": "SSE"}, progress=progressed)
                recording = recorder.recording()
            nursery.cancel_scope.cancel()
    return recording, http


def without_times(recording: Recording) -> Recording:
    """Take away what differs from run to run: times, and the session's id."""
    return Recording(
        tuple(
            attrs.evolve(entry, time=0.0, fields={**entry.fields, "session_id": "abc123ab"})
            if entry.fields.get("session_id") is not None
            else attrs.evolve(entry, time=0.0)
            for entry in recording.entries
        )
    )


async def test_the_worked_example_has_the_layers_that_it_says() -> None:
    """2025-06-18 basic/transports § Streamable HTTP: counted from what crossed the wire."""
    recording, _ = await run_example()
    shown = without_times(recording)

    assert layer_table(shown).splitlines() == LAYERS.splitlines()
    assert sequence_diagram(shown).splitlines() == SEQUENCE.splitlines()
    assert [finding.breaches for finding in check(recording)] == [(), (), ()]


async def test_wire_ids_of_events_are_unique_in_the_session() -> None:
    """Counters of streams start over; the ids that go out name their stream as well."""
    recording, _ = await run_example()
    ids = [e.fields["id"] for e in recording.seen_by("client") if e.name == "sse.event"]

    assert len(ids) == len(set(ids)) == 4


async def test_the_session_id_is_on_every_request_but_the_one_that_issues_it() -> None:
    recording, _ = await run_example()
    for side in recording.sides:
        requests = [e for e in recording.seen_by(side) if e.name == "http.request"]
        ids = [entry.fields["session_id"] for entry in requests]

        assert ids[0] is None
        assert set(ids[1:]) == {
            e.fields["session_id"] for e in recording.seen_by("server") if e.name == "http.response"
        }


async def test_both_sides_see_the_same_events_and_messages() -> None:
    recording, _ = await run_example()

    def of(side: str, name: str) -> list[str]:
        return sorted(
            repr((entry.fields.get("id"), entry.fields.get("body")))
            for entry in recording.entries
            if (entry.side, entry.name) == (side, name)
        )

    assert of("client", "sse.event") == of("server", "sse.event")
    assert of("client", "http.request") == of("server", "http.request")


async def test_the_server_sees_the_same_layers() -> None:
    recording, _ = await run_example()
    alone = Recording(tuple(e for e in without_times(recording).entries if e.side == "server"))
    table = layer_table(alone)

    assert "SSE event             4  " in table
    assert "42" in table
    assert "JSON-RPC message     10  3 requests, 3 answers, 4 notifications; 4 in bodies" in table
    lines = sequence_diagram(alone).splitlines()
    assert [text for line in lines for text in SERVER_SEQUENCE_OF_THE_CALL if text in line] == (
        SERVER_SEQUENCE_OF_THE_CALL
    )
