"""2026-07-28 with peers that are not ours: their clients, their servers, all revisions at once."""

from __future__ import annotations

import json
import sys
from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
from attrs import evolve

from mcp_trio import connect_http, connect_stdio
from mcp_trio.types import UNSET
from mcp_trio.wire.revisions import REVISIONS, Feature
from tests.interop import install
from tests.interop.checks import code_of, text_of, unknown_tool_is_a_result
from tests.interop.modern_checks import CHECKS, SEEN, client_of, in_rounds, progress
from tests.interop.peer import ServerPeer
from tests.interop.survey import ClientPeer, Report, run_client, serve
from tests.interop.talk import Talk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from mcp_trio.wire.revisions import Revision
    from tests.interop.processes import Hosts

pytestmark = pytest.mark.interop

_PATIENCE: Final = 20  # seconds, the start and the end of a server included
_OUR_SERVER: Final = (sys.executable, "-m", "tests.interop.modern")

CLIENTS: Final = {
    f"{name}-{mode}": ClientPeer(f"{title}, {mode}", peer, program, (mode,))
    for name, title, peer, program in (
        ("python-v2", "Python v2", install.PY_V2, "py_v2_modern.py"),
        ("typescript-v2", "TypeScript v2", install.TS_V2, "ts_v2_modern.mjs"),
    )
    for mode in ("auto", "2026-07-28")
}
PYTHON_V1: Final = ClientPeer("Python v1", install.PY_V1, "py_v1_beside.py")

_PYTHON_V2: Final = ServerPeer(
    title="Python v2, modern",
    install=install.PY_V2,
    program="py_v2_modern_server.py",
    checks={**CHECKS, "unknown tool": unknown_tool_is_a_result},
    seen={"unknown tool": True},
    lacks={},
)
_TYPESCRIPT_V2: Final = ServerPeer(
    title="TypeScript v2, modern",
    install=install.TS_V2,
    program="ts_v2_modern_server.mjs",
    checks=CHECKS,
    seen={},
    lacks={},
)
SERVERS: Final = {
    "python-v2": _PYTHON_V2,
    "python-v2-http": evolve(_PYTHON_V2, transport="streamable", args=("{port}",)),
    "typescript-v2": _TYPESCRIPT_V2,
    "typescript-v2-http": evolve(_TYPESCRIPT_V2, transport="streamable", args=("{port}",)),
}


# ---------------------------------------------------------------- their clients


@cache
def _report(client: str, transport: str) -> Report:
    if transport == "stdio":
        return run_client(CLIENTS[client], [*_OUR_SERVER, "--stdio"])
    with serve([*_OUR_SERVER, "--http", "0"]) as url:
        return run_client(CLIENTS[client], [url])


