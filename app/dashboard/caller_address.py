"""Find the address of a caller behind trusted proxies."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from fastapi import Request

from app.settings import settings

Address = IPv4Address | IPv6Address

_WITH_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
"""An IPv6 address in brackets or an IPv4 address, each with or without a port."""


def caller_address(request: Request) -> str:
    """Return the caller's address: the last one in `X-Forwarded-For` that isn't a trusted proxy.

    The header counts only if the connection comes from a trusted proxy, since anybody can send it. All its lines are
    one list, because a proxy may append its entry as a line of its own. An entry that isn't an address ends the list:
    the caller then has the address of the last trusted proxy.
    """
    peer = request.client.host if request.client else ""
    address = _parse(peer)
    if address is None:
        return peer
    entries = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while entries and _is_trusted(address):
        found = _parse(entries.pop())
        if found is None:
            break
        address = found
    return str(address)


def _is_trusted(address: Address) -> bool:
    """Return True for an address of a trusted proxy; networks may be written as IPv4 or as IPv4-mapped IPv6."""
    mapped = IPv6Address(f"::ffff:{address}") if isinstance(address, IPv4Address) else address
    return any(address in network or mapped in network for network in settings().trusted_proxies)


def _parse(entry: str) -> Address | None:
    """Return the address of an entry, IPv4 if it is IPv4-mapped; None if the entry isn't an address."""
    text = entry.strip().strip('"')
    if found := _WITH_PORT.fullmatch(text):
        text = found[1] or found[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
