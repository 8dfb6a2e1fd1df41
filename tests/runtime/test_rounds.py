"""Questions that travel in results: the same handler, run again, does the same as a waiting one."""

from __future__ import annotations

import json
import logging
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
import trio.testing
from attrs import field, frozen
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio import (
    Accepted,
    CannotSuspend,
    Context,
    Declined,
    Elicit,
    ErrorCode,
    Limits,
    NoReverseRoute,
    OriginSettled,
    Sample,
    Server,
)
from mcp_trio.types import Tool
from mcp_trio.wire.jsonrpc import Failure, Request, Result
from mcp_trio.wire.mrtr import BadState
from mcp_trio.wire.revisions import ENVELOPED, REVISIONS
from tests.runtime.test_serve_here import Log
from tests.server.host import EVERYTHING, NEWEST, Host, hosting, plugged_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

MODERN: Final = ENVELOPED[-1].version
PREFIX: Final = "io.modelcontextprotocol/"
ELICIT: Final = "elicitation/create"
KEYS: Final = bytes(32), bytes(range(32))

ERAS = pytest.mark.parametrize("version", [NEWEST, MODERN])


@frozen
class Answer:
    text: str


def doing(work: Callable[[Context], Awaitable[object]], **options: Any) -> Server:
    """A server whose one tool does *work*, and returns the text of what that returns."""
    server = Server("s", "1", revisions=[*REVISIONS], **options)

    @server.tool
    async def do(ctx: Context, n: int = 0) -> str:
        return str(await work(ctx))

    return server


async def ask(ctx: Context, message: str = "?", key: str | None = None) -> str:
    """Ask the user and return the text that they gave."""
    answer = await ctx.elicit(Answer, message, key=key)
    assert isinstance(answer, Accepted), answer
    return answer.content.text


def accept(text: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"text": text}}


# ---------------------------------------------------------------- a client of rounds


def enveloped(capabilities: object = EVERYTHING, **params: Any) -> dict[str, Any]:
    """Params with an envelope; those that are None are left out."""
    meta = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": capabilities}
    return {**{k: v for k, v in params.items() if v is not None}, "_meta": meta}


async def call(
    host: Host,
    *,
    answers: object = None,
    state: object = None,
    name: str = "do",
    arguments: object = None,
) -> dict[str, Any]:
    """Make one round and return its answer, the whole message."""
    return await host.call(
        "tools/call",
        enveloped(name=name, arguments=arguments, inputResponses=answers, requestState=state),
    )


async def round_of(host: Host, answers: object = None, state: object = None) -> Questions:
    """Make one round that has to end with questions."""
    answer = await call(host, answers=answers, state=state)
    assert answer.get("result", {}).get("resultType") == "input_required", answer
    return Questions(answer["result"]["inputRequests"], answer["result"]["requestState"])


async def last(host: Host, answers: object = None, state: object = None) -> str:
    """Make one round that has to be the last, and return the text of its result."""
    answer = await call(host, answers=answers, state=state)
    result = answer.get("result", {})
    assert result.get("resultType") == "complete", answer
    text: str = result["content"][0]["text"]
    return text


@frozen
class Questions:
    """What a round asks for."""

    requests: dict[str, dict[str, Any]]
    state: str

    @property
    def messages(self) -> list[str]:
        """What it asks the user."""
        return sorted(each["params"]["message"] for each in self.requests.values())

    def answered(self) -> dict[str, Any]:
        """An answer to each question, which repeats what was asked."""
        return {k: accept(f"<{q['params']['message']}>") for k, q in self.requests.items()}


@frozen
class Client:
    """Answers what it is asked until there is a result.

    Attributes:
        patchy: answers one question of a round, and leaves the others for later.
        asked: the messages of the questions that it has answered.
        rounds: how many it took.
    """

    host: Host
    patchy: bool = False
    asked: list[str] = field(factory=list)
    rounds: list[int] = field(factory=list)

    async def run(self, **params: Any) -> dict[str, Any]:
        """Return the result."""
        answered: set[str] = set()
        more: dict[str, Any] = {}
        for _ in range(50):
            result = await self.host.result("tools/call", enveloped(**params, **more))
            self.rounds.append(len(result.get("inputRequests", ())))
            if result["resultType"] == "complete":
                return result
            questions = Questions(result["inputRequests"], result["requestState"])
            assert answered.isdisjoint(questions.requests), "asked again after its answer"
            answers = questions.answered()
            if self.patchy:
                answers = dict([min(answers.items())])
            answered.update(answers)
            self.asked.extend(questions.requests[key]["params"]["message"] for key in answers)
            more = {"inputResponses": answers, "requestState": questions.state}
        raise AssertionError("no end of it")


@contextmanager
def logged(caplog: pytest.LogCaptureFixture) -> Iterator[list[str]]:
    """What is logged meanwhile, with its exceptions."""
    texts: list[str] = []
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        yield texts
    texts += [
        f"{record.getMessage()} {record.exc_info[1] if record.exc_info else ''}"
        for record in caplog.records
    ]


# ---------------------------------------------------------------- any handler, in both eras


