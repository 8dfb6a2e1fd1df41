"""HTTP+SSE, the pair of endpoints of 2024-11-05, the server's side.

A session is one event stream: it begins with a GET and ends with it. Everything the server has
to say goes on it, answers too; messages of the client are POSTed to the URI that its first
event names. Source: 2024-11-05 basic/transports § HTTP with SSE.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from mcp_trio.wire.http import reject_session
from mcp_trio.wire.http_pair import PairMessage, PairStream, encode_endpoint
from mcp_trio.wire.http_policy import refuse
from mcp_trio.wire.jsonrpc import Batch, Failure, Malformed, Request, Result, decode

from .http_sessions import HttpSession, HttpTransport
from .http_streams import EventStream, Reader
from .http_writer import LATER

if TYPE_CHECKING:
    from mcp_trio.limits import Limits

    from .http1 import Head
    from .http_server import HttpServer
    from .http_writer import Facts, ResponseWriter

__all__ = ["PairTransport", "serve_pair_stream", "take_pair_message"]


class AnsweringStream(EventStream):
    """A standing stream that carries answers too, of which none may be lost.

    A drain waits for those that are owed, and ends the stream after the last one.
    """

    __slots__ = ("_owed", "_server")

    def __init__(self, session_id: str, limits: Limits, server: HttpServer) -> None:
        super().__init__("0", session_id, limits, standing=True)
        self._server = server
        self._owed = 0

    def expect(self) -> None:
        """A request has come, which gets one answer or is cancelled."""
        self._owed += 1
        self._server.begin_request()

    def send_nowait(self, message: Any, *, eager: bool = False) -> int:
        """Append *message*."""
        ticket = super().send_nowait(message, eager=eager)
        if type(message) is Result or type(message) is Failure:
            self._settle()
        return ticket

    def skip(self) -> None:
        """A request gets no answer; the stream goes on."""
        self._settle()

    def _settle(self) -> None:
        self._owed -= 1
        self._server.end_request()
        if self._server.draining:
            self.stop()

    def stop(self) -> None:
        """The server drains: end, unless an answer is still owed."""
        if not self._owed:
            self.end()

    def _is_kept(self) -> bool:
        return self.reader is not None  # without it the session is over


class PairTransport(HttpTransport):
    """What a session of HTTP+SSE stands on: one stream for everything."""

    route: AnsweringStream

    def __init__(self, session_id: str, limits: Limits, server: HttpServer) -> None:
        super().__init__(session_id, limits, None)
        self.route = AnsweringStream(session_id, limits, server)
        self.streams = {self.route.name: self.route}

    def stop(self) -> None:
        """The server drains: end the stream once all answers are on it."""
        self.route.stop()


async def serve_pair_stream(
    writer: ResponseWriter, server: HttpServer, head: Head, facts: Facts, principal: Any
) -> None:
    """Open a session and carry its stream; when that ends, so does the session."""
    if server.draining or not server.sessions.has_room(principal):
        await writer.reject(refuse(503, "no room for another session", headers=LATER), facts)
        return
    session_id = secrets.token_hex(20)
    transport = PairTransport(session_id, server.limits, server)
    inner = server.factory.open_session(transport, tracer=server.tracer, label=session_id[:8])
    inner.principal = principal
    session = HttpSession(session_id, inner, transport, principal, server.sessions.now)
    reader = Reader()
    reader.vital = True
    transport.route.attach(reader)
    server.sessions.add(session)
    server.sessions.begin(session)
    # The stream is no request that a drain would have to wait for; the answers on it are.
    server.end_request()
    try:
        await server.start_session(session)
        paths: PairStream = facts.decision
        begin = encode_endpoint(paths.paths.endpoint_for(session_id))
        await writer.write_stream(head, transport.route, reader, facts.cors, begin)
    finally:
        server.begin_request()
        transport.route.detach(reader)
        server.sessions.end(session)
        server.sessions.remove(session)


async def take_pair_message(
    writer: ResponseWriter, server: HttpServer, facts: Facts, body: bytes, principal: Any
) -> None:
    """Deliver what was POSTed; whatever answers it goes on the session's stream."""
    post: PairMessage = facts.decision
    session = server.sessions.find(post.session_id, principal, kind=PairTransport)
    if session is None:
        await writer.reject(reject_session(), facts)
        return
    message = decode(body, depth=server.limits.json_depth)
    if type(message) is Malformed:
        await writer.reject(refuse(400, message.reason, code=message.code), facts)
        return
    if type(message) is Batch:
        await writer.reject(refuse(400, "batches are no part of this transport"), facts)
        return
    route = session.transport.route
    if type(message) is Request and isinstance(route, AnsweringStream):
        route.expect()
    session.session.deliver(message, route)
    await writer.respond(202, facts.cors)
