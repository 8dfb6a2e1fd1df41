"""A handler's signature as an input schema, and JSON arguments as a handler's arguments."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from types import MethodType, SimpleNamespace
from typing import Any, Final, final, get_type_hints

import msgspec
from attrs import field, frozen

from mcp_trio.errors import InvalidMessage
from mcp_trio.schema.paths import at, clip
from mcp_trio.schema.shapes import (
    adapter_for,
    explain,
    explain_foreign,
    foreign_refusal,
    in_declared_order,
    json_schemas,
)

__all__ = ["Arguments", "annotation_of", "arguments_of", "describe"]

_PROBLEMS: Final = 10
_SCALARS: Final = (type(None), bool, int, float, str, bytes)
_NO_DEFAULT: Final = object()
_SECTION: Final = re.compile(r"[A-Z][A-Za-z ]*:\s*")
_ARGUMENT: Final = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?:\s*(?P<text>.*)")


@final
@frozen(kw_only=True)
class Arguments:
    """What a handler takes: its JSON Schema, and how JSON arguments become Python ones.

    Attributes:
        schema: the JSON Schema 2020-12 of the arguments object.
        injected: names of the parameters that the caller fills in; not in the schema.
        positional: names of the positional-only parameters, in order.
    """

    schema: dict[str, Any]
    injected: tuple[str, ...]
    positional: tuple[str, ...]
    _model: type[msgspec.Struct] = field(repr=False)
    _adapters: Mapping[str, Any] = field(repr=False)

    def bind(self, raw: Mapping[str, Any] | None, *, strict: bool = True) -> dict[str, Any]:
        """Return the handler's arguments by name, structured and with defaults filled in.

        Not *strict*, text is read as the number or boolean it spells (prompt arguments and
        template variables are always text).

        Raises:
            InvalidMessage: an argument is unknown, missing or does not fit; ``path`` names it.
        """
        given = {} if raw is None else raw
        try:
            bound = msgspec.convert(given, self._model)
        except (msgspec.ValidationError, RecursionError, UnicodeEncodeError):
            bound = self._bind_carefully(given, strict=strict)
        values = msgspec.structs.asdict(bound)
        for name, adapter in self._adapters.items():
            if name in given:
                values[name] = _adapt(adapter, name, values[name])
        return values

    def _bind_carefully(self, given: Mapping[str, Any], *, strict: bool) -> msgspec.Struct:
        """Bind where text is to become numbers (``dict[int, str]``), or else say what is wrong.

        Apart from ``bind`` because the options alone would double the time of every call.
        """
        try:
            return msgspec.convert(given, self._model, strict=strict, str_keys=True)
        except msgspec.ValidationError as error:
            raise self._refusal(given, error) from None
        except RecursionError:
            raise InvalidMessage("$", "expected a value nested less deeply") from None
        except UnicodeEncodeError:  # only from Python; it cannot come off the wire
            raise InvalidMessage("$", "expected text without lone surrogates") from None

    def split(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return *values* as ``args, kwargs`` for the call, positional-only ones in front."""
        keywords = dict(values)
        return tuple(keywords.pop(name) for name in self.positional), keywords

    def _refusal(self, given: object, error: msgspec.ValidationError) -> InvalidMessage:
        """Name everything unknown or missing; else what msgspec met first."""
        problems: list[tuple[str, str]] = []
        if isinstance(given, Mapping):
            known: Mapping[str, Any] = self.schema["properties"]
            unknown = [str(name) for name in given if name not in known][:_PROBLEMS]
            missing = [name for name in self.schema.get("required", ()) if name not in given]
            problems += [(at("$", name), _unknown(name, known)) for name in unknown]
            problems += [(at("$", name), "missing, but required") for name in missing]
        first, *rest = problems[:_PROBLEMS] or [explain(error, self.schema)]
        return InvalidMessage(*first, problems=(first, *rest))