@frozen
class Ask:
    """A question to the user, under a key of its own or none."""

    message: str
    keyed: bool


@frozen
class Once:
    """A step that must not be repeated."""

    waits: float


@frozen
class Report:
    """Progress."""


@frozen
class Sleep:
    """A checkpoint, or some time."""

    seconds: float


@frozen
class Together:
    """Steps in tasks of a nursery."""

    branches: tuple[Any, ...]


@frozen
class Swallowed:
    """Steps of which whatever comes out is swallowed, cancellations too."""

    steps: tuple[Any, ...]


@frozen
class Plan:
    """What a handler does; and that it fails when it has done that."""

    steps: tuple[Any, ...]
    fails: bool


times = st.sampled_from([0.0, 0.25, 1.0])
leaves = st.one_of(
    st.builds(Ask, st.sampled_from(["a", "b"]), st.booleans()),
    st.builds(Once, times),
    st.just(Report()),
    st.builds(Sleep, times),
)
step_lists = st.recursive(
    st.lists(leaves, max_size=4).map(tuple),
    lambda inner: st.lists(
        st.one_of(
            leaves,
            st.lists(inner, min_size=2, max_size=3).map(tuple).map(Together),
            inner.map(Swallowed),
        ),
        max_size=4,
    ).map(tuple),
    max_leaves=12,
)
plans = st.builds(Plan, step_lists, st.booleans())


@frozen
class World:
    """Carries a plan out, and counts its steps."""

    plan: Plan
    steps_run: list[str] = field(factory=list)

    async def handle(self, ctx: Context) -> str:
        values = await self._all(ctx, self.plan.steps, "")
        if self.plan.fails:
            raise ValueError(f"as planned, after {values}")
        return json.dumps(values)

    async def _all(self, ctx: Context, steps: tuple[Any, ...], path: str) -> list[Any]:
        return [await self._one(ctx, each, f"{path}/{n}") for n, each in enumerate(steps)]

    async def _one(self, ctx: Context, step: Any, path: str) -> Any:
        match step:
            case Ask(message, keyed):
                return await ask(ctx, message, path if keyed else None)
            case Once(waits):
                return await ctx.once(path, lambda: self._step(path, waits))
            case Report():
                await ctx.progress(1 + (ctx._last_progress or 0))
            case Sleep(seconds):
                await trio.sleep(seconds)
            case Together(branches):
                return await self._together(ctx, branches, path)
            case Swallowed(steps):
                try:
                    return await self._all(ctx, steps, path)
                except BaseException:  # noqa: BLE001, ASYNC103 - what a handler should not do
                    return "swallowed"  # noqa: ASYNC104 - as above
        return None

    async def _step(self, path: str, waits: float) -> list[Any]:
        if waits:
            await trio.sleep(waits)
        self.steps_run.append(path)
        return [path, waits]

    async def _together(self, ctx: Context, branches: tuple[Any, ...], path: str) -> list[Any]:
        values: list[Any] = [None] * len(branches)

        async def branch(number: int) -> None:
            values[number] = await self._all(ctx, branches[number], f"{path}.{number}")

        async with trio.open_nursery() as nursery:
            for number in range(len(branches)):
                nursery.start_soon(branch, number)
        return values


@frozen
class Ran:
    """What came of a plan."""

    content: Any
    failed: bool
    asked: list[str]
    steps_run: list[str]


async def _waiting(plan: Plan) -> Ran:
    """Run *plan* where questions are requests of the server."""
    world = World(plan)
    asked: list[str] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(params["message"])
        return accept(f"<{params['message']}>")

    async with hosting(doing(world.handle), NEWEST, EVERYTHING) as host:
        host.answers[ELICIT] = answer
        result = await host.result("tools/call", {"name": "do", "_meta": {"progressToken": 1}})
    failed = result.get("isError", False)
    return Ran(result["content"], failed, sorted(asked), sorted(world.steps_run))


async def _in_rounds(plan: Plan, *, patchy: bool) -> Ran:
    """Run *plan* where questions travel in results."""
    world = World(plan)
    async with plugged_in(doing(world.handle)) as host:
        client = Client(host, patchy)
        result = await client.run(name="do")
        assert host.asked == host.strays == []
        assert host.session.calls() == ()
    failed = result.get("isError", False)
    return Ran(result["content"], failed, sorted(client.asked), sorted(world.steps_run))


@example(
    plan=Plan((Ask("a", keyed=False), Swallowed((Ask("a", keyed=False),)), Once(0.0)), fails=True),
    patchy=False,
    schedule=None,
)
@example(
    plan=Plan(
        (Together(((Ask("a", keyed=False),), (Once(1.0), Ask("a", keyed=False)))),), fails=False
    ),
    patchy=True,
    schedule=None,
)
@given(plan=plans, patchy=st.booleans(), schedule=st.random_module())
def test_a_handler_does_the_same_whether_it_waits_or_is_run_again(
    *, plan: Plan, patchy: bool, schedule: object
) -> None:
    """Each question is asked once, each step is run once, and the result is the same."""
    clock = trio.testing.MockClock(autojump_threshold=0)
    waiting = trio.run(_waiting, plan, clock=clock)
    clock = trio.testing.MockClock(autojump_threshold=0)
    in_rounds = trio.run(lambda: _in_rounds(plan, patchy=patchy), clock=clock)

    assert in_rounds == waiting
    assert len(set(in_rounds.steps_run)) == len(in_rounds.steps_run)


