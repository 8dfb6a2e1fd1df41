"""Cancellation, progress and logging (2025-11-25 basic/utilities, server/utilities/logging)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from attrs import field, frozen

from ._meta import R2024_11_05, R2025_03_26, R2025_06_18, R2026_07_28, live, wire
from .base import META

if TYPE_CHECKING:
    from .base import JSONValue, LoggingLevel, Meta, ProgressToken, RequestId, RequestMeta

__all__ = [
    "CancelledNotificationParams",
    "LoggingMessageNotificationParams",
    "ProgressNotificationParams",
    "SetLevelRequestParams",
]


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
