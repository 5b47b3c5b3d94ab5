"""M5 of the reliability notes: ingest doesn't wait for nights that process many memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller
from tests.waiting import until

TENANTS = 2
ROWS = 20_000
SAMPLES = 5

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


def nights(callers: list[Caller]) -> list[dict[str, Any]]:
    """Return the last night of each of these callers."""
    return [caller.http.get("/v1/schedule/night/runs").json()["runs"][0] for caller in callers]


def is_night(callers: list[Caller]) -> bool:
    """Return true if a night of one of these callers is unfinished."""
    return any(run["finished_at"] is None for run in nights(callers))


def test_ingest_goes_on_while_nights_over_many_memories_do_not(
    keeping: Plant, callers: Callable[[int], list[Caller]]
) -> None:
    """The night's worker is stopped midway: ingest that needed its lane or its locks would never finish."""
    caller, *sleepers = callers(1 + TENANTS)
    with psycopg.connect(keeping.owner_url) as owner:
        for sleeper in sleepers:
            owner.execute(FILL, {"tenant": sleeper.tenant_id, "rows": ROWS})
    until(lambda: all(one.http.get("/v1/schedule").json()["schedule"] for one in sleepers), "all have their rows")
    for sleeper in sleepers:
        assert sleeper.http.post("/v1/schedule/night/run").status_code == 202

    until(lambda: "running" in [run["status"] for run in nights(sleepers)], "a night is on")
    with keeping.paused("worker-maintain"):
        assert is_night(sleepers)
        for _ in range(SAMPLES):
            caller.send(caller.batch(1))
            keeping.books.wait_until_settled([caller], scored=True)
        assert is_night(sleepers)

    until(lambda: not is_night(sleepers), "the nights are over")
    assert [run["status"] for run in nights(sleepers)] == ["done"] * TENANTS
    keeping.books.check([caller])
