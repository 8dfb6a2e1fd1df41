"""What our client does with servers like `modern.py`, feature by feature."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio import Client, Declined
from mcp_trio.types import TextContent, TextResourceContents
from mcp_trio.wire.envelope import LOG_LEVEL
from tests.interop.checks import code_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcp_trio import ClientSession, Elicitation, OutgoingRequest
    from mcp_trio.client import ClientContext
    from mcp_trio.types import CreateMessageRequestParams

    from .checks import Check
    from .talk import Talk

__all__ = ["CHECKS", "SEEN", "client_of", "in_rounds", "progress"]

TOOLS: Final = [
    "add",
    "ask",
    "ask_both",
    "ask_model",
    "ask_twice",
    "count_given_up",
    "echo",
    "grow",
    "hold",
    "log",
    "steps",
    "touch",
]

_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"

#: By feature: what a check of it returns, at 2026-07-28.
SEEN: Final[Mapping[str, Any]] = {
    "revision": "2026-07-28",
    "list tools": TOOLS,
    "call a tool": "grüße 🙂",
    "structured content": {"total": 5, "parts": [2, 3]},
    "progress": [[step, 3, f"step {step}"] for step in (1, 2, 3)],
    "unknown tool": -32602,
    "elicitation": {"action": "accept", "name": "Ann"},
    "elicitation: decline": {"action": "decline"},
    "sampling": "peer-model: a reply to a poem",
    "two questions in one round": {
        "name": "Ann",
        "said": "peer-model: a reply to a poem",
        "runs": 2,
    },
    "two rounds": {"name": "Ann", "age": 30, "runs": 3},
    "cancel a call": 1,
    "log level of a request": [["error", {"text": "loud"}]],
    "read a resource": "some text",
    "unknown resource": -32602,
    "get a prompt": [["user", "Greet Ann."]],
    "get a prompt that asks": [["user", "Welcome Ann."]],
    "listen": [True, True],
}


def client_of(talk: Talk, revisions: Sequence[str]) -> Client:
    """Return a client that keeps in *talk* what it sends and hears, and answers as it says."""

    async def keep(session: ClientSession, call: OutgoingRequest, call_next: Any) -> Any:
        talk.hear("sent", call.method)
        return await call_next(session, call)

    client = Client(
        "modern", version="1", revisions=revisions, model_name="peer-model", outgoing=[keep]
    )

    @client.sampling
    async def sample(ctx: ClientContext, params: CreateMessageRequestParams) -> str:
        content = params.messages[0].content
        assert isinstance(content, TextContent)
        return f"a reply to {content.text}"

    @client.elicitation
    async def elicit(ctx: ClientContext, question: Elicitation) -> Any:
        if talk.answer != "accept":
            return Declined()
        return {"name": "Ann"} if question.message == "Who are you?" else {"age": 30}

    client.log(lambda _, params: talk.hear("log", params.level, params.data))
    client.resource_updated(lambda _, params: talk.hear("updated", params.uri))
    client.tools_changed(lambda *_: talk.hear("tools changed"))
    client.notification(_ACKNOWLEDGED)(lambda *_: talk.hear("listening"))
    return client


async def text(talk: Talk, tool: str, **arguments: Any) -> str:
    return text_of(await talk.session.call_tool(tool, arguments))


async def structured(talk: Talk, tool: str, **arguments: Any) -> Any:
    return (await talk.session.call_tool(tool, arguments)).structured_content


async def in_rounds(talk: Talk, tool: str, who: str) -> dict[str, Any]:
    """Return what a tool that asks came to, and how often it was called for that.

    At older revisions one call is all; servers that count the runs of their handler agree.
    """
    before = len(talk.all("sent"))
    found = json.loads(await text(talk, tool, who=who))
    calls = len(talk.all("sent")) - before
    assert found.get("runs", calls) == calls
    return {**found, "runs": calls}


async def progress(talk: Talk) -> Any:
    """Return the progress of three steps."""
    seen: list[list[Any]] = []
    await talk.session.call_tool(
        "steps", {"n": 3}, progress=lambda p: seen.append([p.progress, p.total, p.message])
    )
    return seen


async def _revision(talk: Talk) -> Any:
    await trio.lowlevel.checkpoint()
    return talk.session.revision.version


async def _list_tools(talk: Talk) -> Any:
    return sorted(tool.name for tool in await talk.session.list_tools().all())


async def _structured_content(talk: Talk) -> Any:
    await talk.session.list_tools().all()  # so that the result is held to its schema
    return await structured(talk, "add", a=2, b=3)


async def _decline(talk: Talk) -> Any:
    talk.answer = "decline"
    return await structured(talk, "ask")


async def _cancel(talk: Talk) -> Any:
    async def call() -> None:
        await talk.session.call_tool(
            "hold", {"who": "ours"}, progress=lambda _: talk.hear("running")
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(call)
        await talk.until("running")
        nursery.cancel_scope.cancel()
    while True:
        count = int(await text(talk, "count_given_up", who="ours"))
        if count:
            return count
        await trio.sleep(0.02)


async def _log(talk: Talk) -> Any:
    meta = {LOG_LEVEL: "warning"}
    await talk.session.call_tool("log", {"level": "error", "text": "not asked for"})
    await talk.session.call_tool("log", {"level": "info", "text": "quiet"}, meta=meta)
    await talk.session.call_tool("log", {"level": "error", "text": "loud"}, meta=meta)
    await talk.until("log", "error")
    return talk.all("log")


async def _read(talk: Talk) -> Any:
    content = (await talk.session.read_resource("memo://text")).contents[0]
    assert isinstance(content, TextResourceContents)
    return content.text


async def _prompt(talk: Talk, prompt: str, **arguments: str) -> Any:
    messages = (await talk.session.get_prompt(prompt, arguments)).messages
    return [[m.role, m.content.text] for m in messages if isinstance(m.content, TextContent)]


async def _listen(talk: Talk) -> Any:
    """Listen by a raw request, for want of an API, and be told by the handlers of notifications."""
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["memo://text"]}

    async def listen() -> None:
        await talk.session.request("subscriptions/listen", {"notifications": wanted})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await talk.until("listening")
        await talk.session.call_tool("touch")
        _, uri = await talk.until("updated")
        await talk.session.call_tool("grow")
        await talk.until("tools changed")
        nursery.cancel_scope.cancel()
    return [uri == "memo://text", len(talk.all("tools changed")) == 1]


CHECKS: Final[Mapping[str, Check]] = {
    "revision": _revision,
    "list tools": _list_tools,
    "call a tool": lambda talk: text(talk, "echo", text="grüße 🙂"),
    "structured content": _structured_content,
    "progress": progress,
    "unknown tool": lambda talk: code_of(talk.session.call_tool("nothing")),
    "elicitation": lambda talk: structured(talk, "ask"),
    "elicitation: decline": _decline,
    "sampling": lambda talk: text(talk, "ask_model", prompt="a poem"),
    "two questions in one round": lambda talk: in_rounds(talk, "ask_both", "ours"),
    "two rounds": lambda talk: in_rounds(talk, "ask_twice", "ours"),
    "cancel a call": _cancel,
    "log level of a request": _log,
    "read a resource": _read,
    "unknown resource": lambda talk: code_of(talk.session.read_resource("memo://no")),
    "get a prompt": lambda talk: _prompt(talk, "greet", name="Ann"),
    "get a prompt that asks": lambda talk: _prompt(talk, "welcome"),
    "listen": _listen,
}
