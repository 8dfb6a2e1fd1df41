"""URI templates, RFC 6570 levels 1 to 3: expand one, and match a URI against one.

RFC 6570 defines expansion only. Matching is its inverse here, made for resource templates,
where what a variable matches often ends up in a file name or a query:

* A variable of ``{var}``, ``{.var}``, ``{/var}`` or ``{;var}`` never holds a slash, neither
  plain nor as ``%2F``. ``{+var}`` may; it ends before ``?`` and ``#``. A value ends where an
  expression right after it begins: in ``{name}{.kind}`` at the first dot.
* A URI with a ``..`` segment, a backslash or a NUL, plain or percent-encoded, matches nothing.
* Values are percent-decoded once, as UTF-8. Where several splits are possible, earlier
  variables take as much as they can.
* A matched value is not empty, except a named one (``?q=``).
* Named variables (``{?a,b}``, ``{&a,b}``, ``{;a,b}``) come in any order and may be absent;
  names that the template does not know match nothing. Trailing variables of ``{/a,b}``,
  ``{.a,b}`` and ``{#a,b}`` may be absent too. Absent variables are not in the result.

Matching takes time proportional to the length of the URI times that of the template.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, final
from urllib.parse import quote, unquote

from attrs import evolve, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["UriTemplate"]

# Precedent: HTTP servers stop at request lines of 8 KiB.
_LONGEST_URI: Final = 8192

# RFC 3986 section 2.2 and 2.3.
_RESERVED: Final = ":/?#[]@!$&'()*+,;="
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_TRIPLET: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_UNIT: Final = re.compile(r"%[0-9A-F]{2}|[^%]")
_PIECE: Final = re.compile(r"\{(?P<expression>[^{}]*)\}|(?P<literal>[^{}]+)|(?P<stray>[{}])")
# RFC 6570 section 2.3.
_NAME: Final = re.compile(
    r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})(?:\.?(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*"
)
# RFC 6570 section 2.1: what a literal must not contain.
_NO_LITERAL: Final = re.compile(r"[\x00-\x20\"'<>\\^`|\x7f]|%(?![0-9A-Fa-f]{2})")


@final
@frozen
class _Operator:
    """One row of the table in RFC 6570 appendix A, and what a value matches."""

    first: str
    separator: str
    named: bool
    empty: str
    safe: str
    #: What ends a matched value; the separator does so as well if there are several.
    ends: str
    slash: bool


_OPERATORS: Final[Mapping[str, _Operator]] = {
    "": _Operator("", ",", False, "", "", "/?#", False),
    "+": _Operator("", ",", False, "", _RESERVED, "?#", True),
    "#": _Operator("#", ",", False, "", _RESERVED, "", True),
    ".": _Operator(".", ".", False, "", "", "/?#", False),
    "/": _Operator("/", "/", False, "", "", "/?#", False),
    ";": _Operator(";", ";", True, "", "", "/?#", False),
    "?": _Operator("?", "&", True, "=", "", "#", True),
    "&": _Operator("&", "&", True, "=", "", "#", True),
}


@final
@frozen
class _Expression:
    """``{+a,b}``: an operator and the names it expands."""

    operator: _Operator
    names: tuple[str, ...]

    def expand(self, values: Mapping[str, object]) -> str:
        """Return the expansion; names without a value leave no trace (RFC 6570 section 3.2)."""
        operator = self.operator
        parts = []
        for name in self.names:
            if (value := values.get(name)) is not None:
                text = _encode(str(value), operator.safe)
                if operator.named:
                    text = f"{name}={text}" if text else name + operator.empty
                parts.append(text)
        return operator.first + operator.separator.join(parts) if parts else ""


@final
@frozen
class _Fixed:
    """Units that a URI must show as they are."""

    units: list[str]

    def ends(self, units: list[str], after: list[bool]) -> list[int | None]:
        """Return for each position where a match ends from which the rest matches, or None."""
        wanted, size = self.units, len(self.units)
        return [
            start + size if units[start : start + size] == wanted and after[start + size] else None
            for start in range(len(units) + 1)
        ]


@final
@frozen
class _Slot:
    """A value, or with *named* a whole list of ``name=value``, after a *lead* character.

    Attributes:
        names: the variables it may set; one unless *named*.
        lead: the character before it, or "".
        stops: units that end it.
        skip: the token to go on with if it is absent; None if it must be there.
    """

    names: tuple[str, ...]
    lead: str
    stops: frozenset[str]
    skip: int | None
    operator: _Operator

    def ends(self, units: list[str], after: list[bool]) -> list[int | None]:
        """Return for each position where the longest match ends from which the rest matches."""
        count = len(units)
        furthest: list[int | None] = [None] * (count + 1)
        for start in range(count, -1, -1):
            if start < count and units[start] not in self.stops:
                furthest[start] = furthest[start + 1]
            if furthest[start] is None and after[start]:
                furthest[start] = start
        found: list[int | None] = [None] * (count + 1)
        for start in range(count):
            body = start + len(self.lead)
            led = not self.lead or units[start] == self.lead
            if led and body < count and units[body] not in self.stops:
                found[start] = furthest[body + 1]
        return found

    def values(self, text: str) -> dict[str, str] | None:
        """Return what the matched *text*, without lead, sets; None if it must not be."""
        if not self.operator.named:
            pairs = [(self.names[0], text)]
        else:
            pieces = [piece.partition("=") for piece in text.split(self.operator.separator)]
            pairs = [(name, value) for name, _, value in pieces]
        found: dict[str, str] = {}
        for name, raw in pairs:
            value = _decode(raw, slash=self.operator.slash)
            if name not in self.names or name in found or value is None:
                return None
            found[name] = value
        return found


@final
class UriTemplate:
    """An RFC 6570 template of level 1, 2 or 3. Immutable.

    Raises:
        ValueError: the template is malformed, names a variable twice, or needs level 4
            (``{var:3}``, ``{var*}``).
    """

    __slots__ = ("_pieces", "_tokens", "names", "template")

    def __init__(self, template: str) -> None:
        self.template: Final = template
        self._pieces: Final = _parse(template)
        expressions = [piece for piece in self._pieces if isinstance(piece, _Expression)]
        #: The variables, in order.
        self.names: Final = tuple(name for each in expressions for name in each.names)
        for name in self.names:
            if self.names.count(name) > 1:
                raise ValueError(f"variable {name!r} stands twice in {template!r}")
        self._tokens: Final = _tokens(self._pieces)

    def __repr__(self) -> str:
        return f"UriTemplate({self.template!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UriTemplate) and self.template == other.template

    def __hash__(self) -> int:
        return hash(self.template)

    def expand(self, values: Mapping[str, object]) -> str:
        """Return the URI for *values*; a variable that is missing or None is left out."""
        return "".join(
            piece if isinstance(piece, str) else piece.expand(values) for piece in self._pieces
        )

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded variables of *uri*, or None if it does not match or is unsafe.

        The module's docstring has the rules.
        """
        units = _units(uri)
        if units is None or _climbs(units):
            return None
        ends = _solve(self._tokens, units)
        found: dict[str, str] = {}
        position, index = 0, 0
        while index < len(self._tokens):
            token, end = self._tokens[index], ends[index][position]
            if end is None:
                if isinstance(token, _Fixed) or token.skip is None:
                    return None
                index = token.skip
                continue
            if isinstance(token, _Slot):
                values = token.values("".join(units[position + len(token.lead) : end]))
                if values is None:
                    return None
                found |= values
            position, index = end, index + 1
        return found if position == len(units) else None


