"""Profiles by name, and moving memories from one to another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.profiles import PROFILES, profile, rebase
from app.domain.dynamics.spec import Spec, SpecParameters
from app.domain.dynamics.state import DAY_SECONDS, Event, new
from tests.domain.dynamics.batches import ALL, START, USUAL, YEAR_SECONDS, assert_same, many
from tests.variants import variants


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_had_by_its_name(name: str) -> None:
    assert profile(name).name == name


def test_parameters_are_given_as_in_json() -> None:
    made = profile("spec", {"law": "product", "importance": {"weights": {"recency": 0.4}}})
    assert made.parameters.law == "product"
    assert made.parameters.importance.weights.recency == 0.4
    assert made.parameters.base_per_day == 0.1


def test_an_unknown_profile_or_parameter_is_named() -> None:
    with pytest.raises(ValueError, match=r"'linear'.*spec, mnemex, cmm, memory_decay"):
        profile("linear")
    with pytest.raises(ValueError, match="half_life"):
        profile("mnemex", {"half_life": 3})


@pytest.mark.parametrize("name", PROFILES)
def test_use_of_a_linked_memory_changes_nothing_where_nothing_spreads(name: str) -> None:
    made = profile(name)
    state = many(made, 300)
    now = START + YEAR_SECONDS
    is_same = made.reinforce(state, Event(at=now, now=now, source="associate")) is state
    assert is_same != made.spreads


@pytest.mark.parametrize("target", variants([*ALL], USUAL))
@pytest.mark.parametrize("source", ["spec", "spec subtractive", "mnemex", "cmm", "memory_decay soft floor"])
def test_a_change_of_profile_keeps_the_strength_of_that_moment(source: str, target: str) -> None:
    state = replace(many(ALL[source], 300), multiplier=np.ones(300))
    now = START + YEAR_SECONDS
    before = ALL[source].strength(state, now)
    moved = rebase(state, now, ALL[source], ALL[target])
    kept = np.maximum(state.anchored_at, now)
    np.testing.assert_allclose(ALL[target].strength(moved, kept), before, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("source", variants([*ALL], USUAL))
def test_a_rebase_without_a_change_changes_no_future(source: str) -> None:
    state, dynamics = many(ALL[source], 300), ALL[source]
    moved = rebase(state, START, dynamics, dynamics)
    for later in (START, START + 40 * DAY_SECONDS, START + YEAR_SECONDS):
        expected = dynamics.strength(state, later)
        np.testing.assert_allclose(dynamics.strength(moved, later), expected, rtol=1e-7, atol=1e-9)


def test_a_late_salience_doesn_t_rewrite_the_past() -> None:
    state, now = new(np.array([START]), salience=0.2), START + 10 * DAY_SECONDS
    scored = rebase(state, now, Spec(), Spec(), inputs=replace(state, salience=np.array([0.9])))
    assert Spec().strength(scored, now)[0] == pytest.approx(Spec().strength(state, now)[0])
    assert Spec().strength(scored, now + 86_400)[0] > Spec().strength(state, now + 86_400)[0]


def test_a_new_policy_starts_from_the_strength_that_the_old_one_left() -> None:
    state, now = new(np.array([START]), salience=0.5), START + 10 * DAY_SECONDS
    faster = Spec(SpecParameters(base_per_day=0.2))
    moved = rebase(state, now, Spec(), faster)
    left = Spec().strength(state, now)[0]
    assert faster.strength(moved, now)[0] == pytest.approx(left)
    later = faster.strength(moved, now + 5 * DAY_SECONDS)[0]
    twice = Spec().strength(state, now + 5 * DAY_SECONDS)[0] / left
    assert later == pytest.approx(left * twice**2)


def test_a_score_above_one_survives_a_new_policy_of_its_own_model() -> None:
    state = replace(new(np.array([START])), access_count=np.array([30.0]))
    slower = Mnemex(MnemexParameters(half_life_days=30))
    now = START + DAY_SECONDS
    moved = rebase(state, now, Mnemex(), slower)
    assert slower.score(moved, now)[0] == pytest.approx(Mnemex().score(state, now)[0])
    assert slower.score(moved, now)[0] > 5


def test_the_same_rebase_again_changes_nothing() -> None:
    state = many(Spec(), 300)
    faster = Spec(SpecParameters(base_per_day=0.2))
    once = rebase(state, START + YEAR_SECONDS, Spec(), faster)
    again = rebase(once, START + YEAR_SECONDS, faster, faster)
    np.testing.assert_allclose(again.level, once.level, rtol=1e-9, atol=1e-9)
    assert_same(replace(again, level=once.level), once)
