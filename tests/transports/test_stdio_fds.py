"""Descriptors as a byte stream: pipes, sockets, files, devices and terminals."""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import threading
import tty
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from mcp_trio.limits import Limits
from mcp_trio.transports._fds import CHUNK, LARGE_PIPE, FdBytes, FdReader, FdWriter, own_description
from mcp_trio.transports.pipe import PipeTransport
from mcp_trio.wire.jsonrpc import Notification
from tests.transports.children.launch import open_fds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_leaked_descriptors() -> Iterator[None]:
    before = open_fds()
    yield
    assert open_fds() == before


def pipe(*, blocking: bool = False) -> FdBytes:
    """A pipe through `FdBytes`: what is sent comes back."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, blocking)
    os.set_blocking(write_fd, blocking)
    return FdBytes(read_fd, write_fd)


async def send_and_receive(stream: FdBytes, data: bytes) -> bytes:
    received = bytearray()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.send, data)
        while len(received) < len(data):
            received += await stream.receive()
    return bytes(received)


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3_000_000])
async def test_a_pipe_carries_messages_of_any_size(size: int, *, blocking: bool) -> None:
    """Sizes around the buffers arrive whole, on non-blocking and on blocking descriptors."""
    stream = pipe(blocking=blocking)
    data = os.urandom(size)

    assert await send_and_receive(stream, data) == data
    assert os.get_blocking(stream.reader.fd) is blocking
    stream.close()


async def test_a_socket_is_used_without_touching_its_flag() -> None:
    """Node hosts hand over socket pairs, whose flag the host's end does not even share."""
    ours, theirs = socket.socketpair()
    stream = FdBytes(os.dup(ours.fileno()), os.dup(ours.fileno()))
    echo = FdBytes(os.dup(theirs.fileno()), os.dup(theirs.fileno()))
    data = os.urandom(2_000_000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(echo.send, data)
        received = b""
        while len(received) < len(data):
            received += await stream.receive()
        with trio.move_on_after(0.02) as waiting:
            await stream.receive()

    assert received == data
    assert waiting.cancelled_caught
    assert ours.getblocking()
    assert theirs.getblocking()
    theirs.close()
    echo.close()
    assert await stream.receive() == b""
    stream.close()
    ours.close()


async def test_files_are_read_and_written_where_they_stand(tmp_path: Path) -> None:
    """An offset belongs to the inherited description: what was read is not read again."""
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"skipped" + b"x" * 100_000)
    target.write_bytes(b"kept")
    inherited = os.open(source, os.O_RDONLY)
    os.read(inherited, 7)
    kept = os.open(target, os.O_WRONLY | os.O_APPEND)
    stream = FdBytes(own_description(inherited, os.O_RDONLY), own_description(kept, os.O_WRONLY))

    received = b""
    while data := await stream.receive():
        received += data
    await stream.send(b"!" * 100_000)
    assert stream.send_nowait(b"?") == 1

    assert received == b"x" * 100_000
    assert target.read_bytes() == b"kept" + b"!" * 100_000 + b"?"
    stream.close()
    os.close(inherited)
    os.close(kept)


async def test_the_null_device_is_an_empty_stream() -> None:
    """Always ready, it is what epoll refuses to watch."""
    null = os.open(os.devnull, os.O_RDWR)
    stream = FdBytes(own_description(null, os.O_RDONLY), own_description(null, os.O_WRONLY))

    assert await stream.receive() == b""
    await stream.send(b"gone")
    await stream.writer.wait_writable()
    stream.close()
    os.close(null)


async def test_a_terminal_is_used_without_touching_its_flag() -> None:
    """The shell shares the terminal's description with the server."""
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    stream = FdBytes(own_description(theirs, os.O_RDONLY), own_description(theirs, os.O_WRONLY))

    os.write(ours, b"typed")
    assert await stream.receive() == b"typed"
    await stream.send(b"shown")
    assert os.read(ours, 100) == b"shown"
    assert os.get_blocking(theirs)
    stream.close()
    os.close(ours)
    os.close(theirs)


async def test_what_cannot_be_opened_again_is_duplicated() -> None:
    """A socket has no name to open; the duplicate serves as well."""
    ours, theirs = socket.socketpair()
    fd = own_description(ours.fileno(), os.O_RDWR)

    assert os.get_blocking(fd)
    os.close(fd)
    ours.close()
    theirs.close()


async def test_every_receive_is_a_cancel_point() -> None:
    """Data that is there already does not shield a cancelled reader."""
    stream = pipe()
    for _ in range(2):  # before a first read, and after a full one
        await stream.send(b"x" * CHUNK)
        with trio.CancelScope() as scope:
            scope.cancel()
            await stream.receive()
        assert scope.cancelled_caught
        assert await stream.receive()
    stream.close()


