"""Addresses of peers: which of them are proxies that the operator trusts, and which belong to one caller."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address

from pydantic import IPvAnyNetwork

_HOST_BITS = 64
"""Bits of an IPv6 address that its owner chooses freely: providers assign networks of at least 64 bits."""


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address, an IPv4-mapped one as IPv4; None if it is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_in(text: str, networks: Iterable[IPvAnyNetwork]) -> bool:
    """Return True if an address belongs to one of the networks."""
    address = parse_address(text)
    return address is not None and any(address in network for network in networks)


def owner_of(text: str) -> str:
    """Return what one caller owns: the IPv4 address, or the /64 network of an IPv6 address."""
    address = parse_address(text)
    if isinstance(address, IPv6Address):
        return f"{int(address) >> _HOST_BITS:x}/64"
    return str(address or text)
