"""Leader and follower: who reads the answer changes nothing but how fast it comes."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_trio import Client, Deadline, connect_stdio
from mcp_trio.errors import DeadlineExceeded, SessionClosed, SessionLost
from mcp_trio.limits import Limits
from mcp_trio.types import Root
from tests.transports.children.launch import HERE, plain
from tests.transports.turns import taken

if TYPE_CHECKING:
    from mcp_trio import ClientSession

SCRIPT = (HERE / "scripted.py").read_text()
HARMLESS = ("plain", "noise", "halves", "company", "stray", "ask")
__all__ = ["taken"]  # a fixture

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def client(**limits: Any) -> Client:
    roots = [Root(uri="file:///", name="ask")]
    return Client("turn", version="1", roots=roots, limits=Limits(**limits))


async def text_of(session: ClientSession, how: str, **options: Any) -> str:
    result = await session.call_tool(how, {}, **options)
    return str(result.content[0].text)  # type: ignore[union-attr]  # text is all it says


async def lead(session: ClientSession, taken: list[bytes | None]) -> None:
    """Call until a caller has read its own answer: the next call then leads as well."""
    for _ in range(200):
        before = len(taken)
        await text_of(session, "plain")
        if len(taken) > before:
            return
    raise AssertionError("no caller of 200 came to read its own answer")


@settings(max_examples=10)
@given(plan=st.lists(st.sampled_from(HARMLESS), max_size=30), schedule=st.random_module())
def test_every_answer_arrives_whoever_reads_it(plan: list[str], schedule: object) -> None:
    async def main() -> None:
        async with connect_stdio(plain(SCRIPT), client=client()) as session:
            for how in plan:
                assert await text_of(session, how) == how
            async with trio.open_nursery() as nursery:
                for how in plan:
                    if how != "ask":
                        nursery.start_soon(text_of, session, how)

    trio.run(main)


async def test_a_lonely_caller_reads_its_own_answer(taken: list[bytes | None]) -> None:
    async with connect_stdio(plain(SCRIPT), client=client()) as session:
        await lead(session, taken)
        for _ in range(20):
            await text_of(session, "plain")
    assert len(taken) >= 20  # once it leads, the next one does too


async def test_the_callers_context_does_not_reach_what_the_server_asks(
    taken: list[bytes | None],
) -> None:
    seen: list[str] = []

    asked = Client("asked", version="1")

    @asked.roots
    async def roots(_: object) -> list[Root]:
        seen.append(WHO.get())
        return [Root(uri="file:///", name="mine")]

    async with connect_stdio(plain(SCRIPT), client=asked) as session:
        WHO.set("the caller")
        await lead(session, taken)
        assert await text_of(session, "ask") == "mine"
    assert seen == ["nobody"]
    assert b"roots/list" in (taken[-1] or b"")  # the caller did read it


async def test_a_leader_that_is_cancelled_tells_the_server_once(taken: list[bytes | None]) -> None:
    async def cancel_once_it_reads(scope: trio.CancelScope) -> None:
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()

    async with connect_stdio(plain(SCRIPT), client=client()) as session:
        await lead(session, taken)
        before = len(taken)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_once_it_reads, nursery.cancel_scope)
            await session.call_tool("hold", {})
        assert nursery.cancel_scope.cancelled_caught
        assert len(taken) == before + 1
        assert taken[-1] is None
        assert len(json.loads(await text_of(session, "heard"))) == 1
        assert session.statistics().abandoned == 1


async def test_a_leaders_deadline_is_kept(taken: list[bytes | None]) -> None:
    async with connect_stdio(plain(SCRIPT), client=client()) as session:
        await lead(session, taken)
        with pytest.raises(DeadlineExceeded):
            await session.call_tool("hold", {}, deadline=Deadline(idle=0.05, cap=1))
        assert await text_of(session, "plain") == "plain"


async def test_a_leader_hears_that_the_server_ended(taken: list[bytes | None]) -> None:
    async with connect_stdio(plain(SCRIPT), client=client()) as session:
        await lead(session, taken)
        with pytest.raises(SessionLost) as caught, trio.CancelScope(shield=True):
            await session.call_tool("die", {})
    assert caught.value.exit_code == 7
    assert taken[-1] == b""


async def test_closing_the_session_reaches_a_leader_under_a_shield(
    taken: list[bytes | None],
) -> None:
    leads, ended = trio.Event(), trio.Event()

    async def hold(session: ClientSession) -> None:
        await lead(session, taken)
        leads.set()
        with pytest.raises(SessionClosed), trio.CancelScope(shield=True):
            await session.call_tool("hold", {})
        ended.set()

    async with connect_stdio(plain(SCRIPT), client=client()) as session:
        # In the session's own nursery: the descriptors are closed only after it.
        session.session.start_soon(hold, session)
        await leads.wait()
        await trio.testing.wait_all_tasks_blocked()
    assert ended.is_set()


async def test_who_comes_later_is_served_while_a_leader_waits(taken: list[bytes | None]) -> None:
    async with connect_stdio(plain(SCRIPT), client=client()) as session:
        await lead(session, taken)

        async def others() -> None:
            await trio.testing.wait_all_tasks_blocked()
            for _ in range(3):
                assert await text_of(session, "plain") == "plain"
            nursery.cancel_scope.cancel()

        before = len(taken)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(others)
            await session.call_tool("hold", {})
        assert nursery.cancel_scope.cancelled_caught
        assert len(taken) > before


async def test_answers_that_callers_read_end_a_run_of_noise(taken: list[bytes | None]) -> None:
    made = client(junk_bytes=2_000)
    async with connect_stdio(plain(SCRIPT), client=made) as session:
        for _ in range(10):  # 600 bytes of noise each
            assert await text_of(session, "noise") == "noise"
            await lead(session, taken)


async def test_an_answer_over_the_limit_is_refused_to_a_leader_too(
    taken: list[bytes | None],
) -> None:
    made = client(message_bytes=300)
    async with connect_stdio(plain(SCRIPT), client=made) as session:
        await lead(session, taken)
        with trio.move_on_after(0.3):
            await session.call_tool("large", {})
        assert await text_of(session, "plain") == "plain"
