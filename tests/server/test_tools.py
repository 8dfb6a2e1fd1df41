"""Offering tools: from functions of all kinds to definitions, as each revision shows them."""

from __future__ import annotations

import functools
import warnings
from typing import Annotated, Any

import msgspec
import pytest
from attrs import frozen

from mcp_trio import Context, Server
from mcp_trio.types import Icon, ToolAnnotations
from tests.server.host import EVERY, NEWEST, OLDEST, hosting


@frozen
class Point:
    x: int
    y: int


async def listed(server: Server, version: str = NEWEST) -> dict[str, Any]:
    """Return the definitions of the server's tools, by name."""
    async with hosting(server, version) as host:
        tools: list[dict[str, Any]] = (await host.result("tools/list"))["tools"]
        return {tool["name"]: tool for tool in tools}


# ---------------------------------------------------------------- definitions


async def test_a_tool_is_described_by_its_signature_and_docstring() -> None:
    server = Server("s")

    async def forecast(
        ctx: Context,
        city: Annotated[str, "Where"],
        days: Annotated[int, msgspec.Meta(ge=1, le=14)] = 3,
        unit: str = "C",
    ) -> str:
        return f"{city} {days} {unit}"

    forecast.__doc__ = """Tell the weather
    of the next days.

    Args:
        unit: C or F.
    """
    server.tool(forecast)

    assert (await listed(server))["forecast"] == {
        "name": "forecast",
        "description": "Tell the weather of the next days.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
                "unit": {"type": "string", "description": "C or F.", "default": "C"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }


@pytest.mark.parametrize("version", EVERY)
async def test_each_version_shows_the_members_that_it_knows(version: str) -> None:
    server = Server("s")

    @server.tool(
        name="full",
        title="Full",
        description="Has all.",
        annotations=ToolAnnotations(title="Hint", read_only_hint=True),
        icons=[Icon(src="https://example.org/i.png", mime_type="image/png", sizes=("48x48",))],
        meta={"example.org/k": 1},
    )
    async def full() -> Point:
        return Point(1, 2)

    tool = (await listed(server, version))["full"]

    known = {"name", "description", "inputSchema"}
    if version >= "2025-03-26":
        known |= {"annotations"}
        assert tool["annotations"] == {"title": "Hint", "readOnlyHint": True}
    if version >= "2025-06-18":
        known |= {"title", "outputSchema", "_meta"}
        assert tool["title"] == "Full"
        assert tool["_meta"] == {"example.org/k": 1}
        assert set(tool["outputSchema"]["properties"]) == {"x", "y"}
    if version >= "2025-11-25":
        known |= {"icons"}
        assert tool["icons"] == [
            {"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}
        ]
    assert set(tool) == known


@pytest.mark.spec("TL-3")
async def test_tools_are_listed_in_the_order_they_were_offered() -> None:
    server = Server("s")
    for name in ("zebra", "ape", "mole"):
        server.tool(name=name)(lambda: None)

    async with hosting(server) as host:
        names = [[t["name"] for t in (await host.result("tools/list"))["tools"]] for _ in "12"]

    assert names == [["zebra", "ape", "mole"]] * 2


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, None),
        (str | None, None),
        (Annotated[str, "said"], None),
        (None, None),
        (Any, None),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (int, {"type": "integer"}),
        (list[str], {"type": "array", "items": {"type": "string"}}),
        (list[str] | None, {"anyOf": [{"type": "array", "items": {"type": "string"}}, None]}),
        (bool, {"type": "boolean"}),
    ],
)
async def test_what_is_no_text_gets_an_output_schema(annotation: Any, schema: Any) -> None:
    """Wrapped as ``result`` where it is no object."""
    server = Server("s")

    async def tool() -> Any:
        return None

    tool.__annotations__["return"] = annotation
    server.tool(tool)
    found = (await listed(server))["tool"].get("outputSchema")

    if schema is None or schema["type" if "type" in schema else "anyOf"] == "object":
        assert found == schema
    else:
        inner = found["properties"]["result"]
        assert (found["type"], found["required"]) == ("object", ["result"])
        assert inner == schema or {"type": "null"} in inner["anyOf"]


async def test_definitions_stay_at_the_root_of_a_wrapped_schema() -> None:
    """That is where the references look."""
    server = Server("s")

    @server.tool
    async def path() -> list[Point]:
        return [Point(1, 2)]

    async with hosting(server) as host:
        (tool,) = (await host.result("tools/list"))["tools"]
        result = await host.tool("path")

    assert set(tool["outputSchema"]) == {"type", "properties", "required", "$defs"}
    assert set(tool["outputSchema"]["$defs"]) == {"Point"}
    assert result["structuredContent"] == {"result": [{"x": 1, "y": 2}]}


# ---------------------------------------------------------------- names


@pytest.mark.spec("TL-7")
async def test_a_name_that_some_hosts_refuse_is_a_warning() -> None:
    """It stands where the tool was offered, and the tool works."""
    server = Server("s")

    async def height() -> str:
        return "high"

    with pytest.warns(UserWarning, match="outside") as caught:
        server.tool(name="größe/1")(height)
    height.__name__ = "höhe"
    with pytest.warns(UserWarning, match="outside") as caught_bare:
        server.tool(height)

    assert (caught[0].filename, caught_bare[0].filename) == (__file__, __file__)
    async with hosting(server) as host:
        assert await host.text("größe/1") == "high"
        assert await host.text("höhe") == "high"


