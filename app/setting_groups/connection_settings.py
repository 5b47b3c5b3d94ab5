"""Settings of the API's connections, a part of `app.settings`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, IPvAnyNetwork, field_validator
from pydantic_settings import BaseSettings, NoDecode


class ConnectionSettings(BaseSettings):
    """Limits of single connections and addresses. `connections_max` limits their total."""

    trusted_proxies: Annotated[tuple[IPvAnyNetwork, ...], NoDecode] = ()
    """Addresses or networks of the proxies in front of the API, such as `10.0.0.0/8,192.168.1.4`: their connections
    have no limit per address, and their `X-Forwarded-For` names the caller, for the limit on failed log-ins. The caller
    is the last address, in all lines of the header, that isn't one of these proxies."""
    connections_per_address: int = Field(256, ge=1)
    """Maximum open connections from one IPv4 address or one IPv6 network of 64 bits; the newest ones above it are
    closed. Addresses in `TRUSTED_PROXIES` are exempt: name a proxy there, or its callers share this limit. Linux
    only."""
    first_request_timeout_seconds: float = Field(5, ge=1)
    """Timeout for the headers of a new connection's first request, whatever `REQUEST_HEADERS_TIMEOUT_SECONDS` allows
    for later ones. Linux only."""
    response_unread_timeout_seconds: float = Field(30, ge=1)
    """A connection is closed if its client accepts nothing of a waiting response for this time. Any progress starts the
    time again. Linux only."""

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _networks(cls, given: object) -> object:
        return tuple(filter(None, map(str.strip, given.split(",")))) if isinstance(given, str) else given
