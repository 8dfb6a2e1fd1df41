"""The client's end of stdio: starting servers, hearing of their end, ending them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
import trio

from mcp_trio.errors import ConnectFailed, SessionLost
from mcp_trio.limits import Limits
from mcp_trio.runtime.session import Session
from mcp_trio.transports._fds import FdWriter
from mcp_trio.transports.process import StderrTail
from mcp_trio.transports.stdio import ChildTransport, open_child
from mcp_trio.wire.jsonrpc import Notification
from tests.transports.children.launch import (
    ENV,
    INITIALIZE,
    QUICK,
    Nobody,
    eventually,
    gone,
    open_fds,
    plain,
    server,
    session_over,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mcp_trio.abc import Route

STUBBORN = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up'); time.sleep(60)"


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No descriptor, no child and no zombie outlives a test."""
    before = open_fds()
    yield
    assert open_fds() == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


async def read_all(child: ChildTransport) -> tuple[list[Any], SessionLost]:
    """Return what a child says until its session is lost, and why it is lost."""
    messages: list[Any] = []

    def deliver(message: Any, _: Route) -> None:
        messages.append(message)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.run_writer)
        with pytest.raises(SessionLost) as lost:
            await child.run_reader(deliver)
        nursery.cancel_scope.cancel()
    await child.aclose()
    return messages, lost.value


async def first_line(child: ChildTransport) -> str:
    """Wait for the first line, which shall be noise."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child.run_reader, lambda *_: None)
        await eventually(lambda: child.skipped_lines > 0)
        nursery.cancel_scope.cancel()
    return child.first_noise[0]


# ---------------------------------------------------------------- talking


@pytest.mark.case("14")
async def test_messages_of_any_size_pass_both_ways() -> None:
    """Sizes around the buffers of pipes and readers, and at the limit, which counts the line."""
    limits = Limits(message_bytes=2_000_000)
    async with session_over(await open_child(server(limits), env=ENV, limits=limits)) as session:
        for size in (65_535, 65_536, 65_537, 1 << 20, 1_999_900):
            assert await session.call("echo", {"t": "x" * size}) == {"t": "x" * size}


@pytest.mark.case("14")
async def test_an_answer_over_the_limit_is_skipped_and_the_session_goes_on() -> None:
    """Up to the limit an answer arrives; one byte more makes it a skipped line."""
    limits = Limits(message_bytes=100_000)
    frame = len(b'{"jsonrpc":"2.0","id":2,"result":{"text":""}}')
    child = await open_child(server(), env=ENV, limits=limits)
    async with session_over(child, limits) as session:
        for size in (100_000 - frame - 1, 100_000 - frame):
            answer = await session.call("fill", {"size": size})
            assert len(answer["text"]) == size
        assert child.skipped_lines == 0
        with trio.move_on_after(0.1):
            await session.call("fill", {"size": 100_000 - frame + 1})
        assert await session.call("echo", {"on": True}) == {"on": True}

    assert child.first_noise == ("<a line of 100001 bytes; the limit is 100000>",)


async def test_the_environment_and_the_directory_are_the_callers_choice(tmp_path: Path) -> None:
    """``env`` goes on top of ours, or stands alone; ``cwd`` is where the child runs."""
    code = "import os; print(os.getcwd(), os.environ.get('HOME'), os.environ.get('EXTRA'))"
    seen = []
    options: dict[str, Any]
    for options in ({"env": {"EXTRA": "1"}}, {"env": {"EXTRA": "1"}, "inherit_env": False}, {}):
        child = await open_child(plain(code), cwd=tmp_path, **options)
        await read_all(child)
        seen.append(child.first_noise[0])

    home = os.environ.get("HOME")
    assert seen == [f"{tmp_path} {home} 1", f"{tmp_path} None 1", f"{tmp_path} {home} None"]


# ---------------------------------------------------------------- failing


@pytest.mark.case("07")
async def test_every_waiter_hears_how_the_server_ended() -> None:
    """All calls in flight and all later ones fail at once, with exit code and stderr."""
    child = await open_child(server(), env=ENV, limits=QUICK)
    errors: list[SessionLost] = []

    async def wait_for_answer(session: Session) -> None:
        with pytest.raises(SessionLost) as lost:
            await session.call("hold")
        errors.append(lost.value)

    async with session_over(child) as session:
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(wait_for_answer, session)
            await eventually(lambda: child.stderr_tail.count("holding") == 10)
            os.kill(child.pid, signal.SIGKILL)
            nursery.cancel_scope.deadline = trio.current_time() + 1
        await wait_for_answer(session)

    assert [error.exit_code for error in errors] == [-signal.SIGKILL] * 11
    assert all("holding" in error.stderr_tail for error in errors)


@pytest.mark.case("07")
async def test_a_dead_server_is_noticed_while_its_children_hold_the_pipe() -> None:
    """The end of the process counts, not only the end of its stdout."""
    child = await open_child(["sh", "-c", "sleep 60 & kill -9 $$"], limits=QUICK)
    with trio.fail_after(2):
        _, error = await read_all(child)

    assert error.exit_code == -signal.SIGKILL


async def test_a_broken_pipe_is_explained_by_the_servers_end() -> None:
    """Writing to a server that goes away fails first; the reader's reason is better."""
    code = "import os, time; os.close(0); print('up'); time.sleep(0.1); os._exit(3)"
    child = await open_child(plain(code), limits=QUICK)
    session = Session("client", Nobody(), child, limits=QUICK)
    async with trio.open_nursery() as nursery:
        await nursery.start(session.run)
        await eventually(lambda: child.skipped_lines > 0)
        with pytest.raises(SessionLost) as lost:
            await session.call("initialize", INITIALIZE)

    assert lost.value.exit_code == 3


