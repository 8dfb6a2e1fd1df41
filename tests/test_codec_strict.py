"""No value is coerced, every fault has a path, and null is kept apart where it counts."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_trio import types
from mcp_trio.codec import codec_for
from mcp_trio.codec._reading import explain
from mcp_trio.errors import InvalidMessage

OLDEST, LEGACY, MODERN = types.R2024_11_05, types.R2025_11_25, types.R2026_07_28
TEXT = {"type": "text", "text": "x"}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
ENVELOPE = {types.META_PROTOCOL_VERSION: MODERN, types.META_CLIENT_CAPABILITIES: {}}


def refusal(raw: Any, cls: Any, revision: str = LEGACY) -> InvalidMessage:
    with pytest.raises(InvalidMessage) as caught:
        codec_for(revision).structure(raw, cls)
    return caught.value


@pytest.mark.parametrize(
    ("cls", "raw", "path", "expected"),
    [
        (types.CallToolRequestParams, {"name": 123}, "$.name", "a string"),
        (types.CallToolRequestParams, {"name": None}, "$.name", "a string"),
        (types.CallToolRequestParams, {"name": b"x"}, "$.name", "a string"),
        (types.CallToolRequestParams, [], "$", "an object"),
        (types.CallToolRequestParams, "name", "$", "an object"),
        (types.CallToolRequestParams, None, "$", "an object"),
        (types.CallToolRequestParams, {"name": "t", "arguments": "{}"}, "$.arguments", "an object"),
        (types.CallToolResult, {"content": TEXT}, "$.content", "an array"),
        (types.CallToolResult, {"content": "text"}, "$.content", "an array"),
        (types.CallToolResult, {"content": [], "isError": 1}, "$.isError", "true or false"),
        (types.CallToolResult, {"content": [], "isError": "true"}, "$.isError", "true or false"),
        (types.CallToolResult, {"content": ["x"]}, "$.content[0]", "an object"),
        (types.Error, {"code": True, "message": "m"}, "$.code", "an integer"),
        (types.Error, {"code": "1", "message": "m"}, "$.code", "an integer"),
        (types.Error, {"code": 1.0, "message": "m"}, "$.code", "an integer"),
        (
            types.ProgressNotificationParams,
            {"progressToken": True, "progress": 1},
            "$.progressToken",
            "a string or an integer",
        ),
        (
            types.ProgressNotificationParams,
            {"progressToken": 1, "progress": True},
            "$.progress",
            "a number",
        ),
        (
            types.ProgressNotificationParams,
            {"progressToken": 1, "progress": "1"},
            "$.progress",
            "a number",
        ),
        (types.EmptyResult, [], "$", "an object"),
        (types.Annotations, "audience", "$", "an object"),
        (types.Annotations, {"priority": 1.5}, "$.priority", "a number from 0 to 1"),
        (types.Annotations, {"audience": ["user", "x"]}, "$.audience[1]", "'user' or 'assistant'"),
        (
            types.ClientCapabilities,
            {"experimental": {"a b": 1}},
            '$.experimental["a b"]',
            "an object",
        ),
        (types.ClientCapabilities, {"experimental": 1}, "$.experimental", "an object"),
        (types.ClientCapabilities, {"roots": []}, "$.roots", "an object"),
        (types.ElicitResult, {"action": "accept", "content": {"a": {}}}, "$.content.a", None),
        (
            types.ElicitResult,
            {"action": "accept", "content": {"a": ["x", 1]}},
            "$.content.a[1]",
            None,
        ),
        (types.ElicitResult, {"action": "accept", "content": []}, "$.content", "an object"),
        (types.RequestParams, {"_meta": {"progressToken": 1.5}}, "$._meta.progressToken", None),
        (types.RequestParams, {"_meta": []}, "$._meta", "an object"),
        (types.GetPromptRequestParams, {"name": "p", "arguments": []}, "$.arguments", "an object"),
        (types.ReadResourceResult, {"contents": [{"uri": "a"}]}, "$.contents[0]", None),
        (types.ReadResourceResult, {"contents": [None]}, "$.contents[0]", "an object"),
        (
            types.PromptMessage,
            {"role": "user", "content": {"type": 1}},
            "$.content.type",
            None,
        ),
        (types.TextContent, {"text": "x"}, "$.type", "required, but absent"),
        (types.TextContent, {"type": "image", "text": "x"}, "$.type", "'text'"),
    ],
)
def test_a_value_of_another_type_is_refused_where_it_stands(
    cls: Any, raw: Any, path: str, expected: str | None
) -> None:
    """Nothing is coerced; the path is in wire names."""
    problem = refusal(raw, cls)

    assert problem.path == path
    assert expected is None or problem.expected == expected


@pytest.mark.parametrize("raw", [1, 1.5, 0, -3])
def test_an_integer_is_a_number_and_stays_an_integer(raw: float) -> None:
    """JSON has one kind of number; what came is kept."""
    params = codec_for(LEGACY).structure(
        {"progressToken": 1, "progress": raw}, types.ProgressNotificationParams
    )

    assert (type(params.progress), params.progress) == (type(raw), raw)


def test_all_faults_of_a_message_are_reported() -> None:
    """The first is ``path``; ``problems`` has the others too."""
    raw: dict[str, Any] = {
        "tools": [
            TOOL,
            {"name": 1, "inputSchema": []},
            {"inputSchema": {"type": "object", "properties": {}}},
        ],
        "nextCursor": 7,
    }
    problem = refusal(raw, types.ListToolsResult)

    assert set(problem.problems) == {
        ("$.tools[1].name", "a string"),
        ("$.tools[1].inputSchema", "an object"),
        ("$.tools[2].name", "required, but absent"),
        ("$.nextCursor", "a string"),
    }
    assert problem.path == problem.problems[0][0]


def test_a_report_is_not_as_large_as_the_message() -> None:
    """A hostile message of many faults gets a short report."""
    problem = refusal({"tools": [{}] * 10_000}, types.ListToolsResult)

    assert len(problem.problems) == 16


def test_a_report_on_a_sound_message_is_our_own_fault() -> None:
    """The detailed pass must find what the fast one found."""
    with pytest.raises(AssertionError, match="disagree"):
        explain(TOOL, types.Tool, LEGACY)


def test_open_objects_pass_through_without_a_copy() -> None:
    """``_meta``, arguments and schemas are the very objects that came in, and go out."""
    meta, arguments, schema = {"a": 1}, {"b": [1]}, {"type": "object", "x": {"y": None}}
    codec = codec_for(LEGACY)
    call = codec.structure(
        {"name": "t", "arguments": arguments, "_meta": meta}, types.CallToolRequestParams
    )
    tool = codec.structure({"name": "t", "inputSchema": schema}, types.Tool)

    assert call.arguments is arguments
    assert call.meta is meta
    assert tool.input_schema is schema
    assert codec.unstructure(call)["arguments"] is arguments
    assert codec.unstructure(tool)["inputSchema"] is schema


def test_unknown_members_are_ignored() -> None:
    """Whatever a later revision adds does no harm."""
    tool = codec_for(LEGACY).structure({**TOOL, "future": 1}, types.Tool)

    assert tool == types.Tool(name="t", input_schema={"type": "object"})


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_null_in_an_optional_member_counts_as_absent(revision: str) -> None:
    """Peers that write null for "nothing" are understood; we never write it."""
    codec = codec_for(revision)
    result = codec.structure(
        {"tools": [], "nextCursor": None, "_meta": None}, types.ListToolsResult
    )

    assert (result.next_cursor, result.meta) == (None, None)
    assert "nextCursor" not in codec.unstructure(result)


def test_null_is_structured_content_since_2026_07_28() -> None:
    """There null is a value and absence is ``UNSET``; before, it counts as absent."""
    raw: dict[str, Any] = {"content": [], "structuredContent": None, "resultType": "complete"}
    modern = codec_for(MODERN).structure(raw, types.CallToolResult)

    assert modern.structured_content is None
    assert codec_for(MODERN).unstructure(modern) == raw
    legacy = codec_for(LEGACY).structure(raw, types.CallToolResult)
    assert legacy.structured_content is types.UNSET
    assert not legacy.structured_content


@pytest.mark.parametrize("value", [0, "", [], False, [1], "x", 1.5])
def test_structured_content_is_any_json_since_2026_07_28(value: Any) -> None:
    """Before, it is an object."""
    raw = {"content": [], "structuredContent": value, "resultType": "complete"}
    result = codec_for(MODERN).structure(raw, types.CallToolResult)

    assert result.structured_content == value
    assert codec_for(MODERN).unstructure(result) == raw
    assert refusal(raw, types.CallToolResult, LEGACY).path == "$.structuredContent"


def test_a_tasks_ttl_of_null_is_kept() -> None:
    """2025-11-25 basic/utilities/tasks: null means without limit, and must be sent."""
    raw = {
        "taskId": "1",
        "status": "working",
        "createdAt": "a",
        "lastUpdatedAt": "b",
        "ttl": None,
    }
    codec = codec_for(LEGACY)
    task = codec.structure(raw, types.Task)

    assert task.ttl_ms is None
    assert codec.unstructure(task) == raw
    assert codec_for(MODERN).unstructure(task)["ttlMs"] is None
    del raw["ttl"]
    assert refusal(raw, types.Task).path == "$.ttl"


def test_newer_members_are_ignored_on_an_older_wire() -> None:
    """A member counts only where the revision has it, even when it is malformed there."""
    raw = {**TOOL, "title": "T", "outputSchema": 7, "annotations": {"readOnlyHint": True}}
    tool = codec_for(OLDEST).structure(raw, types.Tool)

    assert (tool.title, tool.output_schema, tool.annotations) == (None, None, None)


def test_newer_kinds_of_content_are_refused_on_an_older_wire() -> None:
    """2024-11-05 has no audio: neither comes in nor goes out."""
    raw = {"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}
    problem = refusal(raw, types.CallToolResult, OLDEST)
    result = codec_for(LEGACY).structure(raw, types.CallToolResult)

    assert problem.path == "$.content[0].type"
    assert problem.expected == "'text' or 'image' or 'resource'"
    with pytest.raises(InvalidMessage, match="no AudioContent in revision"):
        codec_for(OLDEST).unstructure(result)


def test_a_class_the_revision_lacks_is_refused() -> None:
    """There is no discovery before 2026-07-28, and no initialize since."""
    assert refusal({}, types.DiscoverResult).expected == "no DiscoverResult in this revision"
    assert refusal({}, types.InitializeResult, MODERN).path == "$"


def test_sampling_content_is_one_block_before_2025_11_25() -> None:
    """An array comes and goes since; a single element fits the older wire too."""
    single = {"role": "user", "content": TEXT}
    array = {"role": "user", "content": [TEXT]}
    message = codec_for(LEGACY).structure(array, types.SamplingMessage)

    assert isinstance(message.content, tuple)
    assert codec_for(LEGACY).unstructure(message) == array
    assert codec_for(OLDEST).unstructure(message) == single
    assert refusal(array, types.SamplingMessage, OLDEST).path == "$.content"
    two = types.SamplingMessage(role="user", content=(types.TextContent(text="x"),) * 2)
    with pytest.raises(InvalidMessage, match="one block"):
        codec_for(OLDEST).unstructure(two)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        ({"type": "string"}, "StringSchema"),
        ({"type": "integer"}, "NumberSchema"),
        ({"type": "number"}, "NumberSchema"),
        ({"type": "boolean"}, "BooleanSchema"),
        ({"type": "string", "enum": ["a"]}, "UntitledSingleSelectEnumSchema"),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, "LegacyTitledEnumSchema"),
        (
            {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
            "TitledSingleSelectEnumSchema",
        ),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
            "UntitledMultiSelectEnumSchema",
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            "TitledMultiSelectEnumSchema",
        ),
    ],
)
def test_every_kind_of_form_field_is_recognised(raw: dict[str, Any], name: str) -> None:
    """The members of a field's schema tell its kind."""
    form = {"type": "object", "properties": {"f": raw}}
    codec = codec_for(LEGACY)
    params = codec.params("elicitation/create", {"message": "m", "requestedSchema": form})

    assert type(params.requested_schema.properties["f"]).__name__ == name
    assert codec.unstructure(params)["requestedSchema"] == form


