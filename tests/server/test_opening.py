"""How a session begins: versions, order, capabilities, and the server's lifespan."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, ErrorCode, Server, serve_stream
from mcp_trio.client import connect_memory
from mcp_trio.types import Icon, TextContent
from tests.server.host import EVERY, NEWEST, OLDEST, hosting, plugged_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GREETING: dict[str, Any] = {
    "protocolVersion": NEWEST,
    "capabilities": {},
    "clientInfo": {"name": "host", "version": "1"},
}


def a_server(**options: Any) -> Server:
    server = Server("s", "1.2", **options)

    @server.tool
    async def hello() -> str:
        return "hello"

    return server


# ---------------------------------------------------------------- versions


@pytest.mark.spec("LC-2", "LC-7")
@pytest.mark.parametrize("version", EVERY)
async def test_the_version_that_a_client_offers_is_spoken(version: str) -> None:
    async with plugged_in(a_server()) as host:
        answer = await host.initialize(version)

        assert answer["result"]["protocolVersion"] == version
        assert host.session.revision.version == version


@pytest.mark.spec("LC-7")
@pytest.mark.parametrize("offer", ["2026-07-28", "v999.0.0", "1999-01-01", "", "2025-11-25 "])
async def test_any_other_offer_is_answered_with_the_newest_version(offer: str) -> None:
    """Also one that has no ``initialize``."""
    async with plugged_in(a_server()) as host:
        answer = await host.initialize(offer)

        assert answer["result"]["protocolVersion"] == NEWEST
        assert await host.text("hello") == "hello"


@pytest.mark.spec("LC-7")
@pytest.mark.parametrize("given", [(OLDEST, "2025-06-18"), ("2025-06-18", OLDEST)])
async def test_a_server_can_be_kept_to_some_versions(given: tuple[str, ...]) -> None:
    """In whatever order they are given; the newest of them answers an offer of another."""
    async with plugged_in(a_server(revisions=given)) as host:
        answer = await host.initialize(NEWEST)

        assert answer["result"]["protocolVersion"] == "2025-06-18"


@pytest.mark.parametrize("given", [("1999-01-01", NEWEST), ()])
def test_an_unknown_version_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="a server speaks some of 2024-11-05"):
        Server("s", revisions=given)


# ---------------------------------------------------------------- order


@pytest.mark.spec("LC-1")
async def test_a_known_request_before_initialize_is_refused_and_the_session_lives() -> None:
    async with plugged_in(a_server()) as host:
        error = await host.error("tools/list")

        assert error["code"] == ErrorCode.INVALID_REQUEST
        assert "initialize" in error["message"]
        await host.initialize()
        assert await host.text("hello") == "hello"


async def test_a_probe_of_a_later_era_before_initialize_finds_no_method() -> None:
    """So a client of both eras falls back to ``initialize``."""
    async with plugged_in(a_server()) as host:
        error = await host.error("server/discover", {"_meta": {}})

        assert error["code"] == ErrorCode.METHOD_NOT_FOUND
        await host.initialize()


async def test_ping_is_answered_at_any_time() -> None:
    async with plugged_in(a_server()) as host:
        assert await host.result("ping") == {}
        await host.initialize()
        assert await host.result("ping") == {}


async def test_a_notification_before_initialize_is_ignored() -> None:
    server = a_server()
    heard: list[Any] = []

    @server.notification("x/told")
    async def told(session: Any, params: dict[str, Any]) -> None:
        heard.append(params)

    async with plugged_in(server) as host:
        await host.tell("notifications/initialized")
        await host.tell("notifications/roots/list_changed")
        await host.tell("x/told", {"n": 1})
        await host.initialize()
        await host.tell("x/told", {"n": 2})
        await trio.testing.wait_all_tasks_blocked()

        assert heard == [{"n": 2}]


async def test_a_second_initialize_is_refused_and_changes_nothing() -> None:
    async with hosting(a_server(), "2025-06-18") as host:
        error = await host.error("initialize", {**GREETING, "protocolVersion": OLDEST})

        assert error["code"] == ErrorCode.INVALID_REQUEST
        assert host.session.revision.version == "2025-06-18"
        assert await host.text("hello") == "hello"


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {**GREETING, "capabilities": None},
        {**GREETING, "capabilities": []},
        {**GREETING, "clientInfo": {"name": "host"}},
        {**GREETING, "protocolVersion": 20251125},
    ],
)
async def test_a_good_initialize_after_a_bad_one_succeeds(params: Any) -> None:
    async with plugged_in(a_server()) as host:
        error = await host.error("initialize", params)
        assert error["code"] == ErrorCode.INVALID_PARAMS

        still_closed = await host.error("tools/list")
        assert still_closed["code"] == ErrorCode.INVALID_REQUEST
        answer = await host.initialize(OLDEST)
        assert answer["result"]["protocolVersion"] == OLDEST
        assert await host.text("hello") == "hello"


async def test_requests_are_served_before_initialized_has_come() -> None:
    """It is for the client to keep that order; what comes early is served."""
    async with plugged_in(a_server()) as host:
        await host.result("initialize", GREETING)

        assert await host.text("hello") == "hello"


@pytest.mark.spec("LC-5")
async def test_a_reverse_call_waits_for_initialized() -> None:
    server = Server("s")

    @server.tool
    async def where(ctx: Context) -> str:
        return (await ctx.list_roots())[0].uri

    async with plugged_in(server) as host:
        host.answers["roots/list"] = {"roots": [{"uri": "file:///a"}]}
        await host.result("initialize", {**GREETING, "capabilities": {"roots": {}}})
        id_ = await host.start("tools/call", {"name": "where"})
        await trio.testing.wait_all_tasks_blocked()
        assert host.asked == []

        await host.tell("notifications/initialized")
        answer = await host.reply(id_)
        assert answer["result"]["content"][0]["text"] == "file:///a"


# ---------------------------------------------------------------- what is declared


async def declared(server: Server, version: str = NEWEST) -> dict[str, Any]:
    async with plugged_in(server) as host:
        answer = await host.initialize(version)
        capabilities: dict[str, Any] = answer["result"]["capabilities"]
        return capabilities


@pytest.mark.spec("LO-1")
async def test_a_server_that_offers_nothing_declares_logging_alone() -> None:
    assert await declared(Server("s")) == {"logging": {}}


@pytest.mark.spec("TL-1")
async def test_tools_are_declared_where_there_are_some() -> None:
    assert (await declared(a_server()))["tools"] == {"listChanged": True}


@pytest.mark.spec("RE-1")
@pytest.mark.parametrize("uri", ["memo://one", "memo://{name}"])
async def test_resources_are_declared_where_there_are_some_or_templates(uri: str) -> None:
    server = Server("s")
    if "{" in uri:
        server.resource(uri)(lambda name: name)
    else:
        server.resource(uri)(lambda: "text")

    assert (await declared(server))["resources"] == {"subscribe": True, "listChanged": True}


@pytest.mark.spec("PP-1")
async def test_prompts_are_declared_where_there_are_some() -> None:
    server = Server("s")
    server.prompt(name="p")(lambda: "text")

    assert (await declared(server))["prompts"] == {"listChanged": True}


@pytest.mark.spec("CO-1")
@pytest.mark.parametrize("version", EVERY)
async def test_completions_are_declared_since_there_is_a_capability(version: str) -> None:
    server = Server("s")

    @server.completion("p", "a")
    async def nothing(ctx: Context, value: str, settled: dict[str, str]) -> list[str]:
        return []

    assert ("completions" in await declared(server, version)) == (version != OLDEST)


async def test_raw_handlers_declare_what_they_serve() -> None:
    async def handler(ctx: Context, params: dict[str, Any]) -> dict[str, Any]:
        return {}

    methods = ("tools/list", "resources/list", "prompts/list", "completion/complete")
    server = Server("s", handlers=dict.fromkeys(methods, handler))

    assert set(await declared(server)) == {
        "logging",
        "tools",
        "resources",
        "prompts",
        "completions",
    }


@pytest.mark.spec("LC-9", "LC-10", "CO-3")
@pytest.mark.parametrize(
    "method",
    [
        "tools/list",
        "tools/call",
        "resources/read",
        "prompts/get",
        "completion/complete",
        "tasks/get",
    ],
)
async def test_what_was_not_declared_is_not_found(method: str) -> None:
    async with hosting(Server("s")) as host:
        error = await host.error(method, {})

        assert error["code"] == ErrorCode.METHOD_NOT_FOUND
        assert method in error["message"]


@pytest.mark.parametrize("version", EVERY)
async def test_a_server_introduces_itself_with_what_the_version_knows(version: str) -> None:
    server = Server(
        "s",
        "1.2",
        title="Server",
        description="Serves.",
        icons=[Icon(src="https://example.org/i.png")],
        website_url="https://example.org",
        instructions="Be brief.",
    )
    async with plugged_in(server) as host:
        result = (await host.initialize(version))["result"]

    expected: dict[str, Any] = {"name": "s", "version": "1.2"}
    if version >= "2025-06-18":
        expected["title"] = "Server"
    if version >= "2025-11-25":
        expected["description"] = "Serves."
        expected["icons"] = [{"src": "https://example.org/i.png"}]
        expected["websiteUrl"] = "https://example.org"
    assert result["serverInfo"] == expected
    assert result["instructions"] == "Be brief."


async def test_a_handler_sees_the_client_as_it_introduced_itself() -> None:
    server = Server("s")

    @server.tool
    async def who(ctx: Context) -> list[Any]:
        peer = ctx.peer
        return [peer.info.name, peer.has("x.y"), peer.has("x.z"), peer.has("off"), ctx.method]

    capabilities: dict[str, Any] = {"x": {"y": {}}, "off": None, "experimental": {}}
    async with hosting(server, capabilities=capabilities) as host:
        result = await host.tool("who")

        assert result["structuredContent"]["result"] == ["host", True, False, False, "tools/call"]


# ---------------------------------------------------------------- lifespan


class Life:
    """A lifespan that keeps count."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @asynccontextmanager
    async def __call__(self, server: Server) -> AsyncIterator[str]:
        self.events.append(f"open {server.info.name}")
        await trio.sleep(1)
        try:
            yield f"life {len(self.events)}"
        finally:
            self.events.append("close")
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            self.events.append("closed")


