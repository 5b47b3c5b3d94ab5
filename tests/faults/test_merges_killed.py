"""Merges, their rebuilding and their undoing, killed at each step: sources or summary exist, never neither."""

from __future__ import annotations

import os
import random
from signal import SIGKILL
from uuid import UUID

from app.domain.ingest.memory import MemoryPatch
from app.services.memories import memories, recount
from tests.service import Service
from tests.services.mergeable import LIKE, Alike, alike
from tests.services.tiers.test_cold_storage_killed import Workers, workers

__all__ = ["alike", "workers"]

MERGE = ("merge.before", "merge.after_summary", "merge.before_commit", "merge.after_commit", "merge.before_marks")
REDERIVE = ("rederive.after_summary", "rederive.before_commit")
UNDO = ("undo.before_commit",)


def sound(alike: Alike, ids: list[UUID]) -> None:
    """Check that each inactive memory has one summary, and that every index and count agrees."""
    alike.settle()
    away = alike.service.rows(
        "SELECT memory_id FROM memory_state WHERE tier = 'archived' AND memory_id = ANY (%s)", ids
    )
    sources = alike.service.rows(
        "SELECT lineage.memory_id FROM merges JOIN lineage USING (tenant_id, merge_id) "
        "JOIN memories AS summary ON summary.memory_id = summary_id AND summary.deleted_at IS NULL "
        "WHERE status = 'done' AND part = 'source' AND lineage.memory_id = ANY (%s)",
        ids,
    )
    assert sorted(away) == sorted(sources)
    alike.check()
    assert not any(recount.recount_tenant(alike.tenant_id))


def test_killed_at_each_step(alike: Alike, workers: Workers) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    for failpoint in MERGE:
        workers.killed(failpoint, "merge", alike.tenant_id)
        sound(alike, ids)
        assert len(alike.summaries()) == (failpoint in {"merge.after_commit", "merge.before_marks"})
        if failpoint == "merge.after_commit":
            workers.killed("undo.before_commit", "undo", alike.tenant_id, alike.merge_id())
            sound(alike, ids)
            assert workers.ended("", "undo", alike.tenant_id, alike.merge_id()) == 0
            alike.service.rows("DELETE FROM merges")
    sound(alike, ids)
    alike.run()
    [summary_id] = alike.summaries()
    source = alike.service.one("SELECT memory_id FROM lineage WHERE part = 'source' ORDER BY memory_id LIMIT 1")
    memories.edit_memory(alike.tenant_id, source, MemoryPatch(text="the boat of Zaragoza lies in the harbour"))
    for failpoint in REDERIVE:
        workers.killed(failpoint, "rederive", alike.tenant_id)
        assert alike.summaries() == [summary_id]
        assert alike.service.one("SELECT is_stale FROM merges")
        alike.settle()
        alike.check()
    alike.rederive()
    assert not alike.service.one("SELECT is_stale FROM merges")


def test_rounds_of_killing(service: Service, workers: Workers, rounds: int) -> None:
    seed = os.environ.get("EBBING_TEST_SEED") or str(random.randrange(2**32))
    chance = random.Random(seed)
    alike = Alike(service)
    ids = alike.remember(*LIKE, subject="ann")
    ended = []
    for _ in range(rounds):
        done = service.rows("SELECT merge_id FROM merges WHERE status = 'done' AND summary_id IS NOT NULL")
        if done:
            ended.append(workers.ended(chance.choice((*UNDO, "")), "undo", alike.tenant_id, done[0][0]))
        else:
            service.rows("DELETE FROM merges")
            alike.again()
            ended.append(workers.ended(chance.choice(MERGE), "merge", alike.tenant_id))
        sound(alike, ids)
    assert set(ended) <= {-SIGKILL, 0}, seed
