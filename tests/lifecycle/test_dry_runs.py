"""A run does exactly what its dry run for that time lists, by the rules that the reference names; so do forecasts."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from app.domain.dynamics.timeline import Era, Timeline
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.services.strength import memory_strength, rebase
from app.services.tenants import policy_impact
from app.services.tiers import forecast, sweep
from app.services.tiers.dry_run import PredictedMove
from app.services.tiers.forecast import ForecastOptions
from app.store.core import database
from tests.lifecycle import reference
from tests.lifecycle.year import NIGHT, Lived, Year, policy
from tests.service import Service
from tests.services.aged import Aged, days
from tests.variants import variants

MEMORIES = 400


def wanted(aged: Aged) -> dict[UUID, str]:
    return dict(aged.service.rows("SELECT memory_id, wanted_tier FROM memory_state"))


def previewed(
    aged: Aged, day: float, limit: int, *, only_rebase: bool = False
) -> tuple[list[PredictedMove], Counter[str]]:
    """Return the moves and counts of all pages of a dry run."""
    moves: list[PredictedMove] = []
    counts: Counter[str] = Counter()
    after = None
    while True:
        page = sweep.preview_sweep(aged.tenant_id, days(day), after, limit, only_rebase=only_rebase)
        moves += page.moves
        counts.update(page.counts)
        after = page.following
        if after is None:
            return moves, counts


def run(aged: Aged, day: float, *, only_rebase: bool = False) -> tuple[dict[UUID, tuple[str, str]], Counter[str]]:
    """Run to the end and return its changes and counts."""
    state: dict[str, Any] = {}
    before, counts, finished = wanted(aged), Counter[str](), False
    while not finished:
        carry_on = rebase.run_slice if only_rebase else sweep.run_slice
        step = carry_on(aged.tenant_id, days(day), state, float("inf"))
        state, finished = step.state, step.finished
        counts.update({**step.counts, "looked_at": step.done})
    after = wanted(aged)
    return {each: (before[each], after[each]) for each in after if before[each] != after[each]}, counts


def lived(service: Service, monkeypatch: pytest.MonkeyPatch, profile: str, until: int) -> tuple[Lived, Year]:
    """Create a tenant whose nights run twice a month and whose last weeks passed without one."""
    year = Year(MEMORIES, profile, last=until)
    aged = Aged(service, monkeypatch, policy(year.numbers))
    lived = Lived(aged, year)
    lived.through(lambda day: int(day % 15 == 0 and day < until - 20), until)
    return lived, year


# Profile, day, page size and days ahead. On day 125, no night has seen the latest policy yet; on day 240, another
# policy with a longer grace period applies.
RUNS = {
    "spec-125-7-0": ("spec", 125, 7, 0),
    "spec-125-7-33": ("spec", 125, 7, 33),
    "spec-240-100-0": ("spec", 240, 100, 0),
    "spec-240-100-33": ("spec", 240, 100, 33),
    "mnemex-100-1000-0": ("mnemex", 100, 1000, 0),
    "mnemex-100-1000-33": ("mnemex", 100, 1000, 33),
}


@pytest.mark.parametrize("case", variants(RUNS, {"spec-240-100-33"}))
def test_a_run_does_what_its_dry_run_says(
    service: Service, monkeypatch: pytest.MonkeyPatch, case: tuple[str, int, int, int]
) -> None:
    profile, until, limit, ahead = case
    found, year = lived(service, monkeypatch, profile, until)
    moment = until + NIGHT + ahead
    moves, counted = previewed(found.aged, moment, limit)
    assert moves, "no moves: the test proves nothing"
    assert previewed(found.aged, moment, 1_000)[0] == moves, "pagination doesn't change the result"
    found.aged.now = days(moment)
    changed, counts = run(found.aged, moment)
    assert {move.memory_id: (move.before, move.after) for move in moves} == changed
    assert {name: count for name, count in counted.items() if count} == counts
    places = {memory_id: place for place, memory_id in enumerate(found.ids)}
    for move in moves:
        memory = year.lived[places[move.memory_id]]
        memory.tier = DECAY_TIERS[int(found.tiers()[places[move.memory_id]])]
        assert (move.after, move.rule) == reference.decide(year.numbers_now, memory, moment)
    assert previewed(found.aged, moment, limit)[0] == [], "a second dry run lists nothing"


def test_a_rebase_does_what_its_dry_run_says(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = lived(service, monkeypatch, "spec", 125)
    moves, counted = previewed(found.aged, 125, 7, only_rebase=True)
    changed, counts = run(found.aged, 125, only_rebase=True)
    assert moves
    assert {move.memory_id: (move.before, move.after) for move in moves} == changed
    assert {name: count for name, count in counted.items() if count} == counts


def test_forecasts_and_policy_diffs_are_by_the_same_decision(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers holds, labels, grace periods, and a policy that isn't in force yet."""
    found, year = lived(service, monkeypatch, "spec", 110)
    aged, before = found.aged, year.numbers_now
    aged.now = days(110 + NIGHT)
    harsher = reference.Numbers(
        archived_below=0.6,
        cold_below=0.4,
        salience_above=0.9,
        deleted_salience_below=0.8,
        never_tags={"holiday"},
        grace_days=1,
    )
    waiting = policy(harsher)
    version = aged.decide(waiting, 125.5)
    for memory, tier in zip(year.lived, found.tiers(), strict=True):
        memory.tier = DECAY_TIERS[int(tier)]
    here = [memory for memory in year.lived if memory.tier != "deleted"]

    def decided(numbers: reference.Numbers, day: float) -> Counter[str]:
        return Counter(reference.decide(numbers, memory, day)[0] for memory in here)

    def forecast_counts(day: int) -> Counter[str]:
        return Counter(dict(zip(DECAY_TIERS, outlook.counts[day].tolist(), strict=True)))

    outlook = forecast.forecast_tiers(aged.tenant_id, ForecastOptions(30))
    assert forecast_counts(0) == decided(before, 110 + NIGHT)
    assert all(forecast_counts(day) == decided(before, 110 + day) for day in (1, 8, 15))
    later = decided(before, 125.5 + policy_impact.LATER_DAYS)
    with database.tenant(aged.tenant_id) as tx:
        known = [era for era in memory_strength.load_eras(tx, aged.tenant_id) if era.version < version]
    found_effects = policy_impact.measure_impact(
        aged.tenant_id, Timeline(known), Era(version, days(125.5).timestamp(), waiting)
    )
    assert found_effects.before == decided(before, 125.5)
    assert found_effects.later_before == later
    nights_until_then = [reference.decide(before, memory, 125.5)[0] for memory in here]
    for memory in here:
        reference.settle(before, memory, 125.5)
    assert found_effects.after == decided(harsher, 125.5)
    assert found_effects.later_after == decided(harsher, 125.5 + policy_impact.LATER_DAYS)
    for memory, tier in zip(here, nights_until_then, strict=True):
        memory.tier = tier
    assert all(forecast_counts(day) == decided(harsher, 110 + day) for day in (16, 23, 30))
    assert len({tuple(forecast_counts(day).values()) for day in (15, 16, 30)}) == 3, (
        "forecasts don't differ: the test proves nothing"
    )
