"""Tools with JSON Schemas of the user's own: both are enforced, and neither can do harm."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_trio import Context, InvalidMessage, Limits, Server
from mcp_trio.types import CallToolResult, TextContent, Tool
from tests.server.host import EVERY, NEWEST, OLDEST, hosting

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
STRUCTURED = [version for version in EVERY if version >= "2025-06-18"]

ANYTHING: dict[str, Any] = {"type": "object"}
ROUTE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "from": {"$ref": "#/$defs/place"},
        "to": {"$ref": "#/$defs/place"},
        "by": {"enum": ["sea", "air"], "default": "sea"},
    },
    "required": ["from", "to"],
    "if": {"properties": {"by": {"const": "air"}}, "required": ["by"]},
    "then": {"required": ["seat"]},
    "$defs": {"place": {"type": "string", "pattern": "^[A-Z]{3}$"}},
}
TUPLE_7: dict[str, Any] = {
    "$schema": DRAFT_7,
    "type": "object",
    "properties": {"pair": {"items": [{"type": "string"}, {"$ref": "#/definitions/n"}]}},
    "definitions": {"n": {"type": "integer"}},
}


def with_tool(
    handler: Any, schema: dict[str, Any] = ANYTHING, output: dict[str, Any] | None = None
) -> Server:
    server = Server("s")
    server.add_tool(Tool(name="raw", input_schema=schema, output_schema=output), handler)
    return server


async def echo(ctx: Context, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"method": ctx.method, **arguments}


def giving(value: Any, output: dict[str, Any] | None) -> Server:
    async def give(ctx: Context, arguments: dict[str, Any]) -> Any:
        return value

    return with_tool(give, output=output)


async def outcome(server: Server, version: str = NEWEST, **arguments: Any) -> dict[str, Any]:
    async with hosting(server, version) as host:
        return await host.tool("raw", **arguments)


# ---------------------------------------------------------------- input


@pytest.mark.parametrize("version", EVERY)
async def test_a_raw_tool_takes_its_arguments_as_they_came(version: str) -> None:
    """No default is filled in, nothing is converted."""
    async with hosting(with_tool(echo, ROUTE), version) as host:
        (tool,) = (await host.result("tools/list"))["tools"]
        assert tool == {"name": "raw", "inputSchema": ROUTE}
        arguments = {"from": "OSL", "to": "BGO", "more": [1.0, None]}
        result = await host.tool("raw", **arguments)

    expected = {"method": "tools/call", **arguments}
    assert result.get("structuredContent") == (expected if version in STRUCTURED else None)


@pytest.mark.parametrize(
    ("schema", "arguments", "text"),
    [
        (ROUTE, {"from": "OSL"}, "$.to: missing"),
        (ROUTE, {"from": "OSL", "to": "oslo"}, "$.to: expected a string matching"),
        (ROUTE, {"from": "OSL", "to": "BGO", "by": "air"}, "$.seat: missing"),
        (ROUTE, {"from": "OSL", "to": "BGO", "by": "rail"}, "$.by: expected one of"),
        (TUPLE_7, {"pair": ["a", "b"]}, "$.pair[1]: expected integer"),
        ({"type": "object", "additionalProperties": False}, {"x": 1}, "$: expected no members"),
    ],
)
async def test_arguments_that_do_not_fit_the_schema_never_reach_the_handler(
    schema: dict[str, Any], arguments: dict[str, Any], text: str
) -> None:
    result = await outcome(with_tool(echo, schema), **arguments)

    assert result["isError"] is True
    assert text in result["content"][0]["text"]


async def test_a_schema_of_draft_7_is_read_as_one() -> None:
    """Its ``items`` may be a list; 2020-12 has ``prefixItems`` for that."""
    result = await outcome(with_tool(echo, TUPLE_7), pair=["a", 1])

    assert result["structuredContent"]["pair"] == ["a", 1]


@pytest.mark.parametrize("params", [{"name": "raw"}, {"name": "raw", "arguments": None}])
async def test_absent_arguments_are_an_empty_object(params: dict[str, Any]) -> None:
    async with hosting(with_tool(echo)) as host:
        result = await host.result("tools/call", params)

        assert result["structuredContent"] == {"method": "tools/call"}


@pytest.mark.spec("TL-5")
@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"type": ["object"]}, {"anyOf": []}])
def test_an_input_schema_is_that_of_an_object(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidMessage, match=r"inputSchema\.type"):
        with_tool(echo, schema)


# ---------------------------------------------------------------- hostile schemas


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


HOSTILE: dict[str, dict[str, Any]] = {
    "network": {"$ref": "https://example.org/schema.json"},
    "file": {"$ref": "file:///etc/passwd"},
    "nowhere": {"$ref": "#/$defs/missing"},
    "circle": {"allOf": [{"$ref": "#"}]},
    "no schema": {"properties": {"x": {"type": "strange"}}},
    "no pattern": {"properties": {"x": {"pattern": "("}}},
    "dialect": {"$schema": "http://json-schema.org/draft-04/schema#"},
    "deep": nested(1_000),
    "wide": {"enum": list(range(20_000))},
    "bomb": {
        "allOf": [{"$ref": "#/$defs/d0"}],
        "$defs": {
            f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} if n < 30 else {}
            for n in range(31)
        },
    },
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["input", "output"])
def test_a_schema_that_cannot_be_checked_in_bounds_is_refused_at_once(
    name: str, place: str
) -> None:
    schema = {"type": "object", **HOSTILE[name]}
    server = Server("s")
    tool = Tool(
        name="raw",
        input_schema=schema if place == "input" else ANYTHING,
        output_schema=schema if place == "output" else None,
    )

    with pytest.raises(InvalidMessage):
        server.add_tool(tool, echo)
    assert server.tools == {}


def test_the_size_of_a_schema_is_a_limit_of_the_server() -> None:
    server = Server("s", limits=Limits(schema_nodes=5))

    with pytest.raises(InvalidMessage, match="at most 5 nodes"):
        server.add_tool(Tool(name="raw", input_schema=ROUTE), echo)


async def test_a_pattern_cannot_be_made_to_take_for_ever() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
    result = await outcome(with_tool(echo, schema), x="a" * 50_000 + "!")

    assert result["isError"] is True


# ---------------------------------------------------------------- output

POINT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}


@pytest.mark.spec("TL-9", "TL-11")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    "value",
    [
        {"x": 1},
        CallToolResult(content=(TextContent(text='{"x":1}'),), structured_content={"x": 1}),
    ],
)
async def test_a_result_that_fits_its_output_schema_is_sent(version: str, value: Any) -> None:
    """In versions without structured content as text."""
    result = await outcome(giving(value, POINT), version)

    assert "isError" not in result
    assert result["content"] == [{"type": "text", "text": '{"x":1}'}]
    assert result.get("structuredContent") == ({"x": 1} if version in STRUCTURED else None)


@pytest.mark.spec("TL-9")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    "value",
    [
        {"x": "1"},
        {},
        [1],
        None,
        "x",
        TextContent(text="x"),
        CallToolResult(content=(), structured_content={"x": None}),
        CallToolResult(content=(TextContent(text="no data"),)),
    ],
)
async def test_a_result_that_does_not_fit_is_a_failure(version: str, value: Any) -> None:
    result = await outcome(giving(value, POINT), version)

    assert result["isError"] is True
    assert "does not fit its outputSchema" in result["content"][0]["text"]
    assert "structuredContent" not in result


async def test_a_failure_needs_no_structured_content() -> None:
    value = CallToolResult(content=(TextContent(text="sorry"),), is_error=True)

    assert await outcome(giving(value, POINT)) == {
        "content": [{"type": "text", "text": "sorry"}],
        "isError": True,
    }


NUMBERS = {
    "$schema": DRAFT_7,
    "type": "array",
    "items": {"$ref": "#/definitions/n"},
    "definitions": {"n": {"type": "integer"}},
}


@pytest.mark.spec("TL-12")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize(
    ("value", "output", "plain"),
    [
        ([1, 2], NUMBERS, [1, 2]),
        (CallToolResult(content=(), structured_content=[1]), NUMBERS, [1]),
        ("red", {"enum": ["red", "green"]}, "red"),
        ({"a": 1}, {"anyOf": [{"type": "object"}, {"type": "null"}]}, {"a": 1}),
        (None, {"anyOf": [{"type": "object"}, {"type": "null"}]}, None),
    ],
)
async def test_output_that_need_not_be_an_object_is_wrapped_like_its_schema(
    version: str, value: Any, output: dict[str, Any], plain: Any
) -> None:
    async with hosting(giving(value, output), version) as host:
        (tool,) = (await host.result("tools/list"))["tools"]
        result = await host.tool("raw")

    assert "isError" not in result
    if version in STRUCTURED:
        assert result["structuredContent"] == {"result": plain}
        assert tool["outputSchema"]["type"] == "object"
        assert tool["outputSchema"]["required"] == ["result"]
        at_root = {"$schema", "definitions"} if output is NUMBERS else set()
        assert set(tool["outputSchema"]) == {"type", "properties", "required"} | at_root
    else:
        assert "structuredContent" not in result


@pytest.mark.spec("TL-9")
async def test_output_of_another_kind_does_not_fit() -> None:
    result = await outcome(giving(["a"], NUMBERS))

    assert result["isError"] is True
    assert "$[0]: expected integer" in result["content"][0]["text"]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
async def test_without_an_output_schema_a_raw_tool_returns_what_it_likes(version: str) -> None:
    for value, text in [("text", "text"), ([1], "[1]"), (TextContent(text="t"), "t")]:
        result = await outcome(giving(value, None), version)
        assert result["content"][0]["text"] == text
    assert await outcome(giving(None, None), version) == {"content": []}


def test_names_are_checked_as_for_other_tools() -> None:
    server = with_tool(echo)

    with pytest.raises(ValueError, match="a tool named 'raw' already"):
        server.add_tool(Tool(name="raw", input_schema=ANYTHING), echo)
    with pytest.raises(ValueError, match="needs a name"):
        server.add_tool(Tool(name="", input_schema=ANYTHING), echo)
    with pytest.warns(UserWarning, match="outside") as caught:
        server.add_tool(Tool(name="a b", input_schema=ANYTHING), echo)
    assert caught[0].filename == __file__
