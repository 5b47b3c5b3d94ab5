"""Compare tenants by backlog, storage, last nightly run and budget, oldest backlog first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from app.clients.redis import tenant_backlogs
from app.clients.redis.tenant_backlogs import TenantBacklog
from app.domain.policy import budget
from app.domain.policy.budget import BudgetState, BudgetStatus, DaySpending
from app.services.night import night_run
from app.services.tenants import quota
from app.services.tenants.budget import settings_limits
from app.settings import settings
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.memories.tenant_counts import TierCounts
from app.store.tenants import model_usage, tenant_comparison
from app.store.tenants.tenant_comparison import Numbers

SHOWN: Final = 50
COMPARED: Final = tenant_backlogs.COMPARED_MOST
NEAR: Final = 0.8
"""Share of a queue limit from which a tenant's queue counts as nearly full."""

Room = Literal["free", "near", "full"]


@dataclass(frozen=True, slots=True)
class ComparedTenant:
    """A tenant's row in the comparison.

    Attributes:
        room: Room in the tenant's queue. If `full`, its requests are refused until part of the backlog is stored.
        quota: State of the storage quota, which never causes refusals.
        filled: Used share of the queue limit that is closest to full.
        budget: State of today's budget under the operator's and the tenant's limits.
    """

    numbers: Numbers
    queue: TenantBacklog
    room: Room
    filled: float
    quota: quota.State
    budget: BudgetState

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest backlog entry in the ingest queue or a later stage, in seconds."""
        ages = [age for age in (self.queue.oldest_seconds, self.numbers.enriching_seconds) if age is not None]
        return max(ages, default=None)


def waiting_longest() -> list[ComparedTenant]:
    """Return at most `SHOWN` tenants: those with the oldest backlog first, then tenants without a backlog, by name."""
    queues = tenant_backlogs.list_longest(SHOWN)
    with database.shared() as tx:
        ids = list(
            dict.fromkeys([*(queue.tenant_id for queue in queues), *tenant_comparison.enriching_longest(tx, SHOWN)])
        )
        ids += tenant_comparison.search_by_name(tx, "", max(SHOWN - len(ids), 0), but=ids)
        numbers = tenant_comparison.numbers(tx, ids, night_run.KIND)
        total = _spent_by_all(tx)
    tenants = _beside(numbers, total)
    tenants.sort(key=lambda tenant: (-(tenant.oldest_seconds or 0.0), tenant.numbers.name))
    return tenants[:SHOWN]


def called(words: str) -> list[ComparedTenant]:
    """Return at most `SHOWN` tenants whose name contains this text, by name."""
    with database.shared() as tx:
        numbers = tenant_comparison.numbers(tx, tenant_comparison.search_by_name(tx, words, SHOWN), night_run.KIND)
        total = _spent_by_all(tx)
    return _beside(numbers, total)


def _spent_by_all(tx: database.Transaction) -> DaySpending:
    """Return today's spending of all tenants; zero if no limit applies to it."""
    _, _, total = model_usage.read_today(tx, NIL, total=settings_limits(settings()).has_total)
    return total


def _beside(numbers: list[Numbers], total: DaySpending) -> list[ComparedTenant]:
    """Combine the numbers with the tenants' queues; call this outside the transaction, because it queries Redis."""
    config = settings()
    compared = []
    for tenant, queue in zip(
        numbers, tenant_backlogs.list_backlogs([tenant.tenant_id for tenant in numbers]), strict=True
    ):
        shares = (
            queue.requests / config.tenant_backlog_entries,
            queue.size_bytes / config.tenant_backlog_bytes,
            queue.memories / config.tenant_backlog_memories,
        )
        compared.append(
            ComparedTenant(tenant, queue, _room(max(shares)), max(shares), _quota(tenant), _state(tenant, total))
        )
    return compared


def _room(filled: float) -> Room:
    if filled >= 1:
        return "full"
    return "near" if filled >= NEAR else "free"


def _quota(of: Numbers) -> quota.State:
    counts = TierCounts(of.active, of.archived, of.cold, of.text_bytes)
    return quota.compute_usage(counts, of.dimensions, of.quota_bytes, of.quota_near or 1.0).state


def _state(of: Numbers, total: DaySpending) -> BudgetState:
    config = settings()
    limits = settings_limits(config).lower_to(of.budget_tokens, of.budget_cost)
    return budget.budget_state(BudgetStatus(of.spent, total, limits), config.budget_soft_share)
