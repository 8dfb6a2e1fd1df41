"""Many sessions over a network that cuts, stalls, splits and delays: nothing is lost unsaid.

A proxy on this machine sits between our client and our server and mistreats each connection
at random, from a seed. With an event store on the server, whatever happens:

* every call has exactly one outcome: its own result, always if any event of it had arrived,
  else that or an error that says so; and its handler runs at most once;
* progress increases, and nobody hears what belongs to another call or session;
* when the clients have left, no task, socket, session or stored event is left either.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs
import pytest
import trio
import trio.testing

from mcp_trio import (
    Accepted,
    Client,
    Context,
    HttpFailure,
    Limits,
    OutcomeUnknown,
    Server,
    connect_http,
)
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.transports import http_exchange, http_resume
from mcp_trio.types import TextContent
from tests.transports.http_raw import quiet_log, serving, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcp_trio import ClientSession, Elicitation
    from mcp_trio.transports.http_server import HttpServer
    from mcp_trio.types import ProgressNotificationParams

__all__ = ["quiet_log"]  # a fixture for all

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
SESSIONS, CALLS = (50, 40) if DEEP else (12, 10)


# ---------------------------------------------------------------- the network


class Network:
    """A proxy that passes bytes on, more or less.

    Attributes:
        calm: it does nothing but that.
        done: what it has done besides, counted.
    """

    def __init__(self, target: int, seed: int) -> None:
        self._target = target
        self._dice = random.Random(seed)  # noqa: S311 - dice, no secret
        self.calm = True
        self.done: Counter[str] = Counter()
        self.open = 0

    async def carry(self, near: trio.SocketStream) -> None:
        """Carry one connection until it ends, or is cut."""
        self.open += 1
        try:
            async with near, await trio.open_tcp_stream("127.0.0.1", self._target) as far:
                with trio.CancelScope() as both:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._pass_on, near, far, both)
                        nursery.start_soon(self._pass_on, far, near, both)
        finally:
            self.open -= 1

    async def _pass_on(
        self, source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope
    ) -> None:
        try:
            while data := await source.receive_some(65_536):
                for piece in await self._mistreat(data, source, sink):
                    await sink.send_all(piece)
                    await trio.lowlevel.checkpoint()
        except OSError:
            self.done["was cut"] += 1
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self.done["broke"] += 1
        both.cancel(reason="the connection has ended")

    async def _mistreat(
        self, data: bytes, source: trio.SocketStream, sink: trio.SocketStream
    ) -> list[bytes]:
        """Return what of *data* goes on, in pieces; raise where the connection is cut."""
        dice = self._dice
        if self.calm:
            return [data]
        fate = dice.random()
        if fate < 0.06:
            self.done["cut"] += 1
            await sink.send_all(data[: dice.randrange(len(data))])
            if dice.random() < 0.5:
                for stream in (source, sink):
                    stream.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER of 0 s: resets
            raise OSError("cut")
        if fate < 0.08:
            self.done["stalled"] += 1
            await trio.sleep(dice.uniform(0.05, 0.1))
        elif fate < 0.3:
            self.done["delayed"] += 1
            await trio.sleep(dice.uniform(0, 0.01))
        elif fate < 0.5:
            self.done["split"] += 1
            cuts = sorted(dice.sample(range(len(data)), min(3, len(data))))
            edges = [0, *cuts, len(data)]
            return [data[a:b] for a, b in pairwise(edges)]
        return [data]


@asynccontextmanager
async def network(http: HttpServer, seed: int) -> AsyncIterator[tuple[Network, str]]:
    """A network before *http*, and the URL by which to go through it."""
    port = int(http.url.rpartition(":")[2].partition("/")[0])
    between = Network(port, seed)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/mcp"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, between.carry, [listener])  # noqa: ASYNC113 - it listens
        yield between, url
        nursery.cancel_scope.cancel()


# ---------------------------------------------------------------- the two ends


@attrs.frozen
class Form:
    """What is asked."""

    value: str


class Work(Server):
    """Its one tool reports progress, asks, and answers; all of it named by the call's key."""

    def __init__(self, dice: random.Random) -> None:
        limits = Limits(sse_after=0.01, sse_retry=10, drain=1.0)
        super().__init__("chaos", limits=limits)
        self.runs: Counter[str] = Counter()
        self.at_work = 0
        self._dice = dice
        self.tool(name="work")(self.work)

    async def work(self, ctx: Context, key: str, steps: int, questions: int) -> str:
        self.runs[key] += 1
        self.at_work += 1
        try:
            asked = set(self._dice.sample(range(steps), questions))
            answers = []
            for i in range(steps):
                await ctx.progress(i + 1, total=steps, message=key)
                await trio.sleep(self._dice.uniform(0, 0.01))
                if i in asked:
                    answer = await ctx.elicit(Form, f"{key} {i}")
                    assert isinstance(answer, Accepted)
                    answers.append(answer.content.value)
                elif self._dice.random() < 0.1:
                    ctx.close_stream()
            return f"{key}: {' '.join(answers)}"
        finally:
            self.at_work -= 1


