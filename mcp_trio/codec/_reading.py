"""Structure hooks: from JSON to messages, strictly, and the report of what does not fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    cast,
    get_args,
    get_origin,
)

import attrs
from cattrs import (
    BaseValidationError,
    Converter,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn_from_attrs, override

from mcp_trio.types._meta import (
    RANK,
    UNSET,
    Check,
    Choose,
    Fault,
    OneOrMany,
    Read,
    Tagged,
    Unset,
    WireField,
    fields_at,
    is_live,
    rule_of,
)

from ._kinds import can_be_absent, classes_of, is_id, is_json_object, without_absence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cattrs import AttributeValidationNote

    Hook = Callable[[Any, Any], Any]


def _strictly(accepted: type, *more: type, expected: str) -> tuple[Hook, Hook]:
    """Make the hook of a primitive, and the hook of "it or None"."""
    kinds = frozenset((accepted, *more))

    def strict(raw: Any, _: Any) -> Any:
        if raw.__class__ in kinds:
            return raw
        raise Fault(expected)

    def strict_or_none(raw: Any, _: Any) -> Any:
        if raw is None or raw.__class__ in kinds:
            return raw
        raise Fault(expected)

    return strict, strict_or_none


_STRING, _OPTIONAL_STRING = _strictly(str, expected="a string")
_INTEGER, _OPTIONAL_INTEGER = _strictly(int, expected="an integer")
_NUMBER, _OPTIONAL_NUMBER = _strictly(float, int, expected="a number")
_BOOLEAN, _OPTIONAL_BOOLEAN = _strictly(bool, expected="true or false")
_ID, _OPTIONAL_ID = _strictly(str, int, expected="a string or an integer")
_OBJECT, _OPTIONAL_OBJECT = _strictly(dict, expected="an object")

#: One call instead of two for the optional members that are the most frequent.
_OPTIONAL: Final = {
    _STRING: _OPTIONAL_STRING,
    _INTEGER: _OPTIONAL_INTEGER,
    _NUMBER: _OPTIONAL_NUMBER,
    _BOOLEAN: _OPTIONAL_BOOLEAN,
    _ID: _OPTIONAL_ID,
    _OBJECT: _OPTIONAL_OBJECT,
}


def _anything(raw: Any, _: Any) -> Any:
    return raw


class Shapes:
    """The structure hooks of one revision."""

    def __init__(self, revision: str, *, detailed: bool) -> None:
        self._revision: Final = revision
        self._rank: Final = RANK[revision]
        self._detailed: Final = detailed
        self.converter: Final = Converter(detailed_validation=detailed)
        self._register()

    def _register(self) -> None:
        converter = self.converter
        for primitive, hook in (
            (str, _STRING),
            (int, _INTEGER),
            (float, _NUMBER),
            (bool, _BOOLEAN),
        ):
            converter.register_structure_hook(primitive, hook)
        factories: tuple[tuple[Callable[[Any], bool], Callable[[Any], Hook]], ...] = (
            (attrs.has, self._message),
            (lambda kind: kind is Any, lambda _: _anything),
            (
                lambda kind: hasattr(kind, "__supertype__"),
                lambda kind: self.hook(kind.__supertype__),
            ),
            (lambda kind: get_origin(kind) is Literal, self._literal),
            (lambda kind: get_origin(kind) is tuple, self._array),
            (lambda kind: get_origin(kind) is Mapping, self._object),
            (can_be_absent, self._optional),
            (is_id, lambda _: _ID),
            (lambda kind: get_origin(kind) is Annotated, self._annotated),
        )
        for predicate, factory in factories:
            converter.register_structure_hook_factory(predicate, factory)

    def hook(self, kind: Any) -> Hook:
        """Return the hook for *kind*, called as ``hook(raw, None)``."""
        return self.converter.get_structure_hook(kind)

    def _literal(self, kind: Any) -> Hook:
        values = frozenset(get_args(kind))
        expected = " or ".join(repr(value) for value in get_args(kind))

        def literal(raw: Any, _: Any) -> Any:
            if raw.__class__ is str and raw in values:
                return raw
            raise Fault(expected)

        return literal

    def _optional(self, kind: Any) -> Hook:
        present = without_absence(kind)
        if get_origin(present) is Annotated and isinstance(get_args(present)[1], Read):
            return self._read_or_none(get_args(present)[1])
        inner = self.hook(present)
        absent = UNSET if Unset in get_args(kind) else None
        fused = _OPTIONAL.get(inner)
        if fused is not None and absent is None:
            return fused
        # Where null is a value of its own, the type is Any: only there is it not absence.
        null_is_value = present is Any

        def optional(raw: Any, _: Any) -> Any:
            return absent if raw is None and not null_is_value else inner(raw, None)

        return optional

    def _array(self, kind: Any) -> Hook:
        item = get_args(kind)[0]
        inner = self.hook(item)

        def array(raw: Any, _: Any) -> Any:
            if raw.__class__ is not list:
                raise Fault("an array")
            return tuple([inner(each, None) for each in raw])

        def detailed(raw: Any, _: Any) -> Any:
            if raw.__class__ is not list:
                raise Fault("an array")
            return tuple(each for _, each in _collect(enumerate(raw), inner, kind))

        return detailed if self._detailed else array

    def _object(self, kind: Any) -> Hook:
        if is_json_object(kind):
            return _OBJECT
        inner = self.hook(get_args(kind)[1])

        def mapping(raw: Any, _: Any) -> Any:
            if raw.__class__ is not dict:
                raise Fault("an object")
            return {name: inner(each, None) for name, each in raw.items()}

        def detailed(raw: Any, _: Any) -> Any:
            if raw.__class__ is not dict:
                raise Fault("an object")
            return dict(_collect(raw.items(), inner, kind))

        return detailed if self._detailed else mapping

    def _annotated(self, kind: Any) -> Hook:
        plain, marker = get_args(kind)[:2]
        match marker:
            case Read():
                return self._read(marker)
            case Check():
                return self._check(self.hook(plain), marker)
            case Tagged():
                return self._tagged(plain, marker)
            case Choose():
                return self._choose(plain, marker)
            case _:
                return self._one_or_many(plain, marker)

    def _read(self, marker: Read) -> Hook:
        function, rank = marker.function, self._rank
        return lambda raw, _: function(raw, rank)

    def _read_or_none(self, marker: Read) -> Hook:
        function, rank = marker.function, self._rank
        return lambda raw, _: None if raw is None else function(raw, rank)

    def _check(self, inner: Hook, marker: Check) -> Hook:
        holds, expected = marker.holds, marker.expected

        def check(raw: Any, _: Any) -> Any:
            value = inner(raw, None)
            if holds(value):
                return value
            raise Fault(expected)

        return check

    def _tagged(self, union: Any, marker: Tagged) -> Hook:
        tag = marker.tag
        live = [cls for cls in classes_of(union) if is_live(cls, self._rank)]
        hooks = {_constant(cls, tag): self.hook(cls) for cls in live}
        expected = " or ".join(repr(value) for value in hooks)

        def tagged(raw: Any, _: Any) -> Any:
            if raw.__class__ is not dict:
                raise Fault("an object")
            value = raw.get(tag)
            hook = hooks.get(value) if value.__class__ is str else None
            if hook is None:
                raise Fault(expected, tag)
            return hook(raw, None)

        return tagged

    def _choose(self, union: Any, marker: Choose) -> Hook:
        choose, rank = marker.choose, self._rank
        hooks = {cls.__name__: self.hook(cls) for cls in classes_of(union) if is_live(cls, rank)}

        def chosen(raw: Any, _: Any) -> Any:
            if raw.__class__ is not dict:
                raise Fault("an object")
            hook = hooks.get(choose(raw, rank) or "")
            if hook is None:
                raise Fault(marker.expected)
            return hook(raw, None)

        return chosen

    def _one_or_many(self, kind: Any, marker: OneOrMany) -> Hook:
        one_kind, many_kind = get_args(kind)
        one = self.hook(one_kind)
        if self._rank < marker.since:
            return one
        many = self.hook(many_kind)
        return lambda raw, _: (many if raw.__class__ is list else one)(raw, None)

    def _lazily(self, field: WireField) -> Hook:
        """Resolve the field's type at its first value."""
        hook: Hook | None = None

        def lazy(raw: Any, _: Any) -> Any:
            nonlocal hook
            if hook is None:
                hook = self._field_hook(field)
            return hook(raw, None)

        return lazy

    def _field_hook(self, field: WireField) -> Hook:
        # Required although the class has a default: null does not count as present.
        required_here = field.required and field.attribute.default is not attrs.NOTHING
        return self.hook(without_absence(field.type) if required_here else field.type)

    def _message(self, cls: Any) -> Hook:
        """Make the hook of one class from the fields that the revision has."""
        if not is_live(cls, self._rank):
            return _refuse(f"no {cls.__name__} in this revision")
        fields = fields_at(cls, self._revision)
        make: Any = make_dict_structure_fn_from_attrs
        inner = make(
            [_required_or_not(field) for field in fields],
            cls,
            self.converter,
            _cattrs_use_linecache=False,
            _cattrs_detailed_validation=self._detailed,
            **{
                field.attribute.name: override(
                    rename=field.wire_name,
                    struct_hook=self._lazily(field) if field.lazy else self._field_hook(field),
                )
                for field in fields
            },
        )
        flat = [field.wire_name for field in fields if field.flat]
        if flat:
            inner = _gathering(inner, flat)
        # Without a detailed report a first `raw["name"]` refuses all but objects by itself.
        if self._detailed or not any(field.required for field in fields):
            inner = _demanding_object(inner)
        rule = rule_of(cls)
        return inner if rule is None else _ruled(inner, rule, self._rank)


