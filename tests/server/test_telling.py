"""Telling the client: log messages, progress, and other notifications of a request."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

from mcp_trio import Context, ErrorCode, InvalidMessage, Server, SessionLost
from tests.server.host import EVERY, NEWEST, Host, hosting

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LOG, PROGRESS = "notifications/message", "notifications/progress"


def doing(work: Any) -> Server:
    server = Server("s")

    @server.tool
    async def do(ctx: Context) -> str:
        await work(ctx)
        return "done"

    return server


async def do(host: Host, **meta: Any) -> None:
    params: dict[str, Any] = {"name": "do", **({"_meta": meta} if meta else {})}
    result = await host.result("tools/call", params)
    assert result["content"][0]["text"] == "done", result


# ---------------------------------------------------------------- logging


async def log_all(ctx: Context) -> None:
    for level in LEVELS:
        await ctx.log(level, {"at": level}, logger="l")


@pytest.mark.spec("LO-2")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("level", LEVELS)
async def test_messages_below_the_level_that_the_client_set_are_not_sent(
    version: str, level: str
) -> None:
    async with hosting(doing(log_all), version) as host:
        assert await host.result("logging/setLevel", {"level": level}) == {}
        await do(host)

        assert host.noticed(LOG) == [
            {"level": each, "logger": "l", "data": {"at": each}}
            for each in LEVELS[LEVELS.index(level) :]
        ]


async def test_until_it_sets_one_the_level_is_info() -> None:
    async with hosting(doing(log_all)) as host:
        await do(host)

        assert [params["level"] for params in host.noticed(LOG)] == LEVELS[1:]


async def test_each_session_has_its_own_level() -> None:
    server = doing(log_all)
    async with hosting(server) as host, hosting(server) as other:
        await host.result("logging/setLevel", {"level": "emergency"})
        await do(host)
        await do(other)

        assert len(host.noticed(LOG)) == 1
        assert len(other.noticed(LOG)) == 7


@pytest.mark.spec("LO-2")
@pytest.mark.parametrize("params", [None, {}, {"level": "loud"}, {"level": 3}])
async def test_a_level_that_is_none_is_a_bad_request(params: Any) -> None:
    async with hosting(Server("s")) as host:
        error = await host.error("logging/setLevel", params)

        assert error["code"] == ErrorCode.INVALID_PARAMS


async def test_a_handler_is_told_of_a_level_that_is_none() -> None:
    async def work(ctx: Context) -> None:
        with pytest.raises(ValueError, match="'loud' is none of the levels debug, info"):
            await ctx.log("loud", "x")

    async with hosting(doing(work)) as host:
        await do(host)


@pytest.mark.parametrize("data", ["text", 5, None, [1, {"a": True}]])
async def test_any_json_can_be_logged(data: Any) -> None:
    async with hosting(doing(lambda ctx: ctx.log("error", data))) as host:
        await do(host)

        assert host.noticed(LOG) == [{"level": "error", "data": data}]


@pytest.mark.parametrize("data", [math.nan, {"a": "\ud800"}, object()])
async def test_what_json_cannot_hold_is_not_logged(data: Any) -> None:
    async def work(ctx: Context) -> None:
        with pytest.raises(InvalidMessage, match="data"):
            await ctx.log("error", data)

    async with hosting(doing(work)) as host:
        await do(host)
        assert host.notices == []


async def test_nothing_is_logged_for_a_request_that_has_ended() -> None:
    kept: list[Context] = []

    async def work(ctx: Context) -> None:
        kept.append(ctx)

    async with hosting(doing(work)) as host:
        await do(host)
        await kept[0].log("error", "late")
        await host.result("ping")

        assert host.notices == []


# ---------------------------------------------------------------- progress


async def count_up(ctx: Context) -> None:
    for n in range(3):
        await ctx.progress(n, 2.5, f"step {n}")


@pytest.mark.spec("P-1", "P-3")
@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("token", ["t", 0, 7, ""])
async def test_progress_is_reported_under_the_token_of_the_request(
    version: str, token: Any
) -> None:
    """With a message since 2025-03-26."""
    async with hosting(doing(count_up), version) as host:
        await do(host, progressToken=token)

        message = version >= "2025-03-26"
        assert host.noticed(PROGRESS) == [
            {
                "progressToken": token,
                "progress": n,
                "total": 2.5,
                **({"message": f"step {n}"} if message else {}),
            }
            for n in range(3)
        ]


@pytest.mark.parametrize("meta", [{}, {"k": 1}])
async def test_progress_that_nobody_asked_for_is_not_sent(meta: Any) -> None:
    async with hosting(doing(count_up)) as host:
        await do(host, **meta)

        assert host.notices == []


@pytest.mark.spec("P-2")
async def test_progress_that_does_not_increase_is_not_sent() -> None:
    async def work(ctx: Context) -> None:
        for value in (1, 1, 0, 2.5, -1, 3):
            await ctx.progress(value)
            ctx.progress_nowait(value)

    async with hosting(doing(work)) as host:
        await do(host, progressToken="t")

        assert [params["progress"] for params in host.noticed(PROGRESS)] == [1, 2.5, 3]


async def test_progress_without_waiting_sends_at_least_the_last() -> None:
    async def work(ctx: Context) -> None:
        for n in range(1000):
            ctx.progress_nowait(n)

    async with hosting(doing(work)) as host:
        await do(host, progressToken="t")

        values = [params["progress"] for params in host.noticed(PROGRESS)]
        assert values[-1] == 999
        assert values == sorted(values)
        assert len(values) < 1000


async def test_a_number_that_json_cannot_hold_is_no_progress_and_costs_none() -> None:
    async def work(ctx: Context) -> None:
        for value in (math.nan, math.inf):
            with pytest.raises(InvalidMessage, match="progress"):
                await ctx.progress(value)
        await ctx.progress(1)

    async with hosting(doing(work)) as host:
        await do(host, progressToken="t")

        assert [params["progress"] for params in host.noticed(PROGRESS)] == [1]


@pytest.mark.spec("P-4", "P-5")
async def test_progress_of_a_request_that_has_ended_is_dropped() -> None:
    kept: list[Context] = []

    async def work(ctx: Context) -> None:
        kept.append(ctx)

    async with hosting(doing(work)) as host:
        await do(host, progressToken="t")
        await kept[0].progress(1)
        kept[0].progress_nowait(2)
        await host.result("ping")

        assert host.notices == []


async def test_progress_comes_before_the_answer_it_belongs_to() -> None:
    order: list[str] = []

    async with hosting(doing(count_up)) as host:
        id_ = await host.start("tools/call", {"name": "do", "_meta": {"progressToken": 1}})
        await host.until(lambda: host.noticed(PROGRESS))
        order.append("progress")
        await host.reply(id_)
        order.append("answer")

        assert len(host.noticed(PROGRESS)) == 3


# ---------------------------------------------------------------- other notifications


async def test_a_handler_can_tell_the_client_anything() -> None:
    async with hosting(doing(lambda ctx: ctx.notify("x/told", {"n": 1}))) as host:
        await do(host)

        assert host.noticed("x/told") == [{"n": 1}]


async def test_detached_work_can_tell_but_ends_with_the_session() -> None:
    events: list[str] = []

    async def later(push: Any, name: str) -> None:
        await push.notify("x/later", {"name": name})
        try:
            await trio.sleep_forever()
        finally:
            events.append("ended")

    async with trio.open_nursery() as nursery:

        async def work(ctx: Context) -> None:
            ctx.detach(nursery, later, "n")

        async with hosting(doing(work)) as host:
            await do(host)
            await host.until(lambda: host.noticed("x/later"))
            assert events == []

    assert host.noticed("x/later") == [{"name": "n"}]
    assert events == ["ended"]


async def test_telling_after_the_end_of_the_session_says_that_it_is_lost() -> None:
    kept: list[Context] = []

    async def work(ctx: Context) -> None:
        kept.append(ctx)

    async with hosting(doing(work)) as host:
        await do(host)
        await host.hang_up()
        await host.session.wait_ended()

        with pytest.raises(SessionLost):
            await kept[0].notify("x/told")


@pytest.mark.parametrize("version", [NEWEST])
async def test_a_context_knows_its_request(version: str) -> None:
    found: list[Any] = []

    async def work(ctx: Context) -> None:
        found.append((ctx.request_id, ctx.method, dict(ctx.meta), ctx.deadline, ctx.session))

    async with hosting(doing(work), version) as host:
        id_ = await host.start("tools/call", {"name": "do", "_meta": {"k": 1}}, id_="x")
        await host.reply(id_)

        assert found == [("x", "tools/call", {"k": 1}, math.inf, host.session)]
