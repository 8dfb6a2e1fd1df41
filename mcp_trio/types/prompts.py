"""Prompts (2026-07-28 server/prompts) and completion (server/utilities/completion)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, final

from attrs import field, frozen

from ._meta import R2025_06_18, R2025_11_25, R2026_07_28, Check, Tagged, live, wire
from .base import CACHE_HINT, CONSTANT, META, META_REQUEST, META_SINCE_2025_06_18, RESULT_TYPE

if TYPE_CHECKING:
    from .base import (
        CacheScope,
        ContentBlock,
        Cursor,
        Icon,
        Meta,
        RequestMeta,
        Role,
        StringMap,
        TtlMs,
    )
    from .client_features import InputResponses

__all__ = [
    "CompleteRequestParams",
    "CompleteResult",
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "CompletionReference",
    "CompletionValues",
    "GetPromptRequestParams",
    "GetPromptResult",
    "ListPromptsResult",
    "Prompt",
    "PromptArgument",
    "PromptMessage",
    "PromptReference",
    "ResourceTemplateReference",
]


@final
@frozen(kw_only=True)
class PromptArgument:
    """An argument a prompt takes (schema § PromptArgument)."""

    name: str
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))
    description: str | None = None
    required: bool | None = None


@final
@frozen(kw_only=True)
class Prompt:
    """A prompt the server offers (schema § Prompt)."""

    name: str
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))
    description: str | None = None
    arguments: tuple[PromptArgument, ...] | None = None
    icons: tuple[Icon, ...] | None = field(default=None, metadata=wire(since=R2025_11_25))
    meta: Meta | None = field(default=None, metadata=META_SINCE_2025_06_18)


@final
@frozen(kw_only=True)
class PromptMessage:
    """One message of a prompt (schema § PromptMessage)."""

    role: Role
    content: ContentBlock


@final
@frozen(kw_only=True)
class ListPromptsResult:
    """One page of the server's prompts (schema § ListPromptsResult)."""

    prompts: tuple[Prompt, ...]
    next_cursor: Cursor | None = None
    ttl_ms: TtlMs = field(default=0, metadata=CACHE_HINT)
    cache_scope: CacheScope = field(default="private", metadata=CACHE_HINT)
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class GetPromptRequestParams:
    """Which prompt to fill in, and with what (schema § GetPromptRequestParams)."""

    name: str
    arguments: StringMap | None = None
    input_responses: InputResponses | None = field(
        default=None, metadata=wire(since=R2026_07_28, lazy=True)
    )
    request_state: str | None = field(default=None, metadata=wire(since=R2026_07_28))
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@frozen(kw_only=True)
class GetPromptResult:
    """A prompt, filled in (schema § GetPromptResult)."""

    messages: tuple[PromptMessage, ...]
    description: str | None = None
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@frozen(kw_only=True)
class PromptReference:
    """The prompt whose argument is completed (schema § PromptReference)."""

    name: str
    type: Literal["ref/prompt"] = field(default="ref/prompt", metadata=CONSTANT)
    title: str | None = field(default=None, metadata=wire(since=R2025_06_18))


@final
@frozen(kw_only=True)
class ResourceTemplateReference:
    """The template whose variable is completed (schema § ResourceTemplateReference).

    Before 2025-06-18 it was called ResourceReference.
    """

    uri: str
    type: Literal["ref/resource"] = field(default="ref/resource", metadata=CONSTANT)


CompletionReference: TypeAlias = Annotated[
    PromptReference | ResourceTemplateReference, Tagged("type")
]


@final
@frozen(kw_only=True)
class CompletionArgument:
    """The argument that is completed, and what has been typed of it."""

    name: str
    value: str


@final
@live(since=R2025_06_18)
@frozen(kw_only=True)
class CompletionContext:
    """The arguments that have already been settled."""

    arguments: StringMap | None = None


@final
@frozen(kw_only=True)
class CompleteRequestParams:
    """What to complete (schema § CompleteRequestParams)."""

    ref: CompletionReference
    argument: CompletionArgument
    context: CompletionContext | None = field(default=None, metadata=wire(since=R2025_06_18))
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


# Before 2026-07-28 the limit stands in the text alone, not in the schema.
CompletionValues: TypeAlias = Annotated[
    tuple[str, ...], Check(lambda values: len(values) <= 100, "at most 100 values")
]


@final
@frozen(kw_only=True)
class Completion:
    """Candidates, best first, and how many more there are."""

    values: CompletionValues
    total: int | None = None
    has_more: bool | None = None


@final
@frozen(kw_only=True)
class CompleteResult:
    """The answer to a completion request (schema § CompleteResult)."""

    completion: Completion
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)
