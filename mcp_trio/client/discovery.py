"""Opening without a handshake: what does the server speak, and what is it?

The first request is one that harms nobody, ``server/discover``; what comes of it tells the era
(`mcp_trio.wire.era`). A server of the modern era is then spoken to request by request, each
with an envelope; any other is asked to ``initialize``.
Source: 2026-07-28 server/discover, basic/versioning § Backward Compatibility.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from mcp_trio.codec import codec_for
from mcp_trio.errors import (
    ConnectFailed,
    HttpFailure,
    InvalidMessage,
    McpError,
    OutcomeUnknown,
    PeerError,
    ProtocolViolation,
    SessionLost,
)
from mcp_trio.types import DiscoverResult, Implementation
from mcp_trio.wire import era
from mcp_trio.wire.envelope import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    DISCOVER,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcp_trio.wire.jsonrpc import Failure, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.runtime.session import Session
    from mcp_trio.wire.era import HttpDecision, ProbeDecision
    from mcp_trio.wire.revisions import Revision

    from .peer import ServerPeer
    from .registry import Client

__all__ = ["EndedByProbe", "discover", "envelope_of"]


class EndedByProbe(McpError):
    """The server ended when it was probed: some do before ``initialize``. Start it again."""


def envelope_of(client: Client, revision: Revision) -> dict[str, Any]:
    """Return what each request at *revision* carries in its ``_meta``."""
    codec = codec_for(revision.version)
    return {
        PROTOCOL_VERSION: revision.version,
        CLIENT_CAPABILITIES: codec.unstructure(client.capabilities()),
        CLIENT_INFO: codec.unstructure(client.implementation()),
    }


async def discover(
    client: Client,
    session: Session,
    failed: Callable[[str], ConnectFailed],
    *,
    over_http: bool,
) -> bool:
    """Find out what the server speaks; true where the session is open without a handshake.

    False where the server wants ``initialize``. On a pipe, silence for
    ``client.limits.probe_time`` is taken for that; over HTTP it is waited for like any answer,
    at most for the client's deadline. A checkpoint.

    Raises:
        ConnectFailed: made by *failed*; nothing in common, or no way to know.
        EndedByProbe: the server's process ended on it.
    """
    willing = (*reversed(client.envelope_revisions), *reversed(client.revisions))
    asked = [client.envelope_revisions[-1]]
    while True:
        try:
            decision, raw = await _probe(client, session, willing, asked, over_http=over_http)
        except (ProtocolViolation, OutcomeUnknown) as exc:  # no answer of any era
            raise failed(f"the server did not answer {DISCOVER}: {exc}") from exc
        kind = type(decision)
        if kind is era.Retry:
            asked.append(decision.revision)  # type: ignore[union-attr]  # by its class
        elif kind is era.Modern:
            _open(client, session, decision.revision, raw, failed)  # type: ignore[union-attr]  # as above
            return True
        elif kind is era.Legacy:
            _speak(session, None)
            return False
        elif kind is era.Restart:
            raise EndedByProbe("the server ended when it was asked what it speaks")
        else:
            raise failed(decision.reason)  # type: ignore[union-attr]  # GiveUp, NoEvidence


async def _probe(
    client: Client,
    session: Session,
    willing: tuple[Revision, ...],
    asked: list[Revision],
    *,
    over_http: bool,
) -> tuple[ProbeDecision | HttpDecision, dict[str, Any] | None]:
    """Ask once; return what follows from the answer, and the result if there is one."""
    await trio.lowlevel.checkpoint()
    revision = asked[-1]
    _speak(session, revision)
    answer: Result | Failure | None = None
    raw: dict[str, Any] | None = None
    silent = era.NoAnswer.SILENCE
    status: int | None = None
    patience = client.patience if over_http else min(client.patience, client.limits.probe_time)
    with trio.move_on_after(patience):  # noqa: ASYNC912 - the call is one
        try:
            raw = await session.call(DISCOVER, {"_meta": envelope_of(client, revision)})
            answer, status = Result(0, raw), 200
        except PeerError as exc:
            answer, status = Failure(0, exc.code, exc.message, exc.data), 400
        except HttpFailure as exc:
            status = exc.status
        except SessionLost:
            silent = era.NoAnswer.ENDED
    if over_http:
        return era.decide_http_probe(status, answer, willing, asked=asked), raw
    return era.decide_probe(silent if answer is None else answer, willing, asked=asked), raw


def _speak(session: Session, revision: Revision | None) -> None:
    """Let an HTTP transport know by which rules the next requests go."""
    speak = getattr(session.transport, "speak", None)
    if speak is not None:
        speak(revision)


def _open(
    client: Client,
    session: Session,
    revision: Revision,
    raw: dict[str, Any] | None,
    failed: Callable[[str], ConnectFailed],
) -> None:
    """Go on at *revision*; *raw* is what the server says of itself, if it does."""
    peer: ServerPeer = session.state
    codec = codec_for(revision.version)
    try:
        result = None if raw is None else codec.structure(raw, DiscoverResult)
        said = None if raw is None else (raw.get("_meta") or {}).get(SERVER_INFO)
        info = None if said is None else codec.structure(said, Implementation)
    except InvalidMessage as exc:
        raise failed(f"the server's answer to {DISCOVER}: {exc}") from exc
    _speak(session, revision)
    session.opened_without_handshake(revision)
    peer.enter(envelope_of(client, revision), result, info, raw)
