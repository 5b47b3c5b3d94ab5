"""Define the schedule of Celery's beat.

`SAFETY_NETS` are beat entries that run every few seconds. Each sends a nudge that does nothing if no work is pending,
so a lost message costs seconds; `expires` prevents a pile-up while workers are unavailable. Running two beats is
harmless.

Each tenant also has a row in PostgreSQL for each kind of job in `DEFAULT_SCHEDULE` (`app/services/jobs/schedule.py`),
where it can be paused and started manually. Its times are set by `night` in the tenant's policy; the steps of a night
are listed in order in `app/services/night/steps.py`.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from celery.schedules import schedule

from app import queues

_ORIGIN: Final = datetime(2000, 1, 1, tzinfo=UTC)


class Net(NamedTuple):
    """A nudge sent at a fixed interval."""

    task: str
    every_seconds: float


SAFETY_NETS: Final = (
    Net(queues.DRAIN, 1),
    Net(queues.INDEX, 2),
    Net(queues.EMBED_MEMORIES, 2),
    Net(queues.SCORE_MEMORIES, 2),
    Net(queues.RATE_MEMORIES, 2),
    Net(queues.WEBHOOKS, 2),
    Net(queues.RIGHTS_TICK, 5),
    Net(queues.TICK, 5),
    Net(queues.FIGURES, 15),
    Net(queues.GROWTH, 60),
)


def steady_now() -> datetime:
    """Return a time that advances steadily even if the wall clock is set: only differences mean anything.

    By the wall clock, beat would send nothing after a step back until the clock has caught up.
    """
    return _ORIGIN + timedelta(seconds=time.monotonic())


def beat_entries() -> dict[str, dict[str, object]]:
    """Return `SAFETY_NETS` in the format of Celery's beat."""
    return {
        net.task: {
            "task": net.task,
            "schedule": schedule(net.every_seconds, nowfun=steady_now),
            "options": {"queue": queues.TASKS[net.task], "expires": net.every_seconds},
        }
        for net in SAFETY_NETS
    }
