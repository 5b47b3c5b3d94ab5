"""Classify transient failures: PostgreSQL, Redis, cold storage or a provider unavailable or full, or a budget spent."""

from __future__ import annotations

from app.clients.llm.resilience import ProviderFailed, Verdict
from app.clients.object_store import StoreFailed
from app.clients.redis.connection import RedisError
from app.store.core import database


class OverBudget(Exception):
    """Raised when a tenant has spent its daily budget: paid work waits for the next day or a larger budget."""


def is_transient(error: BaseException) -> bool:
    """Return whether the same work may succeed later unchanged, so that the failure isn't the work's fault."""
    if isinstance(error, ProviderFailed):
        return error.treatment.verdict is Verdict.RETRY
    if isinstance(error, StoreFailed):
        return error.is_transient
    return isinstance(error, OverBudget | RedisError) or database.is_passing(error)
