"""The client face: `Client`, the ``connect_*`` blocks, and the `ClientSession` they yield."""

from __future__ import annotations

from mcp_trio.runtime.answers import Accepted, Declined, Dismissed
from mcp_trio.runtime.middleware import OutgoingRequest

from .calls import ClientSession
from .connect import (
    connect_http,
    connect_memory,
    connect_stdio,
    connect_stream,
    connect_transport,
)
from .endpoint import ClientContext
from .forms import Elicitation
from .pages import Page, Pages
from .registry import Client
from .toolcall import ToolCall, Updates

__all__ = [
    "Accepted",
    "Client",
    "ClientContext",
    "ClientSession",
    "Declined",
    "Dismissed",
    "Elicitation",
    "OutgoingRequest",
    "Page",
    "Pages",
    "ToolCall",
    "Updates",
    "connect_http",
    "connect_memory",
    "connect_stdio",
    "connect_stream",
    "connect_transport",
]
