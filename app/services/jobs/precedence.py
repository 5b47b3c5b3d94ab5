"""Who goes first: jobs give way to what waits to be stored or indexed, but not for ever."""

from __future__ import annotations

from typing import Final

from app.clients.redis.stream import backlog
from app.settings import settings
from app.store.core import database
from app.store.enrichment import work

_HOUR_SECONDS: Final = 3600
_DAY_SECONDS: Final = 24 * _HOUR_SECONDS


def has_ingest(age_seconds: float) -> bool:
    """Whether a job shall wait, since ingest is behind and the job hasn't waited its hours of this day yet.

    Args:
        age_seconds: Since the job was entered; its days are counted from there.
    """
    config = settings()
    may_wait = age_seconds % _DAY_SECONDS < config.jobs_wait_hours * _HOUR_SECONDS
    return may_wait and ingest_age_seconds() > config.ingest_behind_seconds


def ingest_age_seconds() -> float:
    """How long the oldest waits that is to be stored or indexed; 0 where none does."""
    queue = backlog()
    oldest_ms = queue.oldest_ms()
    unstored = 0.0 if oldest_ms is None else max(queue.now_ms() - oldest_ms, 0) / 1000
    with database.shared() as tx:
        return max(unstored, work.oldest_age_seconds(tx, work.INDEX))
