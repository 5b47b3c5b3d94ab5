"""Settings of webhooks, a part of `app.settings`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode


class WebhookSettings(BaseSettings):
    """Receivers that webhooks may call, and how long they may take."""

    webhook_hosts: Annotated[frozenset[str], NoDecode] = frozenset()
    """Host names or addresses that webhooks may reach although they are private, also by plain HTTP, such as
    `receiver.internal,127.0.0.1`. Other receivers need a public address and HTTPS. Link-local and metadata addresses
    are always refused."""
    webhook_timeout_seconds: float = Field(10, gt=0, le=30)
    """Timeout of a request to a receiver, from the connection to the end of its answer."""

    @field_validator("webhook_hosts", mode="before")
    @classmethod
    def _receivers(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return frozenset(name.strip().lower() for name in given.split(",") if name.strip())
