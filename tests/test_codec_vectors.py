"""The golden messages go through the codec unchanged, the malformed ones meet their verdict."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from mcp_trio import types
from mcp_trio.codec import codec_for
from mcp_trio.errors import InvalidMessage
from mcp_trio.types.methods import NOTIFICATIONS, REQUESTS
from tests.spec_files import json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_trio.codec import Codec

# Goldens that show a request the receiver must refuse: by revision, the numbers of the lines.
REFUSED_GOLDENS = {
    types.R2024_11_05: {28: "$.method", 63: "$.level"},
    types.R2025_03_26: {28: "$.method", 63: "$.level"},
    types.R2025_06_18: {28: "$.method", 63: "$.level"},
    types.R2025_11_25: {28: "$.method", 63: "$.level"},
    types.R2026_07_28: {
        5: '$._meta["io.modelcontextprotocol/clientCapabilities"]',
        7: "$.method",
        30: "$.method",
    },
}

# Faults of the envelope or of the situation, which need more than the message's own members:
# wire.jsonrpc, wire.lifecycle and the runtime refuse or ignore these.
CHECKED_ELSEWHERE = {
    "id null is forbidden in MCP",
    "id must be string or integer",
    "jsonrpc missing",
    "wrong jsonrpc",
    "server-initiated request: schema-valid JSON-RPC, forbidden by the pattern",
    "client-sent JSON-RPC response",
    "subscriptionId missing on a listen stream",
}

# Where the codec finds the fault of each refused or ignored line.
PATHS = {
    "protocolVersion missing": {
        "$.protocolVersion",
        '$._meta["io.modelcontextprotocol/protocolVersion"]',
    },
    "clientInfo.version missing": {"$.clientInfo.version"},
    "name missing": {"$.name"},
    "arguments must be an object": {"$.arguments"},
    "task.ttl must be integer": {"$.task.ttl"},
    "prompt argument values are strings": {"$.arguments.n"},
    "content missing": {"$.content"},
    "structuredContent must be an object before 2026-07-28": {"$.structuredContent"},
    "more than 100 values": {"$.completion.values"},
    "inputSchema.type must be object": {"$.tools[0].inputSchema.type"},
    "inputSchema null": {"$.tools[0].inputSchema"},
    "nested object in requestedSchema": {"$.requestedSchema.properties.o"},
    "url mode without elicitationId (2025-11-25)": {"$.elicitationId"},
    "unknown action": {"$.action"},
    "maxTokens missing": {"$.maxTokens"},
    "tool_result mixed with other content": {"$.messages[0].content"},
    "role must be user or assistant": {"$.messages[0].role"},
    "progressToken missing": {"$.progressToken"},
    "token must be string or integer": {"$.progressToken"},
    "error code must be an integer": {"$.code"},
    "error message missing": {"$.message"},
    "lastUpdatedAt missing": {"$.task.lastUpdatedAt"},
    "unknown status": {"$.status"},
    "params missing entirely": {"$"},
    "_meta missing": {"$._meta"},
    "clientCapabilities missing": {'$._meta["io.modelcontextprotocol/clientCapabilities"]'},
    "clientInfo given without version": {'$._meta["io.modelcontextprotocol/clientInfo"].version'},
    "unknown log level": {'$._meta["io.modelcontextprotocol/logLevel"]'},
    "requestState must be a string": {"$.requestState"},
    "malformed input response": {"$.inputResponses.q.action"},
    "notifications filter missing": {"$.notifications"},
    "resourceSubscriptions must be an array": {"$.notifications.resourceSubscriptions"},
    "unknown resultType": {"$.resultType"},
    "supportedVersions missing": {"$.supportedVersions"},
    "neither inputRequests nor requestState": {"$"},
    "inner request of a kind that is not allowed": {"$.inputRequests.q.method"},
    "inputRequests must be a map": {"$.inputRequests"},
    "requestId missing": {"$.requestId"},
    "notifications missing": {"$.notifications"},
    "data.supported missing": {"$.supported"},
    "data missing": {"$"},
    "CreateTaskResult must say resultType task": {"$.resultType"},
    "completed task without result": {"$.result"},
    "input_required without inputRequests": {"$.inputRequests"},
}


def same_json(left: Any, right: Any) -> bool:
    """Compare as text: in Python 1 == 1.0 == True."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def bodies(line: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each JSON-RPC message of a line of an HTTP golden, with its definition."""
    for side in ("request", "response"):
        part = line.get(side) or {}
        if part.get("json") is not None:
            yield part["def"], part["json"]
        chunks = [row[5:].strip() for row in part.get("sse", "").splitlines() if row[:5] == "data:"]
        messages = [json.loads(chunk) for chunk in chunks if chunk.startswith("{")]
        yield from zip(part.get("defs", ()), messages, strict=True)


