"""The opening of a session, and what each side declares (2025-11-25 basic/lifecycle)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import field, frozen

from ._meta import R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28, live, wire
from .base import META

if TYPE_CHECKING:
    from .base import Implementation, JSONObject, Meta, ObjectMap, RequestMeta

__all__ = [
    "ClientCapabilities",
    "ElicitationCapability",
    "InitializeRequestParams",
    "InitializeResult",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "TaskRequestsCapability",
    "TasksCapability",
    "ToolsCapability",
]


@final
@frozen(kw_only=True)
class RootsCapability:
    """The client can name its roots."""

    list_changed: bool | None = field(default=None, metadata=wire(until=R2026_07_28))


@final
@frozen(kw_only=True)
class SamplingCapability:
    """The client can sample a language model."""

    context: JSONObject | None = field(default=None, metadata=wire(since=R2025_11_25))
    tools: JSONObject | None = field(default=None, metadata=wire(since=R2025_11_25))


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class ElicitationCapability:
    """The client can ask its user; without members: by form only."""

    form: JSONObject | None = field(default=None, metadata=wire(since=R2025_11_25))
    url: JSONObject | None = field(default=None, metadata=wire(since=R2025_11_25))


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class TaskRequestsCapability:
    """Which requests may become tasks: of a server ``tools.call``, of a client the others."""

    tools: JSONObject | None = None
    sampling: JSONObject | None = None
    elicitation: JSONObject | None = None


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class TasksCapability:
    """The peer can run requests as tasks (2025-11-25 basic/utilities/tasks)."""

    list_tasks: JSONObject | None = field(default=None, metadata=wire("list"))
    cancel_tasks: JSONObject | None = field(default=None, metadata=wire("cancel"))
    requests: TaskRequestsCapability | None = None


@final
@frozen(kw_only=True)
class ClientCapabilities:
    """What the client can do (schema § ClientCapabilities)."""

    experimental: ObjectMap | None = None
    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: ElicitationCapability | None = field(
        default=None, metadata=wire(since=R2025_06_18)
    )
    tasks: TasksCapability | None = field(
        default=None, metadata=wire(since=R2025_11_25, until=R2026_07_28)
    )
    extensions: ObjectMap | None = field(default=None, metadata=wire(since=R2026_07_28))


@final
@frozen(kw_only=True)
class PromptsCapability:
    """The server offers prompts."""

    list_changed: bool | None = None


@final
@frozen(kw_only=True)
class ResourcesCapability:
    """The server offers resources."""

    subscribe: bool | None = None
    list_changed: bool | None = None


@final
@frozen(kw_only=True)
class ToolsCapability:
    """The server offers tools."""

    list_changed: bool | None = None


@final
@frozen(kw_only=True)
class ServerCapabilities:
    """What the server can do (schema § ServerCapabilities)."""

    experimental: ObjectMap | None = None
    logging: JSONObject | None = None
    completions: JSONObject | None = field(default=None, metadata=wire(since=R2025_03_26))
    prompts: PromptsCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ToolsCapability | None = None
    tasks: TasksCapability | None = field(
        default=None, metadata=wire(since=R2025_11_25, until=R2026_07_28)
    )
    extensions: ObjectMap | None = field(default=None, metadata=wire(since=R2026_07_28))


@final
@live(until=R2026_07_28)
@frozen(kw_only=True)
class InitializeRequestParams:
    """The client's opening (2025-11-25 schema § InitializeRequestParams)."""

    protocol_version: str
    capabilities: ClientCapabilities
    client_info: Implementation
    meta: RequestMeta | None = field(default=None, metadata=META)


@final
@live(until=R2026_07_28)
@frozen(kw_only=True)
class InitializeResult:
    """The server's answer to the opening (2025-11-25 schema § InitializeResult)."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: Implementation
    instructions: str | None = None
    meta: Meta | None = field(default=None, metadata=META)
