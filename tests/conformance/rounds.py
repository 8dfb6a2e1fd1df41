"""What the official suite asks a server for in the revision whose questions come in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define

from mcp_trio import Accepted, Context
from mcp_trio.types import TextContent, Tool

if TYPE_CHECKING:
    from mcp_trio import Server

__all__ = ["add_rounds"]


@define
class UserName:
    """Who the user is."""

    name: str


@define
class Colour:
    """What the user likes."""

    color: str


@define
class Confirmed:
    """Whether the user agrees."""

    ok: bool


@define
class Background:
    """What the prompt is about."""

    context: str


_QUESTION: Final = "What is the capital of France?"


async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Ask for a name."""
    match await ctx.elicit(UserName, "What is your name?", key="user_name"):
        case Accepted(UserName(name=name)):
            return f"Hello, {name}!"
    return "Hello, whoever you are!"


async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the model."""
    answer = await ctx.sample(_QUESTION, 100, key="capital_question")
    assert isinstance(answer.content, TextContent)
    return f"The model says: {answer.content.text}"


async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Ask for the roots."""
    roots = await ctx.list_roots(key="client_roots")
    return f"Roots: {', '.join(str(root.uri) for root in roots)}"


async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for a confirmation, and get the state back."""
    return f"state-ok: {await ctx.elicit(Confirmed, 'Do you agree?', key='confirm')}"


async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """Ask for a confirmation; a state that was changed never comes this far."""
    return f"Confirmed: {await ctx.elicit(Confirmed, 'Do you agree?', key='confirm')}"


async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask for three things at once."""
    answers: dict[str, Any] = {}

    async def name() -> None:
        answers["name"] = await ctx.elicit(UserName, "What is your name?", key="user_name")

    async def greeting() -> None:
        answers["greeting"] = await ctx.sample("Greet somebody", 100, key="greeting")

    async def roots() -> None:
        answers["roots"] = await ctx.list_roots(key="client_roots")

    async with trio.open_nursery() as nursery:
        for ask in (name, greeting, roots):
            nursery.start_soon(ask)
    return f"All answered: {', '.join(sorted(answers))}"


async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask for one thing after another."""
    name = await ctx.elicit(UserName, "What is your name?", key="step1")
    colour = await ctx.elicit(Colour, "What is your favorite color?", key="step2")
    return f"{name}, {colour}"


async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask for what the client can do, and for nothing else."""
    answers: list[Any] = []
    if ctx.peer.has("sampling"):
        answers.append(await ctx.sample(_QUESTION, 100))
    if ctx.peer.has("elicitation"):
        answers.append(await ctx.elicit(UserName, "What is your name?"))
    if ctx.peer.has("roots"):
        answers.append(await ctx.list_roots())
    return f"{len(answers)} answers"


async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that asks what it is about."""
    return f"Context: {await ctx.elicit(Background, 'What is it about?', key='user_context')}"


async def test_missing_capability(ctx: Context) -> str:
    """Need what not every client can do."""
    return str(await ctx.sample(_QUESTION, 100))


async def test_streaming_elicitation(ctx: Context) -> str:
    """Report progress, then ask."""
    await ctx.progress(1, total=2)
    return str(await ctx.elicit(UserName, "What is your name?"))


async def test_logging_tool(ctx: Context) -> str:
    """Log a message, if the client wants to hear it."""
    await ctx.log("info", "Tool called")
    return "Logged"


async def _tell_region(_: Context, arguments: dict[str, Any]) -> str:
    return f"Region: {arguments.get('region')}"


def add_rounds(server: Server) -> None:
    """Offer all of it."""
    for tool in (
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_tampered_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_capabilities,
        test_missing_capability,
        test_streaming_elicitation,
        test_logging_tool,
    ):
        server.tool(tool)
    server.prompt(test_input_required_result_prompt)
    server.add_tool(
        Tool(
            name="test_x_mcp_header",
            description="A tool with an argument that a header repeats.",
            input_schema={
                "type": "object",
                "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
            },
        ),
        _tell_region,
    )

    @server.tool
    async def test_trigger_tool_change() -> str:
        """Add a tool, and take it away."""

        async def passing() -> str:
            """Pass by."""
            return ""

        server.tool(passing)
        server.remove_tool("passing")
        return "Changed"

    @server.tool
    async def test_trigger_prompt_change() -> str:
        """Add a prompt, and take it away."""

        async def passing() -> str:
            """Pass by."""
            return ""

        server.prompt(passing)
        server.remove_prompt("passing")
        return "Changed"
