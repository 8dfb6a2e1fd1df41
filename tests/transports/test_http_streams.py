"""Streams over HTTP: what goes on which, what a cut takes, and how it is fetched."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing

from mcp_trio import Limits
from mcp_trio.errors import StoreUnusable
from mcp_trio.stores.memory import MemoryStore
from mcp_trio.stores.sqlite import SqliteStore
from mcp_trio.transports import http_server
from mcp_trio.transports.http_streams import EventStream, Reader
from mcp_trio.wire.jsonrpc import Notification
from tests.transports.http_raw import (
    EVERY,
    HEADERS,
    PRIMES,
    Client,
    Raw,
    Workshop,
    connected,
    expected_errors,
    quiet_log,
    serving,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from mcp_trio.abc import SessionRecord, StoredEvent, Tail

__all__ = ["expected_errors", "quiet_log"]  # fixtures

#: A handler that waits has a stream at once, where streams can be resumed.
AT_ONCE = Limits(sse_after=0)


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_LOOK", 0.02)


def progress_of(messages: Sequence[Any]) -> list[float]:
    return [m["params"]["progress"] for m in messages if m.get("method", "").endswith("progress")]


# ---------------------------------------------------------------- JSON or SSE


@pytest.mark.parametrize("version", EVERY)
async def test_a_call_that_says_something_before_its_answer_is_a_stream(version: str) -> None:
    async with serving(Workshop()) as http, connected(http, version) as client:
        response = await client.call("steps", {"n": 3})

        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["transfer-encoding"] == "chunked"
        *progress, answer = response.messages
        assert progress_of(progress) == [1, 2, 3]
        assert text_of(answer) == "done"
        assert {event.id for event in response.events} == {None}
        assert (await client.call("echo", {"text": "x"})).status == 200


async def test_what_is_said_leaves_at_once() -> None:
    """Not with the answer, nor with the next event."""
    server = Workshop()
    async with serving(server) as http, connected(http) as client:
        raw = await client.start_call("hold", {"name": "a", "before": 1, "after": 1})
        assert (await raw.head()).status == 200
        assert progress_of([await raw.message()]) == [1]
        assert server.left == []
        server.open("a")
        *progress, answer = await raw.rest()
        assert progress_of(progress) == [2]
        assert text_of(answer) == "held a"


async def test_a_call_is_plain_json_however_long_it_takes_where_nothing_can_be_resumed() -> None:
    server = Workshop(AT_ONCE)
    async with serving(server) as http, connected(http) as client:
        raw = await client.start_call("hold", {"name": "a"})
        await server.until_entered("a")
        await trio.sleep(0.02)
        server.open("a")
        assert (await raw.response()).headers["content-type"] == "application/json"


async def test_a_client_that_takes_streams_only_gets_its_head_soon() -> None:
    server = Workshop(Limits(sse_after=0.01))
    async with serving(server) as http, connected(http) as client:
        raw = await client.start_call("hold", {"name": "a"}, Accept="text/event-stream")
        assert (await raw.head()).headers["content-type"] == "text/event-stream"
        assert server.left == []
        server.open("a")
        assert text_of((await raw.rest())[0]) == "held a"


async def test_a_client_that_takes_json_only_gets_no_notification_and_no_question(
    expected_errors: pytest.LogCaptureFixture,
) -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        response = await client.call("steps", {"n": 3}, Accept="application/json")
        assert text_of(response.json) == "done"
        response = await client.call("ask", Accept="application/json")
        assert response.json["result"]["isError"]


async def test_a_cancelled_request_ends_without_an_answer() -> None:
    server = Workshop()
    async with serving(server, store=MemoryStore()) as http:
        for before, accept, resumable in (
            (0, "application/json, text/event-stream", False),
            (1, "application/json, text/event-stream", True),
            (1, "application/json", False),
        ):
            async with connected(http, PRIMES if resumable else HEADERS, Accept=accept) as client:
                call = client.calling("hold", {"name": "a", "before": before}, 7)
                raw = await client.start("POST", call)
                await server.until_entered("a")
                if before and resumable:
                    await raw.head()
                    assert progress_of([await raw.message()]) == [1]
                await client.tell("notifications/cancelled", {"requestId": 7})
                if before and resumable:
                    assert await raw.rest() == []
                else:
                    response = await raw.response()
                    text = response.body if response.status == 200 else b""
                    assert b'"result"' not in text
                    assert b'"error"' not in text
                assert (await client.call("echo", {"text": "x"})).status == 200
            server.entered.clear()


# ---------------------------------------------------------------- routes


async def test_everything_about_a_call_is_on_its_own_stream() -> None:
    """Two calls at once, a question in each, and a standing stream that has none of it."""
    async with serving(Workshop()) as http, connected(http) as client:
        standing = await client.listen()
        asking = [await client.start_call("ask", raw=await client.dial()) for _ in range(2)]
        for i, raw in enumerate(asking):
            await raw.head()
            question = await raw.message()
            assert question["method"] == "elicitation/create"
            await client.answer(question, {"action": "accept", "content": {"n": i}})
        for i, raw in enumerate(asking):
            [answer] = await raw.rest()
            assert answer["id"] == i + 1
            assert text_of(answer) == str({"n": i})
        http.stop_accepting()
        assert await standing.rest() == []


async def test_an_answer_that_is_posted_again_changes_nothing() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        raw = await client.start_call("ask")
        await raw.head()
        question = await raw.message()
        for n in range(3):
            await client.answer(question, {"action": "accept", "content": {"n": n}})
        assert text_of((await raw.rest())[0]) == "{'n': 0}"


async def tell_all(http: Any, n: int = 1) -> None:
    """Let each session say something that belongs to no request."""
    for session in http.sessions:
        for i in range(n):
            params = {"level": "info", "data": i}
            session.session.notify_nowait("notifications/message", params)


async def test_what_nobody_asked_for_is_on_the_newest_standing_stream_only() -> None:
    server = Workshop(Limits(get_streams=3))
    async with serving(server) as http, connected(http) as client:
        await tell_all(http)
        streams = [await client.listen()]
        assert (await streams[0].message())["params"]["data"] == 0  # said before it opened
        for i in range(3):
            await tell_all(http)
            assert (await streams[-1].message())["params"]["data"] == 0
            if i < 2:
                streams.append(await client.listen())
                await trio.testing.wait_all_tasks_blocked(0.01)

        fourth = await client.listen()  # one more than there may be: the oldest ends
        assert await streams[0].rest() == []

        await fourth.stream.aclose()  # the next newest carries on
        await trio.testing.wait_all_tasks_blocked(0.01)
        await tell_all(http)
        assert (await streams[2].message())["params"]["data"] == 0
        http.stop_accepting()
        assert await streams[1].rest() == []
        assert await streams[2].rest() == []


async def test_what_nobody_listens_to_is_bounded() -> None:
    server = Workshop(Limits(events_per_stream=10))
    for store in (None, MemoryStore(limits=server.limits)):
        async with serving(server, store=store) as http, connected(http) as client:
            raw = await client.listen()
            await raw.stream.aclose()
            await trio.testing.wait_all_tasks_blocked(0.01)
            await tell_all(http, 100)
            await trio.testing.wait_all_tasks_blocked(0.01)

            raw = await client.listen()

            assert [(await raw.message())["params"]["data"] for _ in range(10)] == [*range(90, 100)]


async def test_silent_streams_are_kept_alive(quick_watch: None) -> None:
    server = Workshop(Limits(sse_keep_alive=0.05))
    async with serving(server) as http, connected(http) as client:
        standing = await client.listen()
        raw = await client.start_call("hold", {"name": "a", "before": 1})
        await raw.head()
        await raw.message()
        for stream in (standing, raw):
            while stream.text.count(b": keep-alive\n\n") < 2:
                stream.text += await stream._chunk()
        server.open("a")
        assert text_of((await raw.rest())[-1]) == "held a"


async def test_a_client_that_closes_its_sending_side_still_gets_its_answer(
    quick_watch: None,
) -> None:
    server = Workshop(Limits(sse_keep_alive=0.04))
    async with serving(server) as http, connected(http) as client:
        plain = await client.start_call("hold", {"name": "a"}, raw=await client.dial())
        stream = await client.start_call(
            "hold", {"name": "a", "before": 1}, raw=await client.dial()
        )
        for raw in (plain, stream):
            assert isinstance(raw.stream, trio.SocketStream)
            await raw.stream.send_eof()
        await stream.head()
        await stream.message()
        await trio.sleep(0.15)
        server.open("a")
        assert text_of((await plain.response()).json) == "held a"
        assert text_of((await stream.rest())[-1]) == "held a"


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("before", [0, 1])
async def test_a_client_that_goes_away_cancels_nothing(stored: bool, before: int) -> None:  # noqa: FBT001 - a parameter
    server = Workshop(AT_ONCE)
    store = MemoryStore() if stored else None
    async with serving(server, store=store) as http, connected(http) as client:
        raw = await client.dial()
        await client.start_call("hold", {"name": "a", "before": before, "after": 5}, raw=raw)
        await server.until_entered("a")
        await raw.cut()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.left == []
        server.open("a")
        await server.until_left("a")
        await trio.testing.wait_all_tasks_blocked(0.01)
        [session] = http.sessions
        assert set(session.transport.streams) == {"0"}
        assert session.open_requests == 0


# ---------------------------------------------------------------- resumption


async def test_a_stream_that_can_be_resumed_begins_with_an_id() -> None:
    """And with how long to wait, in the revision that has both."""
    server = Workshop(Limits(sse_after=0, sse_retry=1234))
    async with serving(server, store=MemoryStore()) as http:
        async with connected(http, PRIMES) as client:
            raw = await client.start_call("hold", {"name": "a"})
            await raw.head()
            first = await raw.event()
            assert first is None or (first.data, raw.retry) == (b"", 1234)
            assert raw.last_event_id
            server.open("a")
            assert text_of((await raw.rest())[0]) == "held a"
            standing = await client.listen()
            first = await standing.event()
            assert first is not None
            assert first.data == b""
        async with connected(http, HEADERS) as client:
            events = (await client.call("steps", {"n": 2})).events
            assert all(event.data for event in events)
            assert len({event.id for event in events}) == 3
            assert None not in {event.id for event in events}


Resumable = tuple[Client, Raw, str]


@asynccontextmanager
async def cut_call(
    http: Any, server: Workshop, *, read: int, version: str = PRIMES, **held: Any
) -> AsyncIterator[Resumable]:
    """A client whose call "a" was cut after *read* messages; and the id it had then."""
    async with connected(http, version) as client:
        raw = await client.start_call("hold", {"name": "a", **held}, raw=await client.dial())
        await raw.head()
        if version == PRIMES:
            await raw.event()
        for _ in range(read):
            await raw.message()
        event_id = raw.last_event_id
        assert event_id is not None
        await raw.cut()
        await trio.testing.wait_all_tasks_blocked(0.01)
        yield client, raw, event_id


def stores(path: Path) -> dict[str, Any]:
    return {"memory": MemoryStore(), "sqlite": SqliteStore(path / "events.db")}


@pytest.mark.case("24")
@pytest.mark.parametrize("read", [0, 1, 3])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_cut_call_is_resumed_where_it_was_cut(
    tmp_path: Path, store: str, read: int
) -> None:
    """Each later event once and in order, then what is new, then the answer."""
    server = Workshop(AT_ONCE)
    events = stores(tmp_path)[store]
    async with (
        serving(server, store=events) as http,
        cut_call(http, server, read=read, before=3, after=2) as (client, _, event_id),
    ):
        raw = await client.listen(Last_Event_ID=event_id)
        seen = progress_of([await raw.message() for _ in range(3 - read)])
        assert seen == [*range(read + 1, 4)]
        server.open("a")
        *progress, answer = await raw.rest()
        assert progress_of(progress) == [4, 5]
        assert text_of(answer) == "held a"
        assert (await client.post({"jsonrpc": "2.0", "id": 9, "method": "ping"})).status == 200
    await events.aclose()


@pytest.mark.case("24")
async def test_a_finished_call_is_resumed_from_any_of_its_ids() -> None:
    server = Workshop(AT_ONCE)
    async with (
        serving(server, store=MemoryStore()) as http,
        cut_call(http, server, read=1, before=3, version=HEADERS) as (client, _, event_id),
    ):
        server.open("a")
        await server.until_left("a")
        await trio.testing.wait_all_tasks_blocked(0.01)
        stream = event_id.partition(".")[0]
        for n in range(5):
            response = await client.request("GET", Last_Event_ID=f"{stream}.{n}")
            assert response.status == 200
            assert progress_of(response.messages) == [*range(n + 1, 4)]
            assert [text_of(m) for m in response.messages if "id" in m] == ["held a"] * (n < 4)


@pytest.mark.case("24")
async def test_of_two_who_resume_the_newest_wins_and_the_answer_comes_once() -> None:
    server = Workshop(AT_ONCE)
    async with (
        serving(server, store=MemoryStore()) as http,
        cut_call(http, server, read=1, before=2, after=1) as (client, _, event_id),
    ):
        first = await client.listen(Last_Event_ID=event_id)
        assert progress_of([await first.message()]) == [2]
        second = await client.listen(Last_Event_ID=event_id)
        assert progress_of([await second.message()]) == [2]
        assert await first.rest() == []
        server.open("a")
        *progress, answer = await second.rest()
        assert progress_of(progress) == [3]
        assert text_of(answer) == "held a"


@pytest.mark.case("24")
async def test_what_cannot_be_resumed_is_refused_and_nothing_is_told() -> None:
    server = Workshop(AT_ONCE)
    async with (
        serving(server, store=MemoryStore()) as http,
        cut_call(http, server, read=2, before=2) as (client, _, event_id),
        connected(http) as other,
    ):
        stream = event_id.partition(".")[0]
        for wrong in (f"{stream}.99", "99.0", "0.1", "", "x" * 10_000, "1", "é.1", f"{stream}.-1"):
            response = await client.request("GET", Last_Event_ID=wrong)
            assert response.status == 400, wrong
            assert response.error["code"] == -32600
        # Another session's stream of the same name is its own.
        assert (await other.request("GET", Last_Event_ID=event_id)).status == 400
        response = await client.request("GET", Last_Event_ID=event_id, Mcp_Session_Id="f" * 40)
        assert response.status == 404
        raw = await client.listen(Last_Event_ID=event_id)
        server.open("a")
        assert text_of((await raw.rest())[-1]) == "held a"


@pytest.mark.case("24")
async def test_what_has_been_dropped_is_refused() -> None:
    server = Workshop(Limits(sse_after=0, events_per_stream=2))
    async with (
        serving(server, store=MemoryStore(limits=server.limits)) as http,
        cut_call(http, server, read=1, before=5) as (client, _, event_id),
    ):
        assert (await client.request("GET", Last_Event_ID=event_id)).status == 400
        server.open("a")
        await server.until_left("a")
        assert (await client.request("GET", Last_Event_ID=event_id)).status == 400


async def test_without_a_store_nothing_is_resumed() -> None:
    async with serving(Workshop()) as http, connected(http) as client:
        assert (await client.request("GET", Last_Event_ID="1.0")).status == 400


@pytest.mark.case("24")
async def test_an_answer_is_fetched_from_the_process_that_came_after(tmp_path: Path) -> None:
    """The session has ended with the first, but what it said has not."""
    server = Workshop(AT_ONCE)
    async with (
        SqliteStore(tmp_path / "events.db") as store,
        serving(server, store=store) as http,
        cut_call(http, server, read=1, before=2) as (client, _, event_id),
    ):
        server.open("a")
        await server.until_left("a")
        await trio.sleep(0.05)
        unfinished = await client.start_call(
            "hold", {"name": "b", "before": 1}, raw=await client.dial()
        )
        await unfinished.head()
        await unfinished.message()
        http.stop_accepting()
    async with (
        SqliteStore(tmp_path / "events.db") as store,
        serving(Workshop(), store=store) as http,
        connected(http, open=False) as again,
    ):
        again.defaults = client.defaults
        response = await again.request("GET", Last_Event_ID=event_id)
        assert progress_of(response.messages) == [2]
        assert text_of(response.messages[-1]) == "held a"
        assert (await again.request("GET", Last_Event_ID=unfinished.last_event_id)).status == 404
        assert (await again.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status == 404
        assert (await again.request("GET")).status == 404


async def test_the_standing_stream_is_resumed_too() -> None:
    async with serving(Workshop(), store=MemoryStore()) as http, connected(http) as client:
        raw = await client.listen()
        await tell_all(http, 2)
        assert (await raw.message())["params"]["data"] == 0
        assert (await raw.message())["params"]["data"] == 1
        event_id = raw.last_event_id
        await raw.cut()
        await trio.testing.wait_all_tasks_blocked(0.01)
        await tell_all(http, 3)
        raw = await client.listen(Last_Event_ID=event_id)
        assert [(await raw.message())["params"]["data"] for _ in range(3)] == [0, 1, 2]
        await tell_all(http, 1)
        assert (await raw.message())["params"]["data"] == 0


@pytest.mark.parametrize("silent", [False, True])
async def test_a_handler_may_close_its_stream_and_be_fetched_later(silent: bool) -> None:  # noqa: FBT001 - a parameter
    """For long work, where the client has an id to fetch by: at once, whatever was said."""
    server = Workshop(Limits(sse_after=60, sse_retry=50))
    async with serving(server, store=MemoryStore()) as http, connected(http) as client:
        raw = await client.start_call("leave", {"name": "a", "silent": silent})
        response = await raw.response()
        assert server.entered == ["a True"]
        assert b"retry: 50\n" in response.body
        last = response.events[-1].id
        raw = await client.listen(Last_Event_ID=last)
        server.open("a")
        assert text_of((await raw.rest())[-1]) == "left a"


async def test_a_stream_that_nobody_could_fetch_is_not_closed() -> None:
    server = Workshop()
    server.open("a")
    for version, store in ((PRIMES, None), (HEADERS, MemoryStore())):
        async with serving(server, store=store) as http, connected(http, version) as client:
            response = await client.call("leave", {"name": "a"})
            assert server.entered.pop() == "a False"
            assert text_of(response.messages[-1]) == "left a"


async def test_a_detached_call_holds_up_a_drain_until_its_answer_is_stored(
    tmp_path: Path,
) -> None:
    server = Workshop(Limits(sse_after=0.01))
    async with (
        SqliteStore(tmp_path / "events.db") as store,
        serving(server, store=store) as http,
        connected(http) as client,
    ):
        response = await client.call("leave", {"name": "a"})
        stream = str(response.events[-1].id).partition(".")[0]
        http.stop_accepting()
        with trio.move_on_after(0.05):
            await http.wait_drained()
            pytest.fail("a call is under way")
        server.open("a")
        await http.wait_drained()
        tail = await store.read(client.session_id, stream, 1)
        assert tail.finished
        assert text_of(json.loads(tail.events[-1].data)) == "left a"


async def test_a_stream_that_has_not_begun_cannot_be_resumed() -> None:
    """Who guesses its name takes nothing from the response that waits for it."""
    server = Workshop(Limits(sse_after=10))
    async with serving(server, store=MemoryStore()) as http, connected(http) as client:
        raw = await client.start_call("hold", {"name": "a"}, raw=await client.dial())
        await server.until_entered("a")
        [session] = http.sessions
        for name in session.transport.streams:
            assert (await client.request("GET", Last_Event_ID=f"{name}.0")).status == 400
        server.open("a")
        assert text_of((await raw.response()).json) == "held a"


def test_only_the_newest_reader_of_a_stream_takes_from_it() -> None:
    """One that has been replaced may still run once, and must not take what is another's."""
    stream = EventStream("1", "session", Limits())
    first, second = Reader(), Reader()
    stream.attach(first)
    stream.send_nowait(Notification("a", None))
    assert [n for n, _ in stream.take(first)] == [1]
    stream.attach(second)
    stream.send_nowait(Notification("b", None))

    assert first.replaced
    assert not stream.awaits(first)
    assert stream.take(first) == []
    assert not stream.awaits(second)
    assert [n for n, _ in stream.take(second)] == [2]
    assert stream.awaits(second)
    stream.detach(first)
    assert stream.reader is second


