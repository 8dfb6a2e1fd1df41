"""The headers that repeat parts of a body: made by a client, compared by a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.http_head import Headers
from mcp_trio.wire.http_routing import (
    check_params,
    check_routing,
    check_version,
    decode_value,
    encode_value,
    read_annotations,
    routing_headers,
)
from tests.spec_files import json_lines

SAFE = 2**53 - 1
ROUTING = ("Mcp-Method", "Mcp-Name", "Mcp-Param-")
LONE_SURROGATE = "\ud800"

#: One argument of each kind, two of them inside of another.
REGION, LIMIT = ("region",), ("opts", "limit")
ANNOTATED = {REGION: "Region", ("opts", "dry"): "Dry-Run", LIMIT: "Limit"}


def headers_of(*fields: tuple[str, str]) -> Headers:
    """As a server reads them: names in any case, octets, blanks around the values."""
    return Headers.read((name.encode(), value.encode()) for name, value in fields)


def property_of(**members: object) -> dict[str, Any]:
    """A schema with one property, ``a``."""
    return {"type": "object", "properties": {"a": members}}


def annotated(name: str = "A", kind: str = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name}


# ---------------------------------------------------------------- the vectors


@pytest.mark.spec("HM-25", "HM-30", "HM-31")
def test_values_travel_as_the_vectors_say() -> None:
    kinds = set()
    for vector in json_lines("header-encoding.vectors.jsonl"):
        kinds.add(vector["kind"])
        header = vector["header"]
        if vector["kind"] == "decode-error":
            with pytest.raises(ValueError, match=r"must be encoded|base64|UTF-8"):
                decode_value(header)
            reason = check_params(
                headers_of(("Mcp-Param-Region", header)), {"region": header}, {REGION: "Region"}
            )
            assert reason is not None
            assert reason.startswith("Mcp-Param-Region cannot be read, since ")
            continue
        value = vector["value"]
        arguments = {"region": value}
        if isinstance(value, str):
            assert decode_value(header) == value
        if vector["kind"] == "encode":
            params = {"name": "t", "arguments": arguments}
            sent = routing_headers("tools/call", params, {REGION: "Region"})
            assert sent[2:] == (("Mcp-Param-Region", header),)
            assert check_params(headers_of(*sent), arguments, {REGION: "Region"}) is None
            if isinstance(value, str):
                assert encode_value(value) == header

    assert kinds == {"encode", "decode-error", "decode-literal"}


@pytest.mark.spec("HM-26", "HM-27", "HM-28", "HM-29")
def test_annotations_are_valid_or_not_as_the_vectors_say() -> None:
    valid = set()
    for vector in json_lines("x-mcp-header.vectors.jsonl"):
        valid.add(vector["valid"])
        schema = vector["tool"]["inputSchema"]
        if not vector["valid"]:
            with pytest.raises(ValueError, match=r"^\$\..*x-mcp-header: "):
                read_annotations(schema)
            continue
        found = read_annotations(schema)
        params = {"name": "t", "arguments": vector["arguments"]}
        sent = routing_headers("tools/call", params, found)
        assert len(found) == json.dumps(schema).count('"x-mcp-header"')
        assert sent[2:] == tuple(vector["headers"].items())
        assert check_params(headers_of(*sent), vector["arguments"], found) is None

    assert valid == {True, False}


@pytest.mark.spec("HM-18", "HM-19", "HM-23", "HM-24", "HM-32", "HM-33", "HM-34", "HM-37", "TX-18")
def test_the_exchanges_of_the_specification() -> None:
    """Each POST that is refused for its headers is refused by one of the three, and no other."""
    refused = set()
    for exchange in json_lines("2026-07-28.http.jsonl"):
        request, response = exchange["request"], exchange["response"]
        body = request.get("json", {})
        params = body.get("params", {})
        version = params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
        if version is None:
            continue
        headers = headers_of(*request["headers"].items())
        of_tool = ANNOTATED if params.get("name") == "execute_sql" else {}
        reasons = [
            check_version(headers, version),
            check_routing(headers, body["method"], params),
            check_params(headers, params.get("arguments"), of_tool),
        ]

        code = response.get("json", {}).get("error", {}).get("code")
        assert any(reasons) == (code == ErrorCode.HEADER_MISMATCH), exchange["name"]
        if any(reasons):
            refused.add(exchange["name"])
            continue
        sent = set(routing_headers(body["method"], params, of_tool))
        if exchange["name"] != "param-integer-numeric-compare":  # there is another form of it
            assert sent == {(n, v) for n, v in request["headers"].items() if n.startswith(ROUTING)}
    assert refused == {
        "name-mismatch",
        "method-mismatch",
        "version-mismatch",
        "method-header-missing",
        "version-header-missing",
        "param-header-missing",
    }


# ---------------------------------------------------------------- values


@given(text=st.text())
@example("=?base64?=")
@example("=?base64??=")
@example(" ")
@example("\x7f")
def test_a_value_comes_out_as_it_went_in(text: str) -> None:
    header = encode_value(text)

    assert decode_value(header) == text
    # a field keeps it: visible ASCII, and blanks inside only (RFC 9110 § 5.5)
    assert all(" " <= char <= "~" for char in header)
    assert header == header.strip(" ")


@given(text=st.text(st.characters(max_codepoint=0x7F)), around=st.text(" \t", max_size=2))
def test_any_text_is_decoded_or_refused_and_blanks_around_it_do_not_count(
    text: str, around: str
) -> None:
    def outcome(value: str) -> str:
        try:
            return decode_value(value)
        except ValueError:
            return "refused"

    assert outcome(around + text + around) == outcome(text.strip(" \t"))


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("=?base64?SGVsbG8=?=", "Hello"),  # encoded without need
        ("=?base64??=", ""),
        ("", ""),
        ("SGVsbG8=", "SGVsbG8="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?base64?=", "=?base64?="),  # no room for a value between the two ends
        ("x=?base64?SGVsbG8=?=", "x=?base64?SGVsbG8=?="),
        ("a\tb", "a\tb"),  # we send it encoded, others need not
        ("  a b\t", "a b"),
    ],
)
def test_what_a_value_says(header: str, value: str) -> None:
    assert decode_value(header) == value


@pytest.mark.spec("HM-31")
@pytest.mark.parametrize(
    ("header", "why"),
    [
        ("=?base64?SGVsbG8?=", "holds no proper base64"),  # padding is missing
        ("=?base64?SGVsbG8==?=", "holds no proper base64"),
        ("=?base64?SGVs!!!bG8=?=", "holds no proper base64"),
        ("=?base64?SGVs bG8=?=", "holds no proper base64"),
        ("=?base64?8J-YgA==?=", "holds no proper base64"),  # the alphabet of URLs
        ("=?base64?SGVsbG9=?=", "holds no proper base64"),  # a second spelling of Hello
        ("=?base64?=?=", "holds no proper base64"),
        ("=?base64?7aCA?=", "holds no UTF-8"),  # a surrogate
        ("caf\xc3\xa9", "has characters that must be encoded"),
        ("a\nb", "has characters that must be encoded"),
        ("a\0", "has characters that must be encoded"),
        ("\x7f", "has characters that must be encoded"),
    ],
)
def test_a_value_that_cannot_be_decoded_says_why(header: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        decode_value(header)

    assert repr(header) in str(caught.value)


def test_what_is_said_back_is_short() -> None:
    with pytest.raises(ValueError, match="must be encoded") as caught:
        decode_value("x" * 10_000 + "\n")

    assert len(str(caught.value)) < 150


def test_a_value_that_some_readers_take_for_an_encoded_one_is_encoded() -> None:
    """The two ends of the marker overlap in it."""
    assert encode_value("=?base64?=") == "=?base64?PT9iYXNlNjQ/PQ==?="


def test_a_lone_surrogate_cannot_be_encoded() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        encode_value(LONE_SURROGATE)


# ---------------------------------------------------------------- what a client sends


@pytest.mark.spec("HM-23", "HM-24", "TX-18")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "größe"}, "=?base64?Z3LDtsOfZQ==?="),
        ("prompts/get", {"name": "review"}, "review"),
        ("resources/read", {"uri": "file:///a%20b", "name": "x"}, "file:///a%20b"),
        ("tasks/get", {"taskId": "7"}, "7"),
        ("tasks/update", {"taskId": ""}, ""),
        ("tasks/cancel", {"taskId": "=?base64?x?="}, "=?base64?PT9iYXNlNjQ/eD89?="),
        ("tools/list", {"name": "x", "uri": "y", "taskId": "z"}, None),
        ("server/discover", None, None),
        ("vendor/thing", {}, None),
    ],
)
def test_a_request_says_its_method_and_name(
    method: str, params: dict[str, Any] | None, name: str | None
) -> None:
    expected = (("Mcp-Method", method), ("Mcp-Name", name))

    headers = routing_headers(method, params)

    assert headers == (expected if name is not None else expected[:1])
    assert check_routing(headers_of(*headers), method, params) is None


@pytest.mark.spec("HM-29")
@pytest.mark.parametrize(
    "arguments",
    [
        None,
        {},
        {"region": None, "opts": None},
        {"opts": {}},
        {"opts": {"limit": None}},
        {"opts": 5},
    ],
)
def test_an_argument_that_is_absent_or_null_has_no_header(arguments: Any) -> None:
    sent = routing_headers("tools/call", {"name": "t", "arguments": arguments}, ANNOTATED)

    assert sent == routing_headers("tools/call", {"name": "t"}, ANNOTATED)
    assert [name for name, _ in sent] == ["Mcp-Method", "Mcp-Name"]
    assert check_params(headers_of(*sent), arguments, ANNOTATED) is None


def test_a_name_on_an_annotation_is_not_that_of_the_request() -> None:
    """An annotation ``Method`` gives ``Mcp-Param-Method``, not ``Mcp-Method``."""
    params = {"name": "t", "arguments": {"m": "x", "n": "y"}}

    sent = routing_headers("tools/call", params, {("m",): "Method", ("n",): "Name"})

    assert dict(sent) == {
        "Mcp-Method": "tools/call",
        "Mcp-Name": "t",
        "Mcp-Param-Method": "x",
        "Mcp-Param-Name": "y",
    }


BAD_VALUES = [
    (SAFE + 1, "an integer beyond"),
    (-SAFE - 1, "an integer beyond"),
    pytest.param(10**5000, "an integer beyond", id="long"),
    (1e300, "an integer beyond"),
    (0.5, "no string, integer or boolean"),
    (["x"], "no string, integer or boolean"),
    ({}, "no string, integer or boolean"),
]


@pytest.mark.spec("HM-27")
@pytest.mark.parametrize(("value", "why"), BAD_VALUES)
def test_a_value_that_no_header_repeats_is_an_error_on_both_sides(value: object, why: str) -> None:
    arguments = {"opts": {"limit": value}}

    with pytest.raises(ValueError, match=rf"^\$\.params\.arguments\.opts\.limit: it is {why}"):
        routing_headers("tools/call", {"name": "t", "arguments": arguments}, ANNOTATED)

    for headers in (headers_of(), headers_of(("Mcp-Param-Limit", "9007199254740992"))):
        reason = check_params(headers, arguments, ANNOTATED)
        assert reason is not None
        assert reason.startswith("Mcp-Param-Limit cannot repeat $.params.arguments.opts.limit")
        assert why in reason


@pytest.mark.parametrize(
    ("method", "params", "where"),
    [
        ("a\r\nEvil: 1", {}, r"\$\.method: 'a\\r\\nEvil: 1'"),
        (" ping", {}, r"\$\.method"),
        ("größe", {}, r"\$\.method"),
        ("tools/call", None, r"\$\.params\.name: tools/call needs a string"),
        ("prompts/get", {"name": 5}, r"\$\.params\.name"),
        ("resources/read", {"name": "x"}, r"\$\.params\.uri"),
        ("tools/call", {"name": LONE_SURROGATE}, r"\$\.params\.name: a lone surrogate"),
        (
            "tools/call",
            {"name": "t", "arguments": {"region": LONE_SURROGATE}},
            r"\$\.params\.arguments\.region: a lone surrogate",
        ),
    ],
)
def test_what_no_header_can_say_is_an_error_that_names_it(
    method: str, params: dict[str, Any] | None, where: str
) -> None:
    with pytest.raises(ValueError, match=f"^{where}"):
        routing_headers(method, params, ANNOTATED)


# ---------------------------------------------------------------- what a server checks


@pytest.mark.spec("HM-18", "HM-19", "HM-22")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([("mcp-protocol-VERSION", " v2 ")], None),
        ([("MCP-Protocol-Version", "v1")], "is 'v1', but $.params._meta[{key}] is 'v2'"),
        ([("MCP-Protocol-Version", "V2")], "is 'V2', but $.params._meta[{key}] is 'v2'"),
        ([("MCP-Protocol-Version", "")], "is '', but $.params._meta[{key}] is 'v2'"),
        ([], "is missing, but $.params._meta[{key}] is 'v2'"),
        ([("MCP-Protocol-Version", "v2")] * 2, "came more than once"),
        # it is no value that may come encoded
        (
            [("MCP-Protocol-Version", "=?base64?djI=?=")],
            "is '=?base64?djI=?=', but $.params._meta[{key}] is 'v2'",
        ),
    ],
)
def test_the_version_is_there_once_and_that_of_the_body(
    fields: list[tuple[str, str]], reason: str | None
) -> None:
    key = "'io.modelcontextprotocol/protocolVersion'"
    expected = reason and f"MCP-Protocol-Version {reason.format(key=key)}"

    assert check_version(headers_of(*fields), "v2") == expected


METHOD, NAME = ("Mcp-Method", "tools/call"), ("Mcp-Name", "größe")
ENCODED = ("Mcp-Name", "=?base64?Z3LDtsOfZQ==?=")


@pytest.mark.spec("HM-23", "HM-24", "HM-31", "HM-36", "HM-37")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ([METHOD, ENCODED], None),
        ([("MCP-METHOD", "\ttools/call "), ("mcp-name", ENCODED[1])], None),
        ([METHOD, ENCODED, ("Mcp-Param-X", "y"), ("x", "1"), ("x", "2")], None),
        ([], "Mcp-Method is missing, but $.method is 'tools/call'"),
        ([ENCODED], "Mcp-Method is missing, but $.method is 'tools/call'"),
        ([("Mcp-Method", "Tools/Call"), ENCODED], "Mcp-Method is 'Tools/Call', but $.method is"),
        ([("Mcp-Method", "=?base64?dG9vbHMvY2FsbA==?="), ENCODED], "Mcp-Method is '=?base64?dG9v"),
        ([METHOD], "Mcp-Name is missing, but $.params.name is 'größe'"),
        ([METHOD, ("Mcp-Name", "")], "Mcp-Name is '', but $.params.name is 'größe'"),
        ([METHOD, ("Mcp-Name", "gro")], "Mcp-Name is 'gro', but $.params.name is 'größe'"),
        ([METHOD, NAME], "Mcp-Name cannot be read, since "),
        ([METHOD, METHOD, ENCODED], "the header 'mcp-method' came more than once"),
        ([METHOD, ENCODED, ENCODED], "the header 'mcp-name' came more than once"),
        ([METHOD, ENCODED, *[("Mcp-Param-X", "y")] * 2], "the header 'mcp-param-x' came more"),
    ],
)
def test_method_and_name_are_there_once_and_those_of_the_body(
    fields: list[tuple[str, str]], reason: str | None
) -> None:
    found = check_routing(headers_of(*fields), "tools/call", {"name": "größe"})

    assert (found is None) == (reason is None)
    assert (found or "").startswith(reason or "")


@pytest.mark.parametrize("params", [None, {}, {"name": None}, {"name": 5}, {"name": ["t"]}])
def test_a_name_that_is_no_string_equals_no_header(params: dict[str, Any] | None) -> None:
    said = "and $.params.name, which it repeats, is no string"

    assert check_routing(headers_of(METHOD), "tools/call", params) == f"Mcp-Name is missing, {said}"
    assert (
        check_routing(headers_of(METHOD, ("Mcp-Name", "5")), "tools/call", params)
        == f"Mcp-Name is '5', {said}"
    )


def test_a_name_is_not_looked_at_where_the_method_has_none() -> None:
    headers = headers_of(("Mcp-Method", "tools/list"), ("Mcp-Name", "=?base64?@?="))

    assert check_routing(headers, "tools/list", {"name": "x"}) is None


@pytest.mark.spec("HM-30", "HM-31", "HM-32", "HM-33", "HM-34", "HM-36")
@pytest.mark.parametrize(
    ("value", "header", "agree"),
    [
        ("Hello", "Hello", True),
        ("Hello", "=?base64?SGVsbG8=?=", True),
        ("Hello", "=?base64?SGVsbG8?=", False),
        ("Hello", "=?base64?SGVs!!!bG8=?=", False),
        ("SGVsbG8=", "SGVsbG8=", True),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8=", True),
        ("Hello", "hello", False),
        ("Hello", None, False),
        ("", "", True),
        ("", "=?base64??=", True),
        ("", None, False),
        (None, None, True),
        (None, "", False),
        (None, "null", False),
        (True, "true", True),
        (True, "True", False),
        (True, "1", False),
        (False, "false", True),
        (False, "0", False),
        (False, None, False),
        (42, "42", True),
        (42, "=?base64?NDI=?=", True),
        (42, "42.0", True),
        (42, "4.2e1", True),
        (42, "4200E-2", True),
        (42, "42.00000000000000000001", False),
        (42, "042", False),
        (42, "+42", False),
        (42, "42.", False),
        (42, "0x2a", False),
        (42, "4_2", False),
        (42, "\u0664\u0662", False),
        (42, "=?base64?2aTZog==?=", False),  # those Arabic digits again
        (42, "42e999999999", False),
        (42, "42e-99999999999999999999", False),
        pytest.param(42, "9" * 100_000, False, id="long"),
        (42, "NaN", False),
        (42, "", False),
        (0, "-0", True),
        (0, None, False),
        (42.0, "42", True),
        (42.0, "42.0", True),
        (1000000, "1e+06", True),
        (SAFE, str(SAFE), True),
        (SAFE, f"{SAFE}.1", False),  # as doubles they are the same
        ("42", "42.0", False),  # a string is no number
        ("true", "true", True),
    ],
)
def test_an_argument_and_its_header_agree_or_not(
    value: object, header: str | None, *, agree: bool
) -> None:
    headers = headers_of(*([] if header is None else [("mcp-param-REGION", header)]))

    reason = check_params(headers, {"region": value}, {REGION: "Region"})

    assert (reason is None) == agree
    if reason is not None:
        assert "Mcp-Param-Region " in reason
        assert "$.params.arguments.region " in reason
        assert len(reason) < 300


@pytest.mark.spec("HM-32")
@pytest.mark.parametrize(
    ("fields", "arguments", "reason"),
    [
        (
            [("Mcp-Param-Region", "eu")],
            {"region": "us"},
            "Mcp-Param-Region is 'eu', but $.params.arguments.region is 'us'",
        ),
        (
            [],
            {"opts": {"limit": 7}},
            "Mcp-Param-Limit is missing, but $.params.arguments.opts.limit is '7'",
        ),
        (
            [("Mcp-Param-Dry-Run", "true")],
            None,
            "Mcp-Param-Dry-Run is 'true', but $.params.arguments.opts.dry has no value",
        ),
        (
            [("Mcp-Param-Limit", "=?base64?@?=")],
            {"opts": {"limit": 7}},
            (
                "Mcp-Param-Limit cannot be read, since '=?base64?@?=' holds no proper base64;"
                " $.params.arguments.opts.limit is '7'"
            ),
        ),
        (
            [("Mcp-Param-Region", "us")] * 2,
            {"region": "us"},
            "Mcp-Param-Region came more than once",
        ),
        # one that is right does not hide another that is wrong
        (
            [("Mcp-Param-Region", "us"), ("Mcp-Param-Limit", "8")],
            {"region": "us", "opts": {"limit": 7}},
            "Mcp-Param-Limit is '8', but $.params.arguments.opts.limit is '7'",
        ),
    ],
)
def test_a_refusal_names_header_and_place_and_both_values(
    fields: list[tuple[str, str]], arguments: dict[str, Any] | None, reason: str
) -> None:
    assert check_params(headers_of(*fields), arguments, ANNOTATED) == reason


def test_headers_of_that_kind_without_an_annotation_are_ignored() -> None:
    headers = headers_of(("Mcp-Param-Region", "us"), ("Mcp-Param-Other", "=?base64?@?="))

    assert check_params(headers, {"region": "us", "other": "x"}, {REGION: "Region"}) is None


# ---------------------------------------------------------------- both sides

texts = st.text(max_size=20)
values = st.none() | texts | st.booleans() | st.integers(-SAFE, SAFE)
opts = st.fixed_dictionaries({}, optional={"limit": values, "dry": values})
arguments_of_any_kind = st.fixed_dictionaries({}, optional={"region": values, "opts": opts})


@given(
    method=st.sampled_from(["tools/call", "prompts/get", "resources/read", "tasks/get"]),
    name=texts,
    arguments=arguments_of_any_kind,
)
def test_a_server_finds_no_fault_with_what_a_client_sends(
    method: str, name: str, arguments: dict[str, Any]
) -> None:
    params = {"name": name, "uri": name, "taskId": name, "arguments": arguments}

    headers = headers_of(*routing_headers(method, params, ANNOTATED))

    assert check_routing(headers, method, params) is None
    assert check_params(headers, arguments, ANNOTATED) is None


@given(said=values, meant=values)
def test_a_server_finds_fault_with_what_was_sent_for_another_value(
    said: object, meant: object
) -> None:
    """Values of which headers say the same are no fault: 1 and "1"."""

    def sent(value: object) -> tuple[tuple[str, str], ...]:
        params = {"name": "t", "arguments": {"region": value}}
        return routing_headers("tools/call", params, {REGION: "Region"})

    reason = check_params(headers_of(*sent(said)), {"region": meant}, {REGION: "Region"})

    # "-0" and the like are the one case of different texts for the same number
    if isinstance(said, str) and isinstance(meant, int) and not isinstance(meant, bool):
        assert reason is not None or float(said) == meant
    else:
        assert (reason is None) == (sent(said) == sent(meant))


# ---------------------------------------------------------------- what a tool's schema says


@pytest.mark.spec("HM-26")
def test_annotations_are_found_by_the_path_of_properties() -> None:
    schema = {
        "type": "object",
        "properties": {
            "opts": {"properties": {"limit": annotated("Limit", "integer"), "b": True}},
            "region": annotated("Region"),
            "dryRun": annotated("Dry-Run", "boolean"),
            "plain": {"type": "string"},
        },
        "required": ["x-mcp-header"],
        "additionalProperties": False,
    }

    assert list(read_annotations(schema).items()) == [
        (("opts", "limit"), "Limit"),
        (("region",), "Region"),
        (("dryRun",), "Dry-Run"),
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object"},
        {"properties": {"x-mcp-header": {"type": "number"}}},
        {"$defs": {"x-mcp-header": {"properties": {"x-mcp-header": {}}}}},
        {"definitions": {"x-mcp-header": {}}, "patternProperties": {"x-mcp-header": {}}},
        {"dependencies": {"x-mcp-header": []}, "dependentSchemas": {"x-mcp-header": {}}},
        {"dependentRequired": {"x-mcp-header": ["a"]}, "required": ["x-mcp-header"]},
        {"default": {"x-mcp-header": ""}, "examples": [{"x-mcp-header": 5}]},
        {"enum": [{"x-mcp-header": ""}], "const": {"a": {"x-mcp-header": ""}}},
    ],
)
def test_names_and_instances_are_no_annotations(schema: dict[str, Any]) -> None:
    assert read_annotations(schema) == {}


def test_a_property_may_be_called_like_a_keyword() -> None:
    schema = {
        "properties": {
            "x-mcp-header": annotated("A"),
            "enum": annotated("B"),
            "properties": {"properties": {"properties": annotated("C")}},
        }
    }

    assert read_annotations(schema) == {
        ("x-mcp-header",): "A",
        ("enum",): "B",
        ("properties", "properties"): "C",
    }


@pytest.mark.spec("HM-27", "HM-28")
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (property_of(**annotated("")), "$.properties.a.x-mcp-header: '' is no token of RFC 9110"),
        (property_of(**annotated("A\n")), "$.properties.a.x-mcp-header: 'A\\n' is no token of"),
        (
            property_of(**{"type": "string", "x-mcp-header": None}),
            "$.properties.a.x-mcp-header: it must be a string",
        ),
        (
            property_of(**annotated(kind="null")),
            "$.properties.a.x-mcp-header: the property's type must be one of string, integer,",
        ),
        (
            property_of(**{"type": ["string", "null"], "x-mcp-header": "A"}),
            "$.properties.a.x-mcp-header: the property's type must be one of string, integer,",
        ),
        (
            {"properties": {"a": annotated("A"), "b": {"properties": {"c d": annotated("a")}}}},
            (
                "$.properties.b.properties['c d'].x-mcp-header: 'a' is taken, whatever its case,"
                " by $.properties.a.x-mcp-header"
            ),
        ),
        (annotated(), "$.x-mcp-header: only a property"),
        (
            property_of(type="array", prefixItems=[{}, annotated()]),
            "$.properties.a.prefixItems[1].x-mcp-header: only a property",
        ),
        (
            property_of(type="object", additionalProperties=annotated()),
            "$.properties.a.additionalProperties.x-mcp-header: only a property",
        ),
        (
            {"$defs": {"x": property_of(**annotated())}},
            "$.$defs.x.properties.a.x-mcp-header: only a property",
        ),
        (
            {"x-vendor": {"deep": [[annotated()]]}},
            "$.x-vendor.deep[0][0].x-mcp-header: only a property",
        ),
        ({"allOf": (annotated(),)}, "$.allOf[0].x-mcp-header: only a property"),
        # malformed, so that nothing is a property there
        ({"properties": [annotated()]}, "$.properties[0].x-mcp-header: only a property"),
        (
            {"properties": {"a": [{"properties": {"b": annotated()}}]}},
            "$.properties.a[0].properties.b.x-mcp-header: only a property",
        ),
    ],
)
def test_an_invalid_annotation_is_named_with_its_place(
    schema: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"x-mcp-header: ") as caught:
        read_annotations(schema)

    assert str(caught.value).startswith(message)


def test_one_schema_for_two_properties_is_two_annotations() -> None:
    shared = annotated()

    with pytest.raises(ValueError, match="is taken"):
        read_annotations({"properties": {"a": shared, "b": shared}})


def nested(levels: int, inner: dict[str, Any]) -> dict[str, Any]:
    for _ in range(levels):
        inner = property_of(**inner)
    return inner


def test_a_schema_may_be_as_deep_as_a_message() -> None:
    """Each property is two levels of JSON."""
    assert read_annotations(nested(64, annotated())) == {("a",) * 64: "A"}


def loop() -> dict[str, Any]:
    schema: dict[str, Any] = property_of()
    schema["properties"]["a"] = schema
    return schema


def wide_loop() -> dict[str, Any]:
    schema: dict[str, Any] = {}
    schema["allOf"] = [schema] * 1000
    return schema


def doubled() -> dict[str, Any]:
    """Not too deep, but as JSON it would be without end."""
    schema: dict[str, Any] = {}
    for _ in range(60):
        schema = {"allOf": [schema, schema]}
    return schema


@pytest.mark.parametrize(
    "schema", [nested(65, {}), nested(5_000, annotated()), loop(), wide_loop(), doubled()]
)
def test_a_schema_that_is_too_deep_or_holds_itself_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^\$\..*: the schema is nested deeper than 128 levels"):
        read_annotations(schema)


def test_a_schema_may_have_many_members() -> None:
    """The bound is on objects and arrays, so a long list of names does not count."""
    many = {f"p{n}": {"enum": ["x"] * 20} for n in range(20_000)}

    assert read_annotations({"properties": {**many, "last": annotated()}}) == {("last",): "A"}