async def test_a_server_that_only_closes_its_stdout_is_lost() -> None:
    """There is nothing more to read from it, though it runs."""
    code = "import os, sys; os.close(1); sys.stdin.read()"
    child = await open_child(plain(code), limits=QUICK)
    _, error = await read_all(child)

    assert (error.reason, error.exit_code) == ("the server closed its stdout", None)
    assert child.exit_code == 0


async def test_a_server_that_cannot_run_says_why() -> None:
    """A traceback, an exit code and a banner end up in one error."""
    code = "print('Welcome!'); raise SystemExit(int('no number'))"
    child = await open_child(plain(code), limits=QUICK)
    _, error = await read_all(child)
    failure = child.failure("the server did not answer initialize")

    assert error.exit_code == failure.exit_code == 1
    assert "invalid literal" in error.stderr_tail
    assert "Welcome!" in str(failure)
    assert "invalid literal" in str(failure)
    assert "exit code 1" in str(failure)


@pytest.mark.parametrize("command", [["/no/such/program"], ["/etc/hostname"], ["/"], ["a\0b"]])
async def test_a_program_that_cannot_be_started_is_one_clear_error(command: list[str]) -> None:
    """The name, and what the system says of it."""
    with pytest.raises(ConnectFailed, match="cannot start") as failed:
        await open_child(command)

    assert repr(command[0]) in str(failed.value)


async def test_a_directory_that_does_not_exist_is_one_clear_error() -> None:
    """The fault is not the program's, and the error names the right one."""
    with pytest.raises(ConnectFailed, match="/no/such/place"):
        await open_child(plain(""), cwd="/no/such/place")


@pytest.mark.parametrize("command", ["python server.py", []])
async def test_a_command_is_a_sequence(command: list[str]) -> None:
    """A shell's line is a mistake that should not wait for ENOENT."""
    with pytest.raises(TypeError, match="sequence"):
        await open_child(command)


# ---------------------------------------------------------------- noise


@pytest.mark.case("11")
async def test_noise_on_stdout_is_skipped_counted_and_kept() -> None:
    """A client never answers what it cannot parse, and goes on."""
    events: list[tuple[str, dict[str, Any]]] = []

    class Tracer:
        def event(self, name: str, fields: dict[str, Any]) -> None:
            events.append((name, fields))

    code = """if True:
        import json, os
        for i in range(8): print("banner", i, "y" * 300)
        os.write(1, b"\\xff\\xfe\\n")
        print(json.dumps({"level": "info"}))
        print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}))
    """
    child = await open_child(plain(code), limits=QUICK, tracer=Tracer())
    messages, _ = await read_all(child)

    assert [message.id for message in messages] == [1]
    assert child.skipped_lines == 10
    assert len(child.first_noise) == 5
    assert {len(line) for line in child.first_noise} == {200}
    assert [name for name, _ in events] == ["line.skipped"] * 10
    assert events[8][1]["size"] == 2


