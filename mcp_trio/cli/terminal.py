"""The user's terminal: progress and log messages on stderr, the server's questions."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, final
from urllib.parse import urlsplit

import msgspec
import trio

from mcp_trio.runtime.answers import Accepted, Declined, Dismissed

from . import form
from .outcome import plain

if TYPE_CHECKING:
    from mcp_trio.client import ClientContext, ClientSession, Elicitation
    from mcp_trio.types import LoggingMessageNotificationParams, ProgressNotificationParams

__all__ = ["Terminal"]

_BAR: Final = 24
_ERASE: Final = "\r\x1b[2K"


class _NoAnswer(Exception):
    """The user closed the question (Ctrl+D)."""


@final
class Terminal:
    """What handlers of the client show and ask; plain lines where there is no terminal."""

    def __init__(self) -> None:
        self._draws: Final = sys.stderr.isatty()
        self._asks: Final = self._draws and sys.stdin.isatty()
        self._one_question: Final = trio.Lock()
        self._typed = b""
        self._drawn = False
        self._asking = False

    def write(self, text: str) -> None:
        """Print lines on stderr, above the progress bar."""
        self.clear()
        print(plain(text, keep="\n"), file=sys.stderr, flush=True)

    # ------------------------------------------------------------ progress, log

    def progress(self, update: ProgressNotificationParams) -> None:
        """Draw a bar, or print a line."""
        done, total = update.progress, update.total
        message = plain(update.message or "")
        if not self._draws:
            amount = f"{done:g}" if total is None else f"{done:g}/{total:g}"
            print(f"progress: {amount} {message}".rstrip(), file=sys.stderr, flush=True)
        elif not self._asking:
            bar = f"{done:g} {message}" if not total else _bar(done / total, message)
            width = os.get_terminal_size(2).columns or 80
            sys.stderr.write(_ERASE + bar[: width - 1])
            sys.stderr.flush()
            self._drawn = True

    def clear(self) -> None:
        """Take the bar away."""
        if self._drawn:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()
            self._drawn = False

    def log(self, _: ClientSession, params: LoggingMessageNotificationParams) -> None:
        """Print a log message of the server."""
        text = params.data if isinstance(params.data, str) else msgspec.json.encode(params.data)
        where = f" {params.logger}" if params.logger else ""
        self.write(f"[{params.level}{where}] {text if isinstance(text, str) else text.decode()}")

    # ------------------------------------------------------------ questions

    async def ask(
        self, ctx: ClientContext, question: Elicitation
    ) -> Accepted[Any] | Declined | Dismissed:
        """Ask the user, one question at a time; decline where there is nobody to ask."""
        async with self._one_question:
            who = ctx.peer.info.name
            self.write(f"{who} asks: {question.message}")
            if not self._asks:
                self.write("declined, since there is no terminal to ask on")
                return Declined()
            self._asking = True
            try:
                if question.url is not None:
                    return await self._ask_to_visit(question.url)
                return await self._fill_in(question)
            except _NoAnswer:
                self.write("\nclosed without an answer")
                return Dismissed()
            finally:
                self._asking = False

    async def _ask_to_visit(self, url: str) -> Accepted[None] | Declined:
        self.write(f"  it wants you to open {url}\n  on the host {urlsplit(url).hostname}")
        agreed = await self._confirm("  will you open it in your browser?", default=False)
        return Accepted(None) if agreed else Declined()

    async def _fill_in(self, question: Elicitation) -> Accepted[dict[str, Any]] | Declined:
        schema = question.raw_schema or {}
        required = schema.get("required", ())
        content: dict[str, Any] = {}
        self.write("  (Enter takes what is in brackets, Ctrl+D closes the question)")
        for name, field in schema.get("properties", {}).items():
            value = await self._ask_field(name, field, needed=name in required)
            if value is not None:
                content[name] = value
        agreed = await self._confirm("  send this answer?", default=True)
        return Accepted(content) if agreed else Declined()

    async def _ask_field(self, name: str, field: dict[str, Any], *, needed: bool) -> Any:
        if field.get("description"):
            self.write(f"  {field['description']}")
        while True:
            text = await self._read(form.prompt(name, field))
            if not text and "default" in field:
                return field["default"]
            if not text and not needed:
                return None
            try:
                return form.read(field, text)
            except ValueError as exc:
                self.write(f"    {exc}")

    async def _confirm(self, question: str, *, default: bool) -> bool:
        while True:
            text = await self._read(f"{question} [{'Y/n' if default else 'y/N'}] ")
            if text.lower() in ("", "y", "yes", "n", "no"):
                return text.lower().startswith("y") if text else default

    async def _read(self, prompt: str) -> str:
        """Show *prompt* and return the line typed after it.

        No thread and no ``input()``: the wait ends at once when the server takes its question
        back. The terminal itself edits the line.

        Raises:
            _NoAnswer: the user closed the question.
        """
        sys.stderr.write(plain(prompt))
        sys.stderr.flush()
        while b"\n" not in self._typed:
            await trio.lowlevel.wait_readable(0)
            some = os.read(0, 4096)
            if not some:
                raise _NoAnswer
            self._typed += some
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode("utf-8", "replace").strip()


def _bar(part: float, message: str) -> str:
    part = min(max(part, 0.0), 1.0)
    full = round(part * _BAR)
    return f"{'█' * full}{'░' * (_BAR - full)} {part:4.0%} {message}"