# ---------------------------------------------------------------- stores that fail


class Broken:
    """A store of which one method fails, after *good* uses."""

    def __init__(self, method: str, good: int = 0) -> None:
        self._inner = MemoryStore()
        self._method = method
        self._good = good

    async def _ask(self, method: str, *args: Any) -> Any:
        await trio.lowlevel.checkpoint()
        if method == self._method:
            self._good -= 1
            if self._good < 0:
                raise StoreUnusable("the disk is full")
        return await getattr(self._inner, method)(*args)

    async def open_session(self, session: str, record: SessionRecord) -> None:
        await self._ask("open_session", session, record)

    async def session(self, session: str) -> SessionRecord | None:
        found: SessionRecord | None = await self._ask("session", session)
        return found

    async def append(self, session: str, stream: str, events: Sequence[StoredEvent]) -> None:
        await self._ask("append", session, stream, events)

    async def finish(self, session: str, stream: str) -> None:
        await self._ask("finish", session, stream)

    async def read(self, session: str, stream: str, after: int) -> Tail:
        tail: Tail = await self._ask("read", session, stream, after)
        return tail

    async def forget_session(self, session: str) -> None:
        await self._ask("forget_session", session)

    async def statistics(self) -> Any:
        return await self._ask("statistics")

    async def aclose(self) -> None:
        await self._inner.aclose()


