"""Values that depend on time are computed for any moment when read, and never stored."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Forgetting, Policy
from app.services.memories import live_numbers, memories
from app.services.memories.live_numbers import LiveMemory
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.services.tenants import policy_versions
from app.services.tenants.policy_versions import RequestedChange
from app.store.memories.memories import Filters
from tests.api.caller import Api, fields
from tests.service import Service, Tenant
from tests.services.backdated import age

PROFILES = ("spec", "mnemex", "cmm", "memory_decay")


def seen(tenant: Tenant, memory_id: UUID, as_of: datetime | None = None) -> LiveMemory:
    found = lookup.get(tenant.tenant_id, memory_id)
    assert not isinstance(found, Pending)
    return live_numbers.live_numbers(tenant.tenant_id, [found], as_of)[memory_id]


def strength(tenant: Tenant, memory_id: UUID, as_of: datetime | None = None) -> float:
    return seen(tenant, memory_id, as_of).numbers.strength


def known(service: Service, tenant: Tenant, days: float = 0, **given: Any) -> tuple[UUID, datetime]:
    """Store a memory accepted this many days ago, and return its id and creation time."""
    [memory_id] = service.send(tenant.tenant_id, {"text": "the cat", "salience": 0.5, **given})
    service.work()
    age(service, days, memory_id)
    return memory_id, service.one("SELECT created_at FROM memory_state WHERE memory_id = %s", memory_id)


def set_policy(service: Service, tenant: Tenant, version: int, policy: Policy, at: datetime) -> None:
    service.rows(
        "INSERT INTO policies (tenant_id, version, body, effective_at) VALUES (%s, %s, %s::jsonb, %s)",
        tenant.tenant_id,
        version,
        policy.model_dump_json(),
        at,
    )


def test_strength_is_that_of_the_moment(service: Service) -> None:
    """Worked example of the profile spec: salience .5, never used, 30 days."""
    tenant = service.tenant()
    memory_id, began = known(service, tenant)
    assert strength(tenant, memory_id, began) == 1
    assert strength(tenant, memory_id, began + timedelta(days=30)) == pytest.approx(0.174160, abs=1e-6)
    assert 0.999 < strength(tenant, memory_id) < 1
    numbers = seen(tenant, memory_id, began).numbers
    assert numbers.importance == pytest.approx((0.25 + 0.35 * 0.5) / 0.8)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_look_at_any_moment_changes_nothing(service: Service, profile: str) -> None:
    tenant = service.tenant(Policy(forgetting=Forgetting(profile=profile)))
    memory_id, began = known(service, tenant)
    rows = service.rows("SELECT memory_state::text FROM memory_state")
    for days in (-1_000_000 // 365, 0, 1, 400, 365 * 7000):
        numbers = seen(tenant, memory_id, began + timedelta(days=days)).numbers
        assert 0 <= numbers.strength <= 1
        assert math.isfinite(numbers.importance)
    assert service.rows("SELECT memory_state::text FROM memory_state") == rows


def test_the_score_is_the_models_own_number(service: Service) -> None:
    """In mnemex the score exceeds 1, but strength doesn't."""
    tenant = service.tenant(Policy(forgetting=Forgetting(profile="mnemex")))
    memory_id, began = known(service, tenant, multiplier=2.0)
    numbers = seen(tenant, memory_id, began).numbers
    assert (numbers.strength, numbers.score) == (1, 2)
    later = seen(tenant, memory_id, began + timedelta(days=3)).numbers
    assert (later.strength, later.score) == pytest.approx((1, 1))


def test_before_its_last_change_a_memory_is_as_it_was_then(service: Service) -> None:
    tenant = service.tenant()
    memory_id, _ = known(service, tenant, days=20)
    memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(salience=0.9))
    anchored = service.one("SELECT anchored_at FROM memory_state")
    then = strength(tenant, memory_id, anchored)
    assert then < 0.5
    assert strength(tenant, memory_id, anchored - timedelta(days=10)) == then
    assert strength(tenant, memory_id, datetime(1, 1, 1, tzinfo=UTC)) == then


def test_a_memory_of_each_age_is_seen_in_its_own_past(service: Service) -> None:
    """Rows of one page may have anchors before and after the requested moment, under different policies."""
    tenant = service.tenant()
    old, _ = known(service, tenant, days=30)
    change = datetime.now(UTC) - timedelta(days=5)
    set_policy(service, tenant, 2, Policy(forgetting=Forgetting(profile="cmm")), change)
    new, _ = known(service, tenant, days=2)
    service.rows("UPDATE memory_state SET policy_version = 2 WHERE memory_id = %s", new)
    rows = [found for one in (old, new) if not isinstance(found := lookup.get(tenant.tenant_id, one), Pending)]
    looked = live_numbers.live_numbers(tenant.tenant_id, rows, datetime.now(UTC) - timedelta(days=10))
    assert looked[new].numbers.strength == 1
    assert looked[old].numbers.strength == pytest.approx(strength(tenant, old, change - timedelta(days=5)), abs=1e-5)
    left = math.exp(-5e-7 * 5 * 86_400)  # fraction of the strength at the policy change that remains under cmm
    assert strength(tenant, old) == pytest.approx(strength(tenant, old, change) * left, abs=1e-5)


