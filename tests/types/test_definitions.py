"""The classes and the official schemas agree, definition by definition, in both directions."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin

import attrs
import pytest

from mcp_trio import types
from mcp_trio.types.methods import NOTIFICATIONS, REQUESTS
from tests.spec_files import schema_of, spec_dir

LATEST = types.R2026_07_28
EVERY_SCHEMA = (*types.REVISIONS, "ext-tasks")

# Definitions of the JSON-RPC envelope and unions over all messages: not the codec's.
ENVELOPE = {
    "ClientNotification",
    "ClientRequest",
    "ClientResult",
    "JSONRPCBatchRequest",
    "JSONRPCBatchResponse",
    "JSONRPCError",
    "JSONRPCErrorResponse",
    "JSONRPCMessage",
    "JSONRPCNotification",
    "JSONRPCRequest",
    "JSONRPCResponse",
    "JSONRPCResultResponse",
    "Notification",
    "Request",
    "ServerNotification",
    "ServerRequest",
    "ServerResult",
}

# Definitions that exist only to be extended: their members are part of other definitions.
ABSTRACT = {
    "Annotated",
    "BaseMetadata",
    "CacheableResult",
    "Icons",
    "InputResponseRequestParams",
    "PaginatedRequest",
    "PaginatedResult",
    "ResourceRequestParams",
    "TaskAugmentedRequestParams",
}

# Definitions that are a plain value, or the name of a choice: an alias here.
ALIASES = {
    "ContentBlock",
    "Cursor",
    "ElicitRequestParams",
    "InputRequest",
    "InputRequests",
    "InputResponse",
    "InputResponses",
    "JSONArray",
    "JSONObject",
    "JSONValue",
    "LoggingLevel",
    "MultiSelectEnumSchema",
    "PrimitiveSchemaDefinition",
    "ProgressToken",
    "RequestId",
    "ResourceContents",  # what the two kinds share; here the choice between them
    "Role",
    "SamplingMessageContentBlock",
    "SingleSelectEnumSchema",
    "TaskStatus",
}
RENAMED_ALIASES = {
    "MetaObject": "Meta",
    "ResultType": "each result's literal",
    "TasksExtensionCapability": "JSONObject",
}

# Definitions whose class has another name here, with the reason.
RENAMED = {
    "EmptyResult": "EmptyResult",
    "InternalError": "Error",
    "InvalidParamsError": "Error",
    "InvalidRequestError": "Error",
    "MethodNotFoundError": "Error",
    "ParseError": "Error",
    "ResourceReference": "ResourceTemplateReference",  # its newest name
    "Result": "EmptyResult",
    "TaskSubscriptionAcknowledgedNotifications": "SubscriptionFilter",
    "TaskSubscriptionNotifications": "SubscriptionFilter",
}

# Error responses: the class is that of `error.data`.
ERROR_DATA = {
    "MissingRequiredClientCapabilityError": "MissingRequiredClientCapabilityErrorData",
    "URLElicitationRequiredError": "URLElicitationRequiredErrorData",
    "UnsupportedProtocolVersionError": "UnsupportedProtocolVersionErrorData",
}
ERRORS_WITHOUT_DATA = {"HeaderMismatchError"}

# The extension spells one class out per status.
VARIANTS = {"CancelledTask", "CompletedTask", "FailedTask", "InputRequiredTask", "WorkingTask"}
DETAILED_TASK = "DetailedTask"

# Objects that the schemas write inline, without a name.
INLINE = {
    "Completion",
    "CompletionArgument",
    "CompletionContext",
    "ElicitationCapability",
    "EnumOption",
    "PromptsCapability",
    "RequestedSchema",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "TaskRequestsCapability",
    "TasksCapability",
    "TitledItems",
    "ToolsCapability",
    "UntitledItems",
}

# Members the codec does not demand although the schema does (verdict "tolerate"), or that it
# leaves to whoever looks at the stream.
TOLERATED = {("SubscriptionsListenResult", "_meta")}


def definitions(revision: str) -> dict[str, Any]:
    schema = schema_of(revision)
    found: dict[str, Any] = schema.get("$defs") or schema["definitions"]
    return found


def target(revision: str) -> str:
    return LATEST if revision == "ext-tasks" else revision


def members(schema: dict[str, Any], defs: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the members of an object schema, and those of them that are required."""
    if "$ref" in schema:
        return members(defs[schema["$ref"].rsplit("/", 1)[-1]], defs)
    names, required = set(schema.get("properties", {})), set(schema.get("required", []))
    for part in schema.get("allOf", []):
        more, demanded = members(part, defs)
        names |= more
        required |= demanded
    branches = [members(part, defs) for part in schema.get("anyOf", [])]
    if branches:
        names |= set().union(*(branch[0] for branch in branches))
        required |= set.intersection(*(branch[1] for branch in branches))
    return names, required


