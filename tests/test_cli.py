"""The ``mcp-trio`` command, run as a process with nothing on its stdin but a pipe."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import mcp_trio
from mcp_trio.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

HOME = Path(mcp_trio.__file__).parent.parent
CLI = [sys.executable, "-m", "mcp_trio"]

SERVER = '''
"""A server for the command line to talk to."""
import os
import trio
from mcp_trio import Accepted, Context, Server

print("printed while it is imported")
server = Server("tests", version="1")


@server.tool
async def add(a: int, b: float, exact: bool = False) -> str:
    """Add two numbers.

    And nothing else.
    """
    return f"{a + b} {exact}"


@server.tool
async def typed(text: int | str, number: int | str) -> str:
    return f"{text!r} {number!r}"


@server.tool
async def structured() -> dict[str, int]:
    return {"answer": 42}


@server.tool
async def fail() -> str:
    raise ValueError("no such thing")


@server.tool
async def ask(ctx: Context) -> str:
    return type(await ctx.elicit({"type": "object", "properties": {}}, "All right?")).__name__


@server.tool
async def tell(ctx: Context) -> str:
    await ctx.log("warning", "look out", logger="tests")
    await ctx.progress(1, total=2, message="half")
    return "told"


@server.tool
async def hold(ctx: Context) -> str:
    await ctx.log("info", "holding")
    await trio.sleep_forever()


@server.tool
async def place() -> str:
    return f"{os.getcwd()} {os.environ['PLACE']}"


@server.tool
async def vanish() -> str:
    os._exit(7)


@server.resource("note://one")
async def one() -> str:
    """The one note."""
    return "1"


async def nonsense(ctx, params):
    return {"content": 5}


violator = Server("violator", handlers={"tools/list": nonsense, "tools/call": nonsense})
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the servers are."""
    path = tmp_path_factory.mktemp("cli")
    (path / "servers.py").write_text(SERVER, encoding="utf-8")
    (path / "failing.py").write_text("x = 1\nraise RuntimeError('not today')\n", encoding="utf-8")
    return path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HOME), "PYTHONIOENCODING": "utf-8"}


def serving(name: str = "server") -> list[str]:
    return [*CLI, "serve", f"servers.py:{name}"]


