"""What crossed between the two sides of a session, seen from outside, and the laws for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import trio
from attrs import define, field, frozen

from mcp_trio.errors import SessionClosed
from mcp_trio.wire.jsonrpc import Failure, Notification, Request, Result
from tests.peers import CANCELLED, PROGRESS

if TYPE_CHECKING:
    from mcp_trio.abc import Deliver, Route, Transport
    from mcp_trio.runtime.session import Session

Side = Literal["client", "server"]


@frozen
class Event:
    """One thing that happened at one side."""

    side: Side
    what: Literal["sent", "taken back", "delivered", "settled", "cut off"]
    message: Any


class Recording:
    """Everything that happened at either side, in order. It is the sessions' tracer as well."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tap(self, transport: Transport, side: Side) -> TappedTransport:
        """Return *transport* with a tap on it."""
        return TappedTransport(transport, side, self.events)

    def event(self, name: str, fields: dict[str, Any]) -> None:
        """Keep the moments at which requests settle."""
        if name == "request.settled":
            self.events.append(Event(fields["role"], "settled", fields["id"]))

    def sent_by(self, side: Side) -> list[Any]:
        """Return what *side* sent and did not take back."""
        return [
            event.message
            for event in self.events
            if event.side == side
            and event.what == "sent"
            and not any(
                other.what == "taken back" and other.message is event.message
                for other in self.events
            )
        ]


class _TappedRoute:
    def __init__(self, inner: Route, side: Side, events: list[Event]) -> None:
        self._inner = inner
        self._side = side
        self._events = events
        self._queued: dict[int, Any] = {}

    @property
    def full(self) -> bool:
        return self._inner.full

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:
        ticket = self._inner.send_nowait(message, eager=eager)
        self._queued[ticket] = message
        self._events.append(Event(self._side, "sent", message))
        return ticket

    def unsend(self, ticket: int) -> bool:
        taken = self._inner.unsend(ticket)
        if taken:
            self._events.append(Event(self._side, "taken back", self._queued[ticket]))
        return taken

    async def wait_room(self) -> None:
        await self._inner.wait_room()

    def skip(self) -> None:
        self._inner.skip()

    def hang_up(self) -> bool:
        return self._inner.hang_up()


class TappedTransport:
    """A transport that records what passes through it."""

    def __init__(self, inner: Transport, side: Side, events: list[Event]) -> None:
        self.inner = inner
        self.route = _TappedRoute(inner.route, side, events)
        self._side = side
        self._events = events

    async def run_reader(self, deliver: Deliver) -> None:
        """Record, then deliver."""

        def record(message: Any, _: Route) -> None:
            self._events.append(Event(self._side, "delivered", message))
            deliver(message, self.route)

        await self.inner.run_reader(record)
        self._events.append(Event(self._side, "cut off", None))

    async def run_writer(self) -> None:
        """Write until cancelled, or until the other side is gone."""
        try:
            await (self.inner.run_writer or trio.sleep_forever)()
        except OSError:
            self._events.append(Event(self._side, "cut off", None))
            raise

    async def drain(self) -> None:
        """As the transport within."""
        await self.inner.drain()

    async def aclose(self) -> None:
        """As the transport within."""
        await self.inner.aclose()


# ---------------------------------------------------------------- the laws


@define
class _Call:
    """A request that one side sent."""

    request: Request
    open: bool = True


@define
class _Served:
    """A request that one side received."""

    request: Request
    cancelled: bool = False
    answered: bool = False
    settled: bool = False
    progress: float = float("-inf")


@define
class Laws:
    """One side's events, held to the laws one by one. Params say where a call came from."""

    calls: dict[Any, _Call] = field(factory=dict)
    served: dict[Any, _Served] = field(factory=dict)

    def take(self, event: Event) -> None:
        """Go on by one event of the side."""
        message = event.message
        if event.what == "settled":
            self._settle(message)
        elif event.what == "taken back":
            if isinstance(message, Request):
                assert self.calls[message.id].open, "a request was taken back that was not open"
                self.calls[message.id].open = False
        elif event.what == "cut off":  # nobody is left to be told
            for call in self.calls.values():
                call.open = False
        elif event.what == "sent":
            self._send(message)
        else:
            self._receive(message)

    def left_open(self) -> list[Any]:
        """Return the requests that were neither answered nor cancelled."""
        return [
            call.request.id
            for call in self.calls.values()
            if call.open and call.request.method != "initialize"
        ]

    def _send(self, message: Any) -> None:
        if isinstance(message, Request):
            assert message.id not in self.calls, f"the id {message.id} was used twice"
            self.calls[message.id] = _Call(message)
            origin = (message.params or {}).get("origin")
            if origin is not None:
                served = self.served[origin]
                assert not served.cancelled, "a reverse call after the cancel of its origin"
                assert not served.settled, "a reverse call after the end of its origin"
        elif isinstance(message, Result | Failure):
            assert message.id in self.served, f"an answer to {message.id}, which nobody sent"
            served = self.served[message.id]
            assert not served.cancelled, f"an answer to {message.id} after its cancel"
            assert not served.answered, f"two answers to {message.id}"
            self._assert_nothing_open(message.id)
            served.answered = True
        elif message.method == CANCELLED:
            self._cancel(message)
        elif message.method == PROGRESS:
            self._progress(message)

    def _cancel(self, message: Notification) -> None:
        assert message.params is not None
        call = self.calls.get(message.params["requestId"])
        assert call is not None, "a cancel of a request that was never sent"
        assert call.request.method != "initialize", "initialize was cancelled"
        assert call.open, f"a cancel of {call.request.id}, which is not open"
        call.open = False

    def _progress(self, message: Notification) -> None:
        assert message.params is not None
        served = self.served[message.params["progressToken"]]
        assert not served.cancelled, "progress after the cancel"
        assert not served.answered, "progress after the answer"
        assert message.params["progress"] > served.progress, "progress that does not increase"
        served.progress = message.params["progress"]

    def _receive(self, message: Any) -> None:
        if isinstance(message, Request):
            self.served[message.id] = _Served(message)
        elif isinstance(message, Result | Failure):
            if message.id in self.calls:
                self.calls[message.id].open = False
        elif message.method == CANCELLED:
            served = self.served.get((message.params or {}).get("requestId"))
            if served is not None and not served.settled:
                served.cancelled = True

    def _settle(self, id_: Any) -> None:
        self._assert_nothing_open(id_)
        assert not self.served[id_].settled, "a request was settled twice"
        self.served[id_].settled = True

    def _assert_nothing_open(self, origin: Any) -> None:
        left = [
            call.request.id
            for call in self.calls.values()
            if call.open and (call.request.params or {}).get("origin") == origin
        ]
        assert left == [], f"reverse calls {left} outlived request {origin}"


def assert_lawful(recording: Recording, *sessions: Session) -> None:
    """Hold what both *sessions*, now ended, did to the laws; see `mcp_trio.runtime.exchange`."""
    for session in sessions:
        laws = Laws()
        for event in recording.events:
            if event.side == session.role:
                laws.take(event)
        assert session.calls() == ()
        assert session.statistics().in_flight == session.statistics().outgoing == 0
        if type(session.error) is SessionClosed:  # the peer was there to be told
            left = laws.left_open()
            assert left == [], f"{session.role} left {left} open without a word"
