"""The sessions of one HTTP server: a table with bounds, and the transport under each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import trio
from attrs import define, frozen

from mcp_trio.wire.http import SessionFacts

from .http_streams import EventStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.abc import Deliver, EventStore
    from mcp_trio.limits import Limits
    from mcp_trio.runtime.session import Session

    from .http_streams import Reader

__all__ = ["HttpSession", "HttpTransport", "SessionStatistics", "SessionTable"]


class HttpTransport:
    """What a session over HTTP stands on: its standing stream, and one stream for each POST.

    Nothing reads or writes here: requests are delivered by the connections they come on, and
    each connection writes the stream of its own response.
    """

    run_writer = None

    def __init__(self, session_id: str, limits: Limits, store: EventStore | None) -> None:
        self.session_id: Final = session_id
        self._limits = limits
        self._store = store
        self._closed = trio.Event()
        self._opened = 0
        self.streams: dict[str, EventStream] = {}
        self.listeners: list[Reader] = []  # standing GETs, the newest last
        self.route: EventStream = self._open("0", standing=True)

    def open_stream(self, *, deaf: bool = False) -> EventStream:
        """Return a new stream for the answer to one POST."""
        self._opened += 1
        return self._open(str(self._opened), deaf=deaf)

    def _open(self, name: str, *, standing: bool = False, deaf: bool = False) -> EventStream:
        stream = EventStream(
            name,
            self.session_id,
            self._limits,
            self._store,
            standing=standing,
            deaf=deaf,
            on_end=self._forget,
        )
        self.streams[name] = stream
        return stream

    def stop(self) -> None:
        """The server drains: end the standing stream."""
        self.route.end()

    def attach(self, stream: EventStream, reader: Reader) -> None:
        """Let *reader*, of a GET, carry *stream* from now on."""
        if stream.standing:
            self._listen(reader)
        else:
            stream.attach(reader)

    def detach(self, stream: EventStream, reader: Reader) -> None:
        """*reader*, of a GET, is gone."""
        if stream.standing:
            self._leave(reader)
        else:
            stream.detach(reader)

    def _listen(self, reader: Reader) -> None:
        """A standing GET opens: the newest carries, the oldest beyond the limit ends."""
        self.listeners.append(reader)
        self.route.reader = reader
        if len(self.listeners) > self._limits.get_streams:
            oldest = self.listeners.pop(0)
            oldest.replaced = True
            oldest.rouse()

    def _leave(self, reader: Reader) -> None:
        """A standing GET has ended: the next newest carries on."""
        if reader in self.listeners:
            self.listeners.remove(reader)
        if self.route.reader is reader:
            self.route.detach(reader)
            if self.listeners:
                heir = self.listeners[-1]
                heir.seen = max(heir.seen, reader.seen)
                self.route.reader = heir
                heir.rouse()

    def _forget(self, stream: EventStream) -> None:
        self.streams.pop(stream.name, None)

    async def run_reader(self, deliver: Deliver) -> None:  # noqa: ARG002 - connections deliver
        """Wait for the end of the session."""
        await self._closed.wait()

    async def drain(self) -> None:
        """Wait until the open responses have taken what there is. A checkpoint."""
        for stream in list(self.streams.values()):
            if not stream.standing:
                stream.end()
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        """End every stream, at once."""
        self._closed.set()
        for stream in list(self.streams.values()):
            stream.end()


@final
@define(eq=False)
class HttpSession:
    """One session, as the table keeps it.

    Attributes:
        principal: who opened it, as the authenticator named them; nobody else may use it.
        used: when it was last used, on trio's clock.
        open_requests: requests and streams that are open on it; such a session is not idle.
    """

    id: str
    session: Session
    transport: HttpTransport
    principal: Any
    used: float
    open_requests: int = 0

    @property
    def facts(self) -> SessionFacts:
        """What the rules of HTTP want to know of it."""
        return SessionFacts(revision=self.session.revision)


@final
@frozen(kw_only=True)
class SessionStatistics:
    """What the table has seen and holds."""

    open: int
    opened: int
    evicted: int
    refused: int


class SessionTable:
    """Sessions by id, within ``limits.sessions`` and ``limits.sessions_per_principal``.

    Where there is no room the session that was unused for longest makes it; if all are in
    use the new one is refused. Unused ones end after ``limits.session_idle`` seconds.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        #: The time as of the watcher's last look: idle times need no better clock.
        self.now = trio.current_time()
        self._by_id: dict[str, HttpSession] = {}  # least recently used first
        self._of_principal: dict[Any, int] = {}
        self._opened = 0
        self._evicted = 0
        self._refused = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Any:
        return iter(list(self._by_id.values()))

    def find(
        self, session_id: str | None, principal: Any, *, kind: type[HttpTransport] = HttpTransport
    ) -> HttpSession | None:
        """Return the session of this id, if it is there, of this kind and *principal*'s own."""
        found = None if session_id is None else self._by_id.get(session_id)
        if found is None or found.principal != principal or found.session.error is not None:
            return None
        return found if type(found.transport) is kind else None

    def has_room(self, principal: Any) -> bool:
        """Make room for one more session of *principal*; false, and counted, if there is none."""
        limits = self._limits
        fits = True
        if self._of_principal.get(principal, 0) >= limits.sessions_per_principal and (
            principal is not None
        ):
            fits = self._evict(lambda s: s.principal == principal)
        if fits and len(self._by_id) >= limits.sessions:
            fits = self._evict(lambda _: True)
        self._refused += not fits
        return fits

    def _evict(self, may_go: Callable[[HttpSession], bool]) -> bool:
        for each in self._by_id.values():
            if each.open_requests == 0 and may_go(each):
                self._evicted += 1
                self.remove(each)
                return True
        return False

    def add(self, session: HttpSession) -> None:
        """Enter *session*."""
        self._opened += 1
        self._by_id[session.id] = session
        key = session.principal
        self._of_principal[key] = self._of_principal.get(key, 0) + 1

    def remove(self, session: HttpSession) -> None:
        """Take *session* out and close it. Idempotent."""
        if self._by_id.pop(session.id, None) is not None:
            left = self._of_principal[session.principal] - 1
            if left:
                self._of_principal[session.principal] = left
            else:
                del self._of_principal[session.principal]
        session.session.close()

    def begin(self, session: HttpSession) -> None:
        """A request or stream opens on *session*."""
        session.open_requests += 1
        if self._by_id.pop(session.id, None) is not None:  # else it has just ended
            self._by_id[session.id] = session

    def end(self, session: HttpSession) -> None:
        """A request or stream of *session* is over."""
        session.open_requests -= 1
        session.used = self.now

    def expire(self, now: float) -> None:
        """It is *now*: end the sessions that nobody has used for too long."""
        self.now = now
        for each in list(self._by_id.values()):
            if each.open_requests == 0 and now - each.used >= self._limits.session_idle:
                self._evicted += 1
                self.remove(each)

    def close_all(self) -> None:
        """End every session."""
        for each in list(self._by_id.values()):
            self.remove(each)

    def statistics(self) -> SessionStatistics:
        """Return a snapshot of the counters."""
        return SessionStatistics(
            open=len(self._by_id),
            opened=self._opened,
            evicted=self._evicted,
            refused=self._refused,
        )