def live_members(cls: type, revision: str) -> tuple[set[str], set[str]]:
    """Return the same of a class."""
    names: set[str] = set()
    required: set[str] = set()
    for field in types.fields_at(cls, revision):
        inner = class_within(field.type)
        if field.flat:
            assert inner is not None
            more, demanded = live_members(inner, revision)
            names |= more
            required |= demanded
            continue
        names.add(field.wire_name)
        if field.required or field.emitted or (cls.__name__, field.wire_name) in TOLERATED:
            required.add(field.wire_name)
    return names, required


def class_within(kind: Any) -> type | None:
    """Return the only class in an annotation."""
    if isinstance(kind, type):
        return kind if attrs.has(kind) else None
    if get_origin(kind) is None:
        return None
    found = {cls for arg in get_args(kind) if (cls := class_within(arg)) is not None}
    return found.pop() if len(found) == 1 else None


def check_inline(cls: type, schema: dict[str, Any], defs: dict[str, Any], revision: str) -> None:
    """Compare the objects that a definition writes inline."""
    by_name = {field.wire_name: field for field in types.fields_at(cls, revision)}
    for name, inner in schema.get("properties", {}).items():
        branches = inner.get("items", inner)
        branches = branches.get("anyOf", branches) if "properties" not in inner else inner
        for branch in branches if isinstance(branches, list) else [branches]:
            inner_class = class_within(by_name[name].type) if name in by_name else None
            if "properties" not in branch or inner_class is None:
                continue
            if inner_class is types.TaskRequestsCapability:  # one class for both sides
                assert members(branch, defs)[0] <= live_members(inner_class, revision)[0]
                continue
            assert live_members(inner_class, revision) == members(branch, defs), (cls, name)
            check_inline(inner_class, branch, defs, revision)


def check_message(name: str, schema: dict[str, Any], revision: str) -> None:
    """Compare a request or notification: its method, and the class of its params."""
    defs = definitions(revision)
    parts = [schema, *schema.get("allOf", [])]
    properties = next(p["properties"] for p in parts if "method" in p.get("properties", {}))
    method = properties["method"]["const"]
    spec = REQUESTS.get(method) or NOTIFICATIONS[method]

    assert spec.direction(target(revision)), method

    params = properties.get("params", {})
    # roots/list has a class of its own: alone among requests it never has to have a `_meta`.
    if "$ref" in params and name != "ListRootsRequest":
        assert params["$ref"].endswith("/" + spec.params_name)
    else:
        names, required = members(params, defs)
        # 2025-06-18 has forms alone; the params are a choice only since there are pages.
        cls = types.ElicitRequestFormParams if name == "ElicitRequest" else spec.params
        found, demanded = live_members(cls, target(revision))
        # A params written inline does not list the `_meta` that every params may have;
        # since 2026-07-28 the core demands it of the extension's requests too.
        assert found - {"_meta"} == names - {"_meta"}, method
        assert demanded - {"_meta"} == required - {"_meta"}, method
        check_inline(cls, params, defs, target(revision))
    if revision != "ext-tasks":
        owner = next(p for p in parts if "method" in p.get("properties", {}))
        assert spec.params_optional(revision) == ("params" not in owner["required"]), method


def check_class(name: str, cls: type, schema: dict[str, Any], revision: str) -> None:
    defs = definitions(revision)
    names, required = members(schema, defs)
    if cls is types.GetTaskPayloadResult:
        assert names == {"_meta"}  # an open object, passed through whole
        return
    found, demanded = live_members(cls, target(revision))
    if cls is types.SubscriptionFilter:
        # The core and the extension each list their part.
        found = {member for member in found if (member == "taskIds") == (revision == "ext-tasks")}

    assert (found, demanded) == (names, required), name

    check_inline(cls, schema, defs, target(revision))


def kind_of(name: str, schema: dict[str, Any]) -> str:
    """Tell how a definition is represented; the order of the questions matters."""
    if name in ENVELOPE or name.endswith("ResultResponse"):
        return "envelope"
    if name in ABSTRACT:
        return "abstract"
    if name in ERROR_DATA or name in ERRORS_WITHOUT_DATA:
        return "error"
    if name in VARIANTS or name == DETAILED_TASK:
        return "variant"
    if name.endswith(("Request", "Notification")) and name != "InputRequest":
        return "message"
    if name == "EnumSchema":
        return "class" if "properties" in schema else "alias"
    if name in ALIASES or name in RENAMED_ALIASES:
        return "alias"
    return "class"


@pytest.mark.parametrize("revision", EVERY_SCHEMA)
def test_every_definition_has_its_class_method_or_alias_with_the_same_members(
    revision: str,
) -> None:
    """Members and required members are equal, per revision, for every definition."""
    defs = definitions(revision)
    for name, schema in defs.items():
        kind = kind_of(name, schema)
        if kind == "message":
            check_message(name, schema, revision)
        elif kind == "alias":
            assert name in RENAMED_ALIASES or name in types.__all__, name
        elif kind == "error":
            check_error(name, schema, revision)
        elif kind == "variant":
            check_variant(schema, defs)
        elif kind == "class":
            named = "LegacyTitledEnumSchema" if name == "EnumSchema" else RENAMED.get(name, name)
            check_class(name, getattr(types, named), schema, revision)


