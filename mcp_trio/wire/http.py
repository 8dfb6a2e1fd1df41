"""The rules of Streamable HTTP for a server, as decisions.

::

    RequestHead ── check_head ──▶ Reject │ Preflight          answered without reading a body
                       │
                       ├─▶ PostHead ── read and decode the body, look the session up
                       │       └── decide_post ───▶ Reject │ Accepted │ Serve │ OpenSession
                       ├─▶ GetHead ─── decide_get ───▶ Reject │ OpenStream │ ResumeStream
                       └─▶ DeleteHead ─ decide_delete ─▶ Reject │ EndSession

The order of checks is that of the statements here: path and method, Host and Origin, size,
Content-Type, Accept, JSON, JSON-RPC, session, revision. A refusal that comes before the
body has been read leaves it unread: the connection then ends with the answer.

A session at a revision that has no Streamable HTTP of its own goes by the rules of the
first revision that has one. Source: basic/transports § Streamable HTTP of 2025-03-26,
2025-06-18 and 2025-11-25.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, final

from attrs import evolve, field, frozen

from mcp_trio.errors import ErrorCode

from .http_head import RawHeaders, RequestHead, is_session_id, parse_event_id
from .http_policy import HttpPolicy, Reject, check_host_origin, preflight_headers, refuse
from .jsonrpc import (
    Batch,
    Failure,
    Flaw,
    Malformed,
    Message,
    Notification,
    Request,
    Result,
    classify,
)
from .media import JSON, SSE, Accepts, is_json, what_is_accepted
from .revisions import LEGACY, Feature, Http, Revision

__all__ = [
    "JSON_HEADERS",
    "SSE_HEADERS",
    "Accepted",
    "DeleteHead",
    "EndSession",
    "GetHead",
    "OpenSession",
    "OpenStream",
    "PostHead",
    "Preflight",
    "ResumeStream",
    "Serve",
    "SessionFacts",
    "accepts",
    "check_content",
    "check_head",
    "decide_delete",
    "decide_get",
    "decide_post",
    "reject_event",
    "reject_session",
    "reject_size",
    "session_header",
    "status_of",
]

JSON_HEADERS: Final[RawHeaders] = ((b"Content-Type", JSON.encode()),)
#: The last one asks proxies of the nginx kind not to hold events back.
SSE_HEADERS: Final[RawHeaders] = (
    (b"Content-Type", SSE.encode()),
    (b"Cache-Control", b"no-cache"),
    (b"X-Accel-Buffering", b"no"),
)


def session_header(session_id: str) -> tuple[bytes, bytes]:
    """Return the header that gives a new session's id, on the answer to ``initialize``.

    Raises:
        ValueError: *session_id* cannot be one.
    """
    if not is_session_id(session_id):
        raise ValueError("a session id is made of visible ASCII characters")
    return b"Mcp-Session-Id", session_id.encode()


# ---------------------------------------------------------------- what comes of the head


@final
@frozen(kw_only=True)
class PostHead:
    """A POST may go on to its body. ``accepts`` are the forms in which it can be answered."""

    session_id: str | None = field(repr=False)
    version: str | None
    accepts: Accepts


@final
@frozen(kw_only=True)
class GetHead:
    """A GET may have a stream, if its session is there."""

    session_id: str | None = field(repr=False)
    version: str | None
    last_event_id: str | None = None


@final
@frozen(kw_only=True)
class DeleteHead:
    """A DELETE may end its session, if that is there."""

    session_id: str | None = field(repr=False)
    version: str | None


@final
@frozen(kw_only=True)
class Preflight:
    """Answer 204 with these headers and those of CORS, and without a body."""

    headers: RawHeaders


_OF_SESSIONS: Final = (PostHead, GetHead, DeleteHead)


def check_head(
    head: RequestHead, policy: HttpPolicy
) -> Reject | Preflight | PostHead | GetHead | DeleteHead:
    """Judge a request before its body is read."""
    if head.path not in policy.paths:
        return refuse(404, "there is no MCP endpoint at this path")
    if head.method not in policy.methods:
        return _reject_method(head, policy)
    refused = check_host_origin(head, policy)
    if refused is not None:
        return refused
    if head.method == "OPTIONS":
        return Preflight(headers=preflight_headers(policy))
    session_id = None if policy.stateless else head.headers.get("mcp-session-id")
    version = head.headers.get("mcp-protocol-version")
    if head.method == "POST":
        return _check_post(head, policy, session_id, version)
    if head.method == "GET":
        # § Listening for Messages from the Server 2: Accept lists text/event-stream
        if not accepts(head).sse:
            return refuse(406, f"the answer to GET is {SSE}, which Accept does not allow")
        # § Resumability and Redelivery 2: to resume, the client issues a GET
        return GetHead(
            session_id=session_id,
            version=version,
            last_event_id=head.headers.get("last-event-id"),
        )
    return DeleteHead(session_id=session_id, version=version)


def for_session(decision: Any, head: RequestHead) -> Any:
    """Return the *decision* on a head like *head* but for its session id and its length."""
    if isinstance(decision, _OF_SESSIONS) and decision.session_id is not None:
        return evolve(decision, session_id=head.headers.get("mcp-session-id"))
    return decision


def _reject_method(head: RequestHead, policy: HttpPolicy) -> Reject:
    """RFC 9110 § 15.5.6: a 405 "MUST generate an Allow header field"."""
    allow: RawHeaders = ((b"Allow", ", ".join(policy.methods).encode()),)
    if head.method == "HEAD":  # RFC 9110 § 9.3.2: no content in the answer
        return Reject(status=405, error=None, headers=allow)
    return refuse(405, f"this endpoint takes {', '.join(policy.methods)}", headers=allow)


def accepts(head: RequestHead) -> Accepts:
    """Return which forms of an answer the request's ``Accept`` allows."""
    return what_is_accepted(head.headers.all("accept"))


