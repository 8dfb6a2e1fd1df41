"""stdio: newline-delimited JSON over the pipes between a client and the server it starts.

`own_stdio` is the server's end, the process's own stdin and stdout; `open_child` starts a
server and returns the client's end. Both are a `PipeTransport` over descriptors.
Source: 2025-11-25 basic/transports § stdio; 2026-07-28 basic/transports/stdio.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from mcp_trio.errors import ConnectFailed, SessionLost
from mcp_trio.limits import Limits
from mcp_trio.wire.jsonrpc import Discarded, Failure, Flaw, Malformed, Result, decode

from ._fds import FdBytes, own_description
from .pipe import PipeTransport
from .process import spawn
from .turn import Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from mcp_trio.abc import Deliver, Tracer

    from .process import Child, Stderr
    from .turn import Waiting

__all__ = ["ChildTransport", "ServerTransport", "open_child", "own_stdio"]

#: After the end of a child's stdout, its exit status may take this long to appear (seconds).
_EXIT_PATIENCE: Final = 0.5
#: After a child's exit, what it wrote may take this long to be read (seconds).
_READ_PATIENCE: Final = 0.2
#: How much of the noise on a child's stdout is kept: lines, and characters of each.
_NOISE_LINES: Final = 5
_NOISE_WIDTH: Final = 200

#: Held while `own_stdio` has the process's stdin and stdout.
_one_owner: Final = threading.Lock()


async def _run_beside(
    main: Callable[[], Awaitable[None]], beside: Callable[[trio.CancelScope], Awaitable[None]]
) -> None:
    """Run *main* with *beside*, which may cancel it by the scope it gets and ends with it.

    The exception of *main* leaves bare, as sessions want it. A checkpoint.
    """
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(beside, nursery.cancel_scope)
        try:
            await main()
        except Exception as exc:  # noqa: BLE001 - raised again outside of the nursery
            failure = exc
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure


# ---------------------------------------------------------------- the server's end


class ServerTransport(PipeTransport):
    """The server's end of stdio. It ends with stdin, and with the parent process."""

    def __init__(self, stream: FdBytes, limits: Limits) -> None:
        super().__init__(stream, limits)
        self._fds = stream
        self._parent = _open_parent()

    async def run_reader(self, deliver: Deliver) -> None:
        """Deliver every line until stdin ends or the parent process does. A checkpoint.

        A parent that was killed does not always end stdin: others may hold the pipe as well.
        """
        await _run_beside(partial(super().run_reader, deliver), self._watch_parent)

    async def _watch_parent(self, reading: trio.CancelScope) -> None:  # noqa: ASYNC910 - a task of its own
        if self._parent >= 0:
            await trio.lowlevel.wait_readable(self._parent)
            reading.cancel(reason="the parent process has ended")

    def close(self) -> None:
        """Close both directions, at once. Idempotent."""
        self._fds.close()
        if self._parent >= 0:
            if trio.lowlevel.in_trio_run():
                trio.lowlevel.notify_closing(self._parent)
            os.close(self._parent)
            self._parent = -1

    async def aclose(self) -> None:  # noqa: ASYNC910 - closing does not wait
        """Close both directions, at once. Idempotent."""
        self.close()


def _open_parent() -> int:
    """Return a pidfd of the parent process, or -1 where there is none worth watching.

    Not PR_SET_PDEATHSIG: it tells of the end of the parent's thread.
    """
    if sys.platform == "linux":
        parent = os.getppid()
        if parent > 1:  # not yet orphaned, nor the first process of a container
            with contextlib.suppress(OSError):
                pidfd = os.pidfd_open(parent)
                if os.getppid() == parent:  # otherwise the number may be somebody else's
                    return pidfd
                os.close(pidfd)
    return -1


@contextlib.contextmanager
def own_stdio(limits: Limits | None = None) -> Iterator[ServerTransport]:
    """Own this process's stdin and stdout while the block runs; gives the transport.

    Meanwhile descriptor 0 is ``/dev/null`` and descriptor 1 is stderr: neither ``print`` nor
    a C library nor a child process can reach the protocol, and `sys.stdout` works. What was
    printed before but not flushed goes to stderr as well. Afterwards both are put back.
    Descriptors shared with other processes keep their flags.

    Raises:
        RuntimeError: the process serves its stdin and stdout already.
        OSError: stdin or stdout is not open.
    """
    if not _one_owner.acquire(blocking=False):
        raise RuntimeError("stdin and stdout of this process are being served already")
    with contextlib.ExitStack() as undo:
        undo.callback(_one_owner.release)
        for fd in (0, 1):
            saved = os.dup(fd)
            undo.callback(os.close, saved)
            undo.callback(os.dup2, saved, fd)
        read_fd = own_description(0, os.O_RDONLY)
        write_fd = own_description(1, os.O_WRONLY)
        transport = ServerTransport(FdBytes(read_fd, write_fd), limits or Limits())
        undo.callback(transport.close)
        undo.callback(_flush_c_stdout)
        _divert(undo)
        yield transport


