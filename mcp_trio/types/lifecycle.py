"""The life of a connection: opening, capabilities, progress, logging, cancellation, listening.

Source: 2025-11-25 basic/lifecycle; 2026-07-28 server/discover, basic/patterns/subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from attrs import field, frozen

from ._meta import (
    R2024_11_05,
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    live,
    wire,
)
from .base import (
    CACHE_HINT,
    META,
    META_CLIENT_CAPABILITIES,
    META_CLIENT_INFO,
    META_LOG_LEVEL,
    META_PROTOCOL_VERSION,
    META_REQUEST,
    META_SERVER_INFO,
    META_SUBSCRIPTION_ID,
    RESULT_TYPE,
)

if TYPE_CHECKING:
    from .base import (
        CacheScope,
        Implementation,
        JSONObject,
        JSONValue,
        LoggingLevel,
        Meta,
        ObjectMap,
        ProgressToken,
        RequestId,
        RequestMeta,
        TtlMs,
    )

__all__ = [
    "CancelledNotificationParams",
    "ClientCapabilities",
    "DiscoverResult",
    "ElicitationCapability",
    "InitializeRequestParams",
    "InitializeResult",
    "LoggingMessageNotificationParams",
    "MissingRequiredClientCapabilityErrorData",
    "NotificationMetaObject",
    "ProgressNotificationParams",
    "PromptsCapability",
    "RequestMetaObject",
    "ResourcesCapability",
    "ResultMetaObject",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "SetLevelRequestParams",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
    "SubscriptionsListenResultMetaObject",
    "TaskRequestsCapability",
    "TasksCapability",
    "ToolsCapability",
    "UnsupportedProtocolVersionErrorData",
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


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class DiscoverResult:
    """What a server is, for a client that has just found it (2026-07-28 server/discover)."""

    supported_versions: tuple[str, ...]
    capabilities: ServerCapabilities
    instructions: str | None = None
    ttl_ms: TtlMs = field(default=0, metadata=CACHE_HINT)
    cache_scope: CacheScope = field(default="private", metadata=CACHE_HINT)
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class RequestMetaObject:
    """The keys that a request's ``_meta`` may have, read out (2026-07-28 basic § _meta)."""

    protocol_version: str = field(metadata=wire(META_PROTOCOL_VERSION))
    client_capabilities: ClientCapabilities = field(metadata=wire(META_CLIENT_CAPABILITIES))
    client_info: Implementation | None = field(default=None, metadata=wire(META_CLIENT_INFO))
    log_level: LoggingLevel | None = field(default=None, metadata=wire(META_LOG_LEVEL))
    progress_token: ProgressToken | None = None


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class ResultMetaObject:
    """The keys that a result's ``_meta`` may have, read out (2026-07-28 basic § _meta)."""

    server_info: Implementation | None = field(default=None, metadata=wire(META_SERVER_INFO))


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class NotificationMetaObject:
    """The keys that a notification's ``_meta`` may have, read out (2026-07-28 basic § _meta)."""

    subscription_id: RequestId | None = field(default=None, metadata=wire(META_SUBSCRIPTION_ID))


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class SubscriptionsListenResultMetaObject:
    """The keys of the ``_meta`` that ends a listen stream, read out."""

    subscription_id: RequestId = field(metadata=wire(META_SUBSCRIPTION_ID))
    server_info: Implementation | None = field(default=None, metadata=wire(META_SERVER_INFO))


@final
@frozen(kw_only=True)
class CancelledNotificationParams:
    """Which request its sender has given up (schema § CancelledNotificationParams).

    2025-11-25 alone lets the id be absent; such a notification has no effect.
    """

    request_id: RequestId | None = field(
        default=None,
        metadata=wire(required=(R2024_11_05, R2025_03_26, R2025_06_18, R2026_07_28)),
    )
    reason: str | None = None
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class ProgressNotificationParams:
    """How far a request has come (schema § ProgressNotificationParams)."""

    progress_token: ProgressToken
    progress: float
    total: float | None = None
    message: str | None = field(default=None, metadata=wire(since=R2025_03_26))
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(until=R2026_07_28)
@frozen(kw_only=True)
class SetLevelRequestParams:
    """The least level the client wants logged (2025-11-25 schema § SetLevelRequestParams)."""

    level: LoggingLevel
    meta: RequestMeta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class LoggingMessageNotificationParams:
    """One entry of the server's log (schema § LoggingMessageNotificationParams)."""

    level: LoggingLevel
    data: JSONValue
    logger: str | None = None
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class SubscriptionFilter:
    """Which notifications a listen stream carries (2026-07-28 schema § SubscriptionFilter).

    ``task_ids`` belongs to the tasks extension.
    """

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: tuple[str, ...] | None = None
    task_ids: tuple[str, ...] | None = None


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class SubscriptionsListenRequestParams:
    """What to listen for (2026-07-28 schema § SubscriptionsListenRequestParams)."""

    notifications: SubscriptionFilter
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class SubscriptionsAcknowledgedNotificationParams:
    """What the server will send on this listen stream (2026-07-28 schema)."""

    notifications: SubscriptionFilter
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class SubscriptionsListenResult:
    """The graceful end of a listen stream (2026-07-28 schema § SubscriptionsListenResult)."""

    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class UnsupportedProtocolVersionErrorData:
    """The ``data`` of error -32022 (2026-07-28 schema § UnsupportedProtocolVersionError)."""

    supported: tuple[str, ...]
    requested: str


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class MissingRequiredClientCapabilityErrorData:
    """The ``data`` of error -32021 (2026-07-28 § MissingRequiredClientCapabilityError)."""

    required_capabilities: ClientCapabilities