async def test_a_peer_that_never_stops_writing_starves_nobody() -> None:
    """Between two full reads everybody else gets a turn."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(read_fd, False)
    reader = FdReader(read_fd)

    def write_for_ever() -> None:
        try:
            while True:
                os.write(write_fd, b"x" * CHUNK)
        except BrokenPipeError:
            os.close(write_fd)

    thread = threading.Thread(target=write_for_ever)
    thread.start()
    turns = 0
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            while True:
                await reader.receive()

        nursery.start_soon(read)
        with trio.fail_after(5):
            for _ in range(200):
                await trio.lowlevel.checkpoint()
                turns += 1
        nursery.cancel_scope.cancel()
    reader.close()
    thread.join()

    assert turns == 200


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_reader_that_stops_reading_blocks_only_the_writer(*, blocking: bool) -> None:
    """The loop goes on, the writer can be cancelled, and writes nothing after that."""
    stream = pipe(blocking=blocking)
    with trio.move_on_after(0.05) as waiting:
        await stream.send(b"x" * 5_000_000)

    assert waiting.cancelled_caught
    assert stream.send_nowait(b"y") == 0
    with pytest.raises(trio.BrokenResourceError):
        await stream.send(b"y")
    stream.close()


async def test_a_cancelled_caller_leaves_no_half_line() -> None:
    """The writer finishes a line that its caller began: the pipe stays usable."""
    stream = pipe()
    transport = PipeTransport(stream, Limits())
    lines = bytearray()

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            scope.cancel()
            transport.route.send_nowait(Notification("big", {"x": "x" * 500_000}), eager=True)
            await trio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        nursery.start_soon(transport.run_writer)
        transport.route.send_nowait(Notification("small", {}), eager=True)
        while lines.count(b"\n") < 2:
            lines += await stream.receive()
        nursery.cancel_scope.cancel()

    big, small = lines.splitlines()
    assert len(big) > 500_000
    assert big.endswith(b'"}}')
    assert b"small" in small
    stream.close()


async def test_closing_wakes_who_waits() -> None:
    """A task that waits for a descriptor is told, and nobody uses its number again."""
    idle_fd, far_end = os.pipe()
    stuck_fd, write_fd = os.pipe()
    stream = FdBytes(idle_fd, write_fd)
    async with trio.open_nursery() as nursery:

        async def expect_closed(fn: Callable[..., Awaitable[object]], *args: object) -> None:
            with pytest.raises(trio.ClosedResourceError):
                await fn(*args)

        nursery.start_soon(expect_closed, stream.receive)
        nursery.start_soon(expect_closed, stream.send, b"x" * 5_000_000)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await stream.aclose()
    await stream.aclose()

    with pytest.raises(trio.ClosedResourceError):
        await stream.receive()
    with pytest.raises(trio.ClosedResourceError):
        await stream.send(b"x")
    assert stream.send_nowait(b"x") == 0
    os.close(far_end)
    os.close(stuck_fd)


@pytest.mark.parametrize("filled", [False, True])
async def test_closing_between_readiness_and_the_call_is_noticed(*, filled: bool) -> None:
    """Two readers are ready, the first to run closes the other: its number is not read."""
    streams = [pipe(), pipe()]
    outcome: list[object] = []

    async def read(stream: FdBytes, other: FdBytes) -> None:
        try:
            outcome.append(len(await stream.receive()))
        except trio.ClosedResourceError:
            outcome.append("closed")
        other.close()

    for stream in streams:
        if filled:  # a full read makes the next one ask without waiting first
            assert stream.send_nowait(b"x" * CHUNK) == len(await stream.receive())
        stream.send_nowait(b"x")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read, streams[0], streams[1])
        nursery.start_soon(read, streams[1], streams[0])
    for stream in streams:
        stream.close()

    assert outcome == [1, "closed"]


@pytest.mark.parametrize("side", ["reader", "writer"])
async def test_large_messages_enlarge_the_pipe(side: str) -> None:
    """Either end does it, once a message does not fit."""
    stream = pipe()
    os.set_blocking(stream.writer.fd if side == "reader" else stream.reader.fd, True)
    size = 10 * CHUNK

    def far_end() -> None:
        if side == "reader":
            os.write(stream.writer.fd, b"x" * size)
        else:
            received = 0
            while received < size:
                received += len(os.read(stream.reader.fd, CHUNK))

    thread = threading.Thread(target=far_end)
    thread.start()
    if side == "reader":
        received = 0
        while received < size:
            received += len(await stream.receive())
    else:
        await stream.send(b"x" * size)
    thread.join()

    assert fcntl.fcntl(stream.reader.fd, fcntl.F_GETPIPE_SZ) == LARGE_PIPE
    stream.close()


async def test_a_broken_pipe_is_an_error_of_the_writer() -> None:
    """EPIPE comes out of both ways of writing, as the outbox expects."""
    read_fd, write_fd = os.pipe()
    os.set_blocking(write_fd, False)
    os.close(read_fd)
    writer = FdWriter(write_fd)

    with pytest.raises(BrokenPipeError):
        writer.send_nowait(b"x")
    with pytest.raises(BrokenPipeError):
        await writer.send(b"x")
    writer.close()