@pytest.mark.spec("TL-7")
@pytest.mark.parametrize(("length", "odd"), [(1, False), (128, False), (129, True)])
def test_a_name_has_up_to_128_characters(length: int, *, odd: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        Server("s").tool(name="x" * length)(lambda: None)

    assert bool(caught) == odd


def test_an_empty_name_is_refused() -> None:
    server = Server("s")

    with pytest.raises(ValueError, match="a tool needs a name"):
        server.tool(name="")(lambda: None)
    with pytest.raises(ValueError, match="a prompt needs a name"):
        server.prompt(name="")(lambda: "")


def test_a_name_is_taken_once() -> None:
    """Names that differ in case are two."""
    server = Server("s")
    server.tool(name="t")(lambda: None)
    server.tool(name="T")(lambda: None)

    with pytest.raises(ValueError, match="a tool named 't' already"):
        server.tool(name="t")(lambda: None)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="titel"):
        Server("s").tool(name="t", titel="T")(lambda: None)  # type: ignore[call-overload]  # that is the point


# ---------------------------------------------------------------- functions of all kinds


class Counter:
    """Has tools as methods, and is one."""

    def __init__(self, step: int) -> None:
        self.step = step

    async def up(self, n: int) -> int:
        """Count up."""
        return n + self.step

    @classmethod
    async def zero(cls) -> int:
        return 0

    @staticmethod
    async def one() -> int:
        return 1

    async def __call__(self, n: int) -> int:
        """Call it."""
        return n * self.step


async def scale(factor: int, ctx: Context, n: int) -> str:
    """Multiply."""
    return f"{factor * n} by {ctx.method}"


def counted(fn: Any) -> Any:
    """Wrap an async function by a sync one, as decorators often do."""

    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


async def test_methods_partials_and_callable_objects_are_tools() -> None:
    server = Server("s")
    counter = Counter(3)
    for fn in (counter.up, Counter.zero, Counter.one, counter, functools.partial(scale, 10)):
        server.tool(fn)

    tools = await listed(server)
    assert set(tools) == {"up", "zero", "one", "Counter", "scale"}
    assert tools["up"]["description"] == "Count up."
    assert tools["Counter"]["description"] == "Call it."
    assert set(tools["scale"]["inputSchema"]["properties"]) == {"n"}
    async with hosting(server) as host:
        assert await host.text("up", n=4) == "7"
        assert await host.text("zero") == "0"
        assert await host.text("one") == "1"
        assert await host.text("Counter", n=4) == "12"
        assert await host.text("scale", n=4) == "40 by tools/call"


async def test_a_partial_can_be_given_another_name() -> None:
    server = Server("s")
    server.tool(name="tenfold")(functools.partial(scale, 10))
    server.prompt(name="tenfold")(functools.partial(scale, 10))

    async with hosting(server) as host:
        assert await host.text("tenfold", n=1) == "10 by tools/call"
        prompt = await host.result("prompts/get", {"name": "tenfold", "arguments": {"n": "2"}})
        assert prompt["messages"][0]["content"]["text"] == "20 by prompts/get"


async def test_an_async_function_behind_a_sync_wrapper_is_awaited() -> None:
    server = Server("s")
    server.tool(name="up")(counted(Counter(1).up))

    async with hosting(server) as host:
        assert await host.text("up", n=1) == "2"


def test_the_decorator_returns_the_function() -> None:
    server = Server("s")

    assert server.tool(scale) is scale
    assert server.prompt(scale) is scale


async def test_positional_only_parameters_are_given_by_name() -> None:
    server = Server("s")

    @server.tool
    async def less(a: int, ctx: Context, b: int, /, c: int = 0) -> int:
        return a - b - c

    async with hosting(server) as host:
        assert await host.text("less", a=5, b=2) == "3"
        assert await host.text("less", b=5, a=2, c=1) == "-4"


# ---------------------------------------------------------------- the injected context


async def bare(ctx: Context) -> str:
    return ctx.method


async def of_a_state(c: Context[None]) -> str:
    return c.method


async def keyword(*, context: Context) -> str:
    return context.method


async def maybe(ctx: Context | None = None) -> str:
    return "nobody" if ctx is None else ctx.method


async def annotated(ctx: Annotated[Context, "the request"]) -> str:
    return ctx.method


def in_a_thread(ctx: Context) -> str:
    return ctx.method


@pytest.mark.parametrize("fn", [bare, of_a_state, keyword, maybe, annotated, in_a_thread])
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
async def test_a_parameter_annotated_as_context_is_injected(fn: Any, version: str) -> None:
    """By its annotation, whatever it is called; it is no argument of the tool."""
    server = Server("s")
    server.tool(fn)

    async with hosting(server, version) as host:
        (tool,) = (await host.result("tools/list"))["tools"]
        assert tool["inputSchema"]["properties"] == {}
        assert await host.text(fn.__name__) == "tools/call"


async def test_a_function_with_an_optional_context_can_be_called_without_a_server() -> None:
    assert await maybe() == "nobody"


# ---------------------------------------------------------------- what cannot be a tool


def test_a_signature_that_json_cannot_describe_is_refused_at_once() -> None:
    server = Server("s")

    async def odd(thing: Counter) -> str:
        return str(thing)

    async def many(*args: int) -> str:
        return str(args)

    with pytest.raises(TypeError, match=r"parameter 'thing' of .*odd"):
        server.tool(odd)
    with pytest.raises(TypeError, match=r"parameter 'args' of .*many"):
        server.tool(many)
    assert server.tools == {}