def test_the_mode_of_an_elicitation_is_form_when_absent() -> None:
    """An unknown mode is refused."""
    codec = codec_for(LEGACY)
    form = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
    page = {"mode": "url", "message": "m", "url": "u", "elicitationId": "e"}

    assert isinstance(codec.params("elicitation/create", form), types.ElicitRequestFormParams)
    assert isinstance(codec.params("elicitation/create", page), types.ElicitRequestURLParams)
    with pytest.raises(InvalidMessage, match="mode 'form' or 'url'"):
        codec.params("elicitation/create", {**form, "mode": "sms"})


def test_params_may_be_absent_where_the_schema_says_so() -> None:
    """Absent params are those without members."""
    codec = codec_for(LEGACY)

    assert codec.params("tools/list", None) == types.PaginatedRequestParams()
    assert codec.params("ping", None) == types.RequestParams()
    assert codec.params("notifications/initialized", None) == types.NotificationParams()
    for revision, method in ((LEGACY, "tools/call"), (MODERN, "tools/list")):
        with pytest.raises(InvalidMessage, match=r"\$: an object"):
            codec_for(revision).params(method, None)


def test_a_method_of_another_revision_is_refused() -> None:
    """The table knows where a method lives; a notification has no result."""
    for method in ("ping", "no/such", "notifications/initialized"):
        with pytest.raises(InvalidMessage, match="a method of revision"):
            codec_for(MODERN).params(method, {})
    for method in ("notifications/progress", "initialize", "no/such"):
        with pytest.raises(InvalidMessage, match="a request of revision"):
            codec_for(MODERN).result(method, {})


