"""How long a client may keep what a server has said."""

from __future__ import annotations

from typing import Literal, final

from attrs import field as _field
from attrs import frozen, validators

__all__ = ["CacheHint"]


@final
@frozen(kw_only=True)
class CacheHint:
    """How long, and for whom, a result may be kept (2026-07-28 server/utilities/caching).

    Attributes:
        ttl_ms: for how long, in milliseconds; 0 is not at all.
        scope: ``"private"`` for the one who asked, ``"public"`` for everybody.
    """

    ttl_ms: int = _field(default=0, validator=[validators.instance_of(int), validators.ge(0)])
    scope: Literal["public", "private"] = _field(
        default="private", validator=validators.in_(("public", "private"))
    )
