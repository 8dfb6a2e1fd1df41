"""Where something stands inside a JSON value, and short printable pieces of what stands there."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["at", "clip", "path_of"]

_PLAIN: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
# A peer's text goes into error messages and logs: enough to recognise it, no more.
_CLIP: Final = 80


def clip(value: Any) -> str:
    """Return *value* as short JSON in ASCII, safe to stand in an error message."""
    try:
        text = json.dumps(value, default=repr)
    except (ValueError, TypeError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= _CLIP else text[: _CLIP - 3] + "..."


def at(path: str, key: str | int) -> str:
    """Return the path of member or element *key* of what stands at *path*."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    if len(key) <= _CLIP and _PLAIN.fullmatch(key):
        return f"{path}.{key}"
    return f"{path}[{clip(key)}]"


def path_of(keys: Iterable[str | int]) -> str:
    """Return the path that *keys* lead to from the root ``$``."""
    path = "$"
    for key in keys:
        path = at(path, key)
    return path
