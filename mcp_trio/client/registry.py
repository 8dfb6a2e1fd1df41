"""`Client`: who we are to servers, what they may ask of us, what we want to hear from them."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from mcp_trio.limits import Limits
from mcp_trio.wire.revisions import ENVELOPED, LEGACY, REVISIONS, Feature, Revision

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from mcp_trio.abc import Middleware, Tracer, Transport
    from mcp_trio.limits import Deadline
    from mcp_trio.runtime.session import Session
    from mcp_trio.types import ClientCapabilities, Icon, Implementation, Root

__all__ = ["Client", "as_root"]

F = TypeVar("F", bound="Callable[..., Any]")

SAMPLE: Final = "sampling/createMessage"
ELICIT: Final = "elicitation/create"
LIST_ROOTS: Final = "roots/list"

LOG: Final = "notifications/message"
PROGRESS: Final = "notifications/progress"
TOOLS_CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
ELICITATION_COMPLETE: Final = "notifications/elicitation/complete"


class Client:
    """One client: its name, its handlers, its defaults. One object serves any number of sessions.

    Handlers are given with the decorators below, which return the function unchanged, before
    a session is opened. What the client declares to servers follows from them.

    Args:
        name, version, title, description, icons, website_url: who this client is.
        roots: places in the file system that servers may use, as ``file://`` URIs.
        deadline: for each call that names none of its own, and for the opening.
        middleware: ``async def mw(ctx, request, call_next)`` around each request of a server.
        outgoing: ``async def mw(session, call, call_next)`` around each call to a server.
        limits: the bounds of its sessions.
        keep_alive: seconds of silence after which the server is pinged, and then has to answer.
        revisions: the versions to speak; all that open with a handshake by default. With one
            whose requests carry an envelope among them, servers are asked first what they
            speak, and that one is preferred; without any other it is that one or nothing.
        tracer: told of everything that crosses the wire.
        sampling_tools: the sampling handler can deal with tools (2025-11-25 client/sampling).
        sampling_context: the sampling handler can include context of servers.
        model_name: what model to name for a sampling handler that returns bare text.

    Raises:
        ValueError: a root that is no ``file://`` URI, a revision that is not spoken here.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str,
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        website_url: str | None = None,
        roots: Sequence[Root | str] | None = None,
        deadline: Deadline | None = None,
        middleware: Sequence[Middleware] = (),
        outgoing: Sequence[Middleware] = (),
        limits: Limits | None = None,
        keep_alive: float | None = None,
        revisions: Sequence[str] | None = None,
        tracer: Tracer | None = None,
        sampling_tools: bool = False,
        sampling_context: bool = False,
        model_name: str = "unknown",
    ) -> None:
        self.name: Final = name
        self.version: Final = version
        self._identity: Final = {
            "title": title,
            "description": description,
            "icons": None if icons is None else tuple(icons),
            "website_url": website_url,
        }
        self.static_roots: Final = None if roots is None else tuple(map(as_root, roots))
        self.deadline: Final = deadline
        self.middleware: Final = tuple(middleware)
        self.outgoing: Final = tuple(outgoing)
        self.limits: Final = Limits() if limits is None else limits
        self.keep_alive: Final = keep_alive
        self.revisions: Final = _spoken(revisions, LEGACY)
        self.envelope_revisions: Final = _spoken(revisions, ENVELOPED)
        self.tracer: Final = tracer
        self.sampling_tools: Final = sampling_tools
        self.sampling_context: Final = sampling_context
        self.model_name: Final = model_name
        self.elicitation_modes: frozenset[Literal["form", "url"]] = frozenset()
        #: By method: typed handlers of requests, raw handlers of requests.
        self.request_handlers: Final[dict[str, Callable[..., Awaitable[Any]]]] = {}
        self.raw_handlers: Final[dict[str, Callable[..., Awaitable[Any]]]] = {}
        #: By method: the handler of a notification, and whether it wants typed params.
        self.notification_handlers: Final[dict[str, tuple[Callable[..., Any], bool]]] = {}

    # ------------------------------------------------------------ what servers may ask

    def sampling(self, handler: F) -> F:
        """Serve ``sampling/createMessage``: ``async def (ctx, params)``.

        *params* are ``CreateMessageRequestParams``. It returns a ``CreateMessageResult``, or
        bare text, which becomes the assistant's message of ``model_name``. Raise
        ``Refusal(ErrorCode.USER_REJECTED, ...)`` where the user says no. Source: 2025-11-25
        client/sampling.
        """
        return _register(self.request_handlers, SAMPLE, handler)

    @overload
    def elicitation(self, handler: F) -> F: ...
    @overload
    def elicitation(self, *, form: bool = ..., url: bool | None = ...) -> Callable[[F], F]: ...

    def elicitation(
        self, handler: Any = None, *, form: bool = True, url: bool | None = None
    ) -> Any:
        """Serve ``elicitation/create``: ``async def (ctx, question: Elicitation)``.

        It returns ``Accepted(content)``, ``Declined()``, ``Dismissed()`` or, for accepted, the
        bare mapping. Content is completed with the form's defaults and checked against the
        form before it is sent. Used bare it declares forms only; ``(url=True)`` declares
        pages as well, ``(form=False)`` pages only. Source: 2025-11-25 client/elicitation.
        """
        url = not form if url is None else url
        if not form and not url:
            raise ValueError("an elicitation handler supports at least one mode")

        def register(function: F) -> F:
            _register(self.request_handlers, ELICIT, function)
            modes: list[Literal["form", "url"]] = ["form"] if form else []
            self.elicitation_modes = frozenset([*modes, "url"] if url else modes)
            return function

        return register if handler is None else register(handler)

    def roots(self, handler: F) -> F:
        """Serve ``roots/list``: ``async def (ctx)`` returns the roots, or their ``file://`` URIs.

        Source: 2025-11-25 client/roots.
        """
        if self.static_roots is not None:
            raise ValueError("the client has static roots: give either roots= or a handler")
        return _register(self.request_handlers, LIST_ROOTS, handler)

    def method(self, name: str) -> Callable[[F], F]:
        """Serve a request of any other name: ``async def (ctx, params: dict) -> dict``, raw."""
        if name in (SAMPLE, ELICIT, LIST_ROOTS):
            raise ValueError(f"{name} has a decorator of its own")

        def register(handler: F) -> F:
            return _register(self.raw_handlers, name, handler)

        return register

    # ------------------------------------------------------------ what servers tell

    def log(self, handler: F) -> F:
        """Hear log messages: ``(session, params: LoggingMessageNotificationParams)``.

        As all handlers of notifications it may be async or not, may itself call the server
        through *session*, and runs after those of earlier notifications have ended.
        """
        return self._hear(LOG, handler)

    def progress(self, handler: F) -> F:
        """Hear the progress of every call: ``(session, params: ProgressNotificationParams)``."""
        return self._hear(PROGRESS, handler)

    def tools_changed(self, handler: F) -> F:
        """Hear that the list of tools has changed: ``(session, params)``. Several become one."""
        return self._hear(TOOLS_CHANGED, handler)

    def prompts_changed(self, handler: F) -> F:
        """Hear that the list of prompts has changed: ``(session, params)``. Several become one."""
        return self._hear(PROMPTS_CHANGED, handler)

    def resources_changed(self, handler: F) -> F:
        """Hear that the list of resources has changed: ``(session, params)``."""
        return self._hear(RESOURCES_CHANGED, handler)

    def resource_updated(self, handler: F) -> F:
        """Hear of a change of a resource: ``(session, params: ResourceUpdatedNotificationParams)``.

        Several for one URI become one. What is heard of is chosen with ``session.subscribe``.
        """
        return self._hear(RESOURCE_UPDATED, handler)

    def elicitation_complete(self, handler: F) -> F:
        """Hear that a visit to a page is over: ``(session, params)``.

        *params* are ``ElicitationCompleteNotificationParams``. Only of visits that the server
        has asked for (2025-11-25 client/elicitation § Completion Notifications).
        """
        return self._hear(ELICITATION_COMPLETE, handler)

    def notification(self, name: str) -> Callable[[F], F]:
        """Hear a notification of any name: ``(session, params: dict)``, raw."""

        def register(handler: F) -> F:
            return self._hear(name, handler, typed=False)

        return register

    def _hear(self, method: str, handler: F, *, typed: bool = True) -> F:
        if method in self.notification_handlers:
            raise ValueError(f"{method} has a handler already")
        self.notification_handlers[method] = handler, typed
        return handler

    # ------------------------------------------------------------ who we are

    @property
    def offered(self) -> Revision:
        """The revision to offer: the newest one spoken that has a handshake, if there is one."""
        return (self.revisions or self.envelope_revisions)[-1]

    @property
    def patience(self) -> float:
        """How long the opening of a session may wait for an answer (seconds)."""
        return math.inf if self.deadline is None else min(self.deadline.idle, self.deadline.cap)

    def implementation(self) -> Implementation:
        """Return the client's name card."""
        from mcp_trio.types import Implementation  # noqa: PLC0415 - made where it is needed

        return Implementation(name=self.name, version=self.version, **self._identity)  # type: ignore[arg-type]  # each value has its field's type

    def capabilities(self) -> ClientCapabilities:
        """Return what the client declares: what it has handlers for."""
        from mcp_trio import types  # noqa: PLC0415 - made where it is needed

        empty: Mapping[str, Any] = {}
        roots = sampling = elicitation = None
        if self.static_roots is not None or LIST_ROOTS in self.request_handlers:
            roots = types.RootsCapability(list_changed=True)
        if SAMPLE in self.request_handlers:
            sampling = types.SamplingCapability(
                tools=empty if self.sampling_tools else None,
                context=empty if self.sampling_context else None,
            )
        # Older revisions know forms only: there {} would promise what is not meant.
        if "form" in self.elicitation_modes or (
            self.elicitation_modes and Feature.URL_ELICITATION in self.offered.features
        ):
            elicitation = types.ElicitationCapability(
                form=empty if "form" in self.elicitation_modes else None,
                url=empty if "url" in self.elicitation_modes else None,
            )
        return types.ClientCapabilities(roots=roots, sampling=sampling, elicitation=elicitation)

    def open_session(
        self, transport: Transport, *, tracer: Tracer | None = None, label: str = ""
    ) -> Session:
        """Return the client's side of a session over *transport*, for its owner to run."""
        from mcp_trio.runtime.session import Session  # noqa: PLC0415 - trio is not needed before

        from .endpoint import ClientEndpoint  # noqa: PLC0415 - as above
        from .peer import ServerPeer  # noqa: PLC0415 - as above

        endpoint = ClientEndpoint(self)
        session = Session(
            "client",
            endpoint,
            transport,
            limits=self.limits,
            tracer=self.tracer if tracer is None else tracer,
            label=label or self.name,
        )
        session.revision = self.offered
        peer = session.state = ServerPeer(self, session)
        if PROGRESS in self.notification_handlers:
            peer.on_progress = partial(endpoint.hear_progress, peer)
        return session


def as_root(root: Root | str) -> Root:
    """Return *root* as a `Root`.

    Raises:
        ValueError: its URI is no ``file://`` URI (2025-11-25 client/roots § Root).
    """
    from mcp_trio.types import Root  # noqa: PLC0415 - made where it is needed

    found = Root(uri=root) if isinstance(root, str) else root
    if not found.uri.startswith("file://"):
        raise ValueError(f"a root is a file:// URI, not {root!r}")
    return found


def _spoken(versions: Sequence[str] | None, known: tuple[Revision, ...]) -> tuple[Revision, ...]:
    """Return those of *known* that are to be spoken, oldest first."""
    if versions is None:
        return known if known is LEGACY else ()
    strange = set(versions) - set(REVISIONS)
    if strange or not versions:
        all_of_them = ", ".join(REVISIONS)
        given = ", ".join(sorted(strange)) or "none"
        raise ValueError(f"revisions are some of {all_of_them}; not {given}")
    return tuple(revision for revision in known if revision.version in versions)


def _register(table: dict[str, Any], method: str, handler: F) -> F:
    if method in table:
        raise ValueError(f"{method} has a handler already")
    table[method] = handler
    return handler
