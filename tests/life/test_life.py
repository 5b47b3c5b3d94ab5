"""A life of two tenants at random against a plain model; see `model.py`.

`EBBING_TEST_LIFE=SEED` or `SEED:STEPS` replays a life that failed, with `make test-long ARGS=tests/life`.
"""

from __future__ import annotations

import os
import random
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from app.clients.object_store import cold_store
from tests.api.caller import Api, standing_routes
from tests.api.conftest import MASTER_KEY
from tests.life import lifecycle, reads, writes
from tests.life.installation import Installation
from tests.life.life import World, weighted
from tests.service import Service

STEPS: Final = 1_000
FULL_EVERY: Final = 20
REMAINS_EVERY: Final = 200
TRAIL: Final = 300
IDS: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
WAYS: Final[tuple[tuple[int, Callable[[World], None]], ...]] = (
    (10, writes.ingest),
    (4, writes.ingest_batch),
    (2, writes.ingest_chat),
    (2, writes.repeat_request),
    (4, writes.upsert),
    (8, writes.edit),
    (4, writes.touch),
    (4, writes.observe),
    (3, writes.link),
    (1, writes.unlink),
    (3, writes.supersede),
    (2, writes.supersede_in_request),
    (2, writes.decide_supersession),
    (8, reads.search),
    (3, reads.recall),
    (8, reads.read_one),
    (2, reads.ask_as_stranger),
    (5, lifecycle.advance),
    (8, lifecycle.move),
    (4, lifecycle.restore),
    (2, lifecycle.hold),
    (2, lifecycle.release),
    (3, lifecycle.delete),
    (2, lifecycle.erase),
    (3, lifecycle.cancel),
    (1, lifecycle.export),
    (1, lifecycle.change_policy),
    (3, lifecycle.consolidate),
    (5, lifecycle.decide_merge),
    (1, lifecycle.back_up),
    (1, lifecycle.restore_backup),
)


def live(world: World, steps: int) -> None:
    """Go through a life; a failure names the seed and the step, which replay it."""
    since: dict[int, int] = {}
    for number in range(1, steps + 1):
        world.chance = random.Random(f"{world.seed} {number}")
        world.self = world.chance.choice(world.people)
        way = weighted(world.chance, WAYS)
        world.trail.append(f"step {number}: {way.__name__}")
        try:
            way(world)
            if number % FULL_EVERY == 0 or number == steps:
                reads.check_everything(world)
            if number % REMAINS_EVERY == 0 or number == steps:
                reads.check_remains(world, since)
        except Exception as error:
            sys.stdout.write("\n".join([*world.trail[-TRAIL:], *map(world.describe, IDS.findall(str(error))[:5]), ""]))
            at = f"step {number} ({way.__name__}) of the life {world.seed}"
            raise AssertionError(f"{at}; replay: EBBING_TEST_LIFE={world.seed}:{number}") from error
        world.done[way.__name__] += 1
    sys.stdout.write(f"life {world.seed}, {steps} steps: {dict(sorted(world.done.items()))}\n")


@pytest.fixture
def place(service: Service, tmp_path: Path) -> Iterator[Installation]:
    service.configure(cold_url=(tmp_path / "cold").as_uri(), master_key=MASTER_KEY)
    cold_store.cache_clear()
    with Api(service, standing_routes()) as api:
        yield Installation(api, tmp_path)
    cold_store.cache_clear()


@pytest.mark.long
def test_a_long_life_is_as_the_model_says(place: Installation) -> None:
    seed, _, steps = os.environ.get("EBBING_TEST_LIFE", "1").partition(":")
    live(World(place.api, place, seed), int(steps or STEPS))
