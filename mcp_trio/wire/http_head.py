"""The head of an HTTP request or response, and the ids that travel in it.

Source: RFC 9110 § 5 (fields); RFC 9112 § 3.2 (targets); 2025-11-25 basic/transports
§ Session Management and § Resumability and Redelivery.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import evolve, field, frozen

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

__all__ = [
    "SINGLE_VALUED",
    "Headers",
    "RawHeaders",
    "RequestHead",
    "format_event_id",
    "is_session_id",
    "parse_event_id",
]

RawHeaders: TypeAlias = "tuple[tuple[bytes, bytes], ...]"

#: Fields of which a message has one at most. Two of them are read differently by different
#: programs on the way, which is what attacks are made of; so they are refused.
SINGLE_VALUED: Final = frozenset(
    {
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-protocol-version",
        "mcp-session-id",
        "origin",
    }
)


@final
@frozen(repr=False)
class Headers:
    """The fields of a head: names in lower case, each with its values in order.

    Its repr has names only, since values are credentials and session ids (2025-11-25
    basic/transports § Session Management: "MUST handle session IDs securely").
    """

    _values: Mapping[str, list[str]]
    #: Names that came on several lines.
    repeated: frozenset[str] = frozenset()

    @classmethod
    def read(cls, raw: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Make headers of *raw*, which is what h11 and ASGI give."""
        values: dict[str, list[str]] = {}
        repeated: list[str] = []
        for name, value in raw:
            key = name.decode("latin-1").lower()
            text = value.decode("latin-1").strip(" \t")
            if key in values:
                values[key].append(text)
                repeated.append(key)
            else:
                values[key] = [text]
        return cls(values, frozenset(repeated) if repeated else frozenset())

    def get(self, name: str) -> str | None:
        """Return the first value of *name* (in lower case), None where it is absent."""
        values = self._values.get(name)
        return values[0] if values else None

    def all(self, name: str) -> tuple[str, ...]:
        """Return every value of *name* (in lower case)."""
        return tuple(self._values.get(name, ()))

    def refilled(self, raw: Iterable[tuple[bytes, bytes]], names: Container[bytes]) -> Headers:
        """Return these headers with what *raw* has for *names*, which are on one line each."""
        values = dict(self._values)
        for name, value in raw:
            if name in names:
                values[name.decode("latin-1")] = [value.decode("latin-1")]
        return Headers(values, self.repeated)

    def __repr__(self) -> str:
        return f"<Headers {' '.join(self._values)}>"


@final
@frozen(kw_only=True)
class RequestHead:
    """The head of a request.

    ``authority`` is that of a target in absolute form, which replaces ``Host``.
    """

    method: str
    path: str
    query: str = field(default="", repr=False)  # HTTP+SSE keeps its session id there
    authority: str | None = None
    headers: Headers

    @classmethod
    def read(
        cls, method: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> RequestHead:
        """Make a head of what h11 gives."""
        text = target.decode("latin-1")
        authority = None
        absolute = _ABSOLUTE_FORM.fullmatch(text)
        if absolute is not None:
            authority, text = absolute[1], absolute[2] or "/"
        path, _, query = text.partition("?")
        return cls(
            method=method.decode("latin-1"),
            path=path,
            query=query,
            authority=authority,
            headers=Headers.read(headers),
        )

    def refilled(self, raw: Iterable[tuple[bytes, bytes]], names: Container[bytes]) -> RequestHead:
        """Return this head with what *raw* has for *names* (`Headers.refilled`)."""
        return evolve(self, headers=self.headers.refilled(raw, names))

    @property
    def host(self) -> str | None:
        """The host asked for.

        With a target in absolute form a server "MUST ignore the received Host header field
        [...] and instead replace it with the host information of the request-target"
        (RFC 9112 § 3.2.2).
        """
        return self.headers.get("host") if self.authority is None else self.authority


_ABSOLUTE_FORM: Final = re.compile(r"https?://([^/?#]*)(.*)", re.IGNORECASE | re.DOTALL)


# ---------------------------------------------------------------- ids

_SESSION_ID: Final = re.compile(r"[\x21-\x7e]+")
_EVENT_ID: Final = re.compile(r"([A-Za-z0-9_-]{1,64})\.(0|[1-9][0-9]{0,17})")


def is_session_id(text: str) -> bool:
    """Tell whether *text* can be a session id.

    "MUST only contain visible ASCII characters (ranging from 0x21 to 0x7E)" (2025-03-26
    basic/transports § Session Management 1).
    """
    return _SESSION_ID.fullmatch(text) is not None


def format_event_id(stream: str, n: int) -> str:
    """Return the id of the *n*-th event of *stream*.

    It names its stream, so that a resumption finds it: event ids "SHOULD encode sufficient
    information to identify the originating stream" (2025-11-25 basic/transports
    § Resumability and Redelivery 1).

    Raises:
        ValueError: *stream* is no short word of ASCII letters, digits, ``-`` and ``_``, or
            *n* is negative or too large.
    """
    text = f"{stream}.{n}"
    if parse_event_id(text) is None:
        raise ValueError(f"no event id: {text!r}")
    return text


def parse_event_id(text: str) -> tuple[str, int] | None:
    """Return stream and number of an id that `format_event_id` has made, None for any other."""
    found = _EVENT_ID.fullmatch(text)
    return None if found is None else (found[1], int(found[2]))
