"""The modern era: what each request's envelope says, discovery, and listening.

Source: 2026-07-28 basic § _meta, server/discover, basic/patterns/subscriptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from attrs import field, frozen

from ._meta import R2026_07_28, live, wire
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
        LoggingLevel,
        Meta,
        ProgressToken,
        RequestId,
        RequestMeta,
        TtlMs,
    )
    from .lifecycle import ClientCapabilities, ServerCapabilities

__all__ = [
    "DiscoverResult",
    "MissingRequiredClientCapabilityErrorData",
    "NotificationMetaObject",
    "RequestMetaObject",
    "ResultMetaObject",
    "SubscriptionFilter",
    "SubscriptionsAcknowledgedNotificationParams",
    "SubscriptionsListenRequestParams",
    "SubscriptionsListenResult",
    "SubscriptionsListenResultMetaObject",
    "UnsupportedProtocolVersionErrorData",
]


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
