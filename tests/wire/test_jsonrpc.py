"""Bytes to messages and back: ids, malformed input, what cannot be written, lines."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from attrs import frozen
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.jsonrpc import (
    Batch,
    Discarded,
    Failure,
    Flaw,
    LineFramer,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Result,
    Unencodable,
    classify,
    decode,
    encode,
    encode_batch,
    find_unencodable,
)
from tests.feed import cuts_of, feed_every_way
from tests.spec_files import json_lines

DEPTH = 128

ids: st.SearchStrategy[RequestId] = st.integers() | st.text()
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
finite_leaves = leaves.filter(lambda v: not (isinstance(v, float) and math.isinf(v)))
values = st.recursive(
    finite_leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(st.text(), values, max_size=4)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(Request, ids, st.text(), st.none() | objects),
    st.builds(Notification, st.text(), st.none() | objects),
    st.builds(Result, ids, objects),
    st.builds(Failure, ids, st.integers(), st.text(), values),
    st.builds(Failure, st.none(), st.integers(), st.text(), values, st.booleans()),
)


def read(value: object) -> Message | Batch | Malformed:
    return decode(json.dumps(value).encode(), depth=DEPTH)


def read_text(text: str) -> Message | Batch | Malformed:
    return decode(text.encode(), depth=DEPTH)


# ---------------------------------------------------------------- the round trip


@pytest.mark.spec("B-2", "B-7")
@given(message=messages)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode(encode(message), depth=DEPTH) == message


@pytest.mark.spec("T-1")
@given(message=messages)
@example(message=Notification("m", {"a\nb": "c\r\n\u2028\u2029\u0085"}))
def test_a_message_is_one_line(message: Message) -> None:
    assert b"\n" not in encode(message)


@pytest.mark.spec("B-1")
@given(params=objects)
def test_the_standard_library_reads_what_is_written(params: dict[str, Any]) -> None:
    raw = json.loads(encode(Request(1, "m", params)))

    assert raw == {"jsonrpc": "2.0", "id": 1, "method": "m", "params": params}


@pytest.mark.spec("B-2")
@given(params=objects, ascii_only=st.booleans())
def test_what_the_standard_library_writes_is_read(
    params: dict[str, Any],
    ascii_only: bool,  # noqa: FBT001  # drawn by name
) -> None:
    raw = {"jsonrpc": "2.0", "method": "m", "params": params}

    assert decode(json.dumps(raw, ensure_ascii=ascii_only).encode(), depth=DEPTH) == Notification(
        "m", params
    )


def test_absent_members_stay_absent() -> None:
    assert encode(Notification("m")) == b'{"jsonrpc":"2.0","method":"m"}'
    assert encode(Request(1, "m")) == b'{"jsonrpc":"2.0","id":1,"method":"m"}'
    assert encode(Request(1, "m", {})) == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'
    assert encode(Result(1, {})) == b'{"jsonrpc":"2.0","id":1,"result":{}}'


def test_null_params_are_read_as_absent() -> None:
    assert read_text('{"jsonrpc":"2.0","id":1,"method":"m","params":null}') == Request(1, "m")
    assert read_text('{"jsonrpc":"2.0","method":"m","params":null}') == Notification("m")


@pytest.mark.spec("B-14")
def test_an_error_without_a_readable_id_says_null_or_nothing() -> None:
    assert encode(Failure(None, -32700, "x")) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}'
    )
    assert encode(Failure(None, -32700, "x", omit_id=True)) == (
        b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}'
    )


@pytest.mark.spec("B-9")
def test_an_error_carries_code_message_and_data() -> None:
    failure = Failure("a", ErrorCode.BUSY, "busy", {"retry": 1})

    assert encode(failure) == (
        b'{"jsonrpc":"2.0","id":"a","error":{"code":-31001,"message":"busy","data":{"retry":1}}}'
    )


@pytest.mark.spec("HL-11")
def test_a_batch_is_an_array_both_ways() -> None:
    answers: list[Result | Failure] = [Result(1, {}), Failure("1", -1, "no")]

    batch = decode(encode_batch(answers), depth=DEPTH)

    assert isinstance(batch, Batch)
    assert [classify(member) for member in batch.members] == answers


# ---------------------------------------------------------------- ids


@pytest.mark.spec("B-3", "B-7")
@pytest.mark.case("15")
@pytest.mark.parametrize(
    "id_text", ["0", '"0"', '""', '"1"', "1", "-1", "9007199254740993", "18446744073709551616"]
)
def test_an_id_is_echoed_as_sent(id_text: str) -> None:
    request = read_text(f'{{"jsonrpc":"2.0","id":{id_text},"method":"ping"}}')
    assert isinstance(request, Request)

    answer = encode(Result(request.id, {}))

    assert answer == f'{{"jsonrpc":"2.0","id":{id_text},"result":{{}}}}'.encode()


@pytest.mark.spec("B-3", "B-4")
@pytest.mark.case("15")
@pytest.mark.parametrize(
    ("id_text", "kind"),
    [
        ("1.0", "a fraction"),
        ("1.5", "a fraction"),
        ("true", "a boolean"),
        ("null", "null"),
        ("[]", "an array"),
        ("{}", "an object"),
    ],
)
def test_any_other_id_is_refused(id_text: str, kind: str) -> None:
    reason = f"an id must be a string or an integer, not {kind}"

    request = read_text(f'{{"jsonrpc":"2.0","id":{id_text},"method":"ping"}}')
    result = read_text(f'{{"jsonrpc":"2.0","id":{id_text},"result":{{}}}}')

    assert request == Malformed(Flaw.REQUEST, -32600, reason)
    assert result == Malformed(Flaw.ANSWER, -32600, reason)


@pytest.mark.spec("B-15")
@pytest.mark.case("15")
def test_without_an_id_it_is_a_notification() -> None:
    assert read_text('{"jsonrpc":"2.0","method":"ping"}') == Notification("ping")


# ---------------------------------------------------------------- what is no message

NO_METHOD_OR_ID = "neither a method nor an id"
NO_METHOD_OR_ANSWER = "neither a method nor a result nor an error"
NOT_2_0 = 'the member "jsonrpc" must be "2.0"'
BOTH_KINDS = "a message is a request or an answer, not both"
BOTH_MEMBERS = "an answer has a result or an error, not both"


@pytest.mark.spec("B-15")
@pytest.mark.case("16")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '{"jsonrpc":"2.0","method":"window/logMessage","params":{"type":3}}',
            Notification("window/logMessage", {"type": 3}),
        ),
        ('{"jsonrpc":"2.0","id":4,"method":"x/unknown"}', Request(4, "x/unknown")),
        ('{"jsonrpc":"2.0","id":99,"result":{}}', Result(99, {})),
        (
            '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}',
            Failure(None, -32700, "x"),
        ),
        (
            '{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}',
            Failure(None, -32700, "x", omit_id=True),
        ),
    ],
)
def test_unknown_names_and_stray_answers_are_messages_all_the_same(
    text: str, message: Message
) -> None:
    assert read_text(text) == message


@pytest.mark.spec("B-1", "B-8", "B-14", "B-15")
@pytest.mark.case("16")
@pytest.mark.parametrize(
    ("text", "flaw", "reason", "id_"),
    [
        ('{"jsonrpc":"2.0","id":4,"method":"ping","result":{}}', Flaw.REQUEST, BOTH_KINDS, 4),
        ('{"jsonrpc":"2.0","method":"ping","error":{}}', Flaw.NOTIFICATION, BOTH_KINDS, None),
        ('{"jsonrpc":"1.0","id":4,"method":"ping"}', Flaw.REQUEST, NOT_2_0, 4),
        ('{"id":4,"method":"ping"}', Flaw.REQUEST, NOT_2_0, 4),
        ('{"method":"ping"}', Flaw.NOTIFICATION, NOT_2_0, None),
        ('{"id":4,"result":{}}', Flaw.ANSWER, NOT_2_0, 4),
        ("{}", Flaw.UNPARSABLE, NOT_2_0, None),
        ('{"jsonrpc":"2.0","id":4}', Flaw.REQUEST, NO_METHOD_OR_ANSWER, 4),
        ('{"jsonrpc":"2.0","id":null}', Flaw.REQUEST, NO_METHOD_OR_ANSWER, None),
        ('{"jsonrpc":"2.0"}', Flaw.UNPARSABLE, NO_METHOD_OR_ID, None),
        ('{"jsonrpc":"2.0","result":{}}', Flaw.ANSWER, NO_METHOD_OR_ID, None),
        ('{"jsonrpc":"2.0","id":4,"result":{},"error":{}}', Flaw.ANSWER, BOTH_MEMBERS, 4),
        ('{"jsonrpc":"2.0","id":[],"result":{},"error":{}}', Flaw.ANSWER, BOTH_MEMBERS, None),
        ("5", Flaw.UNPARSABLE, "a message is an object, not an integer", None),
        ('"s"', Flaw.UNPARSABLE, "a message is an object, not a string", None),
        ("null", Flaw.UNPARSABLE, "a message is an object, not null", None),
        ("[]", Flaw.UNPARSABLE, "an empty batch", None),
    ],
)
def test_a_malformed_message_is_an_invalid_request(
    text: str, flaw: Flaw, reason: str, id_: int | None
) -> None:
    assert read_text(text) == Malformed(flaw, ErrorCode.INVALID_REQUEST, reason, id_)


@pytest.mark.spec("B-14", "B-15")
@pytest.mark.case("16")
def test_params_are_an_object() -> None:
    assert read_text('{"jsonrpc":"2.0","method":"codex/event","params":[1]}') == Malformed(
        Flaw.NOTIFICATION, -32600, "params must be an object, not an array"
    )
    assert read_text('{"jsonrpc":"2.0","id":4,"method":"x","params":"y"}') == Malformed(
        Flaw.REQUEST, -32602, "params must be an object, not a string", 4
    )


@pytest.mark.spec("B-1", "B-14")
@pytest.mark.parametrize("method", ["null", "7", "{}"])
def test_a_method_is_a_string(method: str) -> None:
    malformed = read_text(f'{{"jsonrpc":"2.0","id":4,"method":{method}}}')

    assert isinstance(malformed, Malformed)
    assert malformed.reason.startswith("the method must be a string, not ")
    assert (malformed.flaw, malformed.code, malformed.id) == (Flaw.REQUEST, -32600, 4)


@pytest.mark.spec("B-8", "B-9")
@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ('"result":[1]', "a result must be an object, not an array"),
        ('"result":null', "a result must be an object, not null"),
        ('"error":"x"', "an error must be an object, not a string"),
        ('"error":{"code":"x","message":"m"}', "error.code must be an integer, not a string"),
        ('"error":{"code":true,"message":"m"}', "error.code must be an integer, not a boolean"),
        ('"error":{"code":-32603}', "error.message must be a string, not null"),
    ],
)
def test_a_malformed_answer_names_its_call(member: str, reason: str) -> None:
    assert read_text(f'{{"jsonrpc":"2.0","id":4,{member}}}') == Malformed(
        Flaw.ANSWER, -32600, reason, 4
    )


@pytest.mark.spec("B-9")
def test_an_error_with_an_id_of_another_kind_is_refused() -> None:
    assert read_text('{"jsonrpc":"2.0","id":true,"error":{"code":1,"message":"m"}}') == Malformed(
        Flaw.ANSWER, -32600, "an id must be a string or an integer, not a boolean"
    )


#: ``why`` of each line that the envelope alone decides: what `decode` makes of it.
ENVELOPE_LINES = {
    "id null is forbidden in MCP": (Flaw.REQUEST, None),
    "id must be string or integer": (Flaw.REQUEST, None),
    "jsonrpc missing": (Flaw.REQUEST, 1),
    "wrong jsonrpc": (Flaw.REQUEST, 1),
    "error code must be an integer": (Flaw.ANSWER, 1),
    "error message missing": (Flaw.ANSWER, 1),
}


@pytest.mark.spec("B-1", "B-3", "B-4", "B-9", "B-14")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_digests_invalid_lines_get_their_verdict(revision: str) -> None:
    """A line whose envelope is sound passes: its fault is for the codec to find."""
    seen = set()
    for line in json_lines(f"{revision}.invalid.jsonl"):
        message = read(line["msg"])
        if line["why"] in ENVELOPE_LINES:
            seen.add(line["why"])
            assert line["verdict"] == "refuse"
            assert isinstance(message, Malformed)
            assert (message.flaw, message.id) == ENVELOPE_LINES[line["why"]]
            assert str(int(message.code)) in (line["expect"], "-32600")
        else:
            assert not isinstance(message, Malformed | Batch), line["why"]

    assert seen == (set(ENVELOPE_LINES) if revision == "2025-11-25" else set())


# ---------------------------------------------------------------- what is no JSON


@pytest.mark.spec("B-2")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'\xff\xfe{"x"', "invalid UTF-8 at byte 0"),
        (b'{"jsonrpc":"2.0","id":1,"method":"\xed\xa0\x80"}', "invalid UTF-8 at byte 34"),
        (b"", "invalid JSON: Expecting value at character 0"),
        (b"{", "invalid JSON: Expecting property name enclosed in double quotes at character 1"),
        (b"Starting server ...", "invalid JSON: Expecting value at character 0"),
        (b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b"}", "a number with too many digits"),
        (b"[" * 100_000, "nested deeper than 128 levels"),
    ],
)
def test_input_that_is_no_json_is_a_parse_error(data: bytes, reason: str) -> None:
    assert decode(data, depth=DEPTH) == Malformed(Flaw.UNPARSABLE, ErrorCode.PARSE_ERROR, reason)


@pytest.mark.spec("B-14")
@pytest.mark.parametrize(
    ("member", "reason"),
    [
        ('"params":{"v":NaN}', "$.params.v: nan is no JSON number"),
        ('"params":{"v":[-Infinity]}', "$.params.v[0]: -inf is no JSON number"),
        ('"params":{"v":1e999}', "$.params.v: inf is no JSON number"),
        ('"params":{"v":"\\ud800"}', "$.params.v: a lone surrogate is no text"),
        ('"params":{"\\udfff":1}', "$.params: a lone surrogate is no text"),
        ('"v":NaN,"v":1', "NaN and Infinity are not JSON"),
        ('"v":1e999,"v":1', "invalid JSON"),
    ],
)
def test_almost_json_is_a_parse_error_with_the_id_it_carries(member: str, reason: str) -> None:
    assert read_text(f'{{"jsonrpc":"2.0","id":4,"method":"m",{member}}}') == Malformed(
        Flaw.REQUEST, ErrorCode.PARSE_ERROR, reason, 4
    )


def test_almost_json_keeps_telling_requests_from_answers() -> None:
    answer = read_text('{"jsonrpc":"2.0","id":4,"result":{"v":NaN}}')
    notification = read_text('{"jsonrpc":"2.0","method":"m","params":{"v":NaN}}')
    number = read_text("NaN")

    assert isinstance(answer, Malformed)
    assert isinstance(notification, Malformed)
    assert isinstance(number, Malformed)
    assert (answer.flaw, answer.id) == (Flaw.ANSWER, 4)
    assert (notification.flaw, notification.id) == (Flaw.UNPARSABLE, None)
    assert (number.flaw, number.reason) == (Flaw.UNPARSABLE, "$: nan is no JSON number")


def test_an_id_that_could_not_be_sent_back_is_no_id() -> None:
    malformed = read_text('{"jsonrpc":"2.0","id":"\\ud800","method":"m"}')

    assert malformed == Malformed(
        Flaw.REQUEST, ErrorCode.PARSE_ERROR, "$.id: a lone surrogate is no text"
    )


@pytest.mark.case("12")
def test_one_leading_bom_is_tolerated() -> None:
    data = b'\xef\xbb\xbf{"jsonrpc":"2.0","id":2,"method":"ping"}'

    assert decode(data, depth=DEPTH) == Request(2, "ping")
    assert isinstance(decode(b"\xef\xbb\xbf" + data, depth=DEPTH), Malformed)


def nested(depth: int) -> bytes:
    """A request whose JSON is exactly *depth* levels deep, in objects and arrays by turns."""
    inner = b"0"
    for level in range(depth - 2):
        inner = b"[%s]" % inner if level % 2 else b'{"k":%s}' % inner
    return b'{"jsonrpc":"2.0","id":4,"method":"m","params":{"v":%s}}' % inner


@given(depth=st.integers(2, 40))
def test_nesting_up_to_the_limit_is_read(depth: int) -> None:
    assert isinstance(decode(nested(depth), depth=depth), Request)
    assert decode(nested(depth + 1), depth=depth) == Malformed(
        Flaw.REQUEST, ErrorCode.INVALID_REQUEST, f"nested deeper than {depth} levels", 4
    )


def test_brackets_in_text_and_beside_each_other_are_not_depth() -> None:
    params = {"text": "[{" * 200, "flat": [[], {}] * 200}

    assert read({"jsonrpc": "2.0", "method": "m", "params": params}) == Notification("m", params)


@pytest.mark.spec("B-15")
@pytest.mark.parametrize(
    ("head", "flaw", "id_"),
    [
        ('"id":4,"result":', Flaw.ANSWER, 4),
        ('"method":"m","params":', Flaw.NOTIFICATION, None),
        ('"id":4,"method":"m","params":', Flaw.REQUEST, 4),
    ],
)
def test_what_is_too_deep_still_is_an_answer_or_a_notification(
    head: str, flaw: Flaw, id_: int | None
) -> None:
    """An error sent back for an answer would end the peer's own call of that id."""
    malformed = read_text(f'{{"jsonrpc":"2.0",{head}{"[" * 200}{"]" * 200}}}')

    assert malformed == Malformed(flaw, -32600, "nested deeper than 128 levels", id_)


