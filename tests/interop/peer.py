"""A server that is not ours: how it is started, what is done with it, what is seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from tests.interop import install
from tests.interop.features import SEEN

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
        install: what to install.
        program: its file; see ``install.Peer.command``.
        others: another program, by feature.
        args: its arguments; ``{folder}`` is a folder of its own.
        env: its environment on top of ours, likewise.
        roots: our client's roots, likewise.
        shutdown_wait: seconds until it is ended by a signal, after its stdin has ended.
        checks: what is done with it, by feature.
        seen: what is seen, where that is not `SEEN`.
        lacks: why it does not have a feature.
    """

    title: str
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
    def features(self) -> tuple[str, ...]:
        """What it has, in the order of the matrix."""
        return tuple(name for name in SEEN if name not in self.lacks)

    def command(self, feature: str, folder: Path) -> list[str]:
        """Install it if need be, and return what starts it to show *feature*."""
        peer = install.ensure(self.install)
        command = peer.command(self.others.get(feature, self.program), folder)
        return [*command, *(arg.format(folder=folder) for arg in self.args)]
