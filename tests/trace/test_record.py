"""What a recorder keeps."""

from __future__ import annotations

import trio

from mcp_trio import connect_memory
from mcp_trio.trace.calls import view
from mcp_trio.trace.record import Entry, Recorder
from mcp_trio.wire.jsonrpc import Request
from tests.trace.sessions import dine, make_server


async def test_both_sides_of_a_session_are_recorded_in_order(autojump_clock: object) -> None:
    recording = await dine()
    times = [entry.time for entry in recording.entries]

    assert recording.sides == ("client", "server")
    assert times == sorted(times)
    assert {entry.session for entry in recording.entries} == {"memory"}
    for side in recording.sides:
        names = [entry.name for entry in recording.seen_by(side)]
        assert (names[0], names[-1]) == ("session.opened", "session.closed")


async def test_both_sides_see_the_same_messages(autojump_clock: object) -> None:
    recording = await dine()

    def crossed(side: str) -> list[str]:
        return sorted(
            repr((entry.sender, entry.message))
            for entry in recording.entries
            if entry.side == side and entry.message is not None
        )

    assert crossed("client") == crossed("server")


async def test_one_side_alone_can_be_recorded(autojump_clock: object) -> None:
    recording = await dine(side="server")

    assert recording.sides == ("server",)
    origins = [call.origin and call.origin.id for call in view(recording).calls]
    # What the client asked from within a question looks like any other call from here.
    assert origins == [None, None, None, 2, 3, None, None]


async def test_a_recorder_keeps_the_beginning_and_counts_the_rest() -> None:
    recorder = Recorder(events=3)
    for number in range(5):
        recorder.event("message.sent", {"role": "server", "message": Request(number, "ping")})
    recording = recorder.recording()

    assert [entry.message for entry in recording.entries] == [Request(n, "ping") for n in range(3)]
    assert recording.dropped == 2


async def test_a_recorder_is_bounded_by_size_and_leaves_no_gap() -> None:
    recorder = Recorder(size=1000)
    for size in (100, 2000, 1):
        params = {"text": "x" * size}
        recorder.event("message.sent", {"role": "client", "message": Request(1, "x", params)})
    recording = recorder.recording()

    assert len(recording.entries) == 1
    assert recording.dropped == 2


async def test_what_a_transport_tells_is_the_client_s() -> None:
    recorder = Recorder()
    recorder.event("line.skipped", {"line": "hello", "size": 5})

    assert recorder.recording().entries == (
        Entry(
            time=recorder.recording().entries[0].time,
            name="line.skipped",
            side="client",
            fields={"line": "hello", "size": 5},
        ),
    )


async def test_a_request_that_was_taken_back_did_not_cross_the_wire() -> None:
    recorder = Recorder()
    async with connect_memory(make_server(), tracer=recorder) as session:
        with trio.CancelScope() as scope:
            scope.cancel()
            await session.ping()
    methods = [call.request.method for call in view(recorder.recording()).calls]

    assert methods == ["initialize"]
