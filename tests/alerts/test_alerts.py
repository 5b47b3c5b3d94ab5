"""Every alert fires when its cause occurs in the running service, and resolves once the cause is removed."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app import heartbeats
from app.clients.redis import stream
from app.clients.redis.connection import BACKLOG, RING, RING_MEMBERS, stream_key
from app.clients.redis.connection_check import verify_connections
from app.domain.health_findings import StuckProcess
from app.domain.ingest.envelope import pack
from app.domain.policy.night_hours import Night
from app.domain.policy.policy import Policy
from app.services.erasure import ledger
from app.services.ingest import witness
from app.services.jobs import queue, runner, schedule
from app.services.monitoring import fleet_gauges
from app.services.monitoring.stuck_processes import PoolWatch
from app.services.security import audit
from app.store.core import database
from tests.alerts.conftest import GIB
from tests.alerts.watch import Scrape, Watch, rules
from tests.api.caller import Api
from tests.provider.server import provider
from tests.waiting import until

pytestmark = pytest.mark.long


def wait_since(api: Api, seconds: float) -> UUID:
    """Create a tenant with one unclaimed request that was accepted this many seconds ago."""
    tenant_id = api.service.tenant().tenant_id
    fields = pack(bytes(16), 1, "json", "", b'{"text": "x"}')
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    api.service.redis.xadd(stream_key(tenant_id), named, id=f"{int((time.time() - seconds) * 1000)}-0")  # type: ignore[arg-type]
    api.service.redis.hincrby(BACKLOG, "entries", 1)
    api.service.redis.sadd(RING_MEMBERS, str(tenant_id))
    api.service.redis.rpush(RING, str(tenant_id))
    return tenant_id


def reopen(api: Api, **urls: str) -> None:
    """Point the service at other servers."""
    api.service.configure(**urls)
    database.close()
    stream.close()


def test_a_service_that_is_well_is_quiet(watch: Watch, api: Api) -> None:
    api.remember("one", "two")
    assert watch.minutes(30) == set()


def test_work_that_waits(watch: Watch, api: Api) -> None:
    wait_since(api, 400)
    assert watch.minutes(4) == set(), "too short a delay for an alert"
    assert watch.minutes(3) == {("EbbingWorkWaits", "lane")}
    api.service.work()
    assert watch.minutes(1) == set()


def test_a_process_of_a_worker_that_hangs(watch: Watch, api: Api) -> None:
    scrape, hung = watch.scrape, PoolWatch("embed")

    def scrape_hung() -> str:
        hung.publish([StuckProcess("embed", 4711, "host", "stopped", 45)])
        return scrape()

    watch.scrape = scrape_hung
    assert watch.minutes(2) == {("EbbingWorkWaits", "process")}
    watch.scrape = scrape
    hung.publish([])
    assert watch.minutes(1) == set()


@pytest.mark.parametrize(("source", "cause"), [("rights", "silent"), ("beat", "beat")])
def test_a_worker_and_beat_that_send_no_heartbeat(watch: Watch, source: str, cause: str) -> None:
    scrape = watch.scrape

    def scrape_alive() -> str:
        heartbeats.record_heartbeat(source)
        return scrape()

    watch.scrape = scrape_alive
    assert watch.minutes(2) == set()
    watch.scrape = scrape
    assert watch.minutes(2) == {("EbbingWorkWaits", cause)}
    watch.scrape = scrape_alive
    assert watch.minutes(1) == set()


def test_a_restored_database_before_its_replay(watch: Watch, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_known_clear", -1)  # as after the reconnection that a restore causes
    mark = "UPDATE ebbing_keys.request_mark SET seq = seq + %s"
    api.service.rows(mark, 1)
    assert watch.minutes(7) == {("EbbingServiceFails", "replay")}
    api.service.rows(mark, -1)
    assert watch.minutes(1) == set()


@pytest.mark.parametrize("store", ["postgresql", "redis"])
def test_nobody_says_how_long_work_waits(watch: Watch, api: Api, store: str) -> None:
    scrape, was = watch.scrape, api.service.database_url if store == "postgresql" else api.service.redis_url
    watch.scrape = lambda: api.get("/metrics", key=None).text
    setting = "database_url" if store == "postgresql" else "redis_url"
    nowhere = "postgresql://nobody@127.0.0.1:1/none" if store == "postgresql" else "redis://127.0.0.1:1/0"
    reopen(api, **{setting: nowhere})
    assert ("EbbingWorkWaits", "unseen") in watch.minutes(13)
    reopen(api, **{setting: was})
    watch.scrape = scrape
    assert watch.minutes(6) == set()


def test_dead_letters_that_come_in_numbers(watch: Watch, api: Api) -> None:
    tenant_id = api.service.tenant().tenant_id
    for _ in range(12):
        api.service.push(tenant_id, {b"n": b"1", b"h": b"not a header", b"e": b"{}"})
    api.service.work()
    assert len(api.service.letters(tenant_id)) == 12
    assert watch.minutes(1) == {("EbbingWorkLost", "quarantine")}
    assert watch.minutes(16) == set(), "old dead letters don't keep the alert firing"


def test_requests_that_have_vanished(watch: Watch, api: Api) -> None:
    tenant_id = wait_since(api, 1)
    api.service.redis.delete(stream_key(tenant_id))
    assert watch.minutes(7) == {("EbbingWorkLost", "unaccounted")}
    api.service.redis.hset(BACKLOG, "entries", 0)
    assert watch.minutes(1) == set()


def test_a_redis_that_was_emptied(watch: Watch, api: Api) -> None:
    scrape = watch.scrape
    tenant = api.tenant
    witness.guard_connections()
    try:
        for _ in range(2):  # the first connection marks a new Redis, the second one finds the mark
            stream.close()
            assert watch.minutes(1) == set()
        api.service.redis.flushdb()
        stream.close()
        watch.scrape = lambda: api.get("/metrics", key=None).text  # figures can't be stored
        assert watch.minutes(1) == {("EbbingWorkLost", "replaced")}
        witness.accept_queue(tenant.tenant_id, "key")
        watch.scrape = scrape
        assert watch.minutes(1) == set()
    finally:
        verify_connections(None)
        stream.close()


def test_a_night_that_does_not_end_well(watch: Watch, api: Api) -> None:
    tenant = api.service.tenant(Policy(night=Night(jitter_seconds=0)))
    schedule.insert_due_runs(["night"])
    api.service.rows("UPDATE tenants SET created_at = created_at - interval '27 hours'")
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr("app.services.memories.recount.recount_tenant", lambda _: 1 / 0)
        assert tonight(tenant.tenant_id) == "failed"
    assert watch.minutes(7) == {("EbbingNightMissed", "night")}
    assert tonight(tenant.tenant_id) == "done"
    assert watch.minutes(1) == set()


def tonight(tenant_id: UUID) -> str:
    """Run the tenant's night now and return its final status."""
    job_id = schedule.run(tenant_id, "night").job_id
    assert job_id is not None
    while (found := queue.get(tenant_id, job_id)).finished_at is None:
        runner.run_slice(job_id)
    return found.status


