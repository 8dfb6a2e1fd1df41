"""What all chapters share: names, icons, content, the common params and results.

Source: 2026-07-28 schema, and the definitions of older revisions that it replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NewType, TypeAlias, final

from attrs import field, frozen

from mcp_trio.wire import envelope

from ._meta import (
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    RANK,
    REVISIONS,
    Check,
    Choose,
    Fault,
    Read,
    Tagged,
    live,
    wire,
)

__all__ = [
    "META_CLIENT_CAPABILITIES",
    "META_CLIENT_INFO",
    "META_LOG_LEVEL",
    "META_PROTOCOL_VERSION",
    "META_RELATED_TASK",
    "META_SERVER_INFO",
    "META_SUBSCRIPTION_ID",
    "Annotations",
    "AudioContent",
    "BlobResourceContents",
    "CacheScope",
    "ContentBlock",
    "Cursor",
    "EmbeddedResource",
    "EmptyResult",
    "Error",
    "Fraction",
    "Icon",
    "ImageContent",
    "Implementation",
    "JSONArray",
    "JSONObject",
    "JSONValue",
    "LoggingLevel",
    "Meta",
    "NotificationParams",
    "ObjectMap",
    "PaginatedRequestParams",
    "ProgressToken",
    "RequestId",
    "RequestMeta",
    "RequestParams",
    "ResourceContents",
    "ResourceLink",
    "Role",
    "StringMap",
    "TextContent",
    "TextResourceContents",
    "TtlMs",
]

JSONValue: TypeAlias = Any
JSONArray: TypeAlias = tuple[Any, ...]
#: A JSON object that is passed through as it came; it is not copied.
JSONObject: TypeAlias = Mapping[str, Any]
#: The ``_meta`` member: free but for the reserved keys (2026-07-28 basic § _meta).
Meta: TypeAlias = Mapping[str, Any]

RequestId: TypeAlias = str | int
ProgressToken: TypeAlias = str | int
#: An opaque position in a list; hand it back as it came.
Cursor = NewType("Cursor", str)

Role: TypeAlias = Literal["user", "assistant"]
LoggingLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]

META_PROTOCOL_VERSION: Final = envelope.PROTOCOL_VERSION
META_CLIENT_INFO: Final = envelope.CLIENT_INFO
META_CLIENT_CAPABILITIES: Final = envelope.CLIENT_CAPABILITIES
META_LOG_LEVEL: Final = envelope.LOG_LEVEL
META_SERVER_INFO: Final = envelope.SERVER_INFO
META_SUBSCRIPTION_ID: Final = envelope.SUBSCRIPTION_ID
META_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"

_LEVELS: Final = frozenset(LoggingLevel.__args__)  # type: ignore[attr-defined]  # of a Literal

MODERN: Final = (R2026_07_28,)
#: Metadata of a ``_meta`` that all revisions have, and that every object has since 2025-06-18.
META: Final = wire("_meta")
META_SINCE_2025_06_18: Final = wire("_meta", since=R2025_06_18)
META_UNTIL_2026_07_28: Final = wire("_meta", until=R2026_07_28)
#: Metadata of a request's ``_meta``: 2026-07-28 basic § _meta makes it mandatory.
META_REQUEST: Final = wire("_meta", required=MODERN)
RESULT_TYPE: Final = wire(since=R2026_07_28, emitted=True)
#: Metadata of a constant member such as ``type``.
CONSTANT: Final = wire(required=REVISIONS)
CACHE_HINT: Final = wire(since=R2026_07_28, emitted=True)


def _string_map(raw: Any, _rank: int) -> Any:
    if raw.__class__ is not dict:
        raise Fault("an object")
    for name, value in raw.items():
        if value.__class__ is not str:
            raise Fault("a string", name)
    return raw


#: A JSON object of strings, passed through.
StringMap: TypeAlias = Annotated[Mapping[str, str], Read(_string_map)]


def _object_map(raw: Any, _rank: int) -> Any:
    if raw.__class__ is not dict:
        raise Fault("an object")
    for name, value in raw.items():
        if value.__class__ is not dict:
            raise Fault("an object", name)
    return raw


#: A JSON object of JSON objects (``experimental``, ``extensions``), passed through.
ObjectMap: TypeAlias = Annotated[Mapping[str, Mapping[str, Any]], Read(_object_map)]


def _request_meta(raw: Any, rank: int) -> Any:
    """Check the keys that the specification defines, and no other."""
    if raw.__class__ is not dict:
        raise Fault("an object")
    token = raw.get("progressToken", "")
    if token.__class__ is not str and token.__class__ is not int:
        raise Fault("a string or an integer", "progressToken")
    if rank >= RANK[R2026_07_28]:
        _check_envelope(raw)
    return raw


def _check_envelope(raw: dict[str, Any]) -> None:
    """2026-07-28 basic § _meta: the two mandatory keys, and the optional ones where given."""
    if raw.get(META_PROTOCOL_VERSION).__class__ is not str:
        raise Fault("a string, and required", META_PROTOCOL_VERSION)
    if raw.get(META_CLIENT_CAPABILITIES).__class__ is not dict:
        raise Fault("an object, and required", META_CLIENT_CAPABILITIES)
    if META_CLIENT_INFO in raw:
        info = raw[META_CLIENT_INFO]
        if info.__class__ is not dict:
            raise Fault("an object", META_CLIENT_INFO)
        for name in ("name", "version"):
            if info.get(name).__class__ is not str:
                raise Fault("a string, and required", META_CLIENT_INFO, name)
    level = raw.get(META_LOG_LEVEL, "info")
    if level.__class__ is not str or level not in _LEVELS:
        raise Fault("a log level", META_LOG_LEVEL)


#: The ``_meta`` of a request: the reserved keys are checked, the rest passes through.
RequestMeta: TypeAlias = Annotated[Mapping[str, Any], Read(_request_meta)]


def _ttl(raw: Any, _rank: int) -> int:
    if raw is None:
        return 0
    if raw.__class__ is not int:
        raise Fault("an integer")
    # 2026-07-28 server/utilities/caching: a negative value counts as 0.
    return max(int(raw), 0)


def _cache_scope(raw: Any, _rank: int) -> str:
    # An unknown scope is a server's fault that must not cost the result; the narrow one is safe.
    return "public" if raw == "public" else "private"


TtlMs: TypeAlias = Annotated[int, Read(_ttl)]
CacheScope: TypeAlias = Annotated[Literal["public", "private"], Read(_cache_scope)]

#: A weight between 0 and 1.
Fraction: TypeAlias = Annotated[float, Check(lambda v: 0 <= v <= 1, "a number from 0 to 1")]


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class Icon:
    """A picture a client may show (2025-11-25 schema § Icon)."""

    src: str
    mime_type: str | None = None
    sizes: tuple[str, ...] | None = None
    theme: Literal["light", "dark"] | None = None


@final
@frozen(kw_only=True)
class Implementation:
    """The name and version of a client or server (schema § Implementation)."""

    name: str
    version: str
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))
    description: str | None = field(default=None, metadata=wire(since=R2025_11_25))
    icons: tuple[Icon, ...] | None = field(default=None, metadata=wire(since=R2025_11_25))
    website_url: str | None = field(default=None, metadata=wire(since=R2025_11_25))


@final
@frozen(kw_only=True)
class Annotations:
    """Hints about who a piece of content is for (schema § Annotations)."""

    audience: tuple[Role, ...] | None = None
    priority: Fraction | None = None
    last_modified: str | None = field(default=None, metadata=wire(since=R2025_06_18))


@final
@frozen(kw_only=True, slots=False)  # hot: a frozen class is made faster without slots
class TextContent:
    """Text (schema § TextContent)."""

    text: str
    type: Literal["text"] = field(default="text", metadata=CONSTANT)
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class ImageContent:
    """A picture in base64 (schema § ImageContent)."""

    data: str
    mime_type: str
    type: Literal["image"] = field(default="image", metadata=CONSTANT)
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@live(since=R2025_03_26)
@frozen(kw_only=True)
class AudioContent:
    """Sound in base64 (schema § AudioContent)."""

    data: str
    mime_type: str
    type: Literal["audio"] = field(default="audio", metadata=CONSTANT)
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class TextResourceContents:
    """What a resource holds, as text (schema § TextResourceContents)."""

    uri: str
    text: str
    mime_type: str | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class BlobResourceContents:
    """What a resource holds, in base64 (schema § BlobResourceContents)."""

    uri: str
    blob: str
    mime_type: str | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


def _contents(raw: Any, _rank: int) -> str | None:
    if "text" in raw:
        return "TextResourceContents"
    return "BlobResourceContents" if "blob" in raw else None


ResourceContents: TypeAlias = Annotated[
    TextResourceContents | BlobResourceContents, Choose(_contents, "a 'text' or a 'blob' member")
]


@final
@frozen(kw_only=True)
class EmbeddedResource:
    """A resource's contents within a message (schema § EmbeddedResource)."""

    resource: ResourceContents
    type: Literal["resource"] = field(default="resource", metadata=CONSTANT)
    annotations: Annotations | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class ResourceLink:
    """A pointer to a resource the server can read (2025-06-18 schema § ResourceLink)."""

    uri: str
    name: str
    type: Literal["resource_link"] = field(default="resource_link", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] | None = field(default=None, metadata=wire(since=R2025_11_25))
    meta: Meta | None = field(default=None, metadata=META)


#: One piece of what a tool or a prompt gives; ``type`` tells the kinds apart.
ContentBlock: TypeAlias = Annotated[
    TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource, Tagged("type")
]


@final
@frozen(kw_only=True)
class RequestParams:
    """The params of a request that has no members of its own (schema § RequestParams)."""

    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@frozen(kw_only=True)
class PaginatedRequestParams:
    """The params of a request for one page of a list (schema § PaginatedRequestParams)."""

    cursor: Cursor | None = None
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@frozen(kw_only=True)
class NotificationParams:
    """The params of a notification that has no members of its own (schema § NotificationParams)."""

    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class EmptyResult:
    """A result that says only that the request was done (schema § Result, § EmptyResult)."""

    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class Error:
    """The ``error`` member of a JSON-RPC response (schema § Error)."""

    code: int
    message: str
    data: JSONValue | None = None
