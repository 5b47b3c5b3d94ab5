"""The schedule of a tenant's nightly maintenance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameter_types import STRICT


@dataclass(frozen=True, config=STRICT)
class Night:
    """Schedule of nightly maintenance, which runs once per calendar day in the tenant's time zone."""

    starts_at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "02:00"
    """Hour and minute in the tenant's time zone."""
    jitter_seconds: Annotated[int, Field(ge=0, le=21_600)] = 3600
    """Period over which tenants' nights are spread; each tenant has a fixed delay, so its nights start at a constant
    time."""
    catch_up_hours: Annotated[float, Field(ge=1, le=168, allow_inf_nan=False)] = 24
    """A delayed night starts as soon as possible, but is skipped if it is later than this."""

    @property
    def cron(self) -> str:
        """The start time as a cron expression."""
        hour, _, minute = self.starts_at.partition(":")
        return f"{int(minute)} {int(hour)} * * *"
