"""A night's calibration: the threshold of a target share, shifts by uses, and what both change."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.policy.policy import Policy
from app.domain.tiers.keep_calibration import THRESHOLD_MAX, KeepCalibration
from app.domain.tiers.protection import KEEP_ABOVE
from app.services.memories.explanation import explain_tier
from app.services.strength import keep_threshold
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.services.tiers import forecast, keep_calibration
from app.services.tiers.forecast import ForecastOptions
from app.store.core import database
from app.store.tenants import keep_calibrations
from tests.service import Service, Tenant
from tests.services import nights

NOW = datetime.now(UTC)
CHANCES = [0.05, 0.15, 0.25, 0.35, 0.45, 0.55]


def old_memories(service: Service, tenant: Tenant, *given: dict[str, Any], days: float = 300) -> list[UUID]:
    """Store scored memories of this age; `chance`, `source` and `uses` overwrite columns of their state."""
    columns = ("chance", "source", "uses")
    texts = [{k: v for k, v in one.items() if k not in columns} for one in given]
    ids = service.send(tenant.tenant_id, *({"text": f"memory {place}"} | one for place, one in enumerate(texts)))
    service.work()
    service.rows("UPDATE memories SET created_at = created_at - %s", timedelta(days=days))
    service.rows(
        "UPDATE memory_state SET created_at = created_at - %s, accessed_at = accessed_at - %s, "
        "anchored_at = anchored_at - %s, next_due_at = 'infinity'",
        *(timedelta(days=days),) * 3,
    )
    for memory_id, one in zip(ids, given, strict=True):
        service.rows(
            "UPDATE memory_state SET keep_chance = coalesce(%s, keep_chance), "
            "salience_source = coalesce(%s, salience_source), access_count = %s WHERE memory_id = %s",
            *(one.get("chance"), one.get("source"), one.get("uses", 0), memory_id),
        )
    return ids


def calibrate(tenant: Tenant) -> KeepCalibration:
    """Run the night's step, and return the stored calibration."""
    state: dict[str, Any] = {}
    while True:
        step = keep_calibration.run_slice(tenant.tenant_id, datetime.now(UTC), state, time.monotonic())
        if step.finished:
            return stored(tenant)
        state = step.state


def stored(tenant: Tenant) -> KeepCalibration:
    with database.tenant(tenant.tenant_id) as tx:
        return keep_calibrations.read(tx, tenant.tenant_id)


def rules(tenant: Tenant, ids: list[UUID]) -> list[str]:
    return [explain_tier(tenant.tenant_id, memory_id).verdict.rule for memory_id in ids]


def test_the_night_finds_the_threshold_of_the_target_share(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"tiers": {"target_active_share": 0.5}}))
    ids = old_memories(service, tenant, *({"chance": chance} for chance in CHANCES))
    assert rules(tenant, ids) == ["decay"] + ["keep_chance"] * 5, "until then the policy's threshold applies"
    found = calibrate(tenant)
    assert (found.target, found.share, found.former) == (0.5, 0.5, None)
    assert rules(tenant, ids) == ["decay"] * 3 + ["keep_chance"] * 3
    assert "the threshold found for an active share of 0.5" in explain_tier(tenant.tenant_id, ids[-1]).verdict.why
    due = service.rows("SELECT memory_id FROM memory_state WHERE next_due_at = '-infinity'")
    assert {row[0] for row in due} == set(ids[1:3]), "the sweep decides again about what the threshold passed"
    before = service.rows("SELECT xmin FROM tenants")
    assert calibrate(tenant) == found
    assert service.rows("SELECT xmin FROM tenants") == before, "a second night changes nothing"


def test_what_decay_has_deleted_counts_towards_the_share(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"tiers": {"target_active_share": 0.5}}))
    ids = old_memories(service, tenant, *({"chance": chance} for chance in CHANCES))
    with database.tenant(tenant.tenant_id) as tx:
        keep_calibrations.count_deleted(tx, tenant.tenant_id, 3)
        keep_calibrations.count_deleted(tx, tenant.tenant_id, 1)
    found = calibrate(tenant)
    assert (found.deleted, found.share) == (4, 0.5), "five of ten memories"
    assert rules(tenant, ids) == ["decay"] + ["keep_chance"] * 5
    assert calibrate(tenant) == found


def test_holds_marks_and_the_caller_s_salience_come_first(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"tiers": {"target_active_share": 0.5}}))
    marked: list[dict[str, Any]] = [{"tags": ["promise"], "chance": 0.05}, {"tags": ["legal"], "chance": 0.05}]
    ids = old_memories(service, tenant, *marked, {"salience": 0.5}, *({"chance": chance} for chance in CHANCES[:3]))
    found = calibrate(tenant)
    assert found.share == 0.5, "the protected ones are half of the memories"
    assert found.threshold == pytest.approx(0.25)
    assert rules(tenant, ids) == ["never_forget", "never_forget", "salience", "decay", "decay", "decay"]


def test_a_threshold_stays_within_its_limits(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"tiers": {"target_active_share": 0.1}}))
    ids = old_memories(service, tenant, *({"chance": 0.9} for _ in range(4)))
    assert calibrate(tenant).threshold == THRESHOLD_MAX
    assert rules(tenant, ids) == ["keep_chance"] * 4


