"""The headers that repeat parts of a request's body, so that it can be routed unread.

A client makes them with `routing_headers`. A server compares them with the body in three
steps, since other checks come in between: `check_version`, `check_routing` and, once the
tool is known, `check_params`. Each returns None or the reason for the refusal, which is
always 400 and ``HEADER_MISMATCH``. Which arguments of a tool are repeated is what its
``inputSchema`` says (`read_annotations`).

Source: 2026-07-28 basic/transports/streamable-http § Protocol Version Header, § Standard
Request Headers, § Custom Headers from Tool Parameters, § Value Encoding and § Server
Validation; server/tools § x-mcp-header; the tasks extension § Routing Headers.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, final

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .http_head import Headers

__all__ = [
    "check_params",
    "check_routing",
    "check_version",
    "decode_value",
    "encode_value",
    "read_annotations",
    "repeated_by",
    "routing_headers",
]

#: Names of properties from the arguments inward -> the header's name after ``Mcp-Param-``.
_Annotated: TypeAlias = "Mapping[tuple[str, ...], str]"

_METHOD: Final = "Mcp-Method"
_NAME: Final = "Mcp-Name"
_PARAM: Final = "Mcp-Param-"
_VERSION: Final = "MCP-Protocol-Version"

#: The member of the params that ``Mcp-Name`` repeats, where the method has one. The last
#: three are those of the tasks extension § Routing Headers.
_NAMED_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tools/call": "name",
        "prompts/get": "name",
        "resources/read": "uri",
        "tasks/get": "taskId",
        "tasks/update": "taskId",
        "tasks/cancel": "taskId",
    }
)
_VERSION_PATH: Final = ("params", "_meta", "io.modelcontextprotocol/protocolVersion")
_NOTHING: Final[_Annotated] = MappingProxyType({})


# ---------------------------------------------------------------- values

_OPENING: Final = "=?base64?"
_CLOSING: Final = "?="
_WRAPPED: Final = re.compile(r"=\?base64\?(.*)\?=")
#: What a field may hold unencoded. The clause lets a tab stand inside; we send none.
_READABLE: Final = re.compile(r"[\t\x20-\x7e]*")
#: Integers beyond have no header: a double does not hold them (server/tools § x-mcp-header).
_SAFE: Final = 2**53 - 1
#: A number of JSON. Longer ones are no safe integer, whatever they say.
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,19})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,2})?")


def encode_value(text: str) -> str:
    """Return how ``Mcp-Name`` or ``Mcp-Param-*`` says *text*: as it stands, or in base64.

    ``=?base64?...?=`` is for what no field can hold or would not keep, and for what looks
    like that form itself (2026-07-28 basic/transports/streamable-http
    § Value Encoding).

    Raises:
        ValueError: *text* holds a lone surrogate, which is no text in UTF-8.
    """
    # Both ends are looked at apart, so that `=?base64?=`, where they overlap, is encoded too:
    # not every reader takes it for a plain value.
    if _is_plain(text) and not (text.startswith(_OPENING) and text.endswith(_CLOSING)):
        return text
    return f"{_OPENING}{b64encode(text.encode()).decode()}{_CLOSING}"


def _is_plain(text: str) -> bool:
    """Tell whether a field keeps *text* as it is (RFC 9110 § 5.5): 0x20 to 0x7E, blanks inside."""
    return text.isascii() and text.isprintable() and text == text.strip(" ")


def decode_value(text: str) -> str:
    """Return what `encode_value` was given; any value may come encoded, needed or not.

    Blanks around it are no part of a field's value. The marker is case-sensitive, and
    base64 with wrong padding or letters of another alphabet is refused, as is what has a
    second spelling (RFC 4648 § 3.5).

    Raises:
        ValueError: it is no such value; the message says why.
    """
    text = text.strip(" \t")
    if _READABLE.fullmatch(text) is None:
        raise ValueError(f"{_shown(text)} has characters that must be encoded")
    wrapped = _WRAPPED.fullmatch(text)
    if wrapped is None:
        return text
    try:
        octets = b64decode(wrapped[1], validate=True)
    except ValueError:
        octets = None
    if octets is None or b64encode(octets).decode() != wrapped[1]:
        raise ValueError(f"{_shown(text)} holds no proper base64")
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{_shown(text)} holds no UTF-8") from None


def _text_of(value: object) -> str:
    """Return the text that stands for a JSON value: integers decimal, booleans in words.

    Raises:
        ValueError: it is none that a header can repeat; the message goes after "is".
    """
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # 42.0 is an integer in JSON Schema
        value = int(value)
    if not isinstance(value, int):
        raise ValueError("no string, integer or boolean")  # noqa: TRY004 - a value, not our type
    if abs(value) > _SAFE:
        raise ValueError("an integer beyond +-(2^53-1)")
    return f"{value:d}"


def _value_at(arguments: object, path: tuple[str, ...]) -> object:
    """Return the value at *path*, None where it or what should hold it is absent or null."""
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


# ---------------------------------------------------------------- what a client sends


def routing_headers(
    method: str, params: Mapping[str, object] | None, annotated: _Annotated = _NOTHING
) -> tuple[tuple[str, str], ...]:
    """Return the headers that go with a request, besides its protocol version.

    *annotated* is what `read_annotations` says of the tool that is called. An argument that is
    absent or null has no header (2026-07-28 basic/transports/streamable-http § Custom
    Headers from Tool Parameters).

    Raises:
        ValueError: a value cannot be in a header: the method has characters that no header
            can hold, the name or URI is no string, or an argument is no string, boolean or
            integer within +-(2^53-1). The message names it.
    """
    if not _is_plain(method):
        raise ValueError(f"$.method: {_shown(method)} cannot be in a header")
    headers = [(_METHOD, method)]
    member = _NAMED_BY.get(method)
    if member is not None:
        name = _value_at(params, (member,))
        if not isinstance(name, str):
            raise ValueError(f"{_path(('params', member))}: {method} needs a string here")
        headers.append((_NAME, _encoded(name, ("params", member))))
    for path, header in annotated.items():
        where = ("params", "arguments", *path)
        value = _value_at(params, where[1:])
        if value is not None:
            headers.append((_PARAM + header, _encoded(value, where)))
    return tuple(headers)


def _encoded(value: object, where: tuple[str, ...]) -> str:
    try:
        text = _text_of(value)
    except ValueError as exc:
        raise ValueError(f"{_path(where)}: it is {exc}, so no header can repeat it") from None
    try:
        return encode_value(text)
    except UnicodeEncodeError:
        raise ValueError(f"{_path(where)}: a lone surrogate is no text in UTF-8") from None


# ---------------------------------------------------------------- what a server checks


def repeated_by(method: str, params: Mapping[str, object] | None) -> object:
    """Return what ``Mcp-Name`` repeats of a request, None where it repeats nothing."""
    member = _NAMED_BY.get(method)
    return None if member is None or params is None else params.get(member)


def check_version(headers: Headers, version: str) -> str | None:
    """Say why ``MCP-Protocol-Version`` is not the *version* of the body, None where it is.

    The header and ``_meta`` name the same one (2026-07-28 basic/transports/streamable-http
    § Protocol Version Header).
    """
    return _compare(headers, _VERSION, _VERSION_PATH, version, encoded=False)


def check_routing(headers: Headers, method: str, params: Mapping[str, object] | None) -> str | None:
    """Say in what ``Mcp-Method`` or ``Mcp-Name`` is not what the body says, None where both are.

    A required header that is missing is refused like one that differs; values are compared
    with their case (2026-07-28 basic/transports/streamable-http § Server Validation and
    § Case Sensitivity). ``Mcp-Name`` is not looked at where the method has no name.
    """
    # Unspecified; but two programs on the way may read different ones of them.
    for name in sorted(headers.repeated):
        if name.startswith("mcp-"):
            return f"the header {_shown(name)} came more than once"
    reason = _compare(headers, _METHOD, ("method",), method, encoded=False)
    member = _NAMED_BY.get(method)
    if reason is not None or member is None:
        return reason
    name_of_body = _value_at(params, (member,))
    where = ("params", member)
    if isinstance(name_of_body, str):
        return _compare(headers, _NAME, where, name_of_body, encoded=True)
    given = headers.get(_NAME.lower())
    there = "missing" if given is None else _shown(given)
    return f"{_NAME} is {there}, and {_path(where)}, which it repeats, is no string"


def check_params(
    headers: Headers, arguments: Mapping[str, object] | None, annotated: _Annotated
) -> str | None:
    """Say which ``Mcp-Param-*`` is not what the arguments say, None where all of them are.

    *annotated* is what `read_annotations` says of the tool that is called; other headers of that
    kind are ignored. A value needs its header, and a header needs its value; integers are
    compared as numbers (2026-07-28 basic/transports/streamable-http § Server Behavior for
    Custom Headers).
    """
    for path, name in annotated.items():
        where = ("params", "arguments", *path)
        value = _value_at(arguments, path)
        reason = _compare(headers, _PARAM + name, where, value, encoded=True)
        if reason is not None:
            return reason
    return None


def _compare(
    headers: Headers, header: str, where: tuple[str, ...], wanted: object, *, encoded: bool
) -> str | None:
    """Say why *header* is not *wanted*, which stands at *where*; None wants it to be absent."""
    key = header.lower()
    if key in headers.repeated:
        return f"{header} came more than once"
    given = headers.get(key)
    if wanted is None:
        if given is None:
            return None
        return f"{header} is {_shown(given)}, but {_path(where)} has no value"
    try:
        text = _text_of(wanted)
    except ValueError as exc:
        return f"{header} cannot repeat {_path(where)}, which is {exc}"
    if given is None:
        return f"{header} is missing, but {_path(where)} is {_shown(text)}"
    if encoded:
        try:
            given = decode_value(given)
        except ValueError as exc:
            return f"{header} cannot be read, since {exc}; {_path(where)} is {_shown(text)}"
    if given == text or (not isinstance(wanted, (str, bool)) and _is_number(given, text)):
        return None
    return f"{header} is {_shown(given)}, but {_path(where)} is {_shown(text)}"


def _is_number(text: str, integer: str) -> bool:
    """Tell whether *text* is this *integer* in another form, exactly: 42.0 is 42.

    Integers are to be compared as numbers (2026-07-28 basic/transports/streamable-http
    § Server Validation).
    """
    return _NUMBER.fullmatch(text) is not None and Decimal(text) == int(integer)


# ---------------------------------------------------------------- what a tool's schema says

_ANNOTATION: Final = "x-mcp-header"
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 § 5.6.2
_PRIMITIVES: Final = ("string", "integer", "boolean")
_PROPERTIES: Final = "properties"
#: Keywords whose members are named by the author, so that no name there is a keyword.
_OF_NAMES: Final = frozenset(
    {
        "$defs",
        "definitions",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "patternProperties",
        _PROPERTIES,
    }
)
#: Keywords whose value is an instance or several, and no schema.
_OF_INSTANCES: Final = frozenset({"const", "default", "enum", "examples"})
#: As `mcp_trio.limits.Limits.json_depth`, which a schema from the wire is held to already.
_DEPTH: Final = 128
#: Objects and arrays in a schema. Generated ones of large APIs have some thousands.
_LARGEST: Final = 100_000


@final
@frozen
class _Place:
    """An object or array in a schema, and how one gets there.

    ``path`` is made of the names of properties that lead to it, None where anything but
    ``properties`` does; ``of_names`` where it is no schema but the members of a keyword.
    """

    node: Mapping[str, object] | list[object] | tuple[object, ...]
    where: tuple[str | int, ...]
    path: tuple[str, ...] | None
    of_names: bool


def read_annotations(schema: Mapping[str, object]) -> Mapping[tuple[str, ...], str]:
    """Return which arguments are repeated in headers, by the ``inputSchema`` of a tool.

    The keys are names of properties from the outside in, the values are names of headers
    without ``Mcp-Param-``. A tool with a single invalid annotation, anywhere in its schema,
    is not to be offered, nor used over HTTP (2026-07-28 server/tools § x-mcp-header).

    Raises:
        ValueError: an annotation is invalid, or the schema is too deep or too large, as one
            that holds itself is. The message names the place.
    """
    found: dict[tuple[str, ...], str] = {}
    taken: dict[str, str] = {}
    count = 0
    left = [_Place(schema, (), (), of_names=False)]
    while left:
        place = left.pop()
        node = place.node
        if not place.of_names and isinstance(node, Mapping) and _ANNOTATION in node:
            path, name = _check_annotation(node, place, taken)
            found[path] = name
        inner = list(_inside(place))
        count += len(inner)
        if count > _LARGEST or len(place.where) > _DEPTH:
            raise ValueError(
                f"{_path(place.where)}: the schema is nested deeper than {_DEPTH} levels or has"
                f" more than {_LARGEST} objects and arrays"
            )
        left.extend(reversed(inner))
    return found


def _inside(place: _Place) -> Iterator[_Place]:
    """Yield what *place* holds that may hold an annotation, in the order of the document."""
    node = place.node
    for key, value in node.items() if isinstance(node, Mapping) else enumerate(node):
        if not isinstance(value, (Mapping, list, tuple)):
            continue
        where = (*place.where, key)
        if place.of_names:
            path = None if place.path is None else (*place.path, str(key))
            yield _Place(value, where, path, of_names=False)
        elif key not in _OF_INSTANCES:
            # A list is none of names, even where the author wrote one for `properties`.
            of_names = key in _OF_NAMES and isinstance(value, Mapping)
            path = place.path if of_names and key == _PROPERTIES else None
            yield _Place(value, where, path, of_names=of_names)


def _check_annotation(
    node: Mapping[str, object], place: _Place, taken: dict[str, str]
) -> tuple[tuple[str, ...], str]:
    """Return path and name of an annotation that is valid; *taken* knows the names so far."""
    where = _path((*place.where, _ANNOTATION))
    name, kind = node[_ANNOTATION], node.get("type")
    if not place.path:  # none for the schema itself, which is no property
        raise ValueError(f"{where}: only a property that nothing but {_PROPERTIES} leads to has it")
    if not isinstance(name, str):
        raise ValueError(f"{where}: it must be a string")  # noqa: TRY004 - a value, not our type
    if _TOKEN.fullmatch(name) is None:
        raise ValueError(f"{where}: {_shown(name)} is no token of RFC 9110")
    if not isinstance(kind, str) or kind not in _PRIMITIVES:
        raise ValueError(f"{where}: the property's type must be one of {', '.join(_PRIMITIVES)}")
    first = taken.setdefault(name.lower(), where)
    if first != where:
        raise ValueError(f"{where}: {_shown(name)} is taken, whatever its case, by {first}")
    return place.path, name


# ---------------------------------------------------------------- what is said of it

#: How much of a value that came in is said back.
_ECHO: Final = 80
_WORD: Final = re.compile(r"[A-Za-z0-9_$-]{1,80}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _ECHO else text[:_ECHO] + "...")


def _path(where: tuple[str | int, ...]) -> str:
    """Write a JSON path; names that are no plain words stand in brackets."""
    steps = (
        f"[{step}]"
        if isinstance(step, int)
        else (f".{step}" if _WORD.fullmatch(step) else f"[{_shown(step)}]")
        for step in where
    )
    return "$" + "".join(steps)
