"""Errors that handlers raise and that the protocol has given a code of its own."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from attrs import evolve

from mcp_trio.errors import ErrorCode, Refusal
from mcp_trio.wire.revisions import Feature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp_trio.runtime.context import Context
    from mcp_trio.types import ElicitRequestURLParams

__all__ = ["resource_not_found", "url_elicitation_required"]


def resource_not_found(ctx: Context[Any], uri: str) -> Refusal:
    """Return the error for a *uri* that names no resource, with the code of the revision.

    Source: 2025-11-25 server/resources § Error Handling (-32002; -32602 since 2026-07-28).
    """
    moved = ctx.peer.has_feature(Feature.NOT_FOUND_IS_INVALID_PARAMS)
    code = ErrorCode.INVALID_PARAMS if moved else ErrorCode.RESOURCE_NOT_FOUND
    return Refusal(code, f"resource not found: {uri}", {"uri": uri})


def url_elicitation_required(ctx: Context[Any], pages: Sequence[ElicitRequestURLParams]) -> Refusal:
    """Return the error that says: let the user visit *pages* first, then ask again.

    A page without an ``elicitation_id`` is given one. Tell of the end of a visit by
    ``ctx.elicitation_complete``. Source: 2025-11-25 client/elicitation § URL Elicitation
    Required Error.

    Raises:
        CapabilityMissing: the client cannot show pages.
        ValueError: there is no page.
    """
    from mcp_trio.types import URLElicitationRequiredErrorData  # noqa: PLC0415 - rarely used

    ctx.peer.require_url_elicitation("url_elicitation_required")
    if not pages:
        raise ValueError("which pages is the user to visit?")
    numbered = tuple(
        evolve(page, elicitation_id=page.elicitation_id or secrets.token_urlsafe(16))
        for page in pages
    )
    return Refusal(
        ErrorCode.URL_ELICITATION_REQUIRED,
        f"the user has to visit a page first: {', '.join(page.message for page in pages)}",
        ctx.peer.codec.unstructure(URLElicitationRequiredErrorData(elicitations=numbered)),
    )
