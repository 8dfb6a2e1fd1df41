"""The package's names are complete, and a chapter is loaded only when one of its names is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import attrs
import pytest

from mcp_trio import types

FOLDER = Path(types.__file__).parent


def classes() -> list[type]:
    values = [getattr(types, name) for name in types.__all__]
    return [value for value in values if isinstance(value, type) and attrs.has(value)]


def test_every_public_name_resolves() -> None:
    """``__all__``, ``dir`` and the imports for type checkers name the same things."""
    tree = ast.parse((FOLDER / "__init__.py").read_text(encoding="utf-8"))
    checked = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1
        for alias in node.names
    }

    assert checked == set(types.__all__)
    assert set(types.__all__) <= set(dir(types))
    for name in types.__all__:
        assert getattr(types, name) is getattr(types, name)
    with pytest.raises(AttributeError, match="nonsense"):
        types.nonsense  # type: ignore[attr-defined]  # noqa: B018  # it is the absence that counts


def test_every_class_of_a_chapter_is_public() -> None:
    """No message is forgotten in the table of names."""
    for path in FOLDER.glob("[a-z]*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                assert node.name in types.__all__, path.name


def test_the_chapters_and_the_table_of_names_agree() -> None:
    """Each chapter exports exactly what the package looks up in it."""
    for chapter, names in types._CHAPTERS.items():
        exported = getattr(import_module(f"mcp_trio.types.{chapter}"), "__all__", names)

        assert sorted(exported) == sorted(names), chapter


def test_messages_are_frozen_final_and_keyword_only() -> None:
    """A message is a value: it does not change, and is not extended."""
    for cls in classes():
        assert getattr(cls, "__final__", False), cls
        assert all(attribute.kw_only for attribute in attrs.fields(cls)), cls
        assert "__setattr__" in vars(cls), cls  # the one that refuses
        assert cls.__doc__, cls


def test_importing_the_package_loads_no_chapter() -> None:
    """A program pays for the messages it uses."""
    program = (
        "import sys, mcp_trio.types as t\n"
        "loaded = lambda: sorted(m[15:] for m in sys.modules if m.startswith('mcp_trio.types.'))\n"
        "print(loaded()); t.Tool; print(loaded())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        cwd=FOLDER.parents[1],
    )

    assert done.stdout.splitlines() == ["[]", "['_meta', 'base', 'tools']"]


def test_a_tools_server_never_loads_the_other_chapters() -> None:
    """Neither prompts nor resources nor tasks are made to list and call a tool."""
    program = (
        "import sys\n"
        "from mcp_trio import types as t\n"
        "from mcp_trio.codec import codec_for\n"
        "for r in t.REVISIONS:\n"
        "    c = codec_for(r)\n"
        "    m = {'_meta': {t.META_PROTOCOL_VERSION: r, t.META_CLIENT_CAPABILITIES: {}}}\n"
        "    c.params('tools/list', m); c.params('tools/call', {'name': 'x', **m})\n"
        "    c.unstructurer(t.ListToolsResult)\n"
        "    c.unstructure(t.CallToolResult(content=(t.TextContent(text='x'),)))\n"
        "print(sorted(m[15:] for m in sys.modules if m.startswith('mcp_trio.types.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        text=True,
        cwd=FOLDER.parents[1],
    )

    assert done.stdout.strip() == "['_meta', 'base', 'methods', 'tools']"
