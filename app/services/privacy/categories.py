"""List the privacy categories in force: their retention periods, memory counts and next expiries."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import numpy as np

from app.domain.privacy import parameters
from app.domain.privacy.parameters import ARCHIVED_CONVERSATIONS, Privacy
from app.domain.privacy.retention import CONVERSATION, NO_CATEGORY, OF_SUBJECT, STATED
from app.domain.tiers.tier_decision import DELETED, TierFacts
from app.services.strength import memory_strength
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.tiers import expiry, protections

ROWS: Final = 5000
SECONDS_MAX: Final = 10.0


@dataclass(slots=True)
class CategoryUsage:
    """A privacy category.

    Attributes:
        name: The name that callers use; None for memories that expire because of their privacy risk, without a category
            that has a retention period.
        max_days: Retention period in days; None if the category sets no limit of its own.
        memories: Number of memories in the category.
        next_expiry_at: Earliest expiry by this limit, except of memories under a legal hold; None if nothing expires.
    """

    name: str | None
    max_days: float | None
    memories: int = 0
    next_expiry_at: datetime | None = None


@dataclass(slots=True)
class CategoryOverview:
    """All categories of the policy in force.

    Attributes:
        privacy: The privacy parameters in force.
        complete: Whether every memory was examined within the time limit.
    """

    privacy: Privacy
    categories: list[CategoryUsage]
    complete: bool = True


@dataclass(slots=True)
class _Sums:
    counts: dict[int, int] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)

    def add(self, privacy: Privacy, standing: TierFacts) -> None:
        expiries, exists = standing.expiry, standing.tiers != DELETED
        expires = exists & np.isfinite(expiries.at)
        for place in (CONVERSATION, STATED, OF_SUBJECT, NO_CATEGORY, *range(len(privacy.names))):
            expiring = expires & (expiries.category == place)
            in_category = exists & (((expiries.categories >> place) & 1) > 0) if place >= 0 else expiring
            self.counts[place] = self.counts.get(place, 0) + int(in_category.sum())
            times = expiries.at[expiring & ~standing.is_held]
            self.first[place] = min(self.first.get(place, np.inf), float(times.min(initial=np.inf)))


def count_categories(tenant_id: UUID) -> CategoryOverview:
    """Count the memories and find the next expiry in each category of the policy in force, within `SECONDS_MAX`."""
    deadline, after, sums = time.monotonic() + SECONDS_MAX, NIL, _Sums()
    with database.tenant(tenant_id) as tx:
        rules = memory_strength.load_timeline(tx, tenant_id).at(database.now(tx).timestamp()).policy.rules
    has_more = True
    while has_more and time.monotonic() < deadline:
        with database.tenant(tenant_id) as tx:
            ids = expiry.list_expiring_ids(tx, tenant_id, after, ROWS)
            facts = protections.read(tx, tenant_id, ids, rules)
        sums.add(rules.privacy, facts)
        has_more = len(ids) == ROWS
        after = ids[-1] if ids else after
    privacy, rows = rules.privacy, _category_rows(rules.privacy)
    categories = [
        CategoryUsage(name, days, sums.counts[index], _moment(sums.first[index])) for name, days, index in rows
    ]
    return CategoryOverview(privacy, categories, complete=not has_more)


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if np.isfinite(seconds) else None


def category_limits(tenant_id: UUID) -> list[CategoryUsage]:
    """Return the categories of the policy in force without reading or counting memories."""
    with database.tenant(tenant_id) as tx:
        rules = memory_strength.load_timeline(tx, tenant_id).at(database.now(tx).timestamp()).policy.rules
    return [CategoryUsage(name, days) for name, days, _ in _category_rows(rules.privacy)]


def _category_rows(privacy: Privacy) -> list[tuple[str | None, float | None, int]]:
    """Return each category's name, retention period in days and index."""
    return [
        *zip(privacy.names, privacy.days, range(len(privacy.names)), strict=True),
        (ARCHIVED_CONVERSATIONS, privacy.archived_conversation_days, CONVERSATION),
        (parameters.STATED, None, STATED),
        (parameters.OF_SUBJECT, None, OF_SUBJECT),
        (None, privacy.default_days, NO_CATEGORY),
    ]
