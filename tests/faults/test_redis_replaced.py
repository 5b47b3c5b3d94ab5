"""Redis loses accepted requests: an emptied, older or foreign one is refused, and a cut tail is counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import httpx
import psycopg
import pytest
import redis

from app.clients.redis.connection import QUEUE
from app.domain.ingest.redis_identity import TAIL_MS
from app.embedded import has_ended
from tests.faults.fault_cluster import Plant
from tests.faults.load import Caller
from tests.waiting import PATIENCE_SECONDS, until

HOUR_MS = 3_600_000
REQUESTS = 20
MEMORIES = 5


@pytest.fixture
def admin(plant: Plant) -> Iterator[httpx.Client]:
    """A client whose key may administer, beside the worker that counts losses. At the end, Redis is accepted."""
    headers = {"Authorization": f"Bearer {plant.admin_key()}"}
    plant.processes.start("worker-maintain", "worker", "--lane", "maintain", "--concurrency", "1")
    with httpx.Client(base_url=plant.url, headers=headers, timeout=PATIENCE_SECONDS, trust_env=False) as client:
        yield client
        client.post("/v1/admin/queue/accept")
    plant.processes.kill("worker-maintain")


def one(plant: Plant, statement: str, *values: str) -> int:
    with psycopg.connect(plant.owner_url) as owner:
        row = owner.execute(statement.encode(), values).fetchone()
        return int(row[0]) if row else 0


def witnessed(plant: Plant, caller: Caller) -> int:
    """Count a caller's witnessed requests. Those of earlier tests' callers are settled at the same time."""
    own = "SELECT count(*) FROM accepted_requests, unnest(tenant_ids) AS tenant_id WHERE tenant_id = %s::uuid"
    return one(plant, own, caller.tenant_id)


def accept(plant: Plant, caller: Caller, count: int) -> None:
    """Accept requests while the ingest worker is paused; wait until all are witnessed and the mark is in both stores.

    The mark is written after the witness rows: a test that changed it before then would have its change replaced.
    """
    before = witnessed(plant, caller)
    for _ in range(count):
        caller.send(caller.batch(MEMORIES))
    until(lambda: witnessed(plant, caller) == before + count, "the requests are witnessed")
    until(lambda: beat(plant) == redis_beat(plant), lambda: f"{beat(plant)} is Redis's {redis_beat(plant)}")


def appended(plant: Plant) -> Path:
    """Return the end of Redis's append-only file."""
    [path] = plant.redis.folder.glob("**/appendonly.aof")
    return path


def restart(plant: Plant, meanwhile: Callable[[], object]) -> None:
    """Kill Redis, and start it after a change to its files."""
    plant.kill_server(plant.redis)
    meanwhile()
    plant.start_server(plant.redis)


def beat(plant: Plant) -> int:
    return one(plant, "SELECT beat FROM queue_identity")


def redis_beat(plant: Plant) -> int:
    with redis.Redis.from_url(plant.redis.admin_url) as server:
        return int(cast("bytes | None", server.hget(QUEUE, "beat")) or 0)


def set_beat(plant: Plant, milliseconds: int) -> None:
    """Set the witness's beat, so that Redis's lag doesn't depend on the machine's speed."""
    with psycopg.connect(plant.owner_url, autocommit=True) as owner:
        owner.execute("UPDATE queue_identity SET beat = %s", [milliseconds])


