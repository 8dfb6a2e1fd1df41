"""What an event store drops, and when: one policy for every store.

**Too old.** Before it does anything else, each method drops the events that were stored
``Limits.event_age`` ago or earlier, forgets the streams that were finished that long ago, and
forgets the sessions that no method has served for ``Limits.session_record_age``.

**A stream too large.** An append that takes a stream past ``Limits.events_per_stream`` or
``Limits.event_bytes_per_stream`` drops the stream's oldest events. The newest event stays
whatever its size, since it may be the response.

**A store too large.** What is held costs the events' bytes and a flat charge for each event,
stream and session. Past ``Limits.event_bytes_total`` there go, until it fits:

1. whole finished streams, the one that was finished first before the others: their clients
   have most likely read them;
2. events, the oldest of all streams first;
3. whole sessions, the one served longest ago first, but never the one at hand.

A stream that is not finished outlives all its events: it still knows that they were dropped,
and its next append goes on where the last one ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcp_trio.errors import EventsExpired, UnknownStream

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_trio.abc import StoredEvent

__all__ = ["EVENT_COST", "SESSION_COST", "STREAM_COST", "check_tail", "new_events"]

#: What bookkeeping is charged with, in bytes: what CPython needs for it, rounded up. Without
#: it many small events, or streams with none, would hold far more memory than the limit says.
EVENT_COST: Final = 256
STREAM_COST: Final = 512
SESSION_COST: Final = 1024


def new_events(
    events: Sequence[StoredEvent], *, last: int, finished: bool
) -> Sequence[StoredEvent]:
    """Return those of *events* that a stream which has come to number *last* lacks.

    Raises:
        ValueError: the numbers do not increase from 1 or more, or the stream is finished.
    """
    before = 0
    for event in events:
        if event.n <= before:
            raise ValueError(f"event numbers increase from 1: {event.n} follows {before}")
        before = event.n
    if before <= last:
        return ()
    if finished:
        raise ValueError(f"event {before} follows the end of a finished stream")
    if events[0].n > last:
        return events
    return tuple(event for event in events if event.n > last)


def check_tail(after: int, *, last: int, dropped: int) -> None:
    """Refuse to read past the end of a stream, or across what was dropped up to *dropped*.

    Raises:
        UnknownStream: the stream has not come to *after*.
        EventsExpired: the tail would have a hole.
    """
    if after > last:
        raise UnknownStream
    if after < dropped:
        raise EventsExpired(dropped)
