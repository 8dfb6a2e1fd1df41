"""Every error mcp_trio raises, as one tree.

::

    McpError                     anything below; catch this at the edge of a program
    ├── PeerError                the peer answered a request with a JSON-RPC error
    │   └── Busy                 ... with "too many requests in flight" (-31001)
    ├── SessionLost              the peer or the pipe went away; ``cause`` says how
    │   └── SessionClosed        this side closed the session itself
    ├── ConnectFailed            no session came about (exit code and stderr, or status and body)
    ├── ProtocolViolation        the peer broke the protocol in a way this call cannot survive
    │   ├── InvalidMessage       a message or a member of it is malformed; ``path`` names where
    │   └── InvalidResult        the answer to a call does not fit its schema
    ├── CapabilityMissing        a call needs a capability that the peer did not declare
    ├── DeadlineExceeded         a ``Deadline`` ran out; the peer has been told
    ├── OriginSettled            a reverse call's forward call has ended
    ├── CannotSuspend            a handler cannot be suspended here (shield or foreign nursery)
    ├── Divergence               a handler that is run again asks otherwise than before
    ├── NoReverseRoute           this request's peer cannot be asked anything
    ├── HttpFailure              no answer but an HTTP status that is no success, or no connection
    ├── OutcomeUnknown           the connection broke before anybody can know what became of a call
    ├── StoreError               an event store has not what it was asked for
    │   ├── UnknownStream        ... and this session may never have had it
    │   ├── EventsExpired        ... any more: the tail of the stream would have a hole
    │   └── StoreUnusable        ... since it cannot work at all (file damaged, disk full, too new)
    └── Refusal                  raise it in a handler to answer with this JSON-RPC error

Errors of the operating system and of trio (``trio.BrokenResourceError``, ``OSError``) never
leave a ``connect_*`` block by themselves: they arrive as the ``__cause__`` of one of these.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

__all__ = [
    "Busy",
    "CannotSuspend",
    "CapabilityMissing",
    "ConnectFailed",
    "DeadlineExceeded",
    "Divergence",
    "ErrorCode",
    "EventsExpired",
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
    "StoreError",
    "StoreUnusable",
    "UnknownStream",
]


class ErrorCode(IntEnum):
    """The JSON-RPC error codes that MCP names, and the one of our own (``BUSY``).

    Source: JSON-RPC 2.0 section 5.1; 2025-11-25 schema (``-32002``, ``-32042``);
    2026-07-28 basic § Error Codes (``-32020`` to ``-32022``).
    """

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    RESOURCE_NOT_FOUND = -32002
    URL_ELICITATION_REQUIRED = -32042
    HEADER_MISMATCH = -32020
    MISSING_CLIENT_CAPABILITY = -32021
    UNSUPPORTED_VERSION = -32022
    USER_REJECTED = -1
    # Outside -32768..-32000, as 2026-07-28 basic § Error Codes asks of new codes.
    BUSY = -31001


class McpError(Exception):
    """The root of the tree in this module's docstring."""


