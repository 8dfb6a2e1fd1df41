"""The ledger of a replayed handler, and the state it travels in."""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.errors import Divergence
from mcp_trio.wire.jsonrpc import Unencodable
from mcp_trio.wire.mrtr import (
    QUESTION_METHODS,
    AnswerLedger,
    BadState,
    HmacSealer,
    Question,
    State,
    StateTooLarge,
    Step,
    digest,
    input_required,
    seal,
    unseal,
)

if TYPE_CHECKING:
    from collections.abc import Generator
    from random import Random

LIMIT = 65_536
KEY = bytes(range(32))
SEALER = HmacSealer([KEY])
NAME = Question("elicitation/create", {"mode": "form", "message": "Your name?"})
MAIL = Question("elicitation/create", {"mode": "form", "message": "Your mail?"})
YES = {"action": "accept", "content": {"ok": True}}
NO = {"action": "decline"}


def next_round(ledger: AnswerLedger, responses: object = None) -> AnswerLedger:
    """The retry: what the client's text of the state and of its answers makes of the ledger."""
    payload = json.loads(json.dumps(ledger.to_payload()))
    retry = AnswerLedger.from_payload(payload)
    retry.take(responses)
    return retry


# ---------------------------------------------------------------- digest

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=4)


def reversed_members(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: reversed_members(v) for k, v in reversed(value.items())}
    return [reversed_members(v) for v in value] if isinstance(value, list) else value


@given(json_objects)
def test_a_digest_does_not_depend_on_the_order_of_members(params: dict[str, Any]) -> None:
    assert digest("tools/call", params) == digest("tools/call", reversed_members(params))


@pytest.mark.spec("M-7")
def test_a_digest_leaves_out_what_changes_from_round_to_round() -> None:
    first = {"name": "pay", "arguments": {"_meta": 1}, "_meta": {"progressToken": 1}}
    retry = {**first, "_meta": {}, "inputResponses": {"a": {}}, "requestState": "s"}

    assert digest("tools/call", first) == digest("tools/call", retry)
    assert digest("tools/call", None) == digest("tools/call", {})


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("prompts/get", {"name": "a"}),
        ("tools/call", {"name": "b"}),
        ("tools/call", {"name": "a", "arguments": {}}),
        ("tools/call", {"name": ["a"]}),
        ("tools/call", {"name": "a", "x": None}),
        ("tools/call", {}),
        ("tools/cal", {"name": "a"}),
    ],
)
def test_a_digest_tells_requests_apart(method: str, params: dict[str, Any]) -> None:
    assert digest(method, params) != digest("tools/call", {"name": "a"})


def test_nested_members_named_like_the_envelope_count() -> None:
    inner = {"arguments": {"requestState": "a"}}

    assert digest("tools/call", inner) != digest("tools/call", {"arguments": {}})


def test_what_is_no_json_has_no_digest() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(Unencodable, match=r"^\$\.a\[1\]: "):
        digest("tools/call", {"a": [1, object()]})
    with pytest.raises(Unencodable, match="contains itself"):
        digest("tools/call", {"a": endless})


def test_looking_for_what_is_no_json_comes_to_an_end() -> None:
    """The value contains itself behind the one that cannot be written."""
    endless: list[Any] = [object()]
    endless.append(endless)

    with pytest.raises(Unencodable):
        digest("tools/call", {"a": endless})


# ---------------------------------------------------------------- questions


@pytest.mark.spec("M-4")
@pytest.mark.parametrize("method", ["tools/call", "ping", "", "elicitation/Create"])
def test_only_three_things_can_be_asked_for(method: str) -> None:
    assert {Question(known).method for known in QUESTION_METHODS} == QUESTION_METHODS
    with pytest.raises(ValueError, match="must be in"):
        Question(method)


def test_a_question_is_open_until_it_is_answered() -> None:
    ledger = AnswerLedger()

    asked = ledger.ask(NAME)
    assert asked.answer is None
    assert ledger.open == {asked.key: {"method": NAME.method, "params": NAME.params}}

    ledger = next_round(ledger, {asked.key: YES})
    assert ledger.open == {}
    assert ledger.ask(NAME).answer == YES
    assert ledger.open == {}


