"""Proxies of an HTTP client: which one, and how to get through it.

The environment is read as curl and Go read it: ``http_proxy``, ``https_proxy``,
``all_proxy`` and ``no_proxy``, also in upper case. This machine itself is never reached
through a proxy of the environment, as in Go: nobody else could mean it.
"""

from __future__ import annotations

from base64 import b64encode
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Final, final
from urllib.parse import unquote, urlsplit

import h11
from attrs import field, frozen

from mcp_trio.wire.http_hosts import Origin, is_loopback, parse_origin

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trio

__all__ = ["Proxy", "ProxyRefused", "proxy_from_environment", "read_proxy", "tunnel"]


@final
@frozen
class Proxy:
    """Where a proxy is, and the ``Proxy-Authorization`` for it."""

    origin: Origin
    authorization: bytes | None = field(default=None, repr=False)


@final
class ProxyRefused(OSError):
    """The proxy does not let us through."""


def read_proxy(url: str) -> Proxy:
    """Return the proxy that *url* names; a bare ``host:port`` is one of HTTP.

    Raises:
        ValueError: it names none.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    credentials, _, authority = parts.netloc.rpartition("@")
    origin = parse_origin(f"{parts.scheme}://{authority}")
    if origin is None:
        raise ValueError(f"no http or https proxy: {authority!r}")
    if not credentials:
        return Proxy(origin)
    user, _, password = credentials.partition(":")
    pair = f"{unquote(user)}:{unquote(password)}".encode()
    return Proxy(origin, b"Basic " + b64encode(pair))


def proxy_from_environment(target: Origin, environ: Mapping[str, str]) -> Proxy | None:
    """Return the proxy through which *environ* wants *target* reached, None for none.

    Raises:
        ValueError: a variable names a proxy that is none.
    """
    if is_loopback(target.name) or _is_exempt(target, _variable(environ, "no_proxy")):
        return None
    found = _variable(environ, f"{target.scheme}_proxy") or _variable(environ, "all_proxy")
    return read_proxy(found) if found else None


def _variable(environ: Mapping[str, str], name: str) -> str:
    if name in environ:
        return environ[name].strip()
    if name == "http_proxy" and "REQUEST_METHOD" in environ:
        return ""  # in CGI the upper-case one is a header of the request ("httpoxy")
    return environ.get(name.upper(), "").strip()


def _is_exempt(target: Origin, rules: str) -> bool:
    return any(_matches(target, rule.strip().lower()) for rule in rules.split(","))


def _matches(target: Origin, rule: str) -> bool:
    if rule == "*":
        return True
    if not rule:
        return False
    try:
        return ip_address(target.name) in ip_network(rule, strict=False)
    except ValueError:
        pass  # a name, on one of the two sides
    name, _, port = rule.partition(":")
    if port and port != str(target.port):
        return False
    name = name.removeprefix("*").removeprefix(".")
    return target.name == name or target.name.endswith(f".{name}")


#: The proxy's answer to CONNECT. Precedent: h11's own default for a head.
_HEAD_BYTES: Final = 16_384


async def tunnel(stream: trio.abc.Stream, proxy: Proxy, target: Origin) -> None:
    """Ask the proxy at the other end of *stream* for a tunnel to *target*. A checkpoint.

    Raises:
        ProxyRefused: it answers with a status that is no success, or not in HTTP.
        OSError, trio.BrokenResourceError: the connection broke.
    """
    name = f"[{target.name}]" if ":" in target.name else target.name
    authority = f"{name}:{target.port}"
    headers = [("Host", authority)]
    if proxy.authorization is not None:
        headers.append(("Proxy-Authorization", proxy.authorization.decode("ascii")))
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    request = h11.Request(method="CONNECT", target=authority, headers=headers)
    head = connection.send(request)
    assert head is not None  # noqa: S101 - h11: only ConnectionClosed gives None
    await stream.send_all(head)
    connection.send(h11.EndOfMessage())
    try:
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(bytes(await stream.receive_some()))
            elif type(event) is h11.Response:
                break
            elif type(event) is not h11.InformationalResponse:
                raise ProxyRefused("the proxy closed the connection")
    except h11.RemoteProtocolError as exc:
        raise ProxyRefused(f"the proxy does not answer in HTTP: {exc}") from None
    if not 200 <= event.status_code < 300:
        raise ProxyRefused(
            f"the proxy refused a tunnel to {authority} with HTTP status {event.status_code}"
        )
    if connection.trailing_data[0]:
        raise ProxyRefused("the proxy sent bytes into the tunnel that nobody asked for")
