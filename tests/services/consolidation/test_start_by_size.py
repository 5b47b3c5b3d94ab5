"""A tenant's number of memories or its storage starts a consolidation by day (seed 004 §3.1, triggers 1 and 4)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.consolidation.parameters import Consolidation
from app.domain.policy.policy import Policy
from app.services.consolidation import consolidation_run
from app.services.jobs import backpressure, runner
from app.services.tenants import quota
from app.store.core import database
from app.store.memories.tenant_counts import TierCounts
from tests.service import Service
from tests.services import nights
from tests.services.mergeable import LIKE, Alike
from workers.schedule import SAFETY_NETS


def started(service: Service) -> list[tuple[str, str]]:
    return [tuple(row) for row in service.rows("SELECT kind, status FROM jobs WHERE kind = 'consolidate'")]


def run_jobs(service: Service) -> None:
    unfinished = "SELECT job_id FROM jobs WHERE kind = 'consolidate' AND status IN ('queued', 'sent')"
    for (job_id,) in service.rows(unfinished):
        runner.run_slice(job_id)


def runs(service: Service) -> list[str]:
    return [by for (by,) in service.rows("SELECT started_by FROM consolidation_runs ORDER BY started_at")]


@pytest.mark.parametrize(
    ("changes", "trigger"),
    [
        ({"consolidation": {"memories_above": 5}}, "count"),
        ({"consolidation": {"memories_above": 5, "at_night": False}}, "count"),
        ({"consolidation": {"memories_above": 12}}, None),
        ({"quota_bytes": 4_000}, "quota"),
        ({"quota_bytes": 40_000}, None),
        ({"quota_bytes": 4_000, "consolidation": {"paused": True}}, None),
    ],
)
def test_size_starts_one_consolidation_a_day(service: Service, changes: dict[str, Any], trigger: str | None) -> None:
    alike = Alike(service, Policy.model_validate(changes))
    alike.remember(*LIKE, subject="ann")
    assert consolidation_run.start_by_size() == (1 if trigger else 0)
    run_jobs(service)
    assert runs(service) == ([trigger] if trigger else [])
    assert len(alike.summaries()) == len(runs(service))
    alike.remember(*(f"{text} again" for text in LIKE), subject="ann")
    assert consolidation_run.start_by_size() == 0, "at most once a day"
    service.rows("UPDATE consolidation_runs SET started_at = now() - interval '25 hours'")
    assert consolidation_run.start_by_size() == (1 if trigger else 0)


def test_a_repeated_check_creates_no_second_job(service: Service) -> None:
    alike = Alike(service, Policy(consolidation=Consolidation(memories_above=5)))
    alike.remember(*LIKE, subject="ann")
    consolidation_run.start_by_size()
    consolidation_run.start_by_size()
    assert len(started(service)) == 1


def test_a_night_without_consolidation_skips_what_a_day_has_done(service: Service) -> None:
    alike = Alike(service, Policy(consolidation=Consolidation(memories_above=5, at_night=False)))
    alike.remember(*LIKE, subject="ann")
    consolidation_run.start_by_size()
    run_jobs(service)
    nights.run(alike.tenant_id)
    assert runs(service) == ["count"]


def test_it_gives_way_to_ingest(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    alike = Alike(service, Policy(consolidation=Consolidation(memories_above=5)))
    alike.remember(*LIKE, subject="ann")
    consolidation_run.start_by_size()
    monkeypatch.setattr(backpressure, "ingest_age_seconds", lambda: 1e6)
    run_jobs(service)
    assert runs(service) == []
    assert [status for _, status in started(service)] != ["done"]


def test_simulated_tenants_are_left_out(service: Service) -> None:
    alike = Alike(service, Policy(consolidation=Consolidation(memories_above=5)))
    alike.remember(*LIKE, subject="ann")
    service.rows("UPDATE tenants SET simulated = true WHERE tenant_id = %s", alike.tenant_id)
    assert consolidation_run.start_by_size() == 0


def test_the_check_runs_every_minute() -> None:
    assert {net.task: net.every_seconds for net in SAFETY_NETS}["maintain.growth"] == 60


@pytest.mark.parametrize(("quota_bytes", "state"), [(438, "below"), (437, "near")])
def test_storage_is_near_its_quota_above_four_fifths(service: Service, quota_bytes: int, state: str) -> None:
    """Seed 004 §3.1: "Storage usage > 80%"; 350 bytes are 79.9 % of 438."""
    tenant_id: UUID = service.tenant(Policy(quota_bytes=quota_bytes)).tenant_id
    counts = TierCounts(text_bytes=350)
    with database.tenant(tenant_id) as tx:
        assert quota.get_usage(tx, tenant_id, counts).state == state
        exactly = quota.compute_usage(counts._replace(text_bytes=800), 0, 1000, 0.8)
    assert exactly.state == "below"
