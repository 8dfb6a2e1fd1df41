"""Programs that are not ours: none of them outlives what it was started for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import define, field

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO

    from .peer import ServerPeer

__all__ = ["Hosts", "run_program"]

_ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 20  # seconds until a server takes connections


@contextmanager
def run_program(
    command: Sequence[str],
    *,
    out: int | IO[bytes] = subprocess.PIPE,
    err: int | IO[bytes] = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run *command* in the block, and leave nothing of it behind."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        cwd=_ROOT,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@define
class Hosts:
    """Servers that are not ours over HTTP: each runs once, for all its tests.

    Attributes:
        folder: for their files.
        ends: what ends them.
    """

    folder: Path
    ends: ExitStack = field(factory=ExitStack)
    _ports: dict[str, int] = field(factory=dict)

    def port_of(self, server: ServerPeer, feature: str) -> int:
        """Return the port of what shows *feature* of *server*; start it, unless it runs."""
        key = f"{server.title}-{server.others.get(feature, server.program)}".replace("/", "-")
        if key not in self._ports:
            self._ports[key] = self._start(server, feature, self.folder / key)
        return self._ports[key]

    def _start(self, server: ServerPeer, feature: str, folder: Path) -> int:
        folder.mkdir()
        port = _free_port()
        errors = self.ends.enter_context((folder / "stderr").open("wb+"))
        process = self.ends.enter_context(
            run_program(
                server.command(feature, folder, port),
                out=subprocess.DEVNULL,
                err=errors,
                env=server.environment(folder, port),
            )
        )
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until and process.poll() is None:
            with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
                return port
            time.sleep(0.02)
        errors.seek(0)
        raise RuntimeError(f"{server.title} does not run:\n{errors.read().decode()[-4000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
