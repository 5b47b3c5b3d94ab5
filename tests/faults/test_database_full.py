"""F11: the disk of PostgreSQL is full. Nothing accepted is lost or set aside, and work resumes when there is space."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.faults.fault_cluster import COUNTED, Plant
from tests.faults.load import Caller
from tests.small_disk import fill, mounted
from tests.waiting import until

SPACE_MIB = 24
REQUESTS = 8
TABLES = ("memories", "envelopes")


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A small disk that PostgreSQL's user may enter."""
    with mounted(SPACE_MIB) as folder:
        yield folder


@pytest.fixture
def moved(plant: Plant, small_disk: Path) -> Iterator[Path]:
    """The tables that the drain writes, on the small disk; moved back afterwards."""
    place = small_disk / "tables"
    place.mkdir()
    if plant.postgres.user is not None:
        os.chown(place, plant.postgres.user.uid, plant.postgres.user.gid)
    with psycopg.connect(plant.owner_url, autocommit=True) as owner:
        owner.execute(f"CREATE TABLESPACE small LOCATION '{place}'".encode())
        for table in TABLES:
            owner.execute(f"ALTER TABLE {table} SET TABLESPACE small".encode())
        try:
            yield small_disk
        finally:
            for table in TABLES:
                owner.execute(f"ALTER TABLE {table} SET TABLESPACE pg_default".encode())
            owner.execute("DROP TABLESPACE small")


def put_off(plant: Plant, key: str) -> float:
    """Return how often the drain returned requests to the queue."""
    answer = httpx.get(f"{plant.url}/metrics", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    wanted = 'ebbing_deliveries_total{lane="ingest",outcome="put_off"}'
    return sum(float(line.rpartition(" ")[2]) for line in answer.text.splitlines() if line.startswith(wanted))


def test_a_full_disk_of_postgresql_stops_storing_loses_nothing_and_is_resumed(
    plant: Plant, moved: Path, callers: Callable[[int], list[Caller]]
) -> None:
    tenants = callers(2)
    for caller in tenants:
        caller.send()
    plant.books.wait_until_settled(tenants)
    admin = plant.admin_key()
    with plant.configured("worker-ingest", **COUNTED):  # three failed tries would set a request aside
        returned = put_off(plant, admin)
        filler = fill(moved)
        padding = [{"text": f"{'x' * 20_000} {number}"} for number in range(20)]
        for caller in tenants:
            for _ in range(REQUESTS):
                caller.send(
                    [*caller.batch(size=5), *({"text": f"{caller.random.random()} {p['text']}"} for p in padding)]
                )
        stored = [len(plant.books.stored(caller)) for caller in tenants]
        until(lambda: put_off(plant, admin) >= returned + 5, "the drain returns requests to the queue")
        for caller in tenants:
            assert plant.books.waiting(caller)["drain"] > 0, "what can't be stored stays in the queue"
            assert plant.books.dead_letters(caller) == [], "a full disk isn't the request's fault"
        assert plant.readiness().get("redis"), "ingest goes on"
        log = (plant.processes.folder / "logs" / "worker-ingest.log").read_text()
        assert "DiskFull" in log, "the log names the cause"

        filler.unlink()
        plant.books.wait_until_settled(tenants)
    assert all(len(plant.books.stored(caller)) > before for caller, before in zip(tenants, stored, strict=True))
    plant.books.check(tenants)
    plant.books.check_backlog_is_nought()
