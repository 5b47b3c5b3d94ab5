"""Compare tenants side by side: their backlog, storage, last night and budget, oldest backlog first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from app.clients.redis import queues_of_tenants
from app.clients.redis.queues_of_tenants import Queue
from app.domain.policy import budget
from app.domain.policy.budget import Spent, Standing, State
from app.services.night import night
from app.services.tenants import quota
from app.services.tenants.budget import operators_limits
from app.settings import settings
from app.store.core import database
from app.store.enrichment.work import NIL
from app.store.memories.tenant_counts import Counts
from app.store.tenants import tenant_comparison as rows
from app.store.tenants import usage
from app.store.tenants.tenant_comparison import Numbers

SHOWN: Final = 50
COMPARED: Final = queues_of_tenants.COMPARED_MOST
NEAR: Final = 0.8
"""Share of a queue limit from which a tenant counts as close to it."""

Room = Literal["free", "near", "full"]


@dataclass(frozen=True, slots=True)
class ComparedTenant:
    """A tenant's row in the comparison.

    Attributes:
        room: Room in its queue; when `full`, its requests are refused until some of the backlog is stored.
        quota: State of its storage quota, which never causes refusals.
        filled: Used share of the queue limit that is closest to full.
        budget: State of today's budget, by the operator's limits and the tenant's own.
    """

    numbers: Numbers
    queue: Queue
    room: Room
    filled: float
    quota: quota.State
    budget: State

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest backlog entry, to be stored or for a later stage."""
        ages = [age for age in (self.queue.oldest_seconds, self.numbers.enriching_seconds) if age is not None]
        return max(ages, default=None)


def waiting_longest() -> list[ComparedTenant]:
    """Return at most `SHOWN` tenants: those with the oldest backlog first, then others by name."""
    queues = queues_of_tenants.longest(SHOWN)
    with database.shared() as tx:
        ids = list(dict.fromkeys([*(queue.tenant_id for queue in queues), *rows.enriching_longest(tx, SHOWN)]))
        ids += rows.search_by_name(tx, "", max(SHOWN - len(ids), 0), but=ids)
        numbers = rows.numbers(tx, ids, night.KIND)
        total = _spent_by_all(tx)
    found = _beside(numbers, total)
    found.sort(key=lambda one: (-(one.oldest_seconds or 0.0), one.numbers.name))
    return found[:SHOWN]


def called(words: str) -> list[ComparedTenant]:
    """Return at most `SHOWN` tenants whose name contains this text, by name."""
    with database.shared() as tx:
        numbers = rows.numbers(tx, rows.search_by_name(tx, words, SHOWN), night.KIND)
        total = _spent_by_all(tx)
    return _beside(numbers, total)


def _spent_by_all(tx: database.Transaction) -> Spent:
    """Return today's spending of all tenants; zero if no limit applies to it."""
    _, _, total = usage.spent_today(tx, NIL, total=operators_limits(settings()).has_total)
    return total


def _beside(numbers: list[Numbers], total: Spent) -> list[ComparedTenant]:
    """Combine the numbers with the tenants' backlogs, which are read outside the transaction."""
    config = settings()
    found = []
    for each, queue in zip(numbers, queues_of_tenants.tenant_queues([each.tenant_id for each in numbers]), strict=True):
        shares = (queue.requests / config.tenant_backlog_entries, queue.size_bytes / config.tenant_backlog_bytes)
        found.append(ComparedTenant(each, queue, _room(max(shares)), max(shares), _quota(each), _state(each, total)))
    return found


def _room(filled: float) -> Room:
    if filled >= 1:
        return "full"
    return "near" if filled >= NEAR else "free"


def _quota(of: Numbers) -> quota.State:
    counts = Counts(of.active, of.archived, of.cold, of.text_bytes)
    return quota.room(counts, of.dimensions, of.quota_bytes, of.quota_near or 1.0).state


def _state(of: Numbers, total: Spent) -> State:
    config = settings()
    limits = operators_limits(config).within(of.budget_tokens, of.budget_cost)
    return budget.state(Standing(of.spent, total, limits), config.budget_soft_share)