def test_a_batch_that_is_too_deep_is_told_without_an_id() -> None:
    malformed = read_text("[" * 200 + "]" * 200)

    assert malformed == Malformed(Flaw.UNPARSABLE, -32600, "nested deeper than 128 levels")


# ---------------------------------------------------------------- decode never raises

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
envelopes = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | anything,
        "id": ids | anything,
        "method": st.text() | anything,
        "params": objects | anything,
        "result": objects | anything,
        "error": st.fixed_dictionaries({}, optional={"code": anything, "message": anything}),
    },
)
jsonish = (envelopes | anything).map(lambda v: json.dumps(v).encode())
damaged = st.builds(
    lambda data, at, byte: data[:at] + byte + data[at + 1 :],
    jsonish,
    st.integers(0, 60),
    st.binary(max_size=2),
)


@pytest.mark.spec("B-1", "B-14")
@given(data=jsonish | damaged | st.binary(), depth=st.integers(1, 5) | st.just(DEPTH))
@example(data=b'{"jsonrpc":"2.0","id":"\\ud800","error":NaN}', depth=DEPTH)
@example(data=b"\xef\xbb\xbf", depth=DEPTH)
def test_decode_never_raises_and_what_it_says_can_be_sent(data: bytes, depth: int) -> None:
    message = decode(data, depth=depth)

    if isinstance(message, Malformed):
        assert message.code in (-32700, -32600, -32602)
        assert encode(Failure(message.id, message.code, message.reason))
    elif not isinstance(message, Batch):
        assert decode(encode(message), depth=depth) == message


