"""``mcp-trio list``: what a server offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp_trio.errors import ErrorCode, PeerError

from .arguments import KINDS
from .client import connect, make_client, print_json, to_json
from .outcome import Exit, plain, run_async

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from mcp_trio.client import ClientSession

__all__ = ["run"]


def run(options: argparse.Namespace) -> Exit:
    """List one kind, or every kind that the server has."""

    async def command() -> Exit:
        async with connect(options, make_client(options)) as session:
            if options.kind:
                found = {options.kind: await _all_of(session, options.kind)}
            else:
                found = await _everything(session)
            if options.json:
                listed = to_json(session, found)
                print_json(listed[options.kind] if options.kind else listed)
            else:
                print(_text(found), flush=True)
        return Exit.OK

    return run_async(command)


async def _all_of(session: ClientSession, kind: str) -> list[Any]:
    pages: Any = {
        "tools": session.list_tools,
        "resources": session.list_resources,
        "templates": session.list_resource_templates,
        "prompts": session.list_prompts,
    }[kind]()
    found: list[Any] = await pages.all()
    return found


async def _everything(session: ClientSession) -> dict[str, list[Any]]:
    declared = session.capabilities
    has = {
        "tools": declared.tools,
        "resources": declared.resources,
        "templates": declared.resources,
        "prompts": declared.prompts,
    }
    found = {}
    for kind in KINDS:
        if has[kind] is not None:
            try:
                found[kind] = await _all_of(session, kind)
            except PeerError as exc:
                # Many servers with resources have no templates, and not the method either.
                if kind != "templates" or exc.code != ErrorCode.METHOD_NOT_FOUND:
                    raise
    return found


def _text(found: Mapping[str, list[Any]]) -> str:
    lines = []
    for kind, items in found.items():
        lines.append(kind if items else f"{kind}: none")
        for item in items:
            lines.append(f"  {_headline(kind, item)}")
            if item.description:
                lines.append(f"      {item.description.strip().splitlines()[0]}")
    return plain("\n".join(lines) or "nothing", keep="\n")


def _headline(kind: str, item: Any) -> str:
    if kind == "tools":
        return f"{item.name}({_parameters(item.input_schema)})"
    if kind == "prompts":
        arguments = item.arguments or ()
        return f"{item.name}({', '.join(a.name + ('' if a.required else '?') for a in arguments)})"
    return str(item.uri if kind == "resources" else item.uri_template)


def _parameters(schema: Mapping[str, Any]) -> str:
    """Write an input schema as a signature; what may be left out ends in a question mark."""
    required = schema.get("required", ())
    shown = []
    for name, each in (schema.get("properties") or {}).items():
        kind = each.get("type") if isinstance(each, dict) else None
        text = name if name in required else f"{name}?"
        if kind is not None:
            text += f": {'|'.join(kind) if isinstance(kind, list) else kind}"
        if isinstance(each, dict) and each.get("default") is not None:
            text += f" = {each['default']}"
        shown.append(text)
    return ", ".join(shown)