def run(
    folder: Path, *argv: str, server: str | None = "server"
) -> subprocess.CompletedProcess[str]:
    command = [*CLI, *argv]
    if server is not None:
        command += ["--", *serving(server)]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that says what went wrong."""
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("mcp-trio: ")]
    return line.removeprefix("mcp-trio: ")


# ---------------------------------------------------------------- list


def test_list_shows_everything_that_a_server_offers(folder: Path) -> None:
    done = run(folder, "list")

    assert done.returncode == 0
    assert "  add(a: integer, b: number, exact?: boolean = False)\n      Add two numbers.\n" in (
        done.stdout
    )
    assert "resources\n  note://one\n      The one note.\n" in done.stdout
    assert "templates: none\n" in done.stdout
    assert "prompts" not in done.stdout  # nothing of the kind is declared


def test_list_of_one_kind_prints_json_as_it_is_on_the_wire(folder: Path) -> None:
    done = run(folder, "list", "tools", "--json")
    tools = {tool["name"]: tool for tool in json.loads(done.stdout)}

    assert done.returncode == 0
    assert tools["add"]["inputSchema"]["required"] == ["a", "b"]


def test_what_a_module_prints_while_it_is_imported_does_not_reach_the_protocol(
    folder: Path,
) -> None:
    done = run(folder, "list", "prompts")

    assert "printed while it is imported" in done.stderr
    assert (done.returncode, complaint(done)) == (
        1,
        "prompts/list needs the capability 'prompts', which the peer did not declare",
    )


# ---------------------------------------------------------------- call


def test_call_types_its_arguments_by_the_tool_s_schema(folder: Path) -> None:
    done = run(folder, "call", "add", "a=1", "--json", "b=2.5", "exact=yes")

    assert json.loads(done.stdout)["content"] == [{"type": "text", "text": "3.5 True"}]
    assert done.returncode == 0


def test_call_leaves_text_where_the_schema_allows_it_and_takes_json_as_it_is(folder: Path) -> None:
    assert run(folder, "call", "typed", "text=7", "number:=7").stdout == "'7' 7\n"


def test_call_prints_progress_and_log_messages_on_stderr(folder: Path) -> None:
    done = run(folder, "call", "tell")

    assert (done.returncode, done.stdout) == (0, "told\n")
    assert "[warning tests] look out\n" in done.stderr
    assert "progress: 1/2 half\n" in done.stderr


def test_call_declines_questions_where_there_is_no_terminal(folder: Path) -> None:
    done = run(folder, "call", "ask")

    assert (done.returncode, done.stdout) == (0, "Declined\n")
    assert "tests asks: All right?\ndeclined" in done.stderr


def test_call_hands_environment_and_place_to_the_server(folder: Path) -> None:
    server = [*CLI, "serve", f"{folder}/servers.py:server"]
    done = subprocess.run(
        [*CLI, "call", "place", "--env", "PLACE=here", "--cwd", "/", "--", *server],
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )

    assert done.stdout == "/ here\n"


# ---------------------------------------------------------------- exit codes


def test_exit_1_means_that_the_tool_says_error(folder: Path) -> None:
    done = run(folder, "call", "fail")

    assert done.returncode == 1
    assert "fail says error: fail failed: " in complaint(done)
    assert "no such thing" in complaint(done)


def test_exit_1_means_that_the_server_answers_with_an_error(folder: Path) -> None:
    done = run(folder, "call", "no-such-tool")

    assert (done.returncode, complaint(done)) == (1, "unknown tool: no-such-tool (-32602)")


def test_exit_2_for_an_argument_that_the_schema_cannot_take(folder: Path) -> None:
    done = run(folder, "call", "add", "a=one", "b=2")

    assert (done.returncode, complaint(done)) == (2, "a: expected integer, not 'one'")


def test_exit_3_means_that_there_is_no_server(folder: Path) -> None:
    done = run(folder, "list", "--", "./no-such-program", server=None)

    assert done.returncode == 3
    assert complaint(done).startswith("cannot start './no-such-program'")


def test_exit_3_means_that_the_server_was_lost(folder: Path) -> None:
    done = run(folder, "call", "vanish")

    assert (done.returncode, complaint(done)) == (3, "the server process ended (exit code 7)")


def test_exit_3_means_that_the_deadline_passed(folder: Path) -> None:
    done = run(folder, "call", "hold", "--deadline", "1")

    assert done.returncode == 3
    assert "within 1 s" in complaint(done)  # of the call, or of the opening on a slow machine


def test_exit_3_says_how_a_server_ended_that_could_not_start(folder: Path) -> None:
    done = run(folder, "list", "--", *CLI, "serve", "failing.py:server", server=None)

    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "mcp-trio: cannot import failing.py: RuntimeError: not today; --traceback shows where",
        "mcp-trio: the server did not answer initialize: the server process ended (exit code 2)",
    ]


def test_exit_4_means_that_the_server_violates_the_protocol(folder: Path) -> None:
    done = run(folder, "call", "anything", server="violator")

    assert done.returncode == 4
    assert "$.content" in complaint(done)


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["list"], "list needs a server: URL, or -- COMMAND ARG..."),
        (["call", "tool", "--"], "call needs a server: URL, or -- COMMAND ARG..."),
        (["list", "toys", "--", "x"], "argument KIND: invalid choice: 'toys'"),
        (["list", "--slow", "--", "x"], "unrecognized arguments: --slow"),
        (["call", "tool", "word", "--", "x"], "'word' is neither key=value nor key:=json"),
        (["call", "tool", "a=1", "a:=2", "--", "x"], "the argument a is given twice"),
        (["list", "--env", "novalue", "--", "x"], "argument --env: 'novalue' is not of the form"),
        (["list", "--deadline", "-1", "--", "x"], "argument --deadline: '-1' is no number of"),
        (["serve", "weather"], "'weather' is not of the form MODULE:SERVER"),
        (["serve", "no_such_module:server"], "cannot import no_such_module: ModuleNotFoundError"),
        (["serve", "mcp_trio.examples.weather:nothing"], "there is no nothing in mcp_trio"),
        (["serve", "mcp_trio.examples.weather:current"], "current in mcp_trio.examples.weather is"),
        (["demo", "--", "x"], "demo takes no command after --"),
    ],
)
def test_exit_2_is_usage_and_says_why_in_one_line(
    argv: list[str], reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(argv)
    out, err = capfd.readouterr()

    assert (code, out) == (2, "")
    assert err.startswith(f"mcp-trio: {reason}")
    assert err.count("\n") == 1


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    text = capsys.readouterr().out

    assert ended.value.code == 0
    assert re.findall(r"^ +(\d+)  \w", text, re.MULTILINE) == ["0", "1", "2", "3", "4", "130"]


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])

    assert capsys.readouterr().out == f"mcp-trio {mcp_trio.__version__}\n"


def test_a_traceback_is_shown_on_request(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["serve", f"{folder}/failing.py:server", "--traceback"])
    err = capfd.readouterr().err

    assert code == 2
    assert err.startswith("Traceback (most recent call last):")
    assert 'failing.py", line 2' in err
    assert err.endswith(f"mcp-trio: cannot import {folder}/failing.py: RuntimeError: not today\n")


# ---------------------------------------------------------------- signals


@pytest.fixture
def started(folder: Path) -> Iterator[Any]:
    """Start commands; what is left of them at the end is killed."""
    processes: list[subprocess.Popen[str]] = []

    def start(*argv: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*CLI, *argv],
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            process.kill()


def wait_for(stream: Any, text: str) -> None:
    for line in stream:
        if text in line:
            return
    pytest.fail(f"{text!r} never came")


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_exit_130_means_that_a_call_was_interrupted(started: Any, signum: int) -> None:
    process = started("call", "hold", "--", *serving())
    wait_for(process.stderr, "holding")

    process.send_signal(signum)
    _, err = process.communicate(timeout=10)

    assert (process.returncode, err) == (130, "")


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_serve_ends_cleanly_by_a_signal(started: Any, signum: int, code: int) -> None:
    process = started("serve", "servers.py:server")
    process.stdin.write('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}

    process.send_signal(signum)
    process.wait(timeout=10)  # with its stdin still open: the end of it would end the server too
    out, err = process.communicate()

    assert (process.returncode, out, err) == (code, "", "printed while it is imported\n")


def test_serve_ends_with_its_stdin(started: Any) -> None:
    process = started("serve", "servers:server")
    out, _ = process.communicate("", timeout=10)

    assert (process.returncode, out) == (0, "")


def test_a_reader_that_has_seen_enough_is_no_error(folder: Path) -> None:
    words = " ".join([*CLI, "list", "--json", "--", *serving()])
    done = subprocess.run(
        ["sh", "-c", f"{{ {words}; echo $? >&2; }} | true"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )

    assert done.stderr == "printed while it is imported\n0\n"


# ---------------------------------------------------------------- demo


@pytest.fixture(scope="module")
def demo(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, "demo", server=None)


def test_the_demo_shows_a_session_from_all_sides(demo: subprocess.CompletedProcess[str]) -> None:
    done = demo
    told, layers, sequence, laws = re.split(
        r"\n(?=What crossed the wire|The same as a sequence|held )", done.stdout, maxsplit=3
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) < 80
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "answered   {" in told
    assert "withdrawn  " in told
    assert re.findall(r"^(\w[\w -]+?)  +[-\d]+  ", layers, re.MULTILINE) == [
        "host process",
        "MCP session",
        "call",
        "HTTP request",
        "line",
        "JSON-RPC message",
    ]
    assert "elicitation/create #1 caused by #2" in sequence
    assert "elicitation/create #2 caused by #3" in sequence
    assert "╌╌╌ cancelled #3" in sequence
    assert "    ◀╌╌╌ cancelled #2" in sequence
    assert laws.endswith("laws: 3 held\n")


def test_the_demo_is_the_same_each_time_but_for_its_times(
    folder: Path, demo: subprocess.CompletedProcess[str]
) -> None:
    def timeless(text: str) -> str:
        return re.sub(r"open for \d+ ms|^ *\d+ (?=│)", "", text, flags=re.MULTILINE)

    assert timeless(run(folder, "demo", server=None).stdout) == timeless(demo.stdout)