@given(text=jsonish.map(bytes.decode) | st.text())
def test_decode_accepts_no_more_than_the_standard_library_does(text: str) -> None:
    """Apart from numbers and text that cannot be written, the two agree in full."""
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        expected = None
    if expected is not None and find_unencodable(expected) is not None:
        expected = None
    # As a member the text must be one whole value again: two values would need a comma.
    message = read_text(f'{{"jsonrpc":"2.0","method":"m","params":{{"v":[{text}\n]}}}}')

    if expected is not None:
        assert message == Notification("m", {"v": [expected]})
    elif isinstance(message, Notification):
        assert message == Notification("m", {"v": json.loads(f"[{text}\n]")})


# ---------------------------------------------------------------- what cannot be written


@frozen
class Reading:
    """A class that the encoder writes by itself."""

    celsius: object


steps = st.lists(st.integers(0, 2) | st.text("abc", min_size=1, max_size=3), max_size=5)


def bury(leaf: object, way: list[int | str]) -> tuple[object, str]:
    """Put *leaf* at the end of *way*, beside harmless values; return it with its path."""
    value, path = leaf, ""
    for step in reversed(way):
        if isinstance(step, int):
            value, path = [None] * step + [value, "null"], f"[{step}]{path}"
        else:
            value, path = {"0": None, step: value, "~": 1.5}, f".{step}{path}"
    return value, f"$.result{path}"


