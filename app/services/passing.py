"""Which failures pass by themselves: PostgreSQL, Redis, cold storage or a provider away or full; a budget spent."""

from __future__ import annotations

from app.clients.cold_store import StoreFailed
from app.clients.llm.resilience import ProviderFailed, Verdict
from app.clients.redis.redis import RedisError
from app.store.core import database


class OverBudget(Exception):
    """A tenant has spent what it may today: work that costs waits for tomorrow, or for a larger budget."""


def is_passing(error: BaseException) -> bool:
    """Whether the same work may succeed later as it is, so that the failure isn't the work's fault."""
    if isinstance(error, ProviderFailed):
        return error.treatment.verdict is Verdict.RETRY
    if isinstance(error, StoreFailed):
        return error.passing
    return isinstance(error, OverBudget | RedisError) or database.is_passing(error)
