"""Settings of the APIs of other memory services, a part of `app.settings`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class CompatSettings(BaseSettings):
    """Settings of the APIs of other memory services; each is off by default."""

    compat_memory_decay: str | None = Field(None, min_length=1, max_length=200)
    """Name of the tenant that memory-decay's HTTP API serves, below `/memory-decay`. If unset, the API is off."""
    compat_memory_decay_keys: bool = True
    """Require an API key of that tenant. If off, anyone who can reach the API's port can read and delete the tenant's
    memories through memory-decay's API, whose clients send no key."""
