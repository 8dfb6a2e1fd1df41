"""Listening: what changes, told on the response to a request that stays open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
import trio
import trio.testing

from mcp_trio import ErrorCode, Limits, Server, serve_stream
from mcp_trio.wire.revisions import ENVELOPED, REVISIONS
from tests.server.host import Host, hosting, plugged_in

if TYPE_CHECKING:
    from collections.abc import Callable

MODERN: Final = ENVELOPED[-1].version
PREFIX: Final = "io.modelcontextprotocol/"
ID: Final = PREFIX + "subscriptionId"

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
UPDATED: Final = "notifications/resources/updated"
#: The kinds of a filter: the notice of each, and what a test does for one.
KINDS: Final = {
    "toolsListChanged": "notifications/tools/list_changed",
    "promptsListChanged": "notifications/prompts/list_changed",
    "resourcesListChanged": "notifications/resources/list_changed",
}
ALL: Final = dict.fromkeys(KINDS, True)


def enveloped(params: dict[str, Any] | None = None) -> dict[str, Any]:
    meta = {PREFIX + "protocolVersion": MODERN, PREFIX + "clientCapabilities": {}}
    return {**(params or {}), "_meta": meta}


def a_server(**options: Any) -> Server:
    """Something of everything that can change."""
    server = Server("s", "1", revisions=[*REVISIONS], **options)
    server.tool(name="t")(lambda: "text")
    server.prompt(name="p")(lambda: "text")
    server.resource("memo://one")(lambda: "text")
    return server


def add_tool(server: Server) -> None:
    server.tool(name=f"t{len(server.tools)}")(lambda: "text")


def add_prompt(server: Server) -> None:
    server.prompt(name=f"p{len(server.prompts)}")(lambda: "text")


def add_resource(server: Server) -> None:
    server.resource(f"memo://{len(server.resources)}")(lambda: "text")


def change_all(server: Server) -> None:
    add_tool(server)
    add_prompt(server)
    add_resource(server)
    server.resource_updated("memo://one")


async def listen(host: Host, wanted: object, *, id_: object = None) -> object:
    """Open a subscription and return its id; it has been acknowledged."""
    id_ = await host.start("subscriptions/listen", enveloped({"notifications": wanted}), id_=id_)
    await trio.testing.wait_all_tasks_blocked()
    return id_


async def told(host: Host) -> list[tuple[str, Any]]:
    """What has been told since this was asked last, once there is nothing more to tell."""
    await trio.sleep(1)
    news = [(each["method"], each.get("params")) for each in host.notices]
    host.notices.clear()
    return news


def about(id_: object, **params: object) -> dict[str, object]:
    return {**params, "_meta": {ID: id_}}


# ---------------------------------------------------------------- the acknowledgement


@pytest.mark.spec("SU-3", "SU-5", "SU-7")
@pytest.mark.parametrize("id_", [7, "7", "listen"])
@pytest.mark.parametrize(
    ("wanted", "honoured"),
    [
        ({}, {}),
        (ALL, ALL),
        ({"toolsListChanged": True}, {"toolsListChanged": True}),
        ({"toolsListChanged": False, "promptsListChanged": True}, {"promptsListChanged": True}),
        ({"resourceSubscriptions": []}, {}),
        (
            {"resourceSubscriptions": ["memo://one", "x://y", "memo://one"]},
            {"resourceSubscriptions": ["memo://one", "x://y"]},
        ),
        ({"unheard": True, "taskIds": ["t"]}, {}),
    ],
)
async def test_the_acknowledgement_says_what_is_honoured(
    wanted: object,
    honoured: object,
    id_: object,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2026-07-28 basic/patterns/subscriptions; the id is of the same JSON type everywhere."""
    async with plugged_in(a_server()) as host:
        await listen(host, wanted, id_=id_)
        ((method, params),) = await told(host)

        assert method == ACKNOWLEDGED
        assert params == about(id_, notifications=honoured)
        assert type(params["_meta"][ID]) is type(id_)
        assert id_ not in host._replies


@pytest.mark.spec("SU-5", "SU-2")
async def test_what_the_server_does_not_offer_is_not_honoured(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nor told of, should it be offered later."""
    server = Server("s", revisions=[MODERN])
    add_tool(server)
    async with plugged_in(server) as host:
        id_ = await listen(host, {**ALL, "resourceSubscriptions": ["memo://one"]})
        change_all(server)

        assert await told(host) == [
            (ACKNOWLEDGED, about(id_, notifications={"toolsListChanged": True})),
            (KINDS["toolsListChanged"], about(id_)),
        ]


@pytest.mark.spec("SU-3", "SU-4")
async def test_nothing_comes_before_the_acknowledgement(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Also where everything changes at the moment in which the request arrives."""
    server = a_server()
    async with plugged_in(server) as host:
        change_all(server)
        id_ = await host.start("subscriptions/listen", enveloped({"notifications": ALL}))
        for _ in range(20):
            change_all(server)
            await trio.lowlevel.checkpoint()
        news = await told(host)

        assert news[0] == (ACKNOWLEDGED, about(id_, notifications=ALL))
        assert sorted(news[1:]) == sorted((method, about(id_)) for method in KINDS.values())


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": []},
        {"notifications": {"toolsListChanged": "yes"}},
        {"notifications": {"resourceSubscriptions": "memo://one"}},
        {"notifications": {"resourceSubscriptions": [1]}},
    ],
)
async def test_a_malformed_filter_is_a_bad_request(params: dict[str, Any]) -> None:
    async with plugged_in(a_server()) as host:
        error = await host.error("subscriptions/listen", enveloped(params))

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert host.notices == []


