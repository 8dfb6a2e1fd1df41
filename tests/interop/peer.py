"""A server that is not ours: how it is started, what is done with it, what is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from tests.interop import install
from tests.interop.features import RESUMED, SEEN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .checks import Check

__all__ = ["ServerPeer"]


@frozen(kw_only=True)
class ServerPeer:
    """A server that is not ours.

    Attributes:
        title: its name in the matrix.
        transport: what is spoken with it: stdio, Streamable HTTP, or HTTP+SSE.
        path: of its URL.
        install: what to install.
        program: its file; see ``install.Peer.command``.
        others: another program, by feature.
        args: its arguments; ``{folder}`` is a folder of its own, ``{port}`` where it listens.
        env: its environment on top of ours, likewise.
        roots: our client's roots, likewise.
        shutdown_wait: seconds until it is ended by a signal, after its stdin has ended.
        checks: what is done with it, by feature.
        seen: what is seen, where that is not `SEEN`.
        lacks: why it does not have a feature.
    """

    title: str
    transport: Literal["stdio", "streamable", "sse"] = "stdio"
    path: str = "/mcp"
    install: install.Peer
    program: str
    others: Mapping[str, str] = field(factory=dict)
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict)
    roots: tuple[str, ...] = ("file:///peer/one",)
    shutdown_wait: float = 2.0
    checks: Mapping[str, Check]
    seen: Mapping[str, Any]
    lacks: Mapping[str, str]

    @property
    def all_seen(self) -> dict[str, Any]:
        """What is seen of a server like ours over its transport, by feature."""
        return SEEN if self.transport == "stdio" else {**SEEN, **RESUMED}

    @property
    def features(self) -> tuple[str, ...]:
        """What it has, in the order of the matrix."""
        return tuple(name for name in self.all_seen if name not in self.lacks)

    def command(self, feature: str, folder: Path, port: int = 0) -> list[str]:
        """Install it if need be, and return what starts it to show *feature*."""
        peer = install.ensure(self.install)
        command = peer.command(self.others.get(feature, self.program), folder)
        return [*command, *(arg.format(folder=folder, port=port) for arg in self.args)]

    def environment(self, folder: Path, port: int = 0) -> dict[str, str]:
        """Return what comes on top of our environment."""
        return {key: value.format(folder=folder, port=port) for key, value in self.env.items()}