def test_an_audit_that_was_altered(watch: Watch, api: Api) -> None:
    tenant_id = api.service.tenant().tenant_id
    with database.tenant(tenant_id) as tx:
        audit.append(tx, tenant_id, "job_started", details={"kind": "sweep"})
    owner = api.service.rows
    alter = "ALTER TABLE audit {} TRIGGER audit_stays"
    owner(alter.format("DISABLE"))
    owner("UPDATE audit SET items = items + 1 WHERE tenant_id = %s AND seq = 1", tenant_id)
    audit.verify_recent(tenant_id)
    assert watch.minutes(1) == {("EbbingPromiseAtRisk", "audit")}
    owner("UPDATE audit SET items = items - 1 WHERE tenant_id = %s AND seq = 1", tenant_id)
    owner(alter.format("ENABLE"))
    audit.verify_recent(tenant_id)
    assert watch.minutes(1) == set()


def test_a_request_near_its_date(watch: Watch, api: Api) -> None:
    received = (datetime.now(UTC) - timedelta(days=40)).isoformat()
    asked = {"nature": "correction", "law": "ccpa", "received_at": received}
    entered = api.post("/v1/privacy/requests", json=asked).json()
    assert watch.minutes(1) == {("EbbingPromiseAtRisk", "request")}
    answer = api.post(f"/v1/privacy/requests/{entered['request_id']}/complete")
    assert answer.status_code == 200, answer.text
    assert watch.minutes(1) == set()