def test_a_result_says_by_its_result_type_what_it_is() -> None:
    """Only three methods may ask for input, and a task must have been agreed to."""
    codec = codec_for(MODERN)
    asking = {"resultType": "input_required", "requestState": "s"}
    task = {
        "resultType": "task",
        "taskId": "1",
        "status": "working",
        "createdAt": "a",
        "lastUpdatedAt": "b",
        "ttlMs": 5,
    }

    for method in ("tools/call", "prompts/get", "resources/read"):
        assert isinstance(codec.result(method, asking), types.InputRequiredResult)
    with pytest.raises(InvalidMessage, match=r"\$\.resultType: 'complete'"):
        codec.result("tools/list", {**asking, "tools": []})
    created = codec.result("tools/call", task, may_be_task=True)
    assert isinstance(created, types.CreateTaskResult)
    assert created.task.ttl_ms == 5
    with pytest.raises(InvalidMessage, match=r"\$\.resultType"):
        codec.result("tools/call", {**task, "content": []})
    not_objects: tuple[Any, ...] = (None, [], "x")
    for raw in not_objects:
        with pytest.raises(InvalidMessage, match=r"\$: an object"):
            codec.result("tools/call", raw)


def test_a_task_answers_only_a_call_that_asked_for_one_in_2025_11_25() -> None:
    """Without resultType the member ``task`` tells, and only where it may."""
    codec = codec_for(LEGACY)
    raw = {
        "task": {
            "taskId": "1",
            "status": "working",
            "createdAt": "a",
            "lastUpdatedAt": "b",
            "ttl": None,
        }
    }

    assert isinstance(codec.result("tools/call", raw, may_be_task=True), types.CreateTaskResult)
    with pytest.raises(InvalidMessage, match=r"\$\.content"):
        codec.result("tools/call", raw)


