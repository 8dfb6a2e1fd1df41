"""`ClientSession`: the typed calls of a client."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import trio

from mcp_trio.errors import ErrorCode, PeerError
from mcp_trio.runtime.middleware import OutgoingRequest, compose
from mcp_trio.runtime.service import run_beside
from mcp_trio.wire.envelope import LOG_LEVEL

from .pages import Page, Pages
from .registry import as_root
from .rounds import in_rounds
from .toolcall import ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_trio.limits import Deadline
    from mcp_trio.runtime.calls import CallSnapshot, Serving, SessionStatistics
    from mcp_trio.runtime.session import Session
    from mcp_trio.types import (
        CallToolResult,
        CompleteResult,
        GetPromptResult,
        Implementation,
        LoggingLevel,
        ProgressNotificationParams,
        Prompt,
        PromptReference,
        ReadResourceResult,
        Resource,
        ResourceTemplate,
        ResourceTemplateReference,
        Root,
        ServerCapabilities,
        Tool,
    )
    from mcp_trio.wire.revisions import Revision

    from .listening import Listening
    from .peer import ServerPeer

__all__ = ["ClientSession"]

_log: Final = logging.getLogger("mcp_trio.client")


@final
class ClientSession:
    """One session with a server, from the client's side.

    Every call is a checkpoint. When it is cancelled the server is told, without waiting for
    it, and nothing of the call is left. *deadline* (else the client's) ends it with
    `DeadlineExceeded`; *progress* is called with each ``ProgressNotificationParams``, a plain
    function at once, an async one in order with the other notifications; *meta* becomes the
    request's ``_meta``. All calls raise:

        CapabilityMissing: the server, or the revision, does not have it; nothing was sent.
        PeerError: the server answered with an error.
        SessionLost: the session ended first.
        DeadlineExceeded: the deadline ran out; the server has been told.
        InvalidMessage: the params cannot be written as JSON; nothing was sent.
        InvalidResult: the answer does not fit what it should be; the text names the path.
        OriginSettled: for a view of the session that belongs to a request of the server
            (``ctx.session``): that request has ended, or ended first.

    Attributes:
        session: the engine underneath.
    """

    __slots__ = ("_origin", "_peer", "session")

    def __init__(self, peer: ServerPeer, *, origin: Serving | None = None) -> None:
        self.session: Final[Session] = peer.session
        self._peer: Final = peer
        self._origin: Final = origin

    # ------------------------------------------------------------ the server

    @property
    def server_info(self) -> Implementation:
        """What the server is called, for display (2025-11-25 basic/lifecycle)."""
        return self._peer.info

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server declared."""
        return self._peer.capabilities

    @property
    def instructions(self) -> str | None:
        """How to use the server, in its own words."""
        return self._peer.instructions

    @property
    def revision(self) -> Revision:
        """The negotiated revision; ``revision.version`` is its date."""
        return self.session.revision

    # ------------------------------------------------------------ tools

    def list_tools(self) -> Pages[Tool]:
        """Return the server's tools, fetched as they are read.

        A malformed tool is left out and logged: it must not cost the others. The declared
        outputs are kept, to hold the results of `call_tool` to them. Source: 2025-11-25
        server/tools § Listing Tools.
        """
        return Pages(self._tools, self.session.limits.pages)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[ProgressNotificationParams], object] | None = None,
        deadline: Deadline | None = None,
        meta: Mapping[str, Any] | None = None,
        validate: bool = True,
    ) -> CallToolResult:
        """Call a tool. A checkpoint. Source: 2025-11-25 server/tools § Calling Tools.

        A result with ``is_error`` is returned, not raised. With *validate*, the structured
        content of a tool that `list_tools` has seen is held to its ``outputSchema``.
        """
        peer = self._peer
        output = peer.outputs.get(name) if validate else None
        if output is not None:
            output.compile()
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = arguments if type(arguments) is dict else dict(arguments)
        try:
            raw = await self._ask("tools/call", params, progress, deadline, meta)
        except PeerError as exc:
            if exc.code != ErrorCode.HEADER_MISMATCH or peer.annotations is None:
                raise
            # The tool has other headers than we know of: "SHOULD refresh its tool list and
            # retry" (2026-07-28 basic/transports/streamable-http § Client Behavior).
            async for _ in self.list_tools():
                pass
            raw = await self._ask("tools/call", params, progress, deadline, meta)
        result: CallToolResult = peer.read("tools/call", raw)
        if output is not None:
            output.check(result)
        return result

    def open_call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        deadline: Deadline | None = None,
        meta: Mapping[str, Any] | None = None,
        validate: bool = True,
    ) -> AbstractAsyncContextManager[ToolCall]:
        """Call a tool and follow it while it runs.

        ::

            async with session.open_call("forecast", {"city": "Oslo"}) as call:
                async for update in call.updates: ...
                result = await call.wait_result()

        Leaving the block cancels a call that is not done. Nothing but the block's own
        exception leaves it.
        """

        async def make(put: Callable[[Any], object]) -> CallToolResult:
            return await self.call_tool(
                name, arguments, progress=put, deadline=deadline, meta=meta, validate=validate
            )

        call = ToolCall(make)
        return run_beside(call.run, call.cancel)

    # ------------------------------------------------------------ resources, prompts

    def list_resources(self) -> Pages[Resource]:
        """Return the server's resources, fetched as they are read (server/resources)."""
        return self._pages("resources/list", "resources")

    def list_resource_templates(self) -> Pages[ResourceTemplate]:
        """Return the server's resource templates, fetched as they are read."""
        return self._pages("resources/templates/list", "resource_templates")

    def list_prompts(self) -> Pages[Prompt]:
        """Return the server's prompts, fetched as they are read (server/prompts)."""
        return self._pages("prompts/list", "prompts")

    async def read_resource(
        self,
        uri: str,
        *,
        progress: Callable[[ProgressNotificationParams], object] | None = None,
        deadline: Deadline | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> ReadResourceResult:
        """Read a resource. A checkpoint. Source: 2025-11-25 server/resources."""
        raw = await self._ask("resources/read", {"uri": uri}, progress, deadline, meta)
        result: ReadResourceResult = self._peer.read("resources/read", raw)
        return result

    async def subscribe(self, uri: str, *, deadline: Deadline | None = None) -> None:
        """Ask to hear of changes of a resource (``Client.resource_updated``). A checkpoint."""
        await self._ask("resources/subscribe", {"uri": uri}, deadline=deadline)

    async def unsubscribe(self, uri: str, *, deadline: Deadline | None = None) -> None:
        """Ask to hear of changes of a resource no longer. A checkpoint."""
        await self._ask("resources/unsubscribe", {"uri": uri}, deadline=deadline)

    def listen(
        self,
        *,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: Sequence[str] = (),
    ) -> AbstractAsyncContextManager[Listening]:
        """Hear of changes on the server while a block runs, on every revision.

        ::

            async with session.listen(tools=True, uris=["weather://oslo/current"]) as listening:
                async for change in listening: ...

        *tools*, *prompts* and *resources* are the lists, *uris* single resources. The block
        begins when the server has agreed; ``listening.honoured`` says to what. Handlers of the
        client for such notifications are called as well. Nothing is replayed after a gap: list
        again what matters when a new subscription begins. Source: 2026-07-28
        basic/patterns/subscriptions, 2025-11-25 server/resources § Subscriptions.

        Raises:
            what all calls raise, where the server does not agree.
        """
        from .listening import listen  # noqa: PLC0415 - for those who listen

        chosen = {"tools": tools, "prompts": prompts, "resources": resources}
        kinds = tuple(kind for kind, wanted in chosen.items() if wanted)
        return listen(self, self._peer, kinds, tuple(uris))

    async def get_prompt(
        self,
        name: str,
        arguments: Mapping[str, str] | None = None,
        *,
        progress: Callable[[ProgressNotificationParams], object] | None = None,
        deadline: Deadline | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> GetPromptResult:
        """Fill in a prompt. A checkpoint. Source: 2025-11-25 server/prompts."""
        params: dict[str, Any] = {"name": name}
        if arguments is not None:
            params["arguments"] = dict(arguments)
        raw = await self._ask("prompts/get", params, progress, deadline, meta)
        result: GetPromptResult = self._peer.read("prompts/get", raw)
        return result

    async def complete(
        self,
        ref: PromptReference | ResourceTemplateReference,
        argument: str,
        value: str,
        context: Mapping[str, str] | None = None,
        *,
        deadline: Deadline | None = None,
    ) -> CompleteResult:
        """Ask for values of *argument* that begin with *value*. A checkpoint.

        *context* are the arguments already settled; revisions that do not know it are not
        told. Source: 2025-11-25 server/utilities/completion.
        """
        from mcp_trio import types  # noqa: PLC0415 - made where it is needed

        asked = types.CompleteRequestParams(
            ref=ref,
            argument=types.CompletionArgument(name=argument, value=value),
            context=None if context is None else types.CompletionContext(arguments=dict(context)),
        )
        params = self._peer.codec.unstructure(asked)
        raw = await self._ask("completion/complete", params, deadline=deadline)
        result: CompleteResult = self._peer.read("completion/complete", raw)
        return result

    # ------------------------------------------------------------ the session itself

    async def set_log_level(self, level: LoggingLevel, *, deadline: Deadline | None = None) -> None:
        """Ask for log messages of *level* and above. A checkpoint.

        Source: 2025-11-25 server/utilities/logging.
        """
        if self._peer.envelope is not None:  # it goes with each request from now on
            self._peer.envelope = {**self._peer.envelope, LOG_LEVEL: level}
            await trio.lowlevel.checkpoint()
            return
        await self._ask("logging/setLevel", {"level": level}, deadline=deadline)

    async def ping(self, *, deadline: Deadline | None = None) -> None:
        """Return when the server has answered. A checkpoint."""
        await self._ask("ping", {}, deadline=deadline)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[ProgressNotificationParams], object] | None = None,
        deadline: Deadline | None = None,
    ) -> dict[str, Any]:
        """Call any method, raw: *params* go out, and the result comes back, as they are."""
        return await self._ask(method, dict(params or {}), progress, deadline)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send any notification, raw; waits for room. A checkpoint.

        Raises:
            SessionLost: the session is over.
            InvalidMessage: *params* cannot be written as JSON; nothing was sent.
        """
        await self.session.route.wait_room()
        self.session.notify_nowait(method, None if params is None else dict(params))

    async def set_roots(self, roots: Sequence[Root | str]) -> None:
        """Give this session other roots, and tell the server. A checkpoint.

        Source: 2025-11-25 client/roots § Root List Changes.

        Raises:
            RuntimeError: the client declared no roots when the session was opened.
            ValueError: a root is no ``file://`` URI.
            SessionLost: the session is over.
        """
        if self._peer.client.capabilities().roots is None:
            raise RuntimeError("this client declared no roots: give Client roots=[] or a handler")
        self._peer.roots = tuple(map(as_root, roots))
        await self.notify("notifications/roots/list_changed")

    def calls(self) -> tuple[CallSnapshot, ...]:
        """Return who waits for whom at this moment, oldest first."""
        return self.session.calls()

    def statistics(self) -> SessionStatistics:
        """Return a snapshot of the session's counters."""
        return self.session.statistics()

    def close(self) -> None:
        """Ask for the end of the session. Legal from any task, in any order, twice."""
        self.session.close()

    async def aclose(self) -> None:
        """Close the session and wait until nothing of it is left. A checkpoint."""
        await self.session.aclose()

    # ------------------------------------------------------------ underneath

    async def _ask(
        self,
        method: str,
        params: dict[str, Any],
        progress: Callable[[Any], object] | None = None,
        deadline: Deadline | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Make a call; *params* belong to it."""
        peer = self._peer
        if method not in peer.permitted:
            peer.permit(method)
        if peer.envelope is not None:
            params["_meta"] = {**peer.envelope, **(meta or {})}
        elif meta is not None:
            params["_meta"] = dict(meta)
        on_progress = peer.on_progress if progress is None else peer.progress_sink(progress)
        if deadline is None:
            deadline = peer.deadline
        try:
            if peer.envelope is None and not peer.client.outgoing:
                return await self.session.call(
                    method, params, origin=self._origin, on_progress=on_progress, deadline=deadline
                )
            send = partial(self._send, method, on_progress=on_progress, deadline=deadline)
            if peer.envelope is None:
                return await send(params)
            return await in_rounds(self.session, method, params, send)
        except PeerError as exc:
            peer.expect_visits_of(exc)
            raise

    async def _send(
        self,
        method: str,
        params: dict[str, Any],
        *,
        on_progress: Callable[[dict[str, Any]], None] | None,
        deadline: Deadline | None,
    ) -> dict[str, Any]:
        """Make a call of one round."""
        if self._peer.client.outgoing:
            return await self._ask_through(method, params, on_progress, deadline)
        return await self.session.call(
            method, params, origin=self._origin, on_progress=on_progress, deadline=deadline
        )

    async def _ask_through(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: Callable[[dict[str, Any]], None] | None,
        deadline: Deadline | None,
    ) -> dict[str, Any]:
        """Make a call through the client's outgoing middleware."""

        async def send(view: ClientSession, call: OutgoingRequest) -> dict[str, Any]:
            return await view.session.call(
                call.method,
                call.params,
                origin=view._origin,
                on_progress=on_progress,
                deadline=deadline,
            )

        through = compose(self._peer.client.outgoing, send)
        result: dict[str, Any] = await through(self, OutgoingRequest(method, params))
        return result

    async def _tools(self, cursor: str | None) -> Page[Tool]:
        raw = await self._ask("tools/list", {} if cursor is None else {"cursor": cursor})
        result, dropped = self._peer.read_tools(raw)
        for tool in dropped:
            _log.warning("tool %r is left out: %s", tool.name, tool.problem)
        tools = result.tools
        faults = [self._peer.fault_of(each) for each in tools]
        if any(faults):
            for each, fault in zip(tools, faults, strict=True):
                if fault is not None:
                    _log.warning("tool %r is left out: %s", each.name, fault)
            tools = tuple(t for t, fault in zip(tools, faults, strict=True) if fault is None)
        self._peer.remember(tools)
        return Page(tools, result.next_cursor)

    def _pages(self, method: str, field: str) -> Pages[Any]:
        async def fetch(cursor: str | None) -> Page[Any]:
            raw = await self._ask(method, {} if cursor is None else {"cursor": cursor})
            result = self._peer.read(method, raw)
            return Page(getattr(result, field), result.next_cursor)

        return Pages(fetch, self.session.limits.pages)