@pytest.mark.parametrize(
    ("cause", "left"),
    [
        ("residue", "UPDATE erasures SET status = 'running', residue = 3"),
        ("rewrite", "UPDATE erasures SET rewrite_by = now() - interval '1 hour'"),
    ],
    ids=["residue", "rewrite"],
)
def test_an_erasure_that_leaves_something(watch: Watch, api: Api, cause: str, left: str) -> None:
    """The row is set as verification would set it; the erasure tests check that verification does so."""
    [memory_id] = api.remember("x")
    api.delete(f"/v1/memories/{memory_id}")
    api.service.rows(left)
    assert watch.minutes(1) == {("EbbingPromiseAtRisk", cause)}
    api.service.rows("UPDATE erasures SET status = 'verified', rewritten_at = now()")
    assert watch.minutes(1) == set()


def test_a_provider_that_is_away(watch: Watch, api: Api) -> None:
    with provider() as fake:
        api.service.configure(openai_base_url=fake.url)
        assert watch.minutes(12) == set()
        fake.refuse()
        assert watch.minutes(8) == set(), "too short an outage for an alert"
        assert watch.minutes(4) == {("EbbingProviderFails", "provider")}
        fake.listen()
        assert watch.minutes(1) == set()


def test_nobody_looks_after_nights(watch: Watch, api: Api) -> None:
    scrape = watch.scrape
    watch.scrape = lambda: api.get("/metrics", key=None).text
    assert watch.minutes(12) == {("EbbingWorkWaits", "stale")}
    watch.scrape = scrape
    assert watch.minutes(1) == set()


def test_a_label_that_prometheus_has_renamed(watch: Watch) -> None:
    scrape = watch.scrape
    once = scrape().replace('{job="night"}', '{exported_job="night"}')

    def renamed() -> str:
        now = f"ebbing_figures_timestamp_seconds {watch.began + watch.minute * 60}"
        return re.sub(r"^ebbing_figures_timestamp_seconds .*$", now, once, flags=re.MULTILINE)

    watch.scrape = renamed
    assert watch.minutes(68) == {("EbbingNightMissed", "unseen")}
    watch.scrape = scrape
    assert watch.minutes(1) == set()


def test_redis_that_refuses_to_write_and_ingest_that_fails_for_it(watch: Watch, api: Api) -> None:
    scrape = watch.scrape

    def send() -> int:
        return {api.post("/v1/memories", json={"text": "x"}).status_code for _ in range(3)}.pop()

    def sending(wanted: int, then: Scrape) -> Scrape:
        def send_and_scrape() -> str:
            assert send() == wanted
            if wanted == 202:
                api.service.work()
            return then()

        return send_and_scrape

    watch.scrape = sending(202, scrape)
    assert watch.minutes(2) == set()
    api.service.redis.config_set("maxmemory", 1)
    try:
        until(lambda: send() == 503, "the API refuses")
        watch.scrape = sending(503, lambda: api.get("/metrics", key=None).text)  # figures can't be stored either
        assert watch.minutes(3) == {("EbbingServiceFails", "redis"), ("EbbingServiceFails", "errors")}
    finally:
        api.service.redis.config_set("maxmemory", 0)
    until(lambda: send() == 202, "the API accepts again")
    watch.scrape = sending(202, scrape)
    assert watch.minutes(1) == {("EbbingServiceFails", "errors")}
    assert watch.minutes(6) == set(), "the hourly error rate is still high, the recent one isn't"


