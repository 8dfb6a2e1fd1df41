"""The rows of a session's two tables, as the runtime keeps them, and as it shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, final

import trio
from attrs import frozen

from mcp_trio.wire.correlation import Correlation, IncomingRequest, OutgoingCall, Stage

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.abc import Route
    from mcp_trio.limits import Deadline
    from mcp_trio.wire.jsonrpc import Failure, RequestId, Result

    from .exchange import Exchange
    from .rounds import Rounds

__all__ = ["CallSnapshot", "PendingCall", "Serving", "SessionStatistics", "snapshot"]


class Serving(IncomingRequest):
    """A request being served: its cancel scope, its route, its session.

    Attributes:
        rounds: what it has asked, where questions travel in results.
    """

    __slots__ = ("rounds", "route", "scope", "session")

    def __init__(self, id_: RequestId, method: str, session: Exchange, route: Route) -> None:
        super().__init__(id_, method, trio.current_time())
        self.session: Final = session
        self.route: Final = route
        self.rounds: Rounds | None = None
        # Made before the task exists, so that a cancel in the same chunk finds it.
        self.scope: Final = trio.CancelScope()


class PendingCall(OutgoingCall):
    """A call of ours that is parked until its answer, its cancellation or its origin's end.

    Its waiter sits in our own ``wait_task_rescheduled``; ``settle`` reaches it there also
    under a shield and in a foreign nursery. Whoever popped the call from the table is the
    one to call ``settle``, once.
    """

    __slots__ = (
        "_deadline",
        "_reply",
        "_scope",
        "_task",
        "home",
        "on_progress",
        "route",
        "ticket",
        "wake",
    )

    def __init__(
        self,
        home: Exchange,
        id_: RequestId,
        method: str,
        origin: Serving | None,
        route: Route,
        on_progress: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        super().__init__(id_, method, origin, trio.current_time())
        self.home: Final = home
        self.route: Final = route
        self.on_progress: Final = on_progress
        self.ticket = 0
        self.wake: Callable[[], None] | None = None  # while the caller reads for itself
        self._task: trio.lowlevel.Task | None = None
        self._reply: Result | Failure | Exception | None = None
        self._scope: trio.CancelScope | None = None
        self._deadline: Deadline | None = None

    async def wait(
        self, on_abandon: Callable[[PendingCall], None]
    ) -> Result | Failure | Exception | None:
        """Park until `settle`; where the wait is cancelled, *on_abandon* is called first."""

        def abort(_: object) -> trio.lowlevel.Abort:
            self._task = None
            on_abandon(self)
            return trio.lowlevel.Abort.SUCCEEDED

        if self._reply is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(abort)
        return self._reply

    def settle(self, reply: Result | Failure | Exception) -> None:
        """Wake the waiter with *reply*."""
        self._reply = reply
        if self._task is not None:
            task, self._task = self._task, None
            trio.lowlevel.reschedule(task)
        elif self.wake is not None:
            self.wake()

    # ------------------------------------------------------------ deadlines

    def watch(self, deadline: Deadline) -> trio.CancelScope:
        """Return the scope that ends the wait when *deadline* runs out."""
        self._deadline = deadline
        self._scope = trio.CancelScope(deadline=self.started + min(deadline.idle, deadline.cap))
        return self._scope

    def progressed(self, params: dict[str, Any]) -> None:
        """Progress came in: give the deadline more time, tell who asked for it."""
        if self._scope is not None and self._deadline is not None:
            self._scope.deadline = min(
                trio.current_time() + self._deadline.idle, self.started + self._deadline.cap
            )
        if self.on_progress is not None:
            self.on_progress(params)


@final
@frozen(kw_only=True)
class CallSnapshot:
    """One row of ``session.calls()``: who waits for whom, since when, because of what.

    Attributes:
        direction: ``"out"`` for a call of ours, ``"in"`` for one we serve.
        since: when it began, on trio's clock.
        origin: for a call of ours, the id of the incoming request it came from.
        cancelled: for one we serve, that the peer has cancelled it and its handler still unwinds.
    """

    direction: Literal["in", "out"]
    id: RequestId
    method: str
    since: float
    origin: RequestId | None = None
    cancelled: bool = False


@final
@frozen(kw_only=True)
class SessionStatistics:
    """Counters of one session since it began, and what is open now."""

    in_flight: int
    outgoing: int
    received: int
    sent: int
    busy_refused: int
    duplicate_ids: int
    malformed: int
    late_answers: int
    stray_answers: int
    late_progress: int
    cancelled_by_peer: int
    abandoned: int
    notifications_dropped: int


def snapshot(table: Correlation[PendingCall, Serving]) -> tuple[CallSnapshot, ...]:
    """Return the rows of both tables, oldest first."""
    rows = [
        CallSnapshot(
            direction="out",
            id=call.id,
            method=call.method,
            since=call.started,
            origin=None if call.origin is None else call.origin.id,
        )
        for call in table.outgoing.values()
    ]
    rows += [
        CallSnapshot(
            direction="in",
            id=serving.id,
            method=serving.method,
            since=serving.started,
            cancelled=serving.stage is Stage.CANCELLED,
        )
        for serving in table.incoming.values()
    ]
    return tuple(sorted(rows, key=lambda row: row.since))
