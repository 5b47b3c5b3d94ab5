"""Gains along links: memories linked to a used one become more stable, in models with such a gain."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID, uuid4

import numpy as np
import pytest

from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.policy.policy import Forgetting, Policy
from app.domain.strength.links import NewLink
from app.services.memories import links, memories
from app.services.strength import linked_reinforcement, memory_strength
from app.store.core import database
from app.store.strength import states
from app.store.strength.states import StoredStates
from app.store.tenants import policies
from tests.service import Service, Tenant

GAIN = MemoryDecay().parameters.gain_associate
KEPT = 1 - MemoryDecay().parameters.stability_decay


def policy(profile: str, **parameters: object) -> Policy:
    return Policy(forgetting=Forgetting(profile=profile, parameters=parameters))


DECAYING = policy("memory_decay")


def linked(service: Service, tenant: Tenant, *pairs: tuple[int, int]) -> list[UUID]:
    """Store five memories with links between these pairs."""
    ids = sorted(service.send(tenant.tenant_id, *"abcde"))
    service.work()
    links.add(tenant.tenant_id, [NewLink(ids[one], ids[other]) for one, other in pairs])
    return ids


def use(tenant: Tenant, *requests: Mapping[UUID, float], on: float = 0) -> int:
    """Apply requests that used memories this many days before `on`, and return how many linked memories gain."""
    with database.tenant(tenant.tenant_id) as tx:
        now = database.now(tx).timestamp() + on * DAY_SECONDS
        times = memory_strength.load_timeline(tx, tenant.tenant_id)
        era = times.at(now)
        ids = {memory_id for request in requests for memory_id in request}
        along = linked_reinforcement.list_reached(tx, tenant.tenant_id, era, list(ids))
        locked = states.lock(tx, tenant.tenant_id, list(ids.union(*along.values())))
        used = [{memory_id: now - ago * DAY_SECONDS for memory_id, ago in request.items()} for request in requests]
        held = memory_strength.advance_to_era(locked, times, now)
        after, stabler = linked_reinforcement.strengthen_linked(
            tx, tenant.tenant_id, era, held, along, used=used, now=now
        )
        memory_strength.write_uses(tx, tenant.tenant_id, after.only(stabler), era, now)
        return len(stabler)


def held(tenant: Tenant, ids: list[UUID]) -> StoredStates:
    with database.tenant(tenant.tenant_id) as tx:
        return states.read(tx, tenant.tenant_id, ids)


def stabilities(tenant: Tenant, ids: list[UUID]) -> list[float]:
    return list(held(tenant, ids).state.stability)


def history(service: Service, ids: list[UUID]) -> list[tuple[int, str, float, float, float]]:
    rows = service.rows("SELECT memory_id, kind, before, after, strength FROM memory_events ORDER BY event_id")
    return [(ids.index(memory_id), *rest) for memory_id, *rest in rows]


def test_what_is_linked_in_either_direction_is_stabler_after_a_use(service: Service) -> None:
    """Seed 003, reinforcement_gain_assoc."""
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1), (2, 0), (1, 3))
    assert use(tenant, {ids[0]: 0}) == 2
    assert stabilities(tenant, ids) == [0, GAIN, GAIN, 0, 0]
    assert use(tenant, {ids[0]: 0}) == 2
    twice = GAIN + GAIN * (1 - GAIN)
    assert stabilities(tenant, ids) == pytest.approx([0, twice, twice, 0, 0])
    assert held(tenant, ids).state.access_count.tolist() == [0] * 5
    noted = history(service, ids)
    assert [(place, kind) for place, kind, *_ in noted] == [(1, "associate"), (2, "associate")] * 2
    np.testing.assert_allclose([numbers for _, _, *numbers in noted], [(0, GAIN, 1)] * 2 + [(GAIN, twice, 1)] * 2)


def test_one_request_strengthens_once_and_what_is_used_itself_not_at_all(service: Service) -> None:
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1), (1, 0), (0, 2), (1, 2), (3, 2))
    links.add(tenant.tenant_id, [NewLink(ids[0], ids[2], kind="again")])
    assert use(tenant, {ids[0]: 0, ids[1]: 0}) == 1
    assert stabilities(tenant, ids) == [0, 0, GAIN, 0, 0]


def test_many_requests_do_at_once_what_they_do_one_by_one(service: Service) -> None:
    tenants = [service.tenant(DECAYING) for _ in range(2)]
    outcomes = []
    for tenant in tenants:
        ids = linked(service, tenant, (0, 1), (0, 2), (1, 2), (3, 4))
        requests = [{ids[0]: 3.5}, {ids[0]: 2.5, ids[1]: 2.5}, {ids[2]: 1.5}, {ids[4]: 0.5}, {ids[0]: 0.5}]
        for batch in [requests] if tenant is tenants[0] else [[request] for request in requests]:
            use(tenant, *batch, on=20)
        outcomes.append(stabilities(tenant, ids))
    assert outcomes[0] == pytest.approx(outcomes[1])
    assert all(outcomes[0][:4])
    assert service.one("SELECT count(*) FROM memory_events") == 2 * (2 + 1 + 2 + 1 + 2)


def test_links_without_weight_and_deleted_memories_lead_nowhere(service: Service) -> None:
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1))
    links.add(tenant.tenant_id, [NewLink(ids[0], ids[2], weight=0)])
    memories.delete(tenant.tenant_id, ids[1])
    assert use(tenant, {ids[0]: 0}) == 0
    assert stabilities(tenant, ids) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "other",
    [
        *(policy(name) for name in ("spec", "mnemex", "cmm")),
        *(policy("memory_decay", consolidation=mode) for mode in ("retrieval_only", "stability_only_direct")),
        policy("memory_decay", gain_associate=0),
    ],
    ids=lambda policy: "-".join([policy.forgetting.profile, *map(str, policy.forgetting.parameters.values())]),
)
def test_models_without_such_a_gain_look_nothing_up(
    service: Service, other: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.tenant(other)
    ids = linked(service, tenant, (0, 1))
    before = held(tenant, ids)
    monkeypatch.delattr("app.store.memories.links.list_neighbours")
    assert use(tenant, {ids[0]: 0}) == 0
    after = held(tenant, ids)
    np.testing.assert_equal(after.state.anchored_at, before.state.anchored_at)
    assert history(service, ids) == []


def test_the_gain_is_of_the_moment_of_the_latest_use(service: Service) -> None:
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 3), (1, 3), (1, 4))
    assert use(tenant, {ids[0]: 2, ids[1]: 5}, on=20) == 2
    near, far = held(tenant, ids[3:]).state.stability * KEPT ** np.array([2, 5])
    assert (near, far) == pytest.approx((GAIN * KEPT**2, GAIN * KEPT**5))
    anchors = held(tenant, ids[3:]).state
    assert (anchors.anchored_at - anchors.created_at).tolist() == pytest.approx([18 * DAY_SECONDS, 15 * DAY_SECONDS])


def test_a_use_that_does_not_count_leads_nowhere(service: Service) -> None:
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1), (2, 3))
    with database.tenant(tenant.tenant_id) as tx:
        now = database.now(tx).timestamp()
        times = memory_strength.load_timeline(tx, tenant.tenant_id)
        along = linked_reinforcement.list_reached(tx, tenant.tenant_id, times.at(now), [ids[0], ids[2]])
        assert along == {ids[0]: [ids[1]], ids[2]: [ids[3]]}
        given = memory_strength.advance_to_era(states.lock(tx, tenant.tenant_id, ids), times, now)
        used = [{ids[0]: now}]
        _, stabler = linked_reinforcement.strengthen_linked(
            tx, tenant.tenant_id, times.at(now), given, along, used=used, now=now
        )
    assert [ids[place] for place in stabler] == [ids[1]]


def test_a_bound_stays_unless_another_policy_has_worked_it_out(service: Service) -> None:
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1))
    service.rows("UPDATE memory_state SET next_due_at = now(), policy_version = 1")
    use(tenant, {ids[0]: 0})
    due = held(tenant, ids[:2]).next_due_at
    assert np.isfinite(due).all()
    with database.tenant(tenant.tenant_id) as tx:
        policies.add(tx, tenant.tenant_id, 2, policy("memory_decay", gain_associate=0.1))
    use(tenant, {ids[0]: 0})
    after = held(tenant, ids[:2])
    assert after.next_due_at.tolist() == [due[0], -np.inf]
    assert after.versions.tolist() == [1, 2]


def test_what_is_as_stable_as_can_be_has_no_event(service: Service) -> None:
    tenant = service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1))
    service.rows("UPDATE memory_state SET stability = 1")
    assert use(tenant, {ids[0]: 0}) == 0
    assert history(service, ids) == []


def test_another_tenants_links_lead_nowhere(service: Service) -> None:
    tenant, other = service.tenant(DECAYING), service.tenant(DECAYING)
    ids = linked(service, tenant, (0, 1))
    assert use(other, {ids[0]: 0, uuid4(): 0}) == 0
    assert stabilities(tenant, ids) == [0] * 5
