"""Random plans of what handlers do, and a world in which a plan is carried out."""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, Literal

import trio
from attrs import field, frozen
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode, McpError, Refusal, SessionLost
from mcp_trio.limits import Deadline
from mcp_trio.runtime.session import Session
from tests.peers import Endpoint, ask, shake_hands, transports
from tests.runtime.recording import Recording, assert_lawful

if TYPE_CHECKING:
    from mcp_trio.runtime.context import HandlerContext, Push
    from tests.runtime.recording import TappedTransport

# ---------------------------------------------------------------- what can be planned


@frozen
class Reply:
    """What the client does when it is asked: calls back, thinks, ends somehow."""

    think: float
    end: Literal["answer", "refuse", "fail", "never"]
    nested: tuple[Any, ...] | None = None


@frozen
class Ask:
    """A reverse call."""

    reply: Reply


@frozen
class Report:
    """Progress; ``waits`` for room or not."""

    waits: bool


@frozen
class Sleep:
    """A checkpoint, or some time."""

    seconds: float


@frozen
class Together:
    """Two tasks in a nursery of the handler."""

    left: tuple[Any, ...]
    right: tuple[Any, ...]


@frozen
class Shielded:
    """Steps that no cancellation reaches."""

    steps: tuple[Any, ...]


@frozen
class Elsewhere:
    """Steps in a nursery outside of the handler, which does not wait for them."""

    steps: tuple[Any, ...]


@frozen
class Stubborn:
    """Sleep; when cancelled, swallow that and sleep as long again."""

    seconds: float


@frozen
class BadCleanup:
    """Steps whose clean-up raises an error of its own."""

    steps: tuple[Any, ...]


@frozen
class Within:
    """Steps with a deadline of the handler's own."""

    seconds: float
    steps: tuple[Any, ...]


@frozen
class Fail:
    """An error in the handler."""


@frozen
class Detach:
    """Work beyond the request: a notification after a while."""

    seconds: float


@frozen
class Close:
    """The handler closes its session; or a task does that lives elsewhere, and waits."""

    elsewhere: bool


@frozen
class Forward:
    """A call of the client."""

    at: float
    steps: tuple[Any, ...]
    gives_up: float
    deadline: float | None


Ending = Literal[
    "client closes",
    "server closes",
    "both close",
    "server closes twice",
    "server cancelled",
    "client cancelled",
    "both cancelled",
    "client dies",
    "server dies",
]
ENDINGS: tuple[Ending, ...] = Ending.__args__  # type: ignore[attr-defined]  # a Literal has them


@frozen
class Plan:
    """Calls of the client, and how and when the session ends."""

    forwards: tuple[Forward, ...]
    ending: Ending
    at: float


#: Few different times, so that many things happen at once.
moments = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0, 2.0])

_ENDS: tuple[Any, ...] = ("answer", "answer", "never", "refuse", "fail")
_LEAVES = (Ask, Ask, Ask, Report, Sleep, Stubborn, Detach, Fail, Close)
_BRANCHES = (Ask, Ask, Together, Shielded, Elsewhere, BadCleanup, Within)


@st.composite
def steps_of(draw: st.DrawFn, depth: int) -> tuple[Any, ...]:
    """A few steps, nested at most *depth* deep."""
    kinds = draw(st.lists(st.sampled_from((*_LEAVES, *_BRANCHES * depth)), min_size=1, max_size=3))
    return tuple(_step_of(draw, kind, depth - 1) for kind in kinds)


