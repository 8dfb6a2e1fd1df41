"""The examples do what they say."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_trio
from mcp_trio import Accepted, Client, Declined, Dismissed, connect_memory, connect_stdio
from mcp_trio.examples import booking, weather
from mcp_trio.types import TextContent, TextResourceContents

FOLDER = Path(mcp_trio.__file__).parent / "examples"
EXAMPLES = sorted(FOLDER.glob("[!_]*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert len(text.splitlines()) <= 60
    assert f"python -m mcp_trio.examples.{path.stem}" in (ast.get_docstring(ast.parse(text)) or "")


async def test_weather_forecasts_and_says_how_far_it_is(autojump_clock: object) -> None:
    heard: list[str | None] = []

    async with connect_memory(weather.server) as session:
        result = await session.call_tool(
            "forecast", {"city": "Oslo"}, progress=lambda update: heard.append(update.message)
        )
        read = await session.read_resource("weather://Oslo/current")
        prompt = await session.get_prompt("trip", {"city": "Oslo"})

    assert result.structured_content == {"city": "Oslo", "days": ["clouds", "rain", "sun"]}
    assert heard == ["day 1", "day 2", "day 3"]
    assert isinstance(read.contents[0], TextResourceContents)
    assert read.contents[0].text == "It is raining in Oslo."
    assert "Oslo" in str(prompt.messages[0].content)


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Accepted({"seat": "aisle", "meal": True}), "booked LH 1, aisle seat, with a meal"),
        (Accepted({"seat": "window"}), "booked LH 1, window seat, without a meal"),
        (Declined(), "not booked: the user does not want to fly LH 1"),
        (Dismissed(), "not booked: the user did not answer"),
    ],
)
async def test_booking_does_what_the_user_answers(answer: object, outcome: str) -> None:
    client = Client("tests", version="1")

    @client.elicitation
    async def ask(ctx: object, question: object) -> object:
        return answer

    async with connect_memory(booking.server, client=client) as session:
        result = await session.call_tool("book", {"flight": "LH 1"})

    assert result.content == (TextContent(text=outcome),)


async def test_booking_runs_as_a_program() -> None:
    command = [sys.executable, "-m", "mcp_trio.examples.booking"]
    async with connect_stdio(command, cwd=FOLDER.parent.parent) as session:
        names = [tool.name async for tool in session.list_tools()]

    assert names == ["book"]


def test_the_agent_drives_the_weather_server() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mcp_trio.examples.agent"],
        cwd=FOLDER.parent.parent,
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "working: day 2" in lines  # earlier updates give way to later ones
    assert [line for line in lines if not line.startswith("working")] == [
        "weather offers forecast: Forecast the weather of a city.",
        "result: {'city': 'Oslo', 'days': ['clouds', 'rain']}",
        "a long forecast, given up: True",
        "weather://Oslo/current: It is raining in Oslo.",
    ]
