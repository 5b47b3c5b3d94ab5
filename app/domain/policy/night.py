"""When a tenant's night begins."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameters import STRICT


@dataclass(frozen=True, config=STRICT)
class Night:
    """When a tenant's memories are looked after, once a date of its time zone."""

    starts_at: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] = "02:00"
    """Hour and minute in the tenant's time zone."""
    jitter_seconds: Annotated[int, Field(ge=0, le=21_600)] = 3600
    """Tenants are spread over this long; each keeps its own delay, so that its nights keep their time."""
    catch_up_hours: Annotated[float, Field(ge=1, le=168, allow_inf_nan=False)] = 24
    """A night that couldn't begin in time begins as soon as it can; later than this it is skipped."""

    @property
    def cron(self) -> str:
        """The same as a cron expression."""
        hour, _, minute = self.starts_at.partition(":")
        return f"{int(minute)} {int(hour)} * * *"
