"""The handshake lifecycle, cell by cell and as sessions walk it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_trio.wire.lifecycle import TABLE, Event, HandshakeLifecycle, Ruling, State

#: The table once more, as prose would put it: per state, what each event leads to.
EXPECTED: dict[State, dict[Event, Ruling | tuple[State, Ruling]]] = {
    State.UNOPENED: {
        Event.INITIALIZE: (State.OPENING, Ruling.PROCEED),
        Event.ANSWERED: Ruling.IGNORE,
        Event.INITIALIZED: Ruling.IGNORE,
        Event.PING: Ruling.PROCEED,
        Event.FORWARD_REQUEST: Ruling.NOT_YET,
        Event.REVERSE_REQUEST: Ruling.WAIT,
        Event.NOTIFICATION: Ruling.IGNORE,
        Event.CLOSE: (State.CLOSED, Ruling.PROCEED),
    },
    State.OPENING: {
        Event.INITIALIZE: Ruling.AGAIN,
        Event.ANSWERED: (State.OPENED, Ruling.PROCEED),
        Event.INITIALIZED: Ruling.IGNORE,
        Event.PING: Ruling.PROCEED,
        Event.FORWARD_REQUEST: Ruling.NOT_YET,
        Event.REVERSE_REQUEST: Ruling.WAIT,
        Event.NOTIFICATION: Ruling.PROCEED,
        Event.CLOSE: (State.CLOSED, Ruling.PROCEED),
    },
    State.OPENED: {
        Event.INITIALIZE: Ruling.AGAIN,
        Event.ANSWERED: Ruling.IGNORE,
        Event.INITIALIZED: (State.OPERATING, Ruling.PROCEED),
        Event.PING: Ruling.PROCEED,
        Event.FORWARD_REQUEST: Ruling.PROCEED,
        Event.REVERSE_REQUEST: Ruling.WAIT,
        Event.NOTIFICATION: Ruling.PROCEED,
        Event.CLOSE: (State.CLOSED, Ruling.PROCEED),
    },
    State.OPERATING: {
        Event.INITIALIZE: Ruling.AGAIN,
        Event.ANSWERED: Ruling.IGNORE,
        Event.INITIALIZED: Ruling.IGNORE,
        Event.PING: Ruling.PROCEED,
        Event.FORWARD_REQUEST: Ruling.PROCEED,
        Event.REVERSE_REQUEST: Ruling.PROCEED,
        Event.NOTIFICATION: Ruling.PROCEED,
        Event.CLOSE: (State.CLOSED, Ruling.PROCEED),
    },
    State.CLOSED: {
        Event.INITIALIZE: Ruling.CLOSED,
        Event.ANSWERED: Ruling.IGNORE,
        Event.INITIALIZED: Ruling.IGNORE,
        Event.PING: Ruling.CLOSED,
        Event.FORWARD_REQUEST: Ruling.CLOSED,
        Event.REVERSE_REQUEST: Ruling.CLOSED,
        Event.NOTIFICATION: Ruling.IGNORE,
        Event.CLOSE: Ruling.IGNORE,
    },
}

#: The way to each state.
WAY_TO: dict[State, list[Event]] = {
    State.UNOPENED: [],
    State.OPENING: [Event.INITIALIZE],
    State.OPENED: [Event.INITIALIZE, Event.ANSWERED],
    State.OPERATING: [Event.INITIALIZE, Event.ANSWERED, Event.INITIALIZED],
    State.CLOSED: [Event.CLOSE],
}


def in_state(state: State) -> HandshakeLifecycle:
    lifecycle = HandshakeLifecycle()
    for event in WAY_TO[state]:
        assert lifecycle.rule(event) is Ruling.PROCEED
    assert lifecycle.state is state
    return lifecycle


@pytest.mark.spec("LC-1", "LC-4", "LC-5")
@pytest.mark.parametrize(("state", "event"), list(product(State, Event)))
def test_every_cell_is_decided(state: State, event: Event) -> None:
    expected = EXPECTED[state][event]
    next_state, ruling = expected if isinstance(expected, tuple) else (state, expected)
    lifecycle = in_state(state)

    assert lifecycle.rule(event) is ruling
    assert lifecycle.state is next_state


def test_the_table_has_no_cell_beside_those() -> None:
    assert len(TABLE) == len(State)
    assert {len(row) for row in TABLE} == {len(Event)}


@pytest.mark.spec("LC-1")
def test_a_request_before_initialize_costs_nothing_but_an_error() -> None:
    """Peers probe with a request of another era first; a later handshake still succeeds."""
    lifecycle = HandshakeLifecycle()

    assert lifecycle.rule(Event.FORWARD_REQUEST) is Ruling.NOT_YET
    assert lifecycle.rule(Event.PING) is Ruling.PROCEED
    assert lifecycle.rule(Event.INITIALIZE) is Ruling.PROCEED
    assert lifecycle.rule(Event.ANSWERED) is Ruling.PROCEED
    assert lifecycle.rule(Event.INITIALIZED) is Ruling.PROCEED
    assert lifecycle.operating


@pytest.mark.spec("LC-5")
def test_reverse_calls_wait_for_initialized_but_forward_calls_only_for_the_answer() -> None:
    lifecycle = in_state(State.OPENED)

    assert lifecycle.rule(Event.FORWARD_REQUEST) is Ruling.PROCEED
    assert lifecycle.rule(Event.REVERSE_REQUEST) is Ruling.WAIT
    assert lifecycle.rule(Event.INITIALIZED) is Ruling.PROCEED
    assert lifecycle.rule(Event.REVERSE_REQUEST) is Ruling.PROCEED


@given(events=st.lists(st.sampled_from(Event), max_size=30))
def test_a_session_only_ever_moves_forward(events: list[Event]) -> None:
    lifecycle = HandshakeLifecycle()
    for event in events:
        before = lifecycle.state
        ruling = lifecycle.rule(event)

        assert lifecycle.state >= before
        assert lifecycle.operating == (lifecycle.state is State.OPERATING)
        assert lifecycle.state is before or ruling is Ruling.PROCEED
    assert (lifecycle.state is State.CLOSED) == (Event.CLOSE in events)
