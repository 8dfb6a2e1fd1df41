"""Which era a peer speaks: the rules of both sides, as decisions.

A server judges each message by itself: `era_of_message` on a pipe, `era_of_post` over HTTP.
A client asks once, with ``server/discover``, and then goes on, asks again or falls back::

    the answer ──▶ decide_probe        Modern │ Retry │ Legacy │ Restart │ GiveUp      stdio
               └─▶ decide_http_probe   Modern │ Retry │ Legacy │ NoEvidence │ GiveUp   HTTP

A client is *willing* to speak some revisions, and prefers them in the order in which it
names them. One that names modern revisions only is never led back to ``initialize``,
whatever a server or something in between answers. Source: 2026-07-28 basic/versioning
§ Backward Compatibility; basic/transports/stdio and basic/transports/streamable-http
§ Backward Compatibility.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import frozen

from mcp_trio.errors import ErrorCode

from .envelope import DISCOVER, is_enveloped
from .jsonrpc import Failure, Malformed, Notification, Request, Result
from .revisions import REVISIONS, Era, Feature

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .jsonrpc import Batch, Message
    from .revisions import Revision

__all__ = [
    "MAX_VERSIONS",
    "MAX_VERSION_LENGTH",
    "MODERN_ERRORS",
    "GiveUp",
    "HttpDecision",
    "Legacy",
    "Modern",
    "NoAnswer",
    "NoEvidence",
    "ProbeDecision",
    "Restart",
    "Retry",
    "choose",
    "decide_http_probe",
    "decide_probe",
    "era_of_message",
    "era_of_post",
    "legacy_of",
    "modern_of",
    "read_versions",
]

# ---------------------------------------------------------------- the server's side


def era_of_message(message: Message | Batch | Malformed) -> Era | None:
    """Return the era of one message on a pipe, None where it is that of another message.

    A cancellation without an envelope belongs to the request that it names: modern clients
    send it so, and legacy ones cannot do otherwise. A malformed message belongs to nobody.
    Source: 2026-07-28 basic/versioning § Backward Compatibility (the eras may share a
    process).
    """
    era = _era_of_body(message)
    if era is not None:
        return era
    if type(message) is Malformed:
        return None
    if type(message) is Notification and message.method == "notifications/cancelled":
        return None
    return Era.LEGACY


def era_of_post(
    message: Message | Batch | Malformed,
    *,
    version: str | None,
    method: str | None,
    session_id: str | None,
) -> Era:
    """Return the era of what was posted.

    *version*, *method* and *session_id* are the headers ``MCP-Protocol-Version``,
    ``Mcp-Method`` and ``Mcp-Session-Id``, None where absent. They are asked only where the
    body does not tell; what is modern then has a broken body. A request without any of them
    is legacy: "the server SHOULD assume protocol version 2025-03-26" (2025-06-18
    basic/transports § Protocol Version Header).
    """
    era = _era_of_body(message)
    if era is not None:
        return era
    revision = None if version is None else REVISIONS.get(version)
    if revision is not None:
        # The plainest word there is. An intermediary may add Mcp-Method to anything, and a
        # modern server ignores a stale Mcp-Session-Id.
        return revision.era
    if session_id is not None:
        return Era.LEGACY  # modern servers give none; the session judges an unknown version
    if version is not None or method is not None:
        return Era.MODERN  # a revision newer than those known here, or a header that came late
    return Era.LEGACY


def _era_of_body(message: Message | Batch | Malformed) -> Era | None:
    """Return the era that a message names by itself.

    A bare ``_meta`` is no evidence: legacy requests carry a ``progressToken`` there.
    """
    if type(message) is not Request and type(message) is not Notification:
        return None
    if is_enveloped(message.params):
        return Era.MODERN
    if type(message) is Request:
        if message.method == "initialize":
            return Era.LEGACY
        if message.method == DISCOVER:
            return Era.MODERN  # malformed, and -32602 tells its sender so
    return None


# ---------------------------------------------------------------- versions

#: What only modern servers answer (2026-07-28 basic § Error Codes).
MODERN_ERRORS: Final = frozenset(
    {
        ErrorCode.HEADER_MISMATCH,
        ErrorCode.MISSING_CLIENT_CAPABILITY,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)

#: More versions than this are no list of versions. Our choice: there have been five.
MAX_VERSIONS: Final = 64

#: A longer string is no version. Our choice: those there are have ten characters.
MAX_VERSION_LENGTH: Final = 64

#: How many of a server's versions a reason quotes.
_QUOTED: Final = 8


def read_versions(value: object) -> tuple[str, ...] | None:
    """Return the versions that a peer names, None where *value* is no usable list of them.

    It is the peer's ``supportedVersions`` or ``data.supported``, and hostile: anything but a
    short list of short strings counts as absent.
    """
    if type(value) is not list or len(value) > MAX_VERSIONS:
        return None
    if not all(type(item) is str and len(item) <= MAX_VERSION_LENGTH for item in value):
        return None
    return tuple(value)


def choose(supported: Iterable[str], willing: Sequence[Revision]) -> Revision | None:
    """Return the first revision of *willing* that *supported* names, None if there is none."""
    named = frozenset(supported)
    return next((revision for revision in willing if revision.version in named), None)


def modern_of(willing: Iterable[Revision]) -> tuple[Revision, ...]:
    """Return those of *willing* that need no handshake; the first is the one to probe with."""
    return tuple(revision for revision in willing if _is_modern(revision))


def legacy_of(willing: Iterable[Revision]) -> tuple[Revision, ...]:
    """Return those of *willing* that open with a handshake; the first is the one to offer."""
    return tuple(revision for revision in willing if not _is_modern(revision))


def _is_modern(revision: Revision) -> bool:
    return Feature.ENVELOPE in revision.features


# ---------------------------------------------------------------- the client's side


@final
@frozen(kw_only=True)
class Modern:
    """The server is modern: go on at ``revision``, and never ``initialize``.

    Where the answer was an error, -32020 or -32021, the request wants correcting; its
    version was not at fault, and ``server/discover`` is optional.
    """

    revision: Revision


@final
@frozen(kw_only=True)
class Retry:
    """The server is modern, but not at the version asked: repeat the request at ``revision``."""

    revision: Revision


@final
@frozen(kw_only=True)
class Legacy:
    """Send ``initialize`` with an offer of ``revision``; drop a late answer to the probe."""

    revision: Revision


@final
@frozen(kw_only=True)
class Restart:
    """Start the process again, once, and send ``initialize`` with an offer of ``revision``."""

    revision: Revision


@final
@frozen(kw_only=True)
class NoEvidence:
    """The answer says nothing of the era: its error is the caller's, the probe may be repeated."""

    reason: str


