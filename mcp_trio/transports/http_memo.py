"""Heads that h11 has parsed before: each distinct one is parsed once for all connections.

Requests to an endpoint have few distinct heads, but for two values: the digits of their
Content-Length and the characters of their Mcp-Session-Id. A head that differs from a known one
in nothing else parses the same, but for these two. `HeadCut` finds them in the raw bytes, in
a form so narrow that no other reading of it exists; a differential test holds it against h11.
What names its sender (credentials, cookies) is not kept here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, final

from attrs import evolve, frozen

if TYPE_CHECKING:
    from .http1 import Head

__all__ = ["HeadCut", "HeadMemo"]

_HOLES: Final = re.compile(
    rb"\r\n(?:[Cc]ontent-[Ll]ength: (?P<length>[0-9]{1,12})"
    rb"|[Mm][Cc][Pp]-[Ss]ession-[Ii][Dd]: (?P<session>[0-9A-Za-z._-]{1,128}))"
    rb"(?=\r\n[^ \t])"  # a folded line would go on with the value
)
_NAMES: Final = re.compile(rb"\n(content-length|mcp-session-id)[ \t]*:", re.IGNORECASE)
#: Larger heads, and heads beyond this number, are parsed each time.
_HEAD_BYTES: Final = 4_096
_HEADS: Final = 64
_PERSONAL: Final = frozenset({b"authorization", b"cookie", b"proxy-authorization"})


@final
@frozen
class HeadCut:
    """A head's bytes without the two values that may differ, and those values.

    Attributes:
        pieces: the bytes around the values; each ends in the name of the value that follows.
        length, session: the values; None where the head has no such field.
    """

    #: The fields whose values are cut out.
    NAMES: ClassVar[frozenset[bytes]] = frozenset({b"content-length", b"mcp-session-id"})

    pieces: tuple[bytes, ...]
    length: bytes | None
    session: bytes | None

    @classmethod
    def of(cls, text: bytes) -> HeadCut | None:
        """Cut *text*; None where it is too large, or has one of the fields in another form."""
        if len(text) > _HEAD_BYTES:
            return None
        pieces: list[bytes] = []
        values: dict[str, bytes] = {}
        at = found = 0
        for hole in _HOLES.finditer(text):
            found += 1
            kind = str(hole.lastgroup)
            pieces.append(text[at : hole.start(kind)])
            values[kind] = hole[kind]
            at = hole.end(kind)
        if found != len(values) or found != len(_NAMES.findall(text)):
            return None
        return cls((*pieces, text[at:]), values.get("length"), values.get("session"))

    def refill(self, head: Head) -> Head:
        """Return *head*, which has the same pieces, with the values of this one."""
        values = {b"content-length": self.length, b"mcp-session-id": self.session}
        headers = tuple([(name, values.get(name) or value) for name, value in head.headers])
        return evolve(head, headers=headers, facts=None, like=head)


#: What stands in a head that is kept: a session id is no one else's business.
_BLANK: Final = HeadCut((), b"0", b"-")


@final
class HeadMemo:
    """The heads of one server, the least recently parsed are forgotten first."""

    __slots__ = ("_heads",)

    def __init__(self) -> None:
        self._heads: dict[tuple[bytes, ...], Head] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def recall(self, cut: HeadCut) -> Head | None:
        """Return the head whose bytes *cut* is of, if one like it was kept."""
        like = self._heads.get(cut.pieces)
        return None if like is None else cut.refill(like)

    def keep(self, cut: HeadCut, head: Head) -> None:
        """Remember *head*, unless it names its sender."""
        if _PERSONAL.isdisjoint([name for name, _ in head.headers]):
            if len(self._heads) >= _HEADS:
                del self._heads[next(iter(self._heads))]
            self._heads[cut.pieces] = evolve(_BLANK.refill(head), like=None)
