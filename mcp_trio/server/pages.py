"""Pages of a list, by opaque cursors (2025-11-25 server/utilities/pagination).

A cursor names the last item of the page before, so a list that changes between two pages
repeats nothing and skips only what is new before the cursor.
"""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from mcp_trio.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["page_of"]


def page_of(items: Mapping[str, Any], cursor: object, size: int) -> tuple[list[Any], str | None]:
    """Return the page of *items* after *cursor*, and the cursor of the next page.

    Raises:
        Refusal: the cursor is none of ours, or its item is gone (-32602).
    """
    keys = list(items)
    start = 0
    if cursor is not None:
        try:
            start = keys.index(_read(cursor)) + 1
        except ValueError:
            raise Refusal(ErrorCode.INVALID_PARAMS, f"invalid cursor: {cursor!r:.80}") from None
    chosen = keys[start : start + size]
    more = start + size < len(keys)
    return [items[key] for key in chosen], _write(chosen[-1]) if more else None


def _write(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _read(cursor: object) -> str:
    if not isinstance(cursor, str) or not cursor:
        raise ValueError(cursor)
    try:
        return base64.urlsafe_b64decode(cursor.encode("ascii")).decode()
    except (binascii.Error, UnicodeError) as exc:
        raise ValueError(cursor) from exc