@final
@frozen(kw_only=True)
class GiveUp:
    """There is no revision that both sides speak."""

    reason: str


@final
class NoAnswer(Enum):
    """How a probe over stdio ends without an answer."""

    #: Nothing came within the time that the client waits.
    SILENCE = "did not answer server/discover"
    #: The process, or its output, ended.
    ENDED = "ended on server/discover"


ProbeDecision: TypeAlias = Modern | Retry | Legacy | Restart | GiveUp
HttpDecision: TypeAlias = Modern | Retry | Legacy | NoEvidence | GiveUp


def decide_probe(
    outcome: Result | Failure | NoAnswer, willing: Sequence[Revision], *, asked: Sequence[Revision]
) -> ProbeDecision:
    """Say what follows from the outcome of ``server/discover`` on a pipe.

    *asked* are the modern revisions at which it has been sent so far, one at least, the last
    of which had this outcome. Fallback must not be keyed to one error code: every error but
    the modern ones leads to ``initialize``, as does silence (2026-07-28
    basic/transports/stdio § Backward Compatibility). A process that ends on the probe is not
    in the specification; a legacy server may do that on any request before ``initialize``.
    """
    if type(outcome) is Result:
        return _by_result(outcome, willing)
    if type(outcome) is Failure:
        return _by_failure(outcome, willing, asked)
    fallback = _fall_back(f"the server {outcome.value}", willing)
    if outcome is NoAnswer.ENDED and type(fallback) is Legacy:
        return Restart(revision=fallback.revision)
    return fallback


#: Credentials, and a server that is busy: neither speaks of an era. The last two are our choice.
_OF_NO_ERA: Final = frozenset({401, 403, 407, 408, 429})

