"""The answers to one batch leave together, as one array (2025-03-26 basic § Batching)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.jsonrpc import (
    Batch,
    Failure,
    Flaw,
    Malformed,
    Result,
    classify,
    encode,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.abc import Route

__all__ = ["BatchRoute"]


class BatchRoute:
    """Collects the answers to a batch's requests; everything else passes straight through."""

    __slots__ = ("_answers", "_missing", "_route")

    def __init__(self, route: Route) -> None:
        self._route = route
        self._answers: list[Result | Failure] = []
        self._missing = 0

    def open(self, batch: Batch, is_answered: Callable[[object], bool]) -> list[object]:
        """Return the members as messages, after counting the answers they will get.

        All are counted before the first is served: an answer given at once is not the last.
        """
        messages: list[object] = []
        for raw in batch.members:
            message = classify(raw)
            if isinstance(message, Batch):
                message = Malformed(
                    Flaw.UNPARSABLE, ErrorCode.INVALID_REQUEST, "a batch in a batch"
                )
            messages.append(message)
            self._missing += is_answered(message)
        return messages

    @property
    def full(self) -> bool:
        """As the route behind it."""
        return self._route.full

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:
        """Keep an answer until the last one is there; pass anything else on."""
        if not isinstance(message, Result | Failure):
            return self._route.send_nowait(message, eager=eager)
        encode(message)  # one that cannot be written must not take the others with it
        self._answers.append(message)
        self.skip()
        return 0

    def skip(self) -> None:
        """One request of the batch needs no answer (it was cancelled), or has got it."""
        self._missing -= 1
        if self._missing == 0:
            if self._answers:
                self._route.send_nowait(self._answers)
            else:
                self._route.skip()

    def hang_up(self) -> bool:
        """As the route behind it."""
        return self._route.hang_up()

    def unsend(self, ticket: int) -> bool:
        """As the route behind it."""
        return self._route.unsend(ticket)

    async def wait_room(self) -> None:
        """As the route behind it."""
        await self._route.wait_room()
