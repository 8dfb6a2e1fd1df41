"""The ``mcp-trio`` command over HTTP: serving at a URL, asking at one, probing one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from mcp_trio.cli import main
from tests.test_cli import CLI, environment, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SERVER = """
import trio
from mcp_trio import Context, Server

server = Server("tests", version="1")


@server.tool
async def add(a: int, b: int) -> str:
    return str(a + b)


@server.tool
async def fail() -> str:
    raise ValueError("no such thing")


@server.tool
async def finish(ctx: Context, seconds: float) -> str:
    await ctx.log("info", "begun")
    await trio.sleep(seconds)
    return "finished"


@server.tool
async def hold(ctx: Context) -> str:
    await ctx.log("info", "holding")
    await trio.sleep_forever()
"""


class Serving:
    """A process that serves, and where."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [*CLI, "serve", "servers.py:server", "--http", "0", *options],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.fullmatch(r"serving servers\.py:server at (http://\S+)\n", line)
        assert found is not None, line + self.process.stderr.read()
        self.url = found[1]

    def end(self, signum: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Send a signal; return the exit code and what was written after the URL."""
        self.process.send_signal(signum)
        out, err = self.process.communicate(timeout=10)
        return self.process.returncode, out, err


Serve = "Callable[..., Serving]"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli-http")
    (path / "servers.py").write_text(SERVER, encoding="utf-8")
    return path


@pytest.fixture
def serve(folder: Path) -> Iterator[Callable[..., Serving]]:
    """Serve with options; what is left at the end is killed."""
    started: list[Serving] = []

    def start(*options: str) -> Serving:
        started.append(Serving(folder, *options))
        return started[-1]

    yield start
    for serving in started:
        with serving.process as process:
            process.kill()


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """A server that everybody may ask."""
    store = str(folder / "events.db")
    serving = Serving(folder, "--path", "/tools", "--sse-path", "/sse", "--store", store)
    yield serving.url
    with serving.process as process:
        process.kill()


@pytest.fixture
def calling(folder: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Run a call beside the test."""
    processes: list[subprocess.Popen[str]] = []

    def start(*argv: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*CLI, "call", *argv],
            env=environment(),
            stdin=subprocess.DEVNULL,
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


# ---------------------------------------------------------------- list, call


def test_list_asks_the_server_at_a_url(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["list", "tools", url])

    assert url.endswith("/tools")
    assert code == 0
    assert "  add(a: integer, b: integer)\n" in capfd.readouterr().out


def test_list_falls_back_to_http_with_sse(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["list", "tools", url.replace("/tools", "/sse")])

    assert code == 0
    assert "  add(a: integer, b: integer)\n" in capfd.readouterr().out


def test_call_takes_the_url_behind_or_among_its_arguments(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "add", "a=1", "b=2", url]) == 0
    assert main(["call", "add", url, "--header", "X-Team=blue", "a=3", "b=4"]) == 0
    assert capfd.readouterr().out == "3\n7\n"


def test_call_at_a_url_has_the_exit_codes_of_any_call(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["call", "fail", url]) == 1
    assert "no such thing" in capfd.readouterr().err
    assert main(["call", "hold", url, "--deadline", "0.5"]) == 3
    assert "within 0.5 s" in capfd.readouterr().err


@pytest.mark.parametrize("command", [["list"], ["call", "add", "a:=1"], ["probe"]])
def test_exit_3_means_that_nobody_serves_at_the_url(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    code = main([*command, "http://127.0.0.1:9/mcp"])
    out, err = capfd.readouterr()

    assert (code, out) == (3, "")
    assert err.startswith("mcp-trio: the server did not answer initialize: ")
    assert err.count("\n") == 1


def test_exit_3_means_that_what_serves_at_the_url_is_no_mcp(
    url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["list", f"{url}/elsewhere"]) == 3
    assert "404" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        (["list", "http://x/", "--", "y"], "one server at a time"),
        (["list", "http://x/", "https://y/"], "one server at a time"),
        (["list", "http://x/", "--env", "A=1"], "--env and --cwd are for a server that is started"),
        (["call", "t", "--header", "A=1", "--", "y"], "--header is for a URL"),
        (["call", "t", "http://x/", "--header", "A"], "argument --header: 'A' is not of the form"),
        (["call", "t", "http://x/", "--header", "Host=y"], "no header that can be set: 'Host'"),
        (["list", "http://user:secret@x/"], "no http or https URL without user and password"),
        (["probe"], "probe needs a URL"),
        (["probe", "--", "y"], "probe takes no command after --"),
        (["demo", "http://x/"], "demo takes no URL"),
        (["serve", "m:s", "--http", "x"], "argument --http: 'x' is not of the form [HOST:]PORT"),
        (["serve", "m:s", "--http", ":80"], "argument --http: ':80' is not of the form"),
        (["serve", "m:s", "--http", "99999"], "argument --http: '99999' is not of the form"),
        (["serve", "m:s", "--drain", "1"], "--drain needs --http"),
        (["serve", "m:s", "--sse-path", "/s"], "--sse-path needs --http"),
        (["serve", "m:s", "--http", "0", "--path", "x"], "argument --path: 'x' does not begin"),
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


# ---------------------------------------------------------------- serve


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_serve_lets_a_call_finish_when_a_signal_comes(
    serve: Any, calling: Any, signum: int, code: int
) -> None:
    serving = serve()
    call = calling("finish", "seconds:=1", serving.url)
    wait_for(call.stderr, "begun")

    assert serving.end(signum) == (code, "", "")
    out, err = call.communicate(timeout=10)
    assert (call.returncode, out) == (0, "finished\n"), err


def test_serve_ends_a_call_that_takes_longer_than_the_drain(serve: Any, calling: Any) -> None:
    serving = serve("--drain", "0.2")
    call = calling("hold", serving.url)
    wait_for(call.stderr, "holding")
    began = time.monotonic()

    code, _, _ = serving.end()
    assert (code, time.monotonic() - began < 5) == (0, True)
    assert "mcp-trio: " in call.communicate(timeout=10)[1]
    assert call.returncode in {1, 3}  # an error for the call, or a server that is gone


def test_a_second_signal_does_not_wait_for_the_drain(serve: Any, calling: Any) -> None:
    serving = serve("--drain", "60")
    call = calling("hold", serving.url)
    wait_for(call.stderr, "holding")
    serving.process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        serving.process.wait(timeout=0.5)

    assert serving.end()[0] == 0


def test_exit_3_means_that_the_port_is_taken(
    serve: Any, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    port = serve().url.split(":")[2].removesuffix("/mcp")
    code = main(["serve", f"{folder}/servers.py:server", "--http", port])

    assert code == 3
    assert capfd.readouterr().err.startswith(f"mcp-trio: cannot serve 127.0.0.1:{port}: ")


def test_exit_3_means_that_the_store_cannot_be_used(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "no.db").write_text("this is no database, and never was", encoding="utf-8")
    code = main(
        ["serve", f"{folder}/servers.py:server", "--http", "0", "--store", f"{folder}/no.db"]
    )

    assert code == 3
    assert "no.db" in capfd.readouterr().err


# ---------------------------------------------------------------- probe


def test_probe_says_what_the_server_speaks(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["probe", url])
    lines = capfd.readouterr().out.splitlines()

    assert code == 0
    assert lines[0] == f"{url}: tests 1"
    assert lines[1:7] == [
        "2025-11-25: Streamable HTTP",
        "    answers        application/json",
        "    session        has an id",
        "    standing GET   offered",
        "    resumable      yes, events have ids",
        "    priming event  yes",
    ]
    assert "2025-06-18, 2025-03-26, 2024-11-05: Streamable HTTP" in lines


def test_probe_prints_json(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["probe", url, "--json"])
    found = json.loads(capfd.readouterr().out)

    assert (code, found["url"], found["server"]) == (0, url, "tests 1")
    newest, *older = found["revisions"].values()
    assert newest == {
        "spoken": True,
        "ping": "ok",
        "transport": "Streamable HTTP",
        "answers": ["application/json"],
        "session": True,
        "standing_stream": 200,
        "event_ids": True,
        "priming_event": True,
        "headers": {"content-type": "application/json"},
    }
    assert [each["event_ids"] for each in older] == [None, None, None]


def test_probe_tells_http_with_sse(url: str, capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["probe", url.replace("/tools", "/sse"), "--json"])
    found = json.loads(capfd.readouterr().out)["revisions"]

    assert code == 0
    assert {each["transport"] for each in found.values()} == {"HTTP+SSE"}
    assert [each["session"] for each in found.values()] == [False] * 4


def test_probe_tells_a_server_that_keeps_no_events(
    serve: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["probe", serve().url])
    out = capfd.readouterr().out

    assert "    priming event  none\n" in out
    assert "resumable      yes" not in out


# ---------------------------------------------------------------- demo


def test_the_demo_over_http_shows_all_four_layers(capfd: pytest.CaptureFixture[str]) -> None:
    code = main(["demo", "--http"])
    out, err = capfd.readouterr()
    told, layers, sequence, laws = re.split(
        r"\n(?=What crossed the wire|The same as a sequence|held )", out, maxsplit=3
    )

    assert (code, err) == (0, "")
    assert "withdrawn  " in told
    assert re.findall(r"^(\w[\w -]+?)  +[-\d]+  ", layers, re.MULTILINE) == [
        "host process",
        "MCP session",
        "call",
        "HTTP request",
        "SSE event",
        "JSON-RPC message",
    ]
    assert re.search(r"POST \d +2 │    ◀─── elicitation/create #1 caused by #2", sequence)
    assert "╌╌╌ cancelled #3" in sequence
    assert "┈┈┈ DELETE" in sequence
    assert laws.endswith("laws: 3 held\n")
    assert max(map(len, out.splitlines())) <= 100
