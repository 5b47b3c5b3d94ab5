"""Lookup of recent uses and of a memory's history, and its cost."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import numpy as np

from app.store.core import database
from app.store.core.binary_arrays import Longs, Timestamps, Uuids, driver_connection
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.strength import recorded_uses
from tests.service import Service

MOMENT = 1_760_000_000.0


def test_uses_near_others_of_the_same_session_are_found(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    one, other = sorted(uuid4() for _ in range(2))
    with database.tenant(tenant_id) as tx:
        for kind, at, session in (("use", 0, 1), ("late_use", 59, 1), ("use", 61, 1), ("use", 0, 2), ("test", 0, 1)):
            change = EventChange(MOMENT + at, 0.1, 0.2, 0.2, np.array([session], np.int64))
            history.add(tx, tenant_id, kind, [one], change)  # type: ignore[arg-type]  # its names
        asked = np.array([MOMENT, MOMENT + 1, MOMENT])
        ids, sessions, moments = recorded_uses.list_recent(
            tx, tenant_id, [one, one, other], np.array([1, 1, 1]), asked, 60
        )
    found = sorted(zip(ids, sessions.tolist(), moments.tolist(), strict=True))
    assert found == [(one, 1, MOMENT), (one, 1, MOMENT + 59), (one, 1, MOMENT + 61)]


def test_the_history_is_looked_up_by_memory_even_without_statistics(service: Service) -> None:
    """An index by moment alone would read the events of all memories around each use."""
    tenant_id = service.tenant().tenant_id
    service.rows("SELECT pg_clear_relation_stats('public', 'memory_events')")  # autovacuum may have seen it empty
    ids = [uuid4() for _ in range(2000)]
    with database.tenant(tenant_id) as tx:
        for _ in range(3):
            history.add(tx, tenant_id, "use", ids, EventChange(MOMENT, 0.1, 0.2, 0.2, np.ones(2000, np.int64)))
        values: dict[str, Any] = {
            "tenant": tenant_id,
            "ids": Uuids(ids[:1000]),
            "sessions": Longs(np.ones(1000)),
            "since": Timestamps(np.full(1000, MOMENT - 60)),
            "until": Timestamps(np.full(1000, MOMENT + 60)),
        }
        plan = "\n".join(
            row[0] for row in driver_connection(tx).execute(f"EXPLAIN {recorded_uses._RECENT}".encode(), values)
        )
        found, _, _ = recorded_uses.list_recent(
            tx, tenant_id, ids[:1000], np.ones(1000, np.int64), np.full(1000, MOMENT), 60
        )
    assert "memory_events_pkey" in plan, plan
    assert len(found) == 1000
