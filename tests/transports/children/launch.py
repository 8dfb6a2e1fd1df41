"""How the tests of stdio start their children, and how they watch processes end."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import asdict

from mcp_trio.limits import Limits
from mcp_trio.runtime.session import Session
from mcp_trio.wire.revisions import LATEST_LEGACY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from mcp_trio.abc import Transport

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
#: Unbuffered, what a server prints at import time would be on the wire before it can be caught.
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}

#: Short waits, so that a test of force takes half a second.
QUICK = Limits(shutdown_wait=0.2, terminate_wait=0.2, kill_wait=1.0, eof_grace=0.2, drain=0.3)


def plain(code: str, *args: str) -> list[str]:
    """A small Python child without trio or site-packages: it starts in milliseconds."""
    return [sys.executable, "-I", "-S", "-u", "-c", code, *args]


def server(limits: Limits | None = None) -> list[str]:
    """The engine as a server, with the methods of ``server.py``."""
    changed = {
        name: value
        for name, value in asdict(limits or Limits()).items()
        if value != getattr(Limits(), name)
    }
    return [sys.executable, str(HERE / "server.py"), repr(changed)]


class Nobody:
    """The client's endpoint where the server asks nothing."""

    def initialize(self, *_: object) -> dict[str, Any]:
        raise AssertionError("a client is not initialized")

    async def handle_request(self, *_: object) -> dict[str, Any]:
        return {}

    def handle_notification(self, *_: object) -> None:
        pass


INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}


@asynccontextmanager
async def session_over(transport: Transport, limits: Limits = QUICK) -> AsyncIterator[Session]:
    """An initialized client session."""
    async with trio.open_nursery() as nursery:
        session = Session("client", Nobody(), transport, limits=limits)
        await nursery.start(session.run)
        try:
            await session.call("initialize", INITIALIZE)
            session.opened(LATEST_LEGACY)
            session.notify_nowait("notifications/initialized")
            yield session
        finally:
            with trio.CancelScope(shield=True):
                await session.aclose()


def open_fds() -> set[str]:
    """The numbers of this process's descriptors."""
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


async def gone(pid: int, within: float) -> bool:
    """Tell whether the process *pid* ends within that time, whoever's child it is."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        with trio.move_on_after(within) as waiting:
            await trio.lowlevel.wait_readable(pidfd)
        return not waiting.cancelled_caught
    finally:
        trio.lowlevel.notify_closing(pidfd)
        os.close(pidfd)


async def eventually(condition: Callable[[], bool], within: float = 5.0) -> None:
    """Wait for what another process does and nothing reports."""
    with trio.fail_after(within):
        await trio.lowlevel.checkpoint()
        while not condition():  # noqa: ASYNC110 - it happens in another process
            await trio.sleep(0.005)
