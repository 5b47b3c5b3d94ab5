"""Policy changes: in order, immediate or scheduled, concurrent, and their effect on the memories."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.domain.dynamics.state import DAY_SECONDS, take
from app.domain.dynamics.timeline import Timeline
from app.domain.jobs import Step
from app.domain.policy.policy import Policy
from app.domain.strength import importance
from app.domain.tiers.protection import FORMER_SALIENCE
from app.errors import Conflict, FieldError, Invalid, NotFound
from app.services.jobs import queue
from app.services.memories import memories
from app.services.strength import current_policy, memory_strength, rebase
from app.services.tenants import policy_impact, policy_versions
from app.services.tenants.policy_versions import ChangeOutcome, RequestedChange
from app.store.core import database
from app.store.strength import states
from app.store.tenants import policies
from tests.service import Service, Tenant
from tests.services.job_kinds import set_kind
from tests.services.strength_rows import fill
from tests.variants import variants

MEMORIES = 90


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def put(
    tenant: Tenant, effective_at: datetime | None = None, expected: int | None = None, **fields: Any
) -> ChangeOutcome:
    change = RequestedChange(fields, effective_at=effective_at, expected_version=expected)
    return policy_versions.write_change(tenant.tenant_id, change)[0]


def ahead(**more: float) -> datetime:
    return datetime.now(UTC) + timedelta(**more)


def statuses(tenant: Tenant) -> dict[int, str]:
    return {one.era.version: one.status for one in policy_versions.list_versions(tenant.tenant_id, None, 100)}


def test_a_change_is_a_new_version_of_what_it_names(service: Service, tenant: Tenant) -> None:
    first = put(tenant, tiers={"archived_below": 0.4})
    second = put(tenant, language="german", forgetting={"parameters": {"law": "linear"}})
    assert (first.era.version, second.era.version) == (2, 3)
    held = current_policy.read(tenant.tenant_id)
    assert (held.language, held.tiers.archived_below, held.tiers.cold_below) == ("german", 0.4, 0.15)
    assert held.forgetting.parameters == {"law": "linear"}
    put(tenant, tiers=None, forgetting={"parameters": {"law": None}})
    assert current_policy.read(tenant.tenant_id) == Policy(language="german")
    assert statuses(tenant) == {4: "in force", 3: "past", 2: "past", 1: "past"}


def test_the_same_again_changes_nothing(service: Service, tenant: Tenant) -> None:
    first = put(tenant, expected=1, history_days=30)
    again = put(tenant, expected=1, history_days=30)
    assert (first.is_new, again.is_new, again.era) == (
        True,
        False,
        policy_versions.list_in_force(tenant.tenant_id)[0].era,
    )
    later = ahead(days=1)
    assert put(tenant, later, history_days=20).is_new
    assert not put(tenant, later, history_days=20).is_new
    assert not put(tenant, history_days=30).is_new, "a change that is already in force cancels no scheduled version"
    assert statuses(tenant)[3] == "waiting"
    assert put(tenant, history_days=30, tiers={"archived_below": 0.4}).superseded == [3]


def test_what_moves_no_memory_needs_no_rebase(service: Service, tenant: Tenant) -> None:
    def is_due(version: int) -> bool:
        with database.tenant(tenant.tenant_id) as tx:
            return rebase.is_due(tx, tenant.tenant_id, version)

    put(tenant, history_days=30)
    assert is_due(2), "no version has been rebased yet"
    with database.tenant(tenant.tenant_id) as tx:
        policies.mark_rebased(tx, tenant.tenant_id, 2)
    put(tenant, language="german")
    assert not is_due(3)
    put(tenant, tiers={"archived_below": 0.4})
    assert is_due(4)


def test_a_change_for_later_waits_and_a_later_one_builds_on_it(service: Service, tenant: Tenant) -> None:
    put(tenant, ahead(days=2), history_days=20)
    put(tenant, ahead(days=4), language="german")
    held, waiting, latest = policy_versions.list_in_force(tenant.tenant_id)
    assert (held.era.version, [era.version for era in waiting], latest) == (1, [2, 3], 3)
    assert (waiting[1].policy.history_days, current_policy.read(tenant.tenant_id)) == (20, Policy())


def test_a_change_that_begins_earlier_supersedes_what_waits(service: Service, tenant: Tenant) -> None:
    put(tenant, ahead(days=2), history_days=20)
    put(tenant, ahead(days=4), language="german")
    outcome = put(tenant, ahead(days=3), language="french")
    assert (outcome.superseded, outcome.era.policy.history_days) == ([3], 20)
    assert statuses(tenant) == {4: "waiting", 3: "superseded", 2: "waiting", 1: "in force"}
    cancelled = put(tenant)
    assert (cancelled.superseded, cancelled.changes, cancelled.is_new) == ([2, 4], [], True)
    assert statuses(tenant) == {5: "in force", 4: "superseded", 3: "superseded", 2: "superseded", 1: "past"}
    assert current_policy.read(tenant.tenant_id) == Policy()


@pytest.mark.parametrize(("moment", "limit"), [(timedelta(seconds=-5), None), (timedelta(days=400), 366)], ids=str)
def test_the_moment_is_neither_past_nor_far(
    service: Service, tenant: Tenant, moment: timedelta, limit: int | None
) -> None:
    with pytest.raises(Invalid) as refused:
        put(tenant, datetime.now(UTC) + moment, history_days=30)
    [error] = refused.value.errors
    assert (error.field, error.limit) == ("effective_at", limit)
    assert statuses(tenant) == {1: "in force"}


def test_what_somebody_has_changed_since_is_a_conflict(service: Service, tenant: Tenant) -> None:
    put(tenant, expected=1, history_days=30)
    with pytest.raises(Conflict, match="is 2, not 1"):
        put(tenant, expected=1, history_days=31)
    with pytest.raises(Conflict):
        policy_versions.preview_change(tenant.tenant_id, RequestedChange({"history_days": 31}, expected_version=1))
    put(tenant, ahead(days=1), expected=2, history_days=31)
    with pytest.raises(Conflict):
        put(tenant, expected=2, history_days=32)


def test_changes_at_once_all_count_and_none_is_lost(service: Service, tenant: Tenant) -> None:
    wanted = [{"history_days": 30}, {"language": "german"}, {"time_zone": "Asia/Tokyo"}, {"decay_from": "occurred"}]
    wanted += [{"review": {"session_limit": 7}}, {"review": {"danger_to": 0.4}}, {"tiers": {"archived_below": 0.4}}]
    with ThreadPoolExecutor(len(wanted)) as callers:
        done = list(callers.map(lambda fields: put(tenant, **fields), wanted))
    assert sorted(outcome.era.version for outcome in done) == list(range(2, len(wanted) + 2))
    found = current_policy.read(tenant.tenant_id)
    assert (found.history_days, found.language, found.time_zone) == (30, "german", "Asia/Tokyo")
    assert (found.review.session_limit, found.review.danger_to, found.tiers.archived_below) == (7, 0.4, 0.4)
    assert [era.version for era in times_of(tenant).eras] == list(range(len(wanted) + 2)), (
        "each version has been in force"
    )


def test_of_changes_at_once_that_expect_one_version_one_wins(service: Service, tenant: Tenant) -> None:
    def change(days: int) -> bool:
        try:
            return put(tenant, expected=1, history_days=days).is_new
        except Conflict:
            return False

    with ThreadPoolExecutor(6) as callers:
        assert sorted(callers.map(change, range(30, 36))) == [False] * 5 + [True]
    assert set(statuses(tenant)) == {1, 2}


def test_a_job_moves_the_memories_where_strength_depends_on_it(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_kind(monkeypatch, "rebase", lambda _: Step(0, {}, finished=True))

    def job(at: datetime | None = None, **fields: Any) -> UUID | None:
        return policy_versions.write_change(tenant.tenant_id, RequestedChange(fields, effective_at=at))[1]

    assert job(history_days=30, ranking={"when": 0.5}) is None
    started = job(importance={"weights": {"recency": 0.5}})
    assert started is not None
    assert queue.get(tenant.tenant_id, started).kind == "rebase"
    assert job(importance={"weights": {"recency": 0.5}}) is None, "an unchanged policy starts no job"
    assert job(tiers={"archived_below": 0.5}) == started, "the unfinished job covers the newer version too"
    assert job(ahead(days=1), forgetting={"profile": "cmm"}) is None, "the nightly sweep does it"


def test_an_unknown_version_and_another_tenants_are_not_found(service: Service, tenant: Tenant) -> None:
    put(tenant, history_days=30)
    assert policy_versions.get(tenant.tenant_id, 2).era.policy.history_days == 30
    for stranger, number in ((tenant, 3), (tenant, 0), (service.tenant(), 2)):
        with pytest.raises(NotFound):
            policy_versions.get(stranger.tenant_id, number)


# --- Effects ---


def times_of(tenant: Tenant) -> Timeline:
    with database.tenant(tenant.tenant_id) as tx:
        return memory_strength.load_timeline(tx, tenant.tenant_id)


def tier_by_hand(times: Timeline, held: states.StoredStates, row: int, moment: float) -> str:
    """Return the tier of one memory, evaluated condition by condition."""
    era = times.at(moment)
    one = times.advance_to(take(held.state, np.array([row])), held.versions[[row]], moment)
    strength = float(era.dynamics.strength(one, moment)[0])
    worth = float(importance.importance(era.policy.importance, one, moment)[0])
    tiers, protection = era.policy.tiers, era.policy.protection
    young = moment - one.created_at[0] < protection.grace_days * DAY_SECONDS
    if young or worth > protection.grace_importance_above or one.access_count[0] > protection.uses_above:
        return "active"
    if one.salience[0] > era.policy.rules.former_salience:  # these memories have no keep chance
        return "active"
    if (
        strength < tiers.deleted_below
        and moment - one.created_at[0] > tiers.deleted_after_days * DAY_SECONDS
        and worth < tiers.deleted_importance_below
        and one.access_count[0] < tiers.deleted_uses_below
        and one.salience[0] < FORMER_SALIENCE
    ):
        return "deleted"
    if strength < tiers.cold_below:
        return "cold"
    return "archived" if strength < tiers.archived_below else "active"


CHANGES: list[dict[str, Any]] = [
    {"tiers": {"archived_below": 0.6, "cold_below": 0.35, "deleted_after_days": 30, "deleted_importance_below": 1}},
    {"forgetting": {"profile": "mnemex"}},
    {"forgetting": {"profile": "memory_decay", "parameters": {"curve": "power_law"}}, "tiers": {"archived_below": 0.9}},
    {"importance": {"weights": {"recency": 1, "salience": 0}}, "forgetting": {"parameters": {"law": "linear"}}},
]


BEGINNINGS = {f"{' '.join(change)}-{days}": (change, days) for change in CHANGES for days in (0, 20)}
USUAL_BEGINNINGS = {"tiers-0", "forgetting-20", "forgetting tiers-0", "importance forgetting-20"}


@pytest.mark.parametrize("case", variants(BEGINNINGS, USUAL_BEGINNINGS))
def test_effects_are_those_of_each_memory_by_hand(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, case: tuple[dict[str, Any], int]
) -> None:
    change, days = case
    monkeypatch.setattr(policy_impact, "PAGE_ROWS", 7)
    fill(service, tenant, Policy().model, MEMORIES)
    put(tenant, ahead(days=5), tiers={"archived_below": 0.35})  # scheduled: in force by then, or superseded
    at = ahead(days=days) if days else None
    before = service.rows("SELECT state::text FROM memory_state AS state ORDER BY 1")
    outcome, found = policy_versions.preview_change(tenant.tenant_id, RequestedChange(change, effective_at=at))
    assert service.rows("SELECT state::text FROM memory_state AS state ORDER BY 1") == before
    assert set(statuses(tenant)) == {1, 2}

    times = times_of(tenant)
    changed = Timeline([*times.eras, outcome.era])
    with database.tenant(tenant.tenant_id) as tx:
        held = states.list_page(tx, tenant.tenant_id, UUID(int=0), MEMORIES)
    later = found.at + 30 * DAY_SECONDS
    pairs = [tuple(tier_by_hand(each, held, row, found.at) for each in (times, changed)) for row in range(MEMORIES)]
    assert found.memories == MEMORIES
    assert found.before == Counter(old for old, _ in pairs)
    assert found.after == Counter(new for _, new in pairs)
    assert found.moves == Counter(pair for pair in pairs if len(set(pair)) == 2)
    moving = [(memory_id, *pair) for memory_id, pair in zip(held.ids, pairs, strict=True) if len(set(pair)) == 2]
    assert found.sample == moving[:20]
    assert found.later_before == Counter(tier_by_hand(times, held, row, later) for row in range(MEMORIES))
    assert found.later_after == Counter(tier_by_hand(changed, held, row, later) for row in range(MEMORIES))


def test_deleted_memories_have_no_part_in_it(service: Service, tenant: Tenant) -> None:
    fill(service, tenant, Policy().model, 3)
    memories.delete(tenant.tenant_id, service.one("SELECT memory_id FROM memories WHERE text = 'memory 1'"))
    _, found = policy_versions.preview_change(tenant.tenant_id, RequestedChange({"tiers": {"archived_below": 1}}))
    assert (found.memories, sum(found.after.values())) == (2, 2)


def test_looking_ends_before_clients_have_waited_too_long(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy_impact, "PAGE_ROWS", 4)
    fill(service, tenant, Policy().model, 10)
    change = RequestedChange({"tiers": {"archived_below": 1}})
    assert policy_versions.preview_change(tenant.tenant_id, change)[1].complete
    monkeypatch.setattr(policy_impact, "SECONDS_MAX", -1.0)
    _, found = policy_versions.preview_change(tenant.tenant_id, change)
    assert (found.memories, found.complete) == (4, False)


def test_what_another_profile_cannot_hold_is_counted(service: Service) -> None:
    tenant = service.tenant(Policy.model_validate({"forgetting": {"profile": "mnemex", "parameters": {"beta": 1}}}))
    fill(service, tenant, Policy().model, MEMORIES)
    service.rows("UPDATE memory_state SET accessed_at = now(), anchored_at = now(), level = 0")
    _, found = policy_versions.preview_change(tenant.tenant_id, RequestedChange({"forgetting": {"profile": "cmm"}}))
    above = service.one("SELECT count(*) FROM memory_state WHERE (access_count + 1) * multiplier > 1.001")
    assert +found.lost == {"score_above_1": above}

    other = service.tenant(Policy.model_validate({"forgetting": {"profile": "memory_decay"}}))
    fill(service, other, of_memory_decay(), MEMORIES)
    change = RequestedChange({"forgetting": {"profile": "mnemex"}})
    _, found = policy_versions.preview_change(other.tenant_id, change)
    zero = service.one(
        "SELECT count(*) FROM memory_state WHERE tenant_id = %s AND multiplier = 0 AND level > -1", other.tenant_id
    )
    assert 0 < zero <= found.lost["multiplier_0"]
    stable = service.one(
        "SELECT count(*) FROM memory_state WHERE tenant_id = %s AND stability > 0.001", other.tenant_id
    )
    assert found.lost["stability"] == stable > 0
    assert found.lost["retrieval"] > 0
    _, found = policy_versions.preview_change(
        other.tenant_id, RequestedChange({"forgetting": {"parameters": {"boost": 0.2}}})
    )
    assert found.lost == {}, "the same profile loses nothing"


def of_memory_decay() -> Any:
    return Policy.model_validate({"forgetting": {"profile": "memory_decay"}}).model


def test_errors_name_the_field(service: Service, tenant: Tenant) -> None:
    with pytest.raises(Invalid) as refused:
        put(tenant, forgetting={"profile": "cmm", "parameters": {"grace_days": -1}})
    assert refused.value.errors == (
        FieldError("policy.forgetting.parameters.grace_days", "should be greater than or equal to 0", -1, 0),
    )
