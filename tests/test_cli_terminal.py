"""The ``mcp-trio`` command on a terminal: the progress bar, and the server's questions."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import termios
import time
from typing import TYPE_CHECKING

import pytest

from tests.test_cli import CLI, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Call = Callable[[str], "Terminal"]

SERVER = """
import trio
from mcp_trio import Accepted, Context, Server

server = Server("asker", version="1")
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2, "description": "As in your passport."},
        "age": {"type": "integer", "minimum": 18},
        "meal": {"type": "boolean", "default": False},
        "seat": {"type": "string", "enum": ["w", "a"], "enumNames": ["window", "aisle"]},
        "bags": {"type": "array", "items": {"type": "string", "enum": ["red", "blue", "green"]}},
        "note": {"type": "string"},
    },
    "required": ["name", "age", "seat"],
}


@server.tool
async def form(ctx: Context) -> str:
    return repr(await ctx.elicit(FORM, "Who flies?"))


@server.tool
async def page(ctx: Context) -> str:
    return repr(await ctx.elicit_url("https://pay.example/42", "Please pay."))


@server.tool
async def work(ctx: Context) -> str:
    for part in range(3):
        await ctx.progress(part + 1, total=4, message="working\\x1b[31m")
        await trio.sleep(0.05)
    return "\\x1b[31mdone"


@server.tool
async def impatient(ctx: Context) -> str:
    with trio.move_on_after(0.3):
        await ctx.elicit(FORM, "Quick!")
    return "never mind"
"""


class Terminal:
    """A process on a terminal of its own, and the person in front of it."""

    def __init__(self, command: list[str], cwd: Path) -> None:
        self._master, slave = pty.openpty()
        self.seen = ""

        def take_terminal() -> None:  # its Ctrl+C is to reach the process
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment(),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=take_terminal,  # noqa: PLW1509 - there are no threads here
        )
        os.close(slave)

    def read_until(self, text: str) -> str:
        """Return what appears up to *text*; it is read only once."""
        until = time.monotonic() + 10
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], until - time.monotonic())
            if not ready:
                pytest.fail(f"{text!r} never came; there is {self.seen!r}")
            self.seen += self._read()
        before, _, self.seen = self.seen.partition(text)
        return before

    def _read(self) -> str:
        try:
            data = os.read(self._master, 4096)
        except OSError:  # the other end is closed
            data = b""
        if not data:
            pytest.fail(f"the process has ended; there is {self.seen!r}")
        return data.decode()

    def type(self, text: str) -> None:
        """Press these keys."""
        os.write(self._master, text.encode())

    def close(self) -> None:
        """Turn the terminal off."""
        with self.process:
            self.process.kill()
        os.close(self._master)


@pytest.fixture
def calling(tmp_path: Path) -> Iterator[Call]:
    """Call a tool of the server on a terminal."""
    (tmp_path / "asker.py").write_text(SERVER, encoding="utf-8")
    terminals: list[Terminal] = []

    def call(tool: str) -> Terminal:
        command = [*CLI, "call", tool, "--", *CLI, "serve", "asker:server"]
        terminals.append(Terminal(command, tmp_path))
        return terminals[-1]

    yield call
    for terminal in terminals:
        terminal.close()


def test_a_form_is_asked_field_by_field_until_each_fits(calling: Call) -> None:
    screen = calling("form")

    screen.read_until("asker asks: Who flies?")
    screen.read_until("As in your passport.\r\n  name: ")
    screen.type("x\n")
    screen.read_until("expected at least 2 characters, got 1")
    screen.read_until("  name: ")
    screen.type("Ada\n")
    screen.read_until("  age (integer): ")
    screen.type("old\n")
    screen.read_until("expected integer, not 'old'\r\n  age (integer): ")
    screen.type("\n")
    screen.read_until("expected integer, not ''\r\n  age (integer): ")
    screen.type("36\n")
    screen.read_until("  meal (y/n) [n]: ")
    screen.type("\n")
    screen.read_until("  seat (window, aisle): ")
    screen.type("middle\n")
    screen.read_until("choose from window, aisle\r\n  seat (window, aisle): ")
    screen.type("Window\n")
    screen.read_until("  bags (red, blue, green; several with commas): ")
    screen.type("red, green\n")
    screen.read_until("  note: ")
    screen.type("\n")
    screen.read_until("  send this answer? [Y/n] ")
    screen.type("\n")

    screen.read_until("Accepted(content=")
    content = {
        "name": "Ada",
        "age": 36,
        "meal": False,
        "seat": "w",
        "bags": ["red", "green"],
    }
    shown = screen.read_until(")\r\n")
    assert {key: shown.count(repr(key)) for key in content} == dict.fromkeys(content, 1)
    assert all(repr(value) in shown for value in content.values())
    assert screen.process.wait(5) == 0


@pytest.mark.parametrize(("key", "answer"), [("\x04", "Dismissed()"), ("n\n", "Declined()")])
def test_a_form_can_be_closed_and_declined(calling: Call, key: str, answer: str) -> None:
    screen = calling("form")
    screen.read_until("  name: ")
    if answer == "Declined()":
        screen.type("Ada\n36\n\nw\n\n\n")  # typed ahead
        screen.read_until("  send this answer? [Y/n] ")
    screen.type(key)

    screen.read_until(answer)


@pytest.mark.parametrize(("word", "answer"), [("y", "Accepted(content=None)"), ("", "Declined()")])
def test_a_page_is_shown_and_never_opened(calling: Call, word: str, answer: str) -> None:
    screen = calling("page")
    screen.read_until("https://pay.example/42\r\n  on the host pay.example")
    screen.read_until("[y/N] ")
    screen.type(f"{word}\n")

    screen.read_until(answer)


def test_a_question_that_the_server_takes_back_goes_away(calling: Call) -> None:
    screen = calling("impatient")

    screen.read_until("  name: ")
    screen.read_until("never mind")
    assert screen.process.wait(5) == 0


def test_progress_is_a_bar_that_goes_away(calling: Call) -> None:
    screen = calling("work")

    screen.read_until("██████░░░░░░░░░░░░░░░░░░  25% working [31m")
    screen.read_until("██████████████████░░░░░░  75% working [31m")
    assert screen.read_until("done") == "\r\x1b[2K [31m"  # nor can a result drive the terminal


def test_ctrl_c_at_a_question_ends_the_command(calling: Call) -> None:
    screen = calling("form")
    screen.read_until("  name: ")
    screen.type("\x03")

    assert screen.process.wait(10) == 130


def test_ctrl_c_reaches_a_server_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "asker.py").write_text(SERVER, encoding="utf-8")
    screen = Terminal([*CLI, "serve", "asker:server"], tmp_path)
    try:
        screen.type('{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        screen.read_until('"result":{}')
        screen.type("\x03")

        assert screen.process.wait(10) == 128 + signal.SIGINT
    finally:
        screen.close()