def _adapt(adapter: Any, name: str, value: Any) -> Any:
    """Let pydantic structure one argument."""
    try:
        return adapter.validate_python(value)
    except foreign_refusal() as error:
        problems = explain_foreign(error, name, most=_PROBLEMS)
        raise InvalidMessage(*problems[0], problems=problems) from None


def _unknown(name: str, known: Mapping[str, Any]) -> str:
    """Say that no parameter is called *name*, and which one may have been meant."""
    # Comparing is quadratic in the length of what the peer sent.
    close = difflib.get_close_matches(name[:100], known, n=1)
    return f"unknown argument; did you mean {clip(close[0])}?" if close else "unknown argument"


def arguments_of(fn: Callable[..., Any], *, skip: Callable[[Any], bool]) -> Arguments:
    """Read the signature of *fn*; done once, when the handler is registered.

    Args:
        fn: the handler: a function, method, partial or callable object.
        skip: tells from a resolved annotation whether the caller injects that parameter.

    Raises:
        TypeError: a parameter cannot be described in JSON; the message names it.
    """
    parameters = inspect.signature(fn).parameters.values()
    hints = {each.name: annotation_of(fn, each.name, each.annotation) for each in parameters}
    injected = tuple(
        each.name
        for each in parameters
        if each.annotation is not each.empty and skip(hints[each.name])
    )
    taken = [each for each in parameters if each.name not in injected]
    for each in taken:
        _refuse_odd(fn, each)
    kinds = [hints[each.name] for each in taken]
    adapters = [
        adapter_for(kind, _where(fn, each.name)) for each, kind in zip(taken, kinds, strict=True)
    ]
    schemas, definitions = json_schemas(kinds, adapters, "validation")
    described = _argument_docs(fn)
    for each, kind, adapter, schema in zip(taken, kinds, adapters, schemas, strict=True):
        _annotate(schema, each, kind, adapter, described.get(each.name))
    return Arguments(
        schema=_object_schema(taken, schemas, definitions),
        injected=injected,
        positional=tuple(each.name for each in parameters if each.kind is each.POSITIONAL_ONLY),
        model=_model_of(taken, kinds, adapters),
        adapters={
            each.name: adapter
            for each, adapter in zip(taken, adapters, strict=True)
            if adapter is not None
        },
    )


def _where(fn: Callable[..., Any], name: str) -> str:
    return f"parameter {name!r} of {getattr(_function_of(fn), '__qualname__', fn)}"


def _refuse_odd(fn: Callable[..., Any], parameter: inspect.Parameter) -> None:
    """Refuse what has no place in a JSON object of named arguments."""
    if parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
        raise TypeError(
            f"{_where(fn, parameter.name)} takes any number of arguments; "
            "name each one, or take one list or dict"
        )
    if type(parameter.default).__module__.startswith("pydantic."):
        raise TypeError(
            f"{_where(fn, parameter.name)} has a pydantic Field as its default; "
            "write Annotated[T, Field(...)]"
        )


def _object_schema(
    parameters: list[inspect.Parameter], schemas: list[dict[str, Any]], definitions: dict[str, Any]
) -> dict[str, Any]:
    """Put the properties together to the schema of the arguments object."""
    names = [each.name for each in parameters]
    required = [each.name for each in parameters if each.default is each.empty]
    return {
        "type": "object",
        "properties": dict(zip(names, schemas, strict=True)),
        **({"required": required} if required else {}),
        "additionalProperties": False,
        **({"$defs": definitions} if definitions else {}),
    }


def _model_of(
    parameters: list[inspect.Parameter], kinds: list[Any], adapters: list[Any]
) -> type[msgspec.Struct]:
    """Generate the class that msgspec structures the arguments object into."""
    fields: list[Any] = []
    for each, kind, adapter in zip(parameters, kinds, adapters, strict=True):
        member = (each.name, kind if adapter is None else Any)
        fields.append(
            member if each.default is each.empty else (*member, _field_default(each.default))
        )
    return msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)


def _field_default(default: Any) -> Any:
    """Return what makes msgspec hand out *default* itself, as a Python call would."""
    if isinstance(default, _SCALARS):
        return default
    return msgspec.field(default_factory=lambda: default)


