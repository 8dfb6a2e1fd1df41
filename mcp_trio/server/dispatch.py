"""How a request finds its handler: the methods of the protocol over what a server offers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, TypeAlias, final

from attrs import frozen

from mcp_trio.codec import codec_for
from mcp_trio.errors import ErrorCode, PeerError, ProtocolViolation, Refusal, SessionLost
from mcp_trio.runtime.context import Context
from mcp_trio.runtime.middleware import OutgoingRequest, compose
from mcp_trio.runtime.peer import LEVELS, ClientPeer
from mcp_trio.types import (
    CallToolRequestParams,
    ClientCapabilities,
    Implementation,
    InitializeRequestParams,
)
from mcp_trio.wire.http_routing import check_params
from mcp_trio.wire.revisions import LATEST_LEGACY, negotiate

from .pages import page_of
from .refusals import resource_not_found

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.runtime.calls import Serving
    from mcp_trio.runtime.exchange import Exchange
    from mcp_trio.runtime.session import Session
    from mcp_trio.wire.jsonrpc import Notification, Request
    from mcp_trio.wire.revisions import Revision

    from .registry import Server

__all__ = ["ServerEndpoint"]

_log: Final = logging.getLogger("mcp_trio.server")

JsonObject: TypeAlias = dict[str, Any]
Handler: TypeAlias = "Callable[[Context[Any], JsonObject], Awaitable[Any]]"


class ServerPeer(ClientPeer):
    """A client, and the handlers of the methods that its session has."""

    __slots__ = ("methods", "read_call")

    methods: dict[str, Handler]
    read_call: Callable[[Any], CallToolRequestParams]


@final
@frozen
class _Opening:
    """What sessions of one revision begin with: the answer to ``initialize``, the methods."""

    result: JsonObject
    methods: dict[str, Handler]


class ServerEndpoint:
    """Serves a `Server` to its sessions (``mcp_trio.abc.Endpoint``)."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lists: dict[tuple[str, str], dict[str, Any]] = {}
        self._openings: dict[Revision, _Opening] = {}
        self._standard: Final[dict[str, Handler]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }
        self._chain = compose(server.middleware, self._handle) if server.middleware else None
        self._outgoing = compose(server.outgoing, _send) if server.outgoing else None

    # ------------------------------------------------------------ the session's opening

    def initialize(self, session: Session, params: JsonObject) -> JsonObject:
        """Negotiate the revision and introduce the server.

        Source: 2025-11-25 basic/lifecycle § Initialization.

        Raises:
            InvalidMessage: *params* are malformed; nothing has changed.
        """
        if not self._server.revisions:
            # "SHOULD name the versions that it supports" (2026-07-28 basic/versioning)
            supported = [revision.version for revision in self._server.envelope_revisions]
            reason = f"there is no handshake here; supported is {', '.join(supported)}"
            data = {"supported": supported, "requested": str(params.get("protocolVersion"))}
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, reason, data)
        asked = codec_for(LATEST_LEGACY.version).structure(params, InitializeRequestParams)
        revision = negotiate(asked.protocol_version, self._server.revisions)
        peer = ServerPeer(revision, asked.client_info, asked.capabilities, params["capabilities"])
        self.take_on(session, peer)
        return self._opening(revision).result

    def admit(self, exchange: Exchange, revision: Revision) -> None:
        """Serve *exchange* without a handshake: its client is nobody, and can do nothing."""
        nobody = Implementation(name="", version="")
        peer = ServerPeer(revision, nobody, ClientCapabilities(), {})
        self.take_on(exchange, peer)

    def _opening(self, revision: Revision) -> _Opening:
        """Return what every session at *revision* begins with, made once."""
        found = self._openings.get(revision)
        if found is None:
            capabilities = self._capabilities(revision)
            result: JsonObject = {
                "protocolVersion": revision.version,
                "capabilities": capabilities,
                "serverInfo": codec_for(revision.version).unstructure(self._server.info),
            }
            if self._server.instructions is not None:
                result["instructions"] = self._server.instructions
            found = _Opening(result, self._methods(revision, capabilities))
            self._openings[revision] = found
        return found

    def _equip(self, peer: ServerPeer) -> None:
        """Give *peer* the methods that there are for it."""
        peer.methods = self._opening(peer.revision).methods
        peer.read_call = peer.codec.structurer(CallToolRequestParams)

    def capabilities(self, revision: Revision) -> JsonObject:
        """Return what is declared at *revision*."""
        found: JsonObject = self._opening(revision).result["capabilities"]
        return found

    def take_on(self, exchange: Exchange, peer: ServerPeer) -> None:
        """Serve *peer* on *exchange*."""
        self._equip(peer)
        exchange.revision = peer.revision
        exchange.state = peer
        if self._outgoing is not None:
            exchange.outgoing = self._call_out

    def _capabilities(self, revision: Revision) -> JsonObject:
        """What is declared follows what is offered at this moment."""
        server = self._server
        declared: JsonObject = {"logging": {}}
        if server.tools or "tools/list" in server.handlers:
            declared["tools"] = {"listChanged": True}
        if server.resources or server.templates or "resources/list" in server.handlers:
            declared["resources"] = {"subscribe": True, "listChanged": True}
        if server.prompts or "prompts/list" in server.handlers:
            declared["prompts"] = {"listChanged": True}
        needs = revision.methods["completion/complete"].needs
        if needs and (server.completers or "completion/complete" in server.handlers):
            declared[needs] = {}
        return declared

    def _methods(self, revision: Revision, declared: JsonObject) -> dict[str, Handler]:
        """Return the handlers of what *revision* has and the server declares, and custom ones."""
        found: dict[str, Handler] = {}
        for name, handler in self._standard.items():
            method = revision.methods.get(name)
            if method is not None and (
                method.needs is None or method.needs.partition(".")[0] in declared
            ):
                found[name] = handler
        for name, custom in self._server.handlers.items():
            if name in self._standard and name not in revision.methods:
                continue
            found[name] = self._custom(custom)
        return found

    @staticmethod
    def _custom(handler: Callable[[Any, JsonObject], Awaitable[Any]]) -> Handler:
        async def handle(ctx: Context[Any], params: JsonObject) -> Any:
            result = await handler(ctx, params)
            raw = {} if result is None else ctx.peer.codec.unstructure(result)
            return _checked(raw, ctx.method)

        return handle

    # ------------------------------------------------------------ requests, notifications

    async def handle_request(self, serving: Serving, message: Request) -> JsonObject:
        """Serve one request through the middleware.

        Raises:
            Refusal, InvalidMessage: the answer is that error; whatever else is raised is an
                internal error.
        """
        ctx: Context[Any] = Context(
            serving, message.params, serving.session.state, self._server.lifespan_value
        )
        if self._chain is not None:
            return _checked(await self._chain(ctx, message), message.method)
        return await self._handle(ctx, message)

    async def _handle(self, ctx: Context[Any], message: Request) -> JsonObject:
        handler = ctx.peer.methods.get(message.method)  # type: ignore[attr-defined]  # a ServerPeer, by initialize
        if handler is None:
            raise Refusal(ErrorCode.METHOD_NOT_FOUND, f"method not found: {message.method}")
        result: JsonObject = await handler(ctx, message.params or {})
        return result

    def handle_notification(self, session: Session, message: Notification) -> None:
        """React to what a client tells; custom handlers get a task each."""
        method = message.method
        if method == "notifications/initialized":
            self._initialized(session)
        elif method == "notifications/roots/list_changed" and session.state.roots_news:
            session.state.roots_news += 1
            session.start_soon(_refresh_roots, session)
        handler = self._server.notification_handlers.get(method)
        if handler is not None:
            session.start_soon(handler, session, message.params or {})

    def _initialized(self, session: Session) -> None:
        if self._server.prefetch_roots and session.state.has("roots"):
            session.start_soon(_refresh_roots, session)
        if self._server.keep_alive is not None:
            from mcp_trio.runtime.keepalive import run_keep_alive  # noqa: PLC0415 - rarely used

            session.start_soon(run_keep_alive, session, self._server.keep_alive)

    async def _call_out(
        self, ctx: Context[Any], method: str, params: JsonObject | None, key: str | None
    ) -> Any:
        assert self._outgoing is not None  # noqa: S101 - set on the session only where it is
        return await self._outgoing(ctx, OutgoingRequest(method, params, key))

    # ------------------------------------------------------------ tools

    async def _call_tool(self, ctx: Context[Any], params: JsonObject) -> Any:
        call = ctx.peer.read_call(params)  # type: ignore[attr-defined]  # a ServerPeer
        tool = self._server.tools.get(call.name)
        if tool is None:
            raise Refusal(ErrorCode.INVALID_PARAMS, f"unknown tool: {call.name}")
        head = ctx.session.head
        if head is not None and tool.annotated:
            # 2026-07-28 basic/transports/streamable-http § Custom Headers from Tool Parameters
            reason = check_params(head.headers, call.arguments, tool.annotated)
            if reason is not None:
                raise Refusal(ErrorCode.HEADER_MISMATCH, reason)
        return await tool.call(ctx, call.arguments)

    async def _list_tools(self, ctx: Context[Any], params: JsonObject) -> Any:
        revision = ctx.peer.revision
        return self._page(
            ctx,
            params,
            "tools",
            lambda: {n: t.definition_for(revision) for n, t in self._server.tools.items()},
        )

    def _page(
        self,
        ctx: Context[Any],
        params: JsonObject,
        kind: str,
        definitions: Callable[[], dict[str, Any]],
    ) -> JsonObject:
        """Return one page of a list; each list is unstructured once for each revision."""
        codec = ctx.peer.codec
        listed = self._lists.get((kind, codec.revision))
        if listed is None:
            listed = {key: codec.unstructure(each) for key, each in definitions().items()}
            self._lists[kind, codec.revision] = listed
        chosen, cursor = page_of(listed, params.get("cursor"), self._server.page_size)
        result: JsonObject = {kind: chosen}
        if cursor is not None:
            result["nextCursor"] = cursor
        return result

    def forget_lists(self) -> None:
        """What is offered has changed."""
        self._lists.clear()
        self._openings.clear()

    # ------------------------------------------------------------ resources

    async def _list_resources(self, ctx: Context[Any], params: JsonObject) -> Any:
        resources = self._server.resources
        return self._page(
            ctx, params, "resources", lambda: {u: r.definition for u, r in resources.items()}
        )

    async def _list_templates(self, ctx: Context[Any], params: JsonObject) -> Any:
        templates = self._server.templates
        return self._page(
            ctx,
            params,
            "resourceTemplates",
            lambda: {u: t.definition for u, t in templates.items()},
        )

    async def _read_resource(self, ctx: Context[Any], params: JsonObject) -> Any:
        uri = ctx.peer.codec.params("resources/read", params).uri
        fixed = self._server.resources.get(uri)
        if fixed is not None:
            return await fixed.read(ctx)
        for template in self._server.templates.values():
            result = await template.read(ctx, uri)
            if result is not None:
                return result
        raise resource_not_found(ctx, uri)

    async def _subscribe(self, ctx: Context[Any], params: JsonObject) -> Any:
        uri = ctx.peer.codec.params("resources/subscribe", params).uri
        known = uri in self._server.resources or any(
            t.template.match(uri) is not None for t in self._server.templates.values()
        )
        if not known and "resources/read" not in self._server.handlers:
            raise resource_not_found(ctx, uri)
        ctx.peer.subscriptions.add(uri)
        return {}

    async def _unsubscribe(self, ctx: Context[Any], params: JsonObject) -> Any:
        uri = ctx.peer.codec.params("resources/unsubscribe", params).uri
        ctx.peer.subscriptions.discard(uri)
        return {}

    # ------------------------------------------------------------ prompts, completion, logging

    async def _list_prompts(self, ctx: Context[Any], params: JsonObject) -> Any:
        prompts = self._server.prompts
        return self._page(
            ctx, params, "prompts", lambda: {n: p.definition for n, p in prompts.items()}
        )

    async def _get_prompt(self, ctx: Context[Any], params: JsonObject) -> Any:
        asked = ctx.peer.codec.params("prompts/get", params)
        prompt = self._server.prompts.get(asked.name)
        if prompt is None:
            raise Refusal(ErrorCode.INVALID_PARAMS, f"unknown prompt: {asked.name}")
        return await prompt.get(ctx, asked.arguments)

    async def _complete(self, ctx: Context[Any], params: JsonObject) -> Any:
        from .prompts import complete  # noqa: PLC0415 - not every server completes

        asked = ctx.peer.codec.params("completion/complete", params)
        server = self._server
        if asked.ref.type == "ref/prompt":
            ref, known = asked.ref.name, asked.ref.name in server.prompts
        else:
            ref = asked.ref.uri
            known = ref in server.templates or ref in server.resources
        completer = server.completers.get((ref, asked.argument.name))
        if completer is None and not known:
            raise Refusal(ErrorCode.INVALID_PARAMS, f"nothing to complete is called {ref!r}")
        most = server.limits.completion_values
        return await complete(ctx, asked, completer or _no_candidates, most)

    async def _set_level(self, ctx: Context[Any], params: JsonObject) -> Any:
        level = ctx.peer.codec.params("logging/setLevel", params).level
        assert level in LEVELS  # noqa: S101 - the codec has seen to it
        ctx.peer.log_level = level
        return {}


async def _send(ctx: Context[Any], call: OutgoingRequest) -> JsonObject:
    return await ctx.send(call.method, call.params, call.key)


async def _refresh_roots(session: Session) -> None:
    from mcp_trio.runtime.questions import refresh_roots  # noqa: PLC0415 - rarely used

    try:
        await refresh_roots(session.state, session.call)
    except SessionLost:
        return  # nobody is left to be asked
    except (PeerError, ProtocolViolation) as exc:
        _log.warning("the client's roots could not be fetched: %s", exc)


def _checked(result: Any, method: str) -> JsonObject:
    """Return what a user's code gave as a raw result, if it is one."""
    if not isinstance(result, dict):
        raise TypeError(f"the result of {method} is a {type(result).__name__}, not an object")
    return result


async def _no_candidates(*_: Any) -> tuple[str, ...]:
    return ()
