"""Learned rates of forgetting: simulated tenants whose memories are used by a known rate, for every profile."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.domain.dynamics import rate_fit, state
from app.domain.dynamics.rate_fit import Observed, SpeedFit, fit_speed
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.ingest.memory import KINDS
from app.domain.policy import learned_rates
from app.domain.policy.learned_rates import NONE, LearnedRate, Rate, StoredRates
from app.domain.policy.policy import Policy
from tests.domain.policy.used_tenants import simulate
from tests.variants import variants

Profile = tuple[str, dict[str, Any], str]
PROFILES: dict[str, Profile] = {
    "spec": ("spec", {}, "kinds.episodic"),
    "mnemex_exponential": ("mnemex", {"curve": "exponential"}, "half_life_days"),
    "mnemex": ("mnemex", {}, "half_life_days"),
    "cmm": ("cmm", {}, "lambda_per_second"),
    "memory_decay": ("memory_decay", {}, "lambda_episode"),
}


def policy_of(profile: str, parameters: dict[str, Any]) -> Policy:
    return Policy.model_validate({"forgetting": {"profile": profile, "parameters": parameters}})


def rate_of(policy: Policy, name: str) -> Rate:
    [rate] = [each for each in learned_rates.list_rates(policy) if each.name == name]
    return rate


def speed_of(policy: Policy, rate: Rate, half_life_days: float) -> float:
    """Return the speed at which an unused memory has this half-life; in `cmm`, after the grace period."""
    if policy.forgetting.profile == "cmm":
        return math.log(2) / (half_life_days * DAY_SECONDS) / rate.values[rate.name]
    low, high = math.log(1 / 64), math.log(64)
    for _ in range(40):
        middle = (low + high) / 2
        model = learned_rates.model_at(policy, rate, math.exp(middle))
        if learned_rates.half_life_days(model, rate) > half_life_days:
            low = middle
        else:
            high = middle
    return math.exp(low)


def learn(
    profile: Profile, half_life_days: float, memories: int, seed: int, **options: Any
) -> tuple[LearnedRate, float]:
    """Return what is learned, and the true speed."""
    name, parameters, rate_name = profile
    policy = policy_of(name, parameters)
    rate = rate_of(policy, rate_name)
    speed = speed_of(policy, rate, half_life_days)
    truth = learned_rates.model_at(policy, rate, speed)
    observed = simulate(truth, memories, seed, rate.kinds[0], archiving=policy.model, **options)
    fit = fit_speed(lambda each: learned_rates.model_at(policy, rate, each), observed)
    return learned_rates.weigh(policy, rate, fit, rate), speed


CASES = {f"{name}-{days}": (profile, days) for name, profile in PROFILES.items() for days in (7, 30, 90)}


@pytest.mark.parametrize("case", variants(CASES, ["spec-30", "cmm-7"]))
def test_the_rate_behind_the_uses_is_found(case: tuple[Profile, float]) -> None:
    """Half-lives as learned from 2,000 memories are within 15 %: the middle one of three tenants."""
    errors = []
    for seed in range(3):
        learned, speed = learn(*case, 2_000, seed, uses_per_day=USES_PER_DAY)
        assert learned.low is not None
        assert learned.high is not None
        error = math.log(learned.high / learned.low) / (2 * 1.96)
        assert abs(math.log(learned.learned / speed)) < 4 * error, "the interval isn't too narrow"
        errors.append(abs(speed / learned.learned - 1))
    assert sorted(errors)[1] <= 0.15


USES_PER_DAY = 0.05


@pytest.mark.parametrize("case", variants(CASES, ["spec-90", "mnemex-90"]))
def test_fifty_memories_leave_the_rate_near_the_default(case: tuple[Profile, float]) -> None:
    for seed in range(3):
        learned, _ = learn(*case, 50, seed)
        assert learned.weight < 0.04
        assert abs(math.log(learned.learned)) < 0.16
        assert learned.proposed in (1.0, pytest.approx(learned.learned))


def test_a_memory_that_was_not_used_yet_is_no_failure() -> None:
    """Cutting observation short leaves the estimate where it was; counting unused memories as forgotten wouldn't."""
    policy = Policy()
    rate = rate_of(policy, "kinds.episodic")
    truth = learned_rates.model_at(policy, rate, 0.4)
    whole = simulate(truth, 2_000, 3, uses_per_day=0.1)
    cut = np.minimum(whole.until, whole.since + 30 * DAY_SECONDS)
    kept = whole.at < cut[whole.rows]
    short = Observed(whole.fresh, whole.since, cut, whole.rows[kept], whole.at[kept])
    fits = [fit_speed(lambda speed: learned_rates.model_at(policy, rate, speed), each) for each in (whole, short)]
    logs = [fit.log_speed for fit in fits]
    assert None not in logs
    assert logs == [pytest.approx(math.log(0.4), abs=0.25)] * 2


def test_uses_of_the_same_day_count_once_and_those_of_the_first_day_not() -> None:
    fresh = state.new(np.zeros(1))
    days = np.array([0.2, 0.9, 3.0, 3.1, 3.9, 4.2, 60.0]) * DAY_SECONDS
    observed = Observed(fresh, np.zeros(1), np.full(1, 50 * DAY_SECONDS), np.zeros(7, np.intp), days)
    fit = fit_speed(
        lambda speed: learned_rates.model_at(Policy(), rate_of(Policy(), "kinds.episodic"), speed), observed
    )
    assert (fit.memories, fit.uses) == (1, 2), "days 3 and 4.2"