class Host:
    """One session and its calls.

    Attributes:
        outcomes: of each call, by key: a result's text or an error.
        heard: progress of each call.
        strays: what was heard that is another's.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.client = Client(name, version="1", limits=Limits(drain=2.0))
        self.client.elicitation(self.answer)
        self.outcomes: dict[str, str | Exception] = {}
        self.heard: dict[str, list[float]] = {}
        self.strays: list[str] = []

    async def answer(
        self,
        ctx: Context,  # noqa: ARG002 - as handlers are called
        question: Elicitation,
    ) -> dict[str, Any]:
        key, _, step = question.message.partition(" ")
        if key not in self.heard or key in self.outcomes:
            self.strays.append(question.message)
        return {"value": f"{key}/{step}"}

    async def call(self, session: ClientSession, key: str, steps: int, questions: int) -> None:
        heard = self.heard[key] = []

        def hear(params: ProgressNotificationParams) -> None:
            if params.message != key or key in self.outcomes:
                self.strays.append(f"{params.message} on {key}")
            heard.append(params.progress)

        outcome: str | Exception
        arguments = {"key": key, "steps": steps, "questions": questions}
        try:
            result = await session.call_tool("work", arguments, progress=hear)
        except (OutcomeUnknown, HttpFailure) as exc:
            outcome = exc
        else:
            assert not result.is_error, result
            [content] = result.content
            assert isinstance(content, TextContent)
            outcome = content.text
        assert key not in self.outcomes
        self.outcomes[key] = outcome


@pytest.mark.parametrize("seed", range(20 if DEEP else 2))
async def test_chaos(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_resume, "_PAUSE", 0.01)
    monkeypatch.setattr(http_exchange, "_MESSAGE_RETRIES", 20)
    dice = random.Random(seed)  # noqa: S311 - dice, no secret
    server = Work(dice)
    store = MemoryStore()
    hosts = [Host(f"s{i}") for i in range(SESSIONS)]
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with serving(server, store=store, patience=120 if DEEP else 30) as http:
        async with network(http, seed) as (between, url):
            await use(hosts, url, between, dice)
            await until(lambda: between.open == 0)
        await until(lambda: not http.connections)
        await until(lambda: server.at_work == 0)

        assert len(http.sessions) == 0
        assert http.open_requests == 0
        statistics = await store.statistics()
        assert (statistics.sessions, statistics.streams, statistics.events) == (0, 0, 0)
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert between.done["cut"] > SESSIONS
    judge(hosts, server)


async def use(hosts: list[Host], url: str, between: Network, dice: random.Random) -> None:
    """Let all have a session; then trouble, in which all call; then let them leave in peace."""
    opened = trio.Event()
    over = trio.Event()
    left = [len(hosts), len(hosts)]

    async def live(host: Host) -> None:
        async with connect_http(url, client=host.client) as session:
            await session.ping()  # so the handshake is over
            left[0] -= 1
            if not left[0]:
                between.calm = False
                opened.set()
            await opened.wait()
            async with trio.open_nursery() as nursery:
                for i in range(CALLS):
                    steps = dice.randint(1, 8)
                    questions = dice.randint(0, min(2, steps))
                    nursery.start_soon(host.call, session, f"{host.name}.{i}", steps, questions)
                    await trio.sleep(dice.uniform(0, 0.05))
            left[1] -= 1
            if not left[1]:
                between.calm = True
                over.set()
            await over.wait()

    async with trio.open_nursery() as nursery:
        for host in hosts:
            nursery.start_soon(live, host)


def judge(hosts: list[Host], server: Work) -> None:
    """Hold what each host has seen to what was promised."""
    results = 0
    for host in hosts:
        assert host.strays == []
        assert len(host.outcomes) == CALLS
        for key, outcome in host.outcomes.items():
            heard = host.heard[key]
            assert heard == sorted(set(heard)), key
            assert server.runs[key] <= 1, key
            if isinstance(outcome, str):
                results += 1
                assert outcome.partition(":")[0] == key
                assert all(said.partition("/")[0] == key for said in outcome.split()[1:])
                assert heard == [*range(1, len(heard) + 1)], key
                assert server.runs[key] == 1, key
            else:
                assert not heard, f"{key}: an event of it had arrived, and yet {outcome!r}"
    assert results > SESSIONS * CALLS / 2
