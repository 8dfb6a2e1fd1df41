"""What a request of the modern era says of itself, in ``params._meta``.

Nothing is remembered between requests: each one names the revision, the capabilities and,
if it likes, the identity of its client. Source: 2026-07-28 basic § _meta.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from attrs import field, frozen

from mcp_trio.errors import ErrorCode, InvalidMessage, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .revisions import Revision

__all__ = [
    "ACKNOWLEDGED",
    "CLIENT_CAPABILITIES",
    "CLIENT_INFO",
    "DISCOVER",
    "LISTEN",
    "LOG_LEVEL",
    "PROTOCOL_VERSION",
    "SERVER_INFO",
    "SUBSCRIPTION_ID",
    "Envelope",
    "is_enveloped",
    "missing_capability",
    "parts_of",
    "read_envelope",
    "revision_of",
]

PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

#: The requests that only this era has.
DISCOVER: Final = "server/discover"
LISTEN: Final = "subscriptions/listen"
#: The first message of a subscription.
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"


@final
@frozen(kw_only=True)
class Envelope:
    """The envelope of one request, as raw as it came.

    Attributes:
        version: the revision that the request is in.
        capabilities: what its client can do, for this request.
        client_info: who its client is; for display only.
        log_level: the least level of log messages it wants, None for none at all.
    """

    version: str
    capabilities: Mapping[str, Any] = field(factory=dict)
    client_info: Mapping[str, Any] | None = None
    log_level: str | None = None


def is_enveloped(params: Mapping[str, Any] | None) -> bool:
    """Tell whether a request is one of the modern era, by the one key that only those have."""
    if not params:
        return False
    meta = params.get("_meta")
    return type(meta) is dict and PROTOCOL_VERSION in meta


def read_envelope(params: Mapping[str, Any] | None) -> Envelope:
    """Read the envelope; capabilities that nobody knows are tolerated.

    Raises:
        InvalidMessage: a required key is missing, or a value has the wrong type; -32602
            (2026-07-28 basic § _meta: "MUST be included in every request").
    """
    meta = None if params is None else params.get("_meta")
    if type(meta) is not dict:
        raise InvalidMessage("$._meta", "an object, and required")
    version = _member(meta, PROTOCOL_VERSION, str, "a string, and required", required=True)
    return Envelope(
        version=version,
        capabilities=_member(
            meta, CLIENT_CAPABILITIES, dict, "an object, and required", required=True
        ),
        client_info=_member(meta, CLIENT_INFO, dict, "an object"),
        log_level=_member(meta, LOG_LEVEL, str, "a string"),
    )


def _member(
    meta: dict[str, Any], key: str, kind: type, expected: str, *, required: bool = False
) -> Any:
    value = meta.get(key)
    if type(value) is not kind and (required or key in meta):
        raise InvalidMessage(f"$._meta[{key!r}]", expected)
    return value


def revision_of(envelope: Envelope, supported: Iterable[Revision]) -> Revision:
    """Return the revision of *supported* that the request is in.

    Raises:
        Refusal: none of them; -32022, whose data name those that would do (2026-07-28 basic
            § UnsupportedProtocolVersionError).
    """
    supported = tuple(supported)
    for revision in supported:
        if revision.version == envelope.version:
            return revision
    raise Refusal(
        ErrorCode.UNSUPPORTED_VERSION,
        "unsupported protocol version",
        {"supported": [each.version for each in supported], "requested": envelope.version},
    )


def parts_of(capability: str) -> list[str]:
    """Return the names on a dotted path; behind ``extensions.`` there is one, dots and all."""
    return capability.split(".", 1 if capability.startswith("extensions.") else -1)


def missing_capability(capability: str, reason: str) -> Refusal:
    """Return the refusal of a request that needs what its client cannot do.

    *capability* is a path as for `parts_of`.
    Source: 2026-07-28 basic § Missing Required Client Capability, -32021.
    """
    required: dict[str, Any] = {}
    at = required
    for name in parts_of(capability):
        at[name] = at = {}
    return Refusal(ErrorCode.MISSING_CLIENT_CAPABILITY, reason, {"requiredCapabilities": required})