def test_an_explicit_key_is_the_key() -> None:
    ledger = AnswerLedger()

    assert ledger.ask(NAME, "who").key == "who"
    assert list(ledger.open) == ["who"]


def test_the_order_in_which_siblings_ask_does_not_matter() -> None:
    """Keys that number the questions of a run gave one sibling the answer of the other."""
    ledger = AnswerLedger()
    keys = {ledger.ask(NAME).key: "name", ledger.ask(MAIL).key: "mail"}

    ledger = next_round(ledger, {key: {"to": what} for key, what in keys.items()})

    assert ledger.ask(MAIL).answer == {"to": "mail"}
    assert ledger.ask(NAME).answer == {"to": "name"}


def test_a_sibling_more_does_not_move_the_answers_of_others() -> None:
    ledger = AnswerLedger()
    name = ledger.ask(NAME).key

    ledger = next_round(ledger, {name: YES})

    assert ledger.ask(MAIL).answer is None
    assert ledger.ask(NAME).answer == YES


def test_identical_questions_are_numbered_within_a_run() -> None:
    ledger = AnswerLedger()
    first, second = ledger.ask(NAME).key, ledger.ask(NAME).key
    assert first != second

    ledger = next_round(ledger, {first: YES, second: NO})

    assert [ledger.ask(NAME).answer for _ in range(3)] == [YES, NO, None]


def test_an_explicit_key_does_not_count_among_identical_questions() -> None:
    ledger = AnswerLedger()
    key = ledger.ask(NAME).key

    ledger = next_round(ledger, {key: YES})
    assert ledger.ask(NAME, "again").answer is None
    assert ledger.ask(NAME).answer == YES


def test_one_explicit_key_for_one_question_asked_twice_is_one_question() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "who")
    ledger.ask(NAME, "who")
    assert list(ledger.open) == ["who"]

    ledger = next_round(ledger, {"who": YES})
    assert [ledger.ask(NAME, "who").answer for _ in range(2)] == [YES, YES]


def test_one_explicit_key_for_two_questions_of_a_run_is_a_divergence() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")

    with pytest.raises(Divergence, match="two questions of one run") as caught:
        ledger.ask(MAIL, "q")
    assert caught.value.key == "q"
    assert "Your name?" in caught.value.before
    assert "Your mail?" in caught.value.now
    assert list(ledger.open.values()) == [{"method": NAME.method, "params": NAME.params}]


def test_a_key_answered_as_another_question_is_a_divergence() -> None:
    """The author reads what was asked then and what is asked now."""
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")
    ledger = next_round(ledger, {"q": YES})

    with pytest.raises(Divergence, match=r"'q' stood for .*Your name.* now .*Your mail") as caught:
        ledger.ask(MAIL, "q")
    assert "runs again from its start" in str(caught.value)


def test_a_question_that_was_never_answered_may_change() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")

    ledger = next_round(ledger)
    assert ledger.ask(MAIL, "q").answer is None

    ledger = next_round(ledger, {"q": YES})
    assert ledger.ask(MAIL, "q").answer == YES


def test_an_explicit_key_that_is_another_questions_key_gets_no_answer_of_it() -> None:
    ledger = AnswerLedger()
    key = ledger.ask(NAME).key
    ledger = next_round(ledger, {key: YES})

    with pytest.raises(Divergence):
        ledger.ask(MAIL, key)


@pytest.mark.parametrize("letter", ["x", "\u00e9", "\u20ac", "\U0001f600"])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_question_is_remembered_shortened(letter: str, shift: int) -> None:
    """Wherever the cut falls in a character."""
    ledger = AnswerLedger()
    long = Question(NAME.method, {"message": "-" * shift + letter * 1_000})
    ledger.ask(long, "q")
    ledger = next_round(ledger, {"q": YES})
    assert len(json.dumps(ledger.to_payload(), ensure_ascii=False).encode()) < 400

    with pytest.raises(Divergence) as caught:
        ledger.ask(NAME, "q")
    assert letter in caught.value.before


def test_a_question_that_is_no_json_is_not_entered() -> None:
    ledger = AnswerLedger()

    with pytest.raises(Unencodable):
        ledger.ask(Question(NAME.method, {"message": object()}))
    assert ledger.open == {}