# ---------------------------------------------------------------- questions and answers


@pytest.mark.spec("M-1", "M-4")
async def test_a_question_ends_the_request_and_its_answer_runs_the_handler_again() -> None:
    """2026-07-28 basic/patterns/mrtr; the last round has no traces of the others."""
    runs: list[str] = []

    async def work(ctx: Context) -> str:
        runs.append("begun")
        return f"Hello {await ask(ctx, 'Your name?')}"

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        ((key, question),) = questions.requests.items()
        result = (await call(host, answers={key: accept("Ann")}, state=questions.state))["result"]

    assert question == {
        "method": ELICIT,
        "params": {
            "mode": "form",
            "message": "Your name?",
            "requestedSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
        },
    }
    assert runs == ["begun", "begun"]
    assert result["content"] == [{"type": "text", "text": "Hello Ann"}]
    assert set(result) == {"content", "resultType", "_meta"}


async def test_identical_questions_are_told_apart_by_their_order() -> None:
    async def work(ctx: Context) -> str:
        return f"{await ask(ctx)} {await ask(ctx)} {await ask(ctx)}"

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        for text in ("one", "two"):
            (key,) = questions.requests
            questions = await round_of(host, {key: accept(text)}, questions.state)
        (key,) = questions.requests

        assert await last(host, {key: accept("three")}, questions.state) == "one two three"


@given(schedule=st.random_module())
def test_siblings_ask_in_one_round_and_each_gets_its_own_answer(schedule: object) -> None:
    """In whatever order they are run in each round."""

    async def work(ctx: Context) -> str:
        answers: dict[str, str] = {}

        async def one(message: str) -> None:
            answers[message] = await ask(ctx, message)

        async with trio.open_nursery() as nursery:
            for message in ("a", "b", "c"):
                nursery.start_soon(one, message)
        return json.dumps(answers, sort_keys=True)

    async def main() -> None:
        async with plugged_in(doing(work)) as host:
            client = Client(host)
            result = await client.run(name="do")

        assert json.loads(result["content"][0]["text"]) == {"a": "<a>", "b": "<b>", "c": "<c>"}
        assert client.rounds == [3, 0]

    trio.run(main)


async def test_several_things_are_asked_at_once_under_their_keys() -> None:
    async def work(ctx: Context) -> str:
        answers = await ctx.ask({"who": Elicit(Answer, "Who?"), "what": Sample("What?", 9)})
        return f"{[*answers]} {answers['who'].content.text} {answers['what'].content.text}"

    model = {"role": "assistant", "content": {"type": "text", "text": "it"}, "model": "m"}
    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        assert {key: each["method"] for key, each in questions.requests.items()} == {
            "who": ELICIT,
            "what": "sampling/createMessage",
        }
        answers = {"what": model, "who": accept("Ann")}
        assert await last(host, answers, questions.state) == "['who', 'what'] Ann it"


@pytest.mark.parametrize("key", [None, "the roots"])
async def test_roots_are_asked_for_in_a_round(key: str | None) -> None:
    async def work(ctx: Context) -> str:
        return (await ctx.list_roots(key=key))[0].uri

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        ((found, question),) = questions.requests.items()
        assert question == {"method": "roots/list", "params": {}}
        assert key in (None, found)
        roots = {"roots": [{"uri": "file:///a"}]}
        assert await last(host, {found: roots}, questions.state) == "file:///a"


@pytest.mark.parametrize(
    ("method", "params"),
    [("prompts/get", {"name": "asks"}), ("resources/read", {"uri": "memo://asks"})],
)
async def test_prompts_and_resources_ask_in_rounds_too(method: str, params: dict[str, Any]) -> None:
    server = Server("s", revisions=[MODERN])

    async def asks(ctx: Context) -> str:
        return await ask(ctx, key="k")

    server.prompt(asks)
    server.resource("memo://asks")(asks)
    async with plugged_in(server) as host:
        first = await host.result(method, enveloped(**params))
        second = await host.result(
            method,
            enveloped(
                **params,
                inputResponses={"k": accept("the answer")},
                requestState=first["requestState"],
            ),
        )

        assert [*first["inputRequests"]] == ["k"]
        assert "the answer" in json.dumps(second)


@pytest.mark.spec("M-16")
async def test_a_refusal_is_an_answer() -> None:
    async with plugged_in(doing(lambda ctx: ctx.elicit(Answer, "?"))) as host:
        questions = await round_of(host)
        answers = {key: {"action": "decline"} for key in questions.requests}

        assert await last(host, answers, questions.state) == str(Declined())


