"""``mcp-trio demo``: a real session, over stdio or HTTP, and what crossed the wire."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from mcp_trio import __version__
from mcp_trio.client import Client, connect_http, connect_stdio
from mcp_trio.runtime.answers import Accepted
from mcp_trio.trace.laws import check, report
from mcp_trio.trace.record import Recorder
from mcp_trio.trace.render import layer_table, sequence_diagram

from .outcome import Exit, run_async

if TYPE_CHECKING:
    import argparse

    from mcp_trio.client import ClientContext, ClientSession, Elicitation
    from mcp_trio.trace.record import Recording
    from mcp_trio.transports.http_server import HttpServer
    from mcp_trio.types import ProgressNotificationParams, TextContent

__all__ = ["run"]

_SERVER: Final = ("-m", "mcp_trio.examples.booking")
_ANSWER: Final = {"seat": "window", "meal": True}
#: More than the machine ever needs for one message (seconds).
_PATIENCE: Final = 10.0


def run(options: argparse.Namespace) -> Exit:
    """Run the session, then show it."""
    return run_async(_demo_http if options.http else _demo_stdio)


async def _demo_stdio() -> Exit:
    recorder, user = Recorder(), _ScriptedUser()
    print(f"A session with a child process over stdio: python {' '.join(_SERVER)}\n")
    async with connect_stdio(
        [sys.executable, *_SERVER], client=user.client(), tracer=recorder
    ) as session:
        await _call_and_answer(session)
        await _call_and_give_up(session, user)
    return _show(
        recorder.recording(),
        "Which call a question was caused by is not on the wire: it came while that one alone\n"
        "was open. The server knows it, and ends the question with the call.\n",
    )


async def _demo_http() -> Exit:
    """Serve and call in one process, over a socket, with both ends recorded."""
    from mcp_trio.examples.booking import server  # noqa: PLC0415 - only where it is used
    from mcp_trio.server import serve_http  # noqa: PLC0415 - as above
    from mcp_trio.stores.memory import MemoryStore  # noqa: PLC0415 - as above

    recorder, user = Recorder(), _ScriptedUser()

    async with trio.open_nursery() as nursery:
        http: HttpServer = await nursery.start(
            partial(serve_http, server, store=MemoryStore(), tracer=recorder)
        )
        print("A session over HTTP on this machine, both ends in this process\n")
        async with connect_http(http.url, client=user.client(), tracer=recorder) as session:
            await _call_and_answer(session)
            await _call_and_give_up(session, user)
        nursery.cancel_scope.cancel()
    return _show(
        recorder.recording(),
        "A question comes on the stream of the call that caused it; its answer is a POST of its\n"
        "own. What the server says unasked comes on the GET, which stays open all the time.\n",
    )


def _show(recording: Recording, remark: str) -> Exit:
    print("\nWhat crossed the wire, layer by layer:\n")
    print(layer_table(recording))
    print("\nThe same as a sequence; ids count in each direction by themselves:\n")
    print(sequence_diagram(recording))
    print(f"\n{remark}")
    findings = check(recording)
    print(report(findings))
    return Exit.OK if all(finding.held for finding in findings) else Exit.VIOLATION


async def _call_and_answer(session: ClientSession) -> None:
    print('call book(flight="LH 864")')
    result = await session.call_tool("book", {"flight": "LH 864"}, progress=_show_progress)
    text: TextContent = result.content[0]  # type: ignore[assignment]  # our own server
    print(f"  result     {text.text}\n")


async def _call_and_give_up(session: ClientSession, user: _ScriptedUser) -> None:
    print('call book(flight="SK 1472"), given up while the server waits for an answer')
    user.answers = False
    with trio.fail_after(_PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_call_quietly, session)
            await user.asked.wait()
            nursery.cancel_scope.cancel()
        print("  given up   leaving the cancel scope has cancelled the call on the wire")
        await user.withdrawn.wait()
    print("  withdrawn  the question came from that call, and has gone with it")


async def _call_quietly(session: ClientSession) -> None:
    await session.call_tool("book", {"flight": "SK 1472"}, progress=_show_progress)


def _show_progress(update: ProgressNotificationParams) -> None:
    print(f"  progress   {update.progress:g} of {update.total:g}: {update.message}")


class _ScriptedUser:
    """Answers the first question by itself, on a terminal too, and leaves the second one open."""

    def __init__(self) -> None:
        self.answers = True
        self.asked = trio.Event()
        self.withdrawn = trio.Event()

    def client(self) -> Client:
        """Return the client of this user."""
        client = Client("demo", version=__version__)
        client.elicitation(self.ask)
        return client

    async def ask(self, _: ClientContext, question: Elicitation) -> Accepted[dict[str, object]]:
        print(f"  asked      {question.message}")
        if self.answers:
            print(f"  answered   {msgspec.json.encode(_ANSWER).decode()} (by script)")
            return Accepted(dict(_ANSWER))
        self.asked.set()
        try:
            await trio.sleep_forever()
        finally:
            self.withdrawn.set()
        raise AssertionError