def test_a_disk_that_fills(watch: Watch, disk: dict[str, int]) -> None:
    disk["free"] = GIB
    assert watch.minutes(7) == {("EbbingServiceFails", "disk")}
    disk["free"] = 5 * GIB
    assert watch.minutes(1) == set()


def test_a_webhook_that_was_disabled(watch: Watch, api: Api) -> None:
    insert = (
        "INSERT INTO webhooks (tenant_id, webhook_id, url, format, status, created_by, secret_id, cursor) "
        "VALUES (%s, gen_random_uuid(), 'https://example.org', 'standard', %s, 'key', gen_random_uuid(), 0)"
    )
    api.service.rows(insert, api.tenant.tenant_id, "paused")
    assert watch.minutes(7) == set()
    api.service.rows(insert, api.tenant.tenant_id, "disabled")
    assert watch.minutes(7) == {("EbbingWebhookDisabled", "webhooks")}
    api.service.rows("UPDATE webhooks SET status = 'enabled'")
    assert watch.minutes(2) == set()


def test_a_tenant_whose_recall_brings_nothing(watch: Watch, api: Api) -> None:
    others = [api.service.tenant().tenant_id for _ in range(3)]
    for tenant_id in others:
        finish_run(api, tenant_id, passed=6, failed=4, empty=2)
    finish_run(api, api.tenant.tenant_id, passed=0, failed=4, empty=4)
    assert watch.minutes(2) == set(), "four recalls are too few for an alert"
    finish_run(api, api.tenant.tenant_id, passed=1, failed=9, empty=9)
    assert watch.minutes(2) == {("EbbingRecallEmpty", "empty")}, "other tenants' good results don't mask it"
    finish_run(api, api.tenant.tenant_id)
    assert watch.minutes(2) == {("EbbingRecallEmpty", "empty")}, "a run without recalls doesn't resolve the alert"
    finish_run(api, api.tenant.tenant_id, passed=5, failed=5, empty=1)
    assert watch.minutes(2) == set()


def finish_run(api: Api, tenant_id: UUID, **recall: int) -> None:
    """Insert a finished self-test run with these recall values."""
    results = json.dumps({"recall": recall} if recall else {})
    api.service.rows(
        "INSERT INTO self_test_runs (tenant_id, run_id, as_of, seed, target_ms, started_at, finished_at, results) "
        "VALUES (%s, gen_random_uuid(), now(), 1, 50, clock_timestamp(), clock_timestamp(), %s)",
        *(tenant_id, results),
    )


def test_figures_are_as_old_as_they_say(api: Api) -> None:
    assert fleet_gauges.read().at_ms == 0
    assert fleet_gauges.refresh().at_ms == fleet_gauges.read().at_ms > 0


def test_every_cause_is_tried_above() -> None:
    causes = {(rule["alert"], rule["labels"]["cause"]) for rule in rules("alert")}
    assert causes == {
        *(("EbbingWorkWaits", cause) for cause in ("lane", "unseen", "stale", "process", "silent", "beat")),
        *(("EbbingWorkLost", cause) for cause in ("quarantine", "unaccounted", "replaced")),
        *(("EbbingNightMissed", cause) for cause in ("night", "unseen")),
        *(("EbbingPromiseAtRisk", cause) for cause in ("request", "residue", "rewrite", "audit")),
        ("EbbingRecallEmpty", "empty"),
        ("EbbingProviderFails", "provider"),
        ("EbbingWebhookDisabled", "webhooks"),
        *(("EbbingServiceFails", cause) for cause in ("errors", "redis", "disk", "replay")),
    }
