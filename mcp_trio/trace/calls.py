"""From messages to calls: who asked what, because of which request, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import define, field, frozen

from mcp_trio.wire.jsonrpc import Failure, Message, Notification, Request, RequestId, Result

from .record import Recording, Side, other

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Call", "Crossing", "View", "view"]

#: What a server may not ask anything because of.
_NO_ORIGINS = frozenset({"initialize", "ping"})


@final
@define(eq=False)
class Call:
    """A request and what became of it.

    Attributes:
        caller: the side that sent it.
        origin: the call of the other side that it came from: its forward call.
        answer: what it was answered with, None while it is open.
        cancels: how often its caller cancelled it.
    """

    caller: Side
    request: Request
    origin: Call | None = None
    answer: Result | Failure | None = None
    cancels: int = 0

    @property
    def id(self) -> RequestId:
        """Its id, as sent."""
        return self.request.id

    @property
    def depth(self) -> int:
        """0 for a forward call, 1 for a reverse call of one, and so on."""
        return 0 if self.origin is None else self.origin.depth + 1

    @property
    def cancelled(self) -> bool:
        """Given up without an answer, by its caller or with the call that it came from.

        Over HTTP the latter may be all there is to see: the stream of a call that is
        cancelled ends, and with it what was asked there.
        """
        if self.answer is not None:
            return False
        return bool(self.cancels) or (self.origin is not None and self.origin.cancelled)

    @property
    def open(self) -> bool:
        """Neither answered nor cancelled."""
        return self.answer is None and not self.cancelled


@final
@frozen(eq=False)
class Crossing:
    """A message that went from one side to the other, and the call it belongs to."""

    time: float
    sender: Side
    message: Message
    call: Call | None


@final
@define(eq=False)
class View:
    """A session as one side saw it, in the order in which that side sent and received.

    Attributes:
        side: whose view it is.
        crossings: every message but those that were taken back before they were written.
        calls: every call, in order.
    """

    side: Side
    crossings: list[Crossing] = field(factory=list)
    calls: list[Call] = field(factory=list)
    _by_id: dict[tuple[Side, RequestId], Call] = field(factory=dict)
    _by_token: dict[tuple[Side, RequestId], Call] = field(factory=dict)

    def find(self, caller: Side, id_: object) -> Call | None:
        """Return the latest call of *caller* with this id, the very id: ``7`` is not ``"7"``."""
        return self._by_id.get((caller, id_)) if type(id_) in (int, str) else None  # type: ignore[arg-type]  # checked in the same line

    def take(self, time: float, sender: Side, message: Message, origin: Call | None) -> Crossing:
        """Enter the next message; *origin* is that of a request."""
        if isinstance(message, Request):
            call: Call | None = self._open(sender, message, origin)
        elif isinstance(message, Notification):
            call = self._notified(sender, message)
        else:
            call = self.find(other(sender), message.id)
            if call is not None and call.answer is None:
                call.answer = message
        crossing = Crossing(time, sender, message, call)
        self.crossings.append(crossing)
        return crossing

    def _open(self, caller: Side, request: Request, origin: Call | None) -> Call:
        call = Call(caller, request, origin)
        self.calls.append(call)
        self._by_id[caller, request.id] = call
        meta = (request.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if type(token) in (int, str):
            self._by_token[caller, token] = call  # type: ignore[index]  # checked in the line above
        return call

    def _notified(self, sender: Side, message: Notification) -> Call | None:
        params = message.params or {}
        if message.method == "notifications/cancelled":
            call = self.find(sender, params.get("requestId"))
            if call is not None:
                call.cancels += 1
            return call
        token = params.get("progressToken")
        if message.method == "notifications/progress" and type(token) in (int, str):
            return self._by_token.get((other(sender), token))  # type: ignore[arg-type]  # as above
        return None

    def only_open(self, caller: Side) -> Call | None:
        """Return the one call of *caller* that has no answer yet; None where there are several.

        One that *caller* has cancelled counts: the other side may not have heard of it.
        """
        waiting = [
            call
            for call in self.calls
            if call.caller == caller
            and call.answer is None
            and call.request.method not in _NO_ORIGINS
        ]
        return waiting[0] if len(waiting) == 1 else None


def view(recording: Recording, side: Side | None = None) -> View:
    """Return *recording* as *side* saw it (by default the client, where it was recorded).

    Which forward call a reverse call comes from is not on the wire. It is taken from the
    ``call.opened`` events of the side that made it. Where only the client was recorded, a
    reverse call that came while a single forward call was open can have come from no other;
    with several open its origin stays unknown.
    """
    seen = View(side or (recording.sides or ("client",))[0])
    told = _origins(recording)
    withdrawn = _withdrawn(recording, seen.side)
    for entry in recording.seen_by(seen.side):
        message, sender = entry.message, entry.sender
        if message is None:
            continue
        origin = None
        if isinstance(message, Request):
            if sender == seen.side and message.id in withdrawn:
                continue
            if sender in recording.sides:
                origin = seen.find(other(sender), told.get((sender, message.id)))
            elif sender == "server" and message.method not in _NO_ORIGINS:
                origin = seen.only_open("client")
        seen.take(entry.time, sender, message, origin)
    return seen


def _origins(recording: Recording) -> Mapping[tuple[Side, RequestId], RequestId]:
    return {
        (entry.side, entry.fields["id"]): entry.fields["origin"]
        for entry in recording.entries
        if entry.name == "call.opened" and entry.fields["origin"] is not None
    }


def _withdrawn(recording: Recording, side: Side) -> frozenset[RequestId]:
    """Return the ids of *side* whose requests were taken back before they were written."""
    return frozenset(
        entry.fields["id"]
        for entry in recording.seen_by(side)
        if entry.name == "call.abandoned" and entry.fields["withdrawn"]
    )
