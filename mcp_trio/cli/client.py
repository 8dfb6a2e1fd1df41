"""What ``list`` and ``call`` share: a client made from the options, and its session."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from mcp_trio import __version__
from mcp_trio.client import Client, connect_http, connect_stdio
from mcp_trio.codec import codec_for
from mcp_trio.limits import Deadline

from .outcome import CommandError

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from mcp_trio.abc import Tracer
    from mcp_trio.client import ClientSession

__all__ = ["connect", "connect_url", "make_client", "print_json", "to_json"]


def make_client(options: argparse.Namespace, revisions: Sequence[str] | None = None) -> Client:
    """Return a client that keeps to ``--deadline``, and speaks *revisions*."""
    seconds = options.deadline
    deadline = None if seconds is None else Deadline(idle=seconds, cap=seconds)
    return Client("mcp-trio", version=__version__, deadline=deadline, revisions=revisions)


def connect(
    options: argparse.Namespace, client: Client
) -> AbstractAsyncContextManager[ClientSession]:
    """Open a session with the server that the options name, started here or at a URL.

    Raises:
        CommandError: the URL or a header is malformed.
    """
    if options.url is not None:
        return connect_url(options, client)
    return connect_stdio(
        options.server, client=client, env=dict(options.env), cwd=options.cwd, stderr="inherit"
    )


@asynccontextmanager
async def connect_url(
    options: argparse.Namespace, client: Client, tracer: Tracer | None = None
) -> AsyncIterator[ClientSession]:
    """Open a session with the server at ``options.url``; see `connect`."""
    async with AsyncExitStack() as stack:
        try:
            session = await stack.enter_async_context(
                connect_http(
                    options.url, client=client, headers=dict(options.header), tracer=tracer
                )
            )
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        yield session


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
