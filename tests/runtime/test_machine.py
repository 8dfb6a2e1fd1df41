"""One session driven step by step, beside a model of who waits for whom."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from attrs import define, field
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from mcp_trio.errors import DeadlineExceeded, McpError, OriginSettled, PeerError, SessionLost
from mcp_trio.limits import Deadline
from mcp_trio.runtime.context import HandlerContext  # noqa: TC001 - attrs reads it
from mcp_trio.runtime.session import Session
from tests.peers import Endpoint, ask, shake_hands, transports
from tests.runtime.machine import TrioMachine
from tests.runtime.recording import Recording, assert_lawful

pytestmark = pytest.mark.usefixtures("quiet")

DEADLINE = Deadline(idle=5, cap=12)

picks = st.integers(0, 63)


@define(eq=False)
class Call:
    """A call, as the machine sees it from both ends.

    ``waits`` is the model: whether somebody waits for it. The rest is what happened.
    """

    origin: Call | None = None
    waits: bool = True
    began: float = 0.0
    expires: float = float("inf")
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    go_on: trio.Event = field(factory=trio.Event)
    fails: bool = False
    ctx: HandlerContext | None = None
    reached: list[float] = field(factory=list)
    ends: list[object] = field(factory=list)


def id_of(call: Call | None) -> int | str:
    """The id under which a call is being served."""
    assert call is not None
    assert call.ctx is not None
    return call.ctx.request_id


def rows(session: Session, direction: str) -> set[tuple[int | str, int | str | None]]:
    """What a session shows of its calls in one direction: ids and origins."""
    return {(row.id, row.origin) for row in session.calls() if row.direction == direction}


class SessionMachine(TrioMachine):
    """A client that calls, a server whose handlers ask, and both do as they are told."""

    @initialize(typed=st.booleans())
    def open_session(self, typed: bool) -> None:  # noqa: FBT001 - hypothesis passes it by name
        self.calls: list[Call] = []
        self.closed = False
        self.told = 0
        self.recording = Recording()
        ours, theirs = transports(typed=typed)
        self.heard = Endpoint({"work": self.handle})
        self.server = Session(
            "server", self.heard, self.recording.tap(theirs, "server"), tracer=self.recording
        )
        self.client = Session(
            "client",
            Endpoint({"ask": self.handle}),
            self.recording.tap(ours, "client"),
            tracer=self.recording,
        )
        self.nursery.start_soon(self.server.run)
        self.nursery.start_soon(self.client.run)
        self.run(shake_hands, self.client)
        self.settle()

    async def handle(self, ctx: HandlerContext, params: dict[str, Any]) -> dict[str, Any]:
        """Wait to be told how to go on; the same on both sides."""
        call = self.calls[params["call"]]
        call.ctx = ctx
        await call.go_on.wait()
        if call.fails:
            raise ValueError("as told")
        return {}

    async def make(self, call: Call, deadline: Deadline | None) -> None:
        """Make a forward or a reverse call and note how it ends."""
        params = {"call": self.calls.index(call)}
        try:
            with call.scope:
                if call.origin is None:
                    await self.client.call(
                        "work",
                        params,
                        deadline=deadline,
                        on_progress=lambda p: call.reached.append(p["progress"]),
                    )
                else:
                    assert call.origin.ctx is not None
                    params["origin"] = call.origin.ctx.request_id  # type: ignore[assignment]  # for the laws
                    await ask(call.origin.ctx, params=params)
                call.ends.append("answered")
        except McpError as exc:
            call.ends.append(type(exc))
        if call.scope.cancelled_caught:
            call.ends.append("given up")

    def open(self, call: Call, deadline: Deadline | None = None) -> Call:
        self.calls.append(call)
        self.nursery.start_soon(self.make, call, deadline)
        self.settle()
        return call

    def over(self, call: Call, end: object) -> None:
        """Nobody waits for *call* any more, nor for what came from it."""
        if not call.waits:
            return
        call.waits = False
        assert call.ends == [end]
        for other in self.calls:
            if other.origin is call and other.waits:
                other.waits = False
                assert other.ends == [OriginSettled]

    def one_of(self, calls: list[Call], pick: int) -> Call | None:
        """One of *calls*, more often one for which somebody waits."""
        waiting = [call for call in calls if call.waits] if pick % 4 else calls
        return waiting[pick % len(waiting)] if waiting else None

    @property
    def forwards(self) -> list[Call]:
        return [call for call in self.calls if call.origin is None]

    # ------------------------------------------------------------ rules

    @rule(with_deadline=st.sampled_from([True, True, False]))
    def call(self, with_deadline: bool) -> None:  # noqa: FBT001 - as above
        now = self.clock.current_time()
        call = Call(began=now)
        if with_deadline:
            call.expires = now + DEADLINE.idle
        self.open(call, DEADLINE if with_deadline else None)
        if self.closed:
            call.waits = False
            assert issubclass(call.ends[0], SessionLost)  # type: ignore[arg-type]  # what it ended with

    @rule(pick=picks)
    def ask(self, pick: int) -> None:
        forward = self.one_of(self.forwards, pick)
        if forward is None or forward.ctx is None:  # there is none, or it came too late
            return
        call = self.open(Call(origin=forward))
        if not forward.waits or self.closed:
            call.waits = False
            assert call.ends[0] is OriginSettled or issubclass(call.ends[0], SessionLost)  # type: ignore[arg-type]  # as above

    @rule(pick=picks, fails=st.booleans())
    def finish(self, pick: int, fails: bool) -> None:  # noqa: FBT001 - as above
        call = self.one_of(self.calls, pick)
        if call is None:
            return
        call.fails = fails
        call.go_on.set()
        self.settle()
        self.over(call, PeerError if fails else "answered")

    @rule(pick=picks)
    def give_up(self, pick: int) -> None:
        call = self.one_of(self.calls, pick)
        if call is None:
            return
        call.scope.cancel()
        self.settle()
        self.over(call, "given up")

    @rule(pick=picks, around=st.integers(0, 4))
    def report(self, pick: int, around: int) -> None:
        """Progress, some time after whatever was last, and some time before what is next."""
        self.wait(around)
        call = self.one_of(self.forwards, pick)
        if call is None or call.ctx is None or self.closed:
            return
        before = len(call.reached)
        call.ctx.progress_nowait((call.ctx._last_progress or 0) + 1)
        self.settle()
        assert len(call.reached) == before + call.waits
        if call.waits and call.expires < float("inf"):
            cap = call.began + DEADLINE.cap
            call.expires = min(self.clock.current_time() + DEADLINE.idle, cap)
        self.wait(around)

    @precondition(lambda self: not self.closed)
    @rule()
    def notify(self) -> None:
        self.client.notify_nowait("x/told", {"n": self.told})
        self.told += 1
        self.settle()

    @rule(seconds=st.integers(1, 6))
    def let_time_pass(self, seconds: int) -> None:
        self.wait(seconds)

    def wait(self, seconds: int) -> None:
        """Let time pass, and with it the deadlines of the model."""
        for _ in range(seconds):
            self.sleep(1)
            now = self.clock.current_time()
            for call in self.calls:
                if call.waits and call.expires <= now:
                    self.over(call, DeadlineExceeded)

    @precondition(lambda self: len(self.calls) > 5)
    @rule(client=st.booleans(), server=st.booleans())
    def close(self, client: bool, server: bool) -> None:  # noqa: FBT001 - as above
        for session, chosen in ((self.client, client), (self.server, server)):
            if chosen:
                session.close()
                self.closed = True
        self.settle()
        if self.closed:
            self.sleep(2)  # grace and drain
            for call in self.calls:
                call.waits = False
                assert len(call.ends) == 1

    # ------------------------------------------------------------ what always holds

    @invariant()
    def the_tables_are_those_of_the_model(self) -> None:
        if not hasattr(self, "calls"):
            return
        waiting = [call for call in self.calls if call.waits]
        forward = [call for call in waiting if call.origin is None]
        reverse = [call for call in waiting if call.origin is not None]

        served = {(id_of(call), None) for call in forward}
        asked = {(id_of(call), id_of(call.origin)) for call in reverse}
        assert rows(self.client, "out") == rows(self.server, "in") == served
        assert rows(self.server, "out") == asked
        assert rows(self.client, "in") == {(id_, None) for id_, _ in asked}

    @invariant()
    def the_counters_agree(self) -> None:
        if not hasattr(self, "calls"):
            return
        client, server = self.client.statistics(), self.server.statistics()
        assert client.outgoing == server.in_flight
        assert server.outgoing == client.in_flight
        assert client.malformed == server.malformed == 0
        assert client.stray_answers == server.stray_answers == 0
        if not self.closed:
            assert client.sent == server.received
            assert server.sent == client.received
            told = [m for m in self.heard.notifications if m.method == "x/told"]
            assert len(told) == self.told

    @invariant()
    def nothing_ends_twice(self) -> None:
        for call in getattr(self, "calls", ()):
            assert len(call.ends) == (not call.waits)

    def teardown(self) -> None:
        try:
            if hasattr(self, "calls") and self._end is None:
                self.client.close()
                self.server.close()
                self.settle()
                self.sleep(2)
                assert_lawful(self.recording, self.client, self.server)
        finally:
            super().teardown()


TestSession = SessionMachine.TestCase
TestSession.settings = settings(stateful_step_count=25)
