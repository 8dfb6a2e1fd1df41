"""Lists: their pages, and the notices that they have changed."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import ErrorCode, Server
from tests.server.host import EVERY, Host, hosting, plugged_in

KINDS = ["tools", "resources", "resources/templates", "prompts"]


def offering(count: int, page_size: int = 3) -> Server:
    """Return a server with so many of everything."""
    server = Server("s", page_size=page_size)
    for n in range(count):
        add(server, f"n{n}")
    return server


def add(server: Server, name: str) -> None:
    server.tool(name=name)(lambda: None)
    server.resource(f"memo://{name}", name=name)(lambda: "")
    server.resource(f"memo://{name}/{{x}}", name=name)(lambda x: x)
    server.prompt(name=name)(lambda: "")


async def pages(host: Host, kind: str, cursor: str | None = None) -> list[list[str]]:
    """Return the names on each page of a list, from *cursor* on."""
    found: list[list[str]] = []
    while True:
        params = None if cursor is None else {"cursor": cursor}
        result = await host.result(f"{kind}/list", params)
        (items,) = [value for value in result.values() if isinstance(value, list)]
        found.append([item["name"] for item in items])
        if "nextCursor" not in result:
            return found
        cursor = result["nextCursor"]


# ---------------------------------------------------------------- pages


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", EVERY)
async def test_a_long_list_comes_in_pages(kind: str, version: str) -> None:
    async with hosting(offering(7), version) as host:
        assert await pages(host, kind) == [["n0", "n1", "n2"], ["n3", "n4", "n5"], ["n6"]]


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (3, [3]), (4, [3, 1]), (6, [3, 3])])
async def test_the_last_page_has_no_cursor(count: int, sizes: list[int]) -> None:
    async with hosting(offering(count)) as host:
        assert [len(page) for page in await pages(host, "tools")] == sizes


async def test_a_list_is_one_page_by_default() -> None:
    async with hosting(offering(200, page_size=Server("s").page_size)) as host:
        assert len(await pages(host, "tools")) == 1


@pytest.mark.spec("PN-5")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cursor", ["", "n2", "bm8=", "?", "ü", "bjI", 5, True, [], {}])
async def test_a_cursor_that_is_none_of_ours_is_a_bad_request(kind: str, cursor: Any) -> None:
    """The empty string is a cursor too, and no beginning."""
    async with hosting(offering(7)) as host:
        error = await host.error(f"{kind}/list", {"cursor": cursor})

        assert error["code"] == ErrorCode.INVALID_PARAMS
        assert "invalid cursor" in error["message"]


@pytest.mark.spec("PN-5")
async def test_a_cursor_of_another_list_is_a_bad_request() -> None:
    async with hosting(offering(7)) as host:
        cursor = (await host.result("resources/list"))["nextCursor"]

        assert (await host.error("tools/list", {"cursor": cursor}))["code"] == -32602


async def test_a_null_cursor_counts_as_none() -> None:
    async with hosting(offering(2)) as host:
        result = await host.result("tools/list", {"cursor": None})

        assert len(result["tools"]) == 2


@pytest.mark.spec("PN-5")
async def test_a_list_that_changes_between_pages_repeats_nothing() -> None:
    """A cursor says which item was the last, not how many there were."""
    server = offering(7)
    async with hosting(server) as host:
        cursor = (await host.result("tools/list"))["nextCursor"]
        server.remove_tool("n0")
        server.remove_tool("n4")
        server.tool(name="new")(lambda: None)

        assert await pages(host, "tools", cursor) == [["n3", "n5", "n6"], ["new"]]
        server.remove_tool("n2")
        assert (await host.error("tools/list", {"cursor": cursor}))["code"] == -32602


@pytest.mark.parametrize("size", [0, -1])
def test_a_page_holds_something(size: int) -> None:
    with pytest.raises(ValueError, match="a page holds at least one item"):
        Server("s", page_size=size)


async def test_a_description_that_cannot_be_sent_costs_one_answer_and_not_the_session() -> None:
    server = Server("s")
    server.tool(name="t", description="\ud800")(lambda: None)
    async with hosting(server) as host:
        error = await host.error("tools/list")

        assert "description" in error["message"]
        assert await host.result("ping") == {}


# ---------------------------------------------------------------- changes


async def changes(host: Host) -> list[str]:
    """Wait for what is under way, and return the notices that came."""
    await trio.sleep(1)
    methods = [notice["method"] for notice in host.notices]
    host.notices.clear()
    return methods


@pytest.mark.spec("TL-4")
@pytest.mark.parametrize("version", EVERY)
async def test_a_change_of_a_list_is_told_soon_and_once(
    version: str, autojump_clock: trio.testing.MockClock
) -> None:
    """However much changes at once."""
    server = offering(1)
    async with hosting(server, version) as host, hosting(server) as other:
        for n in range(20):
            server.tool(name=f"more{n}")(lambda: None)
        server.remove_tool("more3")

        assert await changes(host) == ["notifications/tools/list_changed"]
        assert await changes(other) == ["notifications/tools/list_changed"]
        assert all("more3" not in page for page in await pages(host, "tools"))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda s: s.remove_resource("memo://n0"), "resources"),
        (lambda s: s.remove_resource("memo://n0/{x}"), "resources"),
        (lambda s: s.resource("memo://new", name="new")(lambda: ""), "resources"),
        (lambda s: s.remove_prompt("n0"), "prompts"),
        (lambda s: s.prompt(name="new")(lambda: ""), "prompts"),
        (lambda s: s.remove_tool("n0"), "tools"),
        (lambda s: s.tool(name="new")(lambda: None), "tools"),
    ],
)
async def test_each_kind_of_change_has_its_notice(
    change: Any, kind: str, autojump_clock: trio.testing.MockClock
) -> None:
    server = offering(2)
    async with hosting(server) as host:
        lists = [kind, "resources/templates"] if kind == "resources" else [kind]
        before = [await pages(host, each) for each in lists]
        change(server)

        assert await changes(host) == [f"notifications/{kind}/list_changed"]
        assert before != [await pages(host, each) for each in lists]


async def test_later_changes_are_told_again(autojump_clock: trio.testing.MockClock) -> None:
    server = offering(3)
    async with hosting(server) as host:
        for name in ("n0", "n1"):
            server.remove_tool(name)
            assert await changes(host) == ["notifications/tools/list_changed"]


@pytest.mark.spec("LC-10")
async def test_nothing_is_told_of_a_list_that_was_not_declared(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Nor before the session is open."""
    server = Server("s")
    async with hosting(server) as host, plugged_in(server) as early:
        server.tool(name="late")(lambda: None)

        assert await changes(host) == []
        assert await changes(early) == []
        assert (await host.error("tools/list"))["code"] == ErrorCode.METHOD_NOT_FOUND
        await early.initialize()
        assert await pages(early, "tools") == [["late"]]


async def test_a_client_that_has_gone_is_told_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    server = offering(1)
    async with hosting(server) as host, hosting(server) as other:
        server.remove_tool("n0")
        await host.hang_up()
        await host.session.wait_ended()
        server.tool(name="new")(lambda: None)

        assert await changes(other) == ["notifications/tools/list_changed"]
