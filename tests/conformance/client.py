"""Our client, doing what a scenario of the official conformance suite wants to see.

The suite names the scenario, and the newest revision to speak, in the environment.

usage: python -m tests.conformance.client URL
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio import Accepted, Client, connect_http
from mcp_trio.wire.revisions import ENVELOPED, LEGACY, REVISIONS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_trio import ClientSession, Elicitation

#: The suite gives up after 30 seconds.
_PATIENCE: Final = 20


async def initialize(session: ClientSession) -> None:
    """Shake hands, and see that the session is open; the server declares nothing to use."""
    assert session.server_info.name == "test-server"
    await session.ping()


async def tools_call(session: ClientSession) -> None:
    """Add two numbers."""
    assert "8" in await call(session, "add_numbers", {"a": 5, "b": 3})


async def client_defaults(session: ClientSession) -> None:
    """Answer a form with its defaults; see `fill_in`."""
    await call(session, "test_client_elicitation_defaults")


async def sse_retry(session: ClientSession) -> None:
    """Fetch the result of a call whose stream the server has closed."""
    assert "completed" in await call(session, "test_reconnection")


async def schema_preservation(session: ClientSession) -> None:
    """Send a tool's schema back as it came."""
    tools = {tool.name: tool for tool in await session.list_tools().all()}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await call(session, "json_schema_echo", {"schema": schema})


async def request_metadata(session: ClientSession) -> None:
    """Make two requests, after the version of the first has been refused; it offers no tools."""
    for _ in range(2):
        await session.request("server/discover")


async def client_request_state(session: ClientSession) -> None:
    """Go through the rounds of some calls, and through none of others."""
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        await call(session, f"test_mrtr_{name}")


async def standard_headers(session: ClientSession) -> None:
    """Call, read and get, each by a name that a header repeats."""
    tools = [tool.name for tool in await session.list_tools().all()]
    for name in {"test_headers", "my-hyphenated-tool"}.intersection(tools):
        await session.call_tool(name, {})
    await session.list_resources().all()
    await session.read_resource("file:///path/to/file%20name.txt")
    await session.list_prompts().all()
    await session.get_prompt("test_prompt")


async def custom_headers(session: ClientSession) -> None:
    """Make the calls that the suite names, whose arguments headers repeat."""
    await session.list_tools().all()
    for each in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await session.call_tool(each["name"], each.get("arguments", {}))


async def invalid_tool_headers(session: ClientSession) -> None:
    """Call every tool that is left in the list."""
    tools = await session.list_tools().all()
    assert "valid_tool" in [tool.name for tool in tools]
    for tool in tools:
        schema = tool.input_schema
        properties = schema.get("properties", {})
        required = {name: properties[name] for name in schema.get("required", ())}
        arguments = {name: _STUBS[each["type"]] for name, each in required.items()}
        await session.call_tool(tool.name, arguments)


async def only_list(session: ClientSession) -> None:
    """List the tools, and fetch nothing that their schemas refer to."""
    await session.list_tools().all()


#: A value of each type.
_STUBS: Final = {"string": "x", "integer": 1, "number": 1.5, "boolean": True}

SCENARIOS: Final[Mapping[str, Callable[[ClientSession], Awaitable[None]]]] = {
    "initialize": initialize,
    "tools_call": tools_call,
    "elicitation-sep1034-client-defaults": client_defaults,
    "sse-retry": sse_retry,
    "json-schema-2020-12-preservation": schema_preservation,
    "request-metadata": request_metadata,
    "sep-2322-client-request-state": client_request_state,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": invalid_tool_headers,
    "json-schema-ref-no-deref": only_list,
}


async def call(
    session: ClientSession, name: str, arguments: Mapping[str, Any] | None = None
) -> str:
    """Find a tool in the list, call it, and return the text of a result that is no error."""
    assert name in [tool.name for tool in await session.list_tools().all()]
    result = await session.call_tool(name, arguments or {})
    assert not result.is_error, result
    return "".join(getattr(block, "text", "") for block in result.content)


async def fill_in(_: Any, question: Elicitation) -> Accepted[dict[str, Any]]:
    """Accept a form as it is filled in beforehand, and whatever it wants to be confirmed."""
    confirmed = {"confirmed": True} if "confirmed" in str(question.schema) else {}
    return Accepted({**question.defaults(), **confirmed})


async def reply(*_: Any) -> str:
    """Play the model."""
    return "A reply"


class StandingStream:
    """Hears from the engine when the server has answered the session's own GET (a tracer)."""

    def __init__(self) -> None:
        self.answered = trio.Event()
        self._exchange: int | None = None

    def event(self, name: str, fields: dict[str, Any]) -> None:
        if name == "http.request" and fields["method"] == "GET":
            self._exchange = fields["exchange"]
        elif name == "http.response" and fields["exchange"] == self._exchange:
            self.answered.set()


async def main(url: str) -> None:
    scenario = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    newest = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    client = Client(
        "mcp-trio-conformance",
        version="1.0",
        roots=[],
        # Of the revisions without a handshake the suite wants to hear alone.
        revisions=[newest]
        if REVISIONS[newest] in ENVELOPED
        else [each.version for each in LEGACY[: LEGACY.index(REVISIONS[newest]) + 1]],
    )
    client.elicitation(fill_in)
    if REVISIONS[newest] in ENVELOPED:
        client.sampling(reply)
    standing = StandingStream()
    with trio.fail_after(_PATIENCE):
        async with connect_http(url, client=client, tracer=standing) as session:
            # The suite takes a GET that comes during a call for the one that resumes it.
            if session.revision not in ENVELOPED:
                await standing.answered.wait()
            await scenario(session)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
