"""Unstructure hooks: from messages to JSON, with the members that the revision has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args, get_origin

import attrs
from cattrs.fns import identity
from cattrs.gen import make_dict_unstructure_fn_from_attrs, override

from mcp_trio.errors import InvalidMessage
from mcp_trio.types._meta import (
    RANK,
    Choose,
    OneOrMany,
    Read,
    Tagged,
    WireField,
    fields_at,
    is_live,
)

from ._kinds import without_absence

if TYPE_CHECKING:
    from collections.abc import Callable

    from cattrs import Converter


class Writers(dict[type, "Callable[[Any], Any]"]):
    """The unstructure hooks of one revision, by class; each is made when first asked for."""

    def __init__(self, revision: str, converter: Converter) -> None:
        super().__init__()
        self._revision: Final = revision
        self._rank: Final = RANK[revision]
        self._converter: Final = converter

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        if not is_live(cls, self._rank):
            raise InvalidMessage("$", f"no {cls.__name__} in revision {self._revision}")
        hook = self[cls] = self._message(cls)
        return hook

    def _message(self, cls: type) -> Callable[[Any], Any]:
        fields = fields_at(cls, self._revision)
        make: Any = make_dict_unstructure_fn_from_attrs
        inner: Callable[[Any], Any] = make(
            [field.attribute.evolve(type=Any) for field in fields],
            cls,
            self._converter,
            _cattrs_omit_if_default=True,
            _cattrs_use_linecache=False,
            **{
                field.attribute.name: override(
                    rename=field.wire_name,
                    omit_if_default=not field.emitted,
                    unstruct_hook=self._lazily(field) if field.lazy else self.hook(field.type),
                )
                for field in fields
            },
        )
        flat = [field.wire_name for field in fields if field.flat]
        return _spreading(inner, flat) if flat else inner

    def _lazily(self, field: WireField) -> Callable[[Any], Any]:
        hook: Callable[[Any], Any] | None = None

        def lazy(value: Any) -> Any:
            nonlocal hook
            if hook is None:
                hook = self.hook(field.type)
            return hook(value)

        return lazy

    def hook(self, kind: Any) -> Callable[[Any], Any]:
        """Return the hook for a field's type; absence has been dealt with before."""
        kind = without_absence(kind)
        if isinstance(kind, type) and attrs.has(kind):
            return self[kind]
        origin, args = get_origin(kind), get_args(kind)
        if origin is tuple:
            return self._array(args[0])
        if origin is Mapping:
            return self._object(args[1])
        if origin is Annotated:
            return self._annotated(*args[:2])
        return identity

    def _array(self, item: Any) -> Callable[[Any], Any]:
        inner = self.hook(item)
        if inner is identity:
            return list
        return lambda value: [inner(each) for each in value]

    def _object(self, item: Any) -> Callable[[Any], Any]:
        inner = self.hook(item)
        if inner is identity:
            return identity
        return lambda value: {name: inner(each) for name, each in value.items()}

    def _annotated(self, plain: Any, marker: Any) -> Callable[[Any], Any]:
        match marker:
            case Tagged() | Choose():
                return lambda value: self[value.__class__](value)
            case OneOrMany():
                return self._one_or_many(marker)
            case Read():
                return identity
        return self.hook(plain)

    def _one_or_many(self, marker: OneOrMany) -> Callable[[Any], Any]:
        def write(value: Any) -> Any:
            if value.__class__ is not tuple:
                return self[value.__class__](value)
            if self._rank >= marker.since:
                return [self[each.__class__](each) for each in value]
            if len(value) == 1:
                return self[value[0].__class__](value[0])
            raise InvalidMessage("$", f"one block of content in revision {self._revision}")

        return write


def _spreading(inner: Callable[[Any], Any], names: list[str]) -> Callable[[Any], Any]:
    """Put the members of these fields into the parent itself."""

    def spread(value: Any) -> Any:
        raw = inner(value)
        for name in names:
            raw.update(raw.pop(name, {}))
        return raw

    return spread
