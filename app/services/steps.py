"""What a night does, in its order (design: lifecycle, The night): one line a step.

A step goes on from where it was left, for a few seconds, and says what it has done, as a job's step does. All that it
does is as of the night's moment, and may be done again after a crash, or the night after.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.domain.jobs import Step
from app.services import graphs, retention, sweep

CarryOn = Callable[[UUID, datetime, dict[str, Any], float], Step]
"""Takes the tenant, the night's moment, the state that the step before left (empty at first), and when to leave off by
the monotonic clock; a slice, at most 500 rows or some seconds, is done in any case."""

STEPS: Final[dict[str, CarryOn]] = {
    "sweep": sweep.carry_on,
    "retention": retention.carry_on,
    "graphs": graphs.carry_on,
}