@pytest.mark.parametrize(
    ("method", "good"),
    [
        ("open_session", 0),
        ("session", 0),
        ("append", 0),
        ("append", 1),
        ("finish", 0),
        ("read", 0),
        ("forget_session", 0),
    ],
)
async def test_a_store_that_fails_costs_resumability_only(
    method: str, good: int, expected_errors: pytest.LogCaptureFixture
) -> None:
    server = Workshop(AT_ONCE)
    async with serving(server, store=Broken(method, good)) as http:
        async with connected(http) as client:
            for _ in range(3):
                raw = await client.start_call("hold", {"name": "a", "before": 2, "after": 2})
                await raw.head()
                server.open("a")
                messages = await raw.rest()
                assert progress_of(messages) == [1, 2, 3, 4]
                assert text_of(messages[-1]) == "held a"
                if (method, good) == ("append", 0):  # an id would promise what is not there
                    assert str(raw.last_event_id).endswith(".0")
                server.gates.clear()
            response = await client.request("GET", Last_Event_ID="2.0", Mcp_Session_Id="f" * 40)
            assert response.status == 404
            response = await client.request("GET", Last_Event_ID="2.0")
            assert response.status == (200 if method in ("session", "forget_session") else 400) or (
                method in ("finish", "append")
            )
            standing = await client.listen()
            await tell_all(http)
            assert (await standing.message())["params"]["data"] == 0
            assert (await client.request("DELETE")).status == 200
            assert await standing.rest() == []
        async with connected(http) as client:
            assert (await client.call("echo", {"text": "x"})).status == 200
    logged = [record.getMessage() for record in expected_errors.records]
    assert any("store failed" in message for message in logged)


