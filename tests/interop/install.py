"""The peers that are not ours: pinned, installed once into a cache, ready or not there at all.

usage: python -m tests.interop.install    (installs whatever is missing)
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ALL", "FASTMCP", "PY_V1", "PY_V2", "SERVERS", "TS_V1", "TS_V2", "Peer", "ensure"]

_PROGRAMS: Final = Path(__file__).parent / "peers"
_PATIENCE: Final = 420  # seconds that one installation may take


@frozen
class Peer:
    """Something to install: packages of one registry, each with its version."""

    name: str
    kind: str = field()
    packages: tuple[str, ...]

    @property
    def home(self) -> Path:
        """Where it is, once installed; other pins are another place."""
        digest = sha256("\n".join((sys.version.split()[0], *self.packages)).encode()).hexdigest()
        return _cache() / f"{self.name}-{digest[:12]}"

    @property
    def python(self) -> str:
        """The interpreter of a Python peer."""
        return str(self.home / "bin" / "python")

    @property
    def modules(self) -> Path:
        """The packages of a JavaScript peer."""
        return self.home / "node_modules"

    def command(self, program: str, folder: Path) -> list[str]:
        """Return what runs *program*, a file under ``peers/`` or one of the packages.

        JavaScript looks for packages beside the program, so it moves to *folder*.
        """
        if self.kind == "python":
            return [self.python, str(_PROGRAMS / program)]
        if program.startswith("@"):
            return ["node", str(self.modules / program)]
        for script in _PROGRAMS.glob("*.mjs"):
            shutil.copy(script, folder)
        (folder / "node_modules").symlink_to(self.modules)
        return ["node", str(folder / program)]


PY_V2: Final = Peer("python-v2", "python", ("mcp==2.3.0",))
PY_V1: Final = Peer("python-v1", "python", ("mcp==1.30.0",))
FASTMCP: Final = Peer("fastmcp", "python", ("fastmcp==4.2.3",))
TS_V1: Final = Peer("typescript-v1", "node", ("@modelcontextprotocol/sdk@1.32.2",))
TS_V2: Final = Peer(
    "typescript-v2",
    "node",
    ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/server@2.4.0", "zod@4.6.7"),
)
SERVERS: Final = Peer(
    "servers",
    "node",
    (
        "@modelcontextprotocol/server-everything@2026.8.31",
        "@modelcontextprotocol/server-filesystem@2026.8.31",
        "@modelcontextprotocol/server-memory@2026.8.31",
    ),
)
ALL: Final = (PY_V2, PY_V1, FASTMCP, TS_V1, TS_V2, SERVERS)


def ensure(peer: Peer) -> Peer:
    """Install *peer* unless it is there, and return it."""
    ready = peer.home / "ready"
    if ready.exists():
        return peer
    _cache().mkdir(parents=True, exist_ok=True)
    with _locked(_cache() / f"{peer.name}.lock"):
        if not ready.exists():
            shutil.rmtree(peer.home, ignore_errors=True)  # what an interrupted run has left
            (_install_python if peer.kind == "python" else _install_node)(peer)
            ready.touch()
    return peer


def _install_python(peer: Peer) -> None:
    # A virtual environment cannot be moved, so it is made in its place and marked when done.
    _run(sys.executable, "-m", "venv", str(peer.home))
    _run(peer.python, "-m", "pip", "install", "--quiet", *_PIP_OPTIONS, *peer.packages)


def _install_node(peer: Peer) -> None:
    peer.home.mkdir()
    _run("npm", "install", "--silent", *_NPM_OPTIONS, "--prefix", str(peer.home), *peer.packages)


_PIP_OPTIONS: Final = ("--disable-pip-version-check", "--no-input")
_NPM_OPTIONS: Final = ("--no-audit", "--no-fund", "--ignore-scripts")


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=_PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process install and the others wait."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mcp-trio-peers"


if __name__ == "__main__":
    for each in ALL:
        print(ensure(each).home)  # noqa: T201 - that is what it is for
