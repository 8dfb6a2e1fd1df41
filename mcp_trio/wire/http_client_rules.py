"""The rules of Streamable HTTP for a client, as decisions.

Source: basic/transports § Streamable HTTP and § Backwards Compatibility of 2025-03-26,
2025-06-18 and 2025-11-25.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, final
from urllib.parse import urldefrag, urljoin

from attrs import frozen

from mcp_trio.errors import ProtocolViolation

from .http_head import is_session_id
from .http_hosts import origin_of
from .jsonrpc import Failure, decode
from .media import JSON, SSE, is_json, is_sse
from .revisions import Feature

if TYPE_CHECKING:
    from .http_head import Headers, RawHeaders
    from .revisions import Revision

__all__ = [
    "MAX_REDIRECTS",
    "Follow",
    "HttpMethod",
    "Redirected",
    "Refused",
    "Reply",
    "StayPut",
    "decide_redirect",
    "is_resumable",
    "may_be_sse_pair",
    "read_error",
    "read_response",
    "read_session_id",
    "read_stream_response",
    "request_headers",
]

HttpMethod: TypeAlias = Literal["POST", "GET", "DELETE"]

# ---------------------------------------------------------------- requests

_OF_METHOD: Final[dict[str, RawHeaders]] = {
    # § Sending Messages to the Server 2
    "POST": ((b"Accept", f"{JSON}, {SSE}".encode()), (b"Content-Type", JSON.encode())),
    # § Listening for Messages from the Server 2
    "GET": ((b"Accept", SSE.encode()),),
    "DELETE": (),
}
_HEADER_VALUE: Final = re.compile("[^\0-\x20\x7f]([^\0-\x08\x0a-\x1f\x7f]*[^\0-\x20\x7f])?")


def request_headers(
    method: HttpMethod,
    *,
    revision: Revision | None,
    session_id: str | None = None,
    last_event_id: str | None = None,
) -> RawHeaders:
    """Return the headers MCP asks for; *revision* is None until one is negotiated.

    Raises:
        ValueError: *last_event_id* is for a GET only, and must be `is_resumable`.
    """
    headers = _OF_METHOD[method]
    # 2025-06-18 § Protocol Version Header: "on all subsequent requests"
    if revision is not None and Feature.VERSION_HEADER in revision.features:
        headers += ((b"MCP-Protocol-Version", revision.version.encode()),)
    if session_id is not None:  # § Session Management 2: "on all of their subsequent requests"
        headers += ((b"Mcp-Session-Id", session_id.encode()),)
    if last_event_id is not None:
        if method != "GET" or not is_resumable(last_event_id):
            raise ValueError(f"{method} cannot send Last-Event-ID: {last_event_id!r}")
        headers += ((b"Last-Event-ID", last_event_id.encode()),)
    return headers


def is_resumable(last_event_id: str | None) -> bool:
    """Tell whether a stream can be resumed after this id: whether a header can carry it."""
    return last_event_id is not None and _HEADER_VALUE.fullmatch(last_event_id) is not None


# ---------------------------------------------------------------- answers


@final
class Reply(Enum):
    """What a response is, where its status and headers tell all."""

    #: The answer is the body, one JSON text.
    JSON = "json"
    #: The answer is on the event stream that follows.
    STREAM = "stream"
    #: The message was taken; there is no answer.
    ACCEPTED = "accepted"
    #: The session is unknown to the server: go on with a new one, without this id.
    SESSION_GONE = "session gone"
    #: Perhaps it is: some servers answer 404 where they have no standing stream. A ``ping``
    #: tells.
    SESSION_DOUBTFUL = "session doubtful"
    #: The server has no standing stream, which is no fault.
    NO_STREAM = "no stream"


@final
@frozen
class Redirected:
    """The server points elsewhere; `decide_redirect` says whether to go."""

    status: int
    location: str | None


@final
@frozen
class Refused:
    """The server did not take the message, or answered in a form that is none of MCP's.

    The body may say more: see `read_error`.
    """

    status: int
    reason: str


def read_response(
    status: int, headers: Headers, *, answer_due: bool, session_id: str | None = None
) -> Reply | Redirected | Refused:
    """Say what the response to a POST is.

    *answer_due* tells whether a request was sent, *session_id* is the id that went with it.
    """
    if 200 <= status < 300:
        if not answer_due:
            return Reply.ACCEPTED
        return _read_content(status, headers, json=True)
    if status == 404 and session_id is not None:
        # § Session Management 4: "it MUST start a new session by sending a new
        # InitializeRequest without a session ID attached"
        return Reply.SESSION_GONE
    return _read_failure(status, headers)


def read_stream_response(
    status: int, headers: Headers, *, session_id: str | None = None
) -> Reply | Redirected | Refused:
    """Say what the response to a GET is."""
    if 200 <= status < 300:
        return _read_content(status, headers, json=False)
    if status == 405:  # § Listening for Messages from the Server 3
        return Reply.NO_STREAM
    if status == 404 and session_id is not None:
        return Reply.SESSION_DOUBTFUL
    return _read_failure(status, headers)


def _read_content(status: int, headers: Headers, *, json: bool) -> Reply | Refused:
    """§ Sending Messages to the Server 5: "The client MUST support both these cases"."""
    content = headers.get("content-type")
    if content is not None:
        if is_sse(content):
            return Reply.STREAM
        if json and is_json(content):
            return Reply.JSON
    due = f"{JSON} or {SSE}" if json else SSE
    return Refused(status, f"the answer is {content or 'of no content type'}, not {due}")


def _read_failure(status: int, headers: Headers) -> Redirected | Refused:
    if 300 <= status < 400:
        return Redirected(status, headers.get("location"))
    return Refused(status, f"the server answered with HTTP status {status}")


def read_session_id(headers: Headers) -> str | None:
    """Return the session id on the response to ``initialize``, None where there is none.

    Raises:
        mcp_trio.errors.ProtocolViolation: it is no valid id, or there are several.
    """
    found = headers.all("mcp-session-id")
    if not found:
        return None
    if len(found) > 1 or not is_session_id(found[0]):
        raise ProtocolViolation("Mcp-Session-Id must be one value of visible ASCII characters")
    return found[0]


def read_error(headers: Headers, body: bytes, *, depth: int) -> Failure | None:
    """Return the JSON-RPC error that the body of a refusal is, None where it is none."""
    content = headers.get("content-type")
    if content is None or not is_json(content):
        return None
    message = decode(body, depth=depth)
    return message if type(message) is Failure else None


def may_be_sse_pair(status: int) -> bool:
    """Tell whether a refused ``initialize`` may have met a server of HTTP+SSE.

    "If it fails with [...] 400 Bad Request, 404 Not Found or 405 Method Not Allowed: Issue
    a GET request to the server URL, expecting that this will open an SSE stream and return
    an endpoint event" (2025-11-25 § Backwards Compatibility). Older revisions say any 4xx,
    with which a refused credential would start a search.
    """
    return status in (400, 404, 405)


# ---------------------------------------------------------------- redirects

#: Hops until a redirection counts as a loop. Our choice; fetch gives up after 20.
MAX_REDIRECTS: Final = 5


@final
@frozen
class Follow:
    """Send the same request, with its method, headers and body, to *url*."""

    url: str


@final
@frozen
class StayPut:
    """Do not follow, for this *reason*."""

    reason: str


def decide_redirect(url: str, status: int, location: str | None) -> Follow | StayPut:
    """Say whether a redirection of a request to *url* is followed.

    Only within the origin, since the session id and the credentials go along, and only by
    307 and 308, since the others turn a POST into a GET (RFC 9110 § 15.4). What to do about
    redirections is not in the specification of MCP.
    """
    if location is None:
        return StayPut(f"HTTP status {status} without a Location")
    try:
        target = urldefrag(urljoin(url, location)).url
    except ValueError:
        return StayPut(f"HTTP status {status} with a malformed Location: {location}")
    if status not in (307, 308):
        return StayPut(
            f"HTTP status {status} would turn a POST into a GET; connect to {target} instead"
        )
    origin = origin_of(target)
    if origin is None or origin != origin_of(url):
        return StayPut(f"redirected to another origin; connect to {target} instead")
    return Follow(target)
