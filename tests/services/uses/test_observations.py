"""Observed uses: a policy may ignore them, and under `mnemex` they are reviews (seed 001)."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.uses import Use
from app.domain.policy.policy import Forgetting, Policy, Reinforcement
from app.services.uses import reviews
from tests.service import Service
from tests.services.used_memories import Shop, policy, shop_of


def schedule(shop: Shop, memory_id: UUID) -> tuple[Any, ...] | None:
    """Return the number of reviews, the interval in days and the flag; None without a schedule."""
    rows = shop.service.rows("SELECT review_count, interval_days, flagged FROM reviews WHERE memory_id = %s", memory_id)
    return rows[0] if rows else None


def dates(shop: Shop, memory_id: UUID) -> tuple[datetime, datetime]:
    [(reviewed, due)] = shop.service.rows("SELECT reviewed_at, due_at FROM reviews WHERE memory_id = %s", memory_id)
    return reviewed, due


@pytest.mark.parametrize("by_observation", [True, False])
def test_observations_may_be_ignored(service: Service, by_observation: bool) -> None:
    """Seed 001, MNEMEX_AUTO_REINFORCE: searches and touches still count."""
    reinforcement = Reinforcement(by_observation=by_observation, refractory_seconds=0)
    shop = shop_of(service, Policy(forgetting=Forgetting(profile="mnemex"), reinforcement=reinforcement))
    [memory_id] = shop.stored("mint tea", age_days=3)
    shop.used(memory_id)
    assert shop.row(memory_id).count == int(by_observation)
    assert schedule(shop, memory_id) == ((1, 6.0, False) if by_observation else None)
    shop.used(memory_id, by_search=True)
    shop.touch(memory_id)
    assert shop.row(memory_id).count == 2 + int(by_observation)


def test_under_mnemex_an_observation_is_a_review(service: Service) -> None:
    """Seed 001, reinforce_memory: review_count += 1 and last_review_at = now at each one, for many memories at once."""
    shop = shop_of(service, policy("mnemex", refractory=0))
    old, young, unseen = shop.stored("a", "b", "c", age_days=3)
    service.rows("UPDATE memory_state SET created_at = now() WHERE memory_id = %s", young)
    began = time.time()
    shop.used(Use(old, began - 60), old, young)
    assert [schedule(shop, each) for each in (old, young, unseen)] == [(2, 6.0, False), (1, 1.0, False), None]
    reviewed_at, due_at = dates(shop, old)
    assert reviewed_at.timestamp() >= began - 1
    assert due_at - reviewed_at == timedelta(days=6)
    shop.used(old)
    assert schedule(shop, old) == (3, 6.0, False), "no review was due, so the interval stays"
    service.rows("UPDATE reviews SET due_at = now() - interval '1 day', flagged = true")
    shop.used(old, old)
    count, interval, flagged = schedule(shop, old) or ()
    assert (count, flagged) == (5, True)
    assert 6 * 1.3 <= interval <= 6 * 3 + 1, "a due review lengthens the interval, once for all observations"


def test_searches_touches_and_late_uses_are_no_reviews(service: Service) -> None:
    shop = shop_of(service, policy("mnemex", refractory=0))
    [memory_id] = shop.stored("mint tea", age_days=3)
    shop.used(memory_id, by_search=True)
    shop.touch(memory_id)
    shop.used(Use(memory_id, time.time() - 86_400))
    assert schedule(shop, memory_id) is None


def test_a_repeated_envelope_counts_once(service: Service) -> None:
    shop = shop_of(service, policy("mnemex", refractory=0))
    [memory_id] = shop.stored("mint tea", age_days=3)
    base = shop.report_uses(memory_id)
    shop.used(memory_id, base=base)
    assert schedule(shop, memory_id) == (1, 6.0, False)


def test_under_other_profiles_it_is_none(service: Service) -> None:
    shop = shop_of(service, policy("spec", refractory=0))
    [memory_id] = shop.stored("mint tea", age_days=3)
    shop.used(memory_id)
    assert (shop.row(memory_id).count, schedule(shop, memory_id)) == (1, None)
    assert reviews.record_review(shop.tenant_id, memory_id, "passed").reviewed.review_count == 1
