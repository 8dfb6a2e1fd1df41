"""`Server`: what a server offers, collected by decorators; and the sessions that serve it."""

from __future__ import annotations

import weakref
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import trio

from mcp_trio.limits import Limits
from mcp_trio.runtime.admission import Admission
from mcp_trio.runtime.exchange import Exchange
from mcp_trio.runtime.session import Session
from mcp_trio.types import Implementation, Tool
from mcp_trio.wire.revisions import ENVELOPED, LEGACY, REVISIONS

from .changes import ChangeNotices
from .dispatch import ServerEndpoint
from .invoke import name_of
from .listen import Listeners
from .tools import RawTool, TypedTool, check_name, warn_of_name

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_trio.abc import Route, Tracer, Transport
    from mcp_trio.types import Annotations, Icon, Meta, ToolAnnotations
    from mcp_trio.wire.revisions import Revision

    from .envelope import EnvelopeFace
    from .hints import CacheHint
    from .prompts import PromptEntry
    from .resources import FixedResource, TemplateResource

__all__ = ["Server"]

F = TypeVar("F", bound="Callable[..., Any]")

_ANSWERED_BY_THE_SESSION: Final = frozenset(
    {"initialize", "ping", "notifications/cancelled", "notifications/progress"}
)


class Server:
    """An MCP server: register what it offers, then hand it to a ``serve_*`` function.

    Args:
        name, version, title, description, icons, website_url: how it introduces itself.
        instructions: told to the client's model.
        lifespan: ``lifespan(server)`` is an async context manager held open while the
            server is being served; what it yields is ``ctx.lifespan``. Sessions served side
            by side share one, and the last to end closes it: where it holds a nursery or a
            cancel scope, enter ``server.running()`` around them.
        middleware: around the handling of each request, the first one outermost.
        outgoing: around each reverse call.
        handlers: raw handlers by method, as for `method`.
        limits: the bounds of every session.
        page_size: items on one page of a list, at least one.
        prefetch_roots: fetch the client's roots as soon as it is initialized.
        keep_alive: seconds; ping a silent client this often and close the session when it
            does not answer.
        revisions: the versions to speak; all that open with ``initialize`` by default. Those
            whose requests carry an envelope are served beside them, on the same endpoint.
        state_keys: what seals the state of calls that ask questions in several rounds, the
            newest key first, at least 16 bytes each; all of them open. A random one by
            default, which no other process has and no restart survives.
        cache_hints: how long the results of a method may be kept, by method; not at all by
            default.

    Raises:
        ValueError: an unknown revision, a page of nothing, or a key that is too short.
    """

    def __init__(
        self,
        name: str,
        version: str = "0.0.0",
        *,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        website_url: str | None = None,
        instructions: str | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] | None = None,
        middleware: Sequence[Callable[..., Awaitable[Any]]] = (),
        outgoing: Sequence[Callable[..., Awaitable[Any]]] = (),
        handlers: Mapping[str, Callable[[Any, dict[str, Any]], Awaitable[Any]]] | None = None,
        limits: Limits | None = None,
        page_size: int = 250,
        prefetch_roots: bool = False,
        keep_alive: float | None = None,
        revisions: Sequence[str] | None = None,
        state_keys: Sequence[bytes] = (),
        cache_hints: Mapping[str, CacheHint] | None = None,
    ) -> None:
        self.info: Final = Implementation(
            name=name,
            version=version,
            title=title,
            description=description,
            icons=None if icons is None else tuple(icons),
            website_url=website_url,
        )
        self.instructions: Final = instructions
        self.limits: Final = limits or Limits()
        if page_size < 1:
            raise ValueError(f"a page holds at least one item, not {page_size}")
        self.page_size: Final = page_size
        self.prefetch_roots: Final = prefetch_roots
        self.keep_alive: Final = keep_alive
        self.revisions: Final[tuple[Revision, ...]] = _revisions(revisions, LEGACY)
        self.envelope_revisions: Final = _revisions(revisions, ENVELOPED)
        self.cache_hints: Final = dict(cache_hints or {})
        self.middleware: Final = tuple(middleware)
        self.outgoing: Final = tuple(outgoing)
        self.admission: Final = Admission(self.limits)
        self.tools: Final[dict[str, TypedTool | RawTool]] = {}
        self.resources: Final[dict[str, FixedResource]] = {}
        self.templates: Final[dict[str, TemplateResource]] = {}
        self.prompts: Final[dict[str, PromptEntry]] = {}
        self.completers: Final[dict[tuple[str, str], Callable[..., Any]]] = {}
        self.handlers: Final = dict(handlers or {})
        for method in self.handlers:
            _check_method(method)
        self.notification_handlers: Final[dict[str, Callable[..., Any]]] = {}
        self._lifespan = lifespan
        self._running = 0
        self._stack = AsyncExitStack()
        self._lifespan_lock = trio.Lock()
        self.lifespan_value: Any = None
        self._notices: weakref.WeakKeyDictionary[Session, ChangeNotices] = (
            weakref.WeakKeyDictionary()
        )
        self.listeners: Final = Listeners(self.limits.subscribed)
        self._endpoint = ServerEndpoint(self)
        self._envelopes: EnvelopeFace | None = None
        if self.envelope_revisions:
            from .envelope import EnvelopeFace  # noqa: PLC0415 - only where it is served

            self._envelopes = EnvelopeFace(self, self._endpoint, state_keys)

    # ------------------------------------------------------------ tools

    @overload
    def tool(self, fn: F) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
    ) -> Callable[[F], F]: ...

    def tool(self, fn: Any = None, **given: Any) -> Any:
        """Offer a function as a tool: name, description and schemas come from its signature.

        The function is returned unchanged. A parameter annotated with `Context` is injected.

        Raises:
            TypeError: the signature cannot be described in JSON; names the parameter.
            ValueError: the name is empty or taken.
        """
        bare = fn is not None

        def register(fn: F) -> F:
            definition = _given(given, fn)
            check_name(definition["name"], self.tools, "tool")
            warn_of_name(definition["name"], stacklevel=3 if bare else 2)
            self.tools[definition["name"]] = TypedTool(fn, definition)
            self._changed("tools")
            return fn

        return register if fn is None else register(fn)

    def add_tool(
        self, definition: Tool, handler: Callable[[Any, dict[str, Any]], Awaitable[Any]]
    ) -> None:
        """Offer a tool with JSON Schemas of your own; both are enforced.

        *handler* is ``async def h(ctx, arguments) -> CallToolResult | content | data``; with an
        ``output_schema`` what it returns is data, or a ``CallToolResult`` that holds them. The
        schemas are 2020-12, or draft-07 where they say so (2025-11-25 basic § JSON Schema Usage).

        Raises:
            InvalidMessage: a schema is no valid JSON Schema, refers to the network, or is over
                ``limits.schema_nodes``; or the input's is not that of an object.
            ValueError: the name is empty or taken.
        """
        check_name(definition.name, self.tools, "tool")
        warn_of_name(definition.name, stacklevel=2)
        self.tools[definition.name] = RawTool(definition, handler, self.limits)
        self._changed("tools")

    def remove_tool(self, name: str) -> None:
        """Withdraw a tool; calls under way go on. Raises KeyError for an unknown name."""
        del self.tools[name]
        self._changed("tools")

    # ------------------------------------------------------------ resources

    def resource(
        self,
        uri: str,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
    ) -> Callable[[F], F]:
        """Offer what a function returns as the resource at *uri*.

        With variables in it (RFC 6570, ``weather://{city}/current``) *uri* is a template and
        the function takes them by name; raise ``resource_not_found`` for those that name
        nothing. It returns text, bytes, contents or JSON data.

        Raises:
            TypeError: the function's parameters are not the template's variables.
            ValueError: the URI is taken, or is no URI and no valid template.
        """
        from .resources import FixedResource, TemplateResource, check_uri  # noqa: PLC0415 - for some servers

        check_uri(uri)

        def register(fn: F) -> F:
            shared = _given(
                {
                    "name": name,
                    "title": title,
                    "description": description,
                    "mime_type": mime_type,
                    "annotations": annotations,
                    "icons": icons,
                    "meta": meta,
                },
                fn,
            )
            if "{" in uri:
                check_name(uri, self.templates, "resource template")
                self.templates[uri] = TemplateResource(fn, {"uri_template": uri, **shared})
            else:
                check_name(uri, self.resources, "resource")
                self.resources[uri] = FixedResource(fn, {"uri": uri, "size": size, **shared})
            self._changed("resources")
            return fn

        return register

    def remove_resource(self, uri: str) -> None:
        """Withdraw a resource or a template. Raises KeyError where there is none."""
        del (self.templates if uri in self.templates else self.resources)[uri]
        self._changed("resources")

    def resource_updated(self, uri: str) -> None:
        """Tell every client that watches *uri*, soon and once.

        Source: 2025-11-25 server/resources § Subscriptions.
        """
        method = "notifications/resources/updated"
        self.listeners.put(method, uri)
        for session, notices in list(self._notices.items()):
            if session.state is not None and uri in session.state.subscriptions:
                notices.put(session, method, uri)

    # ------------------------------------------------------------ prompts, completion

    @overload
    def prompt(self, fn: F) -> F: ...
    @overload
    def prompt(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Meta | None = None,
    ) -> Callable[[F], F]: ...

    def prompt(self, fn: Any = None, **given: Any) -> Any:
        """Offer a function as a prompt; it returns text, messages or a ``GetPromptResult``.

        Its arguments arrive as text; a parameter that is a number or a boolean gets what the
        text spells. A parameter annotated with `Context` is injected.

        Raises:
            TypeError: a parameter cannot be described in JSON; names it.
            ValueError: the name is empty or taken.
        """
        from .prompts import PromptEntry  # noqa: PLC0415 - for some servers

        def register(fn: F) -> F:
            definition = _given(given, fn)
            check_name(definition["name"], self.prompts, "prompt")
            self.prompts[definition["name"]] = PromptEntry(fn, definition)
            self._changed("prompts")
            return fn

        return register if fn is None else register(fn)

    def remove_prompt(self, name: str) -> None:
        """Withdraw a prompt. Raises KeyError for an unknown name."""
        del self.prompts[name]
        self._changed("prompts")

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Complete *argument* of the prompt or resource template *ref*.

        The function takes ``(ctx, value, settled)``: what has been typed, and the other
        arguments already settled (since 2025-06-18). It returns candidates, best first; at
        most 100 are sent. Source: 2025-11-25 server/utilities/completion.

        Raises:
            ValueError: the argument is completed already.
        """

        def register(fn: F) -> F:
            if (ref, argument) in self.completers:
                raise ValueError(f"{argument!r} of {ref!r} is completed already")
            self.completers[ref, argument] = fn
            self._endpoint.forget_lists()
            return fn

        return register

    # ------------------------------------------------------------ anything else

    def method(self, name: str) -> Callable[[F], F]:
        """Serve the method *name* by ``async def h(ctx, params)``.

        It returns the raw result, or a typed one, or None for an empty one. It takes precedence
        over what is registered by the other decorators. Sessions see the methods that there
        are when they begin.

        Raises:
            ValueError: the session itself answers that method.
        """
        _check_method(name)

        def register(fn: F) -> F:
            self.handlers[name] = fn
            self._endpoint.forget_lists()
            return fn

        return register

    def notification(self, name: str) -> Callable[[F], F]:
        """Take the notification *name* by ``async def h(session, params)``.

        Raises:
            ValueError: the session itself takes that notification.
        """
        _check_method(name)

        def register(fn: F) -> F:
            self.notification_handlers[name] = fn
            return fn

        return register

    # ------------------------------------------------------------ serving

    def open_session(
        self, transport: Transport, *, tracer: Tracer | None = None, label: str = ""
    ) -> Session:
        """Return a session that serves this server over *transport*; the caller runs it."""
        session = Session(
            "server",
            self._endpoint,
            transport,
            limits=self.limits,
            admission=self.admission,
            tracer=tracer,
            label=label,
            envelopes=self._envelopes,
        )
        self._notices[session] = ChangeNotices()
        return session

    def open_exchange(
        self,
        route: Route,
        revision: Revision,
        nursery: trio.Nursery,
        *,
        tracer: Tracer | None = None,
        label: str = "",
    ) -> Exchange:
        """Return an exchange for one request that stands for itself, served in *nursery*.

        Nothing is known of its client, which therefore can be asked nothing.
        """
        exchange = Exchange(
            "server",
            self._endpoint,
            route,
            limits=self.limits,
            admission=self.admission,
            tracer=tracer,
            label=label,
        )
        self._endpoint.admit(exchange, revision)
        exchange.run_in(nursery)
        return exchange

    def open_envelope(
        self,
        route: Route,
        nursery: trio.Nursery,
        *,
        principal: Any,
        head: Any,
        tracer: Tracer | None = None,
    ) -> Exchange:
        """Return an exchange for one request that carries an envelope, from *principal*."""
        assert self._envelopes is not None  # noqa: S101 - the policy lets none in otherwise
        exchange = Exchange(
            "server",
            self._envelopes,
            route,
            limits=self.limits,
            admission=self.admission,
            tracer=tracer,
        )
        exchange.principal, exchange.head, exchange.enveloped = principal, head, True
        exchange.run_in(nursery)
        return exchange

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Hold the lifespan open; nested and concurrent uses share one."""
        async with self._lifespan_lock:
            if self._running == 0 and self._lifespan is not None:
                self.lifespan_value = await self._stack.enter_async_context(self._lifespan(self))
            self._running += 1
        try:
            yield
        finally:
            # Nobody who holds the lock now waits for long: this user still keeps it open.
            with trio.CancelScope(shield=True):
                await self._lifespan_lock.acquire()
            try:
                self._running -= 1
                if self._running == 0:
                    await self._stack.aclose()
            finally:
                self._lifespan_lock.release()

    def end_listening(self) -> None:
        """Bring every open subscription to its regular end: serving stops."""
        self.listeners.end()

    def sessions(self) -> tuple[Session, ...]:
        """Return the sessions that are open now."""
        return tuple(s for s in list(self._notices) if s.error is None)

    def _changed(self, kind: str) -> None:
        """Tell the clients to whom such a list was declared."""
        method = f"notifications/{kind}/list_changed"
        self._endpoint.forget_lists()
        self.listeners.put(method)
        for session, notices in list(self._notices.items()):
            if session.state is not None and f"{kind}/list" in session.state.methods:
                notices.put(session, method)


def _given(options: Mapping[str, Any], fn: Callable[..., Any]) -> dict[str, Any]:
    """Return the options that were given, the name of *fn* if none was; icons as a tuple."""
    given = {key: value for key, value in options.items() if value is not None}
    if "icons" in given:
        given["icons"] = tuple(given["icons"])
    given.setdefault("name", name_of(fn))
    return given


def _check_method(name: str) -> None:
    if name in _ANSWERED_BY_THE_SESSION:
        raise ValueError(f"the session itself takes {name}")


def _revisions(versions: Sequence[str] | None, known: tuple[Revision, ...]) -> tuple[Revision, ...]:
    """Return those of *known* that are to be spoken, oldest first."""
    if versions is None:
        return known if known is LEGACY else ()
    unknown = set(versions) - set(REVISIONS)
    if unknown or not versions:
        raise ValueError(f"a server speaks some of {', '.join(REVISIONS)}, not {sorted(unknown)}")
    return tuple(revision for revision in known if revision.version in versions)
