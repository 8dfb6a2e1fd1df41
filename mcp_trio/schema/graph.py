"""A foreign JSON Schema as a graph of subschemas: where its references lead, what a check costs.

The evaluation itself is the library's. This module answers what the library does not: whether
every reference stays inside the document, whether following references ends, and how many
subschemas one check will evaluate. References multiply: thirty definitions, each naming the
previous one twice, ask for a billion evaluations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import unquote, urljoin

from attrs import define, field

from mcp_trio.errors import InvalidMessage
from mcp_trio.schema.paths import at, clip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["SUPPORTED_DIALECTS", "TOO_COSTLY", "Node", "build", "cost"]

#: The dialects that are understood, without the optional ``#`` at the end.
SUPPORTED_DIALECTS: Final = (
    "https://json-schema.org/draft/2020-12/schema",
    "http://json-schema.org/draft-07/schema",
)
#: A check that takes more evaluations is refused. Evaluating so many takes about a tenth of a
#: second, counting them up to a second.
TOO_COSTLY: Final = 1_000_000
#: Nested evaluations. The library recurses on the C stack; 3,000 fit into 512 KiB of it.
_DEEPEST: Final = 400

# Keywords that hold subschemas, by what the subschemas are applied to. Both dialects at once:
# a keyword that the other dialect does not know costs an overestimate, never an underestimate.
_SAME_ONE: Final = frozenset({"not", "if", "then", "else"})
_SAME_LIST: Final = frozenset({"allOf", "anyOf", "oneOf"})
_SAME_MAP: Final = frozenset({"dependentSchemas", "dependencies"})
_VALUES_ONE: Final = frozenset({"additionalProperties", "unevaluatedProperties", "propertyNames"})
_VALUES_MAP: Final = frozenset({"patternProperties"})
_ELEMENTS_ONE: Final = frozenset({"items", "additionalItems", "contains", "unevaluatedItems"})
_ELEMENT_LIST: Final = frozenset({"items", "prefixItems"})
_UNAPPLIED_MAP: Final = frozenset({"$defs", "definitions"})
_ONE: Final = _SAME_ONE | _VALUES_ONE | _ELEMENTS_ONE
_LIST: Final = _SAME_LIST | _ELEMENT_LIST
_MAP: Final = _SAME_MAP | _VALUES_MAP | _UNAPPLIED_MAP | {"properties"}


@final
@define(eq=False)
class Node:
    """One subschema, with the subschemas it applies.

    Attributes:
        path: where the subschema stands in its document.
        weight: what evaluating it alone costs.
        same: applied to the same value.
        values: applied to every member of an object.
        elements: applied to every element of an array.
        named: applied to the member of that name.
        placed: applied to the element at that place.
    """

    path: str
    weight: int = 1
    same: list[Node] = field(factory=list)
    values: list[Node] = field(factory=list)
    elements: list[Node] = field(factory=list)
    named: dict[str, Node] = field(factory=dict)
    placed: list[Node] = field(factory=list)

    def applied(self) -> list[Node]:
        """Return every subschema that this one applies, to whatever value."""
        return [*self.same, *self.values, *self.elements, *self.named.values(), *self.placed]


def build(document: Mapping[str, Any], *, most: int, pattern_weight: int) -> tuple[Node, bool]:
    """Return the graph of *document*, and whether each check needs ``cost`` first.

    Raises:
        InvalidMessage: an unsupported dialect, a reference that leaves the document or leads
            nowhere, references that go in a circle, or one that expands to more than *most*.
    """
    root = _Builder(pattern_weight).graph(document)
    nodes = _reachable(root)
    finished: dict[Node, tuple[int, int]] = {}
    for node in nodes:
        size, _ = _measure(node, finished, lambda each: each.same)
        if size > most:
            raise InvalidMessage(node.path, f"expected at most {most} subschemas after expansion")
    return root, _grows(root, nodes)


def _grows(root: Node, nodes: list[Node]) -> bool:
    """Tell whether the cost of a check may exceed what the size of value and schema suggest."""
    if any(node.weight > 1 for node in nodes):
        return True
    try:
        size, height = _measure(root, {}, Node.applied)
    except InvalidMessage:  # recursive, or very deep
        return True
    return size > 1_000 or height > _DEEPEST // 2


def _reachable(root: Node) -> list[Node]:
    """Return *root* and all nodes that it applies, directly or not."""
    found = {root: None}
    waiting = [root]
    while waiting:
        for node in waiting.pop().applied():
            if node not in found:
                found[node] = None
                waiting.append(node)
    return list(found)


def _measure(
    root: Node, finished: dict[Node, tuple[int, int]], edges: Callable[[Node], list[Node]]
) -> tuple[int, int]:
    """Return size and height of *root*, every path along *edges* counted for itself."""
    open_nodes: set[Node] = set()

    def visit(node: Node) -> tuple[int, int]:
        if node in finished:
            return finished[node]
        if node in open_nodes:
            raise InvalidMessage(node.path, "refers to itself without descending into the value")
        if len(open_nodes) >= _DEEPEST:
            raise InvalidMessage(node.path, f"expected at most {_DEEPEST} nested references")
        open_nodes.add(node)
        size, height = node.weight, 0
        for each in edges(node):
            more, deeper = visit(each)
            size, height = size + more, max(height, deeper)
        open_nodes.discard(node)
        if height >= _DEEPEST:
            raise InvalidMessage(node.path, f"expected at most {_DEEPEST} nested references")
        finished[node] = size, height + 1
        return finished[node]

    return visit(root)


def cost(root: Node, instance: Any) -> int | None:
    """Return how many evaluations a check of *instance* takes at most, None for too many.

    The work done here is bounded by the answer: equal pairs of subschema and value count once.
    """
    known: dict[tuple[int, int], int] = {}

    def visit(node: Node, value: Any, depth: int) -> int:
        key = id(node), id(value)
        if key in known:
            return known[key]
        if depth > _DEEPEST:
            raise OverflowError
        total = node.weight
        for each, inner in _applications(node, value):
            total += visit(each, inner, depth + 1)
            if total > TOO_COSTLY:
                raise OverflowError
        known[key] = total
        return total

    try:
        return visit(root, instance, 0)
    except (OverflowError, RecursionError):
        return None


def _applications(node: Node, value: Any) -> Iterator[tuple[Node, Any]]:
    """Yield what *node* applies to *value* and its parts, worst case."""
    for each in node.same:
        yield each, value
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in node.named:
                yield node.named[name], inner
            for each in node.values:
                yield each, inner
    elif isinstance(value, list | tuple):
        yield from zip(node.placed, value, strict=False)
        for each in node.elements:
            for inner in value:
                yield each, inner


@final
class _Builder:
    """Finds the subschemas of one document, then ties them together."""

    def __init__(self, pattern_weight: int) -> None:
        self.pattern_weight = pattern_weight
        self.nodes: dict[int, tuple[Any, Node, str]] = {}
        self.resources: dict[str, Any] = {}
        self.dynamic: dict[str, list[Any]] = {}
        self.untied: list[int] = []

    def graph(self, document: Mapping[str, Any]) -> Node:
        """Return the node of *document*, all nodes under it tied."""
        self.resources[""] = document
        self._collect(document, "$", "")
        while self.untied:
            schema, node, base = self.nodes[self.untied.pop()]
            self._tie(schema, node, base)
        return self.nodes[id(document)][1]

    def _collect(self, schema: Any, path: str, base: str) -> None:
        """Register *schema* and the subschemas in it; *base* is the URI it stands under."""
        if id(schema) in self.nodes or not isinstance(schema, dict):
            return
        _refuse_other_dialect(schema, path)
        base = self._name(schema, base)
        heavy = "pattern" in schema or "patternProperties" in schema
        node = Node(path, self.pattern_weight if heavy else 1)
        self.nodes[id(schema)] = schema, node, base
        self.untied.append(id(schema))
        for keyword, where, each in _subschemas(schema, path):
            del keyword
            self._collect(each, where, base)

    def _name(self, schema: dict[str, Any], base: str) -> str:
        """Note the names that *schema* gives itself; return the base URI inside it."""
        identifier = schema.get("$id")
        if isinstance(identifier, str):
            full = _join(base, identifier)
            self.resources.setdefault(full.removesuffix("#"), schema)
            # In draft-07 an $id that is only a fragment is an anchor.
            base = base if identifier.startswith("#") else full.partition("#")[0]
        for keyword in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(keyword)
            if isinstance(anchor, str):
                self.resources.setdefault(f"{base}#{anchor}", schema)
                if keyword == "$dynamicAnchor":
                    self.dynamic.setdefault(anchor, []).append(schema)
        return base

    def _tie(self, schema: dict[str, Any], node: Node, base: str) -> None:
        """Connect *node* with the nodes of the subschemas and references in *schema*."""
        for keyword, _, each in _subschemas(schema, node.path):
            if id(each) in self.nodes:
                self._connect(node, keyword, self.nodes[id(each)][1])
        members = schema.get("properties")
        if isinstance(members, dict):
            for name, each in members.items():
                if id(each) in self.nodes:
                    node.named[name] = self.nodes[id(each)][1]
        for keyword in ("$ref", "$dynamicRef"):
            reference = schema.get(keyword)
            if isinstance(reference, str):
                for target in self._targets(keyword, reference, at(node.path, keyword), base):
                    node.same.append(target)

    def _connect(self, node: Node, keyword: str, inner: Node) -> None:
        """Hang *inner* where *keyword* applies it."""
        if keyword in _SAME_ONE | _SAME_LIST | _SAME_MAP:
            node.same.append(inner)
        elif keyword in _VALUES_ONE | _VALUES_MAP:
            node.values.append(inner)
        elif keyword == "[]":
            node.placed.append(inner)
        elif keyword in _ELEMENTS_ONE:
            node.elements.append(inner)

    def _targets(self, keyword: str, reference: str, path: str, base: str) -> list[Node]:
        """Return the nodes that *reference* may mean; for a dynamic one that may be several."""
        found = [self._resolve(reference, path, base)]
        if keyword == "$dynamicRef":
            found += self.dynamic.get(reference.partition("#")[2], [])
        targets: dict[Node, None] = {}
        for schema in found:
            if isinstance(schema, dict):
                # A pointer may lead to a place that no keyword makes a subschema.
                self._collect(schema, path, base)
                targets[self.nodes[id(schema)][1]] = None
        return list(targets)

    def _resolve(self, reference: str, path: str, base: str) -> Any:
        """Return the subschema that *reference* names, inside this document only."""
        full = _join(base, reference)
        if full.removesuffix("#") in self.resources:
            return self.resources[full.removesuffix("#")]
        url, _, fragment = full.partition("#")
        if url not in self.resources:
            # 2026-07-28 basic § JSON Schema Usage: never fetch; refuse instead of ignoring.
            raise InvalidMessage(
                path, f"expected a reference inside this schema, got {clip(reference)}"
            )
        here = self.resources[url]
        for step in unquote(fragment).split("/")[1:] if fragment.startswith("/") else [None]:
            key = step and step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and key is not None and key in here:
                here = here[key]
            elif isinstance(here, list) and key and key.isdecimal() and int(key) < len(here):
                here = here[int(key)]
            else:
                raise InvalidMessage(
                    path, f"expected a reference to something, got {clip(reference)}"
                )
        return here


def _subschemas(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str, Any]]:
    """Yield keyword, path and value of each subschema; ``[]`` stands for a place in an array."""
    for keyword, value in schema.items():
        where = at(path, keyword)
        if keyword in _ONE and isinstance(value, dict):
            yield keyword, where, value
        elif keyword in _LIST and isinstance(value, list):
            for index, each in enumerate(value):
                yield "[]" if keyword in _ELEMENT_LIST else keyword, at(where, index), each
        elif keyword in _MAP and isinstance(value, dict):
            for name, each in value.items():
                yield keyword, at(where, name), each


def _refuse_other_dialect(schema: dict[str, Any], path: str) -> None:
    """Refuse a ``$schema`` that is not understood, at the root or further in."""
    dialect = schema.get("$schema", SUPPORTED_DIALECTS[0])
    if not isinstance(dialect, str) or dialect.removesuffix("#") not in SUPPORTED_DIALECTS:
        raise InvalidMessage(
            at(path, "$schema"),
            f"expected a supported dialect ({' or '.join(SUPPORTED_DIALECTS)}), "
            f"got {clip(dialect)}",
        )


def _join(base: str, reference: str) -> str:
    """Resolve *reference* against *base*, which need not be a hierarchical URI."""
    if reference.startswith("#"):
        return base.partition("#")[0] + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