def test_without_uses_nothing_is_learned() -> None:
    policy = Policy()
    rate = rate_of(policy, "kinds.episodic")
    none = Observed(state.new(np.zeros(3)), np.zeros(3), np.full(3, 9 * DAY_SECONDS), np.zeros(0, np.intp), np.zeros(0))
    fit = fit_speed(lambda speed: learned_rates.model_at(policy, rate, speed), none)
    assert fit == SpeedFit(None, None, 3, 0)
    learned = learned_rates.weigh(policy, rate, fit, rate)
    assert (learned.speed, learned.low, learned.weight, learned.learned, learned.proposed) == (None, None, 0, 1, 1)


def test_integrals_over_strength_are_right() -> None:
    """The exposure of an unused memory: one value per day of observation, summed finely, gives the same."""
    for profile, parameters, name in PROFILES.values():
        policy = policy_of(profile, parameters)
        fresh = state.new(np.zeros(1), salience=0.5)
        observed = Observed(fresh, np.zeros(1), np.full(1, 200 * DAY_SECONDS), np.zeros(0, np.intp), np.zeros(0))
        rounds = rate_fit._rounds(observed)
        _, exposures = rate_fit._explain(policy.model, observed, rounds)
        fine = (np.arange(19_900) + 0.5) / 100 + 1
        every = state.take(fresh, np.zeros(fine.size, np.intp))
        exact = (policy.model.strength(every, fine * DAY_SECONDS) + rate_fit.FLOOR).mean() * 199
        assert exposures[0] == pytest.approx(exact, rel=0.03), (profile, name)


def fitted(log_speed: float, error: float, count: int = 2_000) -> SpeedFit:
    return SpeedFit(log_speed, error, count, count)


def test_data_weigh_by_their_number_against_the_value_set_by_hand() -> None:
    policy = Policy()
    rate = rate_of(policy, "kinds.episodic")
    weights = [learned_rates.weigh(policy, rate, fitted(-2, 0.1, count), rate).weight for count in (0, 50, 150, 2_000)]
    assert weights == [0, pytest.approx(0.0357, abs=1e-4), 0.5, pytest.approx(0.9996, abs=1e-4)]
    by_hand = replace(rate, values={rate.name: 2.0})
    half = learned_rates.weigh(policy, rate, fitted(math.log(0.5), 0.1, 150), by_hand)
    assert half.learned == pytest.approx(1.0), "half-way between 2 and .5 in logarithms"
    mnemex = policy_of("mnemex", {})
    half_life = rate_of(mnemex, "half_life_days")
    slower = learned_rates.weigh(mnemex, half_life, fitted(math.log(0.5), 0.1), half_life)
    assert list(slower.half_lives) == pytest.approx([3, 6], rel=0.01)


@pytest.mark.parametrize(
    ("log_speed", "error", "proposed"),
    [(-1.0, 0.1, 1 / 1.5), (1.0, 0.1, 1.5), (-0.3, 0.05, math.exp(-0.2999)), (-0.3, 0.2, 1.0), (-0.05, 0.01, 1.0)],
)
def test_a_step_is_limited_and_only_worth_it_outside_the_interval(
    log_speed: float, error: float, proposed: float
) -> None:
    policy = Policy()
    rate = rate_of(policy, "kinds.episodic")
    assert learned_rates.weigh(policy, rate, fitted(log_speed, error), rate).proposed == pytest.approx(
        proposed, rel=1e-3
    )


def test_each_profile_has_its_own_rates() -> None:
    def names(profile: str, **parameters: Any) -> dict[str, tuple[str, ...]]:
        rates = learned_rates.list_rates(policy_of(profile, parameters))
        return {rate.name: tuple(KINDS[kind] for kind in rate.kinds) for rate in rates}

    every = tuple(KINDS)
    assert names("spec") == {f"kinds.{kind}": (kind,) for kind in KINDS}
    assert "kinds.system" not in names("spec", kinds={"system": 0}), "a kind that doesn't fade has no rate"
    assert names("mnemex") == {"half_life_days": every}
    assert names("mnemex", curve="two_component") == {"fast_lambda_per_second": every}
    assert names("cmm") == {"lambda_per_second": every}
    facts, episodes = ("semantic", "procedural", "system"), ("episodic", "emotional")
    assert names("memory_decay") == {"lambda_fact": facts, "lambda_episode": episodes}
    assert names("memory_decay", curve="power_law") == {"beta_fact": facts, "beta_episode": episodes}


def test_the_stored_result_knows_what_was_set_by_hand() -> None:
    rate = Rate("kinds.episodic", (0,), {"kinds.episodic": 1.0})
    once = NONE.add_applied([rate], {"kinds.episodic": 0.7})
    twice = once.add_applied([replace(rate, values={"kinds.episodic": 0.7})], {"kinds.episodic": 0.5})
    assert twice == StoredRates(None, {"kinds.episodic": 1.0}, {"kinds.episodic": 0.5})
    assert learned_rates.merge_paths({"law": "linear", "kinds": {"system": 0.1}}, twice.applied) == {
        "law": "linear",
        "kinds": {"system": 0.1, "episodic": 0.5},
    }
