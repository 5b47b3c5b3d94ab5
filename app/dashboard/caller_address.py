"""Find the address of a caller behind trusted proxies."""

from __future__ import annotations

from ipaddress import ip_address

from fastapi import Request
from pydantic import IPvAnyNetwork

from app.api.http.request_body import header
from app.settings import settings


def caller_address(request: Request) -> str:
    """Return the caller's address: the last one in `X-Forwarded-For` that isn't a trusted proxy.

    The header counts only if the connection comes from a trusted proxy, since anybody can send it.
    """
    address = request.client.host if request.client else ""
    trusted = settings().trusted_proxies
    forwarded = (header(request.scope, b"x-forwarded-for") or "").split(",")
    while forwarded and _is_in(address, trusted):
        found = forwarded.pop().strip()
        if not _is_address(found):
            break
        address = found
    return address


def _is_in(address: str, networks: tuple[IPvAnyNetwork, ...]) -> bool:
    return _is_address(address) and any(ip_address(address) in network for network in networks)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