def _collect(items: Any, inner: Hook, kind: Any) -> list[tuple[Any, Any]]:
    """Structure each item and report all that do not fit, as cattrs itself does."""
    good, bad = [], []
    for key, raw in items:
        try:
            good.append((key, inner(raw, None)))
        except (Fault, BaseValidationError) as exc:
            exc.__notes__ = [IterableValidationNote("", key, kind)]
            bad.append(exc)
    if bad:
        raise IterableValidationError("", bad, kind)
    return good


def _constant(cls: type, name: str) -> Any:
    """Return the only value of a constant member: its default."""
    return getattr(attrs.fields(cls), name).default


def _refuse(expected: str) -> Hook:
    def refuse(_raw: Any, _: Any) -> NoReturn:
        raise Fault(expected)

    return refuse


def _required_or_not(field: WireField) -> attrs.Attribute[Any]:
    """Give cattrs the attribute as this revision sees it: demanded means without default."""
    if field.required:
        return field.attribute.evolve(default=attrs.NOTHING, type=Any)
    return field.attribute.evolve(type=Any)


def _gathering(inner: Hook, names: list[str]) -> Hook:
    """Let the members that stand in the parent be read as if they stood in one of their own."""
    return lambda raw, _: inner({**raw, **dict.fromkeys(names, raw)}, None)


