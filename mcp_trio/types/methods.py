"""The methods of the protocol: who sends which, in which revision, with what params and result.

Classes are named, and looked up in :mod:`mcp_trio.types` when asked for, so that reading
the table makes no class.
"""

from __future__ import annotations

import sys
from enum import Flag
from typing import TYPE_CHECKING, Any, Final

from ._meta import (
    R2024_11_05,
    R2025_06_18,
    R2025_11_25,
    R2026_07_28,
    RANK,
    REVISIONS,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NOTIFICATIONS", "REQUESTS", "Direction", "NotificationMethod", "RequestMethod"]


class Direction(Flag):
    """Who may send a message; ``IN_RESULT``: it travels within an ``InputRequiredResult``."""

    NEVER = 0
    CLIENT_TO_SERVER = 1
    SERVER_TO_CLIENT = 2
    BOTH = 3
    IN_RESULT = 4


_C2S: Final = Direction.CLIENT_TO_SERVER
_S2C: Final = Direction.SERVER_TO_CLIENT
_BOTH: Final = Direction.BOTH
_IN: Final = Direction.IN_RESULT

_LEGACY: Final = RANK[R2026_07_28]


def _look_up(name: str) -> Any:
    return getattr(sys.modules[__package__], name)


class _Method:
    """What requests and notifications have in common."""

    def __init__(
        self,
        method: str,
        params: str,
        steps: tuple[tuple[str, Direction], ...],
        *,
        optional_until: str | None,
    ) -> None:
        self.method: Final = method
        self.params_name: Final = params
        self._directions: Final = _unroll(steps)
        self._optional_until: Final = 0 if optional_until is None else RANK.get(optional_until, 99)

    def direction(self, revision: str) -> Direction:
        """Return who may send it in *revision*; ``NEVER`` where it does not exist."""
        return self._directions[revision]

    def params_optional(self, revision: str) -> bool:
        """Tell whether the message may come without ``params`` in *revision*."""
        return RANK[revision] < self._optional_until

    @property
    def params(self) -> Any:
        """The class of the params (of ``elicitation/create``: a union)."""
        return _look_up(self.params_name)


def _unroll(steps: tuple[tuple[str, Direction], ...]) -> Mapping[str, Direction]:
    """Turn "from this revision on" into a table of all revisions."""
    changes = dict(steps)
    table, current = {}, Direction.NEVER
    for revision in REVISIONS:
        current = changes.get(revision, current)
        table[revision] = current
    return table


class RequestMethod(_Method):
    """One request.

    Attributes:
        method: the name on the wire.
        params_name: the name of the params' class in ``mcp_trio.types``.
        result_name: the name of the result's class.
    """

    def __init__(
        self,
        method: str,
        params: str,
        result: str,
        *steps: tuple[str, Direction],
        optional_until: str | None = None,
        may_need_input: bool = False,
        task_until: str | None = None,
    ) -> None:
        super().__init__(method, params, steps, optional_until=optional_until)
        self.result_name: Final = result
        self._may_need_input: Final = may_need_input
        self._task_until: Final = 0 if task_until is None else RANK.get(task_until, 99)

    @property
    def result(self) -> Any:
        """The class of the result."""
        return _look_up(self.result_name)

    def may_need_input(self, revision: str) -> bool:
        """Tell whether the answer may be an ``InputRequiredResult``."""
        return self._may_need_input and RANK[revision] >= RANK[R2026_07_28]

    def may_become_task(self, revision: str) -> bool:
        """Tell whether the answer may be a ``CreateTaskResult``, where both sides agreed to it."""
        return RANK[R2025_11_25] <= RANK[revision] < self._task_until


class NotificationMethod(_Method):
    """One notification.

    Attributes:
        method: the name on the wire.
        params_name: the name of the params' class in ``mcp_trio.types``.
    """

    def __init__(
        self,
        method: str,
        params: str,
        *steps: tuple[str, Direction],
        optional_until: str | None = None,
    ) -> None:
        super().__init__(method, params, steps, optional_until=optional_until)


_ALWAYS: Final = "for ever"
_FIRST: Final = R2024_11_05
_NO_MORE: Final = (R2026_07_28, Direction.NEVER)
_IN_RESULT: Final = (R2026_07_28, _IN)
_PAGE: Final = "PaginatedRequestParams"

#: Every request, by method.
REQUESTS: Final[Mapping[str, RequestMethod]] = {
    request.method: request
    for request in (
        RequestMethod(
            "initialize", "InitializeRequestParams", "InitializeResult", (_FIRST, _C2S), _NO_MORE
        ),
        RequestMethod("server/discover", "RequestParams", "DiscoverResult", (R2026_07_28, _C2S)),
        RequestMethod(
            "ping",
            "RequestParams",
            "EmptyResult",
            (_FIRST, _BOTH),
            _NO_MORE,
            optional_until=R2026_07_28,
        ),
        RequestMethod(
            "tools/list", _PAGE, "ListToolsResult", (_FIRST, _C2S), optional_until=R2026_07_28
        ),
        RequestMethod(
            "tools/call",
            "CallToolRequestParams",
            "CallToolResult",
            (_FIRST, _C2S),
            may_need_input=True,
            task_until=_ALWAYS,
        ),
        RequestMethod(
            "resources/list",
            _PAGE,
            "ListResourcesResult",
            (_FIRST, _C2S),
            optional_until=R2026_07_28,
        ),
        RequestMethod(
            "resources/templates/list",
            _PAGE,
            "ListResourceTemplatesResult",
            (_FIRST, _C2S),
            optional_until=R2026_07_28,
        ),
        RequestMethod(
            "resources/read",
            "ReadResourceRequestParams",
            "ReadResourceResult",
            (_FIRST, _C2S),
            may_need_input=True,
        ),
        RequestMethod(
            "resources/subscribe", "SubscribeRequestParams", "EmptyResult", (_FIRST, _C2S), _NO_MORE
        ),
        RequestMethod(
            "resources/unsubscribe",
            "UnsubscribeRequestParams",
            "EmptyResult",
            (_FIRST, _C2S),
            _NO_MORE,
        ),
        RequestMethod(
            "subscriptions/listen",
            "SubscriptionsListenRequestParams",
            "SubscriptionsListenResult",
            (R2026_07_28, _C2S),
        ),
        RequestMethod(
            "prompts/list", _PAGE, "ListPromptsResult", (_FIRST, _C2S), optional_until=R2026_07_28
        ),
        RequestMethod(
            "prompts/get",
            "GetPromptRequestParams",
            "GetPromptResult",
            (_FIRST, _C2S),
            may_need_input=True,
        ),
        RequestMethod(
            "completion/complete", "CompleteRequestParams", "CompleteResult", (_FIRST, _C2S)
        ),
        RequestMethod(
            "logging/setLevel", "SetLevelRequestParams", "EmptyResult", (_FIRST, _C2S), _NO_MORE
        ),
        RequestMethod(
            "sampling/createMessage",
            "CreateMessageRequestParams",
            "CreateMessageResult",
            (_FIRST, _S2C),
            _IN_RESULT,
            task_until=R2026_07_28,
        ),
        RequestMethod(
            "roots/list",
            "ListRootsRequestParams",
            "ListRootsResult",
            (_FIRST, _S2C),
            _IN_RESULT,
            optional_until=_ALWAYS,
        ),
        RequestMethod(
            "elicitation/create",
            "ElicitRequestParams",
            "ElicitResult",
            (R2025_06_18, _S2C),
            _IN_RESULT,
            task_until=R2026_07_28,
        ),
        # Since 2026-07-28 the tasks extension, of which only the client asks.
        RequestMethod(
            "tasks/get",
            "GetTaskRequestParams",
            "GetTaskResult",
            (R2025_11_25, _BOTH),
            (R2026_07_28, _C2S),
        ),
        RequestMethod(
            "tasks/result",
            "GetTaskPayloadRequestParams",
            "GetTaskPayloadResult",
            (R2025_11_25, _BOTH),
            _NO_MORE,
        ),
        RequestMethod(
            "tasks/list",
            _PAGE,
            "ListTasksResult",
            (R2025_11_25, _BOTH),
            _NO_MORE,
            optional_until=R2026_07_28,
        ),
        RequestMethod(
            "tasks/cancel",
            "CancelTaskRequestParams",
            "CancelTaskResult",
            (R2025_11_25, _BOTH),
            (R2026_07_28, _C2S),
        ),
        RequestMethod(
            "tasks/update", "UpdateTaskRequestParams", "UpdateTaskResult", (R2026_07_28, _C2S)
        ),
    )
}

#: Every notification, by method.
NOTIFICATIONS: Final[Mapping[str, NotificationMethod]] = {
    notification.method: notification
    for notification in (
        NotificationMethod(
            "notifications/cancelled", "CancelledNotificationParams", (_FIRST, _BOTH)
        ),
        NotificationMethod(
            "notifications/elicitation/complete",
            "ElicitationCompleteNotificationParams",
            (R2025_11_25, _S2C),
            _NO_MORE,
        ),
        NotificationMethod(
            "notifications/initialized",
            "NotificationParams",
            (_FIRST, _C2S),
            _NO_MORE,
            optional_until=_ALWAYS,
        ),
        NotificationMethod(
            "notifications/message", "LoggingMessageNotificationParams", (_FIRST, _S2C)
        ),
        NotificationMethod(
            "notifications/progress",
            "ProgressNotificationParams",
            (_FIRST, _BOTH),
            (R2026_07_28, _S2C),
        ),
        NotificationMethod(
            "notifications/prompts/list_changed",
            "NotificationParams",
            (_FIRST, _S2C),
            optional_until=_ALWAYS,
        ),
        NotificationMethod(
            "notifications/resources/list_changed",
            "NotificationParams",
            (_FIRST, _S2C),
            optional_until=_ALWAYS,
        ),
        NotificationMethod(
            "notifications/resources/updated",
            "ResourceUpdatedNotificationParams",
            (_FIRST, _S2C),
        ),
        NotificationMethod(
            "notifications/roots/list_changed",
            "NotificationParams",
            (_FIRST, _C2S),
            _NO_MORE,
            optional_until=_ALWAYS,
        ),
        NotificationMethod(
            "notifications/subscriptions/acknowledged",
            "SubscriptionsAcknowledgedNotificationParams",
            (R2026_07_28, _S2C),
        ),
        # 2025-11-25 core, and the name that the tasks extension gave it.
        NotificationMethod(
            "notifications/tasks/status",
            "TaskStatusNotificationParams",
            (R2025_11_25, _BOTH),
            _NO_MORE,
        ),
        NotificationMethod(
            "notifications/tasks", "TaskStatusNotificationParams", (R2026_07_28, _S2C)
        ),
        NotificationMethod(
            "notifications/tools/list_changed",
            "NotificationParams",
            (_FIRST, _S2C),
            optional_until=_ALWAYS,
        ),
    )
}
