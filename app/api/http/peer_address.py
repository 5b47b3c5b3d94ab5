"""Addresses of peers: which of them are proxies that the operator trusts, and which network belongs to one caller."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

from pydantic import IPvAnyNetwork

_OWN_PREFIX = 64
"""Length of the prefix that is assigned to an IPv6 host; it chooses the other bits freely."""


def parse_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address, an IPv4-mapped one as IPv4; None if the text isn't an address."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def is_in(text: str, networks: Iterable[IPvAnyNetwork]) -> bool:
    """Return True if an address belongs to one of the networks, which may be IPv4 or IPv4-mapped IPv6."""
    address = parse_address(text)
    if address is None:
        return False
    mapped = IPv6Address(f"::ffff:{address}") if isinstance(address, IPv4Address) else address
    return any(address in network or mapped in network for network in networks)


def find_network(text: str) -> str:
    """Return what one caller owns: the IPv4 address, or the /64 of an IPv6 address; other text as it is."""
    address = parse_address(text)
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _OWN_PREFIX), strict=False))
    return str(address or text)
