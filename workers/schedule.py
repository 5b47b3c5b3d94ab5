"""The whole schedule.

`SAFETY_NETS` are plain beat entries of a few seconds. Each is a nudge that does nothing when there is nothing to
do, so a lost message costs seconds; `expires` keeps them from piling up while workers are away. Two beats do no
harm.

`DEFAULT_SCHEDULE` are the kinds of jobs for which each tenant has a row in PostgreSQL, where they can be paused and
run by hand; the tick inserts those that a tenant lacks. Their times are those of the tenant's policy, `night`; what a
night does, from top to bottom, stands in `app/services/night/steps.py`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from app import queues


class Net(NamedTuple):
    """A nudge every so many seconds."""

    task: str
    every_seconds: float


SAFETY_NETS: Final = (
    Net(queues.DRAIN, 1),
    Net(queues.INDEX, 2),
    Net(queues.EMBED_MEMORIES, 2),
    Net(queues.SCORE_MEMORIES, 2),
    Net(queues.RATE_MEMORIES, 2),
    Net(queues.RIGHTS_TICK, 5),
    Net(queues.TICK, 5),
    Net(queues.FIGURES, 15),
)

DEFAULT_SCHEDULE: Final = ("night",)


def beat_entries() -> dict[str, dict[str, object]]:
    """`SAFETY_NETS` as Celery's beat wants them."""
    return {
        net.task: {
            "task": net.task,
            "schedule": net.every_seconds,
            "options": {"queue": queues.TASKS[net.task], "expires": net.every_seconds},
        }
        for net in SAFETY_NETS
    }