def test_a_withdrawn_question_is_not_open() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")

    ledger.withdraw("q")
    ledger.withdraw("q")

    assert (ledger.open, ledger.to_payload()) == ({}, {})
    assert ledger.ask(MAIL, "q").answer is None


def test_an_answer_is_the_askers_own() -> None:
    """Else a handler that changes what it was answered changes the state."""
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")
    ledger = next_round(ledger, {"q": YES})

    answer = ledger.ask(NAME, "q").answer
    assert answer == YES
    answer["content"]["ok"] = False

    assert ledger.ask(NAME, "q").answer == YES
    assert next_round(ledger).ask(NAME, "q").answer == YES


# ---------------------------------------------------------------- the answers of a retry


@pytest.mark.spec("M-16")
def test_keys_that_were_not_asked_are_ignored() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "name")

    ledger = next_round(ledger, {"mail": YES})

    assert ledger.ask(NAME, "name").answer is None
    assert ledger.ask(MAIL, "mail").answer is None


@pytest.mark.spec("M-16")
@pytest.mark.parametrize("value", [None, True, 1, "accept", [], [{}]])
@pytest.mark.parametrize("restored", [True, False])
def test_an_answer_that_is_no_object_is_asked_for_again(value: object, *, restored: bool) -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")

    ledger = next_round(ledger) if restored else AnswerLedger()
    ledger.take({"q": value})

    assert ledger.ask(NAME, "q").answer is None
    assert list(ledger.open) == ["q"]


@pytest.mark.spec("M-15")
@pytest.mark.parametrize("responses", [[], "q", 1, False])
def test_responses_that_are_no_object_are_refused(responses: object) -> None:
    with pytest.raises(ValueError, match="must be an object"):
        AnswerLedger().take(responses)


@pytest.mark.spec("M-16")
def test_a_missing_answer_is_asked_for_again_and_the_others_are_kept() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "name")
    ledger.ask(MAIL, "mail")

    ledger = next_round(ledger, {"name": YES})
    assert ledger.ask(NAME, "name").answer == YES
    ledger.ask(MAIL, "mail")
    assert list(ledger.open) == ["mail"]

    ledger = next_round(ledger, {"mail": NO})
    assert (ledger.ask(NAME, "name").answer, ledger.ask(MAIL, "mail").answer) == (YES, NO)


def test_what_has_been_answered_is_not_answered_anew() -> None:
    ledger = AnswerLedger()
    ledger.ask(NAME, "q")

    ledger = next_round(next_round(ledger, {"q": YES}), {"q": NO})

    assert ledger.ask(NAME, "q").answer == YES


def test_an_answer_is_kept_through_a_run_that_does_not_ask_for_it() -> None:
    """A slow sibling is suspended before it asks again."""
    ledger = AnswerLedger()
    ledger.ask(NAME, "slow")

    ledger = next_round(ledger, {"slow": YES})
    ledger.ask(MAIL, "fast")
    ledger = next_round(ledger, {"fast": NO})

    assert ledger.ask(NAME, "slow").answer == YES


def test_an_answer_is_taken_in_a_round_after_the_one_that_asked() -> None:
    """The question was asked, if not in the last run."""
    ledger = AnswerLedger()
    ledger.ask(NAME, "slow")

    ledger = next_round(next_round(ledger), {"slow": YES})

    assert ledger.ask(NAME, "slow").answer == YES


def test_without_a_state_answers_match_by_key_alone() -> None:
    first = AnswerLedger()
    key = first.ask(NAME).key

    ledger = AnswerLedger()
    ledger.take({key: YES, "later": NO, "unknown": NO})
    assert ledger.ask(NAME).answer == YES
    ledger.ask(MAIL, "now")

    # The last round's answers to questions that this run had not come to are not lost.
    ledger = next_round(ledger, {"now": YES})
    assert ledger.ask(NAME).answer == YES
    assert ledger.ask(MAIL, "now").answer == YES
    assert ledger.ask(MAIL, "later").answer == NO

    # From then on the answer belongs to the question that took it.
    with pytest.raises(Divergence):
        next_round(ledger).ask(NAME, "later")