@pytest.mark.spec("M-16")
@pytest.mark.parametrize("answers", [None, {}, {"other": accept("x")}])
async def test_a_missing_answer_is_asked_for_again(answers: object) -> None:
    """2026-07-28 basic/patterns/mrtr § Error Handling: unknown keys are ignored."""
    async with plugged_in(doing(ask)) as host:
        questions = await round_of(host)
        again = await round_of(host, answers, questions.state)

        assert again.requests == questions.requests
        assert await last(host, again.answered(), again.state) == "<?>"


async def test_an_answer_that_was_given_is_not_asked_for_again_with_one_that_was_not() -> None:
    async def work(ctx: Context) -> str:
        answers = await ctx.ask({k: Elicit(Answer, k) for k in "ab"})
        return " ".join(answers[k].content.text for k in "ab")

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        again = await round_of(host, {"b": accept("B")}, questions.state)
        assert again.messages == ["a"]
        changed = {"a": accept("A"), "b": accept("changed")}

        assert await last(host, changed, again.state) == "A B"


async def test_an_answer_that_fits_no_form_is_the_handlers_to_deal_with() -> None:
    """As it is where the client answers a request."""
    async with plugged_in(doing(ask)) as host:
        questions = await round_of(host)
        answers = {k: {**accept(""), "content": {"text": 5}} for k in questions.requests}

        assert "InvalidResult" in await last(host, answers, questions.state)


@pytest.mark.spec("M-15")
@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("inputResponses", []),
        ("inputResponses", "x"),
        ("inputResponses", {"k": "x"}),
        ("inputResponses", {"k": None}),
        ("requestState", 5),
        ("requestState", {}),
    ],
)
async def test_members_of_the_wrong_type_are_a_bad_request(member: str, value: object) -> None:
    async with plugged_in(doing(ask)) as host:
        error = await host.error("tools/call", enveloped(name="do", **{member: value}))

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert member in error["message"]


@pytest.mark.spec("M-7")
async def test_a_retry_without_a_state_finds_its_answers_by_their_keys() -> None:
    """It is legal, if the handler has to run all of its rounds without one."""

    async def work(ctx: Context) -> str:
        return f"{await ask(ctx, 'a', 'k')} {await ask(ctx, 'b')}"

    async with plugged_in(doing(work)) as host:
        second = await round_of(host, {"k": accept("A"), "unknown": accept("x")})
        assert second.messages == ["b"]

        assert await last(host, second.answered(), second.state) == "A <b>"
        assert (await round_of(host, second.answered())).messages == ["a"]


@pytest.mark.spec("M-9")
async def test_a_question_that_is_never_answered_leaves_nothing_behind() -> None:
    left: list[str] = []

    async def work(ctx: Context) -> None:
        try:
            await ask(ctx)
        finally:
            left.append("cleaned up")

    async with plugged_in(doing(work)) as host:
        await round_of(host)

        assert left == ["cleaned up"]
        assert host.session.calls() == ()
        assert host.notices == []


async def test_progress_begins_anew_in_each_round() -> None:
    """Each round is a request of its own, with a token of its own."""

    async def work(ctx: Context) -> str:
        await ctx.progress(1)
        await ask(ctx, key="k")
        await ctx.progress(2)
        return "done"

    async with plugged_in(doing(work)) as host:
        for number, answers in enumerate(({}, {"k": accept("x")})):
            params = enveloped(name="do", inputResponses=answers)
            params["_meta"]["progressToken"] = number
            await host.result("tools/call", params)

        told = host.noticed("notifications/progress")
        assert [(p["progressToken"], p["progress"]) for p in told] == [(0, 1), (1, 1), (1, 2)]


# ---------------------------------------------------------------- how a run ends


