"""F22 in rounds: erasures killed anywhere while matching memories are added, edited, moved and restored."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from signal import SIGKILL
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.errors import EbbingError
from app.services.memories import memories
from app.services.tiers import archive, sweep
from tests.service import Service
from tests.services.archived_memories import act_on, fade, remember
from tests.services.erasure.test_erasing_killed import PLACES, asked, finish, said, workers
from tests.services.tiers.test_cold_storage_killed import Workers

__all__ = ["workers"]

MOST_ROUNDS = 100
MEANWHILE = ("send", "edit", "archive", "use", "kill", "kill", "kill")


@pytest.mark.acceptance(5)
def test_rounds_of_killing(service: Service, workers: Workers, rounds: int) -> None:
    seed = os.environ.get("EBBING_TEST_SEED") or str(random.randrange(2**32))
    chance = random.Random(seed)
    ended: list[int] = []
    for done in range(MOST_ROUNDS):
        if done >= max(rounds // 3, 2) and -SIGKILL in ended:
            break  # an erasure waiting for pending entries passes few failpoints, so a round may kill nobody
        tenant_id = service.tenant().tenant_id
        ids = remember(service, tenant_id, *map(said, range(8)))
        fade(service, chance.sample(ids, 4))
        erasure_id = asked(tenant_id)
        for what in chance.sample(MEANWHILE, len(MEANWHILE)):
            if what == "kill":
                ended.append(workers.ended(chance.choice(PLACES), tenant_id, erasure_id))
            else:
                happen(service, tenant_id, what, chance.choice(ids))
        finish(service, tenant_id, erasure_id, seed)
    assert set(ended) <= {-SIGKILL, 0}, seed
    assert -SIGKILL in ended, seed


def happen(service: Service, tenant_id: UUID, what: str, memory_id: UUID) -> None:
    """Run another operation on the same people's memories; it fails on hidden ones."""
    if what == "send":
        service.send(tenant_id, *map(said, range(2)))
    elif what == "archive":
        sweep.sweep(tenant_id)
        archive.move_slice(tenant_id, None, None)
    elif what == "use":
        with suppress(EbbingError):
            act_on(tenant_id, memory_id, "use")
    else:
        with suppress(EbbingError):
            memories.edit_memory(tenant_id, memory_id, MemoryPatch(text="Bob has other pears"))
