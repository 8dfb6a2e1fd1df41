"""Between wire and words: one cattrs converter per revision.

Strict on the way in: no value is coerced, a fault names its path in wire names, unknown
members are ignored, and null in an optional member counts as absent. On the way out a member
appears only if the revision has it and the value is not absent.

Hooks are generated from the metadata in :mod:`mcp_trio.types`, each at its first use. A value
is first read by hooks that stop at the first fault; only when there is one does a second,
detailed converter go over the value again to find out where all the faults are.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import attrs

from mcp_trio import types
from mcp_trio.errors import InvalidMessage
from mcp_trio.types._meta import REVISIONS, Fault, fields_at
from mcp_trio.types.methods import NOTIFICATIONS, REQUESTS, RequestMethod

from ._reading import Shapes, explain
from ._writing import Writers

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Codec", "DroppedTool", "codec_for"]

T = TypeVar("T")


@final
@attrs.frozen(kw_only=True)
class DroppedTool:
    """A tool left out of a list because it is malformed.

    Attributes:
        name: its name, or None when that is what is malformed.
        problem: what is wrong with it.
    """

    name: str | None
    problem: InvalidMessage


class Codec:
    """Structures and unstructures the messages of one revision.

    Take it from :func:`codec_for`; it is stateless but for the hooks it has made.
    """

    def __init__(self, revision: str) -> None:
        self.revision: Final = revision
        self._shapes: Final = Shapes(revision, detailed=False)
        self._writers: Final = Writers(revision, self._shapes.converter)
        self._structurers: Final[dict[Any, Callable[[Any], Any]]] = {}
        self._params: Final[dict[str, Callable[[Any], Any]]] = {}
        self._results: Final[dict[str, _Results]] = {}

    def structure(self, raw: object, cls: type[T]) -> T:
        """Make a *cls* of JSON.

        Raises:
            InvalidMessage: it does not fit; ``path`` names where, from ``$`` = *raw*.
        """
        return self.structurer(cls)(raw)

    def structurer(self, cls: type[T]) -> Callable[[Any], T]:
        """Return the function that :meth:`structure` calls for *cls*; keep it for speed."""
        found = self._structurers.get(cls)
        if found is None:
            found = self._structurers[cls] = self._make_structurer(cls)
        return found

    def _make_structurer(self, cls: Any) -> Callable[[Any], Any]:
        hook = self._shapes.hook(cls)

        def structure(raw: Any) -> Any:
            try:
                return hook(raw, None)
            except (Fault, KeyError, TypeError):
                problems = explain(raw, cls, self.revision)
            path, expected = problems[0]
            raise InvalidMessage(path, expected, problems=problems)

        return structure

    def unstructure(self, value: object) -> Any:
        """Make JSON of a message, of a tuple of messages, or of JSON (which is returned as it is).

        Raises:
            InvalidMessage: the revision has no such message or kind of content.
        """
        if attrs.has(value.__class__):
            return self._writers[value.__class__](value)
        if value.__class__ is tuple or value.__class__ is list:
            return [self.unstructure(each) for each in value]
        return value

    def unstructurer(self, cls: type[T]) -> Callable[[T], Any]:
        """Return the function that :meth:`unstructure` calls for *cls*; keep it for speed."""
        return self._writers.hook(cls)

    def params(self, method: str, raw: object) -> Any:
        """Structure the ``params`` of a request or notification; None where they are absent.

        Raises:
            InvalidMessage: they do not fit, or the revision has no such method.
        """
        structure = self._params.get(method)
        if structure is None:
            structure = self._params[method] = self._make_params(method)
        return structure(raw)

    def _make_params(self, method: str) -> Callable[[Any], Any]:
        spec = REQUESTS.get(method) or NOTIFICATIONS.get(method)
        if spec is None or not spec.direction(self.revision):
            raise InvalidMessage("$.method", f"a method of revision {self.revision}")
        structure: Callable[[Any], Any] = self.structurer(spec.params)
        if not spec.params_optional(self.revision):
            return structure
        return lambda raw: structure({} if raw is None else raw)

    def result(self, method: str, raw: object, *, may_be_task: bool = False) -> Any:
        """Structure the result of a request.

        Args:
            method: the request's method.
            raw: the ``result`` member of the response.
            may_be_task: whether a ``CreateTaskResult`` is an answer too: the request asked for
                it, or the client declared the tasks extension, as the revision has it.

        Raises:
            InvalidMessage: it does not fit, or the revision has no such method.
        """
        results = self._results.get(method)
        if results is None:
            results = self._results[method] = _Results(self, method)
        return results.structure(raw, may_be_task=may_be_task)

    def structure_tools(self, raw: object) -> tuple[types.ListToolsResult, tuple[DroppedTool, ...]]:
        """Structure the result of ``tools/list`` and leave out the tools that are malformed.

        One bad tool must not cost a client the others. :meth:`result` is the strict way.

        Raises:
            InvalidMessage: the result itself does not fit.
        """
        try:
            return self.structure(raw, types.ListToolsResult), ()
        except InvalidMessage:
            tools = raw.get("tools") if isinstance(raw, dict) else None
            if not isinstance(raw, dict) or not isinstance(tools, list):
                raise
        good: list[Any] = []
        dropped: list[DroppedTool] = []
        for index, tool in enumerate(tools):
            try:
                self.structure(tool, types.Tool)
            except InvalidMessage as problem:
                dropped.append(_dropped(tool, problem, f"$.tools[{index}]"))
            else:
                good.append(tool)
        return self.structure({**raw, "tools": good}, types.ListToolsResult), tuple(dropped)


class _Results:
    """What may answer one method in one revision, by ``resultType``."""

    def __init__(self, codec: Codec, method: str) -> None:
        spec = REQUESTS.get(method)
        if spec is None or not spec.direction(codec.revision):
            raise InvalidMessage("$.method", f"a request of revision {codec.revision}")
        self._plain: Final[Callable[[Any], Any]] = codec.structurer(spec.result)
        self._typed: Final = _has_result_type(codec, spec)
        self._codec: Final = codec
        self._may_need_input: Final = spec.may_need_input(codec.revision)
        self._may_become_task: Final = spec.may_become_task(codec.revision)

    def structure(self, raw: Any, *, may_be_task: bool) -> Any:
        """Choose the class and structure the result."""
        as_task = may_be_task and self._may_become_task
        if raw.__class__ is not dict:
            return self._plain(raw)
        if not self._typed:
            # Before there was a resultType, only a CreateTaskResult has a task.
            if as_task and "task" in raw:
                return self._codec.structure(raw, types.CreateTaskResult)
            return self._plain(raw)
        result_type = raw.get("resultType")
        if result_type == "input_required" and self._may_need_input:
            return self._codec.structure(raw, types.InputRequiredResult)
        if result_type == "task" and as_task:
            return self._codec.structure(raw, types.CreateTaskResult)
        # Absent counts as complete; the class refuses every other value.
        return self._plain(raw)


def _has_result_type(codec: Codec, spec: RequestMethod) -> bool:
    return any(field.wire_name == "resultType" for field in fields_at(spec.result, codec.revision))


def _dropped(tool: Any, problem: InvalidMessage, at: str) -> DroppedTool:
    name = tool.get("name") if isinstance(tool, dict) else None
    problems = tuple((at + path[1:], expected) for path, expected in problem.problems)
    path, expected = problems[0]
    return DroppedTool(
        name=name if isinstance(name, str) else None,
        problem=InvalidMessage(path, expected, problems=problems),
    )


@cache
def codec_for(revision: str) -> Codec:
    """Return the codec of *revision*, which must be one that this package speaks.

    Raises:
        ValueError: it is none of ``types.REVISIONS``.
    """
    if revision not in REVISIONS:
        raise ValueError(f"revision {revision!r} is none of {', '.join(REVISIONS)}")
    return Codec(revision)
