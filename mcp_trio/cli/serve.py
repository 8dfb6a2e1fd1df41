"""``mcp-trio serve``: find a `Server` object and serve it on stdin and stdout, or over HTTP."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .outcome import CommandError, Exit, run_async

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from mcp_trio.server import Server

__all__ = ["load", "run"]


def run(options: argparse.Namespace) -> Exit:
    """Serve until stdin ends or a signal comes; SIGTERM is how a server is ended from outside."""
    with _stdout_to_stderr():  # what a module prints while it is imported is no JSON-RPC
        server = load(options.target, show_traceback=options.traceback)
    if options.http is not None:
        from .serve_http import run_http  # noqa: PLC0415 - only where it is used

        return run_http(server, options)

    async def serve() -> Exit:
        from mcp_trio.server import serve_stdio  # noqa: PLC0415 - after the user's own mistakes

        try:
            await serve_stdio(server)
        except OSError as exc:
            raise CommandError(f"cannot serve stdin and stdout: {exc}", Exit.LOST) from exc
        return Exit.OK

    return run_async(serve, on_sigterm=Exit.OK)


def load(target: str, *, show_traceback: bool = False) -> Server:
    """Return the server that *target* (``MODULE:SERVER``) names.

    Raises:
        CommandError: there is none; the text says which part is at fault.
    """
    name, colon, attribute = target.rpartition(":")
    if not colon or not name or not attribute:
        raise CommandError(f"{target!r} is not of the form MODULE:SERVER, like weather:server")
    try:
        module = _import(name)
    except (Exception, SystemExit) as exc:
        if show_traceback:
            traceback.print_exc()
        where = "" if show_traceback else "; --traceback shows where"
        reason = f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__
        raise CommandError(f"cannot import {name}: {reason}{where}") from exc
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise CommandError(f"there is no {attribute} in {name}")
        found = getattr(found, part)
    from mcp_trio.server import Server  # noqa: PLC0415 - the user's module has it by now

    if not isinstance(found, Server):
        raise CommandError(f"{attribute} in {name} is a {type(found).__name__}, not a Server")
    return found


def _import(name: str) -> Any:
    if not name.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(name)
    path = Path(name).resolve()
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # noqa: S101 - there is a loader for .py
    assert spec.loader is not None  # noqa: S101 - as above
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as for any import: classes are looked up there
    spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    saved = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved, 1)
        os.close(saved)
