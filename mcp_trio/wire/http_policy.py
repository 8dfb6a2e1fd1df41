"""Who may talk to an HTTP endpoint, and how a request is refused.

Source: 2025-11-25 basic/transports § Security Warning; RFC 9110 § 7.2 and § 15.5; the
Fetch standard § 3.2 (CORS).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from attrs import field, frozen, validators

from mcp_trio.errors import ErrorCode

from .http_head import SINGLE_VALUED
from .http_hosts import Authority, is_loopback, parse_authority, parse_origin
from .jsonrpc import Failure, encode
from .media import BOTH, Accepts
from .revisions import LEGACY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .http_head import RawHeaders, RequestHead
    from .jsonrpc import RequestId
    from .revisions import Revision

__all__ = [
    "ANY",
    "HttpPolicy",
    "Reject",
    "check_host_origin",
    "cors_headers",
    "preflight_headers",
    "refuse",
    "render_error_body",
]

#: In ``allowed_hosts`` or ``allowed_origins``: whatever it is. ``Origin: null`` stays wrong.
ANY: Final = "*"


def _hosts(entries: Iterable[str]) -> tuple[Authority, ...]:
    return tuple(_host(entry) for entry in entries)


def _host(entry: str) -> Authority:
    host = Authority(ANY) if entry == ANY else parse_authority(entry)
    if host is None:
        raise ValueError(f"allowed_hosts: {entry!r} is no host or host:port")
    return host


def _origins(entries: Iterable[str]) -> tuple[tuple[str, Authority], ...]:
    return tuple(_origin(entry) for entry in entries)


def _origin(entry: str) -> tuple[str, Authority]:
    if entry == ANY:
        return ANY, Authority(ANY)
    scheme, _, rest = entry.partition("://")
    host = parse_authority(rest)
    if parse_origin(entry) is None or host is None:
        raise ValueError(f"allowed_origins: {entry!r} is no http(s)://host or http(s)://host:port")
    return scheme.lower(), host


@final
@frozen(kw_only=True)
class HttpPolicy:
    """What one endpoint serves, and to whom."""

    #: Where the endpoint is; paths are compared as they stand.
    paths: tuple[str, ...] = ("/mcp",)
    #: Whether it is bound to loopback addresses only, so that only this machine should ask.
    loopback: bool = True
    #: Hosts besides: ``mcp.example.com`` at any port, ``mcp.example.com:8443``, or ``*``.
    allowed_hosts: tuple[Authority, ...] = field(default=(), converter=_hosts)
    #: Origins of pages: ``https://app.example.com`` at any port, one with a port, or ``*``.
    allowed_origins: tuple[tuple[str, Authority], ...] = field(default=(), converter=_origins)
    #: Whether pages of those origins may read what is answered.
    cors: bool = False
    #: The longest body that is read. As `mcp_trio.limits.Limits.message_bytes`.
    body_bytes: int = field(default=16 * 1024 * 1024, validator=validators.gt(0))
    #: Members of one batch.
    batch: int = field(default=100, validator=validators.gt(0))
    #: Without session ids: each request stands for itself.
    stateless: bool = False
    #: Whether a session has a standing stream.
    get_stream: bool = True
    #: The forms in which this endpoint answers.
    answers: Accepts = BOTH
    revisions: tuple[Revision, ...] = LEGACY
    #: The revisions whose requests stand for themselves, each with an envelope.
    envelopes: tuple[Revision, ...] = ()
    #: The HTTP methods that come of all this.
    methods: tuple[str, ...] = field(init=False)

    @methods.default
    def _methods(self) -> tuple[str, ...]:
        methods = ["POST"]
        sessions = bool(self.revisions) and not self.stateless
        if self.get_stream and self.answers.sse and sessions:
            methods.append("GET")
        if sessions:
            methods.append("DELETE")
        if self.cors:
            methods.append("OPTIONS")
        return tuple(methods)


# ---------------------------------------------------------------- refusals


@final
@frozen(kw_only=True)
class Reject:
    """The request is refused: this status, these headers, and an error to tell if there is one."""

    status: int
    error: Failure | None
    headers: RawHeaders = ()


def refuse(
    status: int,
    reason: str,
    *,
    code: int = ErrorCode.INVALID_REQUEST,
    id_: RequestId | None = None,
    headers: RawHeaders = (),
) -> Reject:
    """Refuse with a JSON-RPC error.

    Its id is absent, never null, unless *id_* is given: "The HTTP response body MAY comprise
    a JSON-RPC error response that has no `id`" (2025-03-26 basic/transports § Sending
    Messages to the Server 4).
    """
    return Reject(status=status, error=Failure(id_, code, reason, omit_id=True), headers=headers)


def render_error_body(reject: Reject) -> bytes:
    """Return the body that goes with *reject*: a JSON text, or nothing."""
    return b"" if reject.error is None else encode(reject.error)


# ---------------------------------------------------------------- Host and Origin

_DEFAULT_PORTS: Final = (80, 443)
#: How much of a value that came in is said back.
_ECHO: Final = 80


def check_host_origin(head: RequestHead, policy: HttpPolicy) -> Reject | None:
    """Refuse what another site's page could have sent, or has been made to send.

    "Servers MUST validate the Origin header on all incoming connections to prevent DNS
    rebinding attacks. If the Origin header is present and invalid, servers MUST respond
    with HTTP 403 Forbidden." (2025-11-25 basic/transports § Security Warning 1)
    """
    for name in head.headers.repeated:
        if name in SINGLE_VALUED:
            # RFC 9112 § 3.2 for Host: "MUST respond with a 400"; the others for its reason.
            return refuse(400, f"the header {name} came more than once")
    return _check_host(head, policy) or _check_origin(head, policy)


def _check_host(head: RequestHead, policy: HttpPolicy) -> Reject | None:
    if not policy.loopback and not policy.allowed_hosts:
        return None
    text = head.host
    host = None if text is None else parse_authority(text)
    if host is None:
        # "A server MUST respond with a 400 [...] to any HTTP/1.1 request message that lacks
        # a Host header field and to any [...] with an invalid field value" (RFC 9112 § 3.2)
        return refuse(400, "the request needs one valid Host header")
    if (policy.loopback and is_loopback(host.name)) or _is_listed(host, policy.allowed_hosts):
        return None
    return refuse(
        421,
        f"the host {_echo(text)} is not served here; to serve it, name it in allowed_hosts",
    )


def _check_origin(head: RequestHead, policy: HttpPolicy) -> Reject | None:
    text = head.headers.get("origin")
    if text is None:
        return None  # no browser, or none that would tell
    origin = parse_origin(text)
    if origin is not None:
        # Pages of this machine are fine, but for an endpoint on the network that names others.
        local = policy.loopback or not policy.allowed_origins
        if local and is_loopback(origin.name):
            return None
        host = Authority(origin.name, origin.port)
        for scheme, listed in policy.allowed_origins:
            if scheme in (origin.scheme, ANY) and _is_listed(host, (listed,)):
                return None
    return refuse(
        403,
        f"the origin {_echo(text)} is refused; to let its pages in, name it in allowed_origins",
    )


def _is_listed(host: Authority, entries: tuple[Authority, ...]) -> bool:
    """Tell whether *host* is among *entries*, of which one without a port stands for any."""
    return any(
        entry.name in (host.name, ANY)
        and (
            entry.port in (None, host.port)
            # Host has no port where it is the scheme's, which only the TLS end knows.
            or (host.port is None and entry.port in _DEFAULT_PORTS)
        )
        for entry in entries
    )


def _echo(text: str | None) -> str:
    return repr(text if text is None or len(text) <= _ECHO else text[:_ECHO] + "...")


# ---------------------------------------------------------------- CORS

_REQUEST_HEADERS: Final = (
    b"Accept, Authorization, Content-Type, Last-Event-ID, MCP-Protocol-Version, Mcp-Session-Id"
)
_ANSWER_HEADERS: Final = b"Mcp-Session-Id, WWW-Authenticate"


def cors_headers(head: RequestHead, policy: HttpPolicy) -> RawHeaders:
    """Return what any answer to *head*, refusals included, needs besides."""
    if not policy.cors:
        return ()
    origin = head.headers.get("origin")
    if origin is None or check_host_origin(head, policy) is not None:
        return ((b"Vary", b"Origin"),)
    return (
        (b"Vary", b"Origin"),
        (b"Access-Control-Allow-Origin", origin.encode("latin-1")),
        (b"Access-Control-Expose-Headers", _ANSWER_HEADERS),
    )


def preflight_headers(policy: HttpPolicy) -> RawHeaders:
    """Return what the answer to an OPTIONS request says, besides `cors_headers`."""
    methods = ", ".join(policy.methods).encode()
    return (
        (b"Allow", methods),
        (b"Access-Control-Allow-Methods", methods),
        (b"Access-Control-Allow-Headers", _REQUEST_HEADERS),
        (b"Access-Control-Max-Age", b"600"),
    )
