"""Resources: listing, reading and watching them (2026-07-28 server/resources)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, final

from attrs import field, frozen

from ._meta import R2025_06_18, R2025_11_25, R2026_07_28, live, wire
from .base import CACHE_HINT, META, META_REQUEST, META_SINCE_2025_06_18, RESULT_TYPE

if TYPE_CHECKING:
    from .base import (
        Annotations,
        CacheScope,
        Cursor,
        Icon,
        Meta,
        RequestMeta,
        ResourceContents,
        TtlMs,
    )
    from .client_features import InputResponses

__all__ = [
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "UnsubscribeRequestParams",
]


@final
@frozen(kw_only=True)
class Resource:
    """A resource the server can read (schema § Resource)."""

    uri: str
    name: str
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] | None = field(default=None, metadata=wire(since=R2025_11_25))
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class ResourceTemplate:
    """A family of resources, as an RFC 6570 template (schema § ResourceTemplate)."""

    uri_template: str
    name: str
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] | None = field(default=None, metadata=wire(since=R2025_11_25))
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class ListResourcesResult:
    """One page of the server's resources (schema § ListResourcesResult)."""

    resources: tuple[Resource, ...]
    next_cursor: Cursor | None = None
    ttl_ms: TtlMs = field(default=0, metadata=CACHE_HINT)
    cache_scope: CacheScope = field(default="private", metadata=CACHE_HINT)
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class ListResourceTemplatesResult:
    """One page of the server's templates (schema § ListResourceTemplatesResult)."""

    resource_templates: tuple[ResourceTemplate, ...]
    next_cursor: Cursor | None = None
    ttl_ms: TtlMs = field(default=0, metadata=CACHE_HINT)
    cache_scope: CacheScope = field(default="private", metadata=CACHE_HINT)
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class ReadResourceRequestParams:
    """Which resource to read (schema § ReadResourceRequestParams)."""

    uri: str
    input_responses: InputResponses | None = field(
        default=None, metadata=wire(since=R2026_07_28, lazy=True)
    )
    request_state: str | None = field(default=None, metadata=wire(since=R2026_07_28))
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@frozen(kw_only=True)
class ReadResourceResult:
    """What a resource holds (schema § ReadResourceResult)."""

    contents: tuple[ResourceContents, ...]
    ttl_ms: TtlMs = field(default=0, metadata=CACHE_HINT)
    cache_scope: CacheScope = field(default="private", metadata=CACHE_HINT)
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(until=R2026_07_28)
@frozen(kw_only=True)
class SubscribeRequestParams:
    """Which resource to watch (2025-11-25 schema § SubscribeRequestParams)."""

    uri: str
    meta: RequestMeta | None = field(default=None, metadata=META)


@final
@live(until=R2026_07_28)
@frozen(kw_only=True)
class UnsubscribeRequestParams:
    """Which resource to watch no longer (2025-11-25 schema § UnsubscribeRequestParams)."""

    uri: str
    meta: RequestMeta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class ResourceUpdatedNotificationParams:
    """Which resource has changed (schema § ResourceUpdatedNotificationParams)."""

    uri: str
    meta: Meta | None = field(default=None, metadata=META)