@pytest.mark.case("11")
async def test_a_server_that_only_makes_noise_is_given_up() -> None:
    """The budget of noise is counted between two messages."""
    code = """if True:
        import sys
        for i in range(5):
            print("x" * 900)
            print('{"jsonrpc": "2.0", "id": 1, "result": {}}')
        print("y" * 900); print("y" * 900)
        sys.stdin.read()
    """
    limits = Limits(junk_bytes=1_000)
    child = await open_child(plain(code), limits=limits)
    messages, error = await read_all(child)

    assert len(messages) == 5
    assert "1800 bytes to its stdout that are no JSON-RPC" in error.reason
    assert "xxx" in error.reason


@pytest.mark.case("11")
async def test_a_line_without_end_is_given_up() -> None:
    """Nothing is kept of it, and it has a bound."""
    limits = Limits(message_bytes=1_000, discard_bytes=100_000, shutdown_wait=0.1)
    child = await open_child(plain("while True: print(end='x' * 10_000)"), limits=limits)
    _, error = await read_all(child)

    assert "without a line feed" in error.reason


# ---------------------------------------------------------------- stderr


async def test_stderr_appears_on_ours_by_default(capfd: pytest.CaptureFixture[str]) -> None:
    """What a server logs is seen, and its end is kept all the same."""
    child = await open_child(plain("import sys; sys.stderr.write('seen\\n' * 10_000)"))
    await read_all(child)

    assert capfd.readouterr().err == "seen\n" * 10_000
    assert child.stderr_tail.endswith("seen\nseen\n")
    assert len(child.stderr_tail) == Limits().stderr_tail


async def test_stderr_can_be_captured(capfd: pytest.CaptureFixture[str]) -> None:
    """Then nothing of it is shown."""
    child = await open_child(plain("import sys; sys.stderr.write('kept')"), stderr="capture")
    await read_all(child)

    assert capfd.readouterr().err == ""
    assert child.stderr_tail == "kept"


async def test_stderr_can_be_a_file(tmp_path: Path) -> None:
    """A path is appended to, an open file is written where it stands."""
    log = tmp_path / "log"
    log.write_text("old\n")
    code = "import sys; sys.stderr.write('new\\n')"
    await read_all(await open_child(plain(code), stderr=log))
    with log.open("a") as file:
        file.write("mine\n")
        child = await open_child(plain(code), stderr=file)
        await read_all(child)

    assert log.read_text() == "old\nnew\nmine\nnew\n"
    assert child.stderr_tail == ""


async def test_a_stderr_of_ours_that_nobody_reads_does_not_hold_the_child() -> None:
    """What it does not take is dropped; when it takes again, it gets what comes then."""
    read_fd, write_fd = os.pipe()
    our_read_fd, our_write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    os.set_blocking(our_write_fd, False)
    tail = StderrTail(read_fd, 100, FdWriter(our_write_fd))

    def write() -> None:
        for _ in range(200):
            os.write(write_fd, b"x" * 65_536)
        os.write(write_fd, b"last words")
        os.close(write_fd)

    thread = threading.Thread(target=write)
    thread.start()
    with trio.fail_after(1):
        await tail.run()
    thread.join()
    tail.close()
    forwarded = b""
    while data := os.read(our_read_fd, 65_536):
        forwarded += data
    os.close(our_read_fd)

    assert tail.text.endswith("xxlast words")
    assert 65_536 <= len(forwarded) < 200 * 65_536


async def test_a_stderr_of_ours_that_breaks_does_not_hurt_the_child() -> None:
    """The tail goes on without it."""
    read_fd, write_fd = os.pipe()
    our_read_fd, our_write_fd = os.pipe()
    os.close(our_read_fd)
    os.set_blocking(read_fd, False)
    tail = StderrTail(read_fd, 100, FdWriter(our_write_fd))
    os.write(write_fd, b"words")
    os.close(write_fd)
    await tail.run()
    tail.close()

    assert tail.text == "words"


async def test_the_last_words_of_a_shutdown_are_heard() -> None:
    """The child writes while it is being closed, and there is somebody to read it."""
    code = "import sys; print('up'); sys.stdin.read(); sys.stderr.write('x' * 300_000 + 'bye')"
    child = await open_child(plain(code), stderr="capture", limits=QUICK)
    await first_line(child)
    await child.aclose()

    assert child.exit_code == 0
    assert child.stderr_tail.endswith("xxbye")


# ---------------------------------------------------------------- ending


async def test_a_child_that_exits_at_the_end_of_input_is_not_waited_for() -> None:
    """Each step of the shutdown ends with what it waits for."""
    child = await open_child(plain("import sys; sys.stdin.read()"))
    with trio.fail_after(1):
        await child.aclose()
        await child.aclose()

    assert child.exit_code == 0


