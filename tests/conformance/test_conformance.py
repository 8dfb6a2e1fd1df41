"""The official conformance suite finds nothing to say about our server and our client."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from attrs import frozen

from tests.spec_files import spec_dir

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        os.environ.get("MCP_INTEROP") != "1",
        reason="runs a suite that must be installed: set MCP_INTEROP=1",
    ),
]

_ROOT: Final = Path(__file__).parents[2]
#: How many checks there are depends on it.
_SUITE: Final = "0.2.0-alpha.12"
_PATIENCE: Final = 300  # seconds for one run, the installation of the suite included
#: Client scenarios without authorization, and the checks in them.
_CORE: Final = [("2025-06-18", 2, 3), ("2025-11-25", 5, 20), ("2026-07-28", 8, 64)]
#: Of 2026-07-28: checks of the handshake, which it has not.
_SKIPPED: Final = {"2026-07-28": 2}
#: Checks that something is left undone.
_NEGATIVE: Final = {"2026-07-28": 11}
#: What our server logs when the suite changes a state that was sealed.
_TAMPERED: Final = "a requestState for tools/call is refused: the seal is broken\n"
_SUMMARY: Final = re.compile(
    r"(?P<passed>\d+) passed, (?P<failed>\d+) failed, (?P<warnings>\d+) warnings "
    r"of \d+ checks in (?P<scenarios>\d+) scenarios, (?P<skipped>\d+) skipped"
)


@frozen
class Verdict:
    """What the suite said, how often it said what, and where it put the rest."""

    status: int
    report: str
    counts: Mapping[str, int]
    folder: Path

    def scenarios(self) -> list[str]:
        return (self.folder / "names.txt").read_text(encoding="utf-8").split()

    def exits(self) -> list[int]:
        """Return the exit status of each client scenario."""
        return [int(path.read_text()) for path in (self.folder / "rc").glob("*.rc")]


def run_suite(folder: Path, *argv: str, **environment: str) -> Verdict:
    """Run the suite's script, and leave no process of it behind."""
    script = spec_dir().parent / "conformance" / "run-conformance.sh"
    process = subprocess.Popen(
        ["bash", str(script), *argv],
        env={**os.environ, "CONFORMANCE_VERSION": _SUITE, "OUT": str(folder), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=_ROOT,
        start_new_session=True,
    )
    try:
        report, _ = process.communicate(timeout=_PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    summary = _SUMMARY.search(report)
    assert summary is not None, report
    counts = {name: int(count) for name, count in summary.groupdict().items()}
    return Verdict(process.returncode, report, counts, folder)


def run_server(folder: Path, revision: str, *options: str) -> Verdict:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = f"{sys.executable} -m tests.conformance.server --port {port} {' '.join(options)}"
    url = f"http://127.0.0.1:{port}/mcp"
    return run_suite(folder, "server", revision, url, SERVER_CMD=command)


def run_client(folder: Path, revision: str, command: str) -> Verdict:
    # One scenario at a time: what is checked in real time depends on it.
    return run_suite(folder, "client", revision, command, SKIP="^auth/", JOBS="1")


def clean(scenarios: int, passed: int) -> dict[str, int]:
    """Return the counts of a run in which all is well."""
    return {
        "passed": passed,
        "failed": 0,
        "warnings": 0,
        "scenarios": scenarios,
        "skipped": 0,
    }


@pytest.mark.parametrize(
    ("revision", "options", "scenarios", "passed"),
    [
        ("2025-03-26", (), 1, 3),
        ("2025-06-18", (), 27, 56),
        ("2025-11-25", (), 33, 83),
        ("2025-06-18", ("--sse",), 27, 56),
        ("2025-11-25", ("--sse",), 33, 84),  # one more where simultaneous streams are streams
        ("2026-07-28", (), 40, 152),
    ],
)
def test_the_server_conforms(
    tmp_path: Path, revision: str, options: tuple[str, ...], scenarios: int, passed: int
) -> None:
    """Every check of every server scenario passes, none is left out, and nothing is logged."""
    verdict = run_server(tmp_path, revision, *options)

    assert verdict.counts == clean(scenarios, passed), verdict.report
    assert verdict.status == 0
    log = (tmp_path / "server.log").read_text(encoding="utf-8")
    assert log in ("", _TAMPERED if revision == "2026-07-28" else "")


@pytest.mark.parametrize(("revision", "scenarios", "passed"), _CORE)
def test_the_client_conforms(tmp_path: Path, revision: str, scenarios: int, passed: int) -> None:
    """Every check of every core scenario passes, and the client ends well each time."""
    verdict = run_client(tmp_path, revision, f"{sys.executable} -m tests.conformance.client")

    expected = {**clean(scenarios, passed), "skipped": _SKIPPED.get(revision, 0)}
    assert verdict.counts == expected, verdict.report
    assert verdict.status == 0
    assert verdict.exits() == [0] * scenarios


@pytest.mark.parametrize(("revision", "scenarios", "passed"), _CORE)
def test_a_client_that_does_nothing_passes_nowhere(
    tmp_path: Path, revision: str, scenarios: int, passed: int
) -> None:
    """Each core scenario fails for ``true``: what passes above has been done."""
    true = shutil.which("true")
    assert true is not None

    verdict = run_client(tmp_path, revision, true)

    failed = set(re.findall(r"^ +FAILURE ([^:]+):", verdict.report, re.MULTILINE))
    assert failed == set(verdict.scenarios())
    assert len(failed) == scenarios
    # A tool that must not be called is not called by ``true`` either.
    assert verdict.counts["passed"] == _NEGATIVE.get(revision, 0), verdict.report
