"""Which proxy is used, by the variables of the environment."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_trio.transports.http_proxy import Proxy, proxy_from_environment, read_proxy
from mcp_trio.wire.http_hosts import Origin, origin_of

P = {"http_proxy": "http://p:1", "https_proxy": "http://p:2"}


def chosen(url: str, environ: dict[str, str]) -> int | None:
    """The port of the proxy."""
    origin = origin_of(url)
    assert origin is not None
    proxy = proxy_from_environment(origin, environ)
    return None if proxy is None else proxy.origin.port


@pytest.mark.parametrize(
    ("url", "environ", "port"),
    [
        ("http://example.com/", P, 1),
        ("https://example.com/", P, 2),
        ("https://example.com/", {"HTTPS_PROXY": "p:3"}, 3),
        ("https://example.com/", {"HTTPS_PROXY": "p:3", "https_proxy": ""}, None),
        ("https://example.com/", {"ALL_PROXY": "p:4"}, 4),
        ("http://example.com/", {"HTTP_PROXY": "p:5"}, 5),
        ("http://example.com/", {"HTTP_PROXY": "p:5", "REQUEST_METHOD": "GET"}, None),
        ("http://example.com/", {}, None),
        ("http://localhost/", P, None),
        ("http://127.0.0.2:80/", P, None),
        ("http://[::1]/", P, None),
    ],
)
def test_the_variables(url: str, environ: dict[str, str], port: int | None) -> None:
    assert chosen(url, environ) == port


@pytest.mark.parametrize(
    ("url", "rules", "exempt"),
    [
        ("http://example.com/", "*", True),
        ("http://example.com/", "example.com", True),
        ("http://example.com/", " other.org , EXAMPLE.com ", True),
        ("http://a.example.com/", "example.com", True),
        ("http://a.example.com/", ".example.com", True),
        ("http://a.example.com/", "*.example.com", True),
        ("http://badexample.com/", "example.com", False),
        ("http://example.com:8080/", "example.com:8080", True),
        ("http://example.com:8081/", "example.com:8080", False),
        ("http://10.1.2.3/", "10.0.0.0/8", True),
        ("http://11.1.2.3/", "10.0.0.0/8", False),
        ("http://[fd00::1]/", "fd00::/8", True),
        ("http://example.com/", "10.0.0.0/8", False),
        ("http://example.com/", ",,", False),
        ("http://example.com/", "", False),
    ],
)
def test_exemptions(url: str, rules: str, exempt: bool) -> None:  # noqa: FBT001 - a parameter of the table
    for name in ("no_proxy", "NO_PROXY"):
        assert (chosen(url, {**P, name: rules}) is None) is exempt


def test_credentials_of_a_proxy_are_decoded_and_not_shown() -> None:
    proxy = read_proxy("http://me:p%40ss@proxy.example:3128")
    assert proxy == Proxy(Origin("http", "proxy.example", 3128), b"Basic bWU6cEBzcw==")
    assert "Basic" not in repr(proxy)


@pytest.mark.parametrize("url", ["socks5://p:1", "http://", "http://a b", "http://p:99999"])
def test_what_is_no_proxy(url: str) -> None:
    expected: Any = pytest.raises(ValueError, match="proxy")
    with expected:
        read_proxy(url)
