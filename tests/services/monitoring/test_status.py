"""Overall status: each kind of trouble is reported when it is caused, and cleared when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from uuid import uuid4

import pytest

from app import heartbeats, queues
from app.clients.llm.responses import Usage
from app.clients.redis import stream
from app.clients.redis.connection import HEARTBEATS, STARTS, stream_key
from app.domain.privacy.requests import NewRequest
from app.services.jobs import schedule
from app.services.monitoring import doctor_stores, fleet_gauges, installation, probes, status
from app.services.monitoring.status import Status
from app.services.privacy import request_log
from app.services.tenants import budget
from app.store.core import database
from app.system.running_home import PREVIOUS_END
from tests.service import Service, Tenant


@pytest.fixture
def tenant(service: Service) -> Tenant:
    for source in heartbeats.SOURCES:
        heartbeats.record_heartbeat(source)
    return service.tenant()


def now(tenant: Tenant, *, every: bool = False) -> Status:
    status.forget()
    return status.now(tenant.tenant_id, every=every)


def codes(tenant: Tenant, *, every: bool = False) -> set[str]:
    return {one.code for one in now(tenant, every=every).findings}


def test_all_is_well_where_nothing_is_wrong(tenant: Tenant) -> None:
    for every in (False, True):
        found = now(tenant, every=every)
        assert (found.findings, found.state, found.line) == ([], "well", "No problems found")
        assert found.lanes.keys() == queues.LANES.keys()
        assert found.backlog_line == "All queues are empty"


def test_a_look_within_a_second_asks_nothing_anew(service: Service, tenant: Tenant) -> None:
    before = now(tenant)
    assert status.now(tenant.tenant_id) is before


def test_workers_that_are_silent(service: Service, tenant: Tenant) -> None:
    service.redis.hset(HEARTBEATS, "embed", stream.backlog().now_ms() - 3_600_000)
    service.redis.hdel(HEARTBEATS, "score", "beat")
    assert codes(tenant) == {"lane_embed", "lane_score", "beat"}


def test_a_worker_that_died_and_was_restarted_is_shown_for_an_hour_and_a_requested_stop_is_not(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeats, "os", SimpleNamespace(getpid=count(1).__next__, environ={}))
    ends = [heartbeats.record_start(source) for source in ("embed", "score") for _ in range(3)]
    heartbeats.record_stop(ends[0])
    found = now(tenant)
    assert found.findings == []
    assert set(found.restarts) == {"embed", "score"}
    assert [found.restarts[source].count for source in ("embed", "score")] == [1, 2]
    heartbeats.record_start("score")
    assert codes(tenant) == {"restarts_score"}
    for start in cast("list[bytes]", service.redis.zrange(STARTS, 0, -1)):
        service.redis.zadd(STARTS, {start: stream.backlog().now_ms() - 3_600_001})
    assert now(tenant).restarts == {}
    heartbeats.record_start("beat")
    assert now(tenant).restarts == {}
    heartbeats.record_start("embed")
    assert now(tenant).restarts["embed"].count == 1, "a process that had lived for more than an hour died"
    monkeypatch.setattr(heartbeats, "STARTS_KEPT", 2)
    heartbeats.record_start("rights")
    assert service.redis.zcard(STARTS) == 2


def test_a_requested_stop_and_the_next_start_leave_the_time_of_an_earlier_restart(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment: dict[str, str] = {}
    monkeypatch.setattr(heartbeats, "os", SimpleNamespace(getpid=count(1).__next__, environ=environment))
    heartbeats.record_start("embed")  # killed
    environment[PREVIOUS_END] = "signal SIGKILL"
    restarted = heartbeats.record_start("embed")
    for start in cast("list[bytes]", service.redis.zrange(STARTS, 0, -1)):
        service.redis.zincrby(STARTS, -600_000, start)
    heartbeats.record_stop(restarted)
    [moved] = [one for one in cast("list[bytes]", service.redis.zrange(STARTS, 0, -1)) if b",stopped|" in one]
    service.redis.zincrby(STARTS, -600_000, moved)
    del environment[PREVIOUS_END]  # the whole service was stopped and started
    heartbeats.record_start("embed")
    [found] = now(tenant).restarts.values()
    assert (found.count, found.last_end) == (1, "signal SIGKILL")
    assert 600 <= found.last_seconds < 1200


def test_starts_of_an_earlier_version_are_understood(service: Service, tenant: Tenant) -> None:
    at = stream.backlog().now_ms()
    service.redis.zadd(STARTS, {f"embed|host|1|{at - 2000}": at - 2000, f"embed|host|2|{at - 1000}": at - 1000})
    assert now(tenant).restarts["embed"].count == 1


def test_a_lane_that_stalls(service: Service, tenant: Tenant) -> None:
    service.send(tenant.tenant_id, "x")
    service.work()
    service.send(tenant.tenant_id, "y")
    other = service.tenant()
    assert codes(tenant) == set()
    service.rows(
        "INSERT INTO tenant_work (stage, tenant_id, memory_ids, created_at) "
        "VALUES ('index', %s, ARRAY[gen_random_uuid()], now() - interval '10 minutes')",
        tenant.tenant_id,
    )
    assert codes(tenant) == {"old_ingest"}
    assert codes(other) == set()
    assert codes(other, every=True) == {"old_ingest"}


def test_dead_letters_and_their_end(service: Service, tenant: Tenant) -> None:
    service.post(tenant.tenant_id, b"no JSON")
    service.work()
    assert codes(tenant) == {"dead_letters"}
    assert now(tenant).letters == 1
    service.rows("UPDATE dead_letters SET discarded_at = now(), discard_reason = 'x'")
    assert codes(tenant) == set()


def test_dead_letters_of_other_tenants_are_shown_to_those_who_see_all_tenants(service: Service, tenant: Tenant) -> None:
    others = [service.tenant() for _ in range(2)]
    for other in (tenant, *others, others[0]):
        service.post(other.tenant_id, b"no JSON")
    service.work()
    fleet_gauges.refresh()
    assert codes(tenant) == {"dead_letters"}
    [own, elsewhere] = now(tenant, every=True).findings
    assert (own.code, own.what) == ("dead_letters", "1 dead letter needs a decision")
    named = dict(service.rows("SELECT tenant_id, name FROM tenants"))
    first, second = (named[other.tenant_id] for other in others)
    assert elsewhere.what == f"3 dead letters of 2 other tenants need a decision ({first} 2, {second} 1)"
    assert elsewhere.page == "tenants"
    service.rows(
        "UPDATE dead_letters SET discarded_at = now(), discard_reason = 'x' WHERE tenant_id <> %s", tenant.tenant_id
    )
    fleet_gauges.refresh()
    assert codes(tenant, every=True) == {"dead_letters"}


def test_the_own_letters_are_not_counted_among_those_of_others() -> None:
    own, other = uuid4(), uuid4()
    listed = fleet_gauges.Figures(dead_letters=5, letters_by_tenant={own: 2, other: 3}, tenants_with_letters=2)
    assert listed.count_other_letters(own, 2) == ({other: 3}, 1, 3)
    assert listed.count_other_letters(uuid4(), 7) == ({own: 2, other: 3}, 2, 5), "new letters aren't in the figures yet"
    cut = fleet_gauges.Figures(dead_letters=9, letters_by_tenant={other: 3}, tenants_with_letters=4)
    assert cut.count_other_letters(own, 2) == ({other: 3}, 3, 7)


def test_a_secret_that_everybody_may_read_is_reported_by_the_service(
    service: Service, tenant: Tenant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "key"
    secret.write_text("k" * 32)
    secret.chmod(0o644)
    monkeypatch.setenv("EBBING_METRICS_TOKEN_FILE", str(secret))
    assert codes(tenant) == set(), "the path is for those who see the whole service"
    [found] = now(tenant, every=True).findings
    assert str(secret) in found.what
    assert "EBBING_METRICS_TOKEN_FILE" in found.what
    assert found.command == f"chmod 400 {secret}"
    service.configure(installation="kubernetes")
    [mounted] = now(tenant, every=True).findings
    assert mounted.command == "", "the mounted file can't be changed from inside"
    secret.chmod(0o400)
    assert codes(tenant, every=True) == set()


def test_a_proposed_start_listens_where_the_service_listens_now(service: Service) -> None:
    service.configure(installation="run", home=Path("/srv"), port=8812)
    step, command = installation.describe_place().change("EBBING_OPENAI_BASE_URL")
    assert command == "EBBING_HOME=/srv EBBING_PORT=8812 EBBING_OPENAI_BASE_URL=NEW_VALUE ebbing run"
    assert "settings that you passed last time" in step
    service.configure(port=8000, host="0.0.0.0")  # noqa: S104 - no server listens there
    assert installation.describe_place().migrate() == "EBBING_HOME=/srv EBBING_HOST=0.0.0.0 ebbing run"


def test_a_night_that_is_late_failed_or_was_cut_short(service: Service, tenant: Tenant) -> None:
    schedule.insert_due_runs(schedule.DEFAULT_SCHEDULE)
    service.rows("UPDATE schedules SET next_run_at = now() - interval '2 hours'")
    assert codes(tenant) == codes(tenant, every=True) == {"night_overdue"}
    service.rows("UPDATE schedules SET next_run_at = now() + interval '2 hours'")
    run = schedule.run(tenant.tenant_id, "night")
    assert codes(tenant) == set()
    ended = "UPDATE jobs SET status = %s, started_at = now(), finished_at = now(), state = %s::jsonb WHERE job_id = %s"
    service.rows(ended, "failed", '{"step": "archive", "failed": {"archive": "OSError"}}', run.job_id)
    assert codes(tenant) == codes(tenant, every=True) == {"night_failed"}
    assert now(tenant).state == "trouble"
    service.rows(ended, "done", '{"step": "archive", "cut_short": "archive", "failed": {}}', run.job_id)
    assert codes(tenant) == codes(tenant, every=True) == {"night_cut_short"}


@pytest.mark.parametrize(("days", "state"), [(6.5, "attention"), (0.5, "trouble"), (-2, "trouble"), (8, "well")])
def test_a_request_of_a_person_that_is_nearly_due(service: Service, tenant: Tenant, days: float, state: str) -> None:
    entered = request_log.create(tenant.tenant_id, NewRequest("correction", "gdpr"))
    service.rows("UPDATE privacy_requests SET due_at = now() + %s", timedelta(days=days))
    found = now(tenant)
    assert ({one.code for one in found.findings}, found.state) == ({"privacy_due"} if days < 7 else set(), state)
    request_log.answer_request(tenant.tenant_id, entered.request_id, "done", None, "key")
    assert codes(tenant) == set()


def test_a_budget_that_is_spent(service: Service) -> None:
    service.configure(budget_tokens=1000)
    for source in heartbeats.SOURCES:
        heartbeats.record_heartbeat(source)
    tenant = service.tenant()
    budget.spend_tokens(tenant.tenant_id, "score", "some-model", Usage(1, 900))
    assert [one.severity for one in now(tenant).findings] == ["attention"]
    budget.spend_tokens(tenant.tenant_id, "score", "some-model", Usage(1, 200))
    assert [(one.code, one.severity) for one in now(tenant).findings] == [("budget", "trouble")]


def test_what_the_figures_of_all_tenants_say(service: Service, tenant: Tenant) -> None:
    other = service.tenant()
    request_log.create(other.tenant_id, NewRequest("correction", "gdpr"))
    service.rows("UPDATE privacy_requests SET due_at = now() + interval '2 days'")
    fleet_gauges.refresh(thoroughly=True)
    assert codes(tenant) == set()
    assert codes(tenant, every=True) == codes(other) == {"privacy_due"}
    service.send(other.tenant_id, "x")
    service.redis.delete(stream_key(other.tenant_id))
    fleet_gauges.refresh(thoroughly=True)
    assert codes(tenant, every=True) == {"privacy_due", "lost"}


def test_webhooks_that_fail_or_were_disabled(service: Service, tenant: Tenant) -> None:
    other = service.tenant()
    insert = (
        "INSERT INTO webhooks (tenant_id, status, failing_since, webhook_id, url, format, created_by, secret_id, "
        "cursor) VALUES (%s, %s, %s, gen_random_uuid(), 'https://example.org', 'standard', 'key', gen_random_uuid(), 0)"
    )
    since = datetime.now(UTC)
    assert list(doctor_stores.webhooks()) == []
    for state in ("enabled", "paused"):
        service.rows(insert, tenant.tenant_id, state, None)
    service.rows(insert, tenant.tenant_id, "paused", since)
    fleet_gauges.refresh()
    assert codes(tenant) == codes(tenant, every=True) == set()
    assert [(one.severity, one.what) for one in doctor_stores.webhooks()] == [("ok", "3, none fails")]
    service.rows(insert, tenant.tenant_id, "enabled", since)
    for _ in range(2):
        service.rows(insert, other.tenant_id, "disabled", since)
    fleet_gauges.refresh()
    [failing] = now(tenant).findings
    assert (failing.code, failing.page, failing.section) == ("webhooks_failing", "webhooks", "webhook-disabled")
    assert failing.what.startswith("1 webhook can't deliver")
    assert failing.command.endswith("ebbing webhooks list")
    assert codes(other) == {"webhooks_disabled"}
    assert codes(tenant, every=True) == {"webhooks_failing", "webhooks_disabled"}
    disabled, _ = doctor_stores.webhooks()
    assert disabled.detail.startswith("2 webhooks were disabled, because their receivers failed for days")
    assert disabled.detail.endswith("`ebbing webhooks list`")


def test_a_disk_that_is_nearly_full(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "disks_free", lambda: {"home": 0.1})
    assert codes(tenant) == {"disk_full"}


@pytest.fixture
def no_redis(service: Service, tenant: Tenant) -> Iterator[None]:
    service.configure(redis_url="redis://127.0.0.1:1/0")
    stream.close()
    yield
    service.configure(redis_url=service.redis_url)
    stream.close()


def test_redis_away(tenant: Tenant, no_redis: None) -> None:
    found = now(tenant)
    assert {one.code for one in found.findings} == {"redis"}
    assert (found.lanes, found.letters) == ({}, 0)
    assert found.backlog_line == "What waits in the queues is unknown"


def test_postgresql_away(service: Service, tenant: Tenant) -> None:
    database.close()
    service.configure(database_url="postgresql://nobody@127.0.0.1:1/nothing")
    try:
        found = now(tenant)
        assert {one.code for one in found.findings} == {"postgresql"}
        assert (found.lanes, found.letters) == ({}, None)
        assert found.state == "trouble"
    finally:
        database.close()
