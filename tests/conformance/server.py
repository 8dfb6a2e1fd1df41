"""Our server with what the official conformance suite asks a server for.

usage: python -m tests.conformance.server --port N [--sse]
"""

from __future__ import annotations

import argparse
import base64
import json
from functools import partial
from typing import Any, Final

import trio
from attrs import frozen

from mcp_trio import Context, Limits, Server, serve_http
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    PromptMessage,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_trio.wire.revisions import REVISIONS
from tests.conformance.rounds import add_rounds

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
_IMAGE: Final = ImageContent(data=PNG, mime_type="image/png")
#: Between two notifications, so that each comes by itself (seconds).
_BEAT: Final = 0.05
#: Longer than it takes to commit to a stream and to close it.
_AWAY: Final = 0.3

LIMITS: Final = Limits(sse_retry=100)
server = Server("mcp-trio-conformance", version="1.0", limits=LIMITS, revisions=[*REVISIONS])


# ---------------------------------------------------------------- what tools return


@server.tool  # the first of the list has to work without arguments
async def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@server.tool
async def test_image_content() -> ImageContent:
    """Return an image."""
    return _IMAGE


@server.tool
async def test_audio_content() -> AudioContent:
    """Return a sound."""
    return AudioContent(data=WAV, mime_type="audio/wav")


@server.tool
async def test_embedded_resource() -> EmbeddedResource:
    """Return a resource."""
    return EmbeddedResource(
        resource=TextResourceContents(
            uri="test://embedded-resource",
            mime_type="text/plain",
            text="This is an embedded resource content.",
        )
    )


@server.tool
async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Return a text, an image and a resource."""
    data = TextResourceContents(
        uri="test://mixed-content-resource",
        mime_type="application/json",
        text='{"test":"data","value":123}',
    )
    return [
        TextContent(text="Multiple content types test:"),
        _IMAGE,
        EmbeddedResource(resource=data),
    ]


@server.tool
async def test_error_handling() -> CallToolResult:
    """Fail."""
    reason = TextContent(text="This tool intentionally returns an error for testing")
    return CallToolResult(content=(reason,), is_error=True)


# ---------------------------------------------------------------- what tools tell


@server.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Log three messages."""
    await ctx.log("info", "Tool execution started")
    await trio.sleep(_BEAT)
    await ctx.log("info", "Tool processing data")
    await trio.sleep(_BEAT)
    await ctx.log("info", "Tool execution completed")
    return "Tool with logging executed successfully"


@server.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Report progress three times."""
    for done in (0, 50, 100):
        await ctx.progress(done, total=100)
        await trio.sleep(_BEAT)
    return "Tool with progress executed successfully"


@server.tool
async def test_reconnection(ctx: Context) -> str:
    """Close the response and go on; the client comes back for the result."""
    if not ctx.close_stream():
        raise RuntimeError("there is no response that could be resumed")
    await trio.sleep(_AWAY)
    return "Reconnection test completed successfully"


# ---------------------------------------------------------------- what tools ask


@frozen
class User:
    """Who the user is."""

    username: str
    email: str


#: Each kind of field, with a default.
DEFAULTS: Final = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    },
}


def _titled(*values: str) -> list[dict[str, str]]:
    return [{"const": value, "title": value.capitalize()} for value in values]


#: Each kind of choice.
CHOICES: Final = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {"type": "string", "oneOf": _titled("value1", "value2", "value3")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array",
            "items": {"type": "string", "enum": ["option1", "option2", "option3"]},
        },
        "titledMulti": {
            "type": "array",
            "items": {"anyOf": _titled("value1", "value2", "value3")},
        },
    },
}


@server.tool
async def test_sampling(ctx: Context, prompt: str) -> str:
    """Ask the client's model."""
    answer = await ctx.sample(prompt, 100)
    assert isinstance(answer.content, TextContent)
    return f"LLM response: {answer.content.text}"


@server.tool
async def test_elicitation(ctx: Context, message: str) -> str:
    """Ask the user who they are."""
    return f"User response: {await ctx.elicit(User, message)}"


@server.tool
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask the user to go over a form that is filled in."""
    return f"Elicitation completed: {await ctx.elicit(DEFAULTS, 'Please review')}"


@server.tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask the user to choose."""
    return f"Elicitation completed: {await ctx.elicit(CHOICES, 'Please choose')}"


# ---------------------------------------------------------------- a schema of one's own

SCHEMA: Final = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


async def _tell_arguments(_: Context, arguments: dict[str, Any]) -> str:
    return f"JSON Schema 2020-12 tool called with: {json.dumps(arguments)}"


server.add_tool(
    Tool(
        name="json_schema_2020_12_tool",
        description="A tool whose schema uses what is new in JSON Schema 2020-12.",
        input_schema=SCHEMA,
    ),
    _tell_arguments,
)


# ---------------------------------------------------------------- resources


@server.resource("test://static-text", name="static-text", mime_type="text/plain")
async def static_text() -> str:
    """A text that stays as it is."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """An image that stays as it is."""
    return base64.b64decode(PNG)


@server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A text that can be watched."""
    return "This is the content of the watched resource."


@server.resource("test://template/{id}/data", name="template", mime_type="application/json")
async def template_data(id: str) -> dict[str, Any]:  # noqa: A002 - the template's variable
    """The data of an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# ---------------------------------------------------------------- prompts


@server.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@server.prompt
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion("test_prompt_with_arguments", "arg1")
async def complete_arg1(_: Context, value: str, __: dict[str, str]) -> list[str]:
    """Complete the first argument."""
    return [word for word in ("test", "testing", "trial") if word.startswith(value)]


@server.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[PromptMessage]:  # noqa: N803 - the argument's name on the wire
    """A prompt that brings a resource."""
    resource = TextResourceContents(
        uri=resourceUri,
        mime_type="text/plain",
        text="Embedded resource content for testing.",
    )
    return [
        PromptMessage(role="user", content=EmbeddedResource(resource=resource)),
        PromptMessage(
            role="user", content=TextContent(text="Please process the embedded resource above.")
        ),
    ]


@server.prompt
async def test_prompt_with_image() -> list[PromptMessage]:
    """A prompt that brings an image."""
    return [
        PromptMessage(role="user", content=_IMAGE),
        PromptMessage(role="user", content=TextContent(text="Please analyze the image above.")),
    ]


add_rounds(server)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sse", action="store_true", help="answer with event streams only")
    args = parser.parse_args()
    trio.run(
        partial(
            serve_http,
            server,
            args.port,
            store=MemoryStore(limits=LIMITS),
            answers="sse" if args.sse else "both",
        )
    )


if __name__ == "__main__":
    main()