def test_the_cache_hints_of_a_sloppy_server_are_mended() -> None:
    """2026-07-28 server/utilities/caching: negative counts as 0; what is unclear is private."""
    codec = codec_for(MODERN)
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"ttlMs": -1},
        {"ttlMs": None},
        {"cacheScope": "shared"},
        {"cacheScope": 1},
    )
    for hints in cases:
        result = codec.structure(
            {"resultType": "complete", "tools": [], **hints}, types.ListToolsResult
        )

        assert (result.ttl_ms, result.cache_scope) == (0, "private")
    with pytest.raises(InvalidMessage, match=r"\$\.ttlMs: an integer"):
        codec.structure({"tools": [], "ttlMs": "1"}, types.ListToolsResult)


@pytest.mark.parametrize(
    ("meta", "path"),
    [
        ({}, f'$._meta["{types.META_PROTOCOL_VERSION}"]'),
        ({types.META_PROTOCOL_VERSION: 1}, f'$._meta["{types.META_PROTOCOL_VERSION}"]'),
        (
            {**ENVELOPE, types.META_CLIENT_CAPABILITIES: []},
            f'$._meta["{types.META_CLIENT_CAPABILITIES}"]',
        ),
        ({**ENVELOPE, types.META_CLIENT_INFO: "c"}, f'$._meta["{types.META_CLIENT_INFO}"]'),
        (
            {**ENVELOPE, types.META_CLIENT_INFO: {"version": "1"}},
            f'$._meta["{types.META_CLIENT_INFO}"].name',
        ),
        ({**ENVELOPE, types.META_LOG_LEVEL: []}, f'$._meta["{types.META_LOG_LEVEL}"]'),
    ],
)
def test_the_envelope_of_a_2026_07_28_request_is_checked(meta: dict[str, Any], path: str) -> None:
    """The reserved keys are mandatory or well-formed; the others pass."""
    with pytest.raises(InvalidMessage) as caught:
        codec_for(MODERN).params("tools/list", {"_meta": meta})

    assert caught.value.path == path
    assert codec_for(MODERN).params("tools/list", {"_meta": {**ENVELOPE, "x": 1}}).meta["x"] == 1


