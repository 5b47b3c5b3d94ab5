"""Rounds of archiving, restoring uses and deletes, each killed at some point: every memory is in exactly one place."""

from __future__ import annotations

import os
import random
from signal import SIGKILL

from app.services.memories import recount
from tests.service import Service
from tests.services import archived_memories
from tests.services.archived_memories import fade, remember
from tests.services.tiers.test_cold_storage_killed import Workers, workers

__all__ = ["workers"]

PLACES = {
    "archive": ("archive.before", "archive.before_commit", "archive.after_commit"),
    "use": ("restore.before_commit", ""),
}
MEMORIES = 12


def test_rounds_of_killing(service: Service, workers: Workers, rounds: int) -> None:
    seed = os.environ.get("EBBING_TEST_SEED") or str(random.randrange(2**32))
    chance = random.Random(seed)
    tenant_id = service.tenant().tenant_id
    ids = remember(service, tenant_id, *({"text": f"turn {n} of a boat", "thread": "t"} for n in range(MEMORIES)))
    ended = []
    for turn in range(2 * rounds):
        what = chance.choice(list(PLACES)) if turn else "archive"  # all are active: it can be killed
        some = chance.sample(ids, chance.randint(1, 4))
        if what == "archive":
            service.rows("UPDATE memory_state SET restored_at = NULL, access_count = 0 WHERE tier = 'active'")
            fade(
                service,
                [memory_id for memory_id in some if archived_memories.tiers(service, [memory_id]) == ["active"]],
            )
            archived_memories.swept(tenant_id)
        ended.append(workers.ended(chance.choice(PLACES[what]), what, tenant_id, *(some if what == "use" else [])))
        archived_memories.embed(service)
        archived_memories.check(service, ids)
    assert set(ended) <= {-SIGKILL, 0}, seed
    assert -SIGKILL in ended, seed
    assert not any(recount.recount_tenant(tenant_id)), "the tenant's counts were wrong before the recount"
