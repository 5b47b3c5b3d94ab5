"""Forecasts of a tenant's tiers equal the results of later sweeps, under the current and another policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.policy.policy import Forgetting, Policy
from app.domain.policy.policy_diff import amend_policy
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.forecast import tiers_by_time
from app.domain.tiers.tier_decision import fresh_facts
from app.errors import Invalid
from app.services.memories import memories
from app.services.strength import memory_strength
from app.services.tiers import forecast
from app.services.tiers.forecast import ForecastOptions, TierForecast, forecast_tiers
from app.store.core import database
from app.store.strength import states
from tests.service import Service, Tenant
from tests.services.aged import fading

pytestmark = pytest.mark.usefixtures("whole_day")

EXPONENTIAL = {"forgetting": {"profile": "mnemex", "parameters": {"half_life_days": 1, "curve": "exponential"}}}
MNEMEX = {"forgetting": {"profile": "mnemex", "parameters": {"half_life_days": 1}}}


def remember(service: Service, tenant: Tenant, *ages_days: float, **given: Any) -> list[UUID]:
    """Store memories that were accepted this many days ago and never used."""
    ids = service.send(tenant.tenant_id, *({"text": f"number {n}", "salience": 0.5, **given} for n in ages_days))
    service.work()
    for memory_id, days in zip(ids, ages_days, strict=True):
        service.rows(
            "UPDATE memory_state SET (created_at, accessed_at, anchored_at) = (created_at - age, created_at - age, "
            "created_at - age) FROM make_interval(secs => %s) AS age WHERE memory_id = %s",
            days * DAY_SECONDS,
            memory_id,
        )
    service.rows(
        "UPDATE memories AS memory SET created_at = state.created_at FROM memory_state AS state "
        "WHERE state.memory_id = memory.memory_id"
    )
    return ids


def forecast_of(tenant: Tenant, days: int = 0, **given: Any) -> TierForecast:
    return forecast_tiers(tenant.tenant_id, ForecastOptions(days, **given))


def row(outlook: TierForecast, day: int) -> dict[str, int]:
    return dict(zip(DECAY_TIERS, outlook.counts[day].tolist(), strict=True))


def test_each_day_is_what_a_look_at_its_beginning_would_find(service: Service) -> None:
    tenant = service.tenant(fading(Policy(time_zone="Asia/Kolkata")))
    remember(service, tenant, 0, 10, 25, 33, 50, 120)
    remember(service, tenant, 200, 300, salience=0.0)
    found = forecast_of(tenant, 40)
    with database.tenant(tenant.tenant_id) as tx:
        held = states.list_page(tx, tenant.tenant_id, UUID(int=0), 100)
    zone = ZoneInfo("Asia/Kolkata")
    assert found.dates[0] == found.as_of.astimezone(zone).date()
    for day in (0, 1, 17, 40):
        start = datetime.combine(found.dates[day], datetime.min.time(), zone)
        moment = (start if day else found.as_of).timestamp()
        expected = np.bincount(
            tiers_by_time(fading(Policy()), held.state, fresh_facts(held.state.created_at), moment), minlength=4
        )
        assert found.counts[day].tolist() == expected.tolist()
    assert row(found, 0) == {"active": 2, "archived": 1, "cold": 3, "deleted": 2}
    assert (found.changed, found.moves) == (None, [])


def test_dates_follow_one_another_through_the_end_of_summer_time(service: Service) -> None:
    found = forecast_of(service.tenant(Policy(time_zone="America/New_York")), 366)
    assert found.dates == [found.dates[0] + timedelta(days=ahead) for ahead in range(367)]
    assert found.as_of.tzinfo is not None


def test_another_policy_starts_from_the_strengths_of_now(service: Service) -> None:
    tenant = service.tenant(fading(Policy()))
    ids = remember(service, tenant, *range(40))
    found = forecast_of(tenant, 30, changes=MNEMEX)
    with database.tenant(tenant.tenant_id) as tx:
        state = states.list_page(tx, tenant.tenant_id, UUID(int=0), 100).state
    changed = fading(Policy.model_validate(MNEMEX))
    now = found.as_of.timestamp()
    converted = rebase(state, now, Policy().model, changed.model)
    last = datetime.combine(found.dates[30], datetime.min.time(), UTC).timestamp()
    assert found.changed is not None
    assert (
        found.changed[30].tolist()
        == np.bincount(tiers_by_time(changed, converted, fresh_facts(state.created_at), last), minlength=4).tolist()
    )
    assert found.changed[0].tolist() == found.counts[0].tolist(), "a profile alone moves nothing at once"
    assert found.moves == []
    assert found.changed[30].tolist() != found.counts[30].tolist()
    assert len(ids) == found.counts[30].sum() == found.changed[30].sum()


def test_memories_that_a_change_moves_at_once_are_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "PAGE_ROWS", 7)
    tenant = service.tenant(fading(Policy()))
    young = remember(service, tenant, *[8.0] * 25)
    old = remember(service, tenant, *[25.0] * 3)
    found = forecast_of(tenant, changes={"tiers": {"archived_below": 0.99, "cold_below": 0.28}})
    moves = {(move.source, move.target): move for move in found.moves}
    assert moves.keys() == {("active", "archived"), ("archived", "cold")}
    assert moves["active", "archived"].memories == 25
    assert moves["active", "archived"].ids == sorted(young)[: forecast.SHOWN_MAX]
    assert (moves["archived", "cold"].memories, moves["archived", "cold"].ids) == (3, sorted(old))


def test_memories_under_older_policies_are_brought_to_the_one_in_force(service: Service) -> None:
    tenant = service.tenant()
    remember(service, tenant, *[10.0] * 3)
    service.rows(
        "INSERT INTO policies (tenant_id, version, body, effective_at) VALUES (%s, 2, %s, now() - interval '5 days')",
        tenant.tenant_id,
        fading(Policy.model_validate(EXPONENTIAL)).model_dump_json(),
    )
    found = forecast_of(tenant)
    now = found.as_of.timestamp()
    with database.tenant(tenant.tenant_id) as tx:
        times = memory_strength.load_timeline(tx, tenant.tenant_id)
        held = memory_strength.advance_to_era(states.list_page(tx, tenant.tenant_id, UUID(int=0), 10), times, now)
    expected = np.bincount(
        tiers_by_time(times.at(now).policy, held.state, fresh_facts(held.state.created_at), now), minlength=4
    )
    assert found.counts[0].tolist() == expected.tolist() == [0, 0, 3, 0]


def test_of_a_subject_alone_and_of_nothing_deleted(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "PAGE_ROWS", 2)
    tenant, other = service.tenant(), service.tenant()
    remember(service, tenant, *[1.0] * 3)
    of_ann = remember(service, tenant, *[1.0] * 5, subject="ann")
    remember(service, other, 1.0, subject="ann")
    memories.delete(tenant.tenant_id, of_ann[0])
    assert forecast_of(tenant).counts.sum() == 7
    assert forecast_of(tenant, subject="ann").counts.sum() == 4
    assert forecast_of(tenant, subject="bob").counts.sum() == 0


def test_nothing_is_written(service: Service) -> None:
    tenant = service.tenant()
    remember(service, tenant, 1, 30)
    before = service.rows("SELECT xmin::text, memory_state::text FROM memory_state ORDER BY memory_id")
    forecast_of(tenant, 90, changes=MNEMEX)
    assert service.rows("SELECT xmin::text, memory_state::text FROM memory_state ORDER BY memory_id") == before


def test_changes_are_laid_over_the_policy() -> None:
    policy = Policy.model_validate({**MNEMEX, "history_days": 7})
    same = amend_policy(policy, {"forgetting": {"parameters": {"beta": 0.4}}})
    assert same.forgetting.parameters == {"half_life_days": 1, "beta": 0.4}
    assert same.history_days == 7
    spec = amend_policy(policy, {"forgetting": {"profile": "spec", "parameters": {"kinds": {"system": 0}}}})
    assert spec.forgetting == Forgetting(profile="spec", parameters={"kinds": {"system": 0}})
    assert amend_policy(policy, {}) == policy
    assert amend_policy(policy, {"importance": {"weights": {"recency": 0.5}}}).importance.weights.salience == 0.35


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"no_such": 1}, "policy.no_such"),
        ({"tiers": {"cold_below": 2}}, "policy.tiers.cold_below"),
        ({"tiers": {"cold_below": 0.9}}, "policy.tiers"),
        ({"forgetting": {"parameters": {"law": "cubic"}}}, "policy.forgetting.parameters.law"),
        ({"forgetting": {"parameters": {"kinds": {"system": -1}}}}, "policy.forgetting.parameters.kinds.system"),
        ({"forgetting": {"parameters": {"half_life": 1}}}, "policy.forgetting.parameters.half_life"),
        ({"forgetting": 5}, "policy.forgetting"),
        ({"forgetting": {"profile": ["spec"]}}, "policy.forgetting.profile"),
    ],
)
def test_a_wrong_field_is_named_by_its_path(changes: Mapping[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as wrong:
        amend_policy(Policy(), changes)
    assert [error.field for error in wrong.value.errors] == [field]


def test_ticks_too_small_for_so_many_days_are_refused(service: Service) -> None:
    ticking = {"forgetting": {"profile": "memory_decay", "parameters": {"tick_seconds": 600}}}
    tenant = service.tenant()
    assert len(forecast_of(tenant, 608, changes=ticking).dates) == 609
    with pytest.raises(Invalid) as refused:
        forecast_of(tenant, 609, changes=ticking)
    assert [(error.field, error.value, error.limit) for error in refused.value.errors] == [("days", 609, 608)]


def test_what_takes_too_long_is_given_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "SECONDS_MAX", -1.0)
    tenant = service.tenant()
    remember(service, tenant, 1)
    with pytest.raises(Invalid) as refused:
        forecast_of(tenant, 3)
    assert [(error.field, error.value) for error in refused.value.errors] == [("days", 3)]


def test_today_is_the_tenant_s(service: Service) -> None:
    east, west = (service.tenant(Policy(time_zone=zone)) for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"))
    days: list[date] = [forecast_of(tenant).dates[0] for tenant in (east, west)]
    assert days[0] - days[1] in {timedelta(days=1), timedelta(days=2)}
