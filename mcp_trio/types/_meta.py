"""How a Python class is tied to the wire: revisions, field metadata and the rules for values.

Each MCP message is one class with the fields of all revisions. What differs between
revisions stands beside the field, as data: :func:`wire` in the field's metadata says which
revisions have the member and how it is spelt there, :func:`live` says the same of a whole
class. :mod:`mcp_trio.codec` reads both; nothing else does.
"""

from __future__ import annotations

import sys
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

R2024_11_05: Final = "2024-11-05"
R2025_03_26: Final = "2025-03-26"
R2025_06_18: Final = "2025-06-18"
R2025_11_25: Final = "2025-11-25"
R2026_07_28: Final = "2026-07-28"

#: The revisions this package speaks, oldest first.
REVISIONS: Final = (R2024_11_05, R2025_03_26, R2025_06_18, R2025_11_25, R2026_07_28)

# Versions are opaque strings (revisions.md): they are ordered by this table, never by `<`.
RANK: Final[Mapping[str, int]] = {revision: rank for rank, revision in enumerate(REVISIONS)}

_FOREVER: Final = len(REVISIONS)


class Unset(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "UNSET"

    def __bool__(self) -> bool:
        return False


#: The value of a member that is absent, where null would be a value of its own.
UNSET: Final = Unset.UNSET


class Fault(ValueError):
    """A value does not fit; the codec turns it into ``InvalidMessage``.

    Attributes:
        expected: what was expected there.
        where: the way from the value at hand to the fault: member names and indices.
    """

    def __init__(self, expected: str, *where: str | int) -> None:
        super().__init__(expected)
        self.expected: Final = expected
        self.where: Final = where


class Wire:
    """What :func:`wire` keeps about a field."""

    __slots__ = ("before", "emitted", "flat", "lazy", "name", "nullable", "required", "span")

    def __init__(self) -> None:
        self.name: str | None = None
        self.span = (0, _FOREVER)
        self.required: frozenset[int] | None = None
        self.emitted = False
        self.nullable = False
        self.lazy = False
        self.flat = _FOREVER
        self.before: tuple[int, str | None, str | None] | None = None


def wire(
    name: str | None = None,
    *,
    since: str = R2024_11_05,
    until: str | None = None,
    required: Iterable[str] | None = None,
    emitted: bool = False,
    nullable: bool = False,
    lazy: bool = False,
    flat_since: str | None = None,
    before: tuple[str, str | None, str | None] | None = None,
) -> dict[str, Wire]:
    """Return the metadata of a field.

    Args:
        name: the wire name where it is not the Python name in camelCase.
        since: the first revision that has the member.
        until: the first later revision that no longer has it.
        required: the revisions that demand the member although the field has a default.
            Without it: all of them for a field without a default, none for one with.
        emitted: always send it, but take the default for it when a peer leaves it out.
        nullable: null is a value (None here) and is sent.
        lazy: resolve the field's type at its first value, so that a class of another
            chapter is made only where it occurs.
        flat_since: from this revision on the value's members stand in the parent itself.
        before: ``(revision, name, type)``: the wire name and the type (as an annotation's
            text) that older revisions have; None means "the same".
    """
    kept = Wire()
    kept.name = name
    kept.span = (RANK[since], _FOREVER if until is None else RANK[until])
    kept.required = None if required is None else frozenset(RANK[r] for r in required)
    kept.emitted = emitted
    kept.nullable = nullable
    kept.lazy = lazy
    kept.flat = _FOREVER if flat_since is None else RANK[flat_since]
    kept.before = None if before is None else (RANK[before[0]], before[1], before[2])
    return {"wire": kept}


Rule = "Callable[[Any, int], Fault | None]"

_C = TypeVar("_C", bound=type)


def live(
    *,
    since: str = R2024_11_05,
    until: str | None = None,
    rule: Callable[[Any, int], Fault | None] | None = None,
) -> Callable[[_C], _C]:
    """Say which revisions have a class, and which rule binds its members together.

    Args:
        since: the first revision that has it.
        until: the first later revision that no longer has it.
        rule: called with a value that came in and the revision's rank; returns what is wrong.
    """

    def mark(cls: _C) -> _C:
        _SPANS[cls] = (RANK[since], _FOREVER if until is None else RANK[until])
        if rule is not None:
            _RULES[cls] = rule
        return cls

    return mark


_SPANS: Final[dict[type, tuple[int, int]]] = {}
_RULES: Final[dict[type, Callable[[Any, int], Fault | None]]] = {}


def is_live(cls: type, rank: int) -> bool:
    """Tell whether the revision of *rank* has *cls*."""
    since, until = _SPANS.get(cls, (0, _FOREVER))
    return since <= rank < until


def rule_of(cls: type) -> Callable[[Any, int], Fault | None] | None:
    """Return the rule that binds the members of *cls* together, if it has one."""
    return _RULES.get(cls)


class Check:
    """``Annotated[T, Check(...)]``: a T for which *holds* is true."""

    __slots__ = ("expected", "holds")

    def __init__(self, holds: Callable[[Any], bool], expected: str) -> None:
        self.holds: Final = holds
        self.expected: Final = expected


class Read:
    """``Annotated[T, Read(function)]``: ``function(raw, rank)`` makes the T or raises Fault.

    The value is JSON as it stands, so that it needs no work on the way out.
    """

    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, int], Any]) -> None:
        self.function: Final = function


