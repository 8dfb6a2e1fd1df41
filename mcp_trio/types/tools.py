"""Tools: listing and calling them (2026-07-28 server/tools)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

from attrs import field, frozen

from ._meta import (
    R2025_03_26,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    UNSET,
    Fault,
    Read,
    Unset,
    live,
    wire,
)
from .base import CACHE_HINT, META, META_REQUEST, META_SINCE_2025_06_18, RESULT_TYPE

if TYPE_CHECKING:
    from .base import (
        CacheScope,
        ContentBlock,
        Cursor,
        Icon,
        JSONObject,
        JSONValue,
        Meta,
        RequestMeta,
        TtlMs,
    )
    from .client_features import InputResponses
    from .tasks import TaskMetadata

__all__ = [
    "CallToolRequestParams",
    "CallToolResult",
    "ListToolsResult",
    "ObjectSchema",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
]


def _object_schema(raw: Any, _rank: int) -> Any:
    if raw.__class__ is not dict:
        raise Fault("an object")
    if raw.get("type") != "object":
        raise Fault("'object', and required", "type")
    return raw


#: A JSON Schema whose ``type`` is ``object``, passed through.
ObjectSchema: TypeAlias = Annotated[Mapping[str, Any], Read(_object_schema)]


@final
@live(since=R2025_03_26)
@frozen(kw_only=True)
class ToolAnnotations:
    """Hints about what a tool does; never a promise (schema § ToolAnnotations)."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class ToolExecution:
    """Whether a tool may run as a task (2025-11-25 schema § ToolExecution)."""

    task_support: Literal["forbidden", "optional", "required"] | None = None


@final
@frozen(kw_only=True)
class Tool:
    """A tool the server offers (schema § Tool)."""

    name: str
    input_schema: ObjectSchema
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))
    description: str | None = None
    # Since 2026-07-28 a tool may give any JSON value, so its schema need not be an object's.
    output_schema: JSONObject | None = field(
        default=None,
        metadata=wire(since=R2025_06_18, before=(R2026_07_28, None, "ObjectSchema | None")),
    )
    annotations: ToolAnnotations | None = field(default=None, metadata=wire(since=R2025_03_26))
    execution: ToolExecution | None = field(
        default=None, metadata=wire(since=R2025_11_25, until=R2026_07_28)
    )
    icons: tuple[Icon, ...] | None = field(default=None, metadata=wire(since=R2025_11_25))
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class ListToolsResult:
    """One page of the server's tools (schema § ListToolsResult)."""

    tools: tuple[Tool, ...]
    next_cursor: Cursor | None = None
    ttl_ms: TtlMs = field(default=0, metadata=CACHE_HINT)
    cache_scope: CacheScope = field(default="private", metadata=CACHE_HINT)
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True, slots=False)  # hot: a frozen class is made faster without slots
class CallToolRequestParams:
    """Which tool to call, and with what (schema § CallToolRequestParams)."""

    name: str
    arguments: JSONObject | None = None
    task: TaskMetadata | None = field(
        default=None, metadata=wire(since=R2025_11_25, until=R2026_07_28, lazy=True)
    )
    input_responses: InputResponses | None = field(
        default=None, metadata=wire(since=R2026_07_28, lazy=True)
    )
    request_state: str | None = field(default=None, metadata=wire(since=R2026_07_28))
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@frozen(kw_only=True, slots=False)  # hot: a frozen class is made faster without slots
class CallToolResult:
    """What a tool gave (schema § CallToolResult).

    ``structured_content`` is ``UNSET`` when absent: since 2026-07-28 null is a value.
    """

    content: tuple[ContentBlock, ...]
    structured_content: JSONValue | Unset = field(
        default=UNSET,
        metadata=wire(since=R2025_06_18, before=(R2026_07_28, None, "JSONObject | Unset")),
    )
    is_error: bool | None = None
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)