#: What a legacy server answers to a request it cannot place (2026-07-28
#: basic/transports/streamable-http § Backward Compatibility); 404 and 405 one of HTTP+SSE.
_OF_LEGACY: Final = frozenset({400, 404, 405})


def decide_http_probe(
    status: int | None,
    answer: Result | Failure | None,
    willing: Sequence[Revision],
    *,
    asked: Sequence[Revision],
    discovered: bool = False,
) -> HttpDecision:
    """Say what follows from the answer to ``server/discover`` over HTTP.

    *status* is None where no response came, *answer* where the body or stream held no answer
    of JSON-RPC (see `http_client_rules.read_error`), *asked* as in `decide_probe`. With
    *discovered* the server has answered ``server/discover`` before, and an error that is not
    of an era is no reason to fall back. The body is looked at before the status is: a modern
    error never leads back by itself (2026-07-28 basic/transports/streamable-http § Backward
    Compatibility). Failed credentials, faults of the server and of the network tell nothing.
    """
    if status is None:
        return NoEvidence(reason="there was no response to server/discover")
    success = 200 <= status < 300
    reason = f"the server answered server/discover with HTTP status {status}"
    if status in _OF_NO_ERA or not (success or 400 <= status < 500):
        return NoEvidence(reason=reason)
    if type(answer) is Failure:
        if discovered and answer.code not in MODERN_ERRORS:
            return NoEvidence(reason=f"{reason} and error {answer.code}")
        return _by_failure(answer, willing, asked)
    if type(answer) is Result and success:
        return _by_result(answer, willing)
    if status in _OF_LEGACY:
        return _fall_back(f"{reason} and no JSON-RPC error", willing)
    return NoEvidence(reason=f"{reason} and no answer of JSON-RPC")


def _by_result(result: Result, willing: Sequence[Revision]) -> Modern | Legacy | GiveUp:
    versions = read_versions(result.result.get("supportedVersions"))
    if versions is None:
        # Servers that answer {} to whatever they do not know are of the legacy era.
        return _fall_back("the server answered server/discover but names no versions", willing)
    chosen = choose(versions, willing)
    if chosen is None:
        return _nothing_in_common(versions, willing)
    return Modern(revision=chosen) if _is_modern(chosen) else Legacy(revision=chosen)


def _by_failure(
    failure: Failure, willing: Sequence[Revision], asked: Sequence[Revision]
) -> Modern | Retry | Legacy | GiveUp:
    if failure.code not in MODERN_ERRORS:
        return _fall_back(f"the server answered server/discover with {failure.code}", willing)
    if failure.code != ErrorCode.UNSUPPORTED_VERSION:
        return Modern(revision=asked[-1])
    data = failure.data
    versions = read_versions(data.get("supported")) if type(data) is dict else None
    if versions is None:
        # A recognised modern error must not lead to initialize, unless a list asks for it.
        return GiveUp(reason=f"the server refuses version {asked[-1]} and names no other")
    # One that names the version it has just refused is asked once more, since some refuse
    # whatever comes first; it must not go on like that for ever.
    contradicted = choose(versions, [each for each in asked if asked.count(each) > 1])
    if contradicted is not None:
        return GiveUp(reason=f"the server refuses version {contradicted}, yet names it supported")
    chosen = choose(versions, willing)
    if chosen is None:
        return _nothing_in_common(versions, willing)
    return Retry(revision=chosen) if _is_modern(chosen) else Legacy(revision=chosen)


def _fall_back(reason: str, willing: Sequence[Revision]) -> Legacy | GiveUp:
    """Offer the preferred legacy revision, since the server has named none."""
    for revision in legacy_of(willing):
        return Legacy(revision=revision)
    return GiveUp(reason=f"{reason}, and no revision with a handshake may be spoken here")


def _nothing_in_common(versions: tuple[str, ...], willing: Sequence[Revision]) -> GiveUp:
    theirs = ", ".join(map(repr, versions[:_QUOTED])) or "nothing"
    if len(versions) > _QUOTED:
        theirs += " and more"
    ours = ", ".join(map(str, willing)) or "nothing"
    return GiveUp(reason=f"the server speaks {theirs}; spoken here: {ours}")
