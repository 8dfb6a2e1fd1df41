"""The rules of the house that no linter knows."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import mcp_trio
from mcp_trio.wire.revisions import REVISIONS
from tests.spec_files import spec_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

HOUSE = Path(mcp_trio.__file__).parent
TESTS = Path(__file__).parent

#: Lines of a module: the aim, the bound, and how many modules may lie between the two.
AIM, BOUND, FEW = 600, 650, 3
LINES_OF_A_FUNCTION = 60

#: Where revisions may be told apart by their date or their era.
DATED = ("wire/revisions.py", "wire/lifecycle.py", "types/")

BASEMENT = {"codec", "schema", "types", "wire"}
ROOMS = BASEMENT | {"auth", "client", "runtime", "server", "stores", "transports"}
GUESTS_AND_GARDEN = {"cli", "examples", "extensions", "testing", "trace"}
FOLDERS = {".ci", "benchmarks", "docs", "mcp_trio", "tests"}

MODULES = {
    path.relative_to(HOUSE).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(HOUSE.rglob("*.py"))
}
TREES = {name: ast.parse(text) for name, text in MODULES.items()}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_public(name: str) -> bool:
    return not any(part.startswith("_") for part in name.split("/"))


def public_definitions(
    tree: ast.Module | ast.ClassDef, where: str
) -> Iterator[tuple[str, Definition]]:
    """Each public function, class and method, with its dotted name."""
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield f"{where}:{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{where}:{node.name}")


def decorators(node: Definition) -> set[str]:
    return {ast.unparse(decorator).split(".")[-1] for decorator in node.decorator_list}


def without_docstring(node: ast.AST) -> list[ast.stmt]:
    body: list[ast.stmt] = getattr(node, "body", [])
    first = body[0] if body else None
    is_text = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def test_modules_are_short() -> None:
    """A module that a person cannot hold in mind is two modules."""
    lengths = {name: len(text.splitlines()) for name, text in MODULES.items()}
    long = {name: length for name, length in lengths.items() if length > AIM}

    assert {name: length for name, length in long.items() if length > BOUND} == {}
    assert len(long) <= FEW, long


def test_functions_are_short() -> None:
    """Counted from the first statement after the docstring."""
    long = {}
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS) and (body := without_docstring(node)):
                length = (node.end_lineno or 0) - body[0].lineno + 1
                if length > LINES_OF_A_FUNCTION:
                    long[f"{name}:{node.name}"] = length

    assert long == {}


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string and its line, but the docstrings: those cite the specification by its dates."""
    docstrings = {
        statement.value
        for statement in ast.walk(tree)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    constants = (n for n in ast.walk(tree) if isinstance(n, ast.Constant))
    for node in constants:
        if isinstance(node.value, str) and node not in docstrings:
            yield node.lineno, node.value


def test_no_revision_is_named_by_its_date() -> None:
    """Code asks a revision for its features; prose for people may cite one."""
    dated = {
        f"{name}:{line}"
        for name, tree in TREES.items()
        if not name.startswith(DATED)
        for line, text in texts(tree)
        if text in REVISIONS
    }

    assert dated == set()


def test_no_era_is_compared() -> None:
    compared = {
        f"{name}:{node.lineno}"
        for name, tree in TREES.items()
        if not name.startswith(DATED)
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare) and re.search(r"\bEra\b|\.era\b", ast.unparse(node))
    }

    assert compared == set()


def test_the_rooms_are_those_of_the_plan() -> None:
    rooms = {name.split("/")[0] for name in MODULES if "/" in name}

    assert rooms - ROOMS - GUESTS_AND_GARDEN == set()


def test_the_top_level_folders_are_those_of_the_plan() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=TESTS.parent, capture_output=True, text=True, check=False
    )
    if tracked.returncode != 0:
        pytest.skip(f"no git checkout here: {tracked.stderr.strip()}")
    folders = {path.split("/")[0] for path in tracked.stdout.splitlines() if "/" in path}

    assert folders - FOLDERS == set()


def test_the_wire_room_loads_without_a_runtime() -> None:
    """The sans-I/O room needs neither trio nor a socket."""
    wire = [name[:-3].replace("/", ".") for name in MODULES if name.startswith("wire/")]
    program = (
        "import importlib, sys\n"
        f"for name in {wire!r}: importlib.import_module('mcp_trio.' + name)\n"
        "print(*{'trio', 'h11', 'wsproto', 'asyncio', 'ssl', 'socket'} & set(sys.modules))"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout.split() == []


def test_every_module_of_a_room_has_a_docstring() -> None:
    assert [name for name, tree in TREES.items() if ast.get_docstring(tree) is None] == []


def test_every_public_module_says_what_it_exports() -> None:
    """A package that only has a docstring exports nothing; examples are programs."""
    silent = [
        name
        for name, tree in TREES.items()
        if is_public(name.removesuffix("__init__.py"))
        and not name.startswith("examples/")
        and without_docstring(tree)
        and "__all__" not in {ast.unparse(t) for n in tree.body for t in assigned(n)}
    ]

    assert silent == []


def assigned(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def test_everything_public_is_documented() -> None:
    undocumented = [
        where
        for name, tree in TREES.items()
        if is_public(name.removesuffix("__init__.py"))
        for where, node in public_definitions(tree, name)
        if ast.get_docstring(node) is None
        and not decorators(node) & {"overload", "override", "setter"}
    ]

    assert undocumented == []


def marks(name: str) -> Iterator[tuple[str, object]]:
    """Each argument of each ``pytest.mark.NAME(...)`` in the tests, with where it stands."""
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{name}":
                where = f"{path.relative_to(TESTS).as_posix()}:{node.lineno}"
                yield from ((where, ast.literal_eval(argument)) for argument in node.args)


def test_every_clause_that_a_test_names_exists() -> None:
    requirements = json.loads((spec_dir() / "requirements.json").read_text(encoding="utf-8"))
    clauses = {requirement["id"] for requirement in requirements}
    named = list(marks("spec"))

    assert named
    assert [(where, clause) for where, clause in named if clause not in clauses] == []


def test_every_case_that_a_test_names_is_a_number_of_two_digits() -> None:
    named = list(marks("case"))

    assert named
    assert [(w, number) for w, number in named if not re.fullmatch(r"\d\d", str(number))] == []