@pytest.mark.spec("B-2")
@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        (math.nan, "nan is no JSON number"),
        (math.inf, "inf is no JSON number"),
        (-math.inf, "-inf is no JSON number"),
        ("a\ud800", "a lone surrogate is no text"),
        ({"\udfff": 1}, "a lone surrogate is no text"),
        (object(), "Encoding objects of type object is unsupported"),
        (1j, "Encoding objects of type complex is unsupported"),
        ({None: 1}, "Only dicts with str-like or number-like keys are supported"),
        (Reading(math.nan), "nan is no JSON number"),
        (Reading(object()), "Encoding objects of type object is unsupported"),
    ],
    ids=[
        "nan",
        "inf",
        "-inf",
        "surrogate",
        "surrogate in a key",
        "object",
        "complex",
        "null as a key",
        "nan in a class",
        "object in a class",
    ],
)
@given(way=steps)
def test_what_cannot_be_written_is_named_by_its_path(
    leaf: object, reason: str, way: list[int | str]
) -> None:
    result, path = bury(leaf, way)
    if isinstance(leaf, Reading) and "nan" in reason:
        path += ".celsius"

    with pytest.raises(Unencodable) as caught:
        encode(Result(1, result))

    assert (caught.value.path, caught.value.reason) == (path, reason)
    assert str(caught.value) == f"{path}: {reason}"