def is_ready(plant: Plant) -> None:
    def describe() -> str:
        return httpx.get(f"{plant.url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False).text

    until(lambda: (found := plant.readiness()) and all(found.values()), describe)


def is_refused(plant: Plant, caller: Caller, why: str) -> None:
    until(lambda: plant.readiness().get("redis") is False, "readiness names Redis")
    answer = caller.http.post("/v1/memories", json=caller.batch(1))
    assert (answer.status_code, why in answer.json()["detail"]) == (503, True), answer.text
    reported = httpx.get(f"{plant.url}/readyz", timeout=PATIENCE_SECONDS, trust_env=False).text
    assert why in reported
    assert "ebbing queue accept" in reported
    metrics = httpx.get(f"{plant.url}/metrics", timeout=PATIENCE_SECONDS, trust_env=False).text
    assert "ebbing_redis_replaced 1.0" in metrics.splitlines()


def test_an_emptied_redis_is_refused_until_the_operator_goes_on(
    plant: Plant, callers: Callable[[int], list[Caller]], admin: httpx.Client
) -> None:
    [caller] = callers(1)
    with plant.paused("worker-ingest"):
        accept(plant, caller, REQUESTS)
        restart(plant, lambda: appended(plant).unlink())
    is_refused(plant, caller, "emptied")
    key = admin.headers["Authorization"].removeprefix("Bearer ")
    subprocess.run(
        [sys.executable, "-m", "app.cli", "queue", "accept", "--yes", "--url", plant.url],
        env={"EBBING_API_KEY": key, "PATH": "/usr/bin:/bin"},
        check=True,
    )
    is_ready(plant)
    until(lambda: lost(admin, caller)[0] == REQUESTS, "what was lost is counted")
    assert lost(admin, caller) == (REQUESTS, REQUESTS * MEMORIES)
    assert admin.get("/v1/admin/queue").json()["lost_requests"] >= REQUESTS
    caller.accepted.clear()
    with plant.paused("worker-ingest"):
        accept(plant, caller, 1)
    plant.books.wait_until_settled([caller])


def lost(admin: httpx.Client, caller: Caller) -> tuple[int, int]:
    """Count a caller's lost requests and memories. Losses of earlier tests' callers may be found at the same time."""
    gaps = admin.get("/v1/admin/queue").json()["gaps"]
    own = [gap for gap in gaps if gap["tenant_id"] == caller.tenant_id]
    return sum(gap["requests"] for gap in own), sum(gap["memories"] for gap in own)


def test_a_restart_that_loses_nothing_goes_on_by_itself(
    plant: Plant, callers: Callable[[int], list[Caller]], admin: httpx.Client
) -> None:
    [caller] = callers(1)
    with plant.paused("worker-ingest"):
        accept(plant, caller, REQUESTS)
        restart(plant, lambda: None)
    is_ready(plant)
    plant.books.wait_until_settled([caller])
    plant.books.check([caller])
    until(lambda: witnessed(plant, caller) == 0, "every request is accounted for")
    assert lost(admin, caller) == (0, 0)


@pytest.mark.parametrize("inside", [pytest.param(0, id="at a record"), pytest.param(7, id="inside a record")])
def test_a_tail_that_was_cut_goes_on_by_itself_and_is_counted(
    plant: Plant, callers: Callable[[int], list[Caller]], admin: httpx.Client, inside: int
) -> None:
    [caller] = callers(1)
    plant.flush_redis("always")  # otherwise a busy disk postpones writes, and the file ends earlier
    with plant.paused("worker-ingest"):
        accept(plant, caller, REQUESTS)
        size = appended(plant).stat().st_size
        kept, before = dict(caller.accepted), beat(plant)
        accept(plant, caller, 3)

        def cut() -> None:
            with appended(plant).open("r+b") as log:
                log.truncate(size + inside)
            set_beat(plant, before + TAIL_MS // 2)

        restart(plant, cut)
    is_ready(plant)
    until(lambda: lost(admin, caller)[0] == 3, "the gap is counted")
    caller.accepted = kept
    plant.books.wait_until_settled([caller])
    plant.books.check([caller])


def test_a_cut_after_an_hour_without_requests_goes_on_by_itself(
    plant: Plant, callers: Callable[[int], list[Caller]], admin: httpx.Client
) -> None:
    """The mark's beat is that of the last request, but for the API, which keeps Redis's beat fresh."""
    [caller] = callers(1)
    plant.flush_redis("always")
    hour_ago = int(time.time() * 1000) - HOUR_MS
    with redis.Redis.from_url(plant.redis.admin_url) as server:
        server.hset(QUEUE, "beat", hour_ago)
    set_beat(plant, hour_ago)
    until(lambda: redis_beat(plant) > hour_ago, "the API advances the beat")
    assert beat(plant) == hour_ago
    with plant.paused("worker-ingest"):
        size = appended(plant).stat().st_size
        accept(plant, caller, 1)

        def cut() -> None:
            with appended(plant).open("r+b") as log:
                log.truncate(size)

        restart(plant, cut)
    is_ready(plant)
    until(lambda: lost(admin, caller)[0] == 1, "the gap is counted")


def test_an_older_copy_is_refused(
    plant: Plant, callers: Callable[[int], list[Caller]], admin: httpx.Client, tmp_path: Path
) -> None:
    [caller] = callers(1)
    with plant.paused("worker-ingest"):
        accept(plant, caller, 1)
    plant.books.wait_until_settled([caller])
    copy = tmp_path / "copy"
    shutil.copy(appended(plant), copy)
    with plant.paused("worker-ingest"):
        accept(plant, caller, 1)
    plant.books.wait_until_settled([caller])

    def put_back() -> None:
        appended(plant).write_bytes(copy.read_bytes())
        set_beat(plant, beat(plant) + TAIL_MS)

    restart(plant, put_back)
    is_refused(plant, caller, "older copy")
    admin.post("/v1/admin/queue/accept")
    is_ready(plant)
    assert not has_ended(plant.servers["redis"])
