"""Runs the clients of the peers against our server, each once, and reads what they report."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from tests.interop import install

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CLIENTS", "ROOT", "ClientPeer", "peer_file", "report_of"]

ROOT: Final = Path(__file__).parents[2]
_PEERS: Final = Path(__file__).parent / "peers"
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


@cache
def report_of(name: str) -> dict[str, dict[str, Any]]:
    """Run the client *name* against our server and return what it reports, by feature."""
    client = CLIENTS[name]
    with peer_file(install.ensure(client.install), client.program) as command:
        process = subprocess.Popen(
            [*command, *client.args, *_OUR_SERVER],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=_PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if process.returncode:
        raise AssertionError(f"{name} ended with {process.returncode}:\n{err.decode()[-4000:]}")
    report: dict[str, dict[str, Any]] = json.loads(out)
    return report


@contextmanager
def peer_file(peer: install.Peer, program: str) -> Iterator[list[str]]:
    """Yield the command that runs *program*, a file under ``peers/``, with *peer* installed."""
    if peer.kind == "python":
        yield [peer.python, str(_PEERS / program)]
        return
    # JavaScript looks for its packages beside the program.
    with tempfile.TemporaryDirectory() as folder:
        for script in _PEERS.glob("*.mjs"):
            shutil.copy(script, folder)
        Path(folder, "node_modules").symlink_to(peer.modules)
        yield ["node", str(Path(folder, program))]
