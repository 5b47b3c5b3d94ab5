"""Learned rates of forgetting: which memories and uses count, proposals, versions, and the nightly step."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.domain.dynamics.rate_fit import Observed
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.ingest.memory import KINDS
from app.domain.policy import learned_rates as rates
from app.domain.policy.policy import Policy
from app.services.tenants import learned_rates, policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from app.store.strength import observed_uses
from app.store.tenants import learned_rates as stored_rates
from tests.domain.policy.used_tenants import SPAN_DAYS, simulate
from tests.service import Service, Tenant
from tests.services import nights

EPISODIC = "forgetting.parameters.kinds.episodic"
AT = datetime(2026, 6, 1, tzinfo=UTC)


def store(service: Service, tenant: Tenant, observed: Observed, shift: timedelta = timedelta(0)) -> list[UUID]:
    """Store simulated memories and their uses, which end now, as the service would have recorded them."""
    start = datetime.now(UTC) - timedelta(days=SPAN_DAYS) + shift
    created = [start + timedelta(seconds=each) for each in observed.since.tolist()]
    ids = [row[0] for row in service.rows("SELECT gen_random_uuid() FROM generate_series(1, %s)", len(created))]
    saliences = observed.fresh.salience.tolist()
    service.rows(
        "INSERT INTO memories (tenant_id, memory_id, seq, kind, text, created_at) "
        "SELECT %s, id, place, 'episodic', 'a memory', at FROM unnest(%s::uuid[], %s::timestamptz[]) "
        "WITH ORDINALITY AS given (id, at, place)",
        *(tenant.tenant_id, ids, created),
    )
    service.rows(
        "INSERT INTO memory_state (tenant_id, memory_id, created_at, accessed_at, anchored_at, salience, keep_chance, "
        "policy_version) SELECT %s, id, at, at, at, salience, .5, 1 "
        "FROM unnest(%s::uuid[], %s::timestamptz[], %s::real[]) AS given (id, at, salience)",
        *(tenant.tenant_id, ids, created, saliences),
    )
    leaving = [(ids[row], start + timedelta(seconds=observed.until[row])) for row in np.flatnonzero(left(observed))]
    record(service, tenant, "tier", leaving)
    at = [start + timedelta(seconds=each) for each in observed.at.tolist()]
    record(service, tenant, "use", [(ids[row], moment) for row, moment in zip(observed.rows, at, strict=True)])
    return ids


def left(observed: Observed) -> Any:
    return observed.until < SPAN_DAYS * DAY_SECONDS


def record(service: Service, tenant: Tenant, kind: str, events: list[tuple[UUID, datetime]]) -> None:
    service.rows(
        "INSERT INTO memory_events (tenant_id, memory_id, at, kind) "
        "SELECT %s, id, at, %s FROM unnest(%s::uuid[], %s::timestamptz[]) AS given (id, at)",
        *(tenant.tenant_id, kind, [event[0] for event in events], [event[1] for event in events]),
    )


def slow_tenant(service: Service, memories: int = 500, **forgetting: Any) -> tuple[Tenant, Observed]:
    """Return a tenant whose memories are used as if they faded at .3 of the default rate."""
    tenant = service.tenant(Policy.model_validate({"forgetting": forgetting}))
    observed = slow_uses(memories)
    store(service, tenant, observed)
    return tenant, observed


@cache
def slow_uses(memories: int) -> Observed:
    policy = Policy()
    truth = rates.model_at(policy, rates.list_rates(policy)[0], 0.3)
    return simulate(truth, memories, 5, archiving=policy.model, uses_per_day=0.1)


def night(tenant: Tenant, at: datetime | None = None) -> Any:
    return learned_rates.run_slice(tenant.tenant_id, at or datetime.now(UTC), {}, time.monotonic())


def versions(tenant: Tenant) -> list[tuple[int, bool]]:
    found = policy_versions.list_versions(tenant.tenant_id, None, 50)
    return [(one.era.version, one.is_learned) for one in found]


def factor(tenant: Tenant) -> float:
    return float(policy_versions.list_in_force(tenant.tenant_id)[0].era.policy.model.parameters.kinds.episodic)


def test_uses_that_are_stored_give_the_rate_with_which_they_were_made(service: Service) -> None:
    tenant, observed = slow_tenant(service)
    learned, outcome, impact = learned_rates.preview(tenant.tenant_id)
    [episodic, *others] = learned.rates
    assert [one.rate.name for one in learned.rates] == [f"kinds.{kind}" for kind in KINDS]
    assert episodic.memories >= 400
    assert episodic.speed is not None
    assert 0.2 < episodic.speed < 0.42
    assert episodic.proposed == pytest.approx(1 / rates.STEP_MAX), "one version changes a rate by a limited factor"
    assert [(one.memories, one.uses, one.speed, one.proposed) for one in others] == [(0, 0, None, 1.0)] * 4
    assert outcome is not None
    assert impact is not None
    assert [(change.field, change.before, change.after) for change in outcome.changes] == [(EPISODIC, 1.0, 0.6667)]
    assert impact.memories == len(observed.since)
    assert versions(tenant) == [(1, False)], "a preview writes nothing"


def test_applied_rates_are_a_version_and_move_towards_the_estimate_step_by_step(service: Service) -> None:
    tenant, _ = slow_tenant(service)
    steps = []
    for _ in range(6):
        _, outcome, job_id = learned_rates.apply(tenant.tenant_id, "key1")
        if outcome is None:
            break
        assert job_id is not None, "memories are anchored again: earlier decay stays as it was"
        steps.append(factor(tenant))
    assert steps[:2] == [0.6667, 0.4445]
    assert len(steps) in {3, 4}
    assert 0.2 < steps[-1] < 0.42
    assert versions(tenant) == [(number, number > 1) for number in range(len(steps) + 1, 0, -1)]
    details = [row[0] for row in service.rows("SELECT details FROM audit WHERE action = 'policy_set' ORDER BY seq")]
    assert [one.get("author") for one in details] == ["learned"] * len(steps)
    with database.tenant(tenant.tenant_id) as tx:
        stored = stored_rates.read(tx, tenant.tenant_id)
    assert stored.by_hand == {"kinds.episodic": 1.0}, "the prior stays the value that was set by hand"
    policy_versions.write_change(
        tenant.tenant_id, RequestedChange({"forgetting": {"parameters": {"kinds": {"episodic": 2}}}})
    )
    rate = rates.list_rates(policy_versions.list_in_force(tenant.tenant_id)[0].era.policy)[0]
    assert stored.restore_rate(rate).values == {"kinds.episodic": 2.0}, "a later value set by hand is the prior"


def test_few_memories_change_nothing(service: Service) -> None:
    tenant, _ = slow_tenant(service, 50)
    learned, outcome, _ = learned_rates.preview(tenant.tenant_id)
    assert learned.rates[0].memories > 30
    assert learned.rates[0].learned == pytest.approx(1, abs=0.1)
    assert outcome is None


@pytest.mark.parametrize("mode", ["off", "propose", "apply"])
def test_the_night_learns_as_the_policy_says_and_once_a_week(service: Service, mode: str) -> None:
    tenant, _ = slow_tenant(service, learned=mode)
    now = datetime.now(UTC)
    counts = night(tenant, now).counts
    proposed = learned_rates.read_proposed(tenant.tenant_id)
    if mode == "off":
        assert (counts, proposed, versions(tenant)) == ({}, None, [(1, False)])
        return
    assert counts == {"applied": int(mode == "apply"), "proposed": int(mode == "propose")}
    assert versions(tenant) == ([(1, False)] if mode == "propose" else [(2, True), (1, False)])
    assert proposed == (None if mode == "apply" else (now, {"kinds.episodic": 0.6667}))
    assert night(tenant, now + timedelta(days=6)).counts == {}, "the next result is a week later"
    assert night(tenant, now + timedelta(days=7)).done == 1
    if mode == "propose":
        change = RequestedChange({"forgetting": {"learned": "off"}})
        policy_versions.write_change(tenant.tenant_id, change)
        night(tenant)
        assert learned_rates.read_proposed(tenant.tenant_id) is None


def test_the_night_cancels_no_scheduled_version(service: Service) -> None:
    tenant, _ = slow_tenant(service, learned="apply")
    later = RequestedChange({"history_days": 300}, effective_at=datetime.now(UTC) + timedelta(days=3))
    policy_versions.write_change(tenant.tenant_id, later)
    step = night(tenant)
    assert step.counts == {"applied": 0, "proposed": 1}
    assert "scheduled" in step.notes[0]
    assert [one.status for one in policy_versions.list_versions(tenant.tenant_id, None, 50)] == [
        "waiting",
        "in force",
    ]


def test_a_night_includes_the_step(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"forgetting": {"learned": "propose"}}))
    assert nights.run(tenant.tenant_id)["learning"] == 1


def cohort(**changed: Any) -> observed_uses.Cohort:
    now = datetime.now(UTC)
    given = observed_uses.Cohort([0], now - timedelta(days=365), now, now - timedelta(days=90), 0.11, 0.145)
    return given._replace(**changed)


def read(tenant: Tenant, limit: int = 100, **changed: Any) -> Observed:
    with database.tenant(tenant.tenant_id) as tx:
        return observed_uses.read(tx, tenant.tenant_id, cohort(**changed), limit)


def aged(service: Service, tenant: Tenant, *days: float) -> list[UUID]:
    """Store memories of these ages, without uses, at a keep chance of .05."""
    ids = service.send(tenant.tenant_id, *(f"memory {place}" for place in range(len(days))))
    service.work()
    for memory_id, age in zip(ids, days, strict=True):
        service.rows(
            "UPDATE memories SET created_at = created_at - %s WHERE memory_id = %s", timedelta(days=age), memory_id
        )
        service.rows(
            "UPDATE memory_state SET created_at = created_at - %s, keep_chance = .05 WHERE memory_id = %s",
            *(timedelta(days=age), memory_id),
        )
    return ids


def test_memories_count_whose_absence_would_not_depend_on_uses(service: Service) -> None:
    tenant = service.tenant()
    young, old, kept, ancient = aged(service, tenant, 10, 200, 210, 400)
    service.rows("UPDATE memory_state SET keep_chance = .2 WHERE memory_id = %s", kept)
    ages = (datetime.now(UTC).timestamp() - np.sort(read(tenant).since)[::-1]) / DAY_SECONDS
    assert ages.round().tolist() == [10, 210], "deletion may have removed memories like the unprotected old one"
    assert read(tenant, kept_chance=None, kept_salience=0.0).since.size == 3, "a policy by salience ignores the chance"
    service.rows("UPDATE memories SET deleted_at = now() WHERE memory_id = %s", young)
    assert read(tenant).since.size == 1
    assert read(tenant, kinds=[1, 2]).since.size == 0
    assert {old, ancient} <= {row[0] for row in service.rows("SELECT memory_id FROM memories")}


def test_observation_ends_when_a_memory_is_archived_or_superseded(service: Service) -> None:
    tenant = service.tenant()
    ids = aged(service, tenant, 30, 40, 50)
    now = datetime.now(UTC)
    record(service, tenant, "tier", [(ids[0], now - timedelta(days=5)), (ids[0], now - timedelta(days=2))])
    service.rows(
        "INSERT INTO supersessions (tenant_id, memory_id, superseded_id, status, source, since, made_at) "
        "VALUES (%s, %s, %s, 'active', 'caller', %s, %s)",
        *(tenant.tenant_id, ids[2], ids[1], now, now - timedelta(days=7)),
    )
    record(service, tenant, "use", [(ids[2], now - timedelta(days=place + 1)) for place in range(40)])
    record(service, tenant, "late_use", [(ids[2], now - timedelta(days=45))])
    found = read(tenant)
    left_days = {
        round((now.timestamp() - since) / DAY_SECONDS): round((now.timestamp() - until) / DAY_SECONDS)
        for since, until in zip(found.since.tolist(), found.until.tolist(), strict=True)
    }
    assert left_days == {30: 5, 40: 7, 50: 0}
    assert found.rows.size == 30, "the first uses of each memory are read, late ones included"
    assert round((now.timestamp() - found.at.min()) / DAY_SECONDS) == 45


def test_large_tenants_are_sampled(service: Service) -> None:
    tenant = service.tenant()
    aged(service, tenant, *[5.0] * 60)
    sample, again = (np.sort(read(tenant, 20).since) for _ in range(2))
    assert 5 < sample.size < 40
    assert sample.tolist() == again.tolist()