async def test_a_slow_store_keeps_order_and_loses_nothing() -> None:
    """Two tasks of one handler report, then it answers: nothing follows the answer."""

    class Slow(Broken):
        async def _ask(self, method: str, *args: Any) -> Any:
            await trio.sleep(0.002)
            return await super()._ask(method, *args)

    server = Workshop(AT_ONCE)
    async with serving(server, store=Slow("none")) as http, connected(http) as client:
        response = await client.call("steps", {"n": 200})
        assert progress_of(response.messages) == [*range(1, 201)]
        assert text_of(response.messages[-1]) == "done"
        ids = [event.id for event in response.events if event.data]
        assert len(set(ids)) == 201


async def test_a_stalled_reader_of_a_stored_stream_holds_its_handler_only() -> None:
    server = Workshop(AT_ONCE)
    async with serving(server, store=MemoryStore()) as http, connected(http) as client:
        await client.start_call("steps", {"n": 20_000, "size": 1000}, raw=await client.dial())
        await trio.sleep(0.2)
        [session] = http.sessions
        stream = next(s for s in session.transport.streams.values() if not s.standing)
        assert stream.full
        assert stream.number < 15_000
        assert (await client.call("echo", {"text": "x"})).status == 200
        assert (await client.request("DELETE")).status == 200