@pytest.mark.parametrize("feature", SEEN)
@pytest.mark.parametrize("transport", ["stdio", "HTTP"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_modern_client_that_is_not_ours_uses_our_server(
    client: str, transport: str, feature: str
) -> None:
    """Each feature of our server works with the client."""
    found = _report(client, transport)[feature]
    assert found.get("error") is None
    assert found["got"] == SEEN[feature]


# ---------------------------------------------------------------- our client


@asynccontextmanager
async def _talk_to(server: ServerPeer, folder: Path, hosts: Hosts) -> AsyncIterator[Talk]:
    """Let our client, which speaks every revision, talk with *server* in the block."""
    talk = Talk()
    client = client_of(talk, [*REVISIONS])
    if server.transport == "stdio":
        connecting = connect_stdio(
            server.command("", folder), client=client, cwd=folder, stderr="capture"
        )
    else:
        url = f"http://127.0.0.1:{hosts.port_of(server, '')}{server.path}"
        connecting = connect_http(url, client=client)
    async with connecting as talk.session:
        yield talk


@pytest.mark.parametrize("feature", CHECKS)
@pytest.mark.parametrize("name", SERVERS)
async def test_our_client_uses_a_modern_server_that_is_not_ours(
    name: str, feature: str, tmp_path: Path, hosts: Hosts
) -> None:
    """Each feature of the server works with our client, which found out what it speaks."""
    server = SERVERS[name]
    with trio.fail_after(_PATIENCE):
        async with _talk_to(server, tmp_path, hosts) as talk:
            assert talk.session.revision.version == "2026-07-28"
            seen = await server.checks[feature](talk)
    assert seen == server.seen.get(feature, SEEN[feature])


def test_every_feature_is_checked_and_reported() -> None:
    """No feature is left out by a slip of the pen, by our client or by theirs."""
    assert set(CHECKS) == set(SEEN)
    for client in CLIENTS:
        assert set(_report(client, "stdio")) == set(SEEN)


# ---------------------------------------------------------------- side by side

#: What one of 2025-11-25 sees beside the others.
_SEEN_BY_V1: Final = {
    **{
        feature: SEEN[feature]
        for feature in (
            "call a tool",
            "structured content",
            "progress",
            "elicitation",
            "sampling",
            "read a resource",
            "get a prompt",
        )
    },
    "revision": "2025-11-25",
    "two questions in one round": {**SEEN["two questions in one round"], "runs": 1},
    "two rounds": {**SEEN["two rounds"], "runs": 1},
    "unknown resource": -32002,
}


async def _use_everything(talk: Talk, who: str) -> dict[str, Any]:
    """Call what depends on the revision."""
    session = talk.session
    added = await session.call_tool("add", {"a": 2, "b": 3})
    asked = await session.call_tool("ask")
    found = {
        "echo": text_of(await session.call_tool("echo", {"text": who})),
        "sum": [json.loads(text_of(added)), added.structured_content],
        "steps": await progress(talk),
        "model": text_of(await session.call_tool("ask_model", {"prompt": who})),
        "user": "refused" if asked.is_error else json.loads(text_of(asked)),
        "no resource": await code_of(session.read_resource("memo://no")),
    }
    if not asked.is_error:
        found["both"] = await in_rounds(talk, "ask_both", who)
        found["twice"] = await in_rounds(talk, "ask_twice", who)
    return found


def _expected(revision: Revision, who: str) -> dict[str, Any]:
    has = revision.features.__contains__
    again = has(Feature.MRTR)  # a handler that asks runs once more with each answer
    forms = again or "elicitation/create" in revision.methods
    total = SEEN["structured content"]
    found: dict[str, Any] = {
        "echo": who,
        "sum": [total, total if has(Feature.STRUCTURED_CONTENT) else UNSET],
        "steps": SEEN["progress"]
        if has(Feature.PROGRESS_MESSAGE)
        else [[n, 3, None] for n in (1, 2, 3)],
        "model": f"peer-model: a reply to {who}",
        "user": {"action": "accept", "name": "Ann"} if forms else "refused",
        "no resource": -32602 if has(Feature.NOT_FOUND_IS_INVALID_PARAMS) else -32002,
    }
    if forms:
        found["both"] = {**SEEN["two questions in one round"], "runs": 2 if again else 1}
        found["twice"] = {**SEEN["two rounds"], "runs": 3 if again else 1}
    return found


async def _stay(url: str, revision: Revision, ready: trio.Event, ended: trio.Event) -> int:
    """Talk at one revision from *ready* until *ended*; return how often all was used."""
    talk = Talk()
    async with connect_http(url, client=client_of(talk, [revision.version])) as talk.session:
        assert talk.session.revision == revision
        ready.set()
        count = 0
        while count == 0 or not ended.is_set():
            who = f"{revision.version}, {count}"
            assert await _use_everything(talk, who) == _expected(revision, who)
            count += 1
    return count


async def test_every_revision_is_spoken_at_the_same_time_by_one_server() -> None:
    """Five of our clients, one of each revision, and two of the Python SDK get right answers."""
    ready = {version: trio.Event() for version in REVISIONS}
    ended = trio.Event()
    counts: dict[str, int] = {}
    reports: dict[str, Report] = {}

    async def stay(revision: Revision) -> None:
        version = revision.version
        counts[version] = await _stay(url, revision, ready[version], ended)

    async def run(peer: ClientPeer) -> None:
        reports[peer.title] = await trio.to_thread.run_sync(run_client, peer, [url])

    with trio.fail_after(3 * _PATIENCE), serve([*_OUR_SERVER, "--http", "0"]) as url:
        async with trio.open_nursery() as ours:
            for revision in REVISIONS.values():
                ours.start_soon(stay, revision)
            for event in ready.values():
                await event.wait()
            async with trio.open_nursery() as theirs:
                for peer in (PYTHON_V1, CLIENTS["python-v2-auto"]):
                    theirs.start_soon(partial(run, peer))
            ended.set()
    assert set(counts) == set(REVISIONS)
    assert all(count > 1 for count in counts.values())
    _assert_right(reports["Python v2, auto"], SEEN)
    _assert_right(reports["Python v1"], _SEEN_BY_V1)


def _assert_right(report: Report, seen: Mapping[str, Any]) -> None:
    assert {name: found.get("error") for name, found in report.items()} == dict.fromkeys(seen)
    assert {name: found["got"] for name, found in report.items()} == dict(seen)
