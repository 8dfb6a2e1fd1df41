"""What a server may ask of a client: sampling, elicitation, roots; and input_required results.

Source: 2026-07-28 client/sampling, client/elicitation, client/roots, basic/patterns/mrtr.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

from attrs import field, frozen

from ._meta import (
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    REVISIONS,
    UNSET,
    Choose,
    Fault,
    OneOrMany,
    Read,
    Tagged,
    Unset,
    live,
    wire,
)
from .base import (
    CONSTANT,
    META,
    META_SINCE_2025_06_18,
    META_UNTIL_2026_07_28,
    RESULT_TYPE,
    AudioContent,
    ImageContent,
    TextContent,
)

if TYPE_CHECKING:
    from .base import ContentBlock, Fraction, JSONObject, JSONValue, Meta, RequestMeta, Role
    from .tasks import TaskMetadata
    from .tools import Tool

__all__ = [
    "BooleanSchema",
    "CreateMessageRequest",
    "CreateMessageRequestParams",
    "CreateMessageResult",
    "ElicitContent",
    "ElicitRequest",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitationCompleteNotificationParams",
    "EnumOption",
    "EnumSchema",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponses",
    "LegacyTitledEnumSchema",
    "ListRootsRequest",
    "ListRootsRequestParams",
    "ListRootsResult",
    "ModelHint",
    "ModelPreferences",
    "MultiSelectEnumSchema",
    "NumberSchema",
    "PrimitiveSchemaDefinition",
    "RequestedSchema",
    "Root",
    "SamplingContent",
    "SamplingMessage",
    "SamplingMessageContentBlock",
    "SingleSelectEnumSchema",
    "StringSchema",
    "TitledItems",
    "TitledMultiSelectEnumSchema",
    "TitledSingleSelectEnumSchema",
    "ToolChoice",
    "ToolResultContent",
    "ToolUseContent",
    "URLElicitationRequiredErrorData",
    "UntitledItems",
    "UntitledMultiSelectEnumSchema",
    "UntitledSingleSelectEnumSchema",
]


_TASK = wire(since=R2025_11_25, until=R2026_07_28, lazy=True)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class ToolUseContent:
    """The model's wish to call a tool (2025-11-25 schema § ToolUseContent)."""

    id: str
    name: str
    input: JSONObject
    type: Literal["tool_use"] = field(default="tool_use", metadata=CONSTANT)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class ToolResultContent:
    """What a tool gave to the model (2025-11-25 schema § ToolResultContent)."""

    tool_use_id: str
    content: tuple[ContentBlock, ...]
    type: Literal["tool_result"] = field(default="tool_result", metadata=CONSTANT)
    structured_content: JSONValue | Unset = field(
        default=UNSET, metadata=wire(before=(R2026_07_28, None, "JSONObject | Unset"))
    )
    is_error: bool | None = None
    meta: Meta | None = field(default=None, metadata=META)


SamplingMessageContentBlock: TypeAlias = Annotated[
    TextContent | ImageContent | AudioContent | ToolUseContent | ToolResultContent, Tagged("type")
]
#: One block or, since 2025-11-25, an array of them.
SamplingContent: TypeAlias = Annotated[
    SamplingMessageContentBlock | tuple[SamplingMessageContentBlock, ...], OneOrMany(R2025_11_25)
]


def _tool_results_stand_alone(message: SamplingMessage, _rank: int) -> Fault | None:
    """2025-11-25 client/sampling § Tool Results: such a message holds nothing else."""
    blocks = message.content
    if isinstance(blocks, tuple):
        results = sum(isinstance(block, ToolResultContent) for block in blocks)
        if results not in {0, len(blocks)}:
            return Fault("tool results alone, or none", "content")
    return None


@final
@live(rule=_tool_results_stand_alone)
@frozen(kw_only=True)
class SamplingMessage:
    """One message of the conversation with the model (schema § SamplingMessage)."""

    role: Role
    content: SamplingContent
    meta: Meta | None = field(default=None, metadata=wire("_meta", since=R2025_11_25))


@final
@frozen(kw_only=True)
class ModelHint:
    """A model's name, or part of it (schema § ModelHint)."""

    name: str | None = None


@final
@frozen(kw_only=True)
class ModelPreferences:
    """What the server would like of the model (schema § ModelPreferences)."""

    hints: tuple[ModelHint, ...] | None = None
    cost_priority: Fraction | None = None
    speed_priority: Fraction | None = None
    intelligence_priority: Fraction | None = None


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class ToolChoice:
    """Whether the model must use tools (2025-11-25 schema § ToolChoice)."""

    mode: Literal["auto", "required", "none"] | None = None


@final
@frozen(kw_only=True)
class CreateMessageRequestParams:
    """What to sample (schema § CreateMessageRequestParams)."""

    messages: tuple[SamplingMessage, ...]
    max_tokens: int
    model_preferences: ModelPreferences | None = None
    system_prompt: str | None = None
    include_context: Literal["none", "thisServer", "allServers"] | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] | None = None
    metadata: JSONObject | None = None
    tools: tuple[Tool, ...] | None = field(
        default=None, metadata=wire(since=R2025_11_25, lazy=True)
    )
    tool_choice: ToolChoice | None = field(default=None, metadata=wire(since=R2025_11_25))
    task: TaskMetadata | None = field(default=None, metadata=_TASK)
    meta: RequestMeta | None = field(default=None, metadata=META_UNTIL_2026_07_28)