# ---------------------------------------------------------------- steps


def test_a_recorded_step_is_not_run_again() -> None:
    ledger = AnswerLedger()
    assert ledger.once("number") is Step.TO_RUN
    assert ledger.record("number", 17) == 17
    assert ledger.once("number") == 17

    assert next_round(next_round(ledger)).once("number") == 17


def test_a_step_may_come_to_null() -> None:
    ledger = AnswerLedger()
    ledger.record("mail sent", None)

    assert next_round(ledger).once("mail sent") is None


def test_every_run_sees_a_step_alike() -> None:
    ledger = AnswerLedger()

    assert ledger.record("pair", (1, 2)) == [1, 2]
    assert ledger.once("pair") == next_round(ledger).once("pair") == [1, 2]


def test_the_value_of_a_step_is_the_callers_own() -> None:
    ledger = AnswerLedger()
    ledger.record("list", [1])

    ledger.once("list").append(2)

    assert ledger.once("list") == [1]


def test_a_step_that_was_run_twice_has_to_come_to_the_same() -> None:
    ledger = AnswerLedger()
    ledger.record("n", {"a": 1, "b": 2})
    ledger.record("n", {"b": 2, "a": 1})

    with pytest.raises(Divergence, match=r"run twice: key 'n' stood for .* now stands for 2") as e:
        ledger.record("n", 2)
    assert (e.value.before, e.value.now) == ('{"a":1,"b":2}', "2")
    assert ledger.once("n") == {"a": 1, "b": 2}


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": object()}, "\ud800"])
def test_a_step_that_is_no_json_is_not_recorded(value: object) -> None:
    ledger = AnswerLedger()

    with pytest.raises(Unencodable):
        ledger.record("n", value)
    assert ledger.once("n") is Step.TO_RUN


def test_questions_and_steps_do_not_share_their_keys() -> None:
    ledger = AnswerLedger()
    ledger.record("k", 1)
    ledger.ask(NAME, "k")

    ledger = next_round(ledger, {"k": YES})

    assert (ledger.once("k"), ledger.ask(NAME, "k").answer) == (1, YES)


# ---------------------------------------------------------------- payload

marks = st.text("0123456789abcdef", min_size=32, max_size=32)
keys = st.text(max_size=3)


@st.composite
def payloads(draw: st.DrawFn) -> dict[str, Any]:
    members = {
        "answers": st.tuples(marks, st.text(), json_objects).map(list),
        "loose": json_objects,
        "asked": st.tuples(marks, st.text()).map(list),
    }
    payload: dict[str, Any] = {name: {} for name in members}
    for key in draw(st.sets(keys)):
        name = draw(st.sampled_from(sorted(members)))
        payload[name][key] = draw(members[name])
    payload["steps"] = draw(st.dictionaries(keys, json_values, max_size=3))
    return {name: member for name, member in payload.items() if member}


@given(payloads())
def test_a_payload_makes_the_ledger_it_came_from(payload: dict[str, Any]) -> None:
    text = json.dumps(payload)

    again = AnswerLedger.from_payload(json.loads(text)).to_payload()

    assert json.loads(json.dumps(again)) == payload


MARK = "0" * 32


