"""How a handler's outcome becomes an answer, and how an answer becomes a caller's outcome."""

from __future__ import annotations

import logging
from typing import Any, Final

import trio

from mcp_trio.errors import Busy, ErrorCode, InvalidMessage, PeerError, Refusal
from mcp_trio.wire.jsonrpc import Failure, Request, Result

__all__ = ["failure_of", "reraise_cancelled", "unwrap"]

_log: Final = logging.getLogger("mcp_trio.runtime")


def unwrap(reply: Result | Failure | Exception | None) -> dict[str, Any]:
    """Return the result a call was settled with, or raise what it was settled with."""
    if type(reply) is Result:
        result: dict[str, Any] = reply.result
        return result
    if type(reply) is Failure:
        kind = Busy if reply.code == ErrorCode.BUSY else PeerError
        raise kind(reply.code, reply.message, reply.data)
    assert isinstance(reply, Exception)  # noqa: S101 - a call is settled with one of the three
    raise reply


def failure_of(exc: BaseException, message: Request) -> Failure:
    """Return the wire error for what a handler raised."""
    if isinstance(exc, Refusal):
        return Failure(message.id, exc.code, exc.message, exc.data)
    if isinstance(exc, InvalidMessage):
        return Failure(message.id, ErrorCode.INVALID_PARAMS, f"invalid params: {exc}")
    _log.error("the handler of %s failed", message.method, exc_info=exc)
    return Failure(message.id, ErrorCode.INTERNAL_ERROR, f"internal error in {message.method}")


def reraise_cancelled(group: BaseExceptionGroup[BaseException]) -> None:
    """Log what failed during clean-up; only the cancellation itself goes on outwards."""
    cancelled, rest = group.split(trio.Cancelled)
    if rest is not None:
        if rest.split((KeyboardInterrupt, GeneratorExit))[0] is not None:
            raise group
        _log.error("clean-up failed while a handler was being cancelled", exc_info=rest)
    if cancelled is not None:
        raise cancelled
