"""Find the address of a caller behind trusted proxies."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request

from app.api.http.peer_address import is_in, parse_address
from app.settings import settings

_WITH_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::[0-9]{1,5})?")
"""An IPv6 address in brackets or an IPv4 address, each with or without a port."""


def caller_address(request: Request) -> str:
    """Return the caller's address: the last one in `X-Forwarded-For` that isn't a trusted proxy.

    The header counts only if the connection comes from a trusted proxy, since anybody can send it. All its lines are
    one list, because a proxy may append its entry as a line of its own. An entry that isn't an address ends the list:
    the caller then has the address of the last trusted proxy.
    """
    address = _parse_entry(request.client.host if request.client else "")
    entries = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    while entries and is_in(address, settings().trusted_proxies):
        found = _parse_entry(entries.pop())
        if parse_address(found) is None:
            break
        address = found
    return address


def _parse_entry(entry: str) -> str:
    """Return an entry's address without quotes, brackets and port, IPv4 if it is IPv4-mapped; other text as it is."""
    text = entry.strip().strip('"')
    if found := _WITH_PORT.fullmatch(text):
        text = found[1] or found[2]
    return str(parse_address(text) or text)
