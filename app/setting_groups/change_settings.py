"""Settings of the change feed, a part of `app.settings`."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class ChangeSettings(BaseSettings):
    """Limits of the change feed. How long changes are retained is part of each tenant's policy."""

    change_streams_max: int = Field(10, ge=0, le=10_000)
    """Maximum open streams of changes per tenant and API process; requests for more get a 503, and their senders can
    read pages instead. 0 serves no streams."""
