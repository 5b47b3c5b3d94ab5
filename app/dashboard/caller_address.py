"""Find the address of a caller behind trusted proxies."""

from __future__ import annotations

from fastapi import Request

from app.api.http.peer_address import is_in, parse_address
from app.api.http.request_body import header
from app.settings import settings


def caller_address(request: Request) -> str:
    """Return the caller's address: the last one in `X-Forwarded-For` that isn't a trusted proxy.

    The header counts only if the connection comes from a trusted proxy, since anybody can send it.
    """
    address = request.client.host if request.client else ""
    trusted = settings().trusted_proxies
    forwarded = (header(request.scope, b"x-forwarded-for") or "").split(",")
    while forwarded and is_in(address, trusted):
        found = forwarded.pop().strip()
        if parse_address(found) is None:
            break
        address = found
    return address
