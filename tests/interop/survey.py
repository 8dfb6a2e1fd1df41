"""Runs the clients of the peers against our server, each once, and reads what they report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from tests.interop import install

__all__ = ["CLIENTS", "ClientPeer", "report_of"]

_ROOT: Final = Path(__file__).parents[2]
_OUR_SERVER: Final = (sys.executable, "-m", "tests.interop.server")
_PATIENCE: Final = 60  # seconds for all of a peer's checks


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


def report_of(name: str) -> dict[str, dict[str, Any]]:
    """Return what the client *name* reports of our server, by feature.

    Raises:
        RuntimeError: it did not come to an end, or not to a good one.
    """
    report, failure = _survey(name)
    if failure:
        raise RuntimeError(f"{name} {failure}")
    return report


@cache
def _survey(name: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Run a client, and return its report and, where there is none, why."""
    client = CLIENTS[name]
    with tempfile.TemporaryDirectory() as folder:
        command = install.ensure(client.install).command(client.program, Path(folder))
        process = subprocess.Popen(
            [*command, *client.args, *_OUR_SERVER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=_ROOT,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            return {}, f"has not ended within {_PATIENCE} s"
        finally:
            _end(process)
    if process.returncode:
        return {}, f"ended with {process.returncode}:\n{err.decode()[-4000:]}"
    return json.loads(out), ""


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave nothing of a peer behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
