"""The promotion flag with its reason (seeds 000 and 001)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from app.domain.dynamics.profiles import profile
from app.domain.dynamics.state import DAY_SECONDS, new
from app.domain.policy.policy import Forgetting, Policy
from app.domain.strength.promotion import promotion_reasons
from app.services.strength import memory_strength, promotion
from app.services.uses import reviews
from app.store.core import database
from app.store.strength import states
from tests.service import Service, Tenant
from tests.services.backdated import age

PROFILES = ("spec", "mnemex", "cmm", "memory_decay")


def reasons(name: str, uses: list[int], days: list[float], multiplier: float = 1.0) -> list[str]:
    """Return the reason of each memory with this many uses, created this many days ago."""
    state = new(np.zeros(len(uses)) - np.array(days) * DAY_SECONDS, multiplier=multiplier)
    used = replace(state, access_count=np.array(uses, np.float64))
    return list(promotion_reasons(profile(name), used, 0.0))


@pytest.mark.parametrize("name", ["spec", "cmm", "memory_decay"])
def test_five_uses_within_two_weeks_promote(name: str) -> None:
    """A new memory always has the highest strength, so strength promotes nothing here."""
    assert reasons(name, [0, 4, 5, 9, 5, 5], [0, 1, 1, 1, 14, 14.1]) == ["", "", "uses", "uses", "uses", ""]


def test_in_mnemex_the_score_promotes_as_well() -> None:
    """Seed 000: at .65 and above, or five uses within 14 days; a new memory counts as used once."""
    assert reasons("mnemex", [0, 0], [0, 6]) == ["score", ""]
    assert reasons("mnemex", [3, 4, 4], [10, 10, 15], multiplier=0.5) == ["", "uses", ""]


def flag(tenant: Tenant, memory_id: UUID, uses: int) -> list[UUID]:
    """Set the number of uses, and return the memories that are flagged."""
    with database.tenant(tenant.tenant_id) as tx:
        now = database.now(tx).timestamp()
        times = memory_strength.load_timeline(tx, tenant.tenant_id)
        held = memory_strength.advance_to_era(states.lock(tx, tenant.tenant_id, [memory_id]), times, now)
        used = replace(held, state=replace(held.state, access_count=np.array([float(uses)])))
        return promotion.flag_promoted(tx, tenant.tenant_id, used, times.at(now), now)


def test_a_flag_is_set_once_with_its_reason(service: Service) -> None:
    tenant = service.tenant()
    [memory_id] = service.send(tenant.tenant_id, "the cat")
    service.work()
    assert flag(tenant, memory_id, 4) == []
    assert flag(tenant, memory_id, 5) == [memory_id]
    [before] = service.rows("SELECT promoted_at, promoted_for FROM memory_state")
    assert before[1] == "uses"
    assert flag(tenant, memory_id, 6) == []
    assert service.rows("SELECT promoted_at, promoted_for FROM memory_state") == [before]
    assert service.one("SELECT count(*) FROM memory_events WHERE kind = 'promoted'") == 1


@pytest.mark.parametrize(("name", "reason"), [("spec", None), ("mnemex", "score")])
def test_a_passed_review_promotes_and_a_failed_one_does_not(service: Service, name: str, reason: str | None) -> None:
    tenant = service.tenant(Policy(forgetting=Forgetting(profile=name)))
    [memory_id] = service.send(tenant.tenant_id, "the cat")
    service.work()
    age(service, 10, memory_id)
    reviews.record_review(tenant.tenant_id, memory_id, "failed")
    assert service.one("SELECT promoted_for FROM memory_state") is None
    reviews.record_review(tenant.tenant_id, memory_id, "passed")
    assert service.one("SELECT promoted_for FROM memory_state") == reason
