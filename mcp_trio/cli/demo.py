"""``mcp-trio demo``: a real session with a real child process, and what crossed the wire."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import msgspec
import trio

from mcp_trio import __version__
from mcp_trio.client import Client, connect_stdio
from mcp_trio.runtime.answers import Accepted
from mcp_trio.trace.laws import check, report
from mcp_trio.trace.record import Recorder
from mcp_trio.trace.render import layer_table, sequence_diagram

from .outcome import Exit, run_async

if TYPE_CHECKING:
    import argparse

    from mcp_trio.client import ClientContext, ClientSession, Elicitation
    from mcp_trio.types import ProgressNotificationParams, TextContent

__all__ = ["run"]

_SERVER: Final = ("-m", "mcp_trio.examples.booking")
_ANSWER: Final = {"seat": "window", "meal": True}
#: More than the machine ever needs for one message (seconds).
_PATIENCE: Final = 10.0


def run(_: argparse.Namespace) -> Exit:
    """Run the session, then show it."""
    return run_async(_demo)


async def _demo() -> Exit:
    recorder = Recorder()
    user = _ScriptedUser()
    client = Client("demo", version=__version__)
    client.elicitation(user.ask)
    print(f"A session with a child process over stdio: python {' '.join(_SERVER)}\n")
    async with connect_stdio([sys.executable, *_SERVER], client=client, tracer=recorder) as session:
        await _call_and_answer(session)
        await _call_and_give_up(session, user)
    recording = recorder.recording()
    print("\nWhat crossed the wire, layer by layer:\n")
    print(layer_table(recording))
    print("\nThe same as a sequence; ids count in each direction by themselves:\n")
    print(sequence_diagram(recording))
    print("\nWhich call a question was caused by is not on the wire: it came while that one alone")
    print("was open. The server knows it, and ends the question with the call.\n")
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
    print("  withdrawn  the server has cancelled its question, which came from that call")


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
