"""The servers that are not ours: written with the SDKs to do what ours does, or published."""

from __future__ import annotations

from typing import Final

from attrs import evolve

from tests.interop import install, published
from tests.interop.checks import CHECKS, cancel_silent_call, unknown_tool_is_a_result
from tests.interop.features import TOOLS
from tests.interop.peer import ServerPeer

__all__ = ["SERVERS"]

_LIKE_OURS: Final = sorted(set(TOOLS) - {"touch"})

_PYTHON_V2: Final = ServerPeer(
    title="Python v2",
    install=install.PY_V2,
    program="py_v2_server.py",
    others={"log level": "py_v2_lowlevel.py", "resource updates": "py_v2_lowlevel.py"},
    checks={**CHECKS, "unknown tool": unknown_tool_is_a_result},
    seen={
        "list tools": _LIKE_OURS,
        "tool error": [True, False],  # it keeps the reason to itself
        "unknown tool": True,
        "unknown resource": -32602,
    },
    lacks={},
)

_PYTHON_V1: Final = ServerPeer(
    title="Python v1",
    install=install.PY_V1,
    program="py_v1_server.py",
    others={"log level": "py_v1_lowlevel.py", "resource updates": "py_v1_lowlevel.py"},
    checks={**CHECKS, "unknown tool": unknown_tool_is_a_result},
    seen={
        "initialize": ["everything", "1.30.0", "2025-11-25"],  # it gives the SDK's version
        "list tools": _LIKE_OURS,
        "unknown tool": True,
        "unknown resource": 0,  # its code for whatever goes wrong
    },
    lacks={"cancel a call that asks": "a cancelled tool does not take its question back"},
)

_TYPESCRIPT_V2: Final = ServerPeer(
    title="TypeScript v2",
    install=install.TS_V2,
    program="ts_v2_server.mjs",
    checks=CHECKS,
    seen={"unknown resource": -32602},
    lacks={},
)

_PYTHON_V2_SSE: Final = evolve(
    _PYTHON_V2, title="Python v2, SSE", transport="streamable", args=("{port}", "sse")
)

#: What belongs to a call, so that it would have to come before the answer.
_WITHIN_A_CALL: Final = (
    "progress",
    "elicitation: accept",
    "elicitation: decline",
    "elicitation: cancel",
    "elicitation: url",
    "elicitation: url visited",
    "log",
    "cancel a call that asks",
    "cut in a call",
    "hung up in a call",
)

_PYTHON_V2_JSON: Final = evolve(
    _PYTHON_V2_SSE,
    title="Python v2, JSON",
    args=("{port}", "json"),
    checks={**_PYTHON_V2.checks, "cancel a call": cancel_silent_call},
    lacks=dict.fromkeys(_WITHIN_A_CALL, "an answer in JSON has nothing before it"),
)

_FASTMCP: Final = evolve(
    _PYTHON_V2_SSE,
    title="FastMCP",
    install=install.FASTMCP,
    program="fastmcp_server.py",
    args=("{port}",),
    others={},
    seen={
        **_PYTHON_V2.seen,
        "tool error": [True, True],
        "log": [["info", {"msg": "hello", "extra": None}]],
        "log level": [["error", {"msg": "loud", "extra": None}]],
    },
    lacks={"resource updates": "it has no subscriptions"},
)

_TYPESCRIPT_V2_HTTP: Final = evolve(_TYPESCRIPT_V2, transport="streamable", args=("{port}",))

SERVERS: Final = {
    "python-v2": _PYTHON_V2,
    "python-v1": _PYTHON_V1,
    "typescript-v2": _TYPESCRIPT_V2,
    "everything": published.EVERYTHING,
    "filesystem": published.FILES,
    "memory": published.MEMORY,
    "python-v2-sse": _PYTHON_V2_SSE,
    "python-v2-json": _PYTHON_V2_JSON,
    "fastmcp-http": _FASTMCP,
    "typescript-v2-http": _TYPESCRIPT_V2_HTTP,
    "everything-http": published.EVERYTHING_HTTP,
    "everything-sse": published.EVERYTHING_SSE,
}
