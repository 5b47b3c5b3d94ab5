"""Delete records whose retention period has ended: ledger rows, ended jobs, history and others."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from app import metrics
from app.domain.consolidation.supersession import WAITING_DAYS
from app.domain.jobs import Step
from app.settings import settings
from app.store.changes import feed
from app.store.core import database
from app.store.jobs import expired_rows
from app.store.tenants import policies
from app.store.tiers import wrapped_keys
from app.store.webhooks import webhooks

SLICE_ROWS: Final = 500
# Maximum delay of a redelivery after the period in which clients may repeat requests.
REDELIVERY: Final = timedelta(days=7)
# Retention of finished runs and jobs, discarded dead letters and operators' actions, for investigations.
RECORDS: Final = timedelta(days=90)
# Retention of people's names after their last log-in, as long as that of answered privacy requests, which show them.
PEOPLE: Final = timedelta(days=730)
# Retention of the counts of tier moves, which are a few rows a day.
MOVES: Final = timedelta(days=365)

# Retention of deliveries of webhooks: all attempts take four days, and a replay may follow.
DELIVERIES: Final = timedelta(days=14)


def run_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Delete expired records in slices, one kind after another.

    Args:
        as_of: The time from which retention periods are counted back.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one slice is processed.
    """
    with database.tenant(tenant_id) as tx:
        policy = policies.read_current(tx, tenant_id)
    # Delete recorded searches if the policy no longer allows recording them.
    searches_days = policy.record_searches_days if policy.record_searches else 0
    retention_periods: list[tuple[str, timedelta]] = [
        ("ledger", timedelta(hours=settings().idempotency_hours) + REDELIVERY),
        ("runs", RECORDS),
        ("jobs", RECORDS),
        ("letters", RECORDS),
        ("operators", RECORDS),
        ("people", PEOPLE),
        ("history", timedelta(days=policy.history_days)),
        ("moves", MOVES),
        ("self_tests", timedelta(days=policy.history_days)),
        ("consolidations", timedelta(days=policy.history_days)),
        ("names", timedelta(days=WAITING_DAYS)),
        ("link_names", timedelta(days=WAITING_DAYS)),
        ("searches", timedelta(days=searches_days)),
        ("changes", timedelta(days=policy.changes.keep_days)),
        ("deliveries", DELIVERIES),
        ("webhook_secrets", timedelta(0)),
    ]
    place, counts = state.get("place", 0), Counter[str]()
    while True:
        name, age = retention_periods[place]
        with database.tenant(tenant_id) as tx:
            if name == "changes":
                rows = feed.delete_expired(tx, tenant_id, as_of - age, SLICE_ROWS)
            elif name == "webhook_secrets":
                rows = _destroy_old_secrets(tx, tenant_id, as_of - age)
            else:
                rows = expired_rows.delete_expired(tx, tenant_id, name, as_of - age, SLICE_ROWS)
        counts[name] += rows
        if rows < SLICE_ROWS:
            place += 1
        if place == len(retention_periods) or time.monotonic() >= until:
            metrics.count("ledger_purged_rows", counts["ledger"])
            return Step(counts.total(), {"place": place}, finished=place == len(retention_periods), counts=dict(counts))


def _destroy_old_secrets(tx: database.Transaction, tenant_id: UUID, before: datetime) -> int:
    """Destroy the old secrets of webhooks whose overlap ended before this time, and return their number."""
    ended = webhooks.remove_old_secrets(tx, tenant_id, before)
    wrapped_keys.remove_records(tx, tenant_id, ended)
    return len(ended)
