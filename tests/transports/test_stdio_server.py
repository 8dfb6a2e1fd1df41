"""The server's end of stdio, in real processes: what its peer and its parent see."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import pytest

from mcp_trio.limits import Limits
from tests.transports.children.launch import ENV, HERE, INITIALIZE, QUICK, gone, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HELLO = (
    json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE}).encode()
    + b'\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
)


def request(id_: int, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a server to its end, which must be a good one."""
    return subprocess.run(command, env=ENV, timeout=10, check=True, **options)


def converse(sent: bytes, limits: Limits | None = None) -> tuple[list[Any], bytes]:
    """Send all of it, close, and return the messages that came back and the stderr."""
    done = run(server(limits), input=HELLO + sent, capture_output=True)
    return [json.loads(line) for line in done.stdout.splitlines()][1:], done.stderr


class Running(subprocess.Popen[bytes]):
    """A process with pipes that the test holds; it is killed in the end."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    stderr: IO[bytes]


@contextmanager
def running(command: list[str], **streams: Any) -> Iterator[Running]:
    """Start a process for the test to talk to, and kill it in the end."""
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE) | streams
    with Running(command, env=ENV, bufsize=0, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def test_only_json_lines_reach_the_wire() -> None:
    """`print`, descriptor 1, C libraries and children write to stderr; children read nothing."""
    sent = request(1, "noise") + request(2, "echo", text="after")
    answers, stderr = converse(sent, Limits(eof_grace=5.0))

    assert {a["id"]: a["result"] for a in answers} == {1: {"child": 0}, 2: {"text": "after"}}
    assert stderr.startswith(b"printed at import time")
    assert b"p" * 70_000 in stderr
    assert b"written to 1\n" in stderr
    assert b"leaked::1\n" in stderr
    assert b"not flushed" in stderr
    assert b"printed by C" in stderr


@pytest.mark.case("11")
def test_a_child_of_the_server_does_not_take_its_input() -> None:
    """It reads the end of a file at once, while the client's pipe is open."""
    with running(server(), stderr=subprocess.DEVNULL) as process:
        process.stdin.write(HELLO + request(1, "noise"))
        out = b""
        while out.count(b"\n") < 2 and select.select([process.stdout], [], [], 5)[0]:
            out += os.read(process.stdout.fileno(), 65_536)

    assert json.loads(out.splitlines()[1])["result"] == {"child": 0}


def test_stdout_is_put_back_afterwards() -> None:
    """After the session the process's stdout is what it was."""
    done = run([*server(), "afterwards"], input=b"", capture_output=True)

    assert done.stdout == b"printed after serving\n"
    assert done.stderr == b"printed at import time"


def test_stdio_has_one_owner() -> None:
    """A second use in the process is refused."""
    [answer], _ = converse(request(1, "again"))

    assert "served already" in answer["result"]["error"]


SEPARATORS = b"a\xe2\x80\xa8b\xe2\x80\xa9c\xc2\x85d"
LINES = [
    b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%b"}}\r\n' % SEPARATORS,
    b'\xef\xbb\xbf{"jsonrpc":"2.0","id":2,"method":"ping"}\n',
    b'\xff\xfe{"x"\n',
    b"\n",
    b'{"jsonrpc":"2.0","id":3,"method":"ping"}',
]


@pytest.mark.case("12")
def test_lines_end_at_lf_only() -> None:
    """CR and BOM are tolerated, other line separators are data, the last LF may be missing."""
    answers, _ = converse(b"".join(LINES))

    assert [a.get("id") for a in answers] == [1, 2, None, 3]
    assert answers[2]["error"]["code"] == -32700


@pytest.mark.case("12")
def test_lines_may_come_byte_by_byte() -> None:
    """What the kernel delivers at once has no meaning."""
    with running(server()) as process:
        process.stdin.write(HELLO)
        os.read(process.stdout.fileno(), 65_536)
        for byte in b"".join(LINES):
            process.stdin.write(bytes([byte]))
        process.stdin.close()
        out = process.stdout.read()

    assert [json.loads(line).get("id") for line in out.splitlines()] == [1, 2, None, 3]


@pytest.mark.case("14")
def test_a_line_over_the_limit_is_refused_and_the_session_goes_on() -> None:
    """Up to the limit a message is served; one byte more is answered without being read."""
    limit = 100_000
    exact = request(1, "echo", text="x" * (limit + 1 - len(request(1, "echo", text=""))))
    over = exact.replace(b"xx", b"xxx", 1)
    assert len(exact) == limit + len(b"\n")

    answers, _ = converse(exact + over + request(2, "echo", text="on"), Limits(message_bytes=limit))

    [served] = [a for a in answers if a.get("id") == 1]
    assert len(served["result"]["text"]) > limit - 100
    [refused] = [a for a in answers if "error" in a]
    assert (refused["error"]["code"], refused.get("id")) == (-32600, None)
    [later] = [a for a in answers if a.get("id") == 2]
    assert later["result"] == {"text": "on"}


@pytest.mark.case("14")
def test_a_line_that_never_ends_closes_the_session() -> None:
    """Past ``discard_bytes`` there is no hope for the stream; the server exits."""
    limits = Limits(message_bytes=1_000, discard_bytes=100_000)
    with running(server(limits)) as process:

        def flood() -> None:
            while True:
                process.stdin.write(b"x" * 10_000)

        with pytest.raises(BrokenPipeError):
            flood()

        assert process.wait(5) == 0


