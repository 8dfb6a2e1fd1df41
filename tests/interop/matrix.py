"""Who can do what with whom, as a page; `test_matrix` holds the page to what was seen.

usage: python -m tests.interop.matrix    (runs the clients, writes the page)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from tests.interop.servers import SERVERS
from tests.interop.survey import CLIENTS, TRANSPORTS, Report, begin, report_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .peer import ServerPeer

__all__ = ["PAGE", "render"]

PAGE: Final = Path(__file__).with_name("matrix.md")
_MISSING: Final = "not offered"

_HEAD: Final = """\
# Interoperability

Written by `python -m tests.interop.matrix`; a test compares it with what ran. The versions are
in `install.py`, what is seen in each case in `features.py` and `servers.py`.

* **API**: done with the public API of the peer, and seen to work.
* **raw**: the peer has no API for it; done with a raw message, and seen to work.
* **not offered**: the peer cannot do it, for the reason given below.

*HTTP* is Streamable HTTP; *resumable*: our server keeps the events it sends. A connection that is
*cut* ends in the middle of an answer, or while the client listens on the standing stream; one that
is *hung up* is ended by the server, whose client fetches the rest (2025-11-25 basic/transports).
"""


def render() -> str:
    """Return the page."""
    begin((client, transport) for transport in TRANSPORTS for client in CLIENTS)
    parts = [_HEAD]
    for transport, seen in TRANSPORTS.items():
        reports = {peer.title: report_of(name, transport) for name, peer in CLIENTS.items()}
        parts += _part(f"Their clients, our server: {transport}", tuple(seen), reports)
    for title, transports in (("stdio", {"stdio"}), ("HTTP", {"streamable", "sse"})):
        servers = [each for each in SERVERS.values() if each.transport in transports]
        reports = {server.title: dict(_offer(server)) for server in servers}
        parts += _part(f"Our client, their servers: {title}", tuple(servers[0].all_seen), reports)
    return "\n".join(parts).rstrip() + "\n"


def _offer(server: ServerPeer) -> Iterator[tuple[str, dict[str, str]]]:
    for feature in server.all_seen:
        why = server.lacks.get(feature)
        yield feature, {"how": "API"} if why is None else {"how": _MISSING, "why": why}


def _part(title: str, features: tuple[str, ...], reports: Mapping[str, Report]) -> Iterator[str]:
    """Write a heading, a table with a column for each peer, and the reasons below it."""
    yield f"## {title}\n"
    rows = [" | ".join(each[feature]["how"] for each in reports.values()) for feature in features]
    lines = [
        f"| feature | {' | '.join(reports)} |",
        "|---" * (len(reports) + 1) + "|",
        *(f"| {feature} | {row} |" for feature, row in zip(features, rows, strict=True)),
    ]
    yield "\n".join(lines) + "\n"
    yield "\n".join(_reasons(reports)) + "\n"


def _reasons(reports: Mapping[str, Report]) -> Iterator[str]:
    for title, report in reports.items():
        for why in dict.fromkeys(found["why"] for found in report.values() if "why" in found):
            features = ", ".join(f for f, found in report.items() if found.get("why") == why)
            yield f"* {title}: {why} ({features})."


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
