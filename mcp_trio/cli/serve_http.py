"""``mcp-trio serve --http``: a server at a URL, and its end in order."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio.server import serve_http

from .outcome import CommandError, Exit, run_async

if TYPE_CHECKING:
    import argparse

    from mcp_trio.server import Server
    from mcp_trio.transports.http_server import HttpServer

__all__ = ["run_http"]

#: How long calls under way may take at the end, unless ``--drain`` says so (seconds).
_DRAIN: Final = 5.0


def run_http(server: Server, options: argparse.Namespace) -> Exit:
    """Serve until a signal comes."""
    serving = _Serving(server, options)
    return run_async(serving.serve, on_sigterm=Exit.OK, wind_down=serving.wind_down)


class _Serving:
    def __init__(self, server: Server, options: argparse.Namespace) -> None:
        self._server = server
        self._options = options
        self._http: HttpServer | None = None

    async def serve(self) -> Exit:
        """Serve until cancelled."""
        options = self._options
        host, port = options.http
        try:
            async with AsyncExitStack() as stack:
                store = None
                if options.store is not None:
                    from mcp_trio.stores.sqlite import SqliteStore  # noqa: PLC0415 - on request

                    store = await stack.enter_async_context(
                        SqliteStore(options.store, limits=self._server.limits)
                    )
                await serve_http(
                    self._server,
                    port,
                    host,
                    options.path or "/mcp",
                    store=store,
                    sse_path=options.sse_path,
                    task_status=self,
                )
        except OSError as exc:
            raise CommandError(f"cannot serve {host}:{port}: {exc}", Exit.LOST) from exc
        except ValueError as exc:
            raise CommandError(str(exc)) from exc
        return Exit.OK

    def started(self, value: Any = None) -> None:
        """It serves: say where."""
        self._http = value
        print(f"serving {self._options.target} at {value.url}", file=sys.stderr, flush=True)

    async def wind_down(self) -> None:
        """Take nothing new, and let what is under way finish."""
        if self._http is not None:
            drain = _DRAIN if self._options.drain is None else self._options.drain
            self._http.stop_accepting()
            with trio.move_on_after(drain):
                await self._http.wait_drained()
