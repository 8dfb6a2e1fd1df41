"""What a server does with a POST of the modern era, as pure decisions.

Each request stands for itself; the headers repeat what its body says, so that proxies can
route by them, and must not contradict it. Source: 2026-07-28 basic/transports/streamable-http;
the order of the checks is that of the digest's revisions § 3.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import frozen

from mcp_trio.errors import ErrorCode, InvalidMessage, Refusal

from .envelope import LISTEN, is_enveloped, read_envelope, revision_of
from .era import era_of_post
from .http import Accepted, reject_malformed
from .http_policy import Reject, refuse
from .http_routing import check_routing, check_version, repeated_by
from .jsonrpc import Batch, Failure, Malformed, Notification, Request, Result
from .revisions import ENVELOPED

if TYPE_CHECKING:
    from .envelope import Envelope
    from .http_head import RequestHead
    from .http_policy import HttpPolicy
    from .jsonrpc import Message
    from .media import Accepts
    from .revisions import Revision

__all__ = ["ServeEnveloped", "decide_enveloped", "is_modern", "status_of_enveloped"]

_MODERN: Final = frozenset(revision.era for revision in ENVELOPED)


Agreement: TypeAlias = tuple[str, str, object]


@final
@frozen(kw_only=True)
class ServeEnveloped:
    """Serve the request in an exchange of its own, answered in one of the forms of ``accepts``."""

    message: Request
    envelope: Envelope
    revision: Revision
    accepts: Accepts
    #: What the head was found to agree with: version, method, and what ``Mcp-Name`` repeats.
    agreement: Agreement


Decision: TypeAlias = ServeEnveloped | Accepted | Reject


def is_modern(head: RequestHead, message: Message | Batch | Malformed) -> bool:
    """Tell whether a POST is of the modern era, before anything else is asked of it."""
    if type(message) is Request and is_enveloped(message.params):
        return True
    era = era_of_post(
        message,
        version=head.headers.get("mcp-protocol-version"),
        method=head.headers.get("mcp-method"),
        session_id=head.headers.get("mcp-session-id"),
    )
    return era in _MODERN


def decide_enveloped(
    head: RequestHead,
    message: Message | Batch | Malformed,
    accepts: Accepts,
    policy: HttpPolicy,
    agreed: Agreement | None = None,
) -> Decision:
    """Say what becomes of a POST that `is_modern`.

    *agreed* is what this same head was found to agree with before: it need not be compared
    with the same again.
    """
    kind = type(message)
    if type(message) is Malformed:
        return reject_malformed(message)
    if kind is Notification:
        # The core defines none; another client's request must not be reachable by a cancel.
        return Accepted(message=None)
    if type(message) is not Request:
        what = "a batch" if kind is Batch else "an answer"
        return refuse(400, f"the body must be one request or notification, not {what}")
    try:
        envelope = read_envelope(message.params)
    except InvalidMessage as exc:
        return _reject(message, ErrorCode.INVALID_PARAMS, f"invalid params: {exc}")
    agreement = envelope.version, message.method, repeated_by(message.method, message.params)
    known = agreement == agreed
    reason = None if known else check_version(head.headers, envelope.version)
    if reason is not None:
        return _reject(message, ErrorCode.HEADER_MISMATCH, reason)
    try:
        revision = revision_of(envelope, policy.envelopes)
    except Refusal as exc:
        return _reject(message, exc.code, exc.message, exc.data)
    reason = None if known else check_routing(head.headers, message.method, message.params)
    if reason is not None:
        return _reject(message, ErrorCode.HEADER_MISMATCH, reason)
    if message.method == LISTEN and not accepts.sse:
        return refuse(406, f"the answer to {LISTEN} is an event stream", id_=message.id)
    return ServeEnveloped(
        message=message,
        envelope=envelope,
        revision=revision,
        accepts=accepts,
        agreement=agreement,
    )


def _reject(message: Request, code: int, reason: str, data: object = None) -> Reject:
    return Reject(status=400, error=Failure(message.id, code, reason, data))


#: 2026-07-28 basic/transports/streamable-http § Error Codes.
_STATUSES: Final[dict[int, int]] = {
    ErrorCode.PARSE_ERROR: 400,
    ErrorCode.INVALID_REQUEST: 400,
    ErrorCode.INVALID_PARAMS: 400,
    ErrorCode.HEADER_MISMATCH: 400,
    ErrorCode.MISSING_CLIENT_CAPABILITY: 400,
    ErrorCode.UNSUPPORTED_VERSION: 400,
    ErrorCode.METHOD_NOT_FOUND: 404,
    ErrorCode.BUSY: 503,
}


def status_of_enveloped(answer: Result | Failure) -> int:
    """Return the HTTP status of an answer that leaves as JSON."""
    return _STATUSES.get(answer.code, 200) if type(answer) is Failure else 200
