"""A server that asks its user before it acts, in the middle of a tool call.

python -m mcp_trio.examples.booking
"""

from __future__ import annotations

from typing import Literal

import trio
from attrs import frozen

from mcp_trio import Accepted, Context, Declined, Server, serve_stdio

server = Server("booking", version="1.0")


@frozen
class Seat:
    """What the user decides."""

    seat: Literal["window", "aisle"]
    meal: bool = False


@server.tool
async def book(ctx: Context, flight: str) -> str:
    """Book a seat on a flight; the user chooses the seat."""
    await ctx.progress(1, total=2, message="looking for seats")
    match await ctx.elicit(Seat, f"Which seat on {flight}?"):
        case Accepted(Seat(seat, meal)):
            await ctx.progress(2, total=2, message="paying")
            return f"booked {flight}, {seat} seat, {'with' if meal else 'without'} a meal"
        case Declined():
            return f"not booked: the user does not want to fly {flight}"
        case _:
            return "not booked: the user did not answer"


if __name__ == "__main__":
    trio.run(serve_stdio, server)
