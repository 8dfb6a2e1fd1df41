"""Questions about the types of fields."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from mcp_trio.types._meta import Unset


def is_union(kind: Any) -> bool:
    return get_origin(kind) in {Union, UnionType}


def without_absence(kind: Any) -> Any:
    """Strip None and Unset from a union."""
    if not is_union(kind):
        return kind
    rest = tuple(arg for arg in get_args(kind) if arg not in {NoneType, Unset})
    return Union[rest]  # noqa: UP007 - the members are known at run time only


def can_be_absent(kind: Any) -> bool:
    return is_union(kind) and without_absence(kind) != kind


def is_id(kind: Any) -> bool:
    return is_union(kind) and set(get_args(kind)) == {str, int}


def is_json_object(kind: Any) -> bool:
    return get_origin(kind) is Mapping and get_args(kind) == (str, Any)


def classes_of(union: Any) -> tuple[type, ...]:
    """Return the classes of a union."""
    members: tuple[type, ...] = get_args(union)
    return members
