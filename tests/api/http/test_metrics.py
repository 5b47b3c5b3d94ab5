"""`/metrics`: who may read it, and its figures for tasks, latency, connections, Redis, disks and backups."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import UUID

import pytest
from sqlalchemy import text

from app import metrics, queues
from app.clients.redis import stream
from app.clients.redis.connection import POOLS
from app.domain.policy.api_keys import SCOPES
from app.services.erasure import ledger
from app.services.ingest import drain
from app.services.monitoring import fleet_gauges, pool_usage
from app.settings import settings
from app.store.core import database, pools
from app.store.fleet_gauges import whole
from tests.api.admin.test_status import families
from tests.api.caller import Api, fields
from tests.service import Service
from tests.statements import watched
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "a token of tests, long enough"


def test_without_a_token_set_metrics_are_open(api: Api) -> None:
    assert api.get("/metrics", key=None).status_code == 200


def test_with_a_token_set_it_or_an_operators_key_is_wanted(api: Api) -> None:
    api.service.configure(metrics_token=TOKEN)
    statuses = {
        "none": api.get("/metrics", key=None).status_code,
        "another": api.get("/metrics", key="something else").status_code,
        "the token": api.get("/metrics", key=TOKEN).status_code,
        "a tenant's": api.get("/metrics").status_code,
        "an operator's": api.get("/metrics", key=api.service.tenant(scopes=SCOPES).key).status_code,
    }
    assert statuses == {"none": 401, "another": 401, "the token": 200, "a tenant's": 403, "an operator's": 200}
    for key in (None, "something else"):
        answer = api.get("/metrics", key=key)
        fields(answer)
        assert TOKEN not in answer.text


def test_metrics_that_are_off_are_not_there(api: Api) -> None:
    api.service.configure(metrics_enabled=False, metrics_token=TOKEN)
    for key in (None, TOKEN):
        assert api.get("/metrics", key=key).status_code == 404


def test_documents_that_are_off_are_not_there(service: Service) -> None:
    service.configure(docs_enabled=False)
    with Api(service) as closed:
        for path in ("/docs", "/openapi.json", "/redoc"):
            assert closed.get(path, key=None).status_code == 404


def test_a_short_token_is_refused_and_an_empty_one_is_none(service: Service) -> None:
    service.configure(metrics_token="short")
    with pytest.raises(ValueError, match="metrics_token"):
        settings()
    service.configure(metrics_token="")
    assert settings().metrics_token is None


# --- Counters of the workers ---


def test_the_time_from_accepted_to_stored_is_told_by_memory(api: Api) -> None:
    api.remember("one", "two", work=False)
    until(drain.drain_streams, "the memories are drained")
    found = families(api)
    assert found["ebbing_event_store_seconds_count"] == {(): 2}
    assert found["ebbing_event_store_seconds_bucket"]["+Inf",] == 2
    assert 0 < found["ebbing_event_store_seconds_sum"][()] < PATIENCE_SECONDS
    assert found["ebbing_deliveries_total"]["ingest", "done"] == 1


def test_deliveries_tell_what_failed_and_died(api: Api) -> None:
    api.service.push(api.tenant.tenant_id, {b"n": b"1", b"h": b"not a header", b"e": b"{}"})
    api.service.work()
    found = families(api)["ebbing_deliveries_total"]
    assert (found["ingest", "dead"], found["ingest", "done"]) == (1, 0)


# In a separate process, because the application reads its broker's address at import time.
TASKS = """
import os
from workers.celery_app import celery
celery.loader.import_default_modules()
from workers import base
released = []
base.memory_release.release_unused = lambda: released.append("memory")
base.database.close_idle = lambda: released.append("connections")
base.WORKED_SECONDS = 0
celery.tasks["ingest.drain"].apply()
base.WORKED_LONG_SECONDS = 0
celery.tasks["ingest.drain"].apply()
base.WORKED_SECONDS = base.WORKED_LONG_SECONDS = 1000
from app.services.erasure import ledger
ledger.check = lambda: 1 / 0
celery.tasks["ingest.index"].apply()
from app.store.core import pools, database
from app.store.fleet_gauges import whole
def away():
    raise ConnectionError
