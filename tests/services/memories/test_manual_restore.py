"""Requested restores of memories in every tier, and deletion of memories in cold storage."""

from __future__ import annotations

from uuid import uuid4

import pytest

from app.domain.jobs import Job
from app.domain.privacy.legal_hold import Scope
from app.errors import NotFound
from app.services.jobs import queue
from app.services.memories import manual_restore, recount
from app.services.privacy import legal_holds
from app.services.storage import lookup
from app.services.tiers import cold_restore, decay_deletion
from app.store.memories.tenant_counts import TierCounts
from tests.services import nights
from tests.services.aged import days
from tests.services.cold_due import Chilled, aged, chilled

__all__ = ["aged", "chilled"]


def test_what_is_archived_is_back_at_once(chilled: Chilled) -> None:
    [memory_id] = chilled.remember("Ann likes tea.")
    asked = manual_restore.restore(chilled.tenant_id, memory_id, "k1")
    assert asked.job_id is None
    assert asked.memory.tier == "active"  # type: ignore[union-attr]
    entered = chilled.service.rows("SELECT actor, items FROM audit WHERE action = 'memories_restored'")
    assert entered == [("k1", 1)]
    assert manual_restore.restore(chilled.tenant_id, memory_id, "k1").memory.access_count == 1  # type: ignore[union-attr]


def test_what_is_cold_comes_back_by_a_job_even_if_it_is_held(chilled: Chilled) -> None:
    [memory_id] = chilled.remember("Ann likes tea.")
    chilled.cool()
    legal_holds.place_hold(chilled.tenant_id, Scope(memory_ids=[memory_id]), "court", "k")
    asked = manual_restore.restore(chilled.tenant_id, memory_id, "k1")
    assert asked.job_id is not None
    job = queue.get(chilled.tenant_id, asked.job_id)
    assert job.kind == cold_restore.KIND
    step = cold_restore.run_job_slice(Job(job.job_id, chilled.tenant_id, job.kind, job.parameters, {}, None, 0))
    assert step.counts == {"restored": 1, "failed": 0}
    assert lookup.get(chilled.tenant_id, memory_id).tier == "active"  # type: ignore[union-attr]


def test_nobodys_memory_is_not_brought_back(chilled: Chilled) -> None:
    with pytest.raises(NotFound):
        manual_restore.restore(chilled.tenant_id, uuid4(), "k")
    with pytest.raises(NotFound):
        manual_restore.restore(chilled.service.tenant().tenant_id, chilled.remember("x")[0], "k")


def test_what_is_deleted_for_good_leaves_neither_record_nor_key(chilled: Chilled) -> None:
    gone, kept = chilled.remember("Ann likes tea.", "Ben likes milk.")
    chilled.cool()
    chilled.aged.now = days(400)
    chilled.service.rows("UPDATE memory_state SET salience = 0 WHERE memory_id = %s", gone)
    chilled.service.rows(
        "UPDATE memory_state SET access_count = 5, next_due_at = '-infinity' WHERE memory_id = %s", kept
    )
    nights.swept(chilled.tenant_id)
    recount.recount_tenant(chilled.tenant_id)
    assert decay_deletion.delete(chilled.tenant_id, days(400))[1] == {"deleted": 1}
    assert chilled.service.rows("SELECT memory_id FROM memories") == [(kept,)]
    assert chilled.keys()[1] == 1
    assert chilled.segments() == [("written", 2, 1)]
    chilled.whole()
    assert recount.recount_tenant(chilled.tenant_id) == TierCounts(0, 0, 0, 0), "the counters already matched"
