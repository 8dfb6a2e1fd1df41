"""The ``mcp-trio`` command: serve a server, look at one, call a tool, see what crosses the wire."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from mcp_trio.errors import McpError

from .arguments import parse
from .outcome import CommandError, Exit, complain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line *argv* (by default the process's own) and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may know ASCII only
    code: int = Exit.INTERRUPTED
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
    except* KeyboardInterrupt:  # it may come out of a nursery
        pass
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        options = parse(argv)
        run: Callable[[Any], Exit] = import_module(f".{options.command}", __name__).run
        code = run(options)
        sys.stdout.flush()
    except (CommandError, McpError) as exc:
        return complain(exc)
    except BrokenPipeError:
        # Whoever reads our output has had enough; Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return Exit.OK
    return code
