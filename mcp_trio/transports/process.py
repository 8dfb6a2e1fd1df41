"""A child process with everything it starts: spawning, its stderr, its exit, its end.

The child leads a process group of its own, and the group is what gets signalled. The number
of a group cannot be given to anybody else while its leader is unreaped or any member lives.
So the leader is only looked at when it exits, and reaped after the group has had its first
signal; later signals follow within milliseconds after a look that found members.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias

import trio

from mcp_trio.errors import ConnectFailed

from ._fds import FdBytes, FdReader, FdWriter, own_description

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_trio.limits import Limits

__all__ = ["Child", "Stderr", "StderrTail", "spawn"]

#: What becomes of a child's stderr; see `spawn`.
Stderr: TypeAlias = "Literal['inherit', 'capture'] | os.PathLike[str] | IO[Any]"

#: Nothing reports that a process group has become empty; it is looked at this often (seconds).
_GLANCE: Final = 0.01
#: How long a chunk of the child's stderr waits for our own stderr before it is dropped.
_FORWARD_PATIENCE: Final = 0.1
#: Reads that empty any pipe at the end; more would mean that somebody still writes.
_LAST_READS: Final = 16


class StderrTail:
    """Reads a child's stderr: keeps its last bytes, forwards all of it if there is a place.

    The child never has to wait for a stderr of ours that nobody reads: what our stderr does
    not take within a moment is dropped, and then every chunk that it does not take at once.
    """

    def __init__(self, fd: int, keep: int, forward: FdWriter | None) -> None:
        self._reader = FdReader(fd)
        self._keep = keep
        self._forward = forward
        self._patience = _FORWARD_PATIENCE
        self._tail = b""
        self._one_reader = trio.Lock()
        self.ended: Final = trio.Event()

    @property
    def text(self) -> str:
        """The last bytes, as text."""
        return self._tail.decode("utf-8", "replace")

    async def run(self) -> None:
        """Read until the end, or until cancelled. Faults of the pipe count as its end."""
        async with self._one_reader:
            with contextlib.suppress(OSError, trio.ClosedResourceError):
                while data := await self._reader.receive():
                    self._tail = (self._tail + data)[-self._keep :]
                    if self._forward is not None:
                        await self._pass_on(data, self._forward)
        self.ended.set()

    async def _pass_on(self, data: bytes, forward: FdWriter) -> None:  # noqa: ASYNC910 - only waits if it must
        rest = memoryview(data)
        try:
            with trio.move_on_after(self._patience):  # noqa: ASYNC912 - as above
                while rest := rest[forward.send_nowait(rest) :]:
                    await forward.wait_writable()
        except OSError:
            forward.close()
            self._forward = None
        self._patience = 0.0 if rest else _FORWARD_PATIENCE

    def close(self) -> None:
        """Take what is in the pipe and close it. Idempotent."""
        with contextlib.suppress(OSError, trio.ClosedResourceError):
            for _ in range(_LAST_READS):
                data = self._reader.receive_nowait()
                self._tail = (self._tail + data)[-self._keep :]
                if self._forward is not None:
                    self._forward.send_nowait(data)
        self._reader.close()
        if self._forward is not None:
            self._forward.close()


class Child:
    """A running child process and its process group.

    Attributes:
        pid: its process id, which is also the number of its group.
        stderr: reads its stderr, or None where the child writes to a file directly.
    """

    def __init__(self, process: trio.Process, stderr: StderrTail | None, limits: Limits) -> None:
        self._process = process
        self._limits = limits
        self._exit_code: int | None = None
        self._one_waiter = trio.Lock()
        self._pidfd = -1
        self.pid: Final = process.pid
        self.stderr: Final = stderr
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(process.pid)

    @property
    def exit_code(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        if self._exit_code is None:
            self._exit_code = self._peek()
        return self._exit_code

    def _peek(self) -> int | None:
        """Return the exit status without reaping, where the system can."""
        if self._pidfd >= 0:
            with contextlib.suppress(ChildProcessError):
                seen = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if seen is None:
                    return None
                return seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status
        return self._process.poll()

    async def wait(self) -> None:
        """Wait until it has exited. A checkpoint."""
        if self._pidfd < 0:
            await self._process.wait()
            return
        async with self._one_waiter:  # trio wants one task per descriptor
            await trio.lowlevel.wait_readable(self._pidfd)

    async def stop(self) -> None:
        """End the process and its whole group; its stdin should be closed by now. Call it once.

        ``shutdown_wait`` for it to exit by itself, SIGTERM to the group, ``terminate_wait``,
        SIGKILL to the group, ``kill_wait``; each step ends as soon as it has been successful.
        Shielded: it runs to its end in a cancelled task too.
        Source: 2025-11-25 basic/lifecycle § Shutdown, stdio.
        """
        limits = self._limits
        with trio.CancelScope(shield=True):
            with trio.move_on_after(limits.shutdown_wait):
                await self.wait()
            for signum, patience in (
                (signal.SIGTERM, limits.terminate_wait),
                (signal.SIGKILL, limits.kill_wait),
            ):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signum)
                with trio.move_on_after(patience):
                    await self._wait_group()
                    break
        self._exit_code = self._process.poll()
        if self._pidfd >= 0:
            trio.lowlevel.notify_closing(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1

    async def _wait_group(self) -> None:
        """Wait until no process of the group is left, and reap its leader."""
        await self.wait()
        await self._process.wait()
        while _exists(self.pid) and await trio.to_thread.run_sync(_runs, self.pid):  # noqa: ASYNC110 - nothing reports it
            await trio.sleep(_GLANCE)


def _exists(group: int) -> bool:
    """Tell whether any process of the group is left; its leader must have been reaped."""
    with contextlib.suppress(ChildProcessError):
        # Orphans come to us where we are the init process of a container.
        while os.waitpid(-group, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _runs(group: int) -> bool:
    """Tell whether the group has a member that is no zombie: not every init process reaps."""
    if sys.platform != "linux":
        return True
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # proc(5): pid (name) state ppid pgrp ...; the name may contain anything.
                state, _, pgrp = (entry / "stat").read_bytes().rpartition(b") ")[2].split()[:3]
                if int(pgrp) == group and state not in {b"Z", b"X"}:
                    return True
    return False


async def spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None,
    cwd: str | os.PathLike[str] | None,
    stderr: Stderr,
    limits: Limits,
) -> tuple[Child, FdBytes]:
    """Start *command* with *env* as its whole environment (None: ours) and pipes to it.

    *stderr* is ``"inherit"`` (its output appears on ours, and its tail is kept), ``"capture"``
    (the tail is kept), or a path or an open file, which the child writes to by itself, so
    that no tail is known. A checkpoint; after Cancelled there is no process.

    Raises:
        ConnectFailed: it could not be started.
    """
    if isinstance(command, str) or not command:
        raise TypeError("a command is a non-empty sequence of strings, the program first")
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
        try:
            stdin_fd, write_fd = _pipe(theirs, ours)
            read_fd, stdout_fd = _pipe(ours, theirs)
            stderr_fd, tail = _stderr(stderr, theirs, ours, limits)
            process = await trio.lowlevel.open_process(
                command,
                stdin=stdin_fd,
                stdout=stdout_fd,
                stderr=stderr_fd,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )
        except (OSError, ValueError, subprocess.SubprocessError) as exc:
            raise ConnectFailed(f"cannot start {command[0]!r}: {exc}") from exc
        ours.pop_all()
    os.set_blocking(read_fd, False)
    os.set_blocking(write_fd, False)
    return Child(process, tail, limits), FdBytes(read_fd, write_fd)


def _pipe(reading: contextlib.ExitStack, writing: contextlib.ExitStack) -> tuple[int, int]:
    read_fd, write_fd = os.pipe()
    reading.callback(os.close, read_fd)
    writing.callback(os.close, write_fd)
    return read_fd, write_fd


def _stderr(
    stderr: Stderr, theirs: contextlib.ExitStack, ours: contextlib.ExitStack, limits: Limits
) -> tuple[int, StderrTail | None]:
    """Return the child's stderr, and what reads it."""
    if stderr == "inherit" or stderr == "capture":  # noqa: PLR1714 - mypy narrows by ==, not by in
        read_fd, write_fd = os.pipe()
        theirs.callback(os.close, write_fd)
        os.set_blocking(read_fd, False)
        tail = StderrTail(
            read_fd, limits.stderr_tail, _own_stderr() if stderr == "inherit" else None
        )
        ours.callback(tail.close)
        return write_fd, tail
    if isinstance(stderr, os.PathLike):
        fd = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        theirs.callback(os.close, fd)
        return fd, None
    stderr.flush()
    return stderr.fileno(), None


def _own_stderr() -> FdWriter | None:
    try:
        return FdWriter(own_description(2, os.O_WRONLY))
    except OSError:
        return None  # it is closed
