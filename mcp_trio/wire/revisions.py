"""The five revisions as diffs of data.

Code asks ``Feature.BATCH in revision.features`` or ``revision.methods[...]``; nothing
outside this module, ``wire/lifecycle.py`` and ``types/`` names a date. Each ``evolve``
reads like the specification's own changelog. Versions are opaque strings: they are
compared by membership, never by order (the digest's revisions § 1).
"""

from __future__ import annotations

from enum import Enum, auto
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, final

from attrs import field, frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "ENVELOPED",
    "LATEST_LEGACY",
    "LEGACY",
    "REVISIONS",
    "Era",
    "Feature",
    "Http",
    "Method",
    "Revision",
    "Sender",
    "negotiate",
]


@final
class Era(Enum):
    """Legacy revisions open with a handshake; modern ones carry an envelope on each request."""

    LEGACY = auto()
    MODERN = auto()


@final
class Http(Enum):
    """Which HTTP transport a revision defines."""

    SSE_PAIR = auto()
    STREAMABLE = auto()
    STREAMABLE_STATELESS = auto()


@final
class Feature(Enum):
    """What revisions differ in, beyond methods and fields."""

    REVERSE_REQUESTS = auto()  # the server sends requests
    BATCH = auto()  # arrays of messages
    SESSION_ID = auto()  # Mcp-Session-Id
    RESUME = auto()  # Last-Event-ID
    VERSION_HEADER = auto()  # MCP-Protocol-Version
    PRIMING_EVENT = auto()  # an SSE stream opens with an id and empty data
    URL_ELICITATION = auto()  # mode "url"; legacy: with -32042 and a notification
    STRUCTURED_CONTENT = auto()  # outputSchema and structuredContent
    BARE_STRUCTURED_CONTENT = auto()  # structuredContent may be any JSON value
    ARGUMENT_ERRORS_ARE_RESULTS = auto()  # a bad argument is an isError result, not -32602
    RICH_FORMS = auto()  # forms have defaults, titled choices and choices of several
    SAMPLING_TOOLS = auto()  # tool_use and tool_result in sampling
    PROGRESS_MESSAGE = auto()  # progress carries a message
    ERROR_WITHOUT_ID = auto()  # an error may omit the id it could not read
    NOT_FOUND_IS_INVALID_PARAMS = auto()  # a missing resource is -32602, not -32002
    ENVELOPE = auto()  # _meta names version and capabilities on each request
    MRTR = auto()  # questions travel in results
    RESULT_TYPE = auto()
    CACHE_HINTS = auto()
    ROUTING_HEADERS = auto()


@final
class Sender(Enum):
    """Who sends a method."""

    CLIENT = auto()
    SERVER = auto()
    BOTH = auto()


@final
@frozen
class Method:
    """One method or notification of a revision.

    ``needs`` is the capability, as a dotted path, that the *receiver* of a request or the
    *sender* of a notification must have declared; None where it needs none.
    """

    name: str
    sender: Sender
    needs: str | None = None


@final
@frozen(kw_only=True, eq=False)  # each is one of a kind, and serves as a key
class Revision:
    """One revision of the protocol."""

    version: str
    era: Era
    methods: Mapping[str, Method] = field(repr=False)
    features: frozenset[Feature] = field(repr=False)
    http: Http

    def evolve(
        self,
        version: str,
        *,
        era: Era | None = None,
        add: Iterable[Method] = (),
        drop: Iterable[str] = (),
        add_features: Iterable[Feature] = (),
        drop_features: Iterable[Feature] = (),
        http: Http | None = None,
    ) -> Revision:
        """Return the next revision as a diff of this one."""
        dropped = frozenset(drop)
        methods = {name: m for name, m in self.methods.items() if name not in dropped}
        methods.update((m.name, m) for m in add)
        return Revision(
            version=version,
            era=era or self.era,
            methods=MappingProxyType(methods),
            features=(self.features - frozenset(drop_features)) | frozenset(add_features),
            http=http or self.http,
        )

    def __str__(self) -> str:
        return self.version


_CLIENT, _SERVER, _BOTH = Sender.CLIENT, Sender.SERVER, Sender.BOTH

_BASE: Final = (
    Method("initialize", _CLIENT),
    Method("ping", _BOTH),
    Method("tools/list", _CLIENT, "tools"),
    Method("tools/call", _CLIENT, "tools"),
    Method("resources/list", _CLIENT, "resources"),
    Method("resources/templates/list", _CLIENT, "resources"),
    Method("resources/read", _CLIENT, "resources"),
    Method("resources/subscribe", _CLIENT, "resources.subscribe"),
    Method("resources/unsubscribe", _CLIENT, "resources.subscribe"),
    Method("prompts/list", _CLIENT, "prompts"),
    Method("prompts/get", _CLIENT, "prompts"),
    Method("completion/complete", _CLIENT),
    Method("logging/setLevel", _CLIENT, "logging"),
    Method("sampling/createMessage", _SERVER, "sampling"),
    Method("roots/list", _SERVER, "roots"),
    Method("notifications/initialized", _CLIENT),
    Method("notifications/cancelled", _BOTH),
    Method("notifications/progress", _BOTH),
    Method("notifications/message", _SERVER, "logging"),
    Method("notifications/tools/list_changed", _SERVER, "tools.listChanged"),
    Method("notifications/resources/list_changed", _SERVER, "resources.listChanged"),
    Method("notifications/resources/updated", _SERVER, "resources.subscribe"),
    Method("notifications/prompts/list_changed", _SERVER, "prompts.listChanged"),
    Method("notifications/roots/list_changed", _CLIENT, "roots.listChanged"),
)

