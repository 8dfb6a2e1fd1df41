"""The command line, its help and its usage errors."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, NoReturn

from mcp_trio import __version__

from .outcome import CommandError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["KINDS", "parse"]

KINDS = ("tools", "resources", "templates", "prompts")

_ABOUT = """\
Speak the Model Context Protocol from the command line.

examples:
  mcp-trio demo
  mcp-trio serve weather.py:server
  mcp-trio list -- python -m mcp_trio.examples.weather
  mcp-trio call forecast city=Oslo days=2 -- python -m mcp_trio.examples.weather
"""

_EXITS = """\
exit codes:
    0  ok
    1  the tool, or the server, answered with an error
    2  usage
    3  the server could not be reached, or was lost, or took too long
    4  the server violated the protocol
  130  interrupted
"""

_ARGUMENTS = """\
arguments of the tool:
  key=value    text; a number or yes/no where the tool's schema says integer, number or
               boolean for that key, and not string too
  key:=json    any JSON value: ids:='[1, 2]' or name:='"7"' or note:=null

On a terminal the server's questions to you are asked; anywhere else they are declined.
Progress, log messages, and what the server writes to its stderr, appear on stderr.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options; ``command`` is the subcommand, ``server`` what is behind ``--``.

    Raises:
        CommandError: *argv* cannot be understood.
        SystemExit: help or the version was asked for, and has been printed.
    """
    own, server = _split(list(argv))
    parser = _parser()
    options, beyond = parser.parse_known_args(own)
    if beyond and (options.command != "call" or any(word.startswith("-") for word in beyond)):
        parser.error(f"unrecognized arguments: {' '.join(beyond)}")
    if options.command == "call":
        options.arguments += beyond  # argparse stops collecting at an option
    if options.command in ("list", "call"):
        if not server:
            parser.error(f"{options.command} needs a server: ... -- COMMAND ARG...")
        options.server = server
    elif server is not None:
        parser.error(f"{options.command} takes no command after --")
    return options


def _split(argv: list[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in argv:
        return argv, None
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mcp-trio",
        description=_ABOUT,
        epilog=_EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-trio {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    serve = _command(commands, "serve", "serve a Server object on stdin and stdout", "")
    serve.add_argument(
        "target",
        metavar="MODULE:SERVER",
        help="where the Server object is; MODULE is importable from here, or a path to a .py file",
    )
    serve.add_argument(
        "--traceback", action="store_true", help="show where the import of MODULE failed"
    )

    listing = _command(commands, "list", "list what a server offers", "")
    listing.usage = "mcp-trio list [KIND] [options] -- COMMAND ARG..."
    listing.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    _of_clients(listing)

    call = _command(commands, "call", "call a tool of a server", _ARGUMENTS)
    call.usage = "mcp-trio call TOOL [key=value | key:=json ...] [options] -- COMMAND ARG..."
    call.add_argument("tool", metavar="TOOL", help="its name")
    call.add_argument("arguments", nargs="*", metavar="key=value | key:=json", help="see below")
    _of_clients(call)

    _command(commands, "demo", "show a real session, and what crosses the wire in it", "")
    return parser


def _command(
    commands: argparse._SubParsersAction[_Parser], name: str, summary: str, more: str
) -> argparse.ArgumentParser:
    return commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"{more}\n{_EXITS}" if more else _EXITS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _of_clients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--env", action="append", default=[], type=_variable, metavar="K=V", help="for the server"
    )
    parser.add_argument("--cwd", metavar="DIR", help="where the server runs")
    parser.add_argument(
        "--deadline", type=_seconds, metavar="SECONDS", help="give up on a request after this time"
    )


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form K=V")
    return name, value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds
