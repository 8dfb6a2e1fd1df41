"""HTTP+SSE, the pair of endpoints of 2024-11-05: one to GET events, one to POST messages.

"When a client connects, the server MUST send an `endpoint` event containing a URI for the
client to use for sending messages." Source: 2024-11-05 basic/transports § HTTP with SSE.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final
from urllib.parse import parse_qs, urljoin

from attrs import field, frozen

from mcp_trio.errors import ProtocolViolation

from .http import Preflight, accepts, check_content
from .http_hosts import origin_of
from .http_policy import HttpPolicy, Reject, check_host_origin, preflight_headers, refuse
from .sse import ServerSentEvent, encode_event

if TYPE_CHECKING:
    from .http_head import RequestHead

__all__ = [
    "ENDPOINT",
    "PairMessage",
    "PairPaths",
    "PairStream",
    "check_pair",
    "encode_endpoint",
    "read_endpoint",
]

#: The type of the first event of the stream.
ENDPOINT: Final = "endpoint"

_URI: Final = re.compile(r"[\x21-\x7e]+")


def encode_endpoint(uri: str) -> bytes:
    """Write the event that names *uri*, which may be relative, as where to POST.

    Raises:
        ValueError: *uri* is empty or has a character that no URI has.
    """
    if not _URI.fullmatch(uri):
        raise ValueError(f"no URI: {uri!r}")
    return encode_event(uri.encode(), event=ENDPOINT)


def read_endpoint(event: ServerSentEvent, sse_url: str) -> str:
    """Return the URL to POST to, as *event*, the first one of the stream at *sse_url*, names it.

    Raises:
        mcp_trio.errors.ProtocolViolation: the event is another one, or names no URL of the
            same origin; what is sent there may be secret.
    """
    if event.event != ENDPOINT:
        raise ProtocolViolation(f"the first event must be {ENDPOINT!r}, not {event.event!r}")
    uri = event.data.decode("utf-8", "replace").strip()
    if not _URI.fullmatch(uri):
        raise ProtocolViolation(f"the endpoint event names no URI: {uri!r}")
    try:
        url = urljoin(sse_url, uri)
    except ValueError:
        raise ProtocolViolation(f"the endpoint event names no URI: {uri!r}") from None
    origin = origin_of(url)
    if origin is None or origin != origin_of(sse_url):
        raise ProtocolViolation(f"the endpoint event names another origin: {url}")
    return url


# ---------------------------------------------------------------- the server's rules


@final
@frozen
class PairPaths:
    """Where a server has the two endpoints: the stream at *sse*, messages below it."""

    sse: str

    @property
    def messages(self) -> str:
        """The path to POST to."""
        return self.sse.rstrip("/") + "/messages"

    @property
    def paths(self) -> tuple[str, ...]:
        """All that is served."""
        stem = self.sse.rstrip("/")
        return (stem, stem + "/", self.messages)

    def endpoint_for(self, session_id: str) -> str:
        """Return the URI that the client of a session has to POST to."""
        return f"{self.messages}?sessionId={session_id}"


@final
@frozen
class PairStream:
    """Open a session: its stream is the answer, and its end that of the session."""

    paths: PairPaths


@final
@frozen
class PairMessage:
    """Deliver a message to the session of this id, answer 202."""

    session_id: str = field(repr=False)


def check_pair(
    head: RequestHead, paths: PairPaths, policy: HttpPolicy
) -> Reject | Preflight | PairStream | PairMessage:
    """Judge a request to one of the two endpoints before its body is read.

    A POST to the stream's is refused with 405, by which a client that tries Streamable HTTP
    first knows to GET it (2025-11-25 basic/transports § Backwards Compatibility).
    """
    takes = "POST" if head.path == paths.messages else "GET"
    methods = (takes, "OPTIONS") if policy.cors else (takes,)
    if head.method not in methods:
        allow = ((b"Allow", ", ".join(methods).encode()),)
        return refuse(405, f"this endpoint takes {', '.join(methods)}", headers=allow)
    refused = check_host_origin(head, policy)
    if refused is not None:
        return refused
    if head.method == "OPTIONS":
        return Preflight(headers=preflight_headers(policy))
    if takes == "GET":
        if not accepts(head).sse:
            return refuse(406, "the answer to GET is text/event-stream, which Accept forbids")
        return PairStream(paths)
    session = parse_qs(head.query).get("sessionId", ())
    if len(session) != 1:
        return refuse(400, "the URI to POST to is the one that the endpoint event named")
    return check_content(head, policy) or PairMessage(session[0])