def check_error(name: str, schema: dict[str, Any], revision: str) -> None:
    detail = schema["properties"]["error"]["allOf"][1]["properties"]
    if name in ERRORS_WITHOUT_DATA:
        assert "data" not in detail
        return
    cls = getattr(types, ERROR_DATA[name])

    assert live_members(cls, revision) == members(detail["data"], {})


def check_variant(schema: dict[str, Any], defs: dict[str, Any]) -> None:
    """Each status' members are among those of a task's state, and its required ones are Task's."""
    names, required = members(schema, defs)
    state, demanded = live_members(types.GetTaskResult, LATEST)

    assert names <= state
    assert demanded - {"resultType"} <= required


def test_every_class_comes_from_a_definition_or_is_listed_as_inline() -> None:
    """No class is of our own making."""
    defined: set[str] = set(ERROR_DATA.values()) | set(RENAMED.values())
    for revision in EVERY_SCHEMA:
        defined |= set(definitions(revision))
    params = {spec.params_name for spec in (*REQUESTS.values(), *NOTIFICATIONS.values())}
    ours = {
        name
        for name in types.__all__
        if isinstance(getattr(types, name), type) and attrs.has(getattr(types, name))
    }

    assert ours - defined - params == INLINE


def test_every_listed_name_is_still_in_a_schema() -> None:
    """The lists of this module hold nothing that no schema has."""
    defined: set[str] = set()
    for revision in EVERY_SCHEMA:
        defined |= set(definitions(revision))
    listed = ENVELOPE | ABSTRACT | ALIASES | VARIANTS | ERRORS_WITHOUT_DATA | {DETAILED_TASK}
    listed |= set(RENAMED_ALIASES) | set(RENAMED) | set(ERROR_DATA)

    assert listed <= defined


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_a_class_is_live_exactly_where_a_schema_defines_it(revision: str) -> None:
    """Definitions that came or went are marked so."""
    defined = set(definitions(revision))
    if revision == LATEST:
        defined |= set(definitions("ext-tasks"))
    everywhere = set().union(*(definitions(each) for each in EVERY_SCHEMA))
    # Params were inline before 2025-11-25, and within results requests are classes only since
    # 2026-07-28; EnumSchema of 2025-06-18 has two classes here.
    exempt = {name for name in everywhere if name.endswith(("Params", "Request"))}
    exempt |= {"Error", "UntitledSingleSelectEnumSchema", "LegacyTitledEnumSchema"}
    exempt |= {"Annotations", "ResourceTemplateReference"}
    for name in sorted(everywhere - exempt):
        if name in types.__all__ and attrs.has(getattr(types, name)):
            assert types.is_live(getattr(types, name), types.RANK[revision]) == (name in defined), (
                name
            )


@pytest.mark.parametrize("revision", types.REVISIONS)
def test_every_method_of_the_table_is_in_the_schema_with_its_direction(revision: str) -> None:
    """The method table and the schema's unions of messages name the same methods."""
    defs = definitions(revision)
    expected = {direction: methods_in(defs, direction) for direction in ("Client", "Server")}
    for name, bit in (
        ("Client", types.Direction.CLIENT_TO_SERVER),
        ("Server", types.Direction.SERVER_TO_CLIENT),
    ):
        ours = {
            spec.method
            for spec in (*REQUESTS.values(), *NOTIFICATIONS.values())
            if bit in spec.direction(revision)
        }
        if revision == LATEST:
            ours -= {"tasks/get", "tasks/update", "tasks/cancel", "notifications/tasks"}

        assert ours == expected[name], name


def methods_in(defs: dict[str, Any], side: str) -> set[str]:
    found: set[str] = set()
    for union in (f"{side}Request", f"{side}Notification"):
        schema = defs.get(union, {})
        # 2026-07-28 has one client notification only, so that the union is that itself.
        for part in schema.get("anyOf", [schema]):
            definition = defs[part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else part
            if "properties" in definition:
                found.add(definition["properties"]["method"]["const"])
    return found


def test_the_extensions_methods_are_in_the_table() -> None:
    """The tasks extension adds four methods to the newest revision."""
    text = json.dumps(definitions("ext-tasks"))
    specs = {**REQUESTS, **NOTIFICATIONS}
    for method in ("tasks/get", "tasks/update", "tasks/cancel", "notifications/tasks"):
        assert f'"const": "{method}"' in text
        assert specs[method].direction(LATEST)


def test_methods_md_and_the_table_name_the_same_results() -> None:
    """The result's class stands in the digest beside the method."""
    text = (spec_dir() / "schema" / "methods.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| `")]
    checked = 0
    for cells in rows:
        method = cells[1].strip().strip("`")
        if len(cells) == 9 and method in REQUESTS:
            assert cells[7].split()[0] == REQUESTS[method].result_name
            assert ("InputRequiredResult" in cells[7]) == REQUESTS[method].may_need_input(LATEST)
            assert ("2025-11-25 with `task`" in cells[7]) == REQUESTS[method].may_become_task(
                types.R2025_11_25
            )
            checked += 1

    assert checked == len(REQUESTS) - 1  # tasks/update stands in the extension's table
