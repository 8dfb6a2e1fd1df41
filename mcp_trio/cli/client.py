"""What ``list`` and ``call`` share: a client made from the options, and its session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from mcp_trio import __version__
from mcp_trio.client import Client, connect_stdio
from mcp_trio.codec import codec_for
from mcp_trio.limits import Deadline

if TYPE_CHECKING:
    import argparse
    from contextlib import AbstractAsyncContextManager

    from mcp_trio.client import ClientSession

__all__ = ["connect", "make_client", "print_json", "to_json"]


def make_client(options: argparse.Namespace) -> Client:
    """Return a client that keeps to ``--deadline``."""
    seconds = options.deadline
    deadline = None if seconds is None else Deadline(idle=seconds, cap=seconds)
    return Client("mcp-trio", version=__version__, deadline=deadline)


def connect(
    options: argparse.Namespace, client: Client
) -> AbstractAsyncContextManager[ClientSession]:
    """Start the server that the options name and open a session with it."""
    return connect_stdio(
        options.server, client=client, env=dict(options.env), cwd=options.cwd, stderr="inherit"
    )


def to_json(session: ClientSession, value: Any) -> Any:
    """Return messages, or lists and dicts of them, as the session's revision writes them."""
    if isinstance(value, list):
        return [to_json(session, item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(session, item) for key, item in value.items()}
    return codec_for(session.revision.version).unstructure(value)


def print_json(value: Any) -> None:
    """Print a JSON value, indented."""
    print(msgspec.json.format(msgspec.json.encode(value), indent=2).decode(), flush=True)
