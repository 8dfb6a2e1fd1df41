"""Our client, doing what a scenario of the official conformance suite wants to see.

The suite names the scenario, and the newest revision to speak, in the environment.

usage: python -m tests.conformance.client URL
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

import trio

from mcp_trio import Accepted, Client, connect_http

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp_trio import ClientSession, Elicitation

_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
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


SCENARIOS: Final[Mapping[str, Callable[[ClientSession], Awaitable[None]]]] = {
    "initialize": initialize,
    "tools_call": tools_call,
    "elicitation-sep1034-client-defaults": client_defaults,
    "sse-retry": sse_retry,
    "json-schema-2020-12-preservation": schema_preservation,
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
    """Accept a form as it is filled in beforehand."""
    return Accepted(question.defaults())


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
        revisions=[revision for revision in _REVISIONS if revision <= newest],
    )
    client.elicitation(fill_in)
    standing = StandingStream()
    with trio.fail_after(_PATIENCE):
        async with connect_http(url, client=client, tracer=standing) as session:
            # The suite takes a GET that comes during a call for the one that resumes it.
            await standing.answered.wait()
            await scenario(session)


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
