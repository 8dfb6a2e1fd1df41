"""The modern era, the server's face: each request stands for itself, with its own envelope.

The handlers are those of the sessions. What differs is where the client's capabilities come
from, what every result carries, and how a question is asked (`mcp_trio.runtime.rounds`).
Source: 2026-07-28 basic, server/discover.
"""

from __future__ import annotations

import logging
import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from mcp_trio.codec import codec_for
from mcp_trio.errors import CapabilityMissing, ErrorCode, InvalidMessage, Refusal
from mcp_trio.runtime.peer import LEVELS
from mcp_trio.runtime.rounds import Rounds
from mcp_trio.types import ClientCapabilities, Implementation
from mcp_trio.wire.envelope import (
    DISCOVER,
    LISTEN,
    SERVER_INFO,
    Envelope,
    missing_capability,
    read_envelope,
    revision_of,
)
from mcp_trio.wire.mrtr import HmacSealer

from .dispatch import ServerPeer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_trio.runtime.calls import Serving
    from mcp_trio.runtime.exchange import Exchange
    from mcp_trio.wire.jsonrpc import Notification, Request
    from mcp_trio.wire.revisions import Revision

    from .dispatch import JsonObject, ServerEndpoint
    from .registry import Server

__all__ = ["EnvelopeFace"]

_log: Final = logging.getLogger("mcp_trio.server")

#: 2026-07-28 basic/patterns/mrtr: only these may be answered with questions.
_MAY_ASK: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
#: 2026-07-28 server/utilities/caching: whose results say how long they hold.
_CACHEABLE: Final = frozenset(
    {
        DISCOVER,
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
#: What is read only once: as many introductions, of as many bytes.
_INTRODUCTIONS: Final = 64
_INTRODUCTION: Final = 4_096
_NOBODY: Final = Implementation(name="", version="")


class EnvelopeFace:
    """Serves enveloped requests (``mcp_trio.abc.EnvelopeEndpoint``).

    Attributes:
        methods: such requests even without an envelope, which is an error then: all of them
            where there is no handshake that could have been forgotten instead.
    """

    def __init__(
        self, server: Server, endpoint: ServerEndpoint, state_keys: Sequence[bytes]
    ) -> None:
        self._server = server
        self._endpoint = endpoint
        every = {name for revision in server.envelope_revisions for name in revision.methods}
        self.methods: Final = frozenset({DISCOVER} if server.revisions else every)
        if not state_keys:
            _log.info(
                "requestState is sealed with a random key: open rounds end with this process, "
                "and no other one can take them up; Server(state_keys=...) has keys that last"
            )
        self._sealer = HmacSealer(state_keys or (secrets.token_bytes(32),))
        self._infos: dict[Revision, JsonObject] = {}
        # By what was said, not by who said it: nothing is known of a client from before.
        self._introductions: dict[bytes, tuple[ClientCapabilities, Implementation]] = {}

    def initialize(self, session: Exchange, params: JsonObject) -> JsonObject:  # noqa: ARG002 - as its protocol
        """There is no handshake; its request never comes here."""
        raise Refusal(ErrorCode.METHOD_NOT_FOUND, "there is no initialize here")

    def handle_notification(self, session: Exchange, message: Notification) -> None:
        """The core defines none that a client sends, but for the cancellation."""

    async def handle_request(self, serving: Serving, message: Request) -> JsonObject:
        """Serve one request by its envelope.

        Raises:
            Refusal, InvalidMessage: the answer is that error.
        """
        envelope = serving.session.envelope or read_envelope(message.params)
        revision = revision_of(envelope, self._server.envelope_revisions)
        peer = self._peer(revision, envelope)
        exchange = serving.session
        self._endpoint.take_on(exchange, peer)
        if message.method == DISCOVER:
            return self._complete(DISCOVER, revision, self._discovered(revision))
        if message.method == LISTEN:
            asked = peer.codec.params(LISTEN, message.params)
            offered = self._endpoint.capabilities(revision)
            raw = await self._server.listeners.serve(serving, asked.notifications, offered)
            return self._complete(LISTEN, revision, raw)
        if message.method in _MAY_ASK:
            dress = partial(self._complete, message.method, revision)
            serving.rounds = Rounds(serving, message, self._sealer, self._server.limits, dress)
        try:
            raw = await self._endpoint.handle_request(serving, message)
        except CapabilityMissing as exc:
            raise missing_capability(exc.capability, str(exc)) from exc
        return self._complete(message.method, revision, raw)

    def _peer(self, revision: Revision, envelope: Envelope) -> ServerPeer:
        if envelope.log_level is not None and envelope.log_level not in LEVELS:
            raise InvalidMessage("$._meta['io.modelcontextprotocol/logLevel']", "a log level")
        capabilities, info = self._introduced(revision, envelope)
        peer = ServerPeer(revision, info, capabilities, dict(envelope.capabilities))
        peer.log_level = envelope.log_level
        return peer

    def _introduced(
        self, revision: Revision, envelope: Envelope
    ) -> tuple[ClientCapabilities, Implementation]:
        """Return what a client says of itself; most say the same each time."""
        said = msgspec.json.encode((revision.version, envelope.capabilities, envelope.client_info))
        found = self._introductions.get(said)
        if found is None:
            codec, info = codec_for(revision.version), envelope.client_info
            found = (
                codec.structure(envelope.capabilities, ClientCapabilities),
                _NOBODY if info is None else codec.structure(info, Implementation),
            )
            if len(said) <= _INTRODUCTION:
                if len(self._introductions) >= _INTRODUCTIONS:
                    del self._introductions[next(iter(self._introductions))]
                self._introductions[said] = found
        return found

    # ------------------------------------------------------------ results

    def _discovered(self, revision: Revision) -> JsonObject:
        """What the server is; 2026-07-28 server/discover."""
        server = self._server
        result: JsonObject = {
            "supportedVersions": [
                each.version for each in (*server.envelope_revisions, *reversed(server.revisions))
            ],
            "capabilities": self._endpoint.capabilities(revision),
        }
        if server.instructions is not None:
            result["instructions"] = server.instructions
        return result

    def _complete(self, method: str, revision: Revision, raw: JsonObject) -> JsonObject:
        """Add what every result of the era carries, to a copy: lists are shared by requests."""
        result = {"resultType": "complete", **raw}
        if method in _CACHEABLE and result["resultType"] == "complete":
            hint = self._server.cache_hints.get(method)
            result.setdefault("ttlMs", 0 if hint is None else hint.ttl_ms)
            result.setdefault("cacheScope", "private" if hint is None else hint.scope)
        # "SHOULD be included on every result"; for display, never for decisions.
        result["_meta"] = {SERVER_INFO: self._info(revision), **(raw.get("_meta") or {})}
        return result

    def _info(self, revision: Revision) -> JsonObject:
        found = self._infos.get(revision)
        if found is None:
            found = codec_for(revision.version).unstructure(self._server.info)
            self._infos[revision] = found
        return found