def test_what_contains_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append({"again": loop})
    reading = Reading([])
    reading.celsius.append(reading)  # type: ignore[attr-defined]  # a list

    for value in (loop, reading, [object(), reading]):
        with pytest.raises(Unencodable):
            encode(Result(1, value))


def test_other_keys_and_classes_that_the_encoder_knows_are_written() -> None:
    result = {1: None, "day": dt.date(2026, 7, 28), "set": {1}, "sum": Decimal("1.5")}

    assert json.loads(encode(Result(1, result)))["result"] == {
        "1": None,
        "day": "2026-07-28",
        "set": [1],
        "sum": "1.5",
    }


def test_the_search_for_a_fault_ends() -> None:
    """Beyond the bound the fault is still refused, only its path is not known."""
    with pytest.raises(Unencodable) as caught:
        encode(Result(1, [object(), *range(100_001)]))

    assert caught.value.path == "$"
    assert find_unencodable([object(), 1, 2], most=2) is None


keys = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
python_values = st.recursive(
    anything | st.binary(max_size=3) | st.just(object()) | st.dates() | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.builds(Reading, inner)
        | st.dictionaries(keys, inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=python_values)
def test_encode_writes_json_or_says_unencodable(value: object) -> None:
    try:
        data = encode(Result(1, value))
    except Unencodable:
        return

    json.loads(data, parse_constant=pytest.fail)
    assert find_unencodable(value) is None


# ---------------------------------------------------------------- lines


def framer(limit: int = 8, discard: int = 16) -> LineFramer:
    return LineFramer(limit, discard)


@pytest.mark.spec("T-1", "B-2")
@pytest.mark.case("12")
def test_lines_end_at_line_feeds_only() -> None:
    text = "a\u2028b\u2029c\u0085d"
    lines = [
        f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"s":"{text}"}}}}}}',
        '\ufeff{"jsonrpc":"2.0","id":2,"method":"ping"}',
        '{"jsonrpc":"2.0","id":3,"method":"ping"}',
    ]
    first, second, last = (line.encode() for line in lines)
    junk = b'\xff\xfe{"x"'
    data = first + b"\r\n" + second + b"\n" + junk + b"\n\n\r\n" + last

    feed_every_way(lambda: LineFramer(1000, 2000), data, [first, second, junk, last])

    assert [decode(line, depth=DEPTH) for line in (first, second, last)] == [
        Request(1, "ping", {"_meta": {"s": text}}),
        Request(2, "ping"),
        Request(3, "ping"),
    ]
    assert isinstance(decode(junk, depth=DEPTH), Malformed)


