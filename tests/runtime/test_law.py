"""No reverse call outlives its forward call, and each abandoned one tells the peer exactly once."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.wire.jsonrpc import Notification, Request, Result
from tests.peers import CANCELLED, PROGRESS
from tests.runtime.plans import Ask, Forward, Plan, Reply, Shielded, carry_out, plans
from tests.runtime.recording import Event, Laws

pytestmark = pytest.mark.usefixtures("quiet")

ANSWERED = Ask(Reply(0.25, "answer"))
IGNORED = Ask(Reply(0.75, "never"))


def one(*steps: Any) -> tuple[Forward, ...]:
    """One call, made at once and never given up."""
    return (Forward(0.0, steps, math.inf, None),)


@pytest.mark.case("01")
@pytest.mark.case("02")
@pytest.mark.case("03")
@pytest.mark.case("07")
@pytest.mark.parametrize("typed", [True, False], ids=["objects", "bytes"])
@example(plan=Plan(one(Shielded((ANSWERED, ANSWERED))), "server cancelled", 0.5), schedule=None)
@example(plan=Plan(one(Shielded((IGNORED,))), "both cancelled", 0.5), schedule=None)
@example(plan=Plan(one(ANSWERED, IGNORED), "both close", 0.5), schedule=None)
@given(plan=plans(), schedule=st.random_module())
def test_the_law_holds_whatever_handlers_do_and_however_it_ends(
    *, typed: bool, plan: Plan, schedule: object
) -> None:
    """Shields, foreign nurseries, failing clean-up, two levels, every way of ending."""
    carry_out(plan, typed=typed)


# ---------------------------------------------------------------- the checks themselves

FORWARD = Event("server", "delivered", Request(1, "t", {"_meta": {"progressToken": 1}}))
ASKED = Event("server", "sent", Request(7, "ask", {"origin": 1}))
TOLD = Event("server", "sent", Notification(CANCELLED, {"requestId": 7}))
REPLIED = Event("server", "delivered", Result(7, {}))
GIVEN_UP = Event("server", "delivered", Notification(CANCELLED, {"requestId": 1}))
ANSWER = Event("server", "sent", Result(1, {}))
SETTLED = Event("server", "settled", 1)
OPENING = Event("server", "sent", Request(7, "initialize"))
TAKEN_BACK = Event("server", "taken back", ASKED.message)
CUT_OFF = Event("server", "cut off", None)


def progress(value: float) -> Event:
    return Event("server", "sent", Notification(PROGRESS, {"progressToken": 1, "progress": value}))


@pytest.mark.parametrize(
    "events",
    [
        [FORWARD, ASKED, REPLIED, ANSWER, SETTLED],
        [FORWARD, ASKED, TOLD, ANSWER, SETTLED],
        [FORWARD, ASKED, GIVEN_UP, TOLD, SETTLED],
        [FORWARD, ASKED, TAKEN_BACK, ANSWER, SETTLED],
        [FORWARD, ASKED, CUT_OFF, ANSWER, SETTLED],
        [FORWARD, ASKED, TOLD, REPLIED, ANSWER, SETTLED, GIVEN_UP],
        [FORWARD, progress(1), progress(2), ANSWER, SETTLED],
    ],
)
def test_the_checks_let_pass_what_is_lawful(events: list[Event]) -> None:
    laws = Laws()
    for event in events:
        laws.take(event)

    assert laws.left_open() == []


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([FORWARD, ASKED, ANSWER], "outlived"),
        ([FORWARD, ASKED, SETTLED], "outlived"),
        ([FORWARD, ASKED, TOLD, TOLD], "not open"),
        ([FORWARD, ASKED, REPLIED, TOLD], "not open"),
        ([FORWARD, ASKED, TAKEN_BACK, TOLD], "not open"),
        ([TOLD], "never sent"),
        ([OPENING, TOLD], "initialize was cancelled"),
        ([FORWARD, GIVEN_UP, ANSWER], "after its cancel"),
        ([FORWARD, GIVEN_UP, ASKED], "after the cancel"),
        ([FORWARD, ANSWER, SETTLED, ASKED], "after the end"),
        ([FORWARD, ANSWER, ANSWER], "two answers"),
        ([ANSWER], "which nobody sent"),
        ([FORWARD, ASKED, REPLIED, ASKED], "used twice"),
        ([FORWARD, progress(1), progress(1)], "does not increase"),
        ([FORWARD, ANSWER, progress(1)], "progress after the answer"),
        ([FORWARD, GIVEN_UP, progress(1)], "progress after the cancel"),
        ([FORWARD, ANSWER, SETTLED, SETTLED], "settled twice"),
    ],
)
def test_the_checks_see_each_fault(events: list[Event], what: str) -> None:
    laws = Laws()
    for event in events[:-1]:
        laws.take(event)

    with pytest.raises(AssertionError, match=what):
        laws.take(events[-1])


def test_the_checks_see_what_is_left_open() -> None:
    laws = Laws()
    for event in [FORWARD, ASKED]:
        laws.take(event)

    assert laws.left_open() == [7]