_TASKS: Final = (
    Method("tasks/get", _BOTH, "tasks"),
    Method("tasks/result", _BOTH, "tasks"),
    Method("tasks/list", _BOTH, "tasks.list"),
    Method("tasks/cancel", _BOTH, "tasks.cancel"),
    Method("notifications/tasks/status", _BOTH, "tasks"),
)

_R2024_11_05: Final = Revision(
    version="2024-11-05",
    era=Era.LEGACY,
    methods=MappingProxyType({m.name: m for m in _BASE}),
    features=frozenset({Feature.REVERSE_REQUESTS}),
    http=Http.SSE_PAIR,
)
_R2025_03_26: Final = _R2024_11_05.evolve(
    "2025-03-26",
    add=[Method("completion/complete", _CLIENT, "completions")],
    add_features=[Feature.BATCH, Feature.SESSION_ID, Feature.RESUME, Feature.PROGRESS_MESSAGE],
    http=Http.STREAMABLE,
)
_R2025_06_18: Final = _R2025_03_26.evolve(
    "2025-06-18",
    add=[Method("elicitation/create", _SERVER, "elicitation")],
    add_features=[Feature.VERSION_HEADER, Feature.STRUCTURED_CONTENT],
    drop_features=[Feature.BATCH],
)
_R2025_11_25: Final = _R2025_06_18.evolve(
    "2025-11-25",
    add=[*_TASKS, Method("notifications/elicitation/complete", _SERVER)],
    add_features=[
        Feature.PRIMING_EVENT,
        Feature.URL_ELICITATION,
        Feature.RICH_FORMS,
        Feature.SAMPLING_TOOLS,
        Feature.ARGUMENT_ERRORS_ARE_RESULTS,
        Feature.ERROR_WITHOUT_ID,
    ],
)
_R2026_07_28: Final = _R2025_11_25.evolve(
    "2026-07-28",
    era=Era.MODERN,
    add=[
        Method("server/discover", _CLIENT),
        Method("subscriptions/listen", _CLIENT),
        Method("notifications/progress", _SERVER),
        Method("notifications/subscriptions/acknowledged", _SERVER),
    ],
    drop=[
        "initialize",
        "notifications/initialized",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        # Questions of the server travel inside results, never as messages.
        "sampling/createMessage",
        "roots/list",
        "elicitation/create",
        "notifications/roots/list_changed",
        "notifications/elicitation/complete",
        *(m.name for m in _TASKS),
    ],
    add_features=[
        Feature.ENVELOPE,
        Feature.MRTR,
        Feature.RESULT_TYPE,
        Feature.CACHE_HINTS,
        Feature.ROUTING_HEADERS,
        Feature.BARE_STRUCTURED_CONTENT,
        Feature.NOT_FOUND_IS_INVALID_PARAMS,
    ],
    drop_features=[
        Feature.SESSION_ID,
        Feature.RESUME,
        Feature.PRIMING_EVENT,
        Feature.REVERSE_REQUESTS,
    ],
    http=Http.STREAMABLE_STATELESS,
)

#: Every revision by its version string, oldest first.
REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {r.version: r for r in (_R2024_11_05, _R2025_03_26, _R2025_06_18, _R2025_11_25, _R2026_07_28)}
)

#: The revisions that open with a handshake, oldest first.
LEGACY: Final[tuple[Revision, ...]] = tuple(r for r in REVISIONS.values() if r.era is Era.LEGACY)

#: The revisions whose requests carry an envelope and stand for themselves, oldest first.
ENVELOPED: Final[tuple[Revision, ...]] = tuple(
    r for r in REVISIONS.values() if Feature.ENVELOPE in r.features
)

#: What a handshake falls back to.
LATEST_LEGACY: Final[Revision] = LEGACY[-1]


def negotiate(offered: str, supported: tuple[Revision, ...] = LEGACY) -> Revision:
    """Return the revision a server answers to an ``initialize`` that offers *offered*.

    The offered one if it is supported, else the newest supported one; an ``initialize`` is
    never answered with a revision that has none. Source: 2025-11-25 basic/lifecycle §
    Version Negotiation.
    """
    for revision in supported:
        if revision.version == offered:
            return revision
    return supported[-1]
