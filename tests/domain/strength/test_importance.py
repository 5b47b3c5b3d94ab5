"""Importance against seed 004 §1, with a context and without one."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.spec import Spec
from app.domain.dynamics.state import DAY_SECONDS, State, new
from app.domain.strength.importance import (
    PRESETS,
    Importance,
    ImportanceWeights,
    closeness,
    due_at,
    importance,
    in_context,
    relevance,
)
from tests.domain.dynamics.batches import BATCHES, GAPS, START, batch, many
from tests.examples import draw

DAY = START + DAY_SECONDS


def memory(salience: float = 0.5, uses: int = 0) -> State:
    return replace(new(np.array([START]), salience=salience), access_count=np.array([float(uses)]))


def test_the_factors_with_a_context() -> None:
    """Seed 004 §1.5: 14 days, 9 uses, salience .6, cosine .5."""
    found = importance(Importance(), memory(0.6, 9), START + 14 * DAY_SECONDS, np.array([0.75]))
    by_hand = 0.25 * math.exp(-0.05 * 14) + 0.20 * math.log(10) / math.log(101) + 0.35 * 0.6 + 0.20 * 0.75
    assert found[0] == pytest.approx(by_hand)
    assert by_hand == pytest.approx(0.583931, abs=1e-6)


def test_recency_halves_in_about_fourteen_days() -> None:
    """Seed 004 §1.1."""
    only = Importance(ImportanceWeights(1, 0, 0, 0))
    assert importance(only, memory(), START + 14 * DAY_SECONDS)[0] == pytest.approx(0.5, abs=0.004)


def test_frequency_is_a_logarithm_that_ends_at_a_hundred_uses() -> None:
    """Seed 004 §1.2."""
    only = Importance(ImportanceWeights(0, 1, 0, 0))
    uses = [importance(only, memory(uses=count), DAY)[0] for count in (0, 9, 100, 5_000)]
    assert uses == pytest.approx([0, math.log(10) / math.log(101), 1, 1])


def test_relevance_is_the_cosine_brought_to_0_and_1() -> None:
    """Seed 004 §1.4."""
    vectors = np.array([[2.0, 0], [0, 3], [-1, 0], [1, 1], [0, 0]], np.float32)
    found = relevance(vectors, np.array([0.5, 0], np.float32))
    np.testing.assert_allclose(found, [1, 0.5, 0, 0.5 + math.sqrt(0.5) / 2, 0.5], rtol=1e-6)


def test_without_a_context_relevance_is_left_out_or_neutral() -> None:
    state = memory(0.6, 9)
    known = (0.25 * math.exp(-0.05) + 0.20 * math.log(10) / math.log(101) + 0.35 * 0.6) / 0.80
    assert importance(Importance(), state, DAY)[0] == pytest.approx(known)
    neutral = importance(Importance(background_relevance="neutral"), state, DAY)
    assert neutral[0] == pytest.approx(importance(Importance(), state, DAY, np.array([0.5]))[0])


def test_presets_weigh_what_their_name_says() -> None:
    """Seed 004 §1.5, adaptive weighting."""
    default = PRESETS["default"]
    assert PRESETS["time_sensitive"].recency > default.recency
    assert PRESETS["content_heavy"].salience > default.salience
    assert PRESETS["context_aware"].relevance > default.relevance
    for weights in PRESETS.values():
        assert weights.recency + weights.frequency + weights.salience + weights.relevance == pytest.approx(1)


def test_weights_are_divided_by_their_sum() -> None:
    doubled = Importance(ImportanceWeights(0.5, 0.4, 0.7, 0.4))
    near = np.array([0.9])
    assert importance(doubled, memory(), DAY, near)[0] == pytest.approx(
        importance(Importance(), memory(), DAY, near)[0]
    )


@draw(17)
@given(rows=BATCHES, gap=GAPS, near=st.none() | st.floats(0, 1), preset=st.sampled_from(sorted(PRESETS)))
def test_importance_lies_between_0_and_1(
    rows: list[tuple[float, ...]], gap: float, near: float | None, preset: str
) -> None:
    state = batch(Spec(), rows)
    context = None if near is None else np.full(len(rows), near)
    for moment in (START - gap, START + gap):
        found = importance(Importance(PRESETS[preset]), state, moment, context)
        assert ((found >= 0) & (found <= 1 + 1e-12)).all()


@draw(17)
@given(rows=BATCHES, threshold=st.sampled_from([0.8, 0.7, 0.2]))
def test_due_is_when_importance_falls_below(rows: list[tuple[float, ...]], threshold: float) -> None:
    state = batch(Spec(), rows)
    due = due_at(Importance(), state, threshold)
    assert (due >= state.anchored_at).all()
    before = np.where(np.isfinite(due), due - 0.001002, START + 1e10)
    reached = before > state.anchored_at
    assert (importance(Importance(), state, before)[reached] >= threshold * (1 - 1e-13)).all()
    at_due = importance(Importance(), state, np.where(np.isfinite(due), due + 1e-4, START))
    assert (at_due[np.isfinite(due)] < threshold).all()


def test_a_memory_takes_less_than_a_microsecond() -> None:
    state = many(Spec(), 100_000)
    spent = []
    for _ in range(5):
        begin = time.process_time()
        importance(Importance(), state, DAY, np.full(100_000, 0.5))
        spent.append(time.process_time() - begin)
    assert min(spent) / 100_000 < 1e-6


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_expected_accesses": 0},
        {"recency_lambda_per_day": math.nan},
        {"weights": {"recency": -1}},
        {"background_relevance": ""},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Importance(**wrong)


@pytest.mark.parametrize("background_relevance", ["renormalise", "neutral"])
@pytest.mark.parametrize("preset", PRESETS)
def test_a_context_is_added_to_importance_without_one(preset: str, background_relevance: str) -> None:
    """§1.5: the three other factors are the same, so importance without a context is enough."""
    parameters = Importance(PRESETS[preset], background_relevance=background_relevance)  # type: ignore[arg-type]
    random = np.random.default_rng(5)
    state = new(START + random.uniform(0, 300, 50) * DAY_SECONDS, salience=random.random(50))
    state = replace(state, access_count=random.integers(0, 200, 50).astype(np.float64))
    now, near = START + 320 * DAY_SECONDS, random.random(50)
    found = in_context(parameters, importance(parameters, state, now), near)
    np.testing.assert_allclose(found, importance(parameters, state, now, near), rtol=0, atol=1e-12)


def test_a_memory_without_a_vector_is_neither_near_nor_far() -> None:
    """§1.4: cosines from -1 to 1, normalised to 0 to 1."""
    assert closeness(np.array([-1, 0, 1, np.nan, 1.0000001])).tolist() == [0, 0.5, 1, 0.5, 1]