def _demanding_object(inner: Hook) -> Hook:
    def message(raw: Any, _: Any) -> Any:
        if raw.__class__ is not dict:
            raise Fault("an object")
        return inner(raw, None)

    return message


def _ruled(inner: Hook, rule: Callable[[Any, int], Fault | None], rank: int) -> Hook:
    """Apply the rule that binds the members of a message together."""

    def ruled(raw: Any, _: Any) -> Any:
        value = inner(raw, None)
        fault = rule(value, rank)
        if fault is not None:
            raise fault
        return value

    return ruled


#: A hostile value must not make a report as large as itself.
_MOST_PROBLEMS: Final = 16


def explain(raw: object, kind: Any, revision: str) -> tuple[tuple[str, str], ...]:
    """Go over a value that does not fit once more, and name its faults: (path, expected)."""
    try:
        _detailed_shapes(revision).hook(kind)(raw, None)
    except (Fault, BaseValidationError) as exc:
        return tuple(islice(_problems(exc, "$", revision), _MOST_PROBLEMS))
    raise AssertionError("two passes over one value disagree")


@cache
def _detailed_shapes(revision: str) -> Shapes:
    return Shapes(revision, detailed=True)


def _problems(exc: Exception, path: str, revision: str) -> Iterator[tuple[str, str]]:
    """Walk an error tree of cattrs: each fault with its path, in wire names."""
    if isinstance(exc, BaseValidationError):
        for inner in exc.exceptions:
            yield from _problems(inner, path + _step(inner, exc.cl, revision), revision)
    elif isinstance(exc, Fault):
        yield path + "".join(_member(part) for part in exc.where), exc.expected
    else:
        # KeyError: the hook asked for a member that is not there.
        yield path, "required, but absent"


def _step(exc: Exception, cls: type, revision: str) -> str:
    """Return the piece of the path between a value and the part of it where *exc* arose."""
    note = exc.__notes__[-1]
    if isinstance(note, IterableValidationNote):
        return _member(note.index)
    named = cast("AttributeValidationNote", note).name
    field = next(field for field in fields_at(cls, revision) if field.attribute.name == named)
    return "" if field.flat else _member(field.wire_name)


def _member(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part}" if part.isidentifier() else f"[{json.dumps(part)}]"
