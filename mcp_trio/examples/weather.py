"""A server with a tool that reports progress, a resource template and a prompt.

python -m mcp_trio.examples.weather
"""

from __future__ import annotations

import trio
from attrs import frozen

from mcp_trio import Context, Server, serve_stdio

server = Server("weather", version="1.0")


@frozen
class Forecast:
    """The days to come."""

    city: str
    days: list[str]


@server.tool
async def forecast(ctx: Context, city: str, *, days: int = 3) -> Forecast:
    """Forecast the weather of a city."""
    sky = ["sun", "clouds", "rain"]
    for day in range(days):
        await ctx.progress(day + 1, total=days, message=f"day {day + 1}")
        await trio.sleep(0.1)
    return Forecast(city, [sky[(len(city) + day) % 3] for day in range(days)])


@server.resource("weather://{city}/current")
async def current(city: str) -> str:
    """Tell the weather of a city, as it is now."""
    return f"It is raining in {city}."


@server.prompt
async def trip(city: str) -> str:
    """Plan a trip to a city."""
    return f"Plan a day in {city} that suits the weather. Ask for the forecast first."


if __name__ == "__main__":
    trio.run(serve_stdio, server)
