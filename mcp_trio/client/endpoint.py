"""What a client serves: the reverse requests and the notifications of a server."""

from __future__ import annotations

import logging
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import trio

from mcp_trio.errors import ErrorCode, InvalidMessage, Refusal
from mcp_trio.runtime.context import HandlerContext
from mcp_trio.runtime.middleware import compose
from mcp_trio.wire.revisions import Feature

from . import registry
from .calls import ClientSession
from .forms import FormCheck, read_question
from .registry import as_root

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp_trio.runtime.calls import Serving
    from mcp_trio.runtime.session import Session
    from mcp_trio.types import CreateMessageRequestParams
    from mcp_trio.wire.jsonrpc import Notification, Request

    from .peer import ServerPeer
    from .registry import Client

__all__ = ["ClientContext", "ClientEndpoint"]

_log: Final = logging.getLogger("mcp_trio.client")

#: Several of one that nobody has heard of yet are one.
_LIST_CHANGED: Final = frozenset(
    {registry.TOOLS_CHANGED, registry.PROMPTS_CHANGED, registry.RESOURCES_CHANGED}
)


class ClientContext(HandlerContext):
    """What a client's handler holds: the request it serves, and the server that sent it.

    Attributes:
        session: the session, as seen from this request: calls made through it come from the
            request and end with it.
    """

    __slots__ = ("peer", "session")

    def __init__(self, serving: Serving, params: dict[str, Any] | None) -> None:
        super().__init__(serving, params)
        self.peer: Final[ServerPeer] = serving.session.state
        self.session: Final = ClientSession(self.peer, origin=serving)


