"""The typed calls of a client, against a server played by hand."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcp_trio.client import Client, OutgoingRequest
from mcp_trio.errors import (
    CapabilityMissing,
    DeadlineExceeded,
    InvalidMessage,
    InvalidResult,
    OriginSettled,
    PeerError,
    ProtocolViolation,
    SessionClosed,
    SessionLost,
)
from mcp_trio.limits import Deadline, Limits
from mcp_trio.types import (
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)
from tests.client.scripted import NEWEST, OLDEST, Outcome, scripted

TEXT = {"content": [{"type": "text", "text": "hi"}]}
WEATHER = {
    "name": "weather",
    "inputSchema": {"type": "object"},
    "outputSchema": {
        "type": "object",
        "properties": {"degrees": {"type": "number"}},
        "required": ["degrees"],
    },
}


@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
async def test_call_tool_sends_name_and_arguments_and_returns_the_content(
    version: str,
    typed: bool,  # noqa: FBT001 - a parameter of the test
    nursery: trio.Nursery,
) -> None:
    """One call, both kinds of memory transport, both ends of the legacy era."""
    async with scripted(version=version, typed=typed) as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("echo", {"text": "hi"}))
        request = await script.request("tools/call")
        script.answer(request, TEXT)
        result = await call.wait()

    assert request.params == {"name": "echo", "arguments": {"text": "hi"}}
    assert result.content == (TextContent(text="hi"),)
    assert session.revision.version == version


async def test_call_tool_without_arguments_sends_none(nursery: trio.Nursery) -> None:
    """Absent arguments stay absent, and ``meta`` becomes ``_meta``."""
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("now", meta={"x/y": 1}))
        request = await script.request("tools/call")
        script.answer(request, {**TEXT, "isError": True})
        result = await call.wait()

    assert request.params == {"name": "now", "_meta": {"x/y": 1}}
    assert result.is_error is True


async def test_a_result_that_does_not_fit_names_its_path(nursery: trio.Nursery) -> None:
    """InvalidResult, with the path in wire names."""
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x"))
        script.answer(await script.request(), {"content": [{"type": "text", "text": 5}]})

        with pytest.raises(InvalidResult, match=r"tools/call: \$\.content\[0\]\.text"):
            await call.wait()


async def test_an_error_of_the_server_is_a_peer_error(nursery: trio.Nursery) -> None:
    """Code, message and data as sent."""
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x"))
        script.refuse(await script.request(), -32602, "Unknown tool", {"name": "x"})

        with pytest.raises(PeerError) as caught:
            await call.wait()

    assert (caught.value.code, caught.value.data) == (-32602, {"name": "x"})


async def test_arguments_that_are_no_json_are_refused_before_sending() -> None:
    """Nothing leaves, the session lives."""
    async with scripted() as (session, script):
        with pytest.raises(InvalidMessage):
            await session.call_tool("x", {"value": float("nan")})
        script.ask("p", "ping")

        assert (await script.answer_to("p")).id == "p"


async def test_a_cancelled_call_tells_the_server_once(nursery: trio.Nursery) -> None:
    """Leaving the scope returns at once, the cancellation goes out."""
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("hold"))
        request = await script.request()
        call.scope.cancel()
        await call.wait()
        told = await script.notification("notifications/cancelled")

    assert told.params is not None
    assert told.params["requestId"] == request.id


async def test_a_late_answer_is_dropped(nursery: trio.Nursery) -> None:
    """The answer to a cancelled call harms nobody and is counted."""
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("hold"))
        request = await script.request()
        call.scope.cancel()
        await script.notification("notifications/cancelled")
        script.answer(request, TEXT)
        again = Outcome(nursery, lambda: session.call_tool("x"))
        script.answer(await script.request(), TEXT)
        await again.wait()

        assert session.statistics().late_answers == 1


@pytest.mark.parametrize(
    ("capability", "call"),
    [
        ("tools", lambda s: s.call_tool("x")),
        ("tools", lambda s: s.list_tools().all()),
        ("resources", lambda s: s.read_resource("a:b")),
        ("resources.subscribe", lambda s: s.subscribe("a:b")),
        ("prompts", lambda s: s.get_prompt("x")),
        ("completions", lambda s: s.complete(PromptReference(name="x"), "a", "")),
        ("logging", lambda s: s.set_log_level("info")),
        ("tasks", lambda s: s.request("tasks/get", {"taskId": "1"})),
    ],
)
async def test_what_the_server_did_not_declare_is_not_sent(capability: str, call: Any) -> None:
    """CapabilityMissing names the capability; an empty object declares, false does not."""
    declared = {"resources": {"subscribe": False}} if capability.startswith("resources.") else {}
    async with scripted(capabilities=declared) as (session, _):
        with pytest.raises(CapabilityMissing) as caught:
            await call(session)

        assert caught.value.capability == capability
        assert session.statistics().sent == 2  # initialize, initialized


async def test_a_method_the_revision_does_not_have_is_not_sent() -> None:
    """Whatever the server declared."""
    async with scripted(version=OLDEST, capabilities={"tasks": {}}) as (session, _):
        with pytest.raises(CapabilityMissing, match=OLDEST):
            await session.request("tasks/get", {"taskId": "1"})


async def test_custom_methods_go_out_raw(nursery: trio.Nursery) -> None:
    """Params and result pass through untouched."""
    async with scripted(capabilities={}) as (session, script):
        call = Outcome(nursery, lambda: session.request("x/custom", {"a": [1]}))
        request = await script.request("x/custom")
        script.answer(request, {"b": None})

        assert await call.wait() == {"b": None}
        assert request.params == {"a": [1]}


async def test_notify_sends_a_raw_notification() -> None:
    """Any name, any params."""
    async with scripted() as (session, script):
        await session.notify("x/told", {"a": 1})

        assert (await script.notification("x/told")).params == {"a": 1}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
async def test_resources_prompts_and_the_rest_of_the_calls(
    version: str, nursery: trio.Nursery
) -> None:
    """Each call sends its params and structures its result."""
    prompt = {"messages": [{"role": "user", "content": {"type": "text", "text": "t"}}]}
    contents = {"contents": [{"uri": "a:b", "text": "t"}]}
    completion = {"completion": {"values": ["Oslo"]}}
    template = ResourceTemplateReference(uri="a:{b}")
    exchange: list[tuple[Any, str, dict[str, Any], dict[str, Any]]] = [
        (lambda s: s.read_resource("a:b"), "resources/read", {"uri": "a:b"}, contents),
        (lambda s: s.subscribe("a:b"), "resources/subscribe", {"uri": "a:b"}, {}),
        (lambda s: s.unsubscribe("a:b"), "resources/unsubscribe", {"uri": "a:b"}, {}),
        (
            lambda s: s.get_prompt("p", {"x": "y"}),
            "prompts/get",
            {"name": "p", "arguments": {"x": "y"}},
            prompt,
        ),
        (
            lambda s: s.complete(template, "b", "O", {"country": "no"}),
            "completion/complete",
            {
                "ref": {"type": "ref/resource", "uri": "a:{b}"},
                "argument": {"name": "b", "value": "O"},
                **({} if version == OLDEST else {"context": {"arguments": {"country": "no"}}}),
            },
            completion,
        ),
        (lambda s: s.set_log_level("error"), "logging/setLevel", {"level": "error"}, {}),
        (lambda s: s.ping(), "ping", {}, {}),
    ]
    results = []
    async with scripted(version=version) as (session, script):
        for make, method, params, result in exchange:
            call = Outcome(nursery, lambda make=make: make(session))  # type: ignore[misc]  # bound now
            request = await script.request(method)
            script.answer(request, result)
            results.append(await call.wait())
            assert request.params == params

    assert results[0].contents == (TextResourceContents(uri="a:b", text="t"),)
    assert results[3].messages[0].content == TextContent(text="t")
    assert results[4].completion.values == ("Oslo",)
    assert [results[1], results[2], results[5], results[6]] == [None] * 4


# ---------------------------------------------------------------- structured content


async def listed(session: Any, script: Any, nursery: trio.Nursery, *tools: Any) -> Any:
    """Let the session list *tools*."""
    call = Outcome(nursery, session.list_tools().all)
    script.answer(await script.request("tools/list"), {"tools": list(tools)})
    return await call.wait()


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        ({**TEXT, "structuredContent": {"degrees": 4}}, None),
        ({**TEXT, "structuredContent": {"degrees": "4"}}, r"\$\.degrees"),
        ({**TEXT, "structuredContent": {}}, r"\$\.degrees"),
        (TEXT, "gave no structuredContent"),
        ({**TEXT, "isError": True}, None),
        ({**TEXT, "isError": True, "structuredContent": {"degrees": "4"}}, None),
    ],
)
async def test_structured_content_is_held_to_the_output_schema(
    result: Any, problem: str | None, nursery: trio.Nursery
) -> None:
    """For tools that were listed; results that are errors are not looked at."""
    async with scripted() as (session, script):
        await listed(session, script, nursery, WEATHER)
        call = Outcome(nursery, lambda: session.call_tool("weather"))
        script.answer(await script.request("tools/call"), result)
        if problem is None:
            await call.wait()
        else:
            with pytest.raises(InvalidResult, match=problem):
                await call.wait()
        unchecked = Outcome(nursery, lambda: session.call_tool("weather", validate=False))
        script.answer(await script.request("tools/call"), result)

        assert (await unchecked.wait()).content == (TextContent(text="hi"),)


async def test_an_unlisted_tool_and_an_older_revision_are_not_checked(
    nursery: trio.Nursery,
) -> None:
    """There is nothing to hold a result to."""
    async with scripted(version=OLDEST) as (session, script):
        await listed(session, script, nursery, WEATHER)
        call = Outcome(nursery, lambda: session.call_tool("weather"))
        script.answer(await script.request("tools/call"), TEXT)

        assert (await call.wait()).content == (TextContent(text="hi"),)


async def test_a_changed_tool_list_forgets_the_output_schemas(nursery: trio.Nursery) -> None:
    """Until the tools are listed again nobody knows what holds."""
    async with scripted() as (session, script):
        await listed(session, script, nursery, WEATHER)
        script.tell("notifications/tools/list_changed")
        call = Outcome(nursery, session.ping)
        script.answer(await script.request("ping"), {})
        await call.wait()
        call = Outcome(nursery, lambda: session.call_tool("weather"))
        script.answer(await script.request("tools/call"), TEXT)

        assert (await call.wait()).content == (TextContent(text="hi"),)


async def test_an_output_schema_of_an_unknown_dialect_says_so_before_the_call(
    nursery: trio.Nursery,
) -> None:
    """The tool has not run when the client finds that it could not read the result."""
    strange = {**WEATHER, "outputSchema": {"$schema": "urn:strange", "type": "object"}}
    async with scripted() as (session, script):
        await listed(session, script, nursery, strange)
        sent = session.statistics().sent

        with pytest.raises(InvalidResult, match=r"outputSchema of tool 'weather'"):
            await session.call_tool("weather")
        assert session.statistics().sent == sent


async def test_a_malformed_tool_does_not_cost_the_others(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out, and logged with its path."""
    async with scripted() as (session, script):
        tools = await listed(session, script, nursery, {"name": "bad"}, WEATHER)

    assert [tool.name for tool in tools] == ["weather"]
    assert "'bad' is left out: $.tools[0].inputSchema" in caplog.text


