"""The two layers between a session and its messages over HTTP: requests, and events on streams.

A tracer hears of a request and of the message in its body, of a response, and of each event and
the message in it. Which message travelled on what is put together here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

from attrs import define, field, frozen

from mcp_trio.wire.http_head import parse_event_id
from mcp_trio.wire.jsonrpc import Failure, Request, Result

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .calls import Crossing, View
    from .record import Entry

__all__ = ["Event", "Exchange", "HttpView", "Row", "http_view"]


@final
@define(eq=False)
class Exchange:
    """One HTTP request and its response.

    Attributes:
        number: counts the requests of the side that was recorded.
        session_id: the start of the session id in its head, None where there is none.
        body: the message it carries, None where it carries none.
        status: of the response, None before it.
        events: those of its stream.
        ended: the response is complete, or will never be.
    """

    number: int
    method: str
    session_id: str | None
    body: Any
    status: int | None = None
    content_type: str = ""
    events: list[Event] = field(factory=list)
    ended: bool = False

    @property
    def name(self) -> str:
        """Method and number."""
        return f"{self.method} {self.number}"


@final
@frozen(eq=False)
class Event:
    """One server-sent event.

    Attributes:
        id: as it was sent, None where there is none.
        body: the message in it, None in one that only brings an id.
    """

    id: str | None
    body: Any

    @property
    def counter(self) -> str:
        """The number within its stream, where the id is of mcp_trio's making; else the id."""
        if self.id is None:
            return "-"
        parsed = parse_event_id(self.id)
        return self.id if parsed is None else str(parsed[1])


@final
@frozen(eq=False)
class Row:
    """Something that crossed: a message on its carrier, or HTTP without a message.

    Attributes:
        crossing: the message, None where there is none.
        text: what to show where there is no message.
        up: it went to the server.
    """

    time: float
    exchange: Exchange | None
    event: Event | None
    crossing: Crossing | None
    text: str = ""
    up: bool = True


@final
@define(eq=False)
class HttpView:
    """A session over HTTP as one side saw it.

    Attributes:
        exchanges: every request, in order.
        rows: everything that crossed, in order.
        most_open: how many requests were open at once, at most.
        issued: the start of the session id that the server gave, None where it gave none.
    """

    exchanges: list[Exchange] = field(factory=list)
    rows: list[Row] = field(factory=list)
    most_open: int = 0
    issued: str | None = None
    _by_number: dict[int, Exchange] = field(factory=dict)
    _open: int = 0

    def take(self, entry: Entry, waiting: _Waiting) -> None:
        """Enter what a transport told."""
        fields = entry.fields
        if entry.name == "http.request":
            self._request(entry, waiting)
            return
        exchange = self._by_number.get(fields.get("exchange", 0))
        if exchange is None:
            return
        if entry.name == "http.response":
            self._response(entry, exchange)
        elif entry.name == "sse.event":
            event = Event(fields["id"], fields["body"])
            exchange.events.append(event)
            text = _name_of(event.body)
            if event.body is None:  # an empty one brings an id, for a client that comes back
                text = "event id" if fields["event"] == "message" else f"event {fields['event']}"
            crossing = waiting.claim(event.body)
            self.rows.append(Row(entry.time, exchange, event, crossing, text, up=False))
        elif entry.name == "http.ended" and not exchange.ended:
            exchange.ended = True
            self._open -= 1

    def _request(self, entry: Entry, waiting: _Waiting) -> None:
        fields = entry.fields
        # Counted here: a client that falls back to HTTP+SSE begins anew.
        number = len(self.exchanges) + 1
        exchange = Exchange(number, fields["method"], fields["session_id"], fields["body"])
        self.exchanges.append(exchange)
        self._by_number[fields["exchange"]] = exchange
        self._open += 1
        self.most_open = max(self.most_open, self._open)
        text = _name_of(exchange.body) or exchange.method
        if fields["last_event_id"] is not None:
            text += f" after event {fields['last_event_id']}"
        self.rows.append(Row(entry.time, exchange, None, waiting.claim(exchange.body), text))

    def _response(self, entry: Entry, exchange: Exchange) -> None:
        exchange.status = entry.fields["status"]
        exchange.content_type = kind = entry.fields["content_type"] or ""
        if self.issued is None:
            self.issued = entry.fields["session_id"]
        if exchange.status != 200 or not kind.startswith("application/json"):
            text = f"{exchange.status} {kind}".rstrip()
            self.rows.append(Row(entry.time, exchange, None, None, text, up=False))

    def meet(self, crossing: Crossing) -> None:
        """Enter a message of which no transport has told yet."""
        up = crossing.sender == "client"
        self.rows.append(Row(crossing.time, self._carrier_of(crossing), None, crossing, up=up))

    def _carrier_of(self, crossing: Crossing) -> Exchange | None:
        """Return what an answer in JSON comes with: the request that it answers."""
        message = crossing.message
        if isinstance(message, Result | Failure):
            for exchange in reversed(self.exchanges):
                if isinstance(exchange.body, Request) and exchange.body.id == message.id:
                    return exchange
        return None


@final
class _Waiting:
    """The messages of a session for which no carrier has been found yet."""

    def __init__(self, crossings: Iterable[Crossing]) -> None:
        self._by_kind: dict[object, list[Crossing]] = {}
        self.claimed: set[int] = set()
        for crossing in crossings:
            self._by_kind.setdefault(_kind(crossing.message), []).append(crossing)

    def claim(self, message: Any) -> Crossing | None:
        """Return the first crossing of an equal message that has not been claimed."""
        alike = self._by_kind.get(_kind(message), [])
        for at, crossing in enumerate(alike):
            if crossing.message == message:
                self.claimed.add(id(crossing))
                return alike.pop(at)
        return None


def _name_of(body: Any) -> str:
    """Name a body that no message of the session belongs to: a batch, or what was ignored."""
    return "" if body is None else type(body).__name__.lower()


def _kind(message: Any) -> object:
    return type(message), getattr(message, "method", None), getattr(message, "id", None)


def http_view(seen: View, entries: tuple[Entry, ...]) -> HttpView | None:
    """Return what HTTP was under *seen*, the view of the side of *entries*; None where none was."""
    if not any(entry.name == "http.request" for entry in entries):
        return None
    found = HttpView()
    waiting = _Waiting(seen.crossings)
    crossings = iter(seen.crossings)
    crossing = next(crossings, None)
    met: set[int] = set()  # rows that stand where the session tells of a message
    for entry in entries:
        if entry.message is None:
            found.take(entry, waiting)
        elif crossing is not None and entry.message is crossing.message:
            found.meet(crossing)
            met.add(id(found.rows[-1]))
            crossing = next(crossings, None)
        # else it was taken back before it was written
    # A message of which a transport tells too stands there.
    found.rows = [
        row for row in found.rows if id(row) not in met or id(row.crossing) not in waiting.claimed
    ]
    return found