def test_the_envelope_can_be_read_out() -> None:
    """RequestMetaObject gives the reserved keys types; unknown capabilities are tolerated."""
    meta = {
        types.META_PROTOCOL_VERSION: MODERN,
        types.META_CLIENT_CAPABILITIES: {"elicitation": {"form": {}}, "future": {}},
        types.META_CLIENT_INFO: {"name": "c", "version": "1"},
        types.META_LOG_LEVEL: "info",
        "progressToken": 0,
    }

    assert codec_for(MODERN).structure(meta, types.RequestMetaObject) == types.RequestMetaObject(
        protocol_version=MODERN,
        client_capabilities=types.ClientCapabilities(
            elicitation=types.ElicitationCapability(form={})
        ),
        client_info=types.Implementation(name="c", version="1"),
        log_level="info",
        progress_token=0,
    )


def test_malformed_tools_are_dropped_and_named() -> None:
    """One bad tool costs a client that tool alone; the result itself must be sound."""
    codec = codec_for(LEGACY)
    listed, dropped = codec.structure_tools({"tools": [{"name": 1}, TOOL, 5], "nextCursor": "c"})

    assert [tool.name for tool in listed.tools] == ["t"]
    assert listed.next_cursor == "c"
    assert [(tool.name, tool.problem.path) for tool in dropped] == [
        (None, "$.tools[0].name"),
        (None, "$.tools[2]"),
    ]
    assert codec.structure_tools({"tools": [TOOL]})[1] == ()
    unsound: tuple[Any, ...] = (None, {}, {"tools": {}}, {"tools": [TOOL], "nextCursor": 1})
    for raw in unsound:
        with pytest.raises(InvalidMessage):
            codec.structure_tools(raw)


def test_json_is_unstructured_to_itself() -> None:
    """What is no message is returned as it is; sequences are arrays of messages."""
    codec = codec_for(LEGACY)
    raw = {"a": 1}

    assert codec.unstructure(raw) is raw
    assert codec.unstructure(None) is None
    assert codec.unstructure((types.Root(uri="file:///a"), raw)) == [{"uri": "file:///a"}, raw]


def test_the_hooks_of_a_class_are_made_once() -> None:
    """Codecs and their functions are cached."""
    codec = codec_for(LEGACY)

    assert codec_for(LEGACY) is codec
    assert codec.structurer(types.Tool) is codec.structurer(types.Tool)
    assert codec.unstructurer(types.Tool) is codec.unstructurer(types.Tool)
    with pytest.raises(ValueError, match=r"v999\.0\.0"):
        codec_for("v999.0.0")