# ---------------------------------------------------------------- pages


async def serve_pages(script: Any, pages: list[tuple[list[str], Any]]) -> list[Any]:
    """Answer one request for each page; return the cursors that were asked for."""
    asked = []
    for names, cursor in pages:
        request = await script.request("prompts/list")
        asked.append((request.params or {}).get("cursor"))
        page: dict[str, Any] = {"prompts": [{"name": name} for name in names]}
        script.answer(request, page if cursor is None else {**page, "nextCursor": cursor})
    return asked


async def test_lists_are_fetched_page_by_page(nursery: trio.Nursery) -> None:
    """Every item once, an empty page is no end, an empty string is a cursor."""
    async with scripted() as (session, script):
        served = Outcome(
            nursery,
            lambda: serve_pages(script, [(["a", "b"], ""), ([], "more"), (["c"], None)]),
        )
        names = [prompt.name async for prompt in session.list_prompts()]

    assert names == ["a", "b", "c"]
    assert await served.wait() == [None, "", "more"]


async def test_pages_are_fetched_lazily(nursery: trio.Nursery) -> None:
    """Nobody asks for the second page while the first is read."""
    async with scripted() as (session, script):
        served = Outcome(nursery, lambda: serve_pages(script, [(["a", "b"], "x")]))
        walk = aiter(session.list_prompts())
        names = [(await anext(walk)).name, (await anext(walk)).name]
        await served.wait()

        assert names == ["a", "b"]
        assert session.statistics().outgoing == 0


