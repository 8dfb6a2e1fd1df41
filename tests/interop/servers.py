"""The servers that are not ours: written with the SDKs to do what ours does, or published."""

from __future__ import annotations

from typing import Final

from tests.interop import install, published
from tests.interop.checks import CHECKS, unknown_tool_is_a_result
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

SERVERS: Final = {
    "python-v2": _PYTHON_V2,
    "python-v1": _PYTHON_V1,
    "typescript-v2": _TYPESCRIPT_V2,
    "everything": published.EVERYTHING,
    "filesystem": published.FILES,
    "memory": published.MEMORY,
}
