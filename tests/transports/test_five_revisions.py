"""One server, one handler, five revisions, three ways to it: the client cannot tell them apart.

The handler follows a random plan: questions one after another and side by side, steps that must
not repeat, progress, swallowed exceptions, failing ends. Whatever the revision does to carry it
out, reverse requests or rounds, the result is the same, every question is asked once, a step is
run once, and progress increases within each run.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from itertools import pairwise
from typing import Any

import trio
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio import (
    Client,
    ClientSession,
    Context,
    Server,
    connect_http,
    connect_memory,
    serve_http,
)
from mcp_trio.types import TextContent
from mcp_trio.wire.revisions import REVISIONS

VERSIONS = list(REVISIONS)

WORDS = st.sampled_from(["red", "green", "blue"])
STEPS = st.one_of(
    st.tuples(st.just("ask"), WORDS),
    st.tuples(st.just("both"), st.lists(WORDS, min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("progress"), st.integers(1, 3)),
    st.tuples(st.just("once"), WORDS),
    st.tuples(st.just("swallow"), WORDS),
    st.tuples(st.just("clean up"), WORDS),
)
PLANS = st.tuples(st.lists(STEPS, max_size=6), st.booleans())


@define
class World:
    """What one call has come to, on both sides."""

    questions: Counter[str] = field(factory=Counter)
    steps: Counter[str] = field(factory=Counter)
    runs: list[list[float]] = field(factory=list)
    outcome: tuple[bool, str] = (False, "")


async def ask(ctx: Context, number: int, word: str) -> str:
    """Ask; each question of a plan is another one, so that it can be counted."""
    answer = await ctx.sample(f"{number}:{word}", 10)
    assert isinstance(answer.content, TextContent)
    return answer.content.text


async def follow(ctx: Context, plan: list[Any], world: World, *, fails: bool) -> str:
    """Carry *plan* out and tell what came of each step."""
    world.runs.append([])
    said: list[Any] = []
    done = 0
    for number, (kind, what) in enumerate(plan):
        if kind == "ask":
            said.append(await ask(ctx, number, what))
        elif kind == "both":
            answers: dict[str, str] = {}

            async def one(word: str, number: int, answers: dict[str, str]) -> None:
                answers[word] = await ask(ctx, number, word)

            async with trio.open_nursery() as nursery:
                for word in what:
                    nursery.start_soon(one, word, number, answers)
            said.append(sorted(answers.items()))
        elif kind == "progress":
            for _ in range(what):
                done += 1
                world.runs[-1].append(done)
                await ctx.progress(done)
        elif kind == "once":

            async def step(key: str) -> str:
                world.steps[key] += 1
                await trio.lowlevel.checkpoint()
                return key

            said.append(await ctx.once(f"{number}:{what}", partial(step, f"{number}:{what}")))
        elif kind == "swallow":
            try:
                said.append(await ask(ctx, number, what))
                raise ValueError(what)  # noqa: TRY301 - to be swallowed
            except ValueError as exc:
                said.append(f"swallowed {exc}")
        else:
            try:
                said.append(await ask(ctx, number, what))
            finally:
                with trio.CancelScope(shield=True):
                    await trio.lowlevel.checkpoint()
    if fails:
        raise RuntimeError("as planned")
    return json.dumps(said)


async def call(session: ClientSession, world: World) -> None:
    seen: list[float] = []
    result = await session.call_tool("follow", {}, progress=lambda p: seen.append(p.progress))
    assert isinstance(result.content[0], TextContent)
    world.outcome = bool(result.is_error), result.content[0].text
    assert seen == [value for run in world.runs for value in run]
    assert all(a < b for run in world.runs for a, b in pairwise(run))


def server_for(plan: list[Any], worlds: dict[str, World], *, fails: bool) -> Server:
    server = Server("five", version="1", revisions=VERSIONS)

    @server.tool(name="follow")
    async def tool(ctx: Context) -> str:
        """Follow the plan."""
        return await follow(ctx, plan, worlds[ctx.peer.info.name], fails=fails)

    return server


def client_for(name: str, version: str, world: World) -> Client:
    client = Client(name, version="1", revisions=[version])

    @client.sampling
    async def answer(_: Any, params: Any) -> str:
        text = str(params.messages[0].content.text)
        world.questions[text] += 1
        await trio.lowlevel.checkpoint()
        return f"answer to {text}"

    return client


def asked_by(plan: list[Any]) -> Counter[str]:
    words = {n: [w] if type(w) is str else w for n, (k, w) in enumerate(plan) if k != "progress"}
    return Counter(
        f"{n}:{w}" for n, several in words.items() if plan[n][0] != "once" for w in several
    )


@settings(max_examples=25)
@given(plans=PLANS, schedule=st.random_module())
def test_no_client_can_tell_the_revisions_apart(
    plans: tuple[list[Any], bool], schedule: object
) -> None:
    plan, fails = plans
    ways = ("typed", "bytes", "http")
    worlds = {f"{version} {way}": World() for version in VERSIONS for way in ways}

    async def one(name: str, world: World, server: Server, url: str) -> None:
        version, way = name.split()
        client = client_for(name, version, world)
        connection = (
            connect_http(url, client=client)
            if way == "http"
            else connect_memory(server, client=client, typed=way == "typed")
        )
        async with connection as session:
            await call(session, world)

    async def main() -> None:
        server = server_for(plan, worlds, fails=fails)
        async with trio.open_nursery() as nursery:
            http = await nursery.start(partial(serve_http, server, 0))
            async with trio.open_nursery() as calls:
                for name, world in worlds.items():
                    calls.start_soon(one, name, world, server, http.url)
            nursery.cancel_scope.cancel()

    trio.run(main)

    assert len({world.outcome for world in worlds.values()}) == 1
    for world in worlds.values():
        assert world.questions == asked_by(plan)
        assert set(world.steps.values()) <= {1}
        assert world.outcome[0] is fails