async def test_one_subscription_watches_a_bounded_number_of_resources(
    autojump_clock: trio.testing.MockClock,
) -> None:
    uris = ["memo://1", "memo://2", "memo://3"]
    server = a_server(limits=Limits(subscribed=2))
    async with plugged_in(server, patience=60) as host:
        params = enveloped({"notifications": {"resourceSubscriptions": uris}})
        error = await host.error("subscriptions/listen", params)
        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "at most 2 resources" in error["message"]
        assert host.notices == []

        await listen(host, {"resourceSubscriptions": uris[:2]})
        assert [method for method, _ in await told(host)] == [ACKNOWLEDGED]


# ---------------------------------------------------------------- what is told


@pytest.mark.spec("SU-2", "SU-14")
@pytest.mark.parametrize("kind", KINDS)
async def test_only_what_was_asked_for_is_told(
    kind: str,
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = a_server()
    async with plugged_in(server) as host:
        id_ = await listen(host, {kind: True})
        await told(host)
        change_all(server)

        assert await told(host) == [(KINDS[kind], about(id_))]


@pytest.mark.spec("SU-2")
async def test_watched_resources_are_told_of_by_their_uris(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Those that are known to nobody as well: what a template makes is not listed anywhere."""
    server = a_server()
    async with plugged_in(server) as host:
        id_ = await listen(host, {"resourceSubscriptions": ["memo://one", "memo://other"]})
        await told(host)
        for uri in ("memo://other", "memo://third", "memo://one", "memo://other"):
            server.resource_updated(uri)
        add_resource(server)

        assert await told(host) == [
            (UPDATED, about(id_, uri="memo://other")),
            (UPDATED, about(id_, uri="memo://one")),
        ]


@pytest.mark.parametrize("change", [add_tool, add_prompt, add_resource])
async def test_many_changes_within_a_short_time_are_one_notice(
    change: Callable[[Server], None],
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And later ones are another; the first is told when that time is over."""
    server = a_server(limits=Limits(debounce=0.25))
    async with plugged_in(server) as host:
        await listen(host, ALL)
        await told(host)
        for _ in range(2):
            before = trio.current_time()
            for _ in range(10):
                change(server)
                await trio.sleep(0.02)
            await host.until(lambda: host.notices)
            assert 0.25 <= trio.current_time() - before < 0.3

            assert len(await told(host)) == 1


async def test_a_change_while_others_are_being_told_is_told_as_well(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Whenever it comes: no change is lost between two notices."""
    server = a_server(limits=Limits(debounce=0.25))
    async with plugged_in(server) as host:
        id_ = await listen(host, ALL)
        await told(host)
        add_tool(server)
        await trio.sleep(0.2)
        add_prompt(server)
        await host.until(lambda: host.notices)
        add_resource(server)

        assert await told(host) == [(method, about(id_)) for method in KINDS.values()]


async def test_a_change_is_told_at_whatever_moment_it_comes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """In each pass of the scheduler around the one in which others are told."""
    server = a_server(limits=Limits(debounce=0.25))
    async with plugged_in(server) as host:
        id_ = await listen(host, {"toolsListChanged": True, "resourceSubscriptions": ["memo://1"]})
        await told(host)
        for passes in range(8):
            add_tool(server)
            await trio.sleep(0.25)
            for _ in range(passes):
                await trio.lowlevel.checkpoint()
            server.resource_updated("memo://1")

            assert await told(host) == [
                (KINDS["toolsListChanged"], about(id_)),
                (UPDATED, about(id_, uri="memo://1")),
            ]


@pytest.mark.spec("SU-9", "SU-7")
async def test_each_of_several_subscriptions_hears_what_it_asked_for(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = a_server()
    filters: dict[object, dict[str, Any]] = {
        1: {"toolsListChanged": True},
        "1": {"toolsListChanged": True, "promptsListChanged": True},
        "none": {},
        "memo": {"resourceSubscriptions": ["memo://one"]},
    }
    async with plugged_in(server) as host, plugged_in(server) as other:
        for id_, wanted in filters.items():
            await listen(host, wanted, id_=id_)
        await listen(other, ALL, id_=1)
        await told(host)
        await told(other)
        change_all(server)

        heard: dict[object, set[str]] = {}
        for method, params in await told(host):
            heard.setdefault(params["_meta"][ID], set()).add(method)
        assert heard == {
            1: {KINDS["toolsListChanged"]},
            "1": {KINDS["toolsListChanged"], KINDS["promptsListChanged"]},
            "memo": {UPDATED},
        }
        assert sorted(await told(other)) == sorted((each, about(1)) for each in KINDS.values())


async def test_a_session_and_a_subscription_on_one_pipe_are_told_apart(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The session's own notices carry no subscription."""
    server = a_server()
    async with hosting(server) as host:
        id_ = await listen(host, {"toolsListChanged": True})
        await told(host)
        change_all(server)
        news = await told(host)

        (notice,) = [params for _, params in news if params is not None]
        assert notice == about(id_)
        assert sorted(method for method, params in news if params is None) == sorted(KINDS.values())


async def test_other_requests_go_on_beside_a_subscription() -> None:
    """Its id is in flight for as long as it lives."""
    server = a_server()
    async with plugged_in(server) as host:
        await listen(host, ALL, id_="a")
        result = await host.result("tools/call", enveloped({"name": "t"}))
        await host.start("tools/list", enveloped(), id_="a")

        assert result["content"][0]["text"] == "text"
        assert (await host.reply("a"))["error"]["code"] == ErrorCode.INVALID_REQUEST
        assert len(host.session.calls()) == 1


async def test_a_slow_reader_is_waited_for_and_told_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Changes do not pile up while there is no room."""
    uris = [f"memo://{'x' * 1000}/{n}" for n in range(100)]
    server = a_server(limits=Limits(outbox_bytes=2_000))
    ours, theirs = trio.testing.lockstep_stream_pair()
    host = Host(ours)
    async with trio.open_nursery() as nursery:
        host.session = await nursery.start(serve_stream, server, theirs)
        id_ = await host.start(
            "subscriptions/listen", enveloped({"notifications": {"resourceSubscriptions": uris}})
        )
        for _ in range(10):
            for uri in uris:
                server.resource_updated(uri)
            await trio.sleep(1)
        assert host.session.statistics().sent < 10
        nursery.start_soon(host.read)
        news = await told(host)
        nursery.cancel_scope.cancel()

    assert news[0][0] == ACKNOWLEDGED
    heard = [params["uri"] for _, params in news[1:]]
    assert all(params["_meta"] == {ID: id_} for _, params in news)
    assert set(heard) == set(uris)
    assert len(heard) <= 2 * len(uris)


# ---------------------------------------------------------------- the end


@pytest.mark.spec("SU-11")
@pytest.mark.parametrize("at", ["once acknowledged", "while a change waits to be told"])
async def test_a_cancelled_subscription_is_over_without_an_answer(
    at: str,
    autojump_clock: trio.testing.MockClock,
) -> None:
    """2026-07-28 basic/patterns/subscriptions § Cancellation; nothing is left of it."""
    server = a_server()
    async with plugged_in(server) as host:
        gone, stays = await listen(host, ALL), await listen(host, ALL)
        await told(host)
        if at != "once acknowledged":
            change_all(server)
            await trio.testing.wait_all_tasks_blocked()
        await host.tell("notifications/cancelled", {"requestId": gone})
        await trio.testing.wait_all_tasks_blocked()
        change_all(server)
        news = await told(host)

        assert sorted(news) == sorted((method, about(stays)) for method in KINDS.values())
        assert gone not in host._replies
        assert [call.id for call in host.session.calls()] == [stays]
        assert len(server.listeners._open) == 1


async def test_a_subscription_ends_with_its_session(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = a_server()
    async with plugged_in(server) as host:
        await listen(host, ALL)
        await host.hang_up()
        await host.session.wait_ended()

        assert server.listeners._open == set()
        assert host.session.calls() == ()
        change_all(server)


@pytest.mark.spec("SU-10")
@pytest.mark.parametrize("id_", [7, "7"])
async def test_the_server_ends_all_subscriptions_with_a_result(id_: object) -> None:
    """2026-07-28 basic/patterns/subscriptions § Graceful Closure; the pipe goes on."""
    server = a_server()
    async with plugged_in(server) as host, plugged_in(server) as other:
        for each in (host, other):
            await listen(each, ALL, id_=id_)
        server.end_listening()

        for each in (host, other):
            answer = await each.reply(id_)
            assert type(answer["id"]) is type(id_)
            info = {"name": "s", "version": "1"}
            assert answer["result"] == {
                "resultType": "complete",
                "_meta": {ID: id_, PREFIX + "serverInfo": info},
            }
            await each.result("tools/list", enveloped())
            assert each.session.calls() == ()
        assert server.listeners._open == set()


@pytest.mark.spec("SU-10")
async def test_what_has_not_been_told_is_told_before_the_end(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = a_server()
    async with plugged_in(server) as host:
        id_ = await listen(host, ALL)
        await told(host)
        change_all(server)
        before = trio.current_time()
        server.end_listening()
        await host.reply(id_)
        assert trio.current_time() == before

        assert [method for method, _ in await told(host)] == [*KINDS.values()]


async def test_there_is_no_listening_with_a_handshake() -> None:
    async with hosting(a_server()) as host:
        error = await host.error("subscriptions/listen", {"notifications": ALL})

        assert error["code"] == ErrorCode.METHOD_NOT_FOUND
