"""M5 of the reliability notes: ingest doesn't wait for nights that look after many memories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median

import psycopg
import pytest

from tests.faults.load import Caller
from tests.faults.plant import Plant
from tests.waiting import until

TENANTS = 2
ROWS = 20_000
SAMPLES = 12
# In a lane that is shared, ingest waits for a slice of maintenance, 5 s; in its own, for a processor at most.
SLOWER_MAX, SLACK_SECONDS = 4, 0.5

FILL = """
WITH made AS (
  INSERT INTO memories (tenant_id, memory_id, seq, text, created_at)
  SELECT %(tenant)s, gen_random_uuid(), n, 'x', now() - interval '20 days' FROM generate_series(1, %(rows)s) AS n
  RETURNING tenant_id, memory_id, created_at
)
INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at)
SELECT tenant_id, memory_id, created_at, created_at, created_at FROM made
"""


@pytest.fixture
def keeping(plant: Plant) -> Iterator[Plant]:
    """The plant with a worker of the lane `maintain`."""
    plant.processes.start("worker-maintain", "worker", "--lane", "maintain", "--concurrency", "1")
    yield plant
    plant.processes.kill("worker-maintain")


def is_night(callers: list[Caller]) -> bool:
    """Whether one of these callers' nights goes on."""
    runs = [caller.http.get("/v1/schedule/night/runs").json()["runs"][0] for caller in callers]
    return any(run["finished_at"] is None for run in runs)


def seconds_to_store(plant: Plant, caller: Caller) -> float:
    began = time.monotonic()
    [memory_id] = caller.send(caller.batch(1))
    until(lambda: memory_id in plant.books.stored(caller), "it is stored", 30)
    return time.monotonic() - began


def test_nights_over_many_memories_do_not_hold_up_ingest(
    keeping: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    caller, *sleepers = callers(1 + TENANTS)
    with psycopg.connect(keeping.owner_url) as owner:
        for sleeper in sleepers:
            owner.execute(FILL, {"tenant": sleeper.tenant_id, "rows": ROWS})
    until(lambda: all(one.http.get("/v1/schedule").json()["schedule"] for one in sleepers), "all have their rows")
    quiet = [seconds_to_store(keeping, caller) for _ in range(SAMPLES)]

    for sleeper in sleepers:
        assert sleeper.http.post("/v1/schedule/night/run").status_code == 202
    busy = []
    while is_night(sleepers):
        busy.append(seconds_to_store(keeping, caller))

    done = [one.http.get("/v1/schedule/night/runs").json()["runs"][0] for one in sleepers]
    assert [(run["status"], run["counts"]["sweep"]) for run in done] == [("done", ROWS)] * TENANTS
    assert len(busy) >= SAMPLES, "else nothing was measured"
    assert median(busy) <= SLOWER_MAX * median(quiet) + SLACK_SECONDS, (median(quiet), median(busy))
    keeping.books.check([caller])