async def test_one_page_can_be_asked_for(nursery: trio.Nursery) -> None:
    """With its cursor in and the next one out."""
    async with scripted() as (session, script):
        served = Outcome(nursery, lambda: serve_pages(script, [(["a"], "next")]))
        page = await session.list_prompts().page("here")

    assert [prompt.name for prompt in page.items] == ["a"]
    assert page.next_cursor == "next"
    assert await served.wait() == ["here"]


async def test_a_cursor_that_comes_twice_is_a_violation(nursery: trio.Nursery) -> None:
    """A server that goes in circles does not make the client do so."""
    async with scripted() as (session, script):
        Outcome(nursery, lambda: serve_pages(script, [(["a"], "x"), (["b"], "y"), (["c"], "x")]))

        with pytest.raises(ProtocolViolation, match="twice"):
            await session.list_prompts().all()


async def test_a_list_of_too_many_pages_is_a_violation(nursery: trio.Nursery) -> None:
    """The bound is ``limits.pages``."""
    client = Client("c", version="1", limits=Limits(pages=2))
    async with scripted(client) as (session, script):
        Outcome(nursery, lambda: serve_pages(script, [(["a"], "x"), (["b"], "y")]))

        with pytest.raises(ProtocolViolation, match="more than 2 pages"):
            await session.list_prompts().all()