def _annotate(
    schema: dict[str, Any],
    parameter: inspect.Parameter,
    kind: Any,
    adapter: Any,
    documented: str | None,
) -> None:
    """Add the description and the default of *parameter* to its *schema*."""
    in_declared_order(schema, kind)
    texts = [extra for extra in getattr(kind, "__metadata__", ()) if isinstance(extra, str)]
    if text := next(iter(texts), documented):
        schema.setdefault("description", text)
    if parameter.default is not parameter.empty:
        default = _json_default(parameter.default, kind, adapter)
        if default is not _NO_DEFAULT:
            schema["default"] = default


def _json_default(default: Any, kind: Any, adapter: Any) -> Any:
    """Return *default* as JSON, if it can be that and fits its own annotation."""
    try:
        if adapter is not None:
            plain = adapter.dump_python(default, mode="json")
            adapter.validate_python(plain)
        else:
            plain = msgspec.to_builtins(default, str_keys=True)
            msgspec.convert(plain, kind, str_keys=True)
        # NaN and Infinity become null in msgspec's JSON, so compare.
        same = bool(msgspec.json.decode(msgspec.json.encode(plain)) == _listed(plain))
    except Exception:  # noqa: BLE001 - whatever it is, the parameter is just optional then
        return _NO_DEFAULT
    return plain if same else _NO_DEFAULT


def _listed(value: Any) -> Any:
    """Return *value* with tuples as the lists that JSON makes of them."""
    if isinstance(value, list | tuple):
        return [_listed(each) for each in value]
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return value


def annotation_of(fn: Callable[..., Any], name: str, annotation: Any) -> Any:
    """Resolve one *annotation* of *fn*, given as text or not; none at all means ``Any``.

    Raises:
        TypeError: it names something that cannot be found at run time.
    """
    if annotation is inspect.Parameter.empty or annotation is object:
        return Any
    function = _function_of(fn)
    names = getattr(function, "__globals__", {})
    cells = inspect.getclosurevars(function).nonlocals if inspect.isfunction(function) else {}
    try:
        holder = SimpleNamespace(__annotations__={name: annotation})
        return get_type_hints(holder, names, dict(cells), include_extras=True)[name]
    except Exception as error:
        what = "the return annotation" if name == "return" else _where(fn, name)
        raise TypeError(
            f"{what} has the annotation {annotation!r}, which cannot be resolved ({error}); "
            "import or define it at module level, outside TYPE_CHECKING"
        ) from error


def _function_of(fn: Callable[..., Any]) -> Any:
    """Return the plain function behind partials, wrappers, methods and callable objects."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    if isinstance(fn, MethodType):
        return inspect.unwrap(fn.__func__)
    if inspect.isfunction(fn) or inspect.isbuiltin(fn) or inspect.isclass(fn):
        return fn
    return getattr(type(fn), "__call__", fn)  # noqa: B004 - looked up as the call would do it


def describe(fn: Callable[..., Any]) -> str | None:
    """Return the first paragraph of the docstring of *fn* as one line, or None without one."""
    paragraph = (inspect.getdoc(_function_of(fn)) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()) or None


def _argument_docs(fn: Callable[..., Any]) -> dict[str, str]:
    """Return the texts of the Google-style ``Args:`` section of the docstring of *fn*."""
    lines = (inspect.getdoc(_function_of(fn)) or "").splitlines()
    texts: dict[str, str] = {}
    inside, margin, name = False, -1, ""
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if indent == 0 and line:
            inside = bool(_SECTION.fullmatch(line)) and line.strip() in {"Args:", "Arguments:"}
            margin, name = -1, ""
        elif inside and line.strip():
            margin = indent if margin < 0 else margin
            entry = _ARGUMENT.fullmatch(line.strip()) if indent <= margin else None
            if entry:
                name = entry["name"]
                texts[name] = entry["text"]
            elif name:
                texts[name] = f"{texts[name]} {line.strip()}".strip()
    return {name: text for name, text in texts.items() if text}
