"""Media types: what an ``Accept`` allows and what a ``Content-Type`` says.

Source: RFC 9110 § 8.3 (Content-Type), § 12.4.2 (weights), § 12.5.1 (Accept).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "BOTH",
    "JSON",
    "SSE",
    "Accepts",
    "MediaType",
    "is_json",
    "is_sse",
    "parse_media_type",
    "what_is_accepted",
]

JSON: Final = "application/json"
SSE: Final = "text/event-stream"


@final
@frozen
class MediaType:
    """A media type: its name and its parameters' names in lower case, the values as sent."""

    name: str
    parameters: Mapping[str, str]


@final
@frozen
class Accepts:
    """Which of the two forms of an answer can be sent."""

    json: bool
    sse: bool

    def __and__(self, other: Accepts) -> Accepts:
        return Accepts(self.json and other.json, self.sse and other.sse)

    def __bool__(self) -> bool:
        return self.json or self.sse


BOTH: Final = Accepts(json=True, sse=True)


_TOKEN: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # noqa: S105 - a token of RFC 9110 § 5.6.2
_QUOTED: Final = r'"(?:[^"\\]|\\.)*+"'
_NAME: Final = re.compile(rf"({_TOKEN}/{_TOKEN})[ \t]*")
_PARAMETER: Final = re.compile(rf";[ \t]*(?:({_TOKEN})=({_TOKEN}|{_QUOTED}))?[ \t]*")
#: The members of a list; a comma in a quoted string parts nothing. One that is never closed
#: reaches to the end, so that each character is looked at once.
_MEMBER: Final = re.compile(r'(?:"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[^,"])++', re.DOTALL)
_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


def parse_media_type(text: str) -> MediaType | None:
    """Return the media type or media range that *text* is, None where it is malformed."""
    text = text.strip(" \t")
    found = _NAME.match(text)
    if found is None:
        return None
    name, at = found[1].lower(), found.end()
    parameters: dict[str, str] = {}
    while at < len(text):
        found = _PARAMETER.match(text, at)
        if found is None:
            return None
        at = found.end()
        if found[1] is not None:
            parameters.setdefault(found[1].lower(), _unquoted(found[2]))
    return MediaType(name, parameters)


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


@lru_cache(maxsize=64)  # clients send the same few over and over
def is_json(text: str) -> bool:
    """Tell whether *text* is the content type of JSON in UTF-8.

    "JSON text exchanged between systems [...] MUST be encoded using UTF-8" (RFC 8259 § 8.1),
    so a charset is needless, and any other one is wrong.
    """
    media = parse_media_type(text)
    if media is None or media.name != JSON:
        return False
    return media.parameters.get("charset", "utf-8").lower() in ("utf-8", "utf8")


@lru_cache(maxsize=64)
def is_sse(text: str) -> bool:
    """Tell whether *text* is the content type of an event stream, which is always UTF-8."""
    media = parse_media_type(text)
    return media is not None and media.name == SSE


# ---------------------------------------------------------------- Accept


def what_is_accepted(lines: Sequence[str]) -> Accepts:
    """Return what the values of all ``Accept`` lines of a request allow.

    No ``Accept``, or one without a single member, is ``*/*``. Members that are malformed
    are ignored. The most specific range that matches decides, and ``q=0`` excludes.
    """
    return _accepted(", ".join(lines))


@lru_cache(maxsize=64)  # clients send the same few over and over
def _accepted(text: str) -> Accepts:
    members = [member for member in _MEMBER.findall(text) if member.strip(" \t")]
    if not members:
        return BOTH
    allowed: dict[str, bool] = {}
    for member in members:
        media = parse_media_type(member)
        weight = None if media is None else _WEIGHT.fullmatch(media.parameters.get("q", "1"))
        if media is not None and weight is not None:
            # Parameters of a range are not looked at: neither type has any to differ in.
            # Where ranges are alike but for them, one that is not excluded is enough.
            allowed[media.name] = allowed.get(media.name, False) or float(weight[0]) > 0
    return Accepts(json=_decides(allowed, JSON), sse=_decides(allowed, SSE))


def _decides(allowed: Mapping[str, bool], name: str) -> bool:
    for media_range in (name, name.partition("/")[0] + "/*", "*/*"):
        if media_range in allowed:
            return allowed[media_range]
    return False