async def test_each_list_has_its_method_and_its_field(nursery: trio.Nursery) -> None:
    """Resources and templates as well."""
    answers: dict[str, dict[str, Any]] = {
        "resources/list": {"resources": [{"uri": "a:b", "name": "resource"}]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": "a:{x}", "name": "template"}]
        },
    }
    async with scripted() as (session, script):
        names = []
        for pages in (session.list_resources(), session.list_resource_templates()):
            call = Outcome(nursery, pages.all)
            request = await script.request()
            script.answer(request, answers[request.method])
            names += [item.name for item in await call.wait()]

    assert names == ["resource", "template"]


# ---------------------------------------------------------------- deadlines, progress


async def test_a_deadline_ends_the_call_and_tells_the_server(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """DeadlineExceeded; the cancellation has gone out."""
    async with scripted() as (session, script):
        with pytest.raises(DeadlineExceeded):
            await session.call_tool("x", deadline=Deadline(idle=2, cap=9))
        await script.request("tools/call")
        await script.notification("notifications/cancelled")

    assert trio.current_time() == 2


async def test_the_clients_deadline_holds_for_calls_that_name_none(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """And a call's own deadline goes before it."""
    client = Client("c", version="1", deadline=Deadline(idle=5, cap=5))
    async with scripted(client) as (session, _):
        with pytest.raises(DeadlineExceeded):
            await session.call_tool("x")
        assert trio.current_time() == 5
        with pytest.raises(DeadlineExceeded):
            await session.call_tool("x", deadline=Deadline(idle=1, cap=1))

    assert trio.current_time() == 6


async def test_a_plain_progress_callback_sees_every_update_before_the_result(
    nursery: trio.Nursery,
) -> None:
    """It is called at once, with typed params; the token is unique to the call."""
    seen: list[Any] = []
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x", progress=seen.append))
        request = await script.request()
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        for step in (1, 2.5):
            script.tell(
                "notifications/progress",
                {"progressToken": token, "progress": step, "total": 3, "message": "m"},
            )
        script.answer(request, TEXT)
        await call.wait()

        assert [(u.progress, u.total, u.message) for u in seen] == [(1, 3, "m"), (2.5, 3, "m")]


async def test_a_progress_callback_that_fails_harms_nobody(
    nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, the call and the session go on."""

    def fail(update: object) -> None:
        raise ZeroDivisionError

    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x", progress=fail))
        request = await script.request()
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        script.tell("notifications/progress", {"progressToken": token, "progress": 1})
        script.tell("notifications/progress", {"progressToken": token, "progress": 1, "total": []})
        script.answer(request, TEXT)
        await call.wait()

    assert "ZeroDivisionError" in caplog.text
    assert "malformed progress: $.total" in caplog.text


async def test_an_async_progress_callback_runs_in_order(nursery: trio.Nursery) -> None:
    """It may wait; the reader does not wait for it."""
    seen: list[float] = []

    async def slowly(update: Any) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(update.progress)

    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x", progress=slowly))
        request = await script.request()
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        for step in range(5):
            script.tell("notifications/progress", {"progressToken": token, "progress": step})
        script.answer(request, TEXT)
        await call.wait()
        await trio.testing.wait_all_tasks_blocked()

    assert seen == [0, 1, 2, 3, 4]


# ---------------------------------------------------------------- open_call


async def test_open_call_gives_updates_and_the_result(nursery: trio.Nursery) -> None:
    """Updates end with the call; the result can be asked for twice."""
    async with scripted() as (session, script), session.open_call("x", {"a": 1}) as call:
        request = await script.request()
        assert request.params is not None
        assert request.params["arguments"] == {"a": 1}
        token = request.params["_meta"]["progressToken"]
        seen = []

        async def follow() -> None:
            async for update in call.updates:
                seen.append(update.progress)  # noqa: PERF401 - as a user would

        followed = Outcome(nursery, follow)
        for step in (1, 2):
            script.tell("notifications/progress", {"progressToken": token, "progress": step})
            await trio.testing.wait_all_tasks_blocked()
        script.answer(request, TEXT)
        await followed.wait()

        assert seen == [1, 2]
        assert (await call.wait_result()).content == (TextContent(text="hi"),)
        assert (await call.wait_result()).content == (TextContent(text="hi"),)


async def test_updates_that_nobody_reads_become_the_newest() -> None:
    """The buffer holds one, and it is the last."""
    async with scripted() as (session, script), session.open_call("x") as call:
        request = await script.request()
        assert request.params is not None
        token = request.params["_meta"]["progressToken"]
        for step in range(100):
            script.tell("notifications/progress", {"progressToken": token, "progress": step})
        script.answer(request, TEXT)
        await call.wait_result()

        assert [update.progress async for update in call.updates] == [99]


async def test_leaving_an_open_call_cancels_it() -> None:
    """The server is told; the result is no longer to be had."""
    async with scripted() as (session, script):
        async with session.open_call("x") as call:
            request = await script.request()
        told = await script.notification("notifications/cancelled")

        assert told.params is not None
        assert told.params["requestId"] == request.id
        assert session.calls() == ()
        with pytest.raises(RuntimeError, match="given up"):
            await call.wait_result()


async def test_an_open_call_that_fails_raises_where_its_result_is_wanted() -> None:
    """Not into the block, and the updates end."""
    async with scripted() as (session, script), session.open_call("x") as call:
        script.refuse(await script.request(), -32000, "no")

        assert [update async for update in call.updates] == []
        with pytest.raises(PeerError, match="no"):
            await call.wait_result()


async def test_the_blocks_own_exception_leaves_an_open_call_bare() -> None:
    """The very object, with no group around it."""
    mine = KeyError("mine")
    async with scripted() as (session, _):
        with pytest.raises(KeyError) as caught:
            async with session.open_call("x"):
                raise mine

    assert caught.value is mine
    assert caught.value.__context__ is None


# ---------------------------------------------------------------- middleware, ends


async def test_outgoing_middleware_wraps_each_call(nursery: trio.Nursery) -> None:
    """The first one is outermost; it may change the call and the result."""
    order = []

    async def outer(session: Any, call: OutgoingRequest, call_next: Any) -> Any:
        order.append(f"outer {call.method}")
        result = await call_next(session, call)
        return {**result, "isError": True}

    async def inner(session: Any, call: OutgoingRequest, call_next: Any) -> Any:
        order.append("inner")
        return await call_next(
            session, OutgoingRequest(call.method, {**(call.params or {}), "name": "other"})
        )

    client = Client("c", version="1", outgoing=[outer, inner])
    async with scripted(client) as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x"))
        request = await script.request()
        script.answer(request, TEXT)
        result = await call.wait()

    assert order == ["outer tools/call", "inner"]
    assert request.params == {"name": "other"}
    assert result.is_error is True


async def test_every_waiting_call_settles_when_the_server_goes(nursery: trio.Nursery) -> None:
    """SessionLost for each, and at once for every later call."""
    async with scripted() as (session, script):
        calls = [Outcome(nursery, lambda: session.call_tool("x")) for _ in range(10)]
        for _ in calls:
            await script.request()
        await script.hang_up()
        for call in calls:
            with pytest.raises(SessionLost):
                await call.wait()
        with pytest.raises(SessionLost):
            await session.call_tool("x")
        with pytest.raises(SessionLost):
            await session.notify("x/y")


async def test_a_session_can_be_closed_from_within(nursery: trio.Nursery) -> None:
    """Twice, by any task; waiting calls settle with SessionClosed and the server is told."""
    async with scripted() as (session, script):
        call = Outcome(nursery, lambda: session.call_tool("x"))
        await script.request()
        session.close()
        await session.aclose()
        session.close()
        with pytest.raises(SessionClosed):
            await call.wait()
        await script.notification("notifications/cancelled")
        await script.closed.wait()


async def test_calls_and_statistics_show_what_is_open(nursery: trio.Nursery) -> None:
    """One row for each call, oldest first."""
    async with scripted() as (session, script):
        Outcome(nursery, lambda: session.call_tool("x"))
        request = await script.request()
        rows = session.calls()

        assert [(row.direction, row.id, row.method) for row in rows] == [
            ("out", request.id, "tools/call")
        ]
        assert session.statistics().outgoing == 1
        nursery.cancel_scope.cancel()


async def test_a_view_of_an_ended_request_can_call_no_more(nursery: trio.Nursery) -> None:
    """OriginSettled, and nothing is sent."""
    kept: list[Any] = []
    client = Client("c", version="1")

    @client.method("x/keep")
    async def keep(ctx: Any, params: Any) -> dict[str, Any]:
        kept.append(ctx.session)
        return {}

    async with scripted(client) as (session, script):
        script.ask(1, "x/keep")
        await script.answer_to(1)
        sent = session.statistics().sent

        with pytest.raises(OriginSettled):
            await kept[0].call_tool("x")
        assert session.statistics().sent == sent
