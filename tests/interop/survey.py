"""Runs the clients of the peers against our server, and reads what they report.

Each runs once over each transport; those that are asked for in advance run side by side.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import frozen

from tests.interop import install
from tests.interop.features import RESUMED, SEEN
from tests.interop.processes import run_program

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CLIENTS", "TRANSPORTS", "ClientPeer", "Report", "begin", "report_of"]

#: By feature: how it is done, and what came of it or why it is not.
Report: TypeAlias = "dict[str, dict[str, Any]]"

_OUR_SERVER: Final = (sys.executable, "-m", "tests.interop.server")
_PATIENCE: Final = 90  # seconds for all of a peer's checks
_START: Final = 20  # seconds until our server listens


@frozen
class ClientPeer:
    """A client that is not ours: what to install, and the program that uses it."""

    title: str
    install: install.Peer
    program: str
    args: tuple[str, ...] = ()


CLIENTS: Final = {
    "python-v2-auto": ClientPeer("Python v2, auto", install.PY_V2, "py_v2.py", ("auto",)),
    "python-v2-legacy": ClientPeer("Python v2, legacy", install.PY_V2, "py_v2.py", ("legacy",)),
    "python-v1": ClientPeer("Python v1", install.PY_V1, "py_v1.py"),
    "fastmcp": ClientPeer("FastMCP", install.FASTMCP, "fastmcp_client.py"),
    "typescript-v1": ClientPeer("TypeScript v1", install.TS_V1, "ts_v1.mjs"),
    "typescript-v2-auto": ClientPeer("TypeScript v2, auto", install.TS_V2, "ts_v2.mjs", ("auto",)),
    "typescript-v2-legacy": ClientPeer(
        "TypeScript v2, legacy", install.TS_V2, "ts_v2.mjs", ("legacy",)
    ),
}

#: By the name of a transport: what is seen over it.
TRANSPORTS: Final[dict[str, dict[str, Any]]] = {
    "stdio": SEEN,
    "HTTP": SEEN,
    "HTTP, resumable": {**SEEN, **RESUMED},
}

_crew: Final = ThreadPoolExecutor(max_workers=2)


def begin(surveys: Iterable[tuple[str, str]]) -> None:
    """Begin *surveys*, each a client and a transport: they are going to be asked for."""
    for client, transport in surveys:
        _asked(client, transport)


def report_of(client: str, transport: str) -> Report:
    """Return what *client* reports of our server over *transport*, by feature.

    Raises:
        RuntimeError: it did not come to an end, or not to a good one.
    """
    return _asked(client, transport).result()


@cache
def _asked(client: str, transport: str) -> Future[Report]:
    return _crew.submit(_survey, client, transport)


def _survey(name: str, transport: str) -> Report:
    client = CLIENTS[name]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = install.ensure(client.install).command(client.program, folder)
        target = _OUR_SERVER if transport == "stdio" else _serve(transport, folder, stack)
        process = stack.enter_context(run_program([*command, *client.args, *target]))
        try:
            out, err = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{name} has not ended within {_PATIENCE} s") from None
    if process.returncode:
        raise RuntimeError(f"{name} ended with {process.returncode}:\n{err.decode()[-4000:]}")
    report: Report = json.loads(out)
    return report


def _serve(transport: str, folder: Path, stack: ExitStack) -> tuple[str, ...]:
    """Serve over HTTP until *stack* unwinds, and return what a client must know."""
    resumable = transport == "HTTP, resumable"
    command = [*_OUR_SERVER, "--http-resumable" if resumable else "--http"]
    errors = stack.enter_context((folder / "stderr").open("wb+"))
    server = stack.enter_context(run_program(command, err=errors))
    assert server.stdout is not None
    select.select([server.stdout], [], [], _START)
    url = server.stdout.readline().decode().strip()
    if not url:
        errors.seek(0)
        raise RuntimeError(f"our server does not run:\n{errors.read().decode()[-4000:]}")
    return (url, "resumable") if resumable else (url,)
