"""Who can do what with whom, as a page; `test_matrix` holds the page to what was seen.

usage: python -m tests.interop.matrix    (runs the clients, writes the page)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.interop.features import SEEN
from tests.interop.servers import SERVERS
from tests.interop.survey import CLIENTS, report_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PAGE", "render"]

PAGE: Final = Path(__file__).with_name("matrix.md")
_MISSING: Final = "not offered"

_HEAD: Final = """\
# Interoperability over stdio

Written by `python -m tests.interop.matrix`; a test compares it with what ran. The versions are
in `install.py`, what is seen in each case in `features.py` and `servers.py`.

* **API**: done with the public API of the peer, and seen to work.
* **raw**: the peer has no API for it; done with a raw message, and seen to work.
* **not offered**: the peer cannot do it, for the reason given below.
"""


def render() -> str:
    """Return the page."""
    clients: dict[str, dict[str, str]] = {}
    reasons: dict[str, dict[str, str]] = {}
    for name, client in CLIENTS.items():
        report = report_of(name)
        clients[client.title] = {feature: found["how"] for feature, found in report.items()}
        reasons[client.title] = {f: each["why"] for f, each in report.items() if "why" in each}
    servers = {
        server.title: {f: _MISSING if f in server.lacks else "API" for f in SEEN}
        for server in SERVERS.values()
    }
    lacks = {server.title: server.lacks for server in SERVERS.values()}
    parts = [
        _HEAD,
        "## Their clients, our server\n",
        _table(clients),
        _reasons(reasons),
        "## Our client, their servers\n",
        _table(servers),
        _reasons(lacks),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _table(columns: Mapping[str, Mapping[str, str]]) -> str:
    lines = [
        f"| feature | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
        *(f"| {f} | {' | '.join(how[f] for how in columns.values())} |" for f in SEEN),
    ]
    return "\n".join(lines) + "\n"


def _reasons(reasons: Mapping[str, Mapping[str, str]]) -> str:
    lines = []
    for title, by_feature in reasons.items():
        for why in dict.fromkeys(by_feature.values()):
            features = ", ".join(f for f in SEEN if by_feature.get(f) == why)
            lines.append(f"* {title}: {why} ({features}).")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
