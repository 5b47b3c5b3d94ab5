"""Uses concurrent with other writers of a memory's row: due dates stay lower bounds, and no policy is skipped."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.uses import Touches, Use
from app.domain.strength.links import NewLink
from app.services.memories import links, live_numbers, memories
from app.services.storage import lookup
from app.services.strength import memory_strength
from app.services.tiers import sweep
from app.services.uses import reinforcement, reviews
from app.services.uses.reinforcement import EnvelopeTouches
from app.store.core import database
from app.store.memories.memories import StoredMemory
from app.store.strength import states
from app.store.strength.states import StoredStates
from app.store.tenants import policies
from tests.service import Service
from tests.services.aged import Aged, aged
from tests.services.used_memories import Shop, policy, shop_of
from tests.waiting import until

__all__ = ["aged"]

STEP_DAYS = 0.25


def touch(aged: Aged, memory_id: UUID) -> None:
    reinforcement.touch_memory(aged.tenant_id, memory_id, Touches([Use(memory_id)], 1))


def observe(aged: Aged, memory_id: UUID) -> None:
    reinforcement.reinforce_used(
        aged.tenant_id, [EnvelopeTouches(b"a" * 16, aged.now.timestamp(), Touches([Use(memory_id)], 1))]
    )


def review(aged: Aged, memory_id: UUID) -> None:
    reviews.record_review(aged.tenant_id, memory_id, "passed")


uses = pytest.mark.parametrize("use", [touch, observe, review])
Uses = Callable[[Aged, UUID], None]


def step_passed_unseen(aged: Aged, step: float, until_days: float) -> bool:
    """Return True if importance falls below a step before the only memory is due for a sweep."""
    [memory_id] = aged.service.one("SELECT array_agg(memory_id) FROM memory_state")
    for place in range(int(until_days / STEP_DAYS)):
        moment = aged.now + timedelta(days=place * STEP_DAYS)
        with database.tenant(aged.tenant_id) as tx:
            times = memory_strength.load_timeline(tx, aged.tenant_id)
            held = states.read(tx, aged.tenant_id, [memory_id])
        if held.next_due_at[0] <= moment.timestamp():
            return False
        if (
            memory_strength.evaluate_strength(times.at(moment.timestamp()), held.state, moment.timestamp()).importance[
                0
            ]
            < step
        ):
            return True
    raise AssertionError("it never falls so low")


@uses
def test_a_use_that_lifts_importance_above_a_step_is_looked_at(aged: Aged, use: Uses) -> None:
    """Importance was below .7 for good before the use, so the due date was about something far off."""
    [memory_id] = aged.remember(-20, salience=0.9)
    sweep.sweep(aged.tenant_id, None)
    use(aged, memory_id)
    assert not step_passed_unseen(aged, 0.7, until_days=30)


@uses
def test_a_use_that_puts_off_what_is_due_writes_no_bound(aged: Aged, use: Uses) -> None:
    [memory_id] = aged.remember(-2, salience=0.2)
    sweep.sweep(aged.tenant_id, None)
    [bound] = aged.due()
    use(aged, memory_id)
    assert aged.due() == [bound]


def test_what_is_used_and_linked_to_what_is_used_is_looked_at(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one batch, one request strengthens the memory along a link, another uses it, which raises its tier."""
    chosen = policy("memory_decay", refractory=0)
    aged = Aged(service, monkeypatch, chosen)
    one, other = aged.remember(-40, -40, salience=0.0)
    sweep.sweep(aged.tenant_id, None)
    assert aged.tiers() == ["archived", "archived"]
    links.add(aged.tenant_id, [NewLink(one, other)])
    now = aged.now.timestamp()
    reported = [(b"a" * 16, one), (b"b" * 16, other)]
    batch = [EnvelopeTouches(base, now, Touches([Use(memory_id)] * 4, 1)) for base, memory_id in reported]
    reinforcement.reinforce_used(aged.tenant_id, batch)
    assert min(aged.strengths()) > 0.3
    assert aged.due() == [None, None], "the next sweep finds them active"


def use_it(shop: Shop, memory_id: UUID) -> None:
    shop.touch(memory_id)


def edit(shop: Shop, memory_id: UUID) -> None:
    memories.edit_memory(shop.tenant_id, memory_id, MemoryPatch(salience=0.9))


@pytest.mark.parametrize("write", [use_it, edit])
def test_who_has_waited_for_a_row_goes_by_the_policy_that_came_meanwhile(
    service: Service, write: Callable[[Shop, UUID], None]
) -> None:
    """The transaction began under `spec` and finds a row of `mnemex`, where a level has another meaning."""
    shop = shop_of(service, policy())
    [memory_id] = shop.stored("x", age_days=30)
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(shop.tenant_id) as tx:
            held = states.lock(tx, shop.tenant_id, [memory_id])
            waiting = pool.submit(write, shop, memory_id)
            until(service.count_lock_waits, "the writer waits for a lock")
            with database.tenant(shop.tenant_id) as other:
                policies.add(other, shop.tenant_id, 2, policy("mnemex"))
            now = database.now(tx).timestamp()
            times = memory_strength.load_timeline(tx, shop.tenant_id)
            memory_strength.write_tiers(tx, shop.tenant_id, held, times, now)
        waiting.result()
    assert shop.row(memory_id).version == 2
    with database.tenant(shop.tenant_id) as tx:
        after = states.read(tx, shop.tenant_id, [memory_id])
    [before] = times.at(now).dynamics.strength(times.advance_to(held.state, held.versions, now), now)
    [strength] = times.at(now).dynamics.strength(after.state, shop.now())
    assert strength == pytest.approx(before, abs=1e-4) or (write is use_it and strength > before)


def test_a_level_beyond_what_the_table_takes_is_cut(service: Service) -> None:
    wild = {"base_per_day": 100, "kinds": {"episodic": 100}}
    shop = shop_of(service, policy("spec", wild))
    [memory_id] = shop.stored({"text": "x", "salience": 0}, age_days=300_000)
    shop.used(Use(memory_id, -3e10))
    assert shop.counts(memory_id) == [1]
    assert shop.row(memory_id).level == 1e9


def test_a_policy_that_comes_while_memories_are_read_is_known_with_them(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = shop_of(service, policy())
    [memory_id] = shop.stored("x", age_days=30)
    stored = lookup.get(shop.tenant_id, memory_id)
    assert isinstance(stored, StoredMemory)
    before = live_numbers.live_numbers(shop.tenant_id, [stored])[memory_id].numbers.strength
    real_read = states.read

    def adopted_then_read(*given: Any) -> StoredStates:
        with database.tenant(shop.tenant_id) as tx:
            policies.add(tx, shop.tenant_id, 2, policy("mnemex"))
            held = states.lock(tx, shop.tenant_id, [memory_id])
            now = database.now(tx).timestamp()
            memory_strength.write_tiers(
                tx, shop.tenant_id, held, memory_strength.load_timeline(tx, shop.tenant_id), now
            )
        return real_read(*given)

    monkeypatch.setattr(states, "read", adopted_then_read)
    after = live_numbers.live_numbers(shop.tenant_id, [stored])[memory_id].numbers.strength
    assert shop.row(memory_id).version == 2
    assert after == pytest.approx(before, abs=1e-4)
