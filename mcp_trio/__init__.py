"""A trio-native engine for the Model Context Protocol, client and server.

Nurseries own every session; each forward request's cancel scope encloses the reverse
calls it originates, so cancellation runs along the forward-to-reverse back-pointers;
the h11-level HTTP code streams SSE events by hand.

The public names below are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .client import (
        Client,
        ClientSession,
        Elicitation,
        connect_http,
        connect_memory,
        connect_stdio,
        connect_stream,
        connect_transport,
    )
    from .errors import (
        Busy,
        CannotSuspend,
        CapabilityMissing,
        ConnectFailed,
        DeadlineExceeded,
        Divergence,
        ErrorCode,
        HttpFailure,
        InvalidMessage,
        InvalidResult,
        McpError,
        NoReverseRoute,
        OriginSettled,
        OutcomeUnknown,
        PeerError,
        ProtocolViolation,
        Refusal,
        SessionClosed,
        SessionLost,
    )
    from .limits import Deadline, Limits
    from .runtime.answers import Accepted, Declined, Dismissed, Elicit, Sample
    from .runtime.context import Context
    from .server import Server, serve_http, serve_stdio, serve_stream, serve_transport
    from .server.hints import CacheHint

__version__ = "0.1.0"

_HOMES: Final = {
    "client": (
        "Client",
        "ClientSession",
        "Elicitation",
        "connect_http",
        "connect_memory",
        "connect_stdio",
        "connect_stream",
        "connect_transport",
    ),
    "errors": (
        "Busy",
        "CannotSuspend",
        "CapabilityMissing",
        "ConnectFailed",
        "DeadlineExceeded",
        "Divergence",
        "ErrorCode",
        "HttpFailure",
        "InvalidMessage",
        "InvalidResult",
        "McpError",
        "NoReverseRoute",
        "OriginSettled",
        "OutcomeUnknown",
        "PeerError",
        "ProtocolViolation",
        "Refusal",
        "SessionClosed",
        "SessionLost",
    ),
    "limits": ("Deadline", "Limits"),
    "runtime.answers": ("Accepted", "Declined", "Dismissed", "Elicit", "Sample"),
    "runtime.context": ("Context",),
    "server": ("Server", "serve_http", "serve_stdio", "serve_stream", "serve_transport"),
    "server.hints": ("CacheHint",),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Accepted",
    "Busy",
    "CacheHint",
    "CannotSuspend",
    "CapabilityMissing",
    "Client",
    "ClientSession",
    "ConnectFailed",
    "Context",
    "Deadline",
    "DeadlineExceeded",
    "Declined",
    "Dismissed",
    "Divergence",
    "Elicit",
    "Elicitation",
    "ErrorCode",
    "HttpFailure",
    "InvalidMessage",
    "InvalidResult",
    "Limits",
    "McpError",
    "NoReverseRoute",
    "OriginSettled",
    "OutcomeUnknown",
    "PeerError",
    "ProtocolViolation",
    "Refusal",
    "Sample",
    "Server",
    "SessionClosed",
    "SessionLost",
    "connect_http",
    "connect_memory",
    "connect_stdio",
    "connect_stream",
    "connect_transport",
    "serve_http",
    "serve_stdio",
    "serve_stream",
    "serve_transport",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
