"""Event streams that outlive their connection: a call's, and the session's standing one.

Both are taken up again by GET with ``Last-Event-ID``, after the time the server asks for, and
with growing pauses while it does not answer. Source: 2025-11-25 basic/transports
§ Resumability and Redelivery, § Listening for Messages from the Server.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.errors import HttpFailure, InvalidResult, OutcomeUnknown
from mcp_trio.wire.http_client_rules import Refused, Reply
from mcp_trio.wire.jsonrpc import Request
from mcp_trio.wire.sse import Overlong

from .http_exchange import EventStreamGet

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.wire.sse import ServerSentEvent, SSEDecoder

    from .http_client import HttpClientTransport
    from .http_exchange import Call

__all__ = ["listen", "resume_call", "run_standing_stream"]

_log: Final = logging.getLogger("mcp_trio.transports")

#: The pause after a failure, and how far it grows by doubling (seconds). Precedents: browsers
#: wait for 3 to 5 seconds, then longer; the official SDKs begin with 1.
_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
#: Failures in a row after which a call's stream is given up: two minutes, by these pauses.
_ATTEMPTS: Final = 8


class _Pauses:
    """How long to wait before the next attempt."""

    def __init__(self, decoder: SSEDecoder) -> None:
        self._decoder = decoder
        self.failures = 0

    def heard(self) -> None:
        """The server is there."""
        self.failures = 0

    async def wait(self, *, at_once: bool = False) -> None:
        """Wait. A checkpoint. What the server asked for comes first: it "MUST" be respected."""
        asked = self._decoder.retry
        if asked is not None:
            pause = max(asked / 1000, self._grown() if self.failures else 0)
        else:
            pause = 0 if at_once and not self.failures else self._grown()
        await trio.sleep(pause)

    def _grown(self) -> float:
        return min(_PAUSE * 2.0 ** max(self.failures - 1, 0), _LONGEST_PAUSE)


async def listen(home: HttpClientTransport, get: EventStreamGet) -> Any:
    """Send *get* and return what became of it. A checkpoint."""
    home.start(get)
    try:
        await get.done.wait()
    finally:
        get.give_up()
    return get.outcome


async def resume_call(
    home: HttpClientTransport, call: Call, decoder: SSEDecoder, cause: Exception | None
) -> None:
    """Follow the rest of *call*'s stream until its answer is there, or cannot be had.

    An orderly end before the answer is polling: the server may end the stream at any time,
    and the client comes back (2025-11-25 § Sending Messages to the Server 6).
    """
    pauses = _Pauses(decoder)
    reason = "the event stream ended before the answer"
    with trio.CancelScope() as call.resuming:  # noqa: ASYNC912 - the loop waits first
        first = cause is not None
        while pauses.failures < _ATTEMPTS:
            await pauses.wait(at_once=first)
            first = False
            get = call.carrier = EventStreamGet(home, decoder, call.take)
            session_id = home.session_id
            outcome = await listen(home, get)
            decoder.end()
            if call.answered:
                return
            if get.heard:
                pauses.heard()
            if outcome is Reply.STREAM:
                continue
            if outcome is Reply.SESSION_DOUBTFUL and await _is_gone(home, session_id):
                home.session_gone(session_id)
                return
            if not isinstance(outcome, HttpFailure | OutcomeUnknown):
                status = outcome.status if isinstance(outcome, Refused) else "404 or 405"
                reason = f"the event stream cannot be resumed (HTTP status {status})"
                break
            pauses.failures += 1
            cause, reason = outcome, f"the event stream cannot be resumed: {outcome}"
        error = OutcomeUnknown(reason)
        error.__cause__ = cause
        call.abort(error)


async def run_standing_stream(home: HttpClientTransport, begun: Callable[[], None]) -> None:
    """Listen to what the server says unasked, for as long as it has a stream for that.

    *begun* is called when the server has answered, be it by a refusal.
    """
    decoder = home.new_decoder()
    pauses = _Pauses(decoder)
    route = home.new_route()

    def hear(event: ServerSentEvent | Overlong) -> None:
        message = home.read_event(get, event)
        if type(message) is Overlong:
            get.stop(InvalidResult(f"an event over {message.limit} bytes"))
        elif message is not None:
            home.receive(message, route)

    try:
        while True:
            session_id = home.session_id
            get = EventStreamGet(home, decoder, hear, begun)
            resuming = get.last_event_id is not None
            outcome = await listen(home, get)
            decoder.end()
            if get.heard:
                pauses.heard()
            if outcome is Reply.STREAM:
                if not get.heard:
                    pauses.failures += 1
            elif outcome is Reply.SESSION_DOUBTFUL:
                if await _is_gone(home, session_id):
                    home.session_gone(session_id)
                return
            elif isinstance(outcome, HttpFailure | OutcomeUnknown):
                pauses.failures += 1
            elif resuming and outcome is not Reply.NO_STREAM:
                # The server does not know the event any more: what came since is lost.
                _log.warning("the standing stream cannot be resumed: %s", outcome)
                retry, decoder = decoder.retry, home.new_decoder()
                decoder.retry = retry
                pauses = _Pauses(decoder)
            else:
                if outcome is not Reply.NO_STREAM:
                    status = getattr(outcome, "status", None)
                    _log.info("the server offers no standing stream (HTTP status %s)", status)
                return
            await pauses.wait(at_once=get.heard)
    finally:
        route.end()


async def _is_gone(home: HttpClientTransport, session_id: str | None) -> bool:
    """Ask whether the session is still there: some servers answer 404 to every GET."""
    if home.session_id != session_id:
        return False
    ask = await home.ask(Request(home.new_id(), "ping", None))
    return ask.outcome is Reply.SESSION_GONE
