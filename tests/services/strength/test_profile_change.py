"""A change of the model of forgetting preserves the strength at that moment, between any two models."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.dynamics.timeline import Timeline
from app.domain.policy.policy import Policy
from app.services.strength import memory_strength
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.core import database
from app.store.strength import states
from app.store.strength.states import StoredStates
from tests.service import Service
from tests.services.strength_rows import fill

PROFILES = ("spec", "mnemex", "cmm", "memory_decay")
MEMORIES = 120
FIRST = UUID(int=0)


def policy_with(profile: str) -> Policy:
    return Policy.model_validate({"forgetting": {"profile": profile}})


def held_by(tenant_id: UUID) -> tuple[StoredStates, Timeline]:
    with database.tenant(tenant_id) as tx:
        return states.list_page(tx, tenant_id, FIRST, MEMORIES), memory_strength.load_timeline(tx, tenant_id)


def strength(held: StoredStates, times: Timeline, moment: float) -> Floats:
    return times.at(moment).dynamics.strength(memory_strength.advance_to_era(held, times, moment).state, moment)


@pytest.mark.parametrize("source", PROFILES)
def test_strength_is_the_same_just_before_and_just_after(service: Service, source: str) -> None:
    for target in PROFILES:
        if target != source:
            check_continuity(service, source, target)


def check_continuity(service: Service, source: str, target: str) -> None:
    tenant = service.tenant(policy_with(source))
    fill(service, tenant, policy_with(source).model, MEMORIES)
    held, before = held_by(tenant.tenant_id)
    change = RequestedChange({"forgetting": {"profile": target}}, effective_at=datetime.now(UTC) + timedelta(days=2))
    outcome, _ = policy_versions.write_change(tenant.tenant_id, change)

    held, after = held_by(tenant.tenant_id)
    at = outcome.era.since
    was, now = strength(held, before, at), strength(held, after, at)
    # The one exception: mnemex multiplies by the multiplier, even if it is 0.
    kept = np.full(MEMORIES, True) if target != "mnemex" else held.state.multiplier > 0
    np.testing.assert_allclose(now[kept], was[kept], rtol=1e-9, atol=1e-12)
    assert (now[~kept] == 0).all()
    assert np.ptp(was) > 0.5, "strengths of all sizes"
    # The past isn't rewritten; strength doesn't jump, apart from ticks.
    np.testing.assert_array_equal(strength(held, after, at - 0.001), strength(held, before, at - 0.001))
    if source != "memory_decay":
        np.testing.assert_allclose(strength(held, after, at - 0.001)[kept], now[kept], atol=1e-6)
    assert not np.allclose(strength(held, after, at + 30 * DAY_SECONDS), strength(held, before, at + 30 * DAY_SECONDS))


@pytest.mark.parametrize("source", PROFILES)
def test_rows_that_were_moved_are_as_strong_as_rows_that_were_not(service: Service, source: str) -> None:
    for target in PROFILES:
        if target != source:
            check_moved_rows(service, source, target)


def check_moved_rows(service: Service, source: str, target: str) -> None:
    tenant = service.tenant(policy_with(source))
    fill(service, tenant, policy_with(source).model, MEMORIES)
    policy_versions.write_change(tenant.tenant_id, RequestedChange({"forgetting": {"profile": target}}))
    held, times = held_by(tenant.tenant_id)
    with database.tenant(tenant.tenant_id) as tx:
        now = database.now(tx).timestamp()
        locked = states.lock(tx, tenant.tenant_id, held.ids)
        states.write_anchors(
            tx, tenant.tenant_id, memory_strength.advance_to_era(locked, times, now), times.at(now).version
        )
    moved, _ = held_by(tenant.tenant_id)
    assert set(moved.versions.tolist()) == {2}
    for days in (0, 1, 45):
        moment = now + days * DAY_SECONDS
        np.testing.assert_allclose(strength(moved, times, moment), strength(held, times, moment), rtol=1e-8, atol=1e-9)


def test_through_all_four_and_back_nothing_is_lost_but_what_must_be(service: Service) -> None:
    tenant = service.tenant()
    fill(service, tenant, Policy().model, MEMORIES)
    held, before = held_by(tenant.tenant_id)
    soon = datetime.now(UTC) + timedelta(hours=1)
    for minutes, profile in enumerate((*PROFILES[1:], "spec")):
        change = RequestedChange({"forgetting": {"profile": profile}}, effective_at=soon + timedelta(minutes=minutes))
        policy_versions.write_change(tenant.tenant_id, change)
    held, after = held_by(tenant.tenant_id)
    assert [era.version for era in after.eras] == [0, 1, 2, 3, 4, 5]
    kept = held.state.multiplier > 0
    at = soon.timestamp() + 3 * 60
    # In between, a few minutes of other laws apply.
    np.testing.assert_allclose(strength(held, after, at)[kept], strength(held, before, at)[kept], atol=1e-3)
