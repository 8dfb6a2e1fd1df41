"""The reverse calls of a server's handler, from Python values to the wire and back."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, Final

from mcp_trio.errors import CapabilityMissing, InvalidMessage, InvalidResult
from mcp_trio.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    SamplingMessage,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from mcp_trio.wire.revisions import Feature

from .answers import Accepted, Declined, Dismissed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp_trio.types import Root

    from .context import Context
    from .peer import ClientPeer

__all__ = ["check_tool_messages", "elicit", "elicit_url", "refresh_roots", "sample"]

# RFC 3986 section 3: a scheme and a host; the rest is the client's to judge.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s/?#]+[^\s]*\Z")


async def elicit(ctx: Context[Any], form: Any, message: str, key: str | None) -> Any:
    """Ask by form; see `Context.elicit`."""
    from mcp_trio.schema import form_of  # noqa: PLC0415 - msgspec's schemas are not needed by every server

    peer = ctx.peer
    _require_method(peer, "elicitation/create")
    # {} means form mode, the only one before URL mode existed (2025-11-25 client/elicitation).
    if peer.raw_capabilities.get("elicitation") and not peer.has("elicitation.form"):
        raise CapabilityMissing("elicitation.form", "ctx.elicit")
    asked = form_of(form)
    params: dict[str, Any] = {
        "message": message,
        "requestedSchema": asked.schema_for(peer.revision),
    }
    if peer.has_feature(Feature.URL_ELICITATION):
        params["mode"] = "form"
    result = _read(peer, ElicitResult, await ctx.call("elicitation/create", params, key=key))
    if result.action == "accept":
        try:
            return Accepted(asked.read(result.content or {}))
        except InvalidMessage as exc:
            raise InvalidResult(f"the accepted content does not fit the form: {exc}") from None
    return Declined() if result.action == "decline" else Dismissed()


async def elicit_url(
    ctx: Context[Any], url: str, message: str, elicitation_id: str | None, key: str | None
) -> Accepted[None] | Declined | Dismissed:
    """Ask by page; see `Context.elicit_url`."""
    peer = ctx.peer
    peer.require_url_elicitation("ctx.elicit_url")
    if not _URL.match(url):
        raise ValueError(f"{url!r} is no URL")
    params = {"mode": "url", "message": message, "url": url}
    if not peer.has_feature(Feature.MRTR):  # a retry is all that tells of the end there
        params["elicitationId"] = elicitation_id or secrets.token_urlsafe(16)
    result = _read(peer, ElicitResult, await ctx.call("elicitation/create", params, key=key))
    if result.action == "accept":
        return Accepted(None)
    return Declined() if result.action == "decline" else Dismissed()


async def sample(
    ctx: Context[Any],
    messages: str | SamplingMessage | Sequence[SamplingMessage],
    max_tokens: int,
    options: dict[str, Any],
    key: str | None,
) -> CreateMessageResult:
    """Ask the model; see `Context.sample`."""
    peer = ctx.peer
    peer.require("sampling", "ctx.sample")
    if options["tools"] is not None or options["tool_choice"] is not None:
        peer.require("sampling.tools", "ctx.sample with tools")
    if options["include_context"] not in (None, "none") and peer.has_feature(
        Feature.SAMPLING_TOOLS
    ):
        peer.require("sampling.context", "ctx.sample with include_context")
    if isinstance(messages, str):
        messages = (SamplingMessage(role="user", content=TextContent(text=messages)),)
    elif isinstance(messages, SamplingMessage):
        messages = (messages,)
    check_tool_messages(messages)
    params = CreateMessageRequestParams(messages=tuple(messages), max_tokens=max_tokens, **options)
    raw = await ctx.call("sampling/createMessage", peer.codec.unstructure(params), key=key)
    result: CreateMessageResult = _read(peer, CreateMessageResult, raw)
    return result


def check_tool_messages(messages: Sequence[SamplingMessage]) -> None:
    """Hold sampling messages to the rules for tools (2025-11-25 client/sampling § Tool Results).

    A user message with tool results holds nothing else and answers exactly the tool uses of
    the assistant message before it; an assistant's tool uses are answered by the next message.

    Raises:
        InvalidMessage: the path names the message at fault.
    """
    asked: set[str] = set()
    for index, message in enumerate(messages):
        content = message.content if isinstance(message.content, tuple) else (message.content,)
        results = [block for block in content if isinstance(block, ToolResultContent)]
        path = f"$.messages[{index}].content"
        if results and len(results) != len(content):
            raise InvalidMessage(path, "tool results stand alone in their message")
        answered = {block.tool_use_id for block in results}
        if answered != asked or len(answered) != len(results):
            what = ", ".join(sorted(asked ^ answered or answered))
            raise InvalidMessage(path, f"each tool use is answered once, at once; see {what}")
        asked = {block.id for block in content if isinstance(block, ToolUseContent)}
        if (results and message.role != "user") or (asked and message.role != "assistant"):
            raise InvalidMessage(path, "the assistant uses tools, the user gives their results")
    if asked:
        raise InvalidMessage("$.messages", f"no result follows the tool use {min(asked)}")


async def refresh_roots(peer: ClientPeer, ask: Callable[[str], Awaitable[dict[str, Any]]]) -> None:
    """Fetch the client's roots by *ask* and keep them, unless newer ones came in meanwhile."""
    peer.roots_news += 1
    as_of = peer.roots_news
    roots: tuple[Root, ...] = _read(peer, ListRootsResult, await ask("roots/list")).roots
    if as_of > peer.roots_as_of:
        peer.roots, peer.roots_as_of = roots, as_of


def _require_method(peer: ClientPeer, method: str) -> None:
    known = peer.revision.methods.get(method)
    capability = "elicitation" if known is None or known.needs is None else known.needs
    if known is None and not peer.has_feature(Feature.MRTR):
        raise CapabilityMissing(capability, f"{method} at {peer.revision}")
    peer.require(capability, method)


def _read(peer: ClientPeer, kind: Any, raw: dict[str, Any]) -> Any:
    try:
        return peer.codec.structure(raw, kind)
    except InvalidMessage as exc:
        raise InvalidResult(f"the client's {kind.__name__}: {exc}") from None
