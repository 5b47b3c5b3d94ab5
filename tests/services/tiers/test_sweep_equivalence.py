"""Strengths and decay tiers after 30 days don't depend on the number of sweeps, evaluated on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.domain.policy.policy import Forgetting, Policy
from app.services.memories import memories
from app.services.tiers import sweep
from tests.service import Service
from tests.services.aged import Aged, days
from tests.variants import variants

END_DAYS = 30
HOUR = 1 / 24


def policy(profile: str, **parameters: Any) -> Policy:
    return Policy(forgetting=Forgetting(profile=profile, parameters=parameters))


SOFT_FLOOR = policy("memory_decay", curve="soft_floor")
CHANGES = {
    "spec": (policy("spec"), policy("spec", law="product", base_per_day=0.2)),
    "mnemex": (policy("mnemex"), policy("mnemex", half_life_days=1.5)),
    "cmm": (policy("cmm"), policy("cmm", lambda_per_second=2e-6)),
    "memory_decay": (policy("memory_decay"), policy("memory_decay", lambda_episode=0.1)),
    "soft floor": (SOFT_FLOOR, policy("memory_decay", curve="soft_floor", tick_seconds=7200)),
    "spec to memory_decay": (policy("spec"), policy("memory_decay", curve="power_law")),
    "memory_decay to mnemex": (policy("memory_decay"), policy("mnemex")),
}
PROFILES = ("spec", "mnemex", "cmm", "memory_decay")


def history(aged: Aged, following: Policy) -> list[tuple[float, Callable[[], object]]]:
    """Return the events of sixty memories of all ages, each with its day."""
    created = np.concatenate([np.linspace(-120, 0, 50), np.linspace(0.01, 25, 10)]).tolist()
    saliences = [None if n % 4 == 0 else n % 10 / 10 for n in range(60)]
    kinds, uses = [n % 5 for n in range(60)], [(0, 0, 1, 5)[n % 4] for n in range(60)]
    ids = aged.remember(*created, salience=saliences, kind=kinds, access_count=uses)

    def group(first: int, step: int) -> list[UUID]:
        return ids[first:50:step]

    return [
        (2.3, lambda: aged.change(group(0, 4), salience=0.8)),
        (5.1, lambda: aged.use(group(1, 6))),
        (7.7, lambda: aged.change(group(2, 5), kind=1)),
        (9.05, lambda: aged.use(group(3, 7), at=days(8.5))),
        (11.4, lambda: aged.decide(following, 11.4)),
        (11.41, lambda: aged.use(group(5, 9))),
        (13.9, lambda: aged.use(group(1, 6), at=days(4))),
        (16.2, lambda: memories.delete(aged.tenant_id, ids[7])),
        (17.0, lambda: aged.change(group(0, 3), salience=0.1)),
        (17.1, lambda: aged.change(group(4, 8), multiplier=1.6)),
        (19.6, lambda: aged.change(group(2, 4), pace=0.5)),
        (21.2, lambda: aged.use(group(0, 5))),
        (28.8, lambda: aged.use(group(3, 9))),
    ]


def swept(aged: Aged, as_of: datetime) -> None:
    """Sweep as a night does, with a rebase first if one is due."""
    state: dict[str, Any] = {}
    while True:
        step = sweep.run_slice(aged.tenant_id, as_of, state, float("inf"))
        state = step.state
        if step.finished:
            return


def lived(aged: Aged, following: Policy, every_days: float) -> tuple[list[float], list[str]]:
    """Return the strengths and tiers after the history, swept at this interval and at the end."""
    happenings = history(aged, following)
    sweeps = np.arange(every_days, END_DAYS, every_days).tolist()
    moments = sorted([*((day, 1, what) for day, what in happenings), *((day, 0, None) for day in sweeps)], key=key)
    for day, _, happen in moments:
        aged.now = days(day)
        if happen is not None:
            happen()
        elif abs(day - round(day)) < HOUR / 2:
            swept(aged, aged.now)
        else:
            sweep.sweep(aged.tenant_id, aged.now)
    aged.now = days(END_DAYS)
    swept(aged, aged.now)
    return aged.strengths().tolist(), aged.tiers()


def key(moment: tuple[float, int, object]) -> tuple[float, int]:
    return moment[:2]


def life(
    service: Service, monkeypatch: pytest.MonkeyPatch, name: str, every_days: float
) -> tuple[list[float], list[str]]:
    before, after = CHANGES[name]
    service.rows("TRUNCATE memories, memory_state, memory_events")
    return lived(Aged(service, monkeypatch, before), after, every_days)


# A change within a profile, and one to another.
@pytest.mark.parametrize("name", variants({name: name for name in CHANGES}, {"spec", "memory_decay to mnemex"}))
def test_it_does_not_matter_how_often_it_is_swept(service: Service, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    often = [END_DAYS, 1, *([HOUR] if name in PROFILES else [7 * HOUR])]
    lives = [life(service, monkeypatch, name, every) for every in often]
    for (strengths, tiers), (others, other_tiers) in pairwise(lives):
        np.testing.assert_allclose(others, strengths, rtol=0, atol=1e-9)
        assert other_tiers == tiers
    strengths, tiers = lives[0]
    assert len(strengths) == 59, "one was deleted"
    assert len(set(tiers)) >= 2, "otherwise the comparison proves nothing"
    assert len(set(np.round(strengths, 6))) > 20


def test_each_life_is_one_of_its_own(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves that the test above can fail: another history gives other strengths."""
    before, _ = CHANGES["spec"]
    strengths, _ = life(service, monkeypatch, "spec", END_DAYS)
    service.rows("TRUNCATE memories, memory_state, memory_events")
    others, _ = lived(Aged(service, monkeypatch, before), before, END_DAYS)
    assert np.abs(np.array(strengths) - others).max() > 0.01
