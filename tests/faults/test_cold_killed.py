"""Rounds of moves, restores and upkeep of cold storage, each killed at some point: nothing is lost or duplicated.

`--rounds` sets the number; `make test-faults` runs 60. The seed is shown on failure and can be set with
EBBING_TEST_SEED.
"""

from __future__ import annotations

import os
import random
from signal import SIGKILL

from app.services.tiers import cold_storage, segment_compaction
from tests.services.cold_due import LONG, Chilled, aged, chilled
from tests.services.tiers.test_cold_storage_killed import COMPACTION, MOVE, RESTORE, Workers, workers

__all__ = ["aged", "chilled", "workers"]

PLACES = {"move": MOVE, "restore": RESTORE, "compact": COMPACTION}
MEMORIES = 12


def test_rounds_of_killing(chilled: Chilled, workers: Workers, rounds: int) -> None:
    seed = os.environ.get("EBBING_TEST_SEED") or str(random.randrange(2**32))
    chance = random.Random(seed)
    ids = chilled.remember(*(f"{number}: {LONG[: 30 * number]}" for number in range(MEMORIES)))
    before = chilled.rows(*ids)
    ended = []
    for turn in range(3 * rounds):
        what = chance.choice(list(PLACES)) if turn else "move"  # a round that can be killed, since nothing is cold yet
        some = chance.sample(ids, chance.randint(1, 4)) if what == "restore" else []
        ended.append(workers.ended(chance.choice(PLACES[what]), what, chilled.tenant_id, *some))
        chilled.whole(seed)
        if chance.random() < 0.5:  # let active memories fade again
            chilled.service.rows(
                "UPDATE memory_state SET tier = 'archived', wanted_tier = 'cold', restored_at = NULL, "
                "created_at = created_at, level = 0, access_count = 0, anchored_at = created_at, "
                "accessed_at = created_at WHERE tier = 'active'"
            )
    assert set(ended) <= {-SIGKILL, 0}, seed
    assert -SIGKILL in ended, seed
    cold_storage.clean_segments(chilled.tenant_id)
    while segment_compaction.compact_segments(chilled.tenant_id)[0]:
        pass
    written = [segment for segment in chilled.segments() if segment[0] == "written"]
    assert len(chilled.objects()) == len(written) == len(chilled.segments())
    assert workers.ended("none", "restore", chilled.tenant_id, *ids) == 0
    assert chilled.rows(*ids) == before, seed