def _step_of(draw: st.DrawFn, kind: Any, depth: int) -> Any:
    if kind is Ask:
        nested = st.none() if depth < 0 else st.none() | steps_of(depth)
        return Ask(Reply(draw(moments), draw(st.sampled_from(_ENDS)), draw(nested)))
    if kind in (Report, Close):
        return kind(draw(st.booleans()))
    if kind in (Sleep, Stubborn, Detach):
        return kind(draw(moments))
    if kind is Fail:
        return Fail()
    inner = [draw(steps_of(max(depth, 0))) for _ in range(1 + (kind is Together))]
    return Within(draw(moments), *inner) if kind is Within else kind(*inner)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Some calls that are made, and some that are given up; and one end of it all."""
    forwards = [
        Forward(
            at=draw(moments),
            steps=draw(steps_of(2)),
            gives_up=draw(st.just(math.inf) | moments.filter(bool)),
            deadline=draw(st.none() | st.just(1.0)),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]
    at = draw(st.sampled_from([20.0, 3.0, 1.5, 1.0, 0.5, 0.0]))
    return Plan(tuple(forwards), draw(st.sampled_from(ENDINGS)), at)


# ---------------------------------------------------------------- carrying it out


class Planned(Exception):
    """An error that a plan asked for."""


@frozen
class World:
    """Both sides of a session, everything recorded, and a nursery that is nobody's."""

    plan: Plan
    typed: bool
    scripts: list[Any] = field(factory=list)
    shields: set[trio.CancelScope] = field(factory=set)
    surprises: list[BaseException] = field(factory=list)
    ended: list[int] = field(factory=list)
    recording: Recording = field(factory=Recording)
    nurseries: list[trio.Nursery] = field(factory=list)

    def script(self, what: Any) -> int:
        """Keep *what* and return the number under which a message can name it."""
        self.scripts.append(what)
        return len(self.scripts) - 1

    # ------------------------------------------------------------ handlers

    async def work(self, ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        """The server's handler."""
        await self._guard(self._steps(ctx, self.scripts[params["script"]]))
        return {"done": True}

    async def think(self, ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        """The client's handler."""
        await self._guard(self._reply(ctx, self.scripts[params["script"]]))
        return {"thought": True}

    async def _guard(self, doing: Any) -> None:
        try:
            await doing
        except BaseException as exc:
            self._look_at(exc)
            raise

    def _look_at(self, exc: BaseException) -> None:
        """Keep what no plan and no rule of the library explains."""
        if isinstance(exc, BaseExceptionGroup):
            for inner in exc.exceptions:
                self._look_at(inner)
        elif not isinstance(exc, McpError | Planned | trio.Cancelled):
            self.surprises.append(exc)

    async def _reply(self, ctx: HandlerContext, reply: Reply) -> None:
        if reply.nested is not None:
            await self._call(ctx.serving.session, reply.nested, origin=ctx.serving)
        await trio.sleep(reply.think)
        if reply.end == "never":
            await trio.sleep_forever()
        if reply.end == "fail":
            raise Planned
        if reply.end == "refuse":
            raise Refusal(ErrorCode.USER_REJECTED, "no")

    async def _steps(self, ctx: HandlerContext, steps: tuple[Any, ...]) -> None:
        for step in steps:
            await self._step(ctx, step)

    async def _step(self, ctx: HandlerContext, step: Any) -> None:
        match step:
            case Ask(reply):
                origin = ctx.serving.id
                await ask(ctx, params={"script": self.script(reply), "origin": origin})
            case Report(waits):
                reached = 1 + (ctx._last_progress or 0)
                if waits:
                    await ctx.progress(reached)
                else:
                    ctx.progress_nowait(reached)
            case Sleep(seconds):
                await trio.sleep(seconds)
            case Together(left, right):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._steps, ctx, left)
                    nursery.start_soon(self._steps, ctx, right)
            case Shielded(steps):
                with trio.CancelScope(shield=True) as scope:
                    self.shields.add(scope)
                    await self._steps(ctx, steps)
            case Elsewhere(steps):
                self.nurseries[0].start_soon(self._elsewhere, ctx, steps)
            case Stubborn(seconds):
                try:
                    await trio.sleep(seconds)
                except trio.Cancelled:  # noqa: ASYNC103 - the fault that is being tried
                    with trio.CancelScope(shield=True) as scope:
                        self.shields.add(scope)
                        await trio.sleep(seconds)
            case BadCleanup(steps):
                try:
                    await self._steps(ctx, steps)
                finally:
                    raise Planned
            case Within(seconds, steps):
                with trio.move_on_after(seconds):
                    await self._steps(ctx, steps)
            case Fail():
                raise Planned
            case Detach(seconds):
                ctx.detach(self.nurseries[0], self._detached, seconds)
            case Close(elsewhere):
                session: Any = ctx.serving.session
                if elsewhere:
                    self.nurseries[0].start_soon(session.aclose)
                else:
                    session.close()
            case _:
                raise AssertionError(step)

    async def _elsewhere(self, ctx: HandlerContext, steps: tuple[Any, ...]) -> None:
        try:
            await self._steps(ctx, steps)
        except* (McpError, Planned):
            pass
        except* Exception as group:  # noqa: BLE001 - looked at when everything is over
            self.surprises.append(group)

    async def _detached(self, push: Push, seconds: float) -> None:
        try:
            await trio.sleep(seconds)
            await push.notify("x/later")
        except SessionLost:
            return

    # ------------------------------------------------------------ the client's calls

    async def _call(
        self,
        client: Any,
        steps: tuple[Any, ...],
        *,
        origin: Any = None,
        deadline: Deadline | None = None,
    ) -> None:
        params = {"script": self.script(steps)}
        if origin is not None:
            params["origin"] = origin.id
        reached: list[float] = []
        await client.call(
            "work",
            params,
            origin=origin,
            deadline=deadline,
            on_progress=lambda p: reached.append(p["progress"]),
        )
        assert reached == sorted(set(reached))

    async def _forward(self, client: Session, index: int, forward: Forward) -> None:
        await trio.sleep(forward.at)
        deadline = None if forward.deadline is None else Deadline(forward.deadline, 2.0)
        with contextlib.suppress(McpError), trio.move_on_after(forward.gives_up):
            await self._call(client, forward.steps, deadline=deadline)
        self.ended.append(index)

    # ------------------------------------------------------------ everything

    async def run(self) -> None:
        """Carry the plan out, then hold the recording to the laws."""
        ours, theirs = transports(typed=self.typed)
        tapped = self.recording.tap(ours, "client"), self.recording.tap(theirs, "server")
        client = Session("client", Endpoint({"ask": self.think}), tapped[0], tracer=self.recording)
        server = Session("server", Endpoint({"work": self.work}), tapped[1], tracer=self.recording)
        done = trio.Event()
        async with trio.open_nursery() as watched:
            watched.start_soon(self._watch, done)
            async with trio.open_nursery() as nobodys:
                self.nurseries.append(nobodys)
                async with trio.open_nursery() as nursery:
                    scopes = [
                        await nursery.start(_run_in_scope, session) for session in (client, server)
                    ]
                    await shake_hands(client)
                    for index, forward in enumerate(self.plan.forwards):
                        nursery.start_soon(self._forward, client, index, forward)
                    await trio.sleep(self.plan.at)
                    await _end(self.plan.ending, (client, server), scopes, tapped)
            done.set()
        assert sorted(self.ended) == list(range(len(self.plan.forwards)))
        assert self.surprises == []
        assert_lawful(self.recording, client, server)

    async def _watch(self, done: trio.Event) -> None:
        """Nothing may hang, under whatever shield."""
        with trio.move_on_after(1_000):
            await done.wait()
        if not done.is_set():
            for scope in self.shields:
                scope.shield = False
            raise AssertionError("something hangs")


async def _run_in_scope(  # noqa: ASYNC114 - started in a nursery above
    session: Session, *, task_status: trio.TaskStatus[trio.CancelScope]
) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            await nursery.start(session.run)
            task_status.started(scope)


async def _end(
    ending: Ending,
    sessions: tuple[Session, Session],
    scopes: list[trio.CancelScope],
    transports: tuple[TappedTransport, TappedTransport],
) -> None:
    client, server = sessions
    match ending:
        case "client closes":
            client.close()
        case "server closes":
            await server.aclose()
        case "both close":
            client.close()
            server.close()
        case "server closes twice":
            server.close()
            await server.aclose()
            server.close()
            await server.aclose()
        case "server cancelled":
            scopes[1].cancel()
        case "client cancelled":
            scopes[0].cancel()
        case "both cancelled":
            scopes[0].cancel()
            scopes[1].cancel()
        case "client dies":
            await transports[0].inner.aclose()
        case "server dies":
            await transports[1].inner.aclose()


def carry_out(plan: Plan, *, typed: bool) -> World:
    """Run *plan* in a world of its own."""
    world = World(plan, typed)
    trio.run(world.run, clock=trio.testing.MockClock(autojump_threshold=0))
    return world
