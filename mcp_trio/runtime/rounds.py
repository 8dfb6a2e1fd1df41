"""Questions that travel in results: the same handler, run again with the answers.

Where the server may send no requests, a question ends the request: its answer asks the client
for what is open, and seals what is known so far. The client sends the request again with the
answers, and the handler runs again from its start; what it had asked before it finds answered.
The ledger decides, not the way in which the handler left: a cancel of the peer comes first,
then open questions, then the handler's exception, then its result.
Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

import logging
import math
import secrets
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
import trio

from mcp_trio.errors import (
    CannotSuspend,
    ErrorCode,
    InvalidMessage,
    NoReverseRoute,
    OriginSettled,
    Refusal,
)
from mcp_trio.wire.correlation import Stage
from mcp_trio.wire.jsonrpc import Failure, Result
from mcp_trio.wire.mrtr import (
    QUESTION_METHODS,
    AnswerLedger,
    BadState,
    Question,
    State,
    Step,
    digest,
    input_required,
    seal,
    unseal,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.limits import Limits
    from mcp_trio.wire.jsonrpc import Request
    from mcp_trio.wire.mrtr import Sealer

    from .calls import Serving

__all__ = ["Rounds"]

_log: Final = logging.getLogger("mcp_trio.runtime")


class Rounds:
    """The questions of one request that is being served.

    Args:
        serving: that request.
        message: the same as it came, with the state and the answers of earlier rounds.
        sealer: seals what the next round has to know.
        limits: the bounds of that.
        dress: adds to an interim result what every result has.

    Raises:
        Refusal: the state is not valid for this request.
        InvalidMessage: the state is no string, or the answers are no object.
    """

    __slots__ = (
        "_dress",
        "_ledger",
        "_limits",
        "_method",
        "_params",
        "_principal",
        "_sealer",
        "_serving",
        "_steps",
    )

    def __init__(
        self,
        serving: Serving,
        message: Request,
        sealer: Sealer,
        limits: Limits,
        dress: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._serving: Serving | None = serving  # until it ends
        self._method = message.method
        principal = serving.session.principal
        self._principal = None if principal is None else str(principal)
        # A copy of the request as it came: a handler may change its arguments before it asks.
        self._params = msgspec.json.encode(message.params)
        self._sealer = sealer
        self._limits = limits
        self._dress = dress
        self._steps: dict[str, trio.Event] = {}  # that are being run
        self._ledger: AnswerLedger | None = None  # most calls ask nothing
        params = message.params or {}
        if "requestState" in params or "inputResponses" in params:
            self._ledger = self._restored(params.get("requestState"))
            try:
                self._ledger.take(params.get("inputResponses"))
            except ValueError:
                raise InvalidMessage("$.inputResponses", "an object") from None

    @property
    def _binding(self) -> bytes:
        return digest(self._method, msgspec.json.decode(self._params))

    @property
    def _known(self) -> AnswerLedger:
        if self._ledger is None:
            self._ledger = AnswerLedger()
        return self._ledger

    def _restored(self, text: object) -> AnswerLedger:
        if text is None:
            return AnswerLedger()
        if type(text) is not str:
            raise InvalidMessage("$.requestState", "a string")
        try:
            state = unseal(
                text,
                self._sealer,
                now=time.time(),
                principal=self._principal,
                binding=self._binding,
                limit=self._limits.request_state_bytes,
            )
            return AnswerLedger.from_payload(state.payload)
        except (BadState, ValueError) as exc:
            _log.warning("a requestState for %s is refused: %s", self._method, exc)
            raise Refusal(ErrorCode.INVALID_PARAMS, BadState.public) from None

    # ------------------------------------------------------------ the handler's side

    async def ask(
        self, method: str, params: dict[str, Any] | None, key: str | None = None
    ) -> dict[str, Any]:
        """Return the answer, or end this run of the handler to get it. A checkpoint.

        Other tasks of the handler that ask in the same pass of the scheduler ask in the same
        round. Who is being cancelled asks nothing.

        Raises:
            CannotSuspend: the end of this run would not reach the caller: it is under a shield,
                or in a nursery beyond the request.
            Divergence: the handler does not repeat itself.
            NoReverseRoute: *method* is none of those that can be asked.
            OriginSettled: the request has ended; or this run of it, which has left the thread
                behind that asks.
        """
        await trio.lowlevel.checkpoint()
        serving = self._serving
        if serving is None or serving.stage is not Stage.SERVING:
            raise OriginSettled(f"the request has ended; {method} is not asked")
        if method not in QUESTION_METHODS:
            raise NoReverseRoute(f"{method} is nothing that {serving.method} can ask its client")
        others = self._known.open
        asked = self._known.ask(Question(method, params or {}), key)
        if asked.answer is not None:
            return asked.answer
        reached = _reaches(serving.scope)
        if not reached and (serving.scope.cancel_called or not _is_of_a_thread()):
            if asked.key not in others:  # else another task waits for the same
                self._known.withdraw(asked.key)
            raise CannotSuspend(
                f"{method} ends this run of the handler until its answer is there, and cannot be "
                "asked under a shield or in a nursery beyond the request"
            )
        await trio.lowlevel.cancel_shielded_checkpoint()
        serving.scope.cancel(reason="the handler runs again when its questions are answered")
        if not reached:
            raise OriginSettled(f"{method} is asked; {serving.method} runs again with its answer")
        await trio.sleep_forever()
        raise AssertionError  # the scope was reached: nobody comes here

    async def once(self, key: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """Run *fn* in the first round that comes by, and return what it came to in all.

        Raises:
            Unencodable: that cannot be written as JSON.
        """
        await trio.lowlevel.checkpoint()
        while key in self._steps:  # another task of the handler is at it
            await self._steps[key].wait()
        value = self._known.once(key)
        if value is not Step.TO_RUN:
            return value
        done = self._steps[key] = trio.Event()
        try:
            return self._known.record(key, await fn())
        finally:
            del self._steps[key]
            done.set()

    # ------------------------------------------------------------ the end of the run

    def conclude(self, answer: Result | Failure | None) -> Result | Failure | None:
        """Return what the request is answered with: the open questions before anything else."""
        ledger, serving = self._ledger, self._serving
        if ledger is None or not ledger.open or serving is None:
            return answer
        if type(answer) is Result:
            _log.warning(
                "the handler of %s went on after a question that had ended its run; "
                "the question is asked, its result is dropped",
                serving.method,
            )
        try:
            state = State(
                payload=ledger.to_payload(),
                expires=time.time() + self._limits.request_state_time,
                principal=self._principal,
                binding=self._binding,
                nonce=secrets.token_urlsafe(12),
            )
            sealed = seal(state, self._sealer, limit=self._limits.request_state_bytes)
        except ValueError as exc:  # too large, no JSON, or without an end
            _log.error("%s cannot go on in another round: %s", serving.method, exc)
            reason = f"internal error in {serving.method}"
            return Failure(serving.id, ErrorCode.INTERNAL_ERROR, reason)
        return Result(serving.id, self._dress(input_required(ledger, sealed)))

    def end(self) -> None:
        """The request is settled; what it held is let go of at once, without a collector."""
        self._serving = None


def _reaches(scope: trio.CancelScope) -> bool:
    """Tell whether cancelling *scope* would reach the task that runs here."""
    deadline, scope.deadline = scope.deadline, -math.inf
    try:
        return trio.current_effective_deadline() == -math.inf
    finally:
        scope.deadline = deadline  # before anybody could act on it


def _is_of_a_thread() -> bool:
    """Tell whether a thread asks that may be left behind: trio runs its calls as system tasks.

    What it calls from there no cancellation of its request can reach, but an exception can.
    """
    task, root = trio.lowlevel.current_task(), trio.lowlevel.current_root_task()
    assert root is not None  # noqa: S101 - trio runs
    nursery = task.parent_nursery
    while nursery is not None and nursery.parent_task is not root:
        nursery = nursery.parent_task.parent_nursery
    return nursery is not root.child_nurseries[-1]  # the last one is that of the main task