@pytest.mark.parametrize("way", ["swallowed", "finally", "failed"])
async def test_the_question_counts_whatever_a_handler_makes_of_its_end(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The ledger decides; the author is told where a result was dropped."""

    async def work(ctx: Context) -> str:
        paid = "no"
        try:
            paid = await ask(ctx, "Pay?")
        except BaseException as exc:  # noqa: ASYNC103 - what a handler should not do
            if way == "failed":
                raise ValueError("clean-up") from exc  # noqa: ASYNC104 - as above
            if way == "swallowed":
                return "default"  # noqa: ASYNC104 - as above
        return f"paid: {paid}"

    async with plugged_in(doing(work)) as host:
        with logged(caplog) as texts:
            questions = await round_of(host)
        assert questions.messages == ["Pay?"]
        assert "went on after a question that had ended its run" in "".join(texts)

        assert await last(host, questions.answered(), questions.state) == "paid: <Pay?>"


async def test_a_handler_that_is_being_unwound_asks_nothing_more() -> None:
    async def work(ctx: Context) -> str:
        try:
            return await ask(ctx, "first")
        finally:
            await ask(ctx, "clean up?")  # noqa: ASYNC102 - nothing is asked

    async with plugged_in(doing(work)) as host:
        first = await round_of(host)
        assert first.messages == ["first"]
        second = await round_of(host, first.answered(), first.state)
        assert second.messages == ["clean up?"]

        assert await last(host, second.answered(), second.state) == "<first>"


async def test_a_sibling_that_fails_fails_in_the_end_whether_the_question_came_first_or_not() -> (
    None
):
    """Where both are in one pass of the scheduler the question counts for more."""
    passes = 0

    async def fail() -> None:
        for _ in range(passes):
            await trio.lowlevel.checkpoint()
        raise ValueError("sibling")

    async def work(ctx: Context) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ctx)
            nursery.start_soon(fail)

    asked: list[int] = []
    async with plugged_in(doing(work)) as host:
        for passes in range(8):  # noqa: B007 - the handler sees it
            client = Client(host)
            result = await client.run(name="do")
            assert result["content"][0]["text"] == "do failed: ValueError: sibling"
            asked.append(len(client.asked))

    assert asked == sorted(asked)
    assert set(asked) == {0, 1}


async def test_a_cancellation_of_the_client_counts_for_more_than_a_question() -> None:
    """Also when it comes while the handler cleans up after its question."""
    cleaning, may_end = trio.Event(), trio.Event()

    async def work(ctx: Context) -> None:
        try:
            await ask(ctx)
        finally:
            with trio.CancelScope(shield=True):
                cleaning.set()
                await may_end.wait()

    async with plugged_in(doing(work)) as host:
        id_ = await host.start("tools/call", enveloped(name="do"))
        await cleaning.wait()
        await host.tell("notifications/cancelled", {"requestId": id_})
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()
        await trio.testing.wait_all_tasks_blocked()

        assert id_ not in host._replies
        assert host.session.calls() == ()


async def test_a_deadline_of_the_handlers_own_does_not_answer_its_question(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async def work(ctx: Context) -> str:
        with trio.move_on_after(0.25):
            return await ask(ctx)
        return "nobody answered"

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        await trio.sleep(1)

        assert await last(host, questions.answered(), questions.state) == "<?>"


# ---------------------------------------------------------------- where nothing can be asked


async def under_a_shield(ctx: Context) -> str:
    with trio.CancelScope(shield=True):
        return await ask(ctx)
    raise AssertionError


async def under_a_shield_with_a_deadline(ctx: Context) -> str:
    with trio.move_on_after(5, shield=True):
        return await ask(ctx)
    return "nobody answered"


async def in_a_nursery_under_a_shield(ctx: Context) -> None:
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, ctx, "a")
            nursery.start_soon(ask, ctx, "b")


@pytest.mark.parametrize(
    "work", [under_a_shield, under_a_shield_with_a_deadline, in_a_nursery_under_a_shield]
)
async def test_a_question_under_a_shield_is_an_error_at_once(
    work: Callable[[Context], Awaitable[object]], autojump_clock: trio.testing.MockClock
) -> None:
    """Else the handler would hang: nothing could end its run."""
    before = trio.current_time()
    async with plugged_in(doing(work), patience=60) as host:
        text = await last(host)

        assert "CannotSuspend: elicitation/create ends this run" in text
        assert trio.current_time() == before


async def test_a_question_of_a_foreign_nursery_is_an_error_at_once(nursery: trio.Nursery) -> None:
    """And of the request itself nothing is changed."""
    errors: list[type] = []

    async def foreign(ctx: Context, done: trio.Event) -> None:
        try:
            await ask(ctx)
        except CannotSuspend as exc:
            errors.append(type(exc))
        done.set()

    async def work(ctx: Context) -> str:
        done = trio.Event()
        nursery.start_soon(foreign, ctx, done)
        await done.wait()
        return "finished"

    async with plugged_in(doing(work)) as host:
        assert await last(host) == "finished"
        assert errors == [CannotSuspend]


async def test_after_the_end_of_a_request_nothing_is_asked(nursery: trio.Nursery) -> None:
    kept: list[Context] = []

    async def work(ctx: Context) -> str:
        kept.append(ctx)
        return "done"

    async with plugged_in(doing(work)) as host:
        assert await last(host) == "done"
        with pytest.raises(OriginSettled):
            await ask(kept[0])


async def test_a_question_that_could_not_be_asked_is_not_asked_with_others() -> None:
    async def work(ctx: Context) -> str:
        with pytest.raises(CannotSuspend):
            await under_a_shield(ctx)
        return await ask(ctx, "possible")

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        assert questions.messages == ["possible"]

        assert await last(host, questions.answered(), questions.state) == "<possible>"


async def test_a_question_that_another_task_waits_for_is_not_taken_back() -> None:
    """Two tasks may ask the same under one key; only one of them can wait."""

    async def shielded(ctx: Context) -> None:
        with trio.CancelScope(shield=True), pytest.raises(CannotSuspend):
            await ask(ctx, "same", "k")

    async def work(ctx: Context) -> str:
        async with trio.open_nursery() as nursery:
            if not await ctx.once("asked before", _no):
                nursery.start_soon(ask, ctx, "same", "k")
                nursery.start_soon(shielded, ctx)
        return "done"

    async def _no() -> bool:
        return False

    for _ in range(10):  # in both orders, it is to be hoped
        async with plugged_in(doing(work)) as host:
            assert [*(await round_of(host)).requests] == ["k"]


@pytest.mark.spec("M-2")
@pytest.mark.parametrize("method", ["x/own", "completion/complete", "tools/list"])
async def test_other_methods_cannot_ask(method: str) -> None:
    """2026-07-28 basic/patterns/mrtr § Supported Requests: only three may."""
    server = Server("s", revisions=[*REVISIONS])
    errors: list[type] = []

    @server.method(method)
    async def asks(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        try:
            await ctx.elicit(Answer, "?")
        except NoReverseRoute as exc:
            errors.append(type(exc))
            raise
        return {}

    async with plugged_in(server) as host:
        error = await host.error(method, enveloped())

        assert error["code"] == ErrorCode.INTERNAL_ERROR
        assert errors == [NoReverseRoute]


@pytest.mark.spec("M-4")
@pytest.mark.parametrize("method", ["ping", "x/own", "tools/call"])
async def test_only_the_three_kinds_of_questions_can_be_asked(method: str) -> None:
    async def work(ctx: Context) -> None:
        with pytest.raises(NoReverseRoute, match=method):
            await ctx.call(method)

    async with plugged_in(doing(work)) as host:
        assert await last(host) == "None"


async def test_a_raw_question_is_a_checkpoint_also_when_it_is_answered() -> None:
    seen: list[str] = []

    async def work(ctx: Context) -> str:
        with trio.testing.assert_checkpoints():
            answer = await ctx.call("roots/list", key="k")
        seen.append("answered")
        return str(answer)

    async with plugged_in(doing(work)) as host:
        assert await last(host, {"k": {"roots": []}}) == "{'roots': []}"
        assert seen == ["answered"]


# ---------------------------------------------------------------- threads


def asks_from_a_thread(server: Server, kind: str) -> None:
    """Offer a tool that asks two questions, from a worker thread."""

    def questions(ctx: Context) -> str:
        answers = [trio.from_thread.run(ask, ctx, message) for message in ("a", "b")]
        return " ".join(answers)

    def together(ctx: Context) -> str:
        asked = {message: Elicit(Answer, message) for message in ("a", "b")}
        answers = trio.from_thread.run(ctx.ask, asked)
        return " ".join(answers[message].content.text for message in ("a", "b"))

    async def kept(ctx: Context) -> str:
        return await trio.to_thread.run_sync(questions, ctx)

    async def shielded(ctx: Context) -> str:
        with trio.CancelScope(shield=True):
            return await trio.to_thread.run_sync(questions, ctx, abandon_on_cancel=True)
        raise AssertionError

    kinds: dict[str, Callable[..., Any]] = {
        "sync": questions,
        "together": together,
        "kept": kept,
        "shielded": shielded,
    }
    server.tool(name="do")(kinds[kind])


@ERAS
@pytest.mark.parametrize("kind", ["sync", "together", "kept", "shielded"])
async def test_a_worker_thread_can_ask(kind: str, version: str) -> None:
    """One that is left behind at the end of a run as well as one that is waited for."""
    server = Server("s", revisions=[*REVISIONS])
    asks_from_a_thread(server, kind)
    with trio.fail_after(10):
        async with plugged_in(server) as host:
            if version == MODERN:
                client = Client(host)
                result = await client.run(name="do")
                assert sorted(client.asked) == ["a", "b"]
            else:
                await host.initialize(version, EVERYTHING)
                host.answers[ELICIT] = lambda params: accept(f"<{params['message']}>")
                result = await host.tool("do")

    assert result["content"] == [{"type": "text", "text": "<a> <b>"}]


async def test_a_thread_that_was_left_behind_asks_nothing_more() -> None:
    """Be it that the run of its handler has ended, or that it is still ending."""
    errors: list[str] = []
    asked_twice, has_ended, ended = trio.Event(), trio.Event(), trio.Event()

    def in_thread(ctx: Context) -> None:
        for message in ("a", "b", "c"):
            try:
                trio.from_thread.run(ask, ctx, message)
            except (OriginSettled, CannotSuspend) as exc:
                errors.append(type(exc).__name__)
            if message == "b":
                trio.from_thread.run_sync(asked_twice.set)
                trio.from_thread.run(has_ended.wait)
        trio.from_thread.run_sync(ended.set)

    async def work(ctx: Context) -> None:
        try:
            await trio.to_thread.run_sync(in_thread, ctx, abandon_on_cancel=True)
        finally:
            with trio.CancelScope(shield=True):
                await asked_twice.wait()

    with trio.fail_after(10):
        async with plugged_in(doing(work)) as host:
            questions = await round_of(host)
            has_ended.set()
            await ended.wait()

    assert questions.messages == ["a"]
    assert errors == ["OriginSettled", "CannotSuspend", "OriginSettled"]


# ---------------------------------------------------------------- steps


async def test_two_tasks_that_come_to_a_step_at_once_run_it_once() -> None:
    runs: list[int] = []

    async def step() -> int:
        runs.append(1)
        await trio.testing.wait_all_tasks_blocked()
        return len(runs)

    async def work(ctx: Context) -> str:
        values: list[int] = []

        async def one() -> None:
            values.append(await ctx.once("k", step))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        values.append(await ctx.once("k", step))
        return f"{values} {await ask(ctx)}"

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)

        assert await last(host, questions.answered(), questions.state) == "[1, 1, 1, 1] <?>"
        assert runs == [1]


async def test_a_step_that_fails_is_run_by_the_next_who_comes_to_it() -> None:
    runs: list[int] = []

    async def step() -> int:
        runs.append(1)
        await trio.testing.wait_all_tasks_blocked()
        if len(runs) == 1:
            raise ValueError("not yet")
        return len(runs)

    async def work(ctx: Context) -> str:
        values: list[Any] = []

        async def one() -> None:
            try:
                values.append(await ctx.once("k", step))
            except ValueError as exc:
                values.append(str(exc))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one)
            nursery.start_soon(one)
        return str(values)

    async with plugged_in(doing(work)) as host:
        assert await last(host) == "['not yet', 2]"


async def test_a_step_returns_the_same_in_its_first_run_as_in_the_others() -> None:
    """Its JSON form, and a copy of it each time."""
    seen: list[Any] = []

    async def step() -> Any:
        return ({"a": (1, None)}, "x")

    async def work(ctx: Context) -> str:
        for _ in range(2):
            value: Any = await ctx.once("k", step)
            seen.append(json.dumps(value))
            value[0]["a"].append("changed")
        return await ask(ctx)

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        await last(host, questions.answered(), questions.state)

    assert seen == ['[{"a": [1, null]}, "x"]'] * 4


async def test_a_step_that_comes_to_no_json_is_an_error() -> None:
    async def step() -> object:
        return object()

    async with plugged_in(doing(lambda ctx: ctx.once("k", step))) as host:
        assert "do failed: Unencodable" in await last(host)


# ---------------------------------------------------------------- the state


def changed(state: str) -> str:
    at = len(state) // 2
    return state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :]


async def refused(host: Host, caplog: pytest.LogCaptureFixture, why: str, **params: Any) -> None:
    """The call is refused with the public text alone, and the log says why."""
    with logged(caplog) as texts:
        error = (await call(host, **params))["error"]

    assert error == {"code": ErrorCode.INVALID_PARAMS, "message": BadState.public}
    assert len(texts) == 1
    assert "a requestState for tools/call is refused" in texts[0]
    assert why in texts[0]


@pytest.mark.spec("M-6")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (changed, "the seal is broken"),
        (lambda state: state[:-1], "the seal is broken"),
        (lambda state: state.replace(".", "", 1), "not of the format"),
        (lambda _: "", "not of the format"),
        (lambda _: "äö", "not of the format"),
        (lambda state: state * 1_000, "the limit is 65536"),
    ],
)
async def test_a_state_that_was_changed_is_refused(
    change: Callable[[str], str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """2026-07-28 basic/patterns/mrtr § Server Requirements: it is attacker-controlled."""
    runs: list[Context] = []

    async def work(ctx: Context) -> str:
        runs.append(ctx)
        return await ask(ctx)

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        state = change(questions.state)
        await refused(host, caplog, why, state=state, answers=questions.answered())

        assert len(runs) == 1
        assert await last(host, questions.answered(), questions.state) == "<?>"


@pytest.mark.spec("M-6", "M-7")
async def test_a_state_belongs_to_one_call(caplog: pytest.LogCaptureFixture) -> None:
    """To the same tool with the same arguments, however these are written."""
    server = doing(ask)

    @server.tool
    async def other(ctx: Context) -> str:
        return "other"

    async with plugged_in(server) as host:
        answer = await call(host, arguments={"n": 1})
        state = answer["result"]["requestState"]
        others: list[dict[str, Any]] = [
            {"name": "other", "arguments": {"n": 1}},
            {"arguments": {"n": 2}},
            {"arguments": {}},
            {},
        ]
        for params in others:
            await refused(host, caplog, "belongs to another request", state=state, **params)
        again = await call(host, arguments={"n": 1}, state=state)
        assert again["result"]["inputRequests"] == answer["result"]["inputRequests"]


async def test_a_handler_may_change_its_arguments_before_it_asks() -> None:
    """The state belongs to the call as it came."""

    async def work(ctx: Context, arguments: dict[str, Any]) -> str:
        unit = arguments.pop("unit")
        arguments.setdefault("n", 1)
        return f"{unit} {await ask(ctx)}"

    server = Server("s", revisions=[MODERN])
    server.add_tool(Tool(name="do", input_schema={"type": "object"}), work)
    async with plugged_in(server) as host:
        result = await Client(host).run(name="do", arguments={"unit": "m"})

        assert result["content"] == [{"type": "text", "text": "m <?>"}]


@pytest.mark.spec("M-7")
async def test_a_state_expires(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1_000.0
    monkeypatch.setattr("mcp_trio.runtime.rounds.time", SimpleNamespace(time=lambda: now))
    limits = Limits(request_state_time=10)
    async with plugged_in(doing(ask, limits=limits)) as host:
        questions = await round_of(host)
        now = 1_009.0
        renewed = await round_of(host, state=questions.state)
        now = 1_010.0
        await refused(
            host, caplog, "expired 0 s ago", state=questions.state, answers=questions.answered()
        )

        assert await last(host, renewed.answered(), renewed.state) == "<?>"


@pytest.mark.spec("M-7")
@pytest.mark.parametrize(
    ("asks", "brings", "good"),
    [
        ("ann", "ann", True),
        (None, None, True),
        ("ann", "bob", False),
        ("ann", None, False),
        (None, "ann", False),
        ("None", None, False),
    ],
)
async def test_a_state_is_its_principals_alone(
    *, asks: str | None, brings: str | None, good: bool, nursery: trio.Nursery
) -> None:
    server = doing(ask)

    async def serve(principal: str | None, **params: Any) -> Any:
        route = Log()
        exchange = server.open_envelope(route, nursery, principal=principal, head=None)
        await exchange.serve(Request(1, "tools/call", enveloped(name="do", **params)), route)
        (answer,) = route.sent
        return answer

    first = await serve(asks)
    assert isinstance(first, Result)
    second = await serve(
        brings,
        requestState=first.result["requestState"],
        inputResponses={key: accept("x") for key in first.result["inputRequests"]},
    )

    if good:
        assert second.result["content"] == [{"type": "text", "text": "x"}]
    else:
        assert second == Failure(1, ErrorCode.INVALID_PARAMS, BadState.public)


@pytest.mark.spec("B-24")
async def test_servers_with_the_same_key_take_over_from_each_other() -> None:
    """Also on the other side of a change of keys: all of them open, the first one seals."""
    old, new = KEYS
    before = doing(ask, state_keys=[old])
    between = doing(ask, state_keys=[new, old])
    after = doing(ask, state_keys=[new])
    async with plugged_in(before) as first, plugged_in(between) as second:
        questions = await round_of(first)
        again = await round_of(second, state=questions.state)
        assert await last(second, questions.answered(), questions.state) == "<?>"
        assert (await call(first, state=again.state))["error"]["code"] == ErrorCode.INVALID_PARAMS

    async with plugged_in(after) as third:
        assert await last(third, again.answered(), again.state) == "<?>"
        error = (await call(third, state=questions.state))["error"]
        assert error["code"] == ErrorCode.INVALID_PARAMS


@pytest.mark.parametrize("keys", [(), (KEYS[1],)])
async def test_a_state_sealed_with_a_key_that_is_not_held_is_refused(
    keys: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """A server without keys makes one up, which no other one has."""
    async with plugged_in(doing(ask, state_keys=[KEYS[0]])) as host:
        questions = await round_of(host)
    async with plugged_in(doing(ask, state_keys=keys)) as host:
        await refused(host, caplog, "sealed with a key that is not held", state=questions.state)


async def test_a_state_keeps_the_answers_of_all_earlier_rounds() -> None:
    """The client sends each answer once."""

    async def work(ctx: Context) -> str:
        return " ".join([await ask(ctx, str(n)) for n in range(5)])

    async with plugged_in(doing(work)) as host:
        client = Client(host)
        result = await client.run(name="do")

        assert result["content"][0]["text"] == "<0> <1> <2> <3> <4>"
        assert client.asked == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (Limits(request_state_bytes=500), "the limit is 500"),
        (Limits(request_state_time=float("inf")), "a state cannot expire at inf"),
    ],
)
async def test_a_state_that_cannot_be_sealed_is_an_internal_error(
    limits: Limits, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It would be refused when it comes back; the author is told. The session goes on."""

    async def step() -> str:
        return "x" * 1_000

    async def work(ctx: Context) -> str:
        await ctx.once("k", step)
        return await ask(ctx)

    async with plugged_in(doing(work, limits=limits)) as host:
        with logged(caplog) as texts:
            error = (await call(host))["error"]

        assert error == {
            "code": ErrorCode.INTERNAL_ERROR,
            "message": "internal error in tools/call",
        }
        assert len(texts) == 1
        assert why in texts[0]
        assert (await call(host, answers={}))["error"] == error


# ---------------------------------------------------------------- handlers that do not repeat


async def test_a_handler_that_asks_something_else_under_a_key_is_told_of_both(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An answer to one question must not be taken for that to another."""
    messages = iter(["Delete a?", "Delete b?"])

    async def work(ctx: Context) -> str:
        await ask(ctx, next(messages), "sure")
        return "deleted"

    async with plugged_in(doing(work)) as host:
        questions = await round_of(host)
        with logged(caplog) as texts:
            text = await last(host, questions.answered(), questions.state)

    assert "do failed: Divergence" in text
    assert len(texts) == 1
    assert "Delete a?" in texts[0]
    assert "Delete b?" in texts[0]


async def test_a_handler_that_asks_something_else_without_a_key_gets_no_answer_of_another() -> None:
    messages = iter(["a", "b", "b"])

    async def work(ctx: Context) -> str:
        return await ask(ctx, next(messages))

    async with plugged_in(doing(work)) as host:
        first = await round_of(host)
        second = await round_of(host, first.answered(), first.state)
        assert second.messages == ["b"]

        assert await last(host, second.answered(), second.state) == "<b>"
