"""Resources and resource templates: reading by URI."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from mcp_trio.errors import ErrorCode, InvalidMessage, Refusal
from mcp_trio.schema import describe, output_of
from mcp_trio.types import (
    BlobResourceContents,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)
from mcp_trio.uri import UriTemplate

from .invoke import Invocation, own_fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_trio.runtime.context import Context

__all__ = ["FixedResource", "TemplateResource"]

Contents: TypeAlias = TextResourceContents | BlobResourceContents
_CONTENTS: Final = (TextResourceContents, BlobResourceContents)
# RFC 3986 section 3 (2025-06-18 server/resources § Custom URI Schemes); a template may leave
# the scheme to a variable.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:|\{")


def check_uri(uri: str) -> None:
    """Raise ValueError for what cannot be a URI or a template of URIs."""
    if not _SCHEME.match(uri) or any(letter.isspace() for letter in uri):
        raise ValueError(
            f"{uri!r} is no URI: it needs a scheme, as in notes://today, and no blanks"
        )


class FixedResource:
    """A resource at one URI."""

    __slots__ = ("_invocation", "definition")

    def __init__(self, fn: Callable[..., Any], definition: dict[str, Any]) -> None:
        self._invocation = Invocation(fn)
        if self._invocation.arguments.schema["properties"]:
            names = ", ".join(self._invocation.arguments.schema["properties"])
            raise TypeError(f"{definition['uri']} has no variables, but its function takes {names}")
        definition.setdefault("description", describe(fn))
        self.definition: Final = Resource(**definition)

    async def read(self, ctx: Context[Any]) -> dict[str, Any]:
        """Run the function and return the raw result of ``resources/read``."""
        with own_fault():
            value = await self._invocation(ctx, {})
            return _read_result(ctx, value, self.definition.uri, self.definition.mime_type)


class TemplateResource:
    """A family of resources, one for each match of an RFC 6570 template."""

    __slots__ = ("_invocation", "definition", "template")

    def __init__(self, fn: Callable[..., Any], definition: dict[str, Any]) -> None:
        self.template: Final = UriTemplate(definition["uri_template"])
        self._invocation = Invocation(fn)
        names = set(self._invocation.arguments.schema["properties"])
        if names != set(self.template.names):
            raise TypeError(
                f"{definition['uri_template']} has the variables {sorted(self.template.names)}, "
                f"its function takes {sorted(names)}"
            )
        definition.setdefault("description", describe(fn))
        self.definition: Final = ResourceTemplate(**definition)

    async def read(self, ctx: Context[Any], uri: str) -> dict[str, Any] | None:
        """Read *uri* if the template matches it, else return None."""
        values = self.template.match(uri)
        if values is None:
            return None
        try:
            bound = self._invocation.bind(values, strict=False)
        except InvalidMessage as exc:
            raise Refusal(ErrorCode.INVALID_PARAMS, f"{uri}: {exc}", {"uri": uri}) from None
        with own_fault():
            value = await self._invocation(ctx, bound)
            return _read_result(ctx, value, uri, self.definition.mime_type)


def _read_result(ctx: Context[Any], value: Any, uri: str, mime_type: str | None) -> dict[str, Any]:
    whole = isinstance(value, ReadResourceResult)
    if whole:
        result = value
    else:
        parts = value if isinstance(value, list | tuple) else (value,)
        if not all(isinstance(part, (*_CONTENTS, str, bytes)) for part in parts):
            parts = (value,)  # a list of data is one JSON document
        result = ReadResourceResult(
            contents=tuple(_contents(part, uri, mime_type) for part in parts)
        )
    raw: dict[str, Any] = ctx.peer.codec.unstructure(result)
    if not whole:  # then how long it holds is for the server to say
        raw.pop("ttlMs", None)
        raw.pop("cacheScope", None)
    return raw


def _contents(value: Any, uri: str, mime_type: str | None) -> Contents:
    if isinstance(value, _CONTENTS):
        return value
    if isinstance(value, str):
        return TextResourceContents(uri=uri, text=value, mime_type=mime_type or "text/plain")
    if isinstance(value, bytes):
        blob = base64.b64encode(value).decode("ascii")
        return BlobResourceContents(
            uri=uri, blob=blob, mime_type=mime_type or "application/octet-stream"
        )
    output = output_of(type(value))
    text = msgspec.json.encode(value if output is None else output.encode(value)).decode()
    return TextResourceContents(uri=uri, text=text, mime_type=mime_type or "application/json")
