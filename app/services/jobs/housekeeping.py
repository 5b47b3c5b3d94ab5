"""Delete records whose retention period has ended: ledger rows, ended jobs, history and others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from app import metrics
from app.domain.consolidation.supersession import WAITING_DAYS
from app.domain.jobs import Step
from app.settings import settings
from app.store import self_tests
from app.store.consolidation import consolidation_runs, supersessions
from app.store.core import database
from app.store.ingest import dead_letters, envelopes
from app.store.jobs import jobs, schedules
from app.store.memories import history
from app.store.search import recorded_searches
from app.store.tenants import operator_log, policies
from app.store.tiers import tier_moves

Delete = Callable[[database.Transaction, UUID, datetime, int], int]

SLICE_ROWS: Final = 500
# Maximum delay of a redelivery after the period in which clients may repeat requests.
REDELIVERY: Final = timedelta(days=7)
# Finished runs and jobs and discarded dead letters, so that operators can still investigate them.
RECORDS: Final = timedelta(days=90)
# A few rows a day.
MOVES: Final = timedelta(days=365)


def run_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Delete expired records in slices, one kind after another.

    Args:
        as_of: The time from which retention periods are counted back.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; one slice is always done.
    """
    with database.tenant(tenant_id) as tx:
        policy = policies.read_current(tx, tenant_id)
    history_days = policy.history_days
    # Recorded searches are deleted if a policy without consent has come into force since the last night.
    searches_days = policy.record_searches_days if policy.record_searches else 0
    kept: list[tuple[str, Delete, timedelta]] = [
        ("ledger", envelopes.purge_ledger, timedelta(hours=settings().idempotency_hours) + REDELIVERY),
        ("runs", schedules.purge_runs, RECORDS),
        ("jobs", jobs.purge_ended, RECORDS),
        ("letters", dead_letters.purge_discarded, RECORDS),
        ("operators", operator_log.purge_actions, RECORDS),
        ("history", history.purge_events, timedelta(days=history_days)),
        ("moves", tier_moves.purge_counters, MOVES),
        ("self_tests", self_tests.purge_runs, timedelta(days=history_days)),
        ("consolidations", consolidation_runs.purge_runs, timedelta(days=history_days)),
        ("names", supersessions.purge_waiting, timedelta(days=WAITING_DAYS)),
        ("searches", recorded_searches.purge_records, timedelta(days=searches_days)),
    ]
    place, counts = state.get("place", 0), Counter[str]()
    while True:
        name, delete, age = kept[place]
        with database.tenant(tenant_id) as tx:
            rows = delete(tx, tenant_id, as_of - age, SLICE_ROWS)
        counts[name] += rows
        if rows < SLICE_ROWS:
            place += 1
        if place == len(kept) or time.monotonic() >= until:
            metrics.count("ledger_purged_rows", counts["ledger"])
            return Step(counts.total(), {"place": place}, finished=place == len(kept), counts=dict(counts))