def read(codec: Codec, definition: str, message: Any) -> tuple[Any, Any]:
    """Structure what of *message* is the codec's; return it with the JSON it was made of."""
    if definition.startswith("result:"):
        raw = message["result"]
        return codec.structure(raw, getattr(types, definition[7:])), raw
    if "error" in message:
        data = getattr(types, f"{definition}Data", None)
        if data is not None:
            raw = message["error"].get("data")
            return codec.structure(raw, data), raw
        raw = message["error"]
        return codec.structure(raw, types.Error), raw
    raw = message.get("params")
    return codec.params(message["method"], raw), {} if raw is None else raw


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_every_golden_message_goes_through_unchanged(revision: str) -> None:
    """Structured and unstructured again, the JSON is the same to the byte."""
    codec = codec_for(revision)
    refused = dict(REFUSED_GOLDENS[revision])
    for line in json_lines(f"{revision}.jsonl"):
        for message in line["msg"] if isinstance(line["msg"], list) else [line["msg"]]:
            if isinstance(line["msg"], list) and "result" in message:
                continue  # a batched response does not say what it answers
            if line["n"] in refused:
                with pytest.raises(InvalidMessage) as caught:
                    read(codec, line["def"], message)

                assert caught.value.path == refused.pop(line["n"])
                continue
            value, raw = read(codec, line["def"], message)

            assert same_json(codec.unstructure(value), raw), line["n"]
    assert not refused


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_every_golden_http_body_goes_through_unchanged(revision: str) -> None:
    """The JSON of the HTTP goldens, bodies and streams, is the same afterwards."""
    codec = codec_for(revision)
    seen = 0
    for line in json_lines(f"{revision}.http.jsonl"):
        for definition, message in bodies(line):
            if definition in {"skip", "JSONRPCRequest"} or isinstance(message, list):
                continue  # shown to be refused, or a batch
            if definition == "JSONRPCNotification" and message["method"] not in NOTIFICATIONS:
                continue  # an unknown extension's
            value, raw = read(codec, definition, message)
            seen += 1

            assert same_json(codec.unstructure(value), raw), (line["n"], definition)
    assert seen


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_every_golden_result_is_recognised_by_its_method(revision: str) -> None:
    """Given the request's method, ``result`` chooses the class that the golden names."""
    codec = codec_for(revision)
    asked: dict[Any, str] = {}
    seen = 0
    for line in json_lines(f"{revision}.jsonl"):
        message = line["msg"]
        if isinstance(message, list):
            continue
        way = line["dir"]
        if "method" in message and "id" in message:
            asked[way, message["id"]] = message["method"]
        method = asked.get(("s2c" if way == "c2s" else "c2s", message.get("id")))
        if "result" not in message or method is None or method == "tasks/result":
            continue
        value = codec.result(method, message["result"], may_be_task=True)
        seen += 1

        assert type(value).__name__ == line["def"].removeprefix("result:"), line["n"]
    assert seen > 10


def verdict_of(codec: Codec, line: dict[str, Any]) -> InvalidMessage | None:
    try:
        read(codec, line["def"], line["msg"])
    except InvalidMessage as problem:
        return problem
    return None


@pytest.mark.parametrize("revision", [types.R2025_11_25, types.R2026_07_28])
def test_every_malformed_message_meets_its_verdict(revision: str) -> None:
    """A refusal names the path to the fault, and what is tolerated is structured."""
    codec = codec_for(revision)
    for line in json_lines(f"{revision}.invalid.jsonl"):
        why = line["why"]
        problem = verdict_of(codec, line)
        if why in CHECKED_ELSEWHERE:
            continue
        if line["verdict"] in {"accept", "tolerate"} or why not in PATHS:
            assert problem is None, why
            assert line["verdict"] in {"accept", "tolerate"}, why
            continue

        assert problem is not None, why
        assert problem.path in PATHS[why], why


@pytest.mark.parametrize("revision", [types.R2025_11_25, types.R2026_07_28])
def test_a_malformed_tool_is_dropped_and_the_others_stay(revision: str) -> None:
    """Lines with the verdict drop-tool lose that tool alone, and its problem is reported."""
    codec = codec_for(revision)
    good = {"name": "good", "inputSchema": {"type": "object"}}
    for line in json_lines(f"{revision}.invalid.jsonl"):
        if line["verdict"] == "drop-tool":
            result = line["msg"]["result"]
            mixed = {**result, "tools": [good, *result["tools"], good]}

            listed, dropped = codec.structure_tools(mixed)

            assert [tool.name for tool in listed.tools] == ["good", "good"]
            assert [tool.name for tool in dropped] == ["x"]
            assert dropped[0].problem.path.startswith("$.tools[1].inputSchema")


def test_the_list_of_faults_checked_elsewhere_is_exact() -> None:
    """Each is a line of the vectors that the codec itself lets through."""
    passed: set[str] = set()
    everything: set[str] = set()
    for revision in (types.R2025_11_25, types.R2026_07_28):
        for line in json_lines(f"{revision}.invalid.jsonl"):
            everything.add(line["why"])
            if line["verdict"] in {"refuse", "ignore"} and not verdict_of(
                codec_for(revision), line
            ):
                passed.add(line["why"])

    assert passed == CHECKED_ELSEWHERE
    assert everything >= set(PATHS)


def test_every_request_has_a_result_class() -> None:
    """The method table names classes that exist."""
    for spec in REQUESTS.values():
        assert spec.result_name in types.__all__
        assert spec.params_name in types.__all__