@pytest.mark.case("11")
def test_stdout_and_stderr_may_be_one_pipe() -> None:
    """The shared description stays blocking, so that nobody's `print` ever fails."""
    read_fd, write_fd = os.pipe()
    with running(server(), stdout=write_fd, stderr=write_fd) as process:
        process.stdin.write(HELLO)
        process.stdin.write(b"".join(request(i, "noise") for i in range(1, 6)))
        process.stdin.write(request(6, "flags"))
        # Nobody reads yet: the pipe is full long before the first handler is done.
        select.select([read_fd], [], [])
        assert os.get_blocking(write_fd)
        os.close(write_fd)
        out = b""
        while b'"id":6' not in out:
            out += os.read(read_fd, 65_536)
        process.stdin.close()
        while data := os.read(read_fd, 65_536):
            out += data
        assert process.wait(5) == 0
    os.close(read_fd)

    assert out.count(b'"result":{"child":0}') == 5
    assert b"BlockingIOError" not in out
    assert b'{"blocking":[true,true,true]}' in out


def test_the_parents_descriptors_keep_their_flags() -> None:
    """The flag outlives a server that sets it: the parent's stdin would stop to block."""
    stdin, stdout = os.pipe(), os.pipe()
    with running(server(), stdin=stdin[0], stdout=stdout[1]) as process:
        os.write(stdin[1], HELLO)
        assert os.read(stdout[0], 65_536)
        assert os.get_blocking(stdin[0])
        assert os.get_blocking(stdout[1])
        os.close(stdin[1])
        assert process.wait(5) == 0
    for fd in (stdin[0], *stdout):
        assert os.get_blocking(fd)
        os.close(fd)


def test_files_serve_as_stdin_and_stdout(tmp_path: Path) -> None:
    """``serve < requests > answers`` works, and appends where the shell appends."""
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    requests.write_bytes(HELLO + b"".join(request(i, "echo", n=i) for i in range(1, 1_000)))
    answers.write_bytes(b"before\n")
    with requests.open("rb") as stdin, answers.open("ab") as stdout:
        run(server(), stdin=stdin, stdout=stdout)

    before, hello, *echoed = answers.read_text().splitlines()
    assert before == "before"
    assert json.loads(hello)["id"] == 0
    assert sorted(json.loads(line)["result"]["n"] for line in echoed) == list(range(1, 1_000))


def test_a_server_without_input_exits() -> None:
    """/dev/null is an end of file."""
    assert run(server(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode == 0


def test_sockets_serve_as_stdin_and_stdout() -> None:
    """Some hosts use socket pairs instead of pipes, one for each direction or one for both."""
    ours, theirs = socket.socketpair()
    with ours, running(server(), stdin=theirs, stdout=theirs) as process:
        theirs.close()
        ours.sendall(HELLO + request(1, "echo", text="x" * 1_000_000))
        out = b""
        while out.count(b"\n") < 2:
            out += ours.recv(65_536)
        ours.shutdown(socket.SHUT_WR)
        assert process.wait(5) == 0

    assert len(json.loads(out.splitlines()[1])["result"]["text"]) == 1_000_000


async def test_a_server_ends_with_its_parent() -> None:
    """A parent that is killed does not end the stdin that somebody else holds, too."""
    read_fd, write_fd = os.pipe()
    script = "import subprocess,sys; p=subprocess.Popen(sys.argv[1:]); print(p.pid); p.wait()"
    with running([sys.executable, "-u", "-c", script, *server(QUICK)], stdin=read_fd) as parent:
        pid = int(parent.stdout.readline())
        os.write(write_fd, HELLO)
        assert parent.stdout.readline()
        parent.kill()

        assert await gone(pid, 2.0)
    os.close(read_fd)
    os.close(write_fd)


@pytest.mark.case("10")
async def test_a_server_ends_with_a_client_that_was_killed() -> None:
    """Nothing has to be sent for it: the pipes of a dead client are closed."""
    with running([sys.executable, str(HERE / "host.py"), repr(server(QUICK))]) as host:
        pid = int(host.stdout.readline())
        host.kill()

        assert await gone(pid, 2.0)


@pytest.mark.case("18")
def test_a_client_that_stops_reading_cannot_hold_a_server() -> None:
    """Its answers are given up within ``limits.drain``; the whole lines before are whole."""
    limits = Limits(eof_grace=0.3, drain=0.3)
    with running(server(limits)) as process:
        process.stdin.write(HELLO)
        for i in range(1, 30):
            process.stdin.write(request(i, "fill", size=100_000))
        process.stdin.close()

        assert process.wait(3) == 0
        *lines, last = process.stdout.read().split(b"\n")

    assert {len(json.loads(line)["result"].get("text", "")) for line in lines[1:]} == {100_000}
    assert last  # of a line that the kernel took half of


@pytest.mark.case("10")
def test_pending_work_ends_soon_after_the_end_of_input() -> None:
    """A handler that never returns has ``limits.eof_grace``."""
    with running(server(QUICK)) as process:
        process.stdin.write(HELLO + request(1, "hold"))
        while process.stderr.readline() != b"printed at import timeholding\n":
            pass
        process.stdin.close()

        assert process.wait(2) == 0
