"""The heads of a client's HTTP requests: where they go and what they carry.

A head is formatted once for each session, method and URL, and remembered up to the digits of
its Content-Length.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from mcp_trio import __version__
from mcp_trio.wire.http_client_rules import request_headers
from mcp_trio.wire.http_hosts import origin_of

from .http_pool import Target

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from mcp_trio.wire.revisions import Revision

    from .http_exchange import Exchange
    from .http_proxy import Proxy

__all__ = ["Endpoint"]

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile("[^\0-\x08\x0a-\x1f\x7f]*")
#: What the client itself says; a second one would make the request mean two things.
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
    }
)
_SAFE: Final = "/%:@!$&'()*+,;=~-._?"


class Endpoint:
    """An MCP endpoint, as requests to it need it.

    Attributes:
        url: without credentials and fragment.
        target: its origin, and the way there.

    Raises:
        ValueError: *url* is no http or https URL, or names a user; a header is malformed or
            one that is the client's own.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: Proxy | None = None,
    ) -> None:
        origin = origin_of(url)
        if origin is None:
            raise ValueError(f"no http or https URL without user and password: {url!r}")
        self.url: Final = url
        self.target: Final = Target(origin, proxy, ssl_context)
        self._absolute = proxy is not None and ssl_context is None
        self._lines = header_lines(headers or {})
        if self._absolute and proxy is not None and proxy.authorization is not None:
            self._lines += b"Proxy-Authorization: %b\r\n" % proxy.authorization
        self._remembered: dict[tuple[str, str], bytes] = {}

    def forget_heads(self) -> None:
        """The session or the revision is another one."""
        self._remembered.clear()

    def head(self, exchange: Exchange, revision: Revision | None, session_id: str | None) -> bytes:
        """Return the head of *exchange*, with the blank line."""
        method = exchange.method
        event_id = exchange.last_event_id
        key = method, exchange.url
        start = self._remembered.get(key) if event_id is None else None
        if start is None:
            lines = request_headers(
                method, revision=revision, session_id=session_id, last_event_id=event_id
            )
            start = b"%b %b HTTP/1.1\r\nHost: %b\r\n%b%b" % (
                method.encode("ascii"),
                self._request_target(exchange.url),
                self._host(exchange.url),
                b"".join([b"%b: %b\r\n" % line for line in lines]),
                self._lines,
            )
            if event_id is None:
                self._remembered[key] = start
        if exchange.routing or exchange.credentials:
            start += exchange.routing + exchange.credentials
        if method == "POST":
            return b"%bContent-Length: %d\r\n\r\n" % (start, len(exchange.body))
        return start + b"\r\n"

    def _request_target(self, url: str) -> bytes:
        parts = urlsplit(url)
        target = quote(parts.path or "/", safe=_SAFE[:-1])
        if parts.query:
            target += "?" + quote(parts.query, safe=_SAFE)
        if self._absolute:  # RFC 9112 § 3.2.2: to a proxy
            target = f"{parts.scheme}://{parts.netloc}{target}"
        return target.encode("ascii")

    @staticmethod
    def _host(url: str) -> bytes:
        return urlsplit(url).netloc.encode("ascii")

    def credential_lines(self, headers: Mapping[str, str]) -> bytes:
        """Return the lines of headers for one request.

        Raises:
            ValueError: one is malformed, or the client's own.
        """
        return header_lines(headers, agent=False)


def header_lines(headers: Mapping[str, str], *, agent: bool = True) -> bytes:
    """Return *headers* as lines, with the names of the client's own refused.

    Raises:
        ValueError: a name or a value is malformed.
    """
    lines = []
    if agent:
        lines.append(b"Accept-Encoding: identity\r\n")
        if not any(name.lower() == "user-agent" for name in headers):
            lines.append(b"User-Agent: mcp-trio/%b\r\n" % __version__.encode("ascii"))
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            raise ValueError(f"no header that can be set: {name!r}")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of header {name} has a control character in it")
        lines.append(b"%b: %b\r\n" % (name.encode("ascii"), value.strip(" \t").encode("latin-1")))
    return b"".join(lines)
