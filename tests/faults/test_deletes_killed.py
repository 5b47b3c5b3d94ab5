"""Rounds of permanent deletes, each killed at some point: a memory is complete or gone, and the audit count matches."""

from __future__ import annotations

import os
import random
from signal import SIGKILL
from uuid import UUID

from app.services.memories import recount
from app.services.security import audit
from app.services.tiers import cold_storage, segment_compaction
from tests.services.cold_due import LONG, Chilled, aged, chilled
from tests.services.tiers.test_cold_storage_killed import DELETE, Workers, workers

__all__ = ["aged", "chilled", "workers"]

MEMORIES = 9
NAMED = ("memories", "memory_state", "cold_memories")
PLACES = ("compact.before_commit", "compact.after_commit", "cold.after_delete")


def left(chilled: Chilled) -> list[UUID]:
    """Return the complete memories, checking that every table that refers to memories has exactly these."""
    found = [
        {memory_id for (memory_id,) in chilled.service.rows(f"SELECT DISTINCT memory_id FROM {table}")}  # noqa: S608
        for table in NAMED
    ]
    assert all(each == found[0] for each in found), NAMED
    assert chilled.keys()[1] == len(found[0]), "one record key per memory"
    return sorted(found[0])


def deleted(chilled: Chilled) -> int:
    """Return the number of deleted memories according to the audit log."""
    return int(chilled.service.one("SELECT coalesce(sum(items), 0) FROM audit WHERE action = 'memories_deleted'"))


def test_rounds_of_killing(chilled: Chilled, workers: Workers, rounds: int) -> None:
    seed = os.environ.get("EBBING_TEST_SEED") or str(random.randrange(2**32))
    chance = random.Random(seed)
    ended, kept = [], set[UUID]()
    for _ in range(rounds):
        ids = chilled.remember(*(f"{number}: {LONG[: 30 * number]}" for number in range(MEMORIES)), ages=-400)
        used = chance.sample(ids, 2)
        chilled.service.rows(
            "UPDATE memory_state SET salience = 0, "
            "access_count = CASE WHEN memory_id = ANY (%s) THEN 5 ELSE access_count END",
            used,
        )
        chilled.cool()
        recount.recount_tenant(chilled.tenant_id)  # these were inserted without the stream
        kept.update(used)
        there, known = set(left(chilled)), deleted(chilled)
        before = {memory_id: chilled.rows(memory_id) for memory_id in there}
        assert there == kept.union(ids)
        chilled.service.rows("UPDATE memory_state SET wanted_tier = 'deleted'")
        while there != kept:
            what = chance.choice(("delete", "delete", "compact"))
            places = DELETE if what == "delete" else PLACES
            place = chance.choice((*places, "none") if -SIGKILL in ended else places)
            ended.append(workers.ended(place, what, chilled.tenant_id))
            now = set(left(chilled))
            assert kept <= now <= there, seed
            assert deleted(chilled) - known == len(there - now), seed
            assert {memory_id: chilled.rows(memory_id) for memory_id in now} == {each: before[each] for each in now}
            chilled.whole(seed)
            there, known = now, deleted(chilled)
            assert len(ended) < 50 * rounds, seed
    assert set(ended) <= {-SIGKILL, 0}, seed
    assert -SIGKILL in ended, seed
    cold_storage.clean_segments(chilled.tenant_id)
    while segment_compaction.compact_segments(chilled.tenant_id)[0]:
        pass
    assert len(chilled.objects()) == len(chilled.segments())
    assert audit.verify(chilled.tenant_id).broken is None
    assert not any(recount.recount_tenant(chilled.tenant_id)), "the tenant's counts were wrong before the recount"