def with_life(life: Any) -> Server:
    server = Server("s", lifespan=life)

    @server.tool
    async def life_of(ctx: Context[str]) -> str:
        return ctx.lifespan

    return server


async def test_a_lifespan_is_shared_by_all_sessions_and_closed_by_the_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    life = Life()
    server = with_life(life)
    async with connect_memory(server) as first:
        async with connect_memory(server) as second:
            for session in (first, second):
                result = await session.call_tool("life_of", {})
                assert result.content == (TextContent(text="life 1"),)
        assert life.events == ["open s"]
    assert life.events == ["open s", "close", "closed"]

    async with connect_memory(server):
        assert life.events[3:] == ["open s"]


async def test_a_lifespan_is_closed_before_the_next_one_opens(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Also where a session begins while the last one is still closing it."""
    life = Life()
    server = with_life(life)

    async def use(start: float, end: float) -> None:
        await trio.sleep_until(start)
        async with server.running():
            await trio.sleep_until(end)

    async with trio.open_nursery() as nursery:
        now = trio.current_time()
        nursery.start_soon(use, now, now + 5)
        nursery.start_soon(use, now + 5.5, now + 9)

    assert life.events == ["open s", "close", "closed"] * 2


async def test_a_cancelled_user_closes_the_lifespan(
    autojump_clock: trio.testing.MockClock,
) -> None:
    life = Life()
    server = with_life(life)
    with trio.move_on_after(5):
        async with server.running():
            await trio.sleep_forever()

    assert life.events == ["open s", "close", "closed"]
    async with server.running():
        assert life.events[3:] == ["open s"]


async def test_a_lifespan_that_fails_at_the_start_is_raised_and_the_pipe_is_closed() -> None:
    @asynccontextmanager
    async def broken(server: Server) -> AsyncIterator[None]:
        if server.info.name == "s":
            raise RuntimeError("no database")
        yield

    ours, theirs = trio.testing.memory_stream_pair()

    with pytest.raises(RuntimeError, match="no database"):
        await serve_stream(with_life(broken), theirs)
    assert await ours.receive_some() == b""


async def test_a_lifespan_that_failed_is_tried_again_by_the_next_session() -> None:
    tries: list[int] = []

    @asynccontextmanager
    async def flaky(server: Server) -> AsyncIterator[str]:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not yet")
        yield "up"

    server = with_life(flaky)
    with pytest.raises(RuntimeError, match="not yet"):
        async with server.running():
            pass
    async with hosting(server) as host:
        assert await host.text("life_of") == "up"


# ---------------------------------------------------------------- the end


async def test_a_session_ends_when_the_host_hangs_up() -> None:
    server = a_server()
    async with hosting(server) as host:
        assert server.sessions() == (host.session,)
        await host.hang_up()
        await host.session.wait_ended()

        assert server.sessions() == ()