@pytest.mark.case("12", "14")
@pytest.mark.parametrize(
    ("data", "events"),
    [
        (b"", []),
        (b"\n\r\n\n", []),
        (b"\r", []),
        (b"ab", [b"ab"]),
        (b"a\rb\r\r\n", [b"a\rb\r"]),
        (b"12345678\n", [b"12345678"]),
        (b"1234567\r\n", [b"1234567"]),
        (b"12345678\r\nab\n", [Discarded(9), b"ab"]),
        (b"123456789\nab\n", [Discarded(9), b"ab"]),
        (b"ab\n1234567890123456\ncd", [b"ab", Discarded(16), b"cd"]),
        (b"ab\n123456789", [b"ab", Discarded(9)]),
        (b"123456789\n" * 3, [Discarded(9)] * 3),
    ],
)
def test_an_overlong_line_is_discarded_to_its_end(data: bytes, events: list[object]) -> None:
    parsers = feed_every_way(framer, data, events)

    assert not any(parser.overflowed for parser in parsers)


@pytest.mark.case("14")
@pytest.mark.parametrize("rest", [b"", b"\n", b"\nab\n", b"8\n9"])
def test_nothing_comes_out_of_a_stream_that_overflowed(rest: bytes) -> None:
    parsers = feed_every_way(framer, b"ab\n12345678901234567" + rest, [b"ab"])

    assert all(parser.overflowed for parser in parsers)


