"""What the README says is so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_trio.cli.arguments import parse
from mcp_trio.cli.outcome import Exit
from mcp_trio.wire.revisions import LEGACY, REVISIONS
from tests.test_cli import environment

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = Path(__file__).parent.parent
README = (HERE / "README.md").read_text(encoding="utf-8")

PROGRAMS: Mapping[str, str] = {
    name: text
    for text in re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    for name in re.findall(r"\A# (\w+\.py)\n", text)
}


def test_its_first_commands_install_and_test() -> None:
    commands = re.findall(r"^ *\$ (.*)", README, re.MULTILINE)

    assert commands[:2] == [
        "python3 -m venv .venv && .venv/bin/pip install -q '.[dev]' && .venv/bin/mcp-trio demo",
        ".venv/bin/python -m pytest",
    ]


def test_its_server_and_client_run_as_they_stand(tmp_path: Path) -> None:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "client.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "'Hello Ada! Hello Ada!'" in done.stdout


@pytest.mark.parametrize(("name", "most"), [("server.py", 15), ("client.py", 10)])
def test_its_programs_are_short(name: str, most: int) -> None:
    lines = [line for line in PROGRAMS[name].splitlines() if line and not line.startswith("#")]

    assert len(lines) <= most


def test_its_command_lines_are_understood() -> None:
    commands = re.findall(r"^mcp-trio (.*)", README, re.MULTILINE)

    assert [parse(command.split()).command for command in commands] == [
        "list",
        "call",
        "serve",
        "call",
        "probe",
    ]


def test_its_table_has_every_revision_and_says_which_are_spoken() -> None:
    rows = dict(re.findall(r"^\| (\d{4}-\d\d-\d\d) \| (\w+)", README, re.MULTILINE))

    assert list(rows) == list(REVISIONS)
    assert [version for version, stdio in rows.items() if stdio == "yes"] == [
        revision.version for revision in LEGACY
    ]


def test_its_exit_codes_are_the_command_s() -> None:
    (text,) = re.findall(r"with the exit codes: (.*?)\.\n", README, re.DOTALL)

    assert [int(code) for code in re.findall(r"\d+", text)] == [int(code) for code in Exit]


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(((?!https?:)[^)]+)\)", README)

    assert links
    assert [link for link in links if not (HERE / link).exists()] == []
