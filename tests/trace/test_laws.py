"""The laws hold over our own sessions, and see every kind of breach."""

from __future__ import annotations

import pytest

from mcp_trio.trace.laws import LAWS, Finding, check, report
from mcp_trio.trace.record import Entry, Recording, Side
from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result
from tests.trace.sessions import dine


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("side", [None, "client", "server"])
async def test_the_laws_hold_over_a_session(
    autojump_clock: object, *, typed: bool, side: str | None
) -> None:
    findings = check(await dine(typed=typed, side=side))

    assert [finding.breaches for finding in findings] == [()] * len(LAWS)


async def test_findings_say_how_much_there_was_to_judge(autojump_clock: object) -> None:
    assert [finding.seen for finding in check(await dine())] == [
        "5 answered, 2 cancelled",
        "2 arrived",
        "2 answered, 1 cancelled",  # the call made from within a question is one of them
    ]


# ---------------------------------------------------------------- breaches, made by hand

CALL = Request(2, "tools/call", {"name": "t", "_meta": {"progressToken": "p"}})
QUESTION = Request(1, "elicitation/create", {})
DONE = Result(2, {})
ANSWER = Result(1, {})


def cancel(id_: int) -> Notification:
    return Notification("notifications/cancelled", {"requestId": id_})


def entry(name: str, side: Side, **fields: object) -> Entry:
    return Entry(time=0, name=name, side=side, fields=fields)


def sent(side: Side, message: object) -> Entry:
    return entry("message.sent", side, message=message)


def got(side: Side, message: object) -> Entry:
    return entry("message.received", side, message=message)


CAUSED = entry("call.opened", "server", id=1, method="elicitation/create", origin=2)
ENDED = entry("request.settled", "server", id=2, verdict="ANSWER")


def breaches(*entries: Entry) -> list[str]:
    return [breach for finding in check(Recording(entries)) for breach in finding.breaches]


def test_a_second_answer_is_a_breach() -> None:
    assert breaches(sent("client", CALL), got("client", DONE), got("client", Result(2, {}))) == [
        "tools/call #2 of the client was answered again"
    ]


@pytest.mark.parametrize("answer", [Result("2", {}), Failure(7, -1, "no")])
def test_an_answer_that_nobody_asked_for_is_a_breach(answer: Result | Failure) -> None:
    assert breaches(sent("client", CALL), got("client", answer)) == [
        f"the server answered #{answer.id}, which nobody asked"
    ]


def test_an_error_whose_request_is_unknown_is_none() -> None:
    assert breaches(got("client", Failure(None, -32700, "no JSON"))) == []


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (DONE, "an answer"),
        (
            Notification("notifications/progress", {"progressToken": "p", "progress": 1}),
            "notifications/progress",
        ),
        (QUESTION, "elicitation/create"),
    ],
)
def test_what_is_sent_for_a_call_after_its_cancellation_arrived_is_a_breach(
    message: object, what: str
) -> None:
    after = (CAUSED, sent("server", message))
    found = breaches(got("server", CALL), got("server", cancel(2)), *after)

    assert f"the server sent {what} for tools/call #2 of the client" in found


def test_an_answer_that_crosses_a_cancellation_is_none() -> None:
    assert breaches(sent("client", CALL), sent("client", cancel(2)), got("client", DONE)) == []
    assert breaches(got("server", CALL), sent("server", DONE), got("server", cancel(2))) == []


def test_a_reverse_call_that_is_open_when_its_forward_call_is_answered_is_a_breach() -> None:
    outlived = [
        "elicitation/create #1 of the server was open when tools/call #2 of the client was answered"
    ]

    seen_by_server = (got("server", CALL), CAUSED, sent("server", QUESTION), sent("server", DONE))
    assert breaches(*seen_by_server) == outlived
    seen_by_client = (sent("client", CALL), got("client", QUESTION), got("client", DONE))
    assert breaches(*seen_by_client) == outlived


def test_a_reverse_call_that_is_left_open_by_a_cancelled_forward_call_is_a_breach() -> None:
    opening = (got("server", CALL), CAUSED, sent("server", QUESTION), got("server", cancel(2)))

    assert breaches(*opening, ENDED) == [
        "elicitation/create #1 of the server is open although tools/call #2 of the client has ended"
    ]
    assert breaches(*opening, sent("server", cancel(1)), ENDED) == []
    assert breaches(*opening) == []  # its handler is still unwinding


def test_a_reverse_call_that_is_cancelled_twice_is_a_breach() -> None:
    found = breaches(
        sent("client", CALL),
        got("client", QUESTION),
        got("client", cancel(1)),
        got("client", cancel(1)),
    )

    assert found == ["elicitation/create #1 of the server was cancelled 2 times"]


def test_a_reverse_call_that_is_abandoned_in_silence_is_a_breach() -> None:
    given_up = entry("call.abandoned", "server", id=1, method="elicitation/create", withdrawn=False)
    opening = (got("server", CALL), CAUSED, sent("server", QUESTION), given_up)

    assert breaches(*opening) == [
        "elicitation/create #1 of the server was abandoned, and nobody was told"
    ]
    assert breaches(*opening, sent("server", cancel(1))) == []


def test_a_report_has_each_law_each_breach_and_the_sum() -> None:
    findings = (
        Finding(law="one", seen="1 seen"),
        Finding(law="second", seen="2 seen", breaches=("somebody did something",)),
    )

    assert report(findings).splitlines() == [
        "held    one     1 seen",
        "BROKEN  second  2 seen",
        "        - somebody did something",
        "laws: 1 held, 1 BROKEN",
    ]
