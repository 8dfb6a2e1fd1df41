"""Who may talk to an endpoint."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_trio.errors import ErrorCode
from mcp_trio.wire.http_head import SINGLE_VALUED, RequestHead
from mcp_trio.wire.http_policy import (
    HttpPolicy,
    Reject,
    check_host_origin,
    cors_headers,
    preflight_headers,
    refuse,
    render_error_body,
)
from mcp_trio.wire.jsonrpc import Failure, decode
from mcp_trio.wire.media import Accepts
from tests.spec_files import json_lines

LOCAL = HttpPolicy()
LISTED = HttpPolicy(allowed_hosts=["mcp.example.com", "other.example.com:8443", "tls.example:443"])
NETWORK = HttpPolicy(loopback=False)
NAMED = HttpPolicy(
    loopback=False,
    allowed_hosts=["mcp.example.com"],
    allowed_origins=["https://app.example.com", "http://dev.example.com:3000"],
)


def head_of(*headers: tuple[str, str], method: str = "POST", target: str = "/mcp") -> RequestHead:
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    return RequestHead.read(method.encode(), target.encode(), raw)


def asked(policy: HttpPolicy, host: str | None = "localhost", origin: str | None = None) -> int:
    headers = [("Host", host)] * (host is not None) + [("Origin", origin)] * (origin is not None)
    refused = check_host_origin(head_of(*[(n, v) for n, v in headers if v is not None]), policy)
    return 200 if refused is None else refused.status


# ---------------------------------------------------------------- Host


@pytest.mark.case("21")
@pytest.mark.parametrize(
    ("host", "local", "listed"),
    [
        ("localhost", 200, 200),
        ("localhost:8000", 200, 200),
        ("LOCALHOST", 200, 200),
        ("[::1]:8000", 200, 200),
        ("127.0.0.1", 200, 200),
        ("127.0.0.1:1", 200, 200),
        ("mcp.example.com", 421, 200),
        ("mcp.example.com.", 421, 200),
        ("MCP.example.com:9", 421, 200),
        ("other.example.com:8443", 421, 200),
        ("other.example.com:8444", 421, 421),
        ("other.example.com", 421, 421),
        ("tls.example", 421, 200),
        ("evil.com", 421, 421),
        ("localhost.evil.com", 421, 421),
        ("0.0.0.0", 421, 421),  # noqa: S104  # not bound to
        ("not a host", 400, 400),
        ("", 400, 400),
        (None, 400, 400),
    ],
)
def test_hosts(host: str | None, local: int, listed: int) -> None:
    assert asked(LOCAL, host) == local
    assert asked(LISTED, host) == listed


@pytest.mark.case("21")
def test_an_endpoint_on_the_network_checks_the_host_only_if_it_has_names() -> None:
    assert asked(NETWORK, "192.168.1.5:8000") == 200
    assert asked(NETWORK, None) == 200
    assert asked(NAMED, "mcp.example.com") == 200
    assert asked(NAMED, "localhost") == 421
    assert asked(NAMED, None) == 400


def test_a_target_in_absolute_form_names_the_host() -> None:
    assert (
        check_host_origin(head_of(("Host", "evil.com"), target="http://localhost/mcp"), LOCAL)
        is None
    )
    refused = check_host_origin(head_of(("Host", "localhost"), target="http://evil.com/mcp"), LOCAL)

    assert refused is not None
    assert refused.status == 421


@pytest.mark.case("21")
@pytest.mark.parametrize("name", sorted(SINGLE_VALUED))
def test_a_header_that_may_come_once_comes_once(name: str) -> None:
    refused = check_host_origin(head_of(("Host", "localhost"), (name, "a"), (name, "a")), LOCAL)

    assert refused is not None
    assert refused.status == 400
    assert (
        check_host_origin(head_of(("Host", "localhost"), *[("Accept", "a/b")] * 2), LOCAL) is None
    )


# ---------------------------------------------------------------- Origin


@pytest.mark.case("21")
@pytest.mark.spec("HL-2", "HL-3", "HS-5")
@pytest.mark.parametrize(
    ("origin", "local", "network", "named"),
    [
        (None, 200, 200, 200),
        ("null", 403, 403, 403),
        ("", 403, 403, 403),
        ("http://localhost:3000", 200, 200, 403),
        ("https://127.0.0.1", 200, 200, 403),
        ("http://[::1]:6274", 200, 200, 403),
        ("http://evil.com", 403, 403, 403),
        ("http://localhost.evil.com", 403, 403, 403),
        ("http://localhost@evil.com", 403, 403, 403),
        ("https://app.example.com", 403, 403, 200),
        ("HTTPS://APP.example.com:444", 403, 403, 200),
        ("http://app.example.com", 403, 403, 403),
        ("http://dev.example.com:3000", 403, 403, 200),
        ("http://dev.example.com", 403, 403, 403),
    ],
)
def test_origins(origin: str | None, local: int, network: int, named: int) -> None:
    assert asked(LOCAL, "localhost", origin) == local
    assert asked(NETWORK, "192.168.1.5", origin) == network
    assert asked(NAMED, "mcp.example.com", origin) == named


def test_pages_of_this_machine_are_fine_beside_those_that_are_named() -> None:
    policy = HttpPolicy(allowed_origins=["https://app.example.com"])

    assert asked(policy, "localhost", "http://localhost:3000") == 200
    assert asked(policy, "localhost", "https://app.example.com") == 200


def test_a_star_is_any_host_or_origin_but_never_null() -> None:
    policy = HttpPolicy(allowed_hosts=["*"], allowed_origins=["*"])

    assert asked(policy, "evil.com", "http://evil.com:81") == 200
    assert asked(policy, "evil.com", "null") == 403


@pytest.mark.parametrize("entry", ["", "https://a.b", "a b", "a.b/mcp", "a:99999"])
def test_a_host_that_could_never_match_is_a_mistake(entry: str) -> None:
    with pytest.raises(ValueError, match="allowed_hosts"):
        HttpPolicy(allowed_hosts=[entry])


@pytest.mark.parametrize("entry", ["", "a.b", "https://a.b/", "ftp://a.b", "null", "https://"])
def test_an_origin_that_could_never_match_is_a_mistake(entry: str) -> None:
    with pytest.raises(ValueError, match="allowed_origins"):
        HttpPolicy(allowed_origins=[entry])


@pytest.mark.parametrize("bad", [{"body_bytes": 0}, {"batch": 0}])
def test_limits_are_positive(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be > 0"):
        HttpPolicy(**bad)


@pytest.mark.spec("HS-5")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_the_bad_origin_of_the_specification(revision: str) -> None:
    lines = json_lines(f"{revision}.http.jsonl")
    (exchange,) = [line for line in lines if line["name"] == "bad-origin"]
    headers = exchange["request"]["headers"]
    method = exchange["request"]["method"]
    refused = check_host_origin(
        head_of(("Host", "localhost"), *headers.items(), method=method), LOCAL
    )

    assert refused is not None
    assert refused.status == exchange["response"]["status"]
    assert b'"id"' not in render_error_body(refused)


# ---------------------------------------------------------------- what a refusal says


@pytest.mark.case("21")
def test_a_refusal_names_the_setting() -> None:
    host = check_host_origin(head_of(("Host", "evil.com")), LOCAL)
    origin = check_host_origin(head_of(("Host", "localhost"), ("Origin", "x" * 999)), LOCAL)

    assert host is not None
    assert origin is not None
    assert host.error is not None
    assert origin.error is not None
    assert host.error.message == (
        "the host 'evil.com' is not served here; to serve it, name it in allowed_hosts"
    )
    assert origin.error.message == (
        f"the origin '{'x' * 80}...' is refused; to let its pages in, name it in allowed_origins"
    )


@pytest.mark.spec("HL-8")
def test_a_refusal_is_a_json_rpc_error_without_an_id() -> None:
    body = render_error_body(refuse(400, "no \xff"))

    assert body.startswith(b'{"jsonrpc":"2.0","error":{"code":-32600,')
    assert decode(body, depth=9) == Failure(
        None, ErrorCode.INVALID_REQUEST, "no \xff", omit_id=True
    )
    assert render_error_body(Reject(status=405, error=None)) == b""
    assert b'"id":7' in render_error_body(refuse(400, "", id_=7))


# ---------------------------------------------------------------- methods and CORS


def test_methods_are_those_that_the_policy_serves() -> None:
    assert HttpPolicy().methods == ("POST", "GET", "DELETE")
    assert HttpPolicy(cors=True).methods == ("POST", "GET", "DELETE", "OPTIONS")
    assert HttpPolicy(get_stream=False).methods == ("POST", "DELETE")
    assert HttpPolicy(answers=Accepts(json=True, sse=False)).methods == ("POST", "DELETE")
    assert HttpPolicy(stateless=True).methods == ("POST",)


def test_cors_is_off_unless_it_is_on() -> None:
    page = head_of(("Host", "localhost"), ("Origin", "http://localhost:6274"))
    policy = HttpPolicy(cors=True)

    assert cors_headers(page, LOCAL) == ()
    assert cors_headers(page, policy) == (
        (b"Vary", b"Origin"),
        (b"Access-Control-Allow-Origin", b"http://localhost:6274"),
        (b"Access-Control-Expose-Headers", b"Mcp-Session-Id, WWW-Authenticate"),
    )
    assert cors_headers(head_of(("Host", "localhost")), policy) == ((b"Vary", b"Origin"),)


def test_a_refused_origin_may_not_read_that_it_is() -> None:
    page = head_of(("Host", "localhost"), ("Origin", "http://evil.com"))

    assert cors_headers(page, HttpPolicy(cors=True)) == ((b"Vary", b"Origin"),)


def test_a_preflight_is_told_what_mcp_needs() -> None:
    headers = dict(preflight_headers(HttpPolicy(cors=True)))

    assert headers[b"Access-Control-Allow-Methods"] == b"POST, GET, DELETE, OPTIONS"
    for name in (b"Mcp-Session-Id", b"MCP-Protocol-Version", b"Last-Event-ID", b"Authorization"):
        assert name in headers[b"Access-Control-Allow-Headers"]