def test_forecast_and_preview_show_the_threshold_before_it_is_set(service: Service) -> None:
    tenant = service.tenant()
    old_memories(service, tenant, *({"chance": chance} for chance in CHANCES))
    change = {"tiers": {"target_active_share": 0.5}}
    ahead = forecast.forecast_tiers(tenant.tenant_id, ForecastOptions(1, change))
    assert ahead.found is not None
    assert (ahead.keep_above, ahead.found.share, ahead.found.memories) == (KEEP_ABOVE, 0.5, 6)
    assert ahead.changed is not None
    assert (ahead.counts[0].tolist()[0], ahead.changed[0].tolist()[0]) == (5, 3)
    outcome, effects = policy_versions.preview_change(tenant.tenant_id, RequestedChange(change))
    assert [changed.field for changed in outcome.changes] == ["tiers.target_active_share"]
    assert effects.found == ahead.found
    assert effects.after["active"] == 3
    assert keep_threshold.read_threshold(tenant.tenant_id, Policy()) == KEEP_ABOVE
    by_salience = Policy.model_validate({"protection": {"salience_above": 0.3}})
    assert keep_threshold.read_threshold(tenant.tenant_id, by_salience) is None


def test_uses_raise_the_role_that_is_used_more_than_expected(service: Service) -> None:
    tenant = service.tenant()
    used = [{"role": "assistant", "chance": 0.1, "uses": 1} for _ in range(60)]
    unused = [{"role": "user", "chance": 0.1} for _ in range(60)]
    ids = old_memories(service, tenant, *used, *unused, {"role": "assistant", "salience": 0.14}, days=20)
    found = calibrate(tenant)
    assert found.shifts["assistant"] > 0 > found.shifts["user"]
    keep, not_kept, own = ids[0], ids[60], ids[-1]
    as_of = NOW + timedelta(days=300)
    explained = explain_tier(tenant.tenant_id, keep, as_of)
    assert (explained.verdict.rule, explained.case.keep_shift > 0) == ("keep_chance", True)
    assert "uses of memories of the same role raised it from 0.1" in explained.verdict.why
    assert explain_tier(tenant.tenant_id, not_kept, as_of).case.keep_shift < 0
    assert explain_tier(tenant.tenant_id, own, as_of).case.keep_shift == 0, "the caller's own salience isn't shifted"


def test_a_superseded_memory_and_one_of_another_age_count_as_no_use(service: Service) -> None:
    tenant = service.tenant()
    given = [{"role": "user", "chance": 0.3, "uses": 1}, {"role": "user", "chance": 0.3, "uses": 1}]
    old, new = old_memories(service, tenant, *given, days=20)
    service.rows(
        "INSERT INTO supersessions (tenant_id, memory_id, superseded_id, status, source, since) "
        "VALUES (%s, %s, %s, 'active', 'caller', now())",
        *(tenant.tenant_id, new, old),
    )
    with database.tenant(tenant.tenant_id) as tx:
        [count] = keep_calibrations.count_uses(tx, tenant.tenant_id, NOW - timedelta(days=37), NOW, KEEP_ABOVE)
        none = keep_calibrations.count_uses(
            tx, tenant.tenant_id, NOW - timedelta(days=15), NOW - timedelta(days=7), KEEP_ABOVE
        )
    assert (count.speaker, count.is_above, count.memories, count.used) == ("user", True, 2, 1)
    assert count.chance == pytest.approx(0.6)
    assert none == []


def test_an_interrupted_marking_is_continued_by_the_next_night(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.tenant(Policy.model_validate({"tiers": {"target_active_share": 0.5}}))
    old_memories(service, tenant, *({"chance": chance} for chance in CHANCES))
    monkeypatch.setattr(keep_calibration, "MARKED_ROWS", 1)
    step = keep_calibration.run_slice(tenant.tenant_id, datetime.now(UTC), {}, time.monotonic())
    assert (step.done, step.finished, stored(tenant).former is None) == (1, False, False)
    found = calibrate(tenant)
    assert found.former is None
    assert service.one("SELECT count(*) FROM memory_state WHERE next_due_at = '-infinity'") == 2


def test_a_whole_night_archives_what_the_target_share_leaves_out(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"tiers": {"target_active_share": 0.6}}))
    ids = old_memories(service, tenant, *({"chance": chance} for chance in CHANCES[1:]), days=60)
    nights.run(tenant.tenant_id)
    tiers = dict(service.rows("SELECT memory_id, tier FROM memory_state"))
    assert [tiers[memory_id] == "active" for memory_id in ids] == [False] * 2 + [True] * 3


def test_a_change_of_protection_is_decided_again_by_the_next_sweep(service: Service) -> None:
    tenant = service.tenant()
    [memory_id] = old_memories(service, tenant, {"chance": 0.3}, days=60)
    policy_versions.write_change(tenant.tenant_id, RequestedChange({"protection": {"keep_chance_above": 0.5}}))
    nights.run(tenant.tenant_id)
    assert service.one("SELECT tier FROM memory_state WHERE memory_id = %s", memory_id) != "active"