def test_a_stored_cmm_policy_decays_as_before_and_a_new_one_from_the_end_of_its_grace(service: Service) -> None:
    """Seed 002, decay: no past decay is rewritten, in the numbers of a memory and in lists, which SQL computes."""
    cmm = Policy(forgetting=Forgetting(profile="cmm"))
    former, current = service.tenant(cmm), service.tenant(cmm)
    service.rows(
        "UPDATE policies SET body = body #- '{forgetting,parameters,age_from}' WHERE tenant_id = %s", former.tenant_id
    )
    found = {}
    for tenant, days in ((former, 20), (current, 6)):
        memory_id, _ = known(service, tenant, days=20)
        expected = math.exp(-5e-7 * days * 86_400)
        assert strength(tenant, memory_id) == pytest.approx(expected, abs=1e-5)
        below, above = (Filters(strength_below=expected + move) for move in (1e-4, -1e-4))
        assert [len(memories.list_memories(tenant.tenant_id, each, None, 9)) for each in (below, above)] == [1, 0]
        found[tenant.tenant_id] = memory_id
    changed = RequestedChange({"forgetting": {"parameters": {"age_from": None}}})
    before = strength(former, found[former.tenant_id])
    policy_versions.write_change(former.tenant_id, changed)
    assert strength(former, found[former.tenant_id]) == pytest.approx(before, abs=1e-5)


def test_what_fades_from_when_it_happened_is_under_its_policy_even_then(service: Service) -> None:
    tenant = service.tenant(Policy(decay_from="occurred", forgetting=Forgetting(profile="mnemex")))
    happened = datetime.now(UTC) - timedelta(days=3)
    memory_id, _ = known(service, tenant, occurred_at=happened.isoformat())
    for as_of in (None, happened, happened - timedelta(days=5)):
        assert strength(tenant, memory_id, as_of) == pytest.approx(0.5, abs=1e-4)  # one half-life later


def test_a_policy_to_come_counts_from_its_day(service: Service) -> None:
    tenant = service.tenant()
    memory_id, _ = known(service, tenant)
    change = datetime.now(UTC) + timedelta(days=10)
    before = strength(tenant, memory_id, change + timedelta(days=10))
    set_policy(service, tenant, 2, Policy(forgetting=Forgetting(parameters={"base_per_day": 0.01})), change)
    assert strength(tenant, memory_id, change + timedelta(days=10)) > before
    assert strength(tenant, memory_id, change - timedelta(days=1)) > strength(tenant, memory_id, change)


@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm"])
def test_before_the_next_due_moment_nothing_happens(service: Service, profile: str) -> None:
    tenant = service.tenant(Policy(forgetting=Forgetting(profile=profile)))
    memory_id, began = known(service, tenant, days=2)
    tiers, moment = [], began + timedelta(days=2)
    for _ in range(20):
        numbers = seen(tenant, memory_id, moment).numbers
        tiers.append(numbers.decay_tier)
        if not math.isfinite(numbers.next_due_at):
            break
        due = datetime.fromtimestamp(numbers.next_due_at, UTC)
        assert due > moment
        just_before = seen(tenant, memory_id, due - timedelta(milliseconds=2)).numbers
        assert just_before.decay_tier == numbers.decay_tier
        moment = due
    assert tiers[0] == "active"
    assert {"archived", "cold"} <= set(tiers)


def test_what_nothing_can_happen_to_has_no_next_moment(api: Api) -> None:
    [memory_id] = api.remember("x")
    shown = api.get(f"/v1/memories/{memory_id}", params={"as_of": "9999-12-31T23:59:59.999999Z"}).json()
    assert shown["next_due_at"] is None
    assert shown["strength"] < 1e-6
    assert shown["decay_tier"] in {"cold", "deleted"}


@pytest.mark.parametrize(
    "end", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-14:00"]
)
def test_why_takes_any_moment(api: Api, end: str) -> None:
    [memory_id] = api.remember("x")
    answer = api.get(f"/v1/memories/{memory_id}/why", params={"as_of": end})
    assert answer.status_code == 200
    assert (answer.json()["rule"], answer.json()["tier"]) == ("grace" if end < "1" else "decay", "active")


def test_a_memory_in_the_queue_has_no_numbers_yet(api: Api) -> None:
    [memory_id] = api.remember("x", work=False)
    pending = api.get(f"/v1/memories/{memory_id}").json()
    names = ("strength", "score", "importance", "decay_tier", "next_due_at", "next_review_at", "review", "promoted")
    assert {pending[name] for name in names} == {None}
    api.service.work()
    stored = api.get(f"/v1/memories/{memory_id}").json()
    assert stored.keys() == pending.keys()
    assert all(stored[name] is not None for name in names if name != "promoted")


def test_a_list_and_a_memory_say_the_same(api: Api) -> None:
    ids = api.remember(*({"text": f"number {place}", "salience": place / 2} for place in range(3)))
    as_of = {"as_of": "2027-05-05T00:00:00+02:00"}
    page = api.get("/v1/memories", params=as_of).json()["memories"]
    assert page == [api.get(f"/v1/memories/{memory_id}", params=as_of).json() for memory_id in reversed(ids)]
    assert len({memory["strength"] for memory in page}) == 3


@pytest.mark.parametrize("as_of", ["1795175304", "yesterday", "2026-03-07T12:00:00", "\0", ""])
def test_a_moment_that_is_none_is_refused(api: Api, as_of: str) -> None:
    [memory_id] = api.remember("x")
    for path in ("/v1/memories", f"/v1/memories/{memory_id}"):
        answer = api.get(path, params={"as_of": as_of})
        assert (answer.status_code, fields(answer)) == (422, ["as_of"])
