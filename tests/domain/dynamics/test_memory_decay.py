"""The profile `memory_decay` against seed 003, computed tick by tick in plain Python."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from app.domain.dynamics.memory_decay import (
    CATEGORIES,
    LOOK_AHEAD_TICKS,
    PRESETS,
    Consolidation,
    MemoryDecay,
    MemoryDecayParameters,
    relevance,
)
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new
from app.domain.ingest.memory import KINDS
from tests.domain.dynamics.batches import START

CURVES = ["exponential", "power_law", "soft_floor"]


def model(curve: str = "exponential", **given: Any) -> MemoryDecay:
    return MemoryDecay(MemoryDecayParameters(curve=curve, **given))  # type: ignore[arg-type]  # one of CURVES


def memory(impact: float = 0.5, kind: str = "semantic", stability: float = 0, retrieval: float = 1) -> State:
    state = new(np.array([START]), salience=impact, kind=KINDS.index(kind))
    return replace(state, stability=np.array([float(stability)]), retrieval=np.array([float(retrieval)]))


def after(days: float) -> float:
    return START + days * DAY_SECONDS


def ticked(amount: float, impact: float, stability: float, fact: bool, curve: str, ticks: int) -> float:
    """Apply the decay functions of seed 003, one tick after another."""
    for _ in range(ticks):
        slowed = (1 + 0.5 * impact) * (1 + 0.8 * stability)
        rate, beta = (0.02, 0.08) if fact else (0.035, 0.12)
        if curve == "exponential":
            amount *= math.exp(-rate / slowed)
        elif curve == "power_law":
            amount /= 1 + beta / slowed
        else:
            floor = min(0.05 + (0.35 - 0.05) * impact**2, amount)
            gate = 1 / (1 + math.exp(-(amount - 0.4) / 0.08))
            share = min(max(1 - 0.6 * impact * gate, 0.1), 1)
            left = math.exp(-rate * share / (math.exp(2 * impact) * (1 + 0.8 * stability)))
            amount = min(max(floor + (amount - floor) * left, floor), amount)
        stability = min(stability * (1 - 0.01), 1)
    return amount


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(
    ("impact", "stability", "kind"), [(0, 0, "episodic"), (0.9, 0.2, "semantic"), (1, 1, "system")]
)
@pytest.mark.parametrize("days", [0, 0.99, 1, 30.5, 365])
def test_both_numbers_fade_as_the_seed_says(
    curve: str, impact: float, stability: float, kind: str, days: float
) -> None:
    """Seed 003, decay functions."""
    dynamics, state = model(curve), memory(impact, kind, stability, retrieval=0.6)
    now, fact = after(days), kind != "episodic"
    storage = ticked(1, impact, stability, fact, curve, int(days))
    retrieval = ticked(0.6, impact, stability, fact, curve, int(days))
    assert dynamics.strength(state, now)[0] == pytest.approx(storage, rel=1e-10)
    assert dynamics.retrieval(state, now)[0] == pytest.approx(retrieval, rel=1e-10)
    assert dynamics.advance(state, now).stability[0] == pytest.approx(stability * 0.99 ** int(days))


def test_worked_values() -> None:
    """Seed 003, decay parameters: 30 ticks; impact .9 as a fact, .5 as an episode."""
    assert model().strength(memory(0.9), after(30))[0] == pytest.approx(math.exp(-30 * 0.02 / 1.45))
    assert model().strength(memory(0.5, "episodic"), after(30))[0] == pytest.approx(math.exp(-30 * 0.035 / 1.25))
    assert model("power_law").strength(memory(0.9), after(30))[0] == pytest.approx((1 + 0.08 / 1.45) ** -30)


def test_high_impact_decays_towards_a_floor_instead_of_vanishing() -> None:
    """Seed 003, soft-floor decay."""
    dynamics = model("soft_floor")
    assert dynamics.strength(memory(1), after(20_000))[0] == pytest.approx(0.35, abs=1e-3)
    assert dynamics.strength(memory(0, "episodic"), after(3_650))[0] == pytest.approx(0.05, abs=1e-6)
    assert dynamics.due_at(memory(1), 0.3)[0] == math.inf


@pytest.mark.parametrize("curve", CURVES)
def test_the_anchor_stays_on_ticks_so_that_no_part_of_one_is_lost(curve: str) -> None:
    dynamics, state = model(curve), memory()
    for days in (0.7, 1.4, 2.1, 2.8):
        state = dynamics.advance(state, after(days))
    assert state.anchored_at[0] == after(2)
    used = dynamics.reinforce(state, Event(at=after(3.5), now=after(3.5)))
    assert (used.anchored_at[0], used.accessed_at[0]) == (after(3), after(3.5))


def test_a_tick_of_an_hour_is_the_seed_s_server() -> None:
    """Seed 003, auto-tick: a week is 168 ticks."""
    server = MemoryDecay(PRESETS["server"])
    assert server.strength(memory(0.5, "episodic"), after(7))[0] == pytest.approx(math.exp(-168 * 0.035 / 1.25))
    assert server.due_at(memory(0.5, "episodic"), 0.05)[0] < after(7)


@pytest.mark.parametrize("curve", CURVES)
def test_due_is_the_tick_that_crosses(curve: str) -> None:
    state = memory(0.3, "episodic", stability=0.7)
    due = model(curve).due_at(state, 0.3)[0]
    ticks = round((due - START) / DAY_SECONDS)
    assert due == pytest.approx(after(ticks), abs=0.0011)
    assert ticked(1, 0.3, 0.7, False, curve, ticks) < 0.3 <= ticked(1, 0.3, 0.7, False, curve, ticks - 1)


def test_due_looks_so_far_and_no_further() -> None:
    slow = model(lambda_fact=1e-6)
    assert slow.due_at(memory(), 0.3)[0] == pytest.approx(after(LOOK_AHEAD_TICKS), abs=0.0011)


def used(dynamics: MemoryDecay, state: State, **given: Any) -> tuple[float, float, float]:
    """Return storage, retrieval and stability after an immediate use."""
    result = dynamics.reinforce(state, Event(at=START, now=START, **given))
    return float(np.exp(result.level[0])), float(result.retrieval[0]), float(result.stability[0])


@pytest.mark.parametrize(
    ("mode", "given", "storage", "retrieval", "stability"),
    [
        ("activation_and_stability", {}, 0.6, 0.8, 0.2),
        ("retrieval_only", {}, 0.5, 0.8, 0.0),
        ("stability_only_direct", {}, 0.5, 0.7, 0.2),
        ("stability_only_direct", {"source": "associate"}, 0.5, 0.7, 0.0),
        ("retrieval_with_storage_fraction", {}, 0.525, 0.8, 0.2),
        ("retrieval_with_storage_fraction", {"source": "associate"}, 0.5, 0.7, 0.05),
        ("retrieval_rank_scaled_fraction", {"place": 0}, 0.525, 0.8, 0.2),
        ("retrieval_rank_scaled_fraction", {"place": 3}, 0.50625, 0.725, 0.2),
        ("retrieval_capped_fraction", {}, 0.525, 0.8, 0.2),
        ("retrieval_margin_bm25_fraction", {"margin": 0.3, "lexical": True}, 0.525, 0.8, 0.2),
        ("retrieval_margin_bm25_fraction", {"margin": 0.3, "lexical": False}, 0.5, 0.7, 0.2),
        ("retrieval_margin_bm25_fraction", {"margin": 0.1, "lexical": True}, 0.5, 0.7, 0.2),
    ],
)  # fmt: skip
def test_modes_of_consolidation(
    mode: str, given: dict[str, Any], *, storage: float, retrieval: float, stability: float
) -> None:
    """Seed 003, retrieval consolidation, and reinforcement gains."""
    dynamics = model(consolidation=mode)
    state = replace(dynamics.at_strength(memory(), START, 0.5), retrieval=np.array([0.7]))
    assert used(dynamics, state, **given) == pytest.approx((storage, retrieval, stability))


@pytest.mark.parametrize("mode", get_args(Consolidation))
@pytest.mark.parametrize("gain", [0, 0.05])
def test_it_spreads_where_links_bring_a_gain(mode: str, gain: float) -> None:
    """Seed 003, reinforcement_gain_assoc: 0.05 by default."""
    dynamics = model(consolidation=mode, gain_associate=gain)
    stability = used(dynamics, memory(), source="associate")[2]
    assert dynamics.spreads == (stability > 0)
    assert stability in {0, gain}


def test_no_boost_for_what_is_easily_found_already() -> None:
    """Seed 003, retrieval_capped_fraction: a memory above the ceiling keeps what it has, storage included."""
    dynamics = model(consolidation="retrieval_capped_fraction")
    state = replace(dynamics.at_strength(memory(), START, 0.5), retrieval=np.array([0.86]))
    assert used(dynamics, state)[:2] == pytest.approx((0.5, 0.86))


@pytest.mark.parametrize("ceiling", [0.3, 0.85, 1.0])
def test_a_capped_boost_never_passes_its_ceiling(ceiling: float) -> None:
    """Seed 003, retrieval_capped_fraction: "boost capped at a ceiling value", of which storage gets a quarter."""
    dynamics = model(consolidation="retrieval_capped_fraction", boost_below=ceiling)
    for retrieval in np.linspace(0.05, ceiling, 12):
        state = replace(dynamics.at_strength(memory(), START, 0.2), retrieval=np.array([retrieval]))
        boost = min(ceiling - retrieval, 0.1)
        storage, raised, _ = used(dynamics, state)
        assert raised == pytest.approx(retrieval + boost)
        assert raised <= ceiling + 1e-12
        assert storage == pytest.approx(0.2 + boost / 4)


def test_stability_saturates_at_its_cap() -> None:
    """Seed 003, stability: gain · (1 - current/cap)."""
    assert used(model(), memory(stability=0.5))[2] == pytest.approx(0.6)
    state = memory()
    for _ in range(200):
        state = model(stability_cap=0.4).reinforce(state, Event(at=START, now=START))
    assert state.stability[0] == pytest.approx(0.4)
    assert state.access_count[0] == 200


def test_a_restore_lifts_both_numbers() -> None:
    now = after(90)
    lifted = model().at_strength(memory(0, "episodic"), now, 0.45)
    assert model().strength(lifted, now)[0] == pytest.approx(0.45)
    assert model().retrieval(lifted, now)[0] == pytest.approx(0.45)


def test_search_drops_what_isn_t_stored_and_ranks_by_retrieval() -> None:
    """Seed 003, hybrid search: similarity · A_r^w above the storage threshold."""
    found = relevance(MemoryDecayParameters(), np.array([0.8, 0.8]), np.array([0.05, 0.049]), np.array([0.25, 1.0]))
    np.testing.assert_allclose(found, [0.4, 0])


def test_categories_suggest_kind_and_importance() -> None:
    """Seed 003, categories vs types: within the ranges of its table."""
    ranges = {"preference": (0.8, 1.0), "decision": (0.8, 0.9), "fact": (0.7, 0.9), "episode": (0.3, 0.6)}
    for category, (low, high) in ranges.items():
        kind, importance = CATEGORIES[category]
        assert low <= importance <= high
        assert (kind == "episodic") == (category == "episode")


@pytest.mark.parametrize(
    "wrong",
    [
        {"tick_seconds": 0},
        {"lambda_fact": 0},
        {"stability_decay": 1},
        {"consolidation": "none"},
        {"soft_floor": {"lowest": 0.5, "highest": 0.2}},
        {"soft_floor": {"gate_width": 0}},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MemoryDecayParameters(**wrong)