def _divert(undo: contextlib.ExitStack) -> None:
    """Point descriptor 0 at nothing and descriptor 1 at stderr."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null, 1)  # stderr is closed
    os.close(null)
    stdout = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What is printed appears at once, as on stderr. This also writes out what waits.
        undo.callback(stdout.reconfigure, line_buffering=stdout.line_buffering)
        stdout.reconfigure(line_buffering=True)


def _flush_c_stdout() -> None:
    """Write out what C libraries hold back in their stdout."""
    import ctypes  # noqa: PLC0415 - only needed at the end

    with contextlib.suppress(OSError):
        ctypes.CDLL(None).fflush(None)


# ---------------------------------------------------------------- the client's end


class ChildTransport(PipeTransport):
    """The client's end of stdio, with the server process it belongs to.

    Lines on the child's stdout that are no JSON-RPC are skipped, up to ``limits.junk_bytes``
    between two messages. The session ends with the child's stdout or with the child,
    whichever is first, and its `SessionLost` has the exit code and the end of stderr.

    Attributes:
        skipped_lines: how many lines were skipped.
        first_noise: the beginnings of the first of them.
    """

    def __init__(
        self, child: Child, stream: FdBytes, limits: Limits, tracer: Tracer | None = None
    ) -> None:
        super().__init__(stream, limits)
        self._fds = stream
        self._turn = Turn(stream.reader)
        self._child = child
        self._tracer = tracer
        self._junk = 0
        self._read_out = trio.Event()
        self._one_closer = trio.Lock()
        self._closed = False
        self.skipped_lines = 0
        self.first_noise: tuple[str, ...] = ()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The child's exit status, negative for a signal; None while it runs."""
        return self._child.exit_code

    @property
    def stderr_tail(self) -> str:
        """The end of the child's stderr, at most ``limits.stderr_tail`` bytes; none of a file."""
        return "" if self._child.stderr is None else self._child.stderr.text

    async def run_reader(self, deliver: Deliver) -> None:
        """Deliver every message until the child's stdout ends, or the child. A checkpoint.

        Raises:
            SessionLost: always, with what is known of the child.
        """
        try:
            await _run_beside(partial(super().run_reader, deliver), self._watch_exit)
            raise await self._parting()
        finally:
            self._read_out.set()

    async def _receive(self) -> bytes:
        return await self._turn.receive()

    async def lead(self, call: Waiting) -> Result | Failure | None:
        """Read the answer to *call*, the only one outstanding, in its caller's own task.

        None, perhaps at once and without a checkpoint, where the caller is to wait as others
        do: the reader waits already, or something else came, which the reader now has.
        """
        turn = self._turn
        if self._framer.midway or not turn.claim():
            return None  # noqa: ASYNC910 - the caller waits then
        data = await turn.take(call)
        if data is None:
            return None
        if 0 <= data.find(b"\n") == len(data) - 1 <= self._limits.message_bytes:
            message = decode(data[:-1], depth=self._limits.json_depth)
            kind = type(message)
            if (kind is Result or kind is Failure) and message.id == call.id:  # type: ignore[union-attr]  # by its class
                self._junk = 0
                return message  # type: ignore[return-value]  # by its class
        turn.hand(data)
        return None

    async def _watch_exit(self, reading: trio.CancelScope) -> None:
        """End the reading soon after the child's exit, even if its children hold the pipe."""
        await self._child.wait()
        await trio.sleep(_READ_PATIENCE)
        reading.cancel(reason="the server process has ended")

    async def _parting(self) -> SessionLost:
        """Say how the child ended; its exit status and last words may still be on their way."""
        with trio.move_on_after(_EXIT_PATIENCE):
            await self._child.wait()
            if self._child.stderr is not None:
                await self._child.stderr.ended.wait()
        if self.exit_code is None:
            return self._lost("the server closed its stdout")
        return self._lost("the server process ended")

    def _lost(self, reason: str) -> SessionLost:
        return SessionLost(reason, exit_code=self.exit_code, stderr_tail=self.stderr_tail)

    def read_line(self, line: bytes | Discarded, depth: int) -> object:
        """Turn a line into what `deliver` takes, or None where it is noise."""
        message = line if type(line) is Discarded else decode(line, depth=depth)
        kind = type(message)
        if kind is Discarded or (kind is Malformed and message.flaw is Flaw.UNPARSABLE):  # type: ignore[union-attr]  # by its class
            self._skip(line)
            return None
        self._junk = 0
        return message

    def _skip(self, line: bytes | Discarded) -> None:
        if type(line) is Discarded:
            # Not counted as junk: it may have been a message, and the framer has its own bound.
            size = line.size
            text = f"<a line of {size} bytes; the limit is {self._limits.message_bytes}>"
        else:
            size = len(line)
            text = line[:_NOISE_WIDTH].decode("utf-8", "replace")
            self._junk += size
        self.skipped_lines += 1
        if len(self.first_noise) < _NOISE_LINES:
            self.first_noise += (text,)
        if self._tracer is not None:
            self._tracer.event("line.skipped", {"line": text, "size": size})
        if self._junk > self._limits.junk_bytes:
            raise self._lost(
                f"the server wrote {self._junk} bytes to its stdout that are no JSON-RPC"
                + self._noise()
            )

    def _noise(self) -> str:
        if not self.first_noise:
            return ""
        return "; its stdout has lines that are no JSON-RPC: " + " | ".join(self.first_noise)

    def failure(self, reason: str) -> ConnectFailed:
        """Return the error for a connection that did not come about: *reason* and what is known."""
        return ConnectFailed(
            reason + self._noise(), exit_code=self.exit_code, stderr_tail=self.stderr_tail
        )

    async def run_writer(self) -> None:
        """Write what is queued and read the child's stderr, until cancelled. A checkpoint."""
        await _run_beside(self._write, self._read_stderr)

    async def _write(self) -> None:
        try:
            await super().run_writer()
        except OSError:
            # A broken pipe; the reader is about to find out why, and knows more to say.
            with trio.move_on_after(_EXIT_PATIENCE + _READ_PATIENCE):
                await self._read_out.wait()  # noqa: ASYNC120 - cancelled, it no longer matters
            raise

    async def _read_stderr(self, _: object) -> None:  # noqa: ASYNC910 - a task of its own
        if self._child.stderr is not None:
            await self._child.stderr.run()

    async def aclose(self) -> None:
        """Close stdin and end the child and all of its process group, by force if need be.

        Idempotent; shielded from cancellation, and bounded by ``limits.shutdown_wait``,
        ``terminate_wait`` and ``kill_wait``. See `Child.stop`.
        """
        with trio.CancelScope(shield=True):
            async with self._one_closer:
                if self._closed:
                    return
                self._fds.writer.close()
                async with trio.open_nursery() as nursery:
                    # A child that cannot write would not get around to exiting.
                    nursery.start_soon(self._read_stderr, None)
                    nursery.start_soon(self._discard_stdout)
                    await self._child.stop()
                    nursery.cancel_scope.cancel()
                self._fds.close()
                if self._child.stderr is not None:
                    self._child.stderr.close()
                self._closed = True

    async def _discard_stdout(self) -> None:  # noqa: ASYNC910 - a task of its own
        with contextlib.suppress(OSError, trio.ClosedResourceError, trio.BusyResourceError):
            while await self._fds.receive():
                pass


async def open_child(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = True,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Stderr = "inherit",
    limits: Limits | None = None,
    tracer: Tracer | None = None,
) -> ChildTransport:
    """Start a server as a child process; whoever gets the transport has to close it.

    Args:
        command: the program and its arguments; no shell is involved.
        env: variables for the child, on top of ours.
        inherit_env: give the child our environment; without it, it has *env* alone.
        cwd: where it runs; here by default.
        stderr: ``"inherit"`` shows what the child writes there on our stderr and keeps its
            end for errors; ``"capture"`` only keeps the end; a `pathlib.Path` (appended to) or
            an open file gets it directly, and errors do without.
        limits: the bounds of the session and of the shutdown.
        tracer: gets ``line.skipped``.

    Raises:
        ConnectFailed: it could not be started.

    A checkpoint; after Cancelled there is no child.
    """
    limits = limits or Limits()
    full_env = {**(os.environ if inherit_env else {}), **(env or {})}
    child, stream = await spawn(command, env=full_env, cwd=cwd, stderr=stderr, limits=limits)
    return ChildTransport(child, stream, limits, tracer)