def _solve(tokens: list[_Fixed | _Slot], units: list[str]) -> list[list[int | None]]:
    """Return for each token and position where the token ends so that all after it match."""
    matches: list[list[bool]] = [[]] * len(tokens)
    matches.append([False] * len(units) + [True])
    ends: list[list[int | None]] = [[]] * len(tokens)
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        ends[index] = token.ends(units, matches[index + 1])
        matches[index] = [end is not None for end in ends[index]]
        if isinstance(token, _Slot) and token.skip is not None:
            without = matches[token.skip]
            matches[index] = [a or b for a, b in zip(matches[index], without, strict=True)]
    return ends


def _parse(template: str) -> tuple[str | _Expression, ...]:
    """Split *template* into normalised literals and expressions."""
    pieces: list[str | _Expression] = []
    for piece in _PIECE.finditer(template):
        if piece["literal"]:
            if bad := _NO_LITERAL.search(piece["literal"]):
                raise ValueError(f"{bad[0]!r} must not stand in the URI template {template!r}")
            pieces.append(_encode(piece["literal"], _RESERVED))
        elif piece["stray"]:
            raise ValueError(f"unbalanced {piece['stray']!r} in the URI template {template!r}")
        else:
            pieces.append(_expression(piece["expression"], template))
    return tuple(pieces)


