"""What the requirements are written with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, final

import trio
from attrs import define

from mcp_trio.abc import SessionRecord, StoredEvent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    from mcp_trio.abc import EventStore
    from mcp_trio.limits import Limits

    OpenStore: TypeAlias = Callable[
        [Limits, Callable[[], float]], AbstractAsyncContextManager[EventStore]
    ]

RECORD: Final = SessionRecord(revision="r1", principal="alice")


@final
@define
class SettableClock:
    """A clock that stands still until it is moved on."""

    now: float = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def advance(self, seconds: float) -> None:
        """Let *seconds* go by."""
        self.now += seconds


def expect(actual: object, expected: object, what: str) -> None:
    """Raise AssertionError unless both are equal."""
    if actual != expected:
        raise AssertionError(f"{what}: expected {expected!r}, got {actual!r}.")


async def refused(error: type[Exception], call: Awaitable[object], what: str) -> None:
    """Expect that *call* raises *error*. A checkpoint."""
    await trio.lowlevel.checkpoint()
    try:
        result = await call
    except error:
        return
    raise AssertionError(f"{what}: expected {error.__name__}, got {result!r}.")


def events(*numbers: int, size: int = 3) -> tuple[StoredEvent, ...]:
    """Make events with these *numbers*, each of *size* bytes that tell its number."""
    return tuple(StoredEvent(n, str(n).encode().rjust(size, b"0")) for n in numbers)


async def open_sessions(store: EventStore, *sessions: str) -> None:
    """Open *sessions* with the one record. A checkpoint."""
    await trio.lowlevel.checkpoint()
    for session in sessions:
        await store.open_session(session, RECORD)


async def holds(
    store: EventStore, session: str, stream: str, after: int, *numbers: int, finished: bool = False
) -> None:
    """Expect that a tail has the events with these *numbers*, and is *finished*. A checkpoint."""
    tail = await store.read(session, stream, after)
    what = f"the tail of stream {stream!r} after {after}"
    expect(tuple(event.n for event in tail.events), numbers, what)
    expect(tail.finished, finished, f"whether stream {stream!r} is finished")
