"""How a command ends: its exit code, and at most one line that says why."""

from __future__ import annotations

import signal
import sys
from enum import IntEnum
from typing import TYPE_CHECKING, final

from mcp_trio.errors import (
    CapabilityMissing,
    ConnectFailed,
    McpError,
    PeerError,
    ProtocolViolation,
    SessionLost,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    import trio

__all__ = ["CommandError", "Exit", "complain", "plain", "run_async"]


@final
class Exit(IntEnum):
    """The exit codes; a part of the interface (see ``mcp-trio --help``)."""

    OK = 0
    TOOL_ERROR = 1
    USAGE = 2
    LOST = 3
    VIOLATION = 4
    INTERRUPTED = 130


@final
class CommandError(Exception):
    """A command ends here, with this line on stderr and this code."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code


def plain(text: str, *, keep: str = "") -> str:
    """Return *text* without control characters: a server must not drive the user's terminal."""
    return "".join(c if c.isprintable() or c in keep else " " for c in text)


def complain(exc: CommandError | McpError) -> Exit:
    """Print *exc* as one line and return its exit code."""
    text = str(exc)
    if isinstance(exc, SessionLost | ConnectFailed):
        text = exc.reason  # the end of the server's stderr has been shown as it was written
        if exc.exit_code is not None:
            text += f" (exit code {exc.exit_code})"
    print(f"mcp-trio: {' '.join(plain(text).split())}", file=sys.stderr)
    return exc.code if isinstance(exc, CommandError) else _code_of(exc)


def _code_of(exc: McpError) -> Exit:
    if isinstance(exc, PeerError | CapabilityMissing):
        return Exit.TOOL_ERROR
    if isinstance(exc, ProtocolViolation) or isinstance(exc.__cause__, ProtocolViolation):
        return Exit.VIOLATION
    return Exit.LOST


def run_async(
    command: Callable[[], Awaitable[Exit]],
    *,
    on_sigterm: Exit = Exit.INTERRUPTED,
    wind_down: Callable[[], Awaitable[None]] | None = None,
) -> Exit:
    """Run *command* under trio until it ends or a signal ends it; return the exit code.

    Ctrl+C and SIGTERM unwind it in order, which ends child processes too, within bounds. The
    first one runs *wind_down* before; a second one does not wait for that.
    """
    import trio  # noqa: PLC0415 - `--help` does not need it

    ends = {signal.SIGINT: Exit.INTERRUPTED, signal.SIGTERM: on_sigterm}
    code = Exit.OK
    signalled: Exit | None = None
    failure: Exception | None = None

    async def end_gently(scope: trio.CancelScope, signum: int) -> None:
        if wind_down is not None:
            await wind_down()
        scope.cancel(reason=f"signal {signum}")

    async def watch(
        signals: AsyncIterator[int], scope: trio.CancelScope, nursery: trio.Nursery
    ) -> None:
        nonlocal signalled
        async for signum in signals:
            if signalled is None:
                nursery.start_soon(end_gently, scope, signum)
            else:
                scope.cancel(reason=f"signal {signum}, the second one")
            signalled = ends[signal.Signals(signum)]

    async def run() -> None:
        nonlocal code, failure
        with trio.open_signal_receiver(*ends) as signals:
            async with trio.open_nursery() as nursery:
                scope = trio.CancelScope()
                nursery.start_soon(watch, signals, scope, nursery)
                with scope:
                    try:
                        code = await command()
                    except Exception as exc:  # noqa: BLE001 - raised again where no nursery wraps it
                        failure = exc
                nursery.cancel_scope.cancel()

    trio.run(run)
    if failure is not None:
        raise failure
    return code if signalled is None else signalled
