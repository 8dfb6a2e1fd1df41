"""HTTP+SSE, the pair of endpoints of 2024-11-05: where the client has to POST.

"When a client connects, the server MUST send an `endpoint` event containing a URI for the
client to use for sending messages." Source: 2024-11-05 basic/transports § HTTP with SSE.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urljoin

from mcp_trio.errors import ProtocolViolation

from .http_hosts import origin_of
from .sse import ServerSentEvent, encode_event

__all__ = ["ENDPOINT", "encode_endpoint", "read_endpoint"]

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