class ClientEndpoint:
    """Serves what the client has handlers for; one for each session."""

    def __init__(self, client: Client) -> None:
        self._client = client
        typed: dict[str, Callable[[ClientContext, Request], Awaitable[dict[str, Any]]]] = {
            registry.SAMPLE: self._sample,
            registry.ELICIT: self._elicit,
            registry.LIST_ROOTS: self._list_roots,
        }
        served = set(client.request_handlers)
        if client.static_roots is not None:
            served.add(registry.LIST_ROOTS)
        self._requests: Final = {method: typed[method] for method in served}
        self._raw: Final = dict(client.raw_handlers)
        self._handlers: Final = dict(client.request_handlers)
        self._heard: Final = dict(client.notification_handlers)
        self._serve: Final = compose(client.middleware, self._dispatch)

    def initialize(self, session: Session, params: dict[str, Any]) -> NoReturn:  # noqa: ARG002 - as the protocol has it
        """Clients are not initialized."""
        raise Refusal(ErrorCode.METHOD_NOT_FOUND, "initialize is for servers")

    # ------------------------------------------------------------ requests

    async def handle_request(self, serving: Serving, message: Request) -> dict[str, Any]:
        """Serve one request of the server and return its raw result.

        Raises:
            Refusal: no handler, or what the handler refused.
            InvalidMessage: the params do not fit; the server is told (-32602).
        """
        result: dict[str, Any] = await self._serve(ClientContext(serving, message.params), message)
        return result

    async def _dispatch(self, ctx: ClientContext, request: Request) -> dict[str, Any]:
        raw = self._raw.get(request.method)
        if raw is not None:
            result = await _run(raw, ctx, request.params or {})
            if not isinstance(result, dict):
                raise TypeError(f"the handler of {request.method} returned no dict")
            return result
        serve = self._requests.get(request.method)
        revision = ctx.peer.session.revision
        if serve is None or (
            request.method not in revision.methods and Feature.MRTR not in revision.features
        ):
            await trio.lowlevel.checkpoint()
            raise Refusal(ErrorCode.METHOD_NOT_FOUND, f"method not found: {request.method}")
        return await serve(ctx, request)

    async def _sample(self, ctx: ClientContext, request: Request) -> dict[str, Any]:
        from mcp_trio.types import CreateMessageResult, TextContent  # noqa: PLC0415 - made where needed

        params = ctx.peer.codec.params(request.method, request.params)
        self._check_tools(ctx, params)
        answer = await _run(self._handlers[request.method], ctx, params)
        if isinstance(answer, str):
            answer = CreateMessageResult(
                role="assistant",
                content=TextContent(text=answer),
                model=self._client.model_name,
                stop_reason="endTurn",
            )
        if not isinstance(answer, CreateMessageResult):
            raise TypeError("a sampling handler returns a CreateMessageResult or a str")
        return _write(ctx, answer)

    def _check_tools(self, ctx: ClientContext, params: CreateMessageRequestParams) -> None:
        """2025-11-25 client/sampling § Tools in Sampling, § Error Handling: -32602."""
        if Feature.SAMPLING_TOOLS not in ctx.peer.session.revision.features:
            return
        tools = params.tools is not None or params.tool_choice is not None
        if tools and not self._client.sampling_tools:
            raise Refusal(ErrorCode.INVALID_PARAMS, "this client did not declare sampling.tools")
        from mcp_trio.runtime.questions import check_tool_messages  # noqa: PLC0415 - with _sample only

        check_tool_messages(params.messages)

    async def _elicit(self, ctx: ClientContext, request: Request) -> dict[str, Any]:
        peer = ctx.peer
        question = read_question(peer.codec, request.params)
        if question.mode not in self._client.elicitation_modes:
            reason = f"this client did not declare elicitation mode {question.mode!r}"
            raise Refusal(ErrorCode.INVALID_PARAMS, reason)
        check = FormCheck(question, peer.codec, self._client.limits)
        if question.elicitation_id is not None:
            peer.expect_visit(question.elicitation_id)
        result: dict[str, Any] = {}
        try:
            answer = await _run(self._handlers[request.method], ctx, question)
            result = check.answer(answer)
        finally:
            if result.get("action") != "accept":
                peer.forget_visit(question.elicitation_id)
        return result

    async def _list_roots(self, ctx: ClientContext, request: Request) -> dict[str, Any]:
        from mcp_trio.types import ListRootsResult  # noqa: PLC0415 - made where needed

        roots = ctx.peer.roots
        if roots is None:
            found = await _run(self._handlers[request.method], ctx)
            roots = tuple(as_root(root) for root in found)
        else:
            await trio.lowlevel.checkpoint()
        return _write(ctx, ListRootsResult(roots=roots))

    # ------------------------------------------------------------ notifications

    def handle_notification(self, session: Session, message: Notification) -> None:
        """Queue a notification for its handler; what nobody wants to hear is dropped."""
        peer: ServerPeer = session.state
        method, params = message.method, message.params or {}
        if method == registry.TOOLS_CHANGED:
            peer.outputs.clear()  # until they are listed again nobody knows what holds
            peer.repeatable.clear()
        for listening in peer.listening:
            listening.hear(message)
        found = self._heard.get(method)
        if method == registry.ELICITATION_COMPLETE and not peer.forget_visit(
            params.get("elicitationId")
        ):
            return  # 2025-11-25 client/elicitation § Completion Notifications: ignore unknown ids
        if found is None:
            return
        handle = partial(self._tell, peer, method, params, *found)
        if method == registry.LOG:
            peer.notices.put_log(handle)
        elif method in _LIST_CHANGED:
            peer.notices.put(handle, key=method)
        elif method == registry.RESOURCE_UPDATED:
            peer.notices.put(handle, key=(method, str(params.get("uri"))))
        else:
            peer.notices.put(handle)

    def hear_progress(self, peer: ServerPeer, params: dict[str, Any]) -> None:
        """Queue the progress of a call for the handler of all progress."""
        found = self._heard[registry.PROGRESS]
        peer.notices.put_progress(partial(self._tell, peer, registry.PROGRESS, params, *found))

    async def _tell(  # noqa: ASYNC910 - whoever empties the queue has a checkpoint for each
        self,
        peer: ServerPeer,
        method: str,
        params: dict[str, Any],
        handler: Callable[..., Any],
        typed: bool,  # noqa: FBT001 - of the pair that is registered
    ) -> None:
        try:
            told = peer.codec.params(method, params) if typed else params
        except InvalidMessage as exc:
            _log.warning("malformed %s: %s", method, exc)
            return  # noqa: ASYNC910 - as above
        outcome = handler(ClientSession(peer), told)
        if isawaitable(outcome):
            await outcome


async def _run(handler: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    """Run a user's handler: what fits badly in there is not the fault of the server's params."""
    try:
        return await handler(*args)
    except InvalidMessage as exc:
        raise RuntimeError("the handler made a message that does not fit") from exc


def _write(ctx: ClientContext, answer: object) -> dict[str, Any]:
    try:
        result: dict[str, Any] = ctx.peer.codec.unstructure(answer)
    except InvalidMessage as exc:
        raise RuntimeError("the handler's answer does not fit the revision") from exc
    return result
