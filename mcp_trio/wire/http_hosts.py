"""Hosts and origins: what ``Host``, ``Origin`` and URLs name, in a form that compares.

Source: RFC 3986 § 3.2; RFC 6454 § 4 and § 6.2; RFC 9110 § 7.2 (Host).
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, final
from urllib.parse import urlsplit

from attrs import frozen

__all__ = ["Authority", "Origin", "is_loopback", "origin_of", "parse_authority", "parse_origin"]


@final
@frozen
class Authority:
    """A host, and the port where one is named.

    ``name`` is in lower case, without the dot that may end it and without brackets; an
    IPv6 address is in its shortest form.
    """

    name: str
    port: int | None = None


@final
@frozen
class Origin:
    """Scheme, host and port of a page or a URL; the port is the scheme's where none is named."""

    scheme: str
    name: str
    port: int


_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{0,5}))?")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_HIGHEST_PORT: Final = 65_535


def parse_authority(text: str) -> Authority | None:
    """Return what ``host[:port]`` names, None where *text* is no such thing."""
    found = _AUTHORITY.fullmatch(text)
    if found is None:
        return None
    address, name, digits = found.groups()
    if address is not None:
        try:
            name = IPv6Address(address).compressed
        except ValueError:
            return None
    name = name.lower().removesuffix(".")
    port = int(digits) if digits else None
    if not name or (port is not None and port > _HIGHEST_PORT):
        return None
    return Authority(name, port)


def parse_origin(text: str) -> Origin | None:
    """Return the http or https origin that *text* is, None for ``null`` and anything else."""
    scheme, _, rest = text.partition("://")
    authority = parse_authority(rest)
    default = _DEFAULT_PORTS.get(scheme.lower())
    if authority is None or default is None:
        return None
    port = default if authority.port is None else authority.port
    return Origin(scheme.lower(), authority.name, port)


def origin_of(url: str) -> Origin | None:
    """Return the origin of an http or https *url*, None where it has none or names a user."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    return parse_origin(f"{parts.scheme}://{parts.netloc}")


@lru_cache(maxsize=256)  # clients ask for the same few over and over
def is_loopback(name: str) -> bool:
    """Tell whether *name*, as an `Authority` has it, is this machine's own."""
    if name == "localhost":
        return True
    try:
        address = ip_address(name)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback
