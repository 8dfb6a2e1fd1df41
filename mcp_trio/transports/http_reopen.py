"""Opening a new session in place of one that the server has forgotten.

"When a client receives HTTP 404 in response to a request containing an MCP-Session-Id, it MUST
start a new session by sending a new InitializeRequest without a session ID attached"
(2025-11-25 basic/transports § Session Management 4). What had been set up in the old session
is set up again: subscriptions and the log level.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from mcp_trio.errors import McpError, ProtocolViolation
from mcp_trio.wire.http_client_rules import Reply
from mcp_trio.wire.jsonrpc import Failure, Request, Result

if TYPE_CHECKING:
    from mcp_trio.wire.revisions import Revision

    from .http_client import HttpClientTransport

__all__ = ["Setup", "reopen"]

_log: Final = logging.getLogger("mcp_trio.transports")

_SUBSCRIBE: Final = "resources/subscribe"
_UNSUBSCRIBE: Final = "resources/unsubscribe"
_SET_LEVEL: Final = "logging/setLevel"


class Setup:
    """What a session was opened with, and what has been set up in it since.

    Attributes:
        opening: the params of ``initialize``; None before.
    """

    #: The requests that `note` wants to hear of.
    methods = frozenset({_SUBSCRIBE, _UNSUBSCRIBE, _SET_LEVEL})

    def __init__(self) -> None:
        self.opening: dict[str, Any] | None = None
        self._kept: dict[tuple[str, str], dict[str, Any]] = {}

    def note(self, request: Request) -> None:
        """Keep what *request* sets up."""
        params = request.params or {}
        if request.method == _SET_LEVEL:
            self._kept[_SET_LEVEL, ""] = params
        elif request.method == _SUBSCRIBE:
            self._kept[_SUBSCRIBE, str(params.get("uri"))] = params
        else:
            self._kept.pop((_SUBSCRIBE, str(params.get("uri"))), None)

    def requests(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what sets all of it up again."""
        return [
            (method, {name: value for name, value in params.items() if name != "_meta"})
            for (method, _), params in self._kept.items()
        ]


async def reopen(home: HttpClientTransport, revision: Revision | None) -> None:
    """Shake hands again, and set up what had been set up. A checkpoint.

    Raises:
        McpError: the server refuses, or speaks another *revision* now.
    """
    opening = await home.ask(Request(home.new_id(), "initialize", home.setup.opening))
    outcome = opening.outcome
    if isinstance(outcome, McpError):
        raise outcome
    if not isinstance(outcome, Result):
        said = outcome.message if isinstance(outcome, Failure) else "HTTP status 404"
        raise ProtocolViolation(f"the server refused initialize: {said}")
    if opening.head_seen is not None:
        home.note_session(opening.head_seen)
    home.note_revision(outcome.result)
    if home.revision is not revision:
        raise ProtocolViolation(f"the server now speaks {outcome.result.get('protocolVersion')!r}")
    error = await home.tell("notifications/initialized")
    if error is not None:
        raise error
    for method, params in home.setup.requests():
        ask = await home.ask(Request(home.new_id(), method, params))
        if type(ask.outcome) is not Result:
            _log.warning("%s could not be repeated in the new session: %s", method, ask.outcome)
        if ask.outcome is Reply.SESSION_GONE:
            raise ProtocolViolation("the new session was forgotten at once")