class Tagged:
    """``Annotated[A | B, Tagged("type")]``: the constant member *tag* tells the classes apart."""

    __slots__ = ("tag",)

    def __init__(self, tag: str) -> None:
        self.tag: Final = tag


class Choose:
    """``Annotated[A | B, Choose(...)]``: ``choose(raw, rank)`` names the class of an object."""

    __slots__ = ("choose", "expected")

    def __init__(self, choose: Callable[[Any, int], str | None], expected: str) -> None:
        self.choose: Final = choose
        self.expected: Final = expected


class OneOrMany:
    """``Annotated[T | tuple[T, ...], OneOrMany(since)]``: an array or, before *since* only, one."""

    __slots__ = ("since",)

    def __init__(self, since: str) -> None:
        self.since: Final = RANK[since]


class WireField:
    """A field as one revision has it.

    Attributes:
        attribute: the attrs field.
        wire_name: how the member is spelt.
        required: whether a message without it is malformed.
        emitted: whether it is sent even when it equals the default.
        flat: whether its members stand in the parent itself.
    """

    __slots__ = ("_owner", "_text", "attribute", "emitted", "flat", "lazy", "required", "wire_name")

    def __init__(self, owner: type, attribute: attrs.Attribute[Any], rank: int) -> None:
        kept: Wire = attribute.metadata.get("wire", _PLAIN)
        has_default = attribute.default is not attrs.NOTHING
        name = kept.name
        text: Any = attribute.type  # a str: the chapters postpone annotations
        if kept.before is not None and rank < kept.before[0]:
            name, text = kept.before[1] or name, kept.before[2] or text
        self._owner: Final = owner
        self._text: Final = text
        self.attribute: Final = attribute
        self.wire_name: Final = name or camel_case(attribute.name)
        self.required: Final = not has_default if kept.required is None else rank in kept.required
        self.emitted: Final = (
            not has_default
            or kept.emitted
            or (self.required and (kept.nullable or attribute.default is not None))
        )
        self.flat: Final = rank >= kept.flat
        self.lazy: Final = kept.lazy

    @property
    def type(self) -> Any:
        """The field's type, with the names of other chapters looked up."""
        namespace = vars(sys.modules[self._owner.__module__])
        return eval(self._text, namespace, _NAMES)  # noqa: S307 - our own annotation


_PLAIN: Final = Wire()


class _Names(dict[str, Any]):
    """The names an annotation may use beyond those of its module: all of ``mcp_trio.types``."""

    def __missing__(self, name: str) -> Any:
        package = sys.modules[__package__]
        if name not in package.__all__:
            raise KeyError(name)
        return getattr(package, name)


_NAMES: Final = _Names()


@cache
def fields_at(cls: type, revision: str) -> tuple[WireField, ...]:
    """Return the fields of *cls* that *revision* has, in the order of the class."""
    rank = RANK[revision]
    found = []
    for attribute in attrs.fields(cls):
        since, until = attribute.metadata.get("wire", _PLAIN).span
        if since <= rank < until:
            found.append(WireField(cls, attribute, rank))
    return tuple(found)


def camel_case(name: str) -> str:
    """Return the wire's spelling of a Python name."""
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)
