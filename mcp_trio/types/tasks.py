"""Tasks: the experimental core feature of 2025-11-25, and the extension over 2026-07-28.

The extension renamed ``ttl`` to ``ttlMs`` and puts a task's members into the result itself;
here both are one set of classes, with the extension's names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, final

from attrs import field, frozen

from ._meta import R2025_11_25, R2026_07_28, RANK, REVISIONS, Fault, live, wire
from .base import META, META_REQUEST, RESULT_TYPE

if TYPE_CHECKING:
    from .base import Cursor, Error, JSONObject, Meta, RequestMeta
    from .client_features import InputRequests, InputResponses

__all__ = [
    "CancelTaskRequestParams",
    "CancelTaskResult",
    "CreateTaskResult",
    "GetTaskPayloadRequestParams",
    "GetTaskPayloadResult",
    "GetTaskRequestParams",
    "GetTaskResult",
    "ListTasksResult",
    "RelatedTaskMetadata",
    "Task",
    "TaskMetadata",
    "TaskStatus",
    "TaskStatusNotificationParams",
    "UpdateTaskRequestParams",
    "UpdateTaskResult",
]


TaskStatus: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]

_FLAT = wire(flat_since=R2025_11_25)


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class TaskMetadata:
    """The wish that a request become a task (2025-11-25 schema § TaskMetadata)."""

    ttl: int | None = None


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class RelatedTaskMetadata:
    """Which task a message belongs to, in its ``_meta`` (2025-11-25 § RelatedTaskMetadata)."""

    task_id: str


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class Task:
    """The state of a task (2025-11-25 schema § Task; tasks extension § Task).

    ``ttl_ms`` is None where the task is kept without limit.
    """

    task_id: str
    status: TaskStatus
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = field(metadata=wire(nullable=True, before=(R2026_07_28, "ttl", None)))
    poll_interval_ms: int | None = field(
        default=None, metadata=wire(before=(R2026_07_28, "pollInterval", None))
    )
    status_message: str | None = None


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class CreateTaskResult:
    """The request has become a task (2025-11-25 and tasks extension § CreateTaskResult)."""

    task: Task = field(metadata=wire(flat_since=R2026_07_28))
    # Mandatory in the extension: nothing else tells it from the result it stands for.
    result_type: Literal["task"] = field(
        default="task", metadata=wire(since=R2026_07_28, required=REVISIONS)
    )
    meta: Meta | None = field(default=None, metadata=META)


_SETTLED_BY: Final = {
    "completed": "result",
    "failed": "error",
    "input_required": "inputRequests",
}


def _state_is_inlined(value: Any, rank: int) -> Fault | None:
    """Tasks extension § DetailedTask: each status brings the member that belongs to it."""
    if rank < RANK[R2026_07_28]:
        return None
    status = value.task.status
    inlined = {
        "completed": value.result,
        "failed": value.error,
        "input_required": value.input_requests,
    }
    if status in inlined and inlined[status] is None:
        return Fault(f"required when status is {status!r}", _SETTLED_BY[status])
    return None


@final
@live(since=R2025_11_25, rule=_state_is_inlined)
@frozen(kw_only=True)
class GetTaskResult:
    """A task's state; in the extension with what it has led to (§ GetTaskResult)."""

    task: Task = field(metadata=_FLAT)
    result: JSONObject | None = field(default=None, metadata=wire(since=R2026_07_28))
    error: Error | None = field(default=None, metadata=wire(since=R2026_07_28))
    input_requests: InputRequests | None = field(
        default=None, metadata=wire(since=R2026_07_28, lazy=True)
    )
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25, rule=_state_is_inlined)
@frozen(kw_only=True)
class TaskStatusNotificationParams:
    """A task's new state (2025-11-25 and tasks extension § TaskStatusNotificationParams)."""

    task: Task = field(metadata=_FLAT)
    result: JSONObject | None = field(default=None, metadata=wire(since=R2026_07_28))
    error: Error | None = field(default=None, metadata=wire(since=R2026_07_28))
    input_requests: InputRequests | None = field(
        default=None, metadata=wire(since=R2026_07_28, lazy=True)
    )
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class CancelTaskResult:
    """A task was told to end: with its state in 2025-11-25, a bare receipt in the extension."""

    task: Task | None = field(
        default=None,
        metadata=wire(until=R2026_07_28, required=REVISIONS, flat_since=R2025_11_25),
    )
    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class UpdateTaskResult:
    """The receipt for a task's input (tasks extension § UpdateTaskResult)."""

    result_type: Literal["complete"] = field(default="complete", metadata=RESULT_TYPE)
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class GetTaskPayloadResult:
    """What the request that became a task has led to (2025-11-25 schema).

    ``payload`` is the whole result object, ``_meta`` included; its type is that of the request.
    """

    payload: JSONObject = field(metadata=_FLAT)


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class ListTasksResult:
    """One page of the peer's tasks (2025-11-25 schema § ListTasksResult)."""

    tasks: tuple[Task, ...]
    next_cursor: Cursor | None = None
    meta: Meta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class GetTaskRequestParams:
    """Which task to look at."""

    task_id: str
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@live(since=R2025_11_25, until=R2026_07_28)
@frozen(kw_only=True)
class GetTaskPayloadRequestParams:
    """Which task's result to wait for."""

    task_id: str
    meta: RequestMeta | None = field(default=None, metadata=META)


@final
@live(since=R2025_11_25)
@frozen(kw_only=True)
class CancelTaskRequestParams:
    """Which task to end."""

    task_id: str
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)


@final
@live(since=R2026_07_28)
@frozen(kw_only=True)
class UpdateTaskRequestParams:
    """Answers to what a task has asked (tasks extension § UpdateTaskRequest)."""

    task_id: str
    input_responses: InputResponses
    meta: RequestMeta | None = field(default=None, metadata=META_REQUEST)