def _check_post(
    head: RequestHead, policy: HttpPolicy, session_id: str | None, version: str | None
) -> Reject | PostHead:
    refused = check_content(head, policy)
    if refused is not None:
        return refused
    # § Sending Messages to the Server 2: the client "MUST include an Accept header, listing
    # both". One that lists one form gets that form; nothing is served for none.
    forms = accepts(head) & policy.answers
    if not forms:
        served = " or ".join(
            name for name, on in ((JSON, policy.answers.json), (SSE, policy.answers.sse)) if on
        )
        return refuse(406, f"the answer is {served}, which Accept does not allow")
    return PostHead(session_id=session_id, version=version, accepts=forms)


def check_content(head: RequestHead, policy: HttpPolicy) -> Reject | None:
    """Refuse a body that is too long or is not JSON, by what the head says of it."""
    length = head.headers.get("content-length")
    if length is not None:
        digits = length.lstrip("0")
        if not length.isascii() or not length.isdigit():
            return refuse(400, "Content-Length must be a number")
        if len(digits) > _LENGTH_DIGITS or int(digits or "0") > policy.body_bytes:
            return reject_size(policy)
    content = head.headers.get("content-type")
    if content is None or not is_json(content):
        # It also keeps simple requests of web pages out, for which no browser asks first.
        return refuse(415, f"the body must be {JSON} in UTF-8, and Content-Type must say so")
    coding = head.headers.get("content-encoding")
    if coding is not None and coding.lower() != "identity":
        # RFC 9110 § 15.5.16: the 415 says which codings would do
        return refuse(
            415, "the body must not be compressed", headers=((b"Accept-Encoding", b"identity"),)
        )
    return None


#: More digits are beyond any limit, and beyond what ``int`` takes in the end.
_LENGTH_DIGITS: Final = 18


def reject_size(policy: HttpPolicy) -> Reject:
    """Refuse a body that has turned out longer than the policy allows (RFC 9110 § 15.5.14)."""
    return refuse(413, f"the body is longer than {policy.body_bytes} bytes")


# ---------------------------------------------------------------- what comes of the whole