class PeerError(McpError):
    """The peer answered a request with a JSON-RPC error.

    Attributes:
        code: the JSON-RPC error code, as sent.
        message: the peer's one-line description.
        data: the ``data`` member, or None when absent.
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(code, message, data)
        self.code: Final = code
        self.message: Final = message
        self.data: Final = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class Busy(PeerError):
    """The peer refused a request because too many are in flight; try again later."""


class SessionLost(McpError):
    """The peer or the pipe to it went away; every waiting call settles with this.

    Attributes:
        cause: what was observed (an ``OSError``, an end of file, a child's exit), or None.
        exit_code: the child's exit status where the peer was a child process that ended.
        stderr_tail: the last lines the child wrote to its stderr, where they were captured.
    """

    def __init__(
        self,
        reason: str,
        cause: BaseException | None = None,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.cause: Final = cause
        self.exit_code: Final = exit_code
        self.stderr_tail: Final = stderr_tail
        self.__cause__ = cause

    def __str__(self) -> str:
        text = self.reason
        if self.exit_code is not None:
            text += f" (exit code {self.exit_code})"
        if self.stderr_tail:
            text += f"; stderr ends: {self.stderr_tail.strip()}"
        return text

    def again(self) -> SessionLost:
        """Return a fresh copy: one exception object must not be raised in two tasks."""
        return type(self)(
            self.reason, self.cause, exit_code=self.exit_code, stderr_tail=self.stderr_tail
        )


class SessionClosed(SessionLost):
    """This side has closed the session; nothing more can be sent on it."""


class ConnectFailed(McpError):
    """No session came about.

    Attributes:
        exit_code: the child's exit status, if it was a child process that ended.
        stderr_tail: the last lines of the child's stderr, if captured.
        status: the HTTP status, if the peer answered with one.
        body: the start of the HTTP body, if there was one.
    """

    def __init__(
        self,
        reason: str,
        *,
        exit_code: int | None = None,
        stderr_tail: str = "",
        status: int | None = None,
        body: str = "",
    ) -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.exit_code: Final = exit_code
        self.stderr_tail: Final = stderr_tail
        self.status: Final = status
        self.body: Final = body

    def __str__(self) -> str:
        text = self.reason
        if self.exit_code is not None:
            text += f" (exit code {self.exit_code})"
        if self.status is not None:
            text += f" (HTTP status {self.status})"
        if self.body:
            text += f"; the body begins: {self.body}"
        if self.stderr_tail:
            text += f"; stderr ends: {self.stderr_tail.strip()}"
        return text


class ProtocolViolation(McpError):
    """The peer broke the protocol in a way that the operation at hand cannot survive."""


class InvalidMessage(ProtocolViolation):
    """A value does not fit where it stands.

    Attributes:
        path: where it stands, in wire names: ``$.tools[0].inputSchema``.
        expected: what was expected there.
        problems: all faults found, each as ``(path, expected)``; the first is the above.
    """

    def __init__(
        self,
        path: str,
        expected: str,
        *,
        problems: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(path, expected)
        self.path: Final = path
        self.expected: Final = expected
        self.problems: Final = problems or ((path, expected),)

    def __str__(self) -> str:
        return "; ".join(f"{path}: {expected}" for path, expected in self.problems)


class InvalidResult(ProtocolViolation):
    """An answer arrived that does not fit what the specification or the tool's schema says."""


class CapabilityMissing(McpError):
    """A call needs a capability that the peer did not declare; nothing was sent.

    Attributes:
        capability: dotted path of the capability, for example ``sampling.tools``.
    """

    def __init__(self, capability: str, what: str) -> None:
        super().__init__(
            f"{what} needs the capability {capability!r}, which the peer did not declare"
        )
        self.capability: Final = capability


class DeadlineExceeded(McpError):
    """A ``Deadline`` ran out before the answer came; the cancellation has been sent."""


class OriginSettled(McpError):
    """The forward call that a reverse call came from has ended, so the reverse call has no purpose.

    Raised into a reverse call that was still open then, and by every later attempt
    to ask something through the ended call's context. Nothing is sent for a later attempt.
    """


class CannotSuspend(McpError):
    """The handler cannot be suspended here: a shield or a foreign nursery is in the way."""


class Divergence(McpError):
    """A handler does not repeat itself, so that it cannot be known what an answer is about.

    Source: 2026-07-28 basic/patterns/mrtr, whose rounds run a handler again.

    Attributes:
        key: the key that stands for two things.
        before, now: the two, shortened.
    """

    def __init__(self, what: str, key: str, before: str, now: str) -> None:
        super().__init__(f"{what}: key {key!r} stood for {before} and now stands for {now}")
        self.key: Final = key
        self.before: Final = before
        self.now: Final = now


class NoReverseRoute(McpError):
    """The peer of this request cannot be asked anything on it."""


class HttpFailure(McpError):
    """The server could not be reached for a request, or answered with an HTTP error alone.

    The session goes on. Below 500 the request has not been carried out; from 500 on nobody
    can know.

    Attributes:
        status: the HTTP status; None where there was no connection, and nothing was sent.
        body: the start of the HTTP body.
    """

    def __init__(self, reason: str, *, status: int | None = None, body: str = "") -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.status: Final = status
        self.body: Final = body

    def __str__(self) -> str:
        return f"{self.reason}; the body begins: {self.body}" if self.body else self.reason


class OutcomeUnknown(McpError):
    """The connection broke before anybody can know what became of the call."""


class StoreError(McpError):
    """An event store has not what it was asked for."""


class UnknownStream(StoreError):
    """No such session or stream is known to the one who asks, or it was forgotten.

    What other sessions have cannot be told from what never was.
    """

    def __init__(self) -> None:
        super().__init__("this session has no such stream or event")


class EventsExpired(StoreError):
    """Events that were asked for have been dropped; what is left would have a hole.

    Attributes:
        dropped: the number of the last event that was dropped.
    """

    def __init__(self, dropped: int) -> None:
        super().__init__(f"the events up to {dropped} of this stream are no longer kept")
        self.dropped: Final = dropped


class StoreUnusable(StoreError):
    """A store cannot work; the message says why, ``__cause__`` what was observed."""


class Refusal(McpError):
    """Raise it in a handler to answer the request with exactly this JSON-RPC error.

    Source: JSON-RPC 2.0 section 5.1. Own codes should lie outside -32768..-32000
    (2026-07-28 basic § Error Codes).
    """

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(code, message, data)
        self.code: Final = int(code)
        self.message: Final = message
        self.data: Final[Any] = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"