@final
@frozen(kw_only=True)
class CreateMessageResult:
    """What the model said (schema § CreateMessageResult)."""

    role: Role
    content: SamplingContent
    model: str
    stop_reason: str | None = None
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class Root:
    """A place in the client's file system (schema § Root)."""

    uri: str
    name: str | None = None
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class ListRootsRequestParams:
    """The params of ``roots/list``: ``_meta`` alone, and never demanded."""

    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class ListRootsResult:
    """The client's roots (schema § ListRootsResult)."""

    roots: tuple[Root, ...]
    meta: Meta | None = field(default=None, metadata=META_UNTIL_2026_07_28)


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class StringSchema:
    """A form's field for text (2025-06-18 schema § StringSchema)."""

    type: Literal["string"] = field(default="string", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    format: Literal["email", "uri", "date", "date-time"] | None = None
    default: str | None = field(default=None, metadata=wire(since=R2025_11_25))


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class NumberSchema:
    """A form's field for a number (2025-06-18 schema § NumberSchema)."""

    type: Literal["number", "integer"] = field(default="number", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = field(default=None, metadata=wire(since=R2025_11_25))


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class BooleanSchema:
    """A form's field for yes or no (2025-06-18 schema § BooleanSchema)."""

    type: Literal["boolean"] = field(default="boolean", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    default: bool | None = None


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class LegacyTitledEnumSchema:
    """A choice of one, with display names beside it (2025-06-18 schema § EnumSchema)."""

    enum: tuple[str, ...]
    type: Literal["string"] = field(default="string", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    enum_names: tuple[str, ...] | None = None
    default: str | None = field(default=None, metadata=wire(since=R2025_11_25))


# 2025-06-18 has no name for it, but it is an EnumSchema without `enumNames`.
@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class UntitledSingleSelectEnumSchema:
    """A choice of one (2025-11-25 schema § UntitledSingleSelectEnumSchema)."""

    enum: tuple[str, ...]
    type: Literal["string"] = field(default="string", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    default: str | None = field(default=None, metadata=wire(since=R2025_11_25))


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class EnumOption:
    """One value of a choice, and how to show it."""

    const: str
    title: str


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class TitledSingleSelectEnumSchema:
    """A choice of one, with titles (2025-11-25 schema § TitledSingleSelectEnumSchema)."""

    one_of: tuple[EnumOption, ...]
    type: Literal["string"] = field(default="string", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    default: str | None = None


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class UntitledItems:
    """The values of a choice of several."""

    enum: tuple[str, ...]
    type: Literal["string"] = field(default="string", metadata=CONSTANT)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class UntitledMultiSelectEnumSchema:
    """A choice of several (2025-11-25 schema § UntitledMultiSelectEnumSchema)."""

    items: UntitledItems
    type: Literal["array"] = field(default="array", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: tuple[str, ...] | None = None


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class TitledItems:
    """The values of a choice of several, with titles."""

    any_of: tuple[EnumOption, ...]


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class TitledMultiSelectEnumSchema:
    """A choice of several, with titles (2025-11-25 schema § TitledMultiSelectEnumSchema)."""

    items: TitledItems
    type: Literal["array"] = field(default="array", metadata=CONSTANT)
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: tuple[str, ...] | None = None


def _primitive(raw: Any, _rank: int) -> str | None:
    """Name the class of a form's field."""
    match raw.get("type"):
        case "boolean":
            return "BooleanSchema"
        case "number" | "integer":
            return "NumberSchema"
        case "array":
            items = raw.get("items")
            titled = isinstance(items, dict) and "anyOf" in items
            return "TitledMultiSelectEnumSchema" if titled else "UntitledMultiSelectEnumSchema"
        case "string" if "oneOf" in raw:
            return "TitledSingleSelectEnumSchema"
        case "string" if "enumNames" in raw:
            return "LegacyTitledEnumSchema"
        case "string":
            return "UntitledSingleSelectEnumSchema" if "enum" in raw else "StringSchema"
    return None


SingleSelectEnumSchema: TypeAlias = UntitledSingleSelectEnumSchema | TitledSingleSelectEnumSchema
MultiSelectEnumSchema: TypeAlias = UntitledMultiSelectEnumSchema | TitledMultiSelectEnumSchema
EnumSchema: TypeAlias = SingleSelectEnumSchema | MultiSelectEnumSchema | LegacyTitledEnumSchema
#: One field of a form.
PrimitiveSchemaDefinition: TypeAlias = Annotated[
    StringSchema | NumberSchema | BooleanSchema | EnumSchema,
    Choose(_primitive, "the schema of a string, a number, a boolean or a choice"),
]


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class RequestedSchema:
    """A form: flat, of primitive fields (2025-06-18 client/elicitation § Requested Schema)."""

    properties: Mapping[str, PrimitiveSchemaDefinition]
    required: tuple[str, ...] | None = None
    type: Literal["object"] = field(default="object", metadata=CONSTANT)
    schema: str | None = field(default=None, metadata=wire("$schema", since=R2025_11_25))


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class ElicitRequestFormParams:
    """A form for the user to fill in (2025-11-25 schema § ElicitRequestFormParams)."""

    message: str
    requested_schema: RequestedSchema
    # Absent means "form" (2025-11-25 client/elicitation § Form Mode).
    mode: Literal["form"] | None = field(default=None, metadata=wire(since=R2025_11_25))
    task: TaskMetadata | None = field(default=None, metadata=_TASK)
    meta: RequestMeta | None = field(default=None, metadata=META_UNTIL_2026_07_28)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class ElicitRequestURLParams:
    """A page for the user to visit (2025-11-25 schema § ElicitRequestURLParams)."""

    message: str
    url: str
    mode: Literal["url"] = field(default="url", metadata=CONSTANT)
    elicitation_id: str | None = field(
        default=None, metadata=wire(until=R2026_07_28, required=REVISIONS)
    )
    task: TaskMetadata | None = field(default=None, metadata=_TASK)
    meta: RequestMeta | None = field(default=None, metadata=META_UNTIL_2026_07_28)


def _mode(raw: Any, _rank: int) -> str | None:
    match raw.get("mode", "form"):
        case "form" | None:
            return "ElicitRequestFormParams"
        case "url":
            return "ElicitRequestURLParams"
    return None


ElicitRequestParams: TypeAlias = Annotated[
    ElicitRequestFormParams | ElicitRequestURLParams, Choose(_mode, "mode 'form' or 'url'")
]


def _form_values(raw: Any, _rank: int) -> Any:
    """schema.ts, which is normative, has `number` where schema.json says `integer`."""
    if raw.__class__ is not dict:
        raise Fault("an object")
    for name, value in raw.items():
        if value.__class__ is list:
            for index, item in enumerate(value):
                if item.__class__ is not str:
                    raise Fault("a string", name, index)
        elif value.__class__ not in {str, int, float, bool}:
            raise Fault("a string, a number, a boolean or an array of strings", name)
    return raw


#: What the user filled in, passed through.
ElicitContent: TypeAlias = Annotated[Mapping[str, Any], Read(_form_values)]


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class ElicitResult:
    """What the user did with a form or a page (schema § ElicitResult)."""

    action: Literal["accept", "decline", "cancel"]
    content: ElicitContent | None = None
    meta: Meta | None = field(default=None, metadata=META_UNTIL_2026_07_28)


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class ElicitationCompleteNotificationParams:
    """Which visit to a page is over (2025-11-25 schema § ElicitationCompleteNotification)."""

    elicitation_id: str
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class URLElicitationRequiredErrorData:
    """The ``data`` of error -32042 (2025-11-25 schema § URLElicitationRequiredError)."""

    elicitations: tuple[ElicitRequestURLParams, ...]


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class CreateMessageRequest:
    """A sampling request within a result (2026-07-28 schema § CreateMessageRequest)."""

    params: CreateMessageRequestParams
    method: Literal["sampling/createMessage"] = field(
        default="sampling/createMessage", metadata=CONSTANT
    )


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class ElicitRequest:
    """An elicitation request within a result (2026-07-28 schema § ElicitRequest)."""

    params: ElicitRequestParams
    method: Literal["elicitation/create"] = field(default="elicitation/create", metadata=CONSTANT)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class ListRootsRequest:
    """A request for roots within a result (2026-07-28 schema § ListRootsRequest)."""

    params: ListRootsRequestParams | None = None
    method: Literal["roots/list"] = field(default="roots/list", metadata=CONSTANT)


InputRequest: TypeAlias = Annotated[
    CreateMessageRequest | ElicitRequest | ListRootsRequest, Tagged("method")
]
#: What the server needs to know, by keys of its choice.
InputRequests: TypeAlias = Mapping[str, InputRequest]


def _response(raw: Any, _rank: int) -> str | None:
    if "action" in raw:
        return "ElicitResult"
    if "roots" in raw:
        return "ListRootsResult"
    return "CreateMessageResult" if "model" in raw else None


InputResponse: TypeAlias = Annotated[
    CreateMessageResult | ElicitResult | ListRootsResult,
    Choose(_response, "an 'action', 'roots' or 'model' member"),
]
#: The answers, by the keys of the questions.
InputResponses: TypeAlias = Mapping[str, InputResponse]


def _asks_or_remembers(result: InputRequiredResult, _rank: int) -> Fault | None:
    """2026-07-28 basic/patterns/mrtr: at least one of the two."""
    if result.input_requests is None and result.request_state is None:
        return Fault("inputRequests or requestState")
    return None


@final
@live(since=R2026_07_28, rule=_asks_or_remembers)
@frozen(kw_only=True)
class InputRequiredResult:
    """The server needs more to go on (2026-07-28 schema § InputRequiredResult)."""

    input_requests: InputRequests | None = None
    request_state: str | None = None
    result_type: Literal["input_required"] = field(default="input_required", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)
