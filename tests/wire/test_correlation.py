"""Who waits for whom: a model of the two tables, and each cell of the races by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mcp_trio.errors import OriginSettled
from mcp_trio.wire.correlation import (
    REQUEST_RACES,
    Correlation,
    DuplicateId,
    IncomingRequest,
    OutgoingCall,
    RequestEvent,
    Stage,
    Verdict,
)

if TYPE_CHECKING:
    from mcp_trio.wire.jsonrpc import RequestId

Table = Correlation[OutgoingCall, IncomingRequest]


def begun(table: Table, id_: RequestId = 1, *, cancellable: bool = True) -> IncomingRequest:
    request = IncomingRequest(id_, "tools/call", 0.0, cancellable=cancellable)
    table.begin(request)
    return request


def opened(table: Table, origin: IncomingRequest | None = None) -> OutgoingCall:
    call = OutgoingCall(table.next_id(), "elicitation/create", origin, 0.0)
    table.open_call(call)
    return call


# ---------------------------------------------------------------- calls of ours


@pytest.mark.spec("B-5", "B-6")
def test_an_id_is_never_used_twice() -> None:
    table = Table()

    assert [table.next_id() for _ in range(5)] == [1, 2, 3, 4, 5]


def test_an_answer_takes_its_call_once() -> None:
    table = Table()
    call = opened(table)

    assert table.take_call(call.id) is call
    assert table.take_call(call.id) is None
    assert table.abandon(call) is False
    assert (table.late, table.stray) == (1, 0)


def test_an_abandoned_call_is_taken_by_nobody_else() -> None:
    table = Table()
    call = opened(table)

    assert table.abandon(call) is True
    assert table.abandon(call) is False
    assert table.take_call(call.id) is None
    assert (table.late, table.stray) == (1, 0)


@pytest.mark.spec("B-7")
@pytest.mark.case("16")
@pytest.mark.parametrize("id_", [0, -1, 2, "1", "", "x", 2**70])
def test_an_answer_that_nobody_asked_for_is_stray(id_: RequestId) -> None:
    """The string "1" is another id than the number 1."""
    table = Table()
    call = opened(table)

    assert table.take_call(id_) is None
    assert (table.late, table.stray) == (0, 1)
    assert table.outgoing == {call.id: call}


def test_a_call_of_an_ended_request_is_refused_and_not_entered() -> None:
    table = Table()
    cancelled, settled = begun(table, 1), begun(table, 2)
    table.peer_cancels(1)
    table.settle(settled)

    for origin in (cancelled, settled):
        with pytest.raises(OriginSettled, match=rf"from request {origin.id} \(tools/call\)"):
            opened(table, origin)

    assert table.outgoing == {}


# ---------------------------------------------------------------- requests of the peer


@pytest.mark.spec("B-5", "B-6")
@pytest.mark.case("15")
def test_an_id_in_flight_is_not_served_twice() -> None:
    table = Table()
    first = begun(table, 5)
    begun(table, "5")

    with pytest.raises(DuplicateId) as caught:
        begun(table, 5)

    assert caught.value.id == 5
    assert table.incoming[5] is first
    assert table.peer_cancels(5) is first


@pytest.mark.spec("B-5")
def test_an_id_is_free_again_once_its_request_is_settled() -> None:
    table = Table()
    first = begun(table, 5)
    table.settle(first)
    second = begun(table, 5)

    assert table.settle(first) == (Verdict.SAY_NOTHING, [])
    assert table.incoming == {5: second}


@pytest.mark.parametrize("id_", [None, True, 1.0, [], {}, "1", 2])
def test_a_cancel_that_names_no_request_is_ignored(id_: object) -> None:
    table = Table()
    request = begun(table, 1)

    assert table.peer_cancels(id_) is None
    assert request.stage is Stage.SERVING


@pytest.mark.spec("LC-13")
def test_initialize_is_not_cancelled() -> None:
    table = Table()
    request = begun(table, 1, cancellable=False)

    assert table.peer_cancels(1) is None
    assert table.settle(request) == (Verdict.ANSWER, [])


#: Every cell, spelled out once more.
CELLS = {
    (Stage.SERVING, RequestEvent.PEER_CANCELS): (Stage.CANCELLED, Verdict.STOP_HANDLER),
    (Stage.SERVING, RequestEvent.HANDLER_ENDS): (Stage.SETTLED, Verdict.ANSWER),
    (Stage.CANCELLED, RequestEvent.PEER_CANCELS): (Stage.CANCELLED, Verdict.IGNORE),
    (Stage.CANCELLED, RequestEvent.HANDLER_ENDS): (Stage.SETTLED, Verdict.SAY_NOTHING),
    (Stage.SETTLED, RequestEvent.PEER_CANCELS): (Stage.SETTLED, Verdict.IGNORE),
    (Stage.SETTLED, RequestEvent.HANDLER_ENDS): (Stage.SETTLED, Verdict.SAY_NOTHING),
}


@pytest.mark.spec("T-10")
@pytest.mark.case("03")
@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("event", RequestEvent)
def test_every_race_is_decided(stage: Stage, event: RequestEvent) -> None:
    assert REQUEST_RACES[stage][event] == CELLS[stage, event]


def test_the_races_have_no_cell_beside_those() -> None:
    assert len(REQUEST_RACES) == len(Stage)
    assert {len(row) for row in REQUEST_RACES} == {len(RequestEvent)}


@pytest.mark.spec("T-10")
@pytest.mark.case("03")
@pytest.mark.parametrize(
    ("events", "verdict"),
    [
        ("e", Verdict.ANSWER),
        ("ce", Verdict.SAY_NOTHING),
        ("cce", Verdict.SAY_NOTHING),
        ("ee", Verdict.SAY_NOTHING),
        ("ece", Verdict.SAY_NOTHING),
    ],
)
def test_a_request_is_answered_once_and_never_after_a_cancel(events: str, verdict: Verdict) -> None:
    """The letters: the peer (c)ancels, the handler (e)nds; the last verdict counts."""
    table = Table()
    request = begun(table)
    stops, last = 0, None
    for event in events:
        if event == "c":
            stops += table.peer_cancels(1) is not None
        else:
            last, _ = table.settle(request)

    assert last is verdict
    assert stops == (1 if events.startswith("c") else 0)


# ---------------------------------------------------------------- the law


@pytest.mark.case("01")
def test_settling_a_request_takes_the_calls_it_still_has_open() -> None:
    table = Table()
    request, other = begun(table, "a"), begun(table, "b")
    answered, first, abandoned, second = (opened(table, request) for _ in range(4))
    theirs, own = opened(table, other), opened(table)
    table.take_call(answered.id)
    table.abandon(abandoned)

    assert table.settle(request) == (Verdict.ANSWER, [first, second])
    assert table.outgoing == {theirs.id: theirs, own.id: own}
    assert table.abandon(first) is False


@pytest.mark.case("01")
def test_a_cancelled_request_keeps_its_calls_until_its_handler_has_ended() -> None:
    table = Table()
    request = begun(table)
    call = opened(table, request)
    table.peer_cancels(1)

    assert table.outgoing == {call.id: call}
    assert table.settle(request) == (Verdict.SAY_NOTHING, [call])


@pytest.mark.case("07")
def test_a_peer_that_is_gone_leaves_no_call_and_no_back_pointer() -> None:
    table = Table()
    request = begun(table)
    calls = [opened(table), opened(table, request)]

    assert table.take_all_calls() == calls
    assert table.take_all_calls() == []
    assert table.settle(request) == (Verdict.ANSWER, [])


IDS: list[RequestId] = [1, 2, "1", "2", ""]


class Tables(RuleBasedStateMachine):
    """The table beside a model that keeps a flat list of open calls and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.requests: list[IncomingRequest] = []
        self.stages: dict[IncomingRequest, Stage] = {}
        self.open: list[OutgoingCall] = []
        self.closed: list[OutgoingCall] = []
        self.late = self.stray = 0

    def in_flight(self) -> dict[RequestId, IncomingRequest]:
        return {r.id: r for r in self.requests if self.stages[r] is not Stage.SETTLED}

    def close(self, calls: list[OutgoingCall]) -> None:
        self.open = [call for call in self.open if call not in calls]
        self.closed += calls

    @rule(id_=st.sampled_from(IDS), cancellable=st.booleans())
    def a_request_arrives(self, id_: RequestId, cancellable: bool) -> None:  # noqa: FBT001  # drawn by name
        if id_ in self.in_flight():
            with pytest.raises(DuplicateId):
                begun(self.table, id_)
        else:
            request = begun(self.table, id_, cancellable=cancellable)
            self.requests.append(request)
            self.stages[request] = Stage.SERVING

    @rule(id_=st.sampled_from([*IDS, 3, None, True]))
    def the_peer_cancels(self, id_: object) -> None:
        named = [r for r in self.in_flight().values() if r.id == id_ and type(r.id) is type(id_)]
        stopped = [r for r in named if r.cancellable and self.stages[r] is Stage.SERVING]
        expected = stopped[0] if stopped else None

        assert self.table.peer_cancels(id_) is expected
        if expected:
            self.stages[expected] = Stage.CANCELLED

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def a_handler_ends(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        answered = self.stages[request] is Stage.SERVING
        calls = [call for call in self.open if call.origin is request]

        verdict, abandoned = self.table.settle(request)

        assert verdict is (Verdict.ANSWER if answered else Verdict.SAY_NOTHING)
        assert abandoned == calls
        self.stages[request] = Stage.SETTLED
        self.close(calls)

    @rule(data=st.data())
    def a_call_is_made(self, data: st.DataObject) -> None:
        origin = data.draw(st.sampled_from([None, *self.requests]))
        if origin is None or self.stages[origin] is Stage.SERVING:
            call = opened(self.table, origin)
            assert call.id not in [c.id for c in self.open + self.closed]
            self.open.append(call)
        else:
            with pytest.raises(OriginSettled):
                opened(self.table, origin)

    @precondition(lambda self: self.open + self.closed)
    @rule(data=st.data())
    def an_answer_arrives(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.open + self.closed))
        taken = self.table.take_call(call.id)
        if call in self.open:
            assert taken is call
            self.close([call])
        else:
            assert taken is None
            self.late += 1

    @rule(id_=st.sampled_from(["1", "x", 0, -1, 10**6]))
    def a_stray_answer_arrives(self, id_: RequestId) -> None:
        assert self.table.take_call(id_) is None
        self.stray += 1

    @precondition(lambda self: self.open + self.closed)
    @rule(data=st.data())
    def a_caller_gives_up(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.open + self.closed))
        assert self.table.abandon(call) is (call in self.open)
        if call in self.open:
            self.close([call])

    @rule()
    def the_peer_goes_away(self) -> None:
        assert self.table.take_all_calls() == self.open
        self.close(self.open)

    @invariant()
    def both_tables_are_the_models(self) -> None:
        assert self.table.outgoing == {call.id: call for call in self.open}
        assert self.table.incoming == self.in_flight()
        assert (self.table.late, self.table.stray) == (self.late, self.stray)

    @invariant()
    def back_pointers_lead_both_ways(self) -> None:
        for request in self.requests:
            assert request.stage is self.stages[request]
            assert list(request.originated or {}) == [
                call for call in self.open if call.origin is request
            ]

    @invariant()
    def no_reverse_call_outlives_its_forward_call(self) -> None:
        for call in self.table.outgoing.values():
            assert call.origin is None or self.table.incoming[call.origin.id] is call.origin


test_the_tables_agree_with_the_model = pytest.mark.case("03")(Tables.TestCase)