@pytest.mark.spec("M-6")
@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        "",
        {"unknown": {}},
        {"answers": []},
        {"answers": {"k": {}}},
        {"answers": {"k": [MARK, "", None]}},
        {"answers": {"k": [MARK, "", []]}},
        {"answers": {"k": [MARK, ""]}},
        {"answers": {"k": [MARK, "", {}, 1]}},
        {"answers": {"k": [MARK[1:], "", {}]}},
        {"answers": {"k": [MARK + "\n", "", {}]}},
        {"answers": {"k": [MARK[1:] + "A", "", {}]}},
        {"answers": {"k": [0, "", {}]}},
        {"answers": {"k": [MARK, None, {}]}},
        {"answers": {1: [MARK, "", {}]}},
        {"loose": {"k": 1}},
        {"loose": None},
        {"asked": {"k": [MARK]}},
        {"asked": {"k": MARK}},
        {"asked": {"k": ["x", ""]}},
        {"steps": [1]},
        {"steps": {1: 1}},
        {"steps": {"k": object()}},
        {"answers": {"k": [MARK, "", {}]}, "asked": {"k": [MARK, ""]}},
        {"answers": {"k": [MARK, "", {}]}, "loose": {"k": {}}},
        {"loose": {"k": {}}, "asked": {"k": [MARK, ""]}},
    ],
)
def test_a_payload_that_is_none_is_refused(payload: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        AnswerLedger.from_payload(payload)


@given(st.dictionaries(st.sampled_from(["answers", "loose", "asked", "steps"]), json_values))
def test_whatever_a_payload_holds_it_is_taken_or_refused(payload: dict[str, Any]) -> None:
    try:
        ledger = AnswerLedger.from_payload(payload)
    except ValueError:
        return
    ledger.ask(NAME)
    ledger.to_payload()


# ---------------------------------------------------------------- handlers, replayed

#: A sibling of a handler: what it asks in turn. A question that depends on the answer before
#: it holds that answer in its text.
Sibling = list[tuple[str, bool, bool]]  # text, whether it depends, whether it has a key

siblings = st.lists(
    st.lists(st.tuples(st.sampled_from("ABC"), st.booleans(), st.booleans()), max_size=3),
    min_size=1,
    max_size=4,
)


def played(sibling: Sibling, me: int) -> Generator[tuple[Question, str | None], Any, None]:
    """Ask in turn, and check that each answer is the answer to what was asked."""
    said = ""
    for number, (text, depends, keyed) in enumerate(sibling):
        message = f"{text}<{said}>" if depends else text
        question = Question("elicitation/create", {"message": message})
        answer = yield question, f"{me}/{number}" if keyed else None
        assert answer == {"to": message}
        said = answer["to"]


def run_once(handler: list[Sibling], ledger: AnswerLedger, random: Random, slow: float) -> bool:
    """One run of the handler under some schedule; true if it got to its end.

    Once a question is open, siblings that are *slow* may not come to theirs.
    """
    tasks = {me: played(sibling, me) for me, sibling in enumerate(handler)}
    ready: list[tuple[int, Any]] = [(me, None) for me in tasks]
    finished = 0
    while ready and not (ledger.open and random.random() < slow):
        me, answer = ready.pop(random.randrange(len(ready)))
        try:
            question, key = tasks[me].send(answer)
        except StopIteration:
            finished += 1
            continue
        asked = ledger.ask(question, key)
        if asked.answer is not None:
            ready.append((me, asked.answer))
    return finished == len(tasks)


@given(
    handler=siblings,
    random=st.randoms(use_true_random=False),
    slow=st.sampled_from([0.0, 0.5, 1.0]),
    forgets=st.sampled_from([0.0, 0.3]),
    stateless=st.booleans(),
)
def test_a_replayed_handler_asks_each_question_once(
    *, handler: list[Sibling], random: Random, slow: float, forgets: float, stateless: bool
) -> None:
    """And gets each answer at its question, whatever the schedule of each run.

    With *stateless* the first retry comes without its state, which was not sent.
    """
    ledger = AnswerLedger()
    answered: list[str] = []
    for round_ in range(200):
        done = run_once(handler, ledger, random, slow)
        if done:
            break
        result = input_required(ledger, None)
        responses = {
            key: {"to": request["params"]["message"]}
            for key, request in result["inputRequests"].items()
            if random.random() >= forgets
        }
        answered += responses
        text = seal(state_of(ledger.to_payload()), SEALER, limit=LIMIT)
        if stateless and round_ == 0:
            ledger = AnswerLedger()
        else:
            opened = unseal(text, SEALER, now=99, principal="alice", binding=b"b" * 32, limit=LIMIT)
            ledger = AnswerLedger.from_payload(opened.payload)
        ledger.take(responses)

    assert done
    assert ledger.open == {}
    assert len(answered) == len(set(answered)) == sum(map(len, handler))


# ---------------------------------------------------------------- the result


@pytest.mark.spec("M-3")
def test_a_result_asks_for_what_is_open_and_brings_the_state() -> None:
    ledger = AnswerLedger()
    nothing = AnswerLedger()
    ledger.ask(NAME, "q")
    requests = {"q": {"method": NAME.method, "params": NAME.params}}

    assert input_required(ledger, "s") == {
        "resultType": "input_required",
        "inputRequests": requests,
        "requestState": "s",
    }
    assert input_required(ledger, None) == {
        "resultType": "input_required",
        "inputRequests": requests,
    }
    assert input_required(nothing, "") == {"resultType": "input_required", "requestState": ""}
    with pytest.raises(ValueError, match="neither"):
        input_required(nothing, None)


# ---------------------------------------------------------------- the state


def state_of(payload: dict[str, Any]) -> State:
    return State(payload=payload, expires=100.0, principal="alice", binding=b"b" * 32)


STATE = evolve(state_of({"answers": {"q": [MARK, "?", {"\u20ac": 1}]}}), nonce="n1")
SEALED = seal(STATE, SEALER, limit=LIMIT)


def refused(text: str, sealer: HmacSealer = SEALER, **changed: Any) -> str:
    """The reason why *text* is refused."""
    claims = {"now": 99.0, "principal": "alice", "binding": b"b" * 32, "limit": LIMIT}
    with pytest.raises(BadState) as caught:
        unseal(text, sealer, **{**claims, **changed})
    assert caught.value.reason not in BadState.public
    assert caught.value.public == BadState.public
    return caught.value.reason


@given(
    payload=payloads(),
    expires=st.floats(allow_nan=False, allow_infinity=False),
    principal=st.none() | st.text(),
    binding=st.binary(max_size=32),
    nonce=st.text(max_size=8),
)
def test_a_state_opens_to_what_was_sealed(
    payload: dict[str, Any], expires: float, principal: str | None, binding: bytes, nonce: str
) -> None:
    state = State(
        payload=payload, expires=expires, principal=principal, binding=binding, nonce=nonce
    )

    text = seal(state, SEALER, limit=LIMIT)
    before = math.nextafter(expires, -math.inf)

    assert text.isascii()
    opened = unseal(text, SEALER, now=before, principal=principal, binding=binding, limit=LIMIT)
    assert opened == state


@pytest.mark.spec("M-6")
@given(at=st.integers(0, len(SEALED) - 1), char=st.characters())
@example(at=0, char="H")
def test_a_state_with_one_character_changed_is_refused(at: int, char: str) -> None:
    text = SEALED[:at] + char + SEALED[at + 1 :]
    if text != SEALED:
        refused(text)


@pytest.mark.spec("M-6")
def test_a_state_with_any_byte_changed_removed_or_added_is_refused() -> None:
    """Also where base64 reads the changed text as the same bytes."""
    for at in range(len(SEALED)):
        for char in ("A", "B", "_", "=", ".", "\n", chr(ord(SEALED[at]) ^ 1)):
            if char != SEALED[at]:
                refused(SEALED[:at] + char + SEALED[at + 1 :])
            refused(SEALED[:at] + char + SEALED[at:])
        refused(SEALED[:at])
        refused(SEALED[:at] + SEALED[at + 1 :])
    for more in ("=", ".", "\n", " ", "\x00", "A", "\u20ac", "\ud800"):
        refused(SEALED + more)


@pytest.mark.spec("M-6")
@given(st.text() | st.text("h1.AZ_-=", max_size=20) | st.text().map("h1.AAAAAAAA.".__add__))
def test_a_text_that_was_never_sealed_is_refused(text: str) -> None:
    refused(text)


@pytest.mark.spec("M-6")
def test_parts_of_two_states_do_not_make_a_third() -> None:
    other = seal(evolve(STATE, principal="bob"), SEALER, limit=LIMIT)
    body, code = SEALED.split(".")[2], other.split(".")[3]

    assert refused(".".join([*SEALED.split(".")[:2], body, code])) == "the seal is broken"


@pytest.mark.spec("M-7")
def test_a_state_is_refused_outside_of_what_it_was_sealed_for() -> None:
    assert refused(SEALED, now=100.0) == "expired 0 s ago"
    assert refused(SEALED, now=1e9) == "expired 999999900 s ago"
    assert refused(SEALED, binding=b"c" * 32) == "it belongs to another request"
    assert refused(SEALED, principal="bob") == "it belongs to another principal"
    assert refused(SEALED, principal=None) == "it belongs to another principal"
    assert refused(SEALED, principal="") == "it belongs to another principal"


@pytest.mark.spec("M-7")
def test_the_anonymous_one_is_nobody_by_an_empty_name() -> None:
    text = seal(evolve(STATE, principal=None), SEALER, limit=LIMIT)

    assert refused(text, principal="") == "it belongs to another principal"


def test_a_principal_is_not_readable_in_a_state() -> None:
    data = SEALER.unseal(SEALED)

    assert b"alice" not in data
    assert "alice" not in SEALED


def test_a_state_is_bounded_before_anything_is_decoded() -> None:
    """Both ways: what is sealed can be brought back."""
    size = len(SEALED)

    assert seal(STATE, SEALER, limit=size) == SEALED
    with pytest.raises(StateTooLarge, match=f"{size} bytes; the limit is {size - 1}") as caught:
        seal(STATE, SEALER, limit=size - 1)
    assert (caught.value.size, caught.value.limit) == (size, size - 1)
    assert refused(SEALED, limit=size - 1) == f"{size} bytes; the limit is {size - 1}"
    assert refused("\u20ac" * size, limit=size - 1) == f"{size} bytes; the limit is {size - 1}"


@pytest.mark.parametrize("expires", [math.nan, math.inf, -math.inf])
def test_a_state_expires_at_some_time(expires: float) -> None:
    with pytest.raises(ValueError, match="cannot expire"):
        seal(evolve(STATE, expires=expires), SEALER, limit=LIMIT)


def test_a_payload_that_is_no_json_is_not_sealed() -> None:
    with pytest.raises(Unencodable):
        seal(evolve(STATE, payload={"steps": object()}), SEALER, limit=LIMIT)


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"\xff", b'[1,null,"","",{},1]', b'[null,null,"","",{}]']
)
def test_what_is_sealed_and_no_state_is_refused(data: bytes) -> None:
    assert refused(SEALER.seal(data)).startswith("sealed, but no state: ")