def _expression(text: str, template: str) -> _Expression:
    """Parse what stands between braces."""
    sign = text[:1] if text[:1] in _OPERATORS else ""
    names = tuple(text[len(sign) :].split(","))
    for name in names:
        if _NAME.fullmatch(name):
            continue
        if re.search(r"[A-Za-z0-9_](?:\*|:[0-9]*)\Z", name):
            raise ValueError(
                f"{{{text}}} in {template!r} needs level 4 of RFC 6570 "
                "(prefix or explode), which is not supported"
            )
        raise ValueError(f"{{{text}}} in {template!r} is no expression of RFC 6570")
    return _Expression(_OPERATORS[sign], names)


def _tokens(pieces: tuple[str | _Expression, ...]) -> list[_Fixed | _Slot]:
    """Turn the pieces of a template into what the matcher works on."""
    tokens: list[_Fixed | _Slot] = []
    for piece in pieces:
        if isinstance(piece, str):
            tokens.append(_Fixed(_UNIT.findall(_normalise(piece))))
        elif piece.operator.named:
            _append_named(tokens, piece)
        else:
            _append_values(tokens, piece)
    return _fenced(tokens)


def _fenced(tokens: list[_Fixed | _Slot]) -> list[_Fixed | _Slot]:
    """Let each value end where the expression right after it begins: ``{name}{.kind}``."""
    leads: set[str] = set()
    fenced: list[_Fixed | _Slot] = []
    for token in reversed(tokens):
        if isinstance(token, _Fixed):
            leads.clear()
            fenced.append(token)
        else:
            # A value that may hold slashes ends only at what is neither path nor name.
            fences = leads & {";", "&"} if token.operator.safe else leads
            fenced.append(evolve(token, stops=token.stops | fences))
            leads |= set(token.lead)
    return fenced[::-1]


def _append_named(tokens: list[_Fixed | _Slot], piece: _Expression) -> None:
    """Append one slot for all names; ``{?a}{&b}`` is one list of parameters."""
    operator, names, lead = piece.operator, piece.names, piece.operator.first
    last = tokens[-1] if tokens else None
    if isinstance(last, _Slot) and last.operator.separator == lead == "&":
        operator, names, lead = last.operator, last.names + names, last.lead
        tokens.pop()
    tokens.append(_Slot(names, lead, frozenset(operator.ends), len(tokens) + 1, operator))


def _append_values(tokens: list[_Fixed | _Slot], piece: _Expression) -> None:
    """Append one slot for each name, with what stands between them."""
    operator, several = piece.operator, len(piece.names) > 1
    stops = frozenset(operator.ends + (operator.separator if several else ""))
    skip = len(tokens) + len(piece.names) if operator.first else None
    lead = operator.first
    for name in piece.names:
        tokens.append(_Slot((name,), lead, stops, skip, operator))
        lead = operator.separator


def _encode(text: str, safe: str) -> str:
    """Percent-encode *text*; with *safe* characters, triplets stay too (RFC 6570 section 3.2.1)."""
    if not safe:
        return quote(text, safe="")
    pieces = []
    start = 0
    for triplet in _TRIPLET.finditer(text):
        pieces += [quote(text[start : triplet.start()], safe=safe), triplet[0]]
        start = triplet.end()
    return "".join([*pieces, quote(text[start:], safe=safe)])


def _normalise(text: str) -> str:
    """Return *text* with each character either plain ASCII or one upper-case triplet."""

    def canonical(triplet: re.Match[str]) -> str:
        character = chr(int(triplet[0][1:], 16))
        return character if character in _UNRESERVED else triplet[0].upper()

    # What no URI may hold is encoded like any other character: a space, a quote, an umlaut.
    return _TRIPLET.sub(canonical, quote(text, safe=_RESERVED + "%"))


def _units(uri: str) -> list[str] | None:
    """Return the characters and triplets of *uri*, normalised; None if it is no URI."""
    if len(uri) > _LONGEST_URI or re.search(r"%(?![0-9A-Fa-f]{2})", uri):
        return None
    try:
        return _UNIT.findall(_normalise(uri))
    except UnicodeEncodeError:  # a lone surrogate
        return None


def _climbs(units: list[str]) -> bool:
    """Tell whether the path or anything else in *units* has a ``..``, a backslash or a NUL."""
    text = "".join(units)
    if "%5C" in text or "%00" in text:
        return True
    path = re.split(r"[?#]", text, maxsplit=1)[0]
    return ".." in path.replace("%2F", "/").split("/")


def _decode(raw: str, *, slash: bool) -> str | None:
    """Return *raw* decoded, or None if it is unsafe or no UTF-8."""
    try:
        value = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    if ".." in value.split("/") or ("/" in value and not slash):
        return None
    return value
