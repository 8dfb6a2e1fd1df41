"""Who waits for whom: one flat table per direction, and the back-pointers between them.

An outgoing call knows the incoming request it came from (its *origin*); an incoming
request knows the calls it *originated*. That is the whole of the law's bookkeeping:
when a request settles, `Correlation.settle` takes every call still in ``originated``
out of the table in the same step and hands them over to be ended.

The races between a cancel and an answer are decided by `REQUEST_RACES`, one cell per
stage and event. Source: 2025-11-25 basic/utilities/cancellation.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, final

from mcp_trio.errors import OriginSettled

if TYPE_CHECKING:
    from .jsonrpc import RequestId

__all__ = [
    "REQUEST_RACES",
    "Correlation",
    "DuplicateId",
    "IncomingRequest",
    "OutgoingCall",
    "RequestEvent",
    "Stage",
    "Verdict",
]


@final
class Stage(IntEnum):
    """Where an incoming request stands."""

    SERVING = 0
    CANCELLED = 1
    SETTLED = 2


@final
class RequestEvent(IntEnum):
    """What can happen to an incoming request."""

    PEER_CANCELS = 0
    HANDLER_ENDS = 1


@final
class Verdict(IntEnum):
    """What an event asks of the runtime."""

    IGNORE = 0
    STOP_HANDLER = 1
    ANSWER = 2
    SAY_NOTHING = 3


#: ``REQUEST_RACES[stage][event] -> (next stage, verdict)``. A request is SERVING from the
#: moment it is read, so a cancel before its handler starts is the same cell as one during it.
REQUEST_RACES: Final[tuple[tuple[tuple[Stage, Verdict], ...], ...]] = (
    # PEER_CANCELS                            HANDLER_ENDS
    ((Stage.CANCELLED, Verdict.STOP_HANDLER), (Stage.SETTLED, Verdict.ANSWER)),  # SERVING
    ((Stage.CANCELLED, Verdict.IGNORE), (Stage.SETTLED, Verdict.SAY_NOTHING)),  # CANCELLED
    ((Stage.SETTLED, Verdict.IGNORE), (Stage.SETTLED, Verdict.SAY_NOTHING)),  # SETTLED
)


class DuplicateId(Exception):
    """The peer reused the id of a request that is still being served."""

    def __init__(self, id_: RequestId) -> None:
        super().__init__(id_)
        self.id: Final = id_


class IncomingRequest:
    """A request of the peer, from the moment it is read until its answer is committed.

    Attributes:
        id, method: as sent.
        started: when it was read, on the caller's clock.
        cancellable: false for ``initialize`` (2025-11-25 cancellation § Behavior Requirements).
        originated: the open calls that came from it, oldest first: reverse calls, and calls of
            a chain, which stand in the table of another session.
    """

    __slots__ = ("cancellable", "id", "method", "originated", "stage", "started")

    def __init__(
        self, id_: RequestId, method: str, started: float, *, cancellable: bool = True
    ) -> None:
        self.id: Final = id_
        self.method: Final = method
        self.started: Final = started
        self.cancellable: Final = cancellable
        self.stage = Stage.SERVING
        self.originated: dict[Any, None] | None = None


class OutgoingCall:
    """A request of ours that waits for its answer.

    Attributes:
        origin: the incoming request it came from, or None for a call of its own accord.
        started: when it was made, on the caller's clock.
        table: the open calls it stands among, while it is open.
    """

    __slots__ = ("id", "method", "origin", "started", "table")

    def __init__(
        self, id_: RequestId, method: str, origin: IncomingRequest | None, started: float
    ) -> None:
        self.id: Final = id_
        self.method: Final = method
        self.origin: Final = origin
        self.started: Final = started
        self.table: dict[RequestId, Any] | None = None


C = TypeVar("C", bound=OutgoingCall)
R = TypeVar("R", bound=IncomingRequest)


class Correlation(Generic[C, R]):
    """The two tables of one id space.

    Being popped from ``outgoing`` is the single ticket for waking a call's waiter:
    whoever pops it, and only that one, settles the call.
    """

    __slots__ = ("_last_id", "incoming", "late", "outgoing", "stray")

    def __init__(self) -> None:
        self._last_id = 0
        self.outgoing: dict[RequestId, C] = {}
        self.incoming: dict[RequestId, R] = {}
        #: Answers to calls that had been given up, and answers nobody ever asked for.
        self.late = 0
        self.stray = 0

    def next_id(self) -> int:
        """Return an id never used before in this direction of this id space."""
        self._last_id += 1
        return self._last_id

    # ------------------------------------------------------------ calls of ours

    def open_call(self, call: C) -> None:
        """Enter *call*.

        Raises:
            OriginSettled: its origin has ended; nothing is entered.
        """
        origin = call.origin
        if origin is not None:
            if origin.stage is not Stage.SERVING:
                raise OriginSettled(
                    f"{call.method} comes from request {origin.id!r} ({origin.method}), "
                    "which has ended"
                )
            if origin.originated is None:
                origin.originated = {}
            origin.originated[call] = None
        call.table = self.outgoing
        self.outgoing[call.id] = call

    def take_call(self, id_: RequestId) -> C | None:
        """Pop the call that *id_* answers; None, and counted, where nobody waits for it."""
        call = self.outgoing.pop(id_, None)
        if call is None:
            if type(id_) is int and 0 < id_ <= self._last_id:
                self.late += 1
            else:
                self.stray += 1
            return None
        self._unlink(call)
        return call

    def abandon(self, call: C) -> bool:
        """Pop *call* because its caller gave up; true for the one who may act on it."""
        if self.outgoing.pop(call.id, None) is None:
            return False
        self._unlink(call)
        return True

    def take_all_calls(self) -> list[C]:
        """Pop every call: the peer is gone."""
        calls = list(self.outgoing.values())
        self.outgoing.clear()
        for call in calls:
            self._unlink(call)
        return calls

    @staticmethod
    def _unlink(call: OutgoingCall) -> None:
        origin = call.origin
        if origin is not None and origin.originated is not None:
            origin.originated.pop(call, None)

    # ------------------------------------------------------------ requests of the peer

    def begin(self, request: R) -> None:
        """Enter *request*.

        Raises:
            DuplicateId: its id is in flight; the first request goes on untouched.
        """
        if request.id in self.incoming:
            raise DuplicateId(request.id)
        self.incoming[request.id] = request

    def peer_cancels(self, id_: object) -> R | None:
        """Return the request whose handler must stop now; None where there is nothing to stop."""
        if type(id_) is not int and type(id_) is not str:
            return None
        request = self.incoming.get(id_)
        if request is None or not request.cancellable:
            return None
        request.stage, verdict = REQUEST_RACES[request.stage][RequestEvent.PEER_CANCELS]
        return request if verdict is Verdict.STOP_HANDLER else None

    def settle(self, request: R) -> tuple[Verdict, list[C]]:
        """End *request*: say whether it is answered, and pop every call it still has open.

        The caller ends those calls before it queues the answer, which is what makes
        "no reverse call outlives its forward call" true under shields and in foreign nurseries.
        """
        request.stage, verdict = REQUEST_RACES[request.stage][RequestEvent.HANDLER_ENDS]
        if self.incoming.get(request.id) is request:
            del self.incoming[request.id]
        return verdict, self.take_calls_from(request) if request.originated else []

    @staticmethod
    def take_calls_from(request: R) -> list[C]:
        """Pop every call that *request* still has open, from whichever table it stands in."""
        abandoned: list[C] = list(request.originated or ())
        request.originated = None
        for call in abandoned:
            assert call.table is not None  # noqa: S101 - open_call has set it
            del call.table[call.id]
        return abandoned
