"""A recording as a table of layers and as a sequence diagram."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.trace.record import Entry, Recording, Side
from mcp_trio.trace.render import layer_table, sequence_diagram
from mcp_trio.wire.jsonrpc import Batch, Failure, Notification, Request, Result
from tests.trace.sessions import dine

LAYERS = """\
layer             count  what
────────────────  ─────  ───────────────────────────────────────────────────────────────────────────
host process          1  both sides are in one process
MCP session           1  diner 2, revision 2025-11-25, open for 2250 ms, ended: this side closed the
                         session
call                  7  4 forward (#1 #2 #3 #5); 3 reverse, inside of others (#1 #2 #4); 5
                         answered, 2 cancelled
HTTP request          -  a pipe is one stream in each direction, it has no requests
line                 18  8 to the server, 10 to the client; one message on each
JSON-RPC message     18  7 requests, 5 answers, 6 notifications
"""

SEQUENCE = """\
      ms client                                                                               server
         ┬                                                                                         ┬
       0 │─── initialize #1 guest, 2025-11-25 ────────────────────────────────────────────────────▶│
       0 │◀─── result #1: diner 2, revision 2025-11-25 ────────────────────────────────────────────│
       0 │─── notifications/initialized ──────────────────────────────────────────────────────────▶│
       0 │─── tools/call #2 order {"dish":"fish","wait":1.0} ─────────────────────────────────────▶│
       0 │◀─── progress #2: 0.5 asking ────────────────────────────────────────────────────────────│
     500 │─── tools/call #3 order {"dish":"soup","wait":1.0} ─────────────────────────────────────▶│
     500 │◀─── progress #3: 0.5 asking ────────────────────────────────────────────────────────────│
    1000 │    ◀─── elicitation/create #1 caused by #2 "fish?" ─────────────────────────────────────│
    1500 │    ◀─── elicitation/create #2 caused by #3 "soup?" ─────────────────────────────────────│
    1500 │        ─── tools/call #4 caused by #2 menu {} ─────────────────────────────────────────▶│
    1500 │        ◀─── result #4: "["soup","fish"]" ───────────────────────────────────────────────│
    1500 │    ─── result #2: {"action":"accept","content":{"ok":true}} ───────────────────────────▶│
    1500 │◀─── message info: {"dish":"soup"} ──────────────────────────────────────────────────────│
    1500 │◀─── result #3: "soup: Accepted" ────────────────────────────────────────────────────────│
    2000 │╌╌╌ cancelled #2: the caller gave up ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌▶│
    2000 │    ◀╌╌╌ cancelled #1: the caller gave up ╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌│
    2250 │─── ping #5 ────────────────────────────────────────────────────────────────────────────▶│
    2250 │◀─── result #5: {} ──────────────────────────────────────────────────────────────────────│
         ┴                                                                                         ┴
"""


async def test_the_layers_of_a_session(autojump_clock: object) -> None:
    assert layer_table(await dine()).splitlines() == LAYERS.splitlines()


async def test_the_sequence_of_a_session(autojump_clock: object) -> None:
    assert sequence_diagram(await dine()).splitlines() == SEQUENCE.splitlines()


async def test_the_sequence_is_the_same_where_nothing_is_encoded(autojump_clock: object) -> None:
    recording = await dine(typed=True)

    assert sequence_diagram(recording).splitlines() == SEQUENCE.splitlines()
    assert "line                  -  messages crossed as objects" in layer_table(recording)


async def test_an_origin_that_nobody_told_is_left_open(autojump_clock: object) -> None:
    """With two calls open, the client cannot know which of them a question came from."""
    diagram = sequence_diagram(await dine(side="client"))

    assert '│◀─── elicitation/create #1 "fish?" ──' in diagram
    assert '│◀─── elicitation/create #2 "soup?" ──' in diagram


# ---------------------------------------------------------------- made by hand


def sent(time: float, message: object, side: Side = "client") -> Entry:
    return Entry(time=time, name="message.sent", side=side, fields={"message": message})


def got(time: float, message: object, side: Side = "client") -> Entry:
    return Entry(time=time, name="message.received", side=side, fields={"message": message})


def opened(transport: str) -> Entry:
    return Entry(time=0, name="session.opened", side="client", fields={"transport": transport})


def test_a_question_comes_from_the_only_call_that_is_open() -> None:
    recording = Recording(
        (
            sent(0, Request(1, "tools/call", {"name": "done"})),
            got(0, Result(1, {})),
            sent(0, Request(2, "tools/call", {"name": "open"})),
            got(0, Request(1, "roots/list")),
            sent(0, Failure(1, -32601, "method not found")),
        )
    )
    diagram = sequence_diagram(recording)

    assert "│    ◀─── roots/list #1 caused by #2 ──" in diagram
    assert "│    ─── error #1: method not found (-32601) ──" in diagram


@pytest.mark.parametrize(
    ("transport", "host"),
    [
        ("ChildTransport", "the client is this process, the server is its child"),
        ("PipeTransport", "the client is this process, its peer is elsewhere"),
    ],
)
def test_the_host_row_says_where_the_sides_are(transport: str, host: str) -> None:
    assert f"host process          1  {host}\n" in layer_table(Recording((opened(transport),)))


def test_lines_that_are_no_messages_are_counted_apart() -> None:
    noise = Entry(time=0, name="line.skipped", side="client", fields={"line": "hi", "size": 2})
    table = layer_table(Recording((sent(0, Request(1, "ping")), noise, got(0, Result(1, {})))))

    assert (
        "line                  3  1 to the server, 1 to the client; one message on each; 1" in table
    )


def test_lines_are_not_counted_where_batches_join_them() -> None:
    members = [{"jsonrpc": "2.0", "method": "notifications/x"}]
    table = layer_table(
        Recording((got(0, Batch(members)), got(0, Notification("notifications/x"))))
    )

    assert "line                  -  batches" in table
    assert "JSON-RPC message      1  0 requests, 0 answers, 1 notification" in table


def test_a_recording_that_was_cut_short_says_so() -> None:
    table = layer_table(Recording((sent(0, Request(1, "ping")),), dropped=3))

    assert "(not recorded)        3  events after the last one shown" in table


def test_nothing_recorded_is_nothing_shown() -> None:
    assert "JSON-RPC message      0  " in layer_table(Recording(()))
    assert len(sequence_diagram(Recording(())).splitlines()) == 3


NAMES = st.sampled_from(
    [
        "initialize",
        "tools/call",
        "tools/list",
        "elicitation/create",
        "notifications/cancelled",
        "notifications/progress",
        "notifications/message",
        "x/\x1b[31m\n",
    ]
)
IDS = st.integers(1, 3) | st.sampled_from(["1", "a"])
KEYS = st.sampled_from(
    ["requestId", "progressToken", "progress", "total", "_meta", "content", "serverInfo", "text"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.floats(0, 1) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
PARAMS = st.none() | st.dictionaries(KEYS, JSON, max_size=4)
MESSAGES: st.SearchStrategy[Any] = (
    st.builds(Request, IDS, NAMES, PARAMS)
    | st.builds(Notification, NAMES, PARAMS)
    | st.builds(Result, IDS, JSON)
    | st.builds(Failure, st.none() | IDS, st.integers(), st.text(max_size=200))
)
DIRECTIONS: st.SearchStrategy[Literal["message.sent", "message.received"]] = st.sampled_from(
    ["message.sent", "message.received"]
)


@given(crossed=st.lists(st.tuples(DIRECTIONS, MESSAGES), max_size=12), width=st.integers(60, 120))
def test_whatever_crossed_is_shown_within_the_width(
    crossed: list[tuple[str, Any]], width: int
) -> None:
    """A peer's nonsense can neither break the picture nor drive the terminal."""
    recording = Recording(
        tuple(
            Entry(time=0.0, name=name, side="client", fields={"message": message})
            for name, message in crossed
        )
    )
    table, diagram = layer_table(recording, width=width), sequence_diagram(recording, width=width)
    lines = diagram.splitlines()

    assert {len(line) for line in lines} == {width}
    assert len(lines) == len(crossed) + 3
    assert max(map(len, table.splitlines())) <= width
    assert (table + diagram).replace("\n", "").isprintable()
