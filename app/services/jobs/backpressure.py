"""Decide whether maintenance jobs must wait for ingest to catch up; the wait is limited per day."""

from __future__ import annotations

from typing import Final

from app.clients.redis.stream import backlog
from app.settings import settings
from app.store.core import database
from app.store.enrichment import work_queue

_HOUR_SECONDS: Final = 3600
_DAY_SECONDS: Final = 24 * _HOUR_SECONDS


def must_wait_for_ingest(age_seconds: float) -> bool:
    """Return whether a job must wait because ingest is behind and the job hasn't used up its daily waiting time.

    Args:
        age_seconds: Time since the job's creation. The job's days are counted from its creation.
    """
    config = settings()
    may_wait = age_seconds % _DAY_SECONDS < config.jobs_wait_hours * _HOUR_SECONDS
    return may_wait and ingest_age_seconds() > config.ingest_behind_seconds


def ingest_age_seconds() -> float:
    """Return the age of the oldest memory that isn't stored or indexed yet, or 0 without a backlog."""
    queue = backlog()
    oldest_ms = queue.oldest_ms()
    unstored = 0.0 if oldest_ms is None else max(queue.now_ms() - oldest_ms, 0) / 1000
    with database.shared() as tx:
        return max(unstored, work_queue.oldest_age_seconds(tx, work_queue.INDEX))
