"""The handshake lifecycle of the legacy revisions, as a table.

::

            INITIALIZE               ANSWERED                INITIALIZED
  UNOPENED ────────────▶ OPENING ────────────▶ OPENED ─────────────────▶ OPERATING
     │                      │                     │                          │
     └──────────────────────┴──────── CLOSE ──────┴──────────────────────────┴──▶ CLOSED

One machine serves both roles: for a server INITIALIZE is received and ANSWERED is sent,
for a client it is the other way round. Source: 2025-11-25 basic/lifecycle; the same text
in substance since 2024-11-05.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, final

__all__ = ["TABLE", "Event", "HandshakeLifecycle", "Ruling", "State"]


@final
class State(IntEnum):
    """Where a session stands."""

    UNOPENED = 0
    OPENING = 1
    OPENED = 2
    OPERATING = 3
    CLOSED = 4


@final
class Event(IntEnum):
    """What wants to happen. FORWARD runs from client to server, REVERSE the other way."""

    INITIALIZE = 0
    ANSWERED = 1
    INITIALIZED = 2
    PING = 3
    FORWARD_REQUEST = 4
    REVERSE_REQUEST = 5
    NOTIFICATION = 6
    CLOSE = 7


@final
class Ruling(IntEnum):
    """What the lifecycle says to it."""

    PROCEED = 0
    #: Not before ``initialize``: an error with the request's id; the session lives.
    NOT_YET = 1
    #: A second ``initialize``: an error; the session goes on at the revision it has.
    AGAIN = 2
    #: Hold it until OPERATING: a server's requests wait for ``initialized``.
    WAIT = 3
    IGNORE = 4
    CLOSED = 5


_S, _R = State, Ruling
_Row = tuple[tuple[State, Ruling], ...]


def _stay(state: State, *rulings: Ruling) -> _Row:
    return tuple((state, ruling) for ruling in rulings)


#: ``TABLE[state][event] -> (next state, ruling)``; every cell is decided.
TABLE: Final[tuple[_Row, ...]] = (
    # INITIALIZE ANSWERED INITIALIZED PING FORWARD_REQUEST REVERSE_REQUEST NOTIFICATION CLOSE
    (
        (_S.OPENING, _R.PROCEED),
        *_stay(_S.UNOPENED, _R.IGNORE, _R.IGNORE, _R.PROCEED, _R.NOT_YET, _R.WAIT, _R.IGNORE),
        (_S.CLOSED, _R.PROCEED),
    ),
    (
        (_S.OPENING, _R.AGAIN),
        (_S.OPENED, _R.PROCEED),
        *_stay(_S.OPENING, _R.IGNORE, _R.PROCEED, _R.NOT_YET, _R.WAIT, _R.PROCEED),
        (_S.CLOSED, _R.PROCEED),
    ),
    (
        (_S.OPENED, _R.AGAIN),
        (_S.OPENED, _R.IGNORE),
        (_S.OPERATING, _R.PROCEED),
        # "SHOULD NOT" is for the client to keep; a request that comes early is served.
        *_stay(_S.OPENED, _R.PROCEED, _R.PROCEED, _R.WAIT, _R.PROCEED),
        (_S.CLOSED, _R.PROCEED),
    ),
    (
        (_S.OPERATING, _R.AGAIN),
        *_stay(_S.OPERATING, _R.IGNORE, _R.IGNORE, _R.PROCEED, _R.PROCEED, _R.PROCEED, _R.PROCEED),
        (_S.CLOSED, _R.PROCEED),
    ),
    (
        *_stay(_S.CLOSED, _R.CLOSED, _R.IGNORE, _R.IGNORE, _R.CLOSED, _R.CLOSED, _R.CLOSED),
        *_stay(_S.CLOSED, _R.IGNORE, _R.IGNORE),
    ),
)


class HandshakeLifecycle:
    """One session's walk through `TABLE`."""

    __slots__ = ("operating", "state")

    def __init__(self) -> None:
        self.state = State.UNOPENED
        #: ``state is OPERATING``, kept apart for the path every message takes.
        self.operating = False

    def rule(self, event: Event) -> Ruling:
        """Let *event* happen, or say why not."""
        self.state, ruling = TABLE[self.state][event]
        self.operating = self.state is State.OPERATING
        return ruling