# ---------------------------------------------------------------- the seal


@given(st.binary(max_size=100))
def test_a_sealer_returns_what_it_sealed(data: bytes) -> None:
    assert SEALER.unseal(SEALER.seal(data)) == data


def test_the_newest_key_seals_and_all_open() -> None:
    old, new = HmacSealer([KEY]), HmacSealer([b"n" * 32, KEY])

    assert new.unseal(old.seal(b"data")) == b"data"
    assert new.unseal(new.seal(b"data")) == b"data"
    assert refused(new.seal(b"data"), old) == "sealed with a key that is not held here"


def test_a_key_id_does_not_make_another_key_good() -> None:
    mine, other = HmacSealer([KEY]), HmacSealer([b"n" * 32])
    key_id = mine.seal(b"").split(".")[1]
    forged = other.seal(b"data").split(".")
    forged[1] = key_id

    assert refused(".".join(forged), mine) == "the seal is broken"


def test_neither_the_text_nor_the_repr_shows_a_key() -> None:
    text = repr(SEALER) + SEALED

    assert repr(KEY) not in text
    assert KEY.hex() not in text
    assert urlsafe_b64encode(KEY).decode().rstrip("=") not in text


def test_a_key_has_to_be_there_and_long_enough() -> None:
    with pytest.raises(ValueError, match="at least one key"):
        HmacSealer([])
    with pytest.raises(ValueError, match="16 random bytes"):
        HmacSealer([KEY, b"secret"])


def test_a_sealed_text_stays_what_it_is() -> None:
    """A changed format would strand the rounds that are open during an update."""
    payload = {"answers": {"q": [MARK, "?", {"\u20ac": 1}]}}
    alice, binding = "K9gGyX8OAK8aH8Myj6djqQ==", "YmJi" * 10 + "YmI="

    assert msgspec.json.decode(SEALER.unseal(SEALED)) == [100.0, alice, binding, "n1", payload]
    sealed = "h1._KbB043R.e30.1ylTZBVMk8ZLX5NI1lwIbsqhkmxiMx5nwBY7XyIVodM"
    assert SEALER.seal(b"{}") == sealed