@final
@frozen(kw_only=True)
class SessionFacts:
    """What the server knows of the session that a request names."""

    revision: Revision


@final
@frozen(kw_only=True)
class Accepted:
    """Answer 202 without a body, and deliver the message; None is dropped."""

    message: Notification | Result | Failure | Batch | None


@final
@frozen(kw_only=True)
class Serve:
    """Deliver what wants an answer, and answer in one of the forms of ``accepts``."""

    message: Request | Batch
    revision: Revision
    accepts: Accepts


@final
@frozen(kw_only=True)
class OpenSession:
    """Serve ``initialize`` in a new session; with ``keep`` it gets an id and goes on after it."""

    request: Request
    accepts: Accepts
    keep: bool


@final
@frozen(kw_only=True)
class OpenStream:
    """Open the session's standing stream."""

    revision: Revision


@final
@frozen(kw_only=True)
class ResumeStream:
    """Replay what followed event *after* on *stream*, and nothing of any other; then go on."""

    revision: Revision
    stream: str
    after: int


@final
@frozen(kw_only=True)
class EndSession:
    """End the session, answer 200."""


PostDecision: TypeAlias = Reject | Accepted | Serve | OpenSession


def decide_post(
    post: PostHead,
    message: Message | Batch | Malformed,
    session: SessionFacts | None,
    policy: HttpPolicy,
) -> PostDecision:
    """Say what becomes of a POST; *session* is the one its id names, if there is one."""
    if type(message) is Malformed:
        return reject_malformed(message)
    # `initialize` is legacy whatever the headers say, so its MCP-Protocol-Version is not read.
    opens = type(message) is Request and message.method == "initialize"
    if type(message) is Request and opens and not policy.revisions:
        return _reject_handshake(message, policy)
    if type(message) is Request and opens and post.session_id is None:
        return OpenSession(request=message, accepts=post.accepts, keep=not policy.stateless)
    revision = _revision_of(post, session, policy)
    if type(revision) is Reject:
        return revision
    if type(message) is Request:
        return Serve(message=message, revision=revision, accepts=post.accepts)
    if type(message) is Batch:
        refused = _check_batch(message, revision, policy)
        if refused is not None:
            return refused
        if any(_wants_answer(member) for member in message.members):
            return Serve(message=message, revision=revision, accepts=post.accepts)
    # § Sending Messages to the Server 4: "MUST return HTTP status code 202 Accepted with no
    # body". Without a session there is nobody for whom it could mean anything, and another
    # client's call must not be reachable.
    return Accepted(message=None if policy.stateless else message)


def _reject_handshake(message: Request, policy: HttpPolicy) -> Reject:
    """2026-07-28 basic/versioning: the refusal is a 400 and SHOULD name what is supported."""
    supported = [revision.version for revision in policy.envelopes]
    reason = f"there is no handshake here; supported is {', '.join(supported)}"
    requested = str((message.params or {}).get("protocolVersion"))
    data = {"supported": supported, "requested": requested}
    error = Failure(message.id, ErrorCode.UNSUPPORTED_VERSION, reason, data)
    return Reject(status=400, error=error)


def reject_malformed(malformed: Malformed) -> Reject:
    """Only what was a request is told its id; an answer's id is not the refusal's."""
    id_ = malformed.id if malformed.flaw is Flaw.REQUEST else None
    return refuse(400, malformed.reason, code=malformed.code, id_=id_)


def _check_batch(batch: Batch, revision: Revision, policy: HttpPolicy) -> Reject | None:
    if Feature.BATCH not in revision.features:
        # 2025-06-18 § Sending Messages to the Server 3: the body is "a single" message
        return refuse(400, f"batches are no part of revision {revision}")
    if len(batch.members) > policy.batch:
        return refuse(400, f"a batch of more than {policy.batch} messages")
    return None