ledger.check = away
celery.tasks["ingest.index"].apply()
assert released == ["memory", "connections", "memory"], "after tasks that have worked, and only then"
"""


@pytest.mark.slow
def test_a_task_is_counted_when_it_begins_and_when_it_ends(api: Api) -> None:
    api.remember("one", work=False)
    done = subprocess.run([sys.executable, "-c", TASKS], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = families(api)
    assert found["ebbing_tasks_started_total"]["ingest", queues.DRAIN] == 2
    assert found["ebbing_tasks_started_total"]["ingest", queues.INDEX] == 2
    assert found["ebbing_tasks_total"]["ingest", "succeeded", queues.DRAIN] == 2
    assert found["ebbing_tasks_total"]["ingest", "failed", queues.INDEX] == 1
    assert found["ebbing_tasks_total"]["ingest", "put_off", queues.INDEX] == 1
    assert found["ebbing_task_seconds_count"]["ingest", queues.DRAIN] == 2
    assert found["ebbing_tasks_retried_total"]["ingest", queues.DRAIN] == 0
    assert found["ebbing_stored_memories_total"] == {(): 1}
    assert found["ebbing_database_pool_connections"]["ingest", "limit"] > 0


def test_what_is_counted_within_is_written_in_one_go_also_after_a_failure(service: Service) -> None:
    def work() -> None:
        with metrics.buffer_counts():
            metrics.count("stored_memories", 2)
            with metrics.buffer_counts():
                metrics.count("stored_memories", 3)
            assert metrics.read_counters()["stored_memories"] == 0
            raise LookupError

    with pytest.raises(LookupError):
        work()
    assert metrics.read_counters()["stored_memories"] == 5


@pytest.mark.parametrize(
    ("name", "labels"),
    [("nothing", {}), ("stored_memories", {"lane": "ingest"}), ("deliveries", {"lane": "x", "outcome": "done"})],
)
def test_no_series_comes_into_being_by_accident(name: str, labels: dict[str, str]) -> None:
    with pytest.raises(KeyError):
        metrics.count(name, **labels)  # type: ignore[arg-type]


def test_counting_never_fails_for_want_of_redis(service: Service) -> None:
    service.configure(redis_url="redis://127.0.0.1:1/0")
    stream.close()
    metrics.count("stored_memories")
    metrics.record_job("sweep", 1.0, well=True)
    metrics.record_audit("x", broken=True)
    pool_usage.publish_pool_usage(pool_usage.API)


# --- Gauges ---


def test_figures_of_all_tenants_are_kept_and_shown(api: Api) -> None:
    for tenant in (api.tenant, api.service.tenant()):
        api.remember("one", "two", key=tenant.key)
    api.service.push(api.tenant.tenant_id, {b"n": b"1", b"h": b"not a header", b"e": b"{}"})
    api.service.work()
    fleet_gauges.refresh()
    found = families(api)
    assert found["ebbing_memories"] == {("active",): 4, ("archived",): 0, ("cold",): 0}
    assert found["ebbing_quarantine_size"] == {(): 1}
    assert found["ebbing_salience_provisional"] == {(): 4}
    assert found["ebbing_ingest_unaccounted_requests"] == {(): 0}
    assert abs(found["ebbing_figures_timestamp_seconds"][()] - time.time()) < PATIENCE_SECONDS
    assert abs(found["ebbing_job_last_success_timestamp_seconds"]["night",] - time.time()) < PATIENCE_SECONDS, (
        "a new tenant counts from its creation"
    )


def test_what_costs_more_is_looked_at_once_a_minute(api: Api) -> None:
    fleet_gauges.refresh()
    api.remember("one")
    assert fleet_gauges.refresh().provisional in {0, 1}  # a new minute may just have begun
    kept = fleet_gauges.refresh(thoroughly=True)
    assert (kept.provisional, kept.memories["active"]) == (1, 1)


def test_figures_of_another_version_are_none(service: Service) -> None:
    service.redis.set("ebbing:{s0}:figures", b'{"at_ms": "x"}')
    assert fleet_gauges.read() == fleet_gauges.Figures()


def test_figures_are_behind_row_level_security_for_everybody_else(service: Service) -> None:
    service.send(service.tenant().tenant_id, "one")
    service.work()
    with database.shared() as tx:
        assert whole(tx).active == 0
    with database.drain() as tx:
        assert whole(tx).active == 1


def test_processes_that_fall_silent_count_no_more(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    database.pool()  # resets the high-water mark, which earlier tests' threads have raised
    with database.shared():
        pool_usage.publish_pool_usage("embed")
    assert pool_usage.pool_usage_by_kind()["embed"].in_use == 1
    monkeypatch.setattr(pool_usage, "HEARD_MS", -1)
    assert pool_usage.pool_usage_by_kind()["embed"].limit == 0
    assert service.redis.hlen(POOLS) == 0


def test_who_waits_for_a_connection_is_seen(service: Service) -> None:
    service.configure(database_pool_size=1)
    database.close()
    database.engine("ebbing_app")
    database.pool()

    go_home = threading.Event()

    def work() -> None:
        with database.shared():
            go_home.wait(PATIENCE_SECONDS)

    with ThreadPoolExecutor(5) as people:
        try:
            working = [people.submit(work) for _ in range(3)]
            until(lambda: pools._use.in_use == 3, "every connection is in use")
            working += [people.submit(work) for _ in range(2)]
            until(lambda: pools._use.waiting == 2, "others wait for one")
        finally:
            go_home.set()
        for done in working:
            done.result()
    found = database.pool()
    assert (found.limit, found.open, found.in_use, found.waiting) == (3, 1, 3, 2)
    assert database.pool().waiting == 0


def test_idle_connections_are_closed_and_opened_again(service: Service) -> None:
    database.close()
    with database.shared():
        pass
    assert database.pool().open == 1
    database.close_idle()
    assert database.pool().open == 0
    with database.shared():
        assert database.pool().in_use == 1


def test_the_connection_used_last_is_used_next(service: Service) -> None:
    database.close()
    with database.shared(), database.shared() as inner:
        last = inner.execute(text("SELECT pg_backend_pid()")).scalar_one()
    for _ in range(3):
        with database.shared() as tx:
            assert tx.execute(text("SELECT pg_backend_pid()")).scalar_one() != last, "the outer one was returned later"


def test_a_backups_age_is_its_marks(api: Api, tmp_path: Path) -> None:
    assert "ebbing_backup_age_seconds" not in families(api)
    mark = tmp_path / "mark"
    api.service.configure(backup_mark=mark)
    assert families(api)["ebbing_backup_age_seconds"] == {(): float("inf")}
    mark.touch()
    os.utime(mark, (time.time() - 7200,) * 2)
    assert 7200 <= families(api)["ebbing_backup_age_seconds"][()] < 7200 + PATIENCE_SECONDS


def test_redis_tells_how_full_it_is(api: Api) -> None:
    found = families(api)
    assert found["ebbing_redis_memory_used_bytes"][()] > 0
    assert found["ebbing_redis_refuses_writes"] == {(): 0}


def test_a_scrape_is_quick_with_many_tenants_and_memories(api: Api) -> None:
    """A scrape takes three statements in all, regardless of the number of tenants and memories.

    After a process has opened a connection, it takes two more, which find that no erasure waits for a replay.
    """
    api.service.rows(
        "INSERT INTO tenants (tenant_id, name) SELECT gen_random_uuid(), 'many ' || n FROM generate_series(1, 500) AS n"
    )
    api.remember("one", work=False)
    api.get("/metrics", key=None)
    with watched("ebbing_app") as seen, watched("ebbing_drain") as unrestricted:  # may open connections
        ledger.check()
        seen.clear()
        api.get("/metrics", key=None)
    assert len(seen) == 3
    assert not unrestricted, "a scrape must not bypass row-level security"


def test_unaccounted_requests_are_those_whose_stream_is_gone(service: Service) -> None:
    tenant_ids: list[UUID] = [service.tenant().tenant_id for _ in range(3)]
    for tenant_id in tenant_ids:
        service.send(tenant_id, "x")
        service.send(tenant_id, "y")
    assert stream.backlog().unaccounted() == 0
    service.redis.delete(f"ebbing:{{s0}}:stream:{tenant_ids[0]}")
    assert stream.backlog().unaccounted() == 2
