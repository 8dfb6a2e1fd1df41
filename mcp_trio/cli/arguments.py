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
  mcp-trio serve weather.py:server --http 8000
  mcp-trio list http://127.0.0.1:8000/mcp
  mcp-trio probe http://127.0.0.1:8000/mcp
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

_SERVING = """\
With --http the URL is printed on stderr. Ctrl+C and SIGTERM stop accepting, wait for what is
under way, at most --drain seconds, and cancel the rest; a second signal cancels at once.
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
    """Return the options; ``command`` is the subcommand.

    ``server`` is what is behind ``--``, ``url`` the URL in its place; the other one is None.

    Raises:
        CommandError: *argv* cannot be understood.
        SystemExit: help or the version was asked for, and has been printed.
    """
    own, server = _split(list(argv))
    own, urls = _take_urls(own)
    parser = _parser()
    options, beyond = parser.parse_known_args(own)
    if beyond and (options.command != "call" or any(word.startswith("-") for word in beyond)):
        parser.error(f"unrecognized arguments: {' '.join(beyond)}")
    if options.command == "call":
        options.arguments += beyond  # argparse stops collecting at an option
    _check_target(parser, options, server, urls)
    options.server, options.url = server, urls[0] if urls else None
    return options


def _take_urls(words: list[str]) -> tuple[list[str], list[str]]:
    """Take the words that are URLs, wherever they stand: a server's place is at the end."""
    urls = [word for word in words if word.startswith(("http://", "https://"))]
    return [word for word in words if word not in urls], urls


def _check_target(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    server: list[str] | None,
    urls: list[str],
) -> None:
    command = options.command
    takes_command = command in ("list", "call")
    if server is not None and not takes_command:
        parser.error(f"{command} takes no command after --")
    if urls and not (takes_command or command == "probe"):
        parser.error(f"{command} takes no URL")
    if takes_command and not server and not urls:
        parser.error(f"{command} needs a server: URL, or -- COMMAND ARG...")
    if command == "probe" and not urls:
        parser.error("probe needs a URL")
    if len(urls) + (server is not None) > 1:
        parser.error("one server at a time")
    if urls and takes_command and (options.env or options.cwd):
        parser.error("--env and --cwd are for a server that is started here")
    if server is not None and options.header:
        parser.error("--header is for a URL")
    if command == "serve" and options.http is None:
        given = [name for name in _OF_HTTP if getattr(options, name) is not None]
        if given:
            parser.error(f"--{given[0].replace('_', '-')} needs --http")


_OF_HTTP = ("path", "sse_path", "store", "drain")


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

    serve = _command(
        commands, "serve", "serve a Server object on stdin and stdout, or over HTTP", _SERVING
    )
    serve.add_argument(
        "target",
        metavar="MODULE:SERVER",
        help="where the Server object is; MODULE is importable from here, or a path to a .py file",
    )
    serve.add_argument(
        "--traceback", action="store_true", help="show where the import of MODULE failed"
    )

    _of_http_servers(serve)

    listing = _command(commands, "list", "list what a server offers", "")
    listing.usage = "mcp-trio list [KIND] [options] (URL | -- COMMAND ARG...)"
    listing.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    _of_clients(listing)

    call = _command(commands, "call", "call a tool of a server", _ARGUMENTS)
    call.usage = (
        "mcp-trio call TOOL [key=value | key:=json ...] [options] (URL | -- COMMAND ARG...)"
    )
    call.add_argument("tool", metavar="TOOL", help="its name")
    call.add_argument("arguments", nargs="*", metavar="key=value | key:=json", help="see below")
    _of_clients(call)

    probe = _command(commands, "probe", "find out what the server at a URL speaks", "")
    probe.usage = "mcp-trio probe [options] URL"
    _of_any_client(probe)

    demo = _command(commands, "demo", "show a real session, and what crosses the wire in it", "")
    demo.add_argument("--http", action="store_true", help="over HTTP instead of stdio")
    return parser


def _of_http_servers(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--http",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve Streamable HTTP there; HOST is 127.0.0.1 unless given, PORT 0 a free one",
    )
    serve.add_argument(
        "--path", type=_path, metavar="PATH", help="of the endpoint, /mcp unless given"
    )
    serve.add_argument(
        "--sse-path",
        type=_path,
        metavar="PATH",
        help="serve HTTP+SSE of 2024-11-05 too, its stream there",
    )
    serve.add_argument(
        "--store", metavar="FILE", help="keep events there: streams resume, after a restart too"
    )
    serve.add_argument(
        "--drain", type=_seconds, metavar="SECONDS", help="how long to wait at the end (5)"
    )


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


def _of_any_client(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--header", action="append", default=[], type=_variable, metavar="K=V", help="for a URL"
    )
    parser.add_argument(
        "--deadline", type=_seconds, metavar="SECONDS", help="give up on a request after this time"
    )


def _of_clients(parser: argparse.ArgumentParser) -> None:
    _of_any_client(parser)
    parser.add_argument(
        "--env", action="append", default=[], type=_variable, metavar="K=V", help="for the server"
    )
    parser.add_argument("--cwd", metavar="DIR", help="where the server runs")


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form K=V")
    return name, value


def _path(text: str) -> str:
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} does not begin with a slash")
    return text


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535 or (colon and not host):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form [HOST:]PORT")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return seconds