def _wants_answer(member: object) -> bool:
    """Tell whether a member gets an answer: a request does, and what is none but may have been.

    "If the batch call itself [...] contains [...] Notification objects [only]" nothing is
    answered (JSON-RPC 2.0 § 6).
    """
    message = classify(member)
    if type(message) is Malformed:
        return message.flaw in (Flaw.REQUEST, Flaw.UNPARSABLE)
    return type(message) in (Request, Batch)  # a batch in a batch is malformed


def decide_get(
    get: GetHead, session: SessionFacts | None, policy: HttpPolicy
) -> Reject | OpenStream | ResumeStream:
    """Say what becomes of a GET; *session* is the one its id names, if there is one."""
    revision = _revision_of(get, session, policy)
    if type(revision) is Reject:
        return revision
    if get.last_event_id is None:
        return OpenStream(revision=revision)
    event = parse_event_id(get.last_event_id)
    if event is None:
        return reject_event()
    return ResumeStream(revision=revision, stream=event[0], after=event[1])


def decide_delete(
    delete: DeleteHead, session: SessionFacts | None, policy: HttpPolicy
) -> Reject | EndSession:
    """Say what becomes of a DELETE; *session* is the one its id names, if there is one."""
    revision = _revision_of(delete, session, policy)
    return revision if type(revision) is Reject else EndSession()


def reject_session() -> Reject:
    """Refuse a session id that is unknown, has ended or is another's.

    "the server MUST respond to requests containing that session ID with HTTP 404 Not Found"
    (2025-03-26 § Session Management 3)
    """
    return refuse(404, "there is no session of this id; start one with initialize")


def reject_event() -> Reject:
    """Refuse to resume after an event that is unknown or no longer kept; nothing is replayed."""
    return refuse(400, "nothing can be resumed after this Last-Event-ID")


# ---------------------------------------------------------------- session and revision

#: "if the server does not receive an MCP-Protocol-Version header, and has no other way to
#: identify the version [...] the server SHOULD assume protocol version 2025-03-26"
#: (2025-06-18 § Protocol Version Header): the first revision of this transport.
_ASSUMED: Final = next(r for r in LEGACY if r.http is Http.STREAMABLE)


def _revision_of(
    head: PostHead | GetHead | DeleteHead, session: SessionFacts | None, policy: HttpPolicy
) -> Revision | Reject:
    """Return the revision by which a request is served, or why there is none."""
    if policy.stateless:
        return _revision_by_header(head.version, policy)
    if head.session_id is None:
        # § Session Management 2: "Servers that require a session ID SHOULD respond to
        # requests without [...] (other than initialization) with HTTP 400 Bad Request"
        return refuse(400, "Mcp-Session-Id is missing; start a session with initialize")
    if session is None:
        # § Session Management 1: "MUST only contain visible ASCII characters"
        if not is_session_id(head.session_id):
            return refuse(400, "Mcp-Session-Id must be made of visible ASCII characters")
        return reject_session()
    revision = session.revision
    # 2025-06-18 § Protocol Version Header: the client sends "the one negotiated during
    # initialization"; before that revision the header has no meaning.
    if (
        head.version is not None
        and head.version != revision.version
        and Feature.VERSION_HEADER in revision.features
    ):
        return refuse(400, f"MCP-Protocol-Version must be {revision}, as this session negotiated")
    return revision


def _revision_by_header(version: str | None, policy: HttpPolicy) -> Revision | Reject:
    wanted = _ASSUMED.version if version is None else version
    for revision in policy.revisions:
        if revision.version == wanted:
            return revision
    # § Protocol Version Header: "invalid or unsupported [...] MUST respond with 400 Bad Request"
    supported = ", ".join(r.version for r in policy.revisions)
    named = "no MCP-Protocol-Version" if version is None else "an unsupported protocol version"
    return refuse(400, f"{named}; supported are {supported}")


# ---------------------------------------------------------------- answers


def status_of(answer: Result | Failure) -> int:
    """Return the HTTP status of an answer that leaves as JSON; most errors are a 200 too."""
    if type(answer) is Failure and answer.code == ErrorCode.BUSY:
        return 503
    return 200
