"""Notifications of a server on their way to their handlers."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import trio

from mcp_trio.client import Client, ClientSession
from mcp_trio.limits import Limits
from mcp_trio.wire.jsonrpc import Result
from tests.client.scripted import OLDEST, Outcome, scripted


def log(number: int) -> tuple[str, dict[str, Any]]:
    return "notifications/message", {"level": "info", "data": number}


async def heard_of(client: Client, *told: tuple[str, dict[str, Any] | None]) -> ClientSession:
    """Tell a client these notifications and wait until it has done with them."""
    async with scripted(client) as (session, script):
        for method, params in told:
            script.tell(method, params)
        await trio.testing.wait_all_tasks_blocked()
        return session


async def test_each_notification_finds_its_handler_with_typed_params() -> None:
    """In order; async handlers and plain ones."""
    client = Client("c", version="1")
    heard: list[Any] = []

    @client.log
    async def on_log(session: ClientSession, params: Any) -> None:
        heard.append((session.server_info.name, params.level, params.data))

    @client.tools_changed
    @client.prompts_changed
    @client.resources_changed
    def on_change(session: ClientSession, params: Any) -> None:
        heard.append(type(params).__name__)

    @client.resource_updated
    async def on_update(session: ClientSession, params: Any) -> None:
        heard.append(params.uri)

    @client.notification("x/y")
    async def on_custom(session: ClientSession, params: dict[str, Any]) -> None:
        heard.append(params)

    await heard_of(
        client,
        log(1),
        ("notifications/tools/list_changed", None),
        ("notifications/prompts/list_changed", {}),
        ("notifications/resources/list_changed", {"_meta": {}}),
        ("notifications/resources/updated", {"uri": "a:b"}),
        ("x/y", {"any": ["thing"]}),
        ("x/unheard-of", {}),
        log(2),
    )

    assert heard == [
        ("script", "info", 1),
        *["NotificationParams"] * 3,
        "a:b",
        {"any": ["thing"]},
        ("script", "info", 2),
    ]


async def test_a_malformed_notification_is_logged_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With its path; the next one is heard."""
    client = Client("c", version="1")
    heard: list[Any] = []
    client.log(lambda _, params: heard.append(params.data))

    await heard_of(client, ("notifications/message", {"level": "loud", "data": 1}), log(2))

    assert heard == [2]
    assert "malformed notifications/message: $.level" in caplog.text


