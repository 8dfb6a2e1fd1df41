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
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from attrs import frozen

from tests.interop import install
from tests.interop.features import RESUMED, SEEN
from tests.interop.processes import run_program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = [
    "CLIENTS",
    "TRANSPORTS",
    "ClientPeer",
    "Report",
    "begin",
    "report_of",
    "run_client",
    "serve",
]

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
    if transport == "stdio":
        return run_client(CLIENTS[name], _OUR_SERVER)
    resumable = transport == "HTTP, resumable"
    command = [*_OUR_SERVER, "--http-resumable" if resumable else "--http"]
    with serve(command) as url:
        return run_client(CLIENTS[name], (url, "resumable") if resumable else (url,))


def run_client(client: ClientPeer, target: Iterable[str]) -> Report:
    """Return what *client* reports of *target*: a URL, or the command of a server.

    Raises:
        RuntimeError: it did not come to an end, or not to a good one.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        command = install.ensure(client.install).command(client.program, folder)
        process = stack.enter_context(run_program([*command, *client.args, *target]))
        try:
            out, err = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{client.title} has not ended within {_PATIENCE} s") from None
    if process.returncode:
        end = err.decode()[-4000:]
        raise RuntimeError(f"{client.title} ended with {process.returncode}:\n{end}")
    report: Report = json.loads(out)
    return report


@contextmanager
def serve(command: Sequence[str]) -> Iterator[str]:
    """Run *command*, a server of ours over HTTP, in the block, which is given its URL.

    Raises:
        RuntimeError: it does not run.
    """
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        server = stack.enter_context(run_program(command, err=errors))
        assert server.stdout is not None
        select.select([server.stdout], [], [], _START)
        url = server.stdout.readline().decode().strip()
        if not url:
            errors.seek(0)
            raise RuntimeError(f"our server does not run:\n{errors.read().decode()[-4000:]}")
        yield url