@pytest.mark.case("14")
@given(
    data=st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"d" * 8])).map(b"".join),
    draw=st.data(),
)
def test_the_lines_are_those_that_a_plain_split_gives(data: bytes, draw: st.DataObject) -> None:
    expect: list[object] = []
    for line in data.split(b"\n"):
        if len(line) > 16:
            break
        kept = line.removesuffix(b"\r")
        if len(line) > 8:
            expect.append(Discarded(len(line)))
        elif kept:
            expect.append(kept)

    feed_every_way(framer, data, expect, cuts=draw.draw(cuts_of(len(data))))


@pytest.mark.case("14")
@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 2**20])
@pytest.mark.parametrize("piece", [1, 4096, 65_536])
def test_sizes_around_buffers_and_limits(size: int, piece: int) -> None:
    if piece == 1 and size > 65_537:
        piece = 7
    for line_size, event in ((size - 1, None), (size, None), (size + 1, Discarded(size + 1))):
        line = b"x" * line_size
        data = line + b"\n"
        parser = LineFramer(size, 4 * size)

        events = [
            e for i in range(0, len(data), piece) for e in parser.receive(data[i : i + piece])
        ]

        assert events == [event or line]


def test_a_line_is_midway_until_its_line_feed() -> None:
    parser = framer()
    seen = []
    for data in (b"", b"ab", b"c\nd", b"\n", b"x" * 9, b"\n"):
        parser.receive(data)
        seen.append(parser.midway)

    assert seen == [False, True, True, False, True, False]


LARGE_TEXT = "x" * 20_000


@pytest.mark.parametrize(
    ("nesting", "flaw"), [(100, None), (126, None), (127, Flaw.REQUEST), (300, Flaw.REQUEST)]
)
def test_the_depth_of_a_large_message_is_bounded_too(nesting: int, flaw: Flaw | None) -> None:
    """Long texts are not searched for every bracket, and deep values are found all the same."""
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        value = opening * nesting + "0" + closing * nesting
        text = (
            f'{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"t":"{LARGE_TEXT}","v":{value}}}}}'
        )

        message = decode(text.encode(), depth=128)

        assert (message.flaw if isinstance(message, Malformed) else None) is flaw


def test_many_brackets_in_a_large_message_are_no_depth() -> None:
    """Only a value that nests is refused."""
    wide = {"t": LARGE_TEXT, "v": [[] for _ in range(500)]}

    assert decode(encode(Request(1, "x", wide)), depth=128) == Request(1, "x", wide)


@pytest.mark.parametrize("values", [1, 5_000])
def test_a_number_that_json_lacks_is_found_in_a_large_message(values: int) -> None:
    """NaN never leaves as null, however large the message and however many values it has."""
    params: dict[str, object] = {"t": LARGE_TEXT, "v": [0.5] * values}
    assert decode(encode(Request(1, "x", params)), depth=128) == Request(1, "x", params)

    with pytest.raises(Unencodable) as caught:
        encode(Request(1, "x", {**params, "n": [None, float("nan")]}))

    assert caught.value.path == "$.params.n[1]"