async def test_a_handler_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next notification is heard."""
    client = Client("c", version="1")
    heard: list[Any] = []

    @client.log
    async def on_log(session: object, params: Any) -> None:
        heard.append(params.data)
        raise ZeroDivisionError

    session = await heard_of(client, log(1), log(2))

    assert heard == [1, 2]
    assert "a handler of notifications failed" in caplog.text
    assert session.statistics().notifications_dropped == 0


@pytest.mark.case("06")
async def test_a_handler_may_call_the_server(nursery: trio.Nursery) -> None:
    """While another call waits; the reader never waits for the handler."""
    client = Client("c", version="1")
    listed: list[Any] = []

    @client.tools_changed
    async def on_change(session: ClientSession, params: object) -> None:
        listed.extend(await session.list_tools().all())

    async with scripted(client) as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("slow"))
        slow = await script.request("tools/call")
        script.tell("notifications/tools/list_changed")
        script.answer(await script.request("tools/list"), {"tools": []})
        await trio.testing.wait_all_tasks_blocked()
        script.ask("p", "ping")
        assert await script.answer_to("p") == Result("p", {})
        script.answer(slow, {"content": []})
        await call.wait()

    assert listed == []


async def blocked(client: Client, first: trio.Event, go: trio.Event) -> None:
    """Let the handler of ``x/block`` hold up the queue."""

    @client.notification("x/block")
    async def block(session: object, params: object) -> None:
        first.set()
        await go.wait()


async def test_notices_that_wait_coalesce() -> None:
    """List changes by method, updates by URI; the newest params count."""
    client = Client("c", version="1")
    first, go = trio.Event(), trio.Event()
    await blocked(client, first, go)
    heard: list[Any] = []

    @client.tools_changed
    @client.prompts_changed
    @client.resource_updated
    async def on_change(session: object, params: Any) -> None:
        heard.append((getattr(params, "uri", None), (params.meta or {}).get("n")))

    async with scripted(client) as (session, script):
        script.tell("x/block")
        await first.wait()
        for n in range(5):
            script.tell("notifications/tools/list_changed", {"_meta": {"n": n}})
            script.tell("notifications/resources/updated", {"uri": f"a:{n % 2}", "_meta": {"n": n}})
            script.tell("notifications/prompts/list_changed", {"_meta": {"n": n}})
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        await trio.testing.wait_all_tasks_blocked()

        assert heard == [(None, 4), ("a:0", 4), (None, 4), ("a:1", 3)]
        assert session.statistics().notifications_dropped == 0


async def test_the_oldest_log_messages_go_first() -> None:
    """Then progress, then the oldest of all; each one is counted."""
    client = Client("c", version="1", limits=Limits(notifications=4))
    first, go = trio.Event(), trio.Event()
    await blocked(client, first, go)
    heard: list[Any] = []
    client.log(lambda _, params: heard.append(params.data))
    client.notification("x/keep")(lambda _, params: heard.append(params["n"]))

    async with scripted(client) as (session, script):
        script.tell("x/block")
        await first.wait()
        script.tell("x/keep", {"n": "a"})
        for n in range(6):
            script.tell(*log(n))
        script.tell("x/keep", {"n": "b"})
        await trio.testing.wait_all_tasks_blocked()
        assert session.statistics().notifications_dropped == 4
        for name in "cdef":
            script.tell("x/keep", {"n": name})
        await trio.testing.wait_all_tasks_blocked()
        go.set()
        await trio.testing.wait_all_tasks_blocked()

        assert heard == ["c", "d", "e", "f"]
        assert session.statistics().notifications_dropped == 8


async def test_all_progress_is_heard_by_the_clients_handler(nursery: trio.Nursery) -> None:
    """With it every call asks for progress; a call's own callback hears its own."""
    client = Client("c", version="1")
    heard: list[float] = []
    own: list[float] = []

    @client.progress
    async def on_progress(session: ClientSession, params: Any) -> None:
        heard.append(params.progress)

    async with scripted(client) as (session, script):
        for callback in (None, lambda update: own.append(update.progress)):
            call = Outcome(nursery, partial(session.call_tool, "x", progress=callback))
            request = await script.request()
            assert request.params is not None
            token = request.params["_meta"]["progressToken"]
            script.tell("notifications/progress", {"progressToken": token, "progress": token})
            script.answer(request, {"content": []})
            await call.wait()
        await trio.testing.wait_all_tasks_blocked()

    assert len(heard) == 2
    assert own == heard[1:]


async def test_progress_that_finds_no_room_gives_way_to_newer(nursery: trio.Nursery) -> None:
    """The oldest goes first and is counted; the newest is always heard."""
    client = Client("c", version="1", limits=Limits(notifications=3))
    first, go = trio.Event(), trio.Event()
    await blocked(client, first, go)
    heard: list[float] = []

    async def slowly(update: Any) -> None:
        heard.append(update.progress)

    async with scripted(client) as (session, script):
        script.tell("x/block")
        await first.wait()
        call = Outcome(nursery, partial(session.call_tool, "x", progress=slowly))
        request = await script.request()
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        for n in range(9):
            script.tell("notifications/progress", {"progressToken": token, "progress": n})
        script.answer(request, {"content": []})
        await call.wait()
        go.set()
        await trio.testing.wait_all_tasks_blocked()

        assert heard == [6, 7, 8]
        assert session.statistics().notifications_dropped == 6


async def test_a_notification_of_a_later_revision_is_skipped() -> None:
    """The end of a visit does not exist at the oldest revision."""
    client = Client("c", version="1")
    heard: list[Any] = []
    client.elicitation_complete(lambda _, params: heard.append(params))

    async with scripted(client, version=OLDEST) as (session, script):
        script.tell("notifications/elicitation/complete", {"elicitationId": "e"})
        await trio.testing.wait_all_tasks_blocked()

        assert heard == []
        assert session.session.error is None
