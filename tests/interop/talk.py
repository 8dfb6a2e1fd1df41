"""Our client in talk with a server that is not ours, and what it hears and answers meanwhile."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio
from attrs import define, field

from mcp_trio import (
    Accepted,
    Client,
    ClientSession,
    Declined,
    Dismissed,
    Elicitation,
    Limits,
    connect_http,
    connect_stdio,
)
from mcp_trio.types import CreateMessageResult, TextContent, ToolResultContent, ToolUseContent
from tests.interop.features import CHOSEN, FORM
from tests.interop.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from mcp_trio.client import ClientContext
    from mcp_trio.types import CreateMessageRequestParams

    from .peer import ServerPeer
    from .processes import Hosts

__all__ = ["Talk", "talk_to"]

_ANSWERS: Final = {"accept": Accepted(FORM), "decline": Declined(), "cancel": Dismissed()}


@define
class Talk:
    """A session, and its user: who says ``answer`` when asked.

    Attributes:
        session: with the server.
        wire: what lies between, over HTTP.
        answer: what the user says to forms.
        form: what the user fills in.
        heard: what arrived unasked, oldest first.
    """

    session: ClientSession = field(init=False)
    wire: Wire = field(factory=Wire)
    answer: str = "accept"
    form: dict[str, Any] = field(factory=lambda: dict(FORM))
    heard: list[tuple[Any, ...]] = field(factory=list)
    _more: trio.Event = field(factory=trio.Event)

    def hear(self, *what: Any) -> None:
        """Keep *what*, and wake those who wait for it."""
        self.heard.append(what)
        self._more.set()
        self._more = trio.Event()

    async def until(self, *begin: Any) -> tuple[Any, ...]:
        """Wait for the first thing heard that begins with *begin*."""
        while True:
            for what in self.heard:
                if what[: len(begin)] == begin:
                    return what
            await self._more.wait()

    def all(self, kind: str) -> list[list[Any]]:
        """Return everything of one kind heard so far."""
        return [list(what[1:]) for what in self.heard if what[0] == kind]

    async def ask_user(self, question: Elicitation) -> object:
        """Answer *question*, or wait until the server takes it back."""
        self.hear("asked", question.message, question)
        if question.message == "hold":
            try:
                await trio.sleep_forever()
            finally:
                self.hear("taken back")
        if question.mode == "url":
            return Accepted(None)
        if question.message == "Choose":
            return CHOSEN
        return Accepted(self.form) if self.answer == "accept" else _ANSWERS[self.answer]


def _sample(params: CreateMessageRequestParams) -> CreateMessageResult | str:
    last = params.messages[-1].content
    blocks = last if isinstance(last, tuple) else (last,)
    first = blocks[0]
    if params.tools is None:
        assert isinstance(first, TextContent)
        return f"a reply to {first.text}"
    if isinstance(first, ToolResultContent):
        inner = first.content[0]
        assert isinstance(inner, TextContent)
        return f"It says: {inner.text}"
    use = ToolUseContent(id="use-1", name=params.tools[0].name, input={"city": "Oslo"})
    return CreateMessageResult(
        role="assistant", content=(use,), model="peer-model", stop_reason="toolUse"
    )


def _client(talk: Talk, server: ServerPeer, roots: Sequence[str]) -> Client:
    client = Client(
        "interop",
        version="1",
        roots=roots,
        limits=Limits(shutdown_wait=server.shutdown_wait),
        sampling_tools=True,
        model_name="peer-model",
    )

    @client.sampling
    async def sample(
        ctx: ClientContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | str:
        return _sample(params)

    @client.elicitation(url=True)
    async def elicit(ctx: ClientContext, question: Elicitation) -> object:
        return await talk.ask_user(question)

    def hear(kind: str, read: Callable[[Any], tuple[Any, ...]]) -> Callable[[Any, Any], None]:
        return lambda _session, params: talk.hear(kind, *read(params))

    client.log(hear("log", lambda params: (params.level, params.data)))
    client.resource_updated(hear("updated", lambda params: (params.uri,)))
    client.tools_changed(hear("tools changed", lambda _: ()))
    client.elicitation_complete(hear("visited", lambda params: (params.elicitation_id,)))
    return client


@asynccontextmanager
async def talk_to(
    server: ServerPeer, feature: str, folder: Path, hosts: Hosts
) -> AsyncIterator[Talk]:
    """Talk with *server*, which is to show *feature*, until the block is left.

    Over stdio it is started for that, in *folder*; over HTTP it is one of *hosts*.
    """
    talk = Talk()
    client = _client(talk, server, [root.format(folder=folder) for root in server.roots])
    connect = _over_stdio if server.transport == "stdio" else partial(_over_http, hosts=hosts)
    async with connect(talk, client, server, feature, folder):
        yield talk


@asynccontextmanager
async def _over_stdio(
    talk: Talk, client: Client, server: ServerPeer, feature: str, folder: Path
) -> AsyncIterator[None]:
    async with connect_stdio(
        server.command(feature, folder),
        client=client,
        cwd=folder,
        env=server.environment(folder),
        stderr="capture",
    ) as talk.session:
        yield


@asynccontextmanager
async def _over_http(
    talk: Talk, client: Client, server: ServerPeer, feature: str, _: Path, *, hosts: Hosts
) -> AsyncIterator[None]:
    assert server.transport != "stdio"
    async with trio.open_nursery() as nursery:
        port = await nursery.start(talk.wire.run, hosts.port_of(server, feature))
        url = f"http://127.0.0.1:{port}{server.path}"
        async with connect_http(url, client=client, transport=server.transport) as talk.session:
            yield
        nursery.cancel_scope.cancel()