async def test_a_child_that_fills_its_stdout_can_still_exit() -> None:
    """Who has stopped to listen still lets it finish its sentence."""
    code = "import sys; print('up'); sys.stdin.read(); sys.stdout.write('x' * 3_000_000)"
    child = await open_child(plain(code))
    await first_line(child)
    with trio.fail_after(1.5):
        await child.aclose()

    assert child.exit_code == 0


@pytest.mark.case("10")
@pytest.mark.parametrize(
    ("ignored", "status"), [("SIGUSR1", -signal.SIGTERM), ("SIGTERM", -signal.SIGKILL)]
)
async def test_a_child_that_does_not_exit_is_ended_by_force(ignored: str, status: int) -> None:
    """SIGTERM after ``shutdown_wait``, SIGKILL after ``terminate_wait``."""
    child = await open_child(plain(STUBBORN.replace("15", f"signal.{ignored}")), limits=QUICK)
    await first_line(child)
    started = trio.current_time()
    await child.aclose()

    assert child.exit_code == status
    assert trio.current_time() - started < 0.2 + 0.2 + 0.5


@pytest.mark.case("10")
async def test_no_process_of_the_group_outlives_its_session(tmp_path: Path) -> None:
    """A grandchild that ignores the end of input and SIGTERM is killed behind a dead shell."""
    script = tmp_path / "grandchild.py"
    script.write_text(STUBBORN.replace("'up'", "__import__('os').getpid(), flush=True"))
    command = ["sh", "-c", f"'{sys.executable}' -S '{script}' & wait"]
    child = await open_child(command, limits=QUICK)
    grandchild = int(await first_line(child))
    started = trio.current_time()
    await child.aclose()

    assert await gone(grandchild, 0.1)
    assert trio.current_time() - started < QUICK.shutdown_wait + QUICK.terminate_wait + 0.5


async def test_what_a_child_leaves_behind_is_ended() -> None:
    """The child has exited by itself; what it started in its group has not."""
    child = await open_child(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], limits=QUICK)
    grandchild = int(await first_line(child))
    await eventually(lambda: child.exit_code is not None)
    started = trio.current_time()
    await child.aclose()

    assert await gone(grandchild, 0.1)
    assert child.exit_code == 0
    assert trio.current_time() - started < 0.5


async def test_a_cancelled_client_still_ends_its_child() -> None:
    """The ladder is shielded, and bounded by itself."""
    child = await open_child(plain(STUBBORN), limits=QUICK)
    await first_line(child)
    with trio.CancelScope() as scope:
        scope.cancel()
        async with session_over(child):
            pass

    assert scope.cancelled_caught
    assert child.exit_code == -signal.SIGKILL


async def test_two_tasks_may_close_a_child() -> None:
    """Both wait until it is gone."""
    child = await open_child(plain(STUBBORN), limits=QUICK)
    await first_line(child)

    async def close() -> None:
        await child.aclose()
        assert child.exit_code == -signal.SIGKILL

    async with trio.open_nursery() as nursery:
        nursery.start_soon(close)
        nursery.start_soon(close)


@pytest.mark.case("18")
async def test_a_child_that_does_not_read_cannot_hold_the_client() -> None:
    """What is queued for it is given up within ``limits.drain``."""
    child = await open_child(plain("import time; print('up'); time.sleep(60)"), limits=QUICK)
    await first_line(child)
    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.run_writer)
            child.route.send_nowait(Notification("big", {"x": "x" * 5_000_000}), eager=True)
            with trio.move_on_after(QUICK.drain) as draining:
                await child.drain()
            nursery.cancel_scope.cancel()
        await child.aclose()

    assert draining.cancelled_caught


async def test_a_child_has_a_session_of_its_own() -> None:
    """Ctrl-C at our terminal is ours; the child hears of the end by its stdin."""
    child = await open_child(
        plain("import os; print(os.getsid(0) == os.getpid() == os.getpgid(0))")
    )
    assert await first_line(child) == "True"
    await child.aclose()


def test_many_children_leak_nothing() -> None:
    """Starting and closing in a row leaves the descriptors of the process as they were."""

    async def main() -> None:
        for _ in range(5):
            child = await open_child(["cat"], limits=QUICK)
            await child.aclose()

    before = open_fds()
    trio.run(main)
    assert open_fds() == before
    assert subprocess.run(["true"], check=False).returncode == 0
