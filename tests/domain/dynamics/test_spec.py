"""The profile `spec` against the numbers of seed 004 and a numerical integration of its definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from app.domain.dynamics.spec import LAWS, KindModifiers, Spec, SpecParameters
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new
from app.domain.ingest.memory import KINDS
from app.domain.strength.importance import Importance, ImportanceWeights
from tests.domain.dynamics.batches import START


def memory(salience: float = 0.5, kind: str = "episodic", uses: int = 0) -> State:
    state = new(np.array([START]), salience=salience, kind=KINDS.index(kind))
    return replace(state, access_count=np.array([float(uses)]))


def after(days: float) -> float:
    return START + days * DAY_SECONDS


def spec(**given: Any) -> Spec:
    return Spec(SpecParameters(**given))


def rate(days: float, uses: int, salience: float, kind: str, law: str) -> float:
    """Return the decay rate of seed 004 §2.1 and §2.2, written as in the seed."""
    recency = math.exp(-0.05 * days)
    frequency = min(math.log(1 + uses) / math.log(1 + 100), 1)
    importance = (0.25 * recency + 0.20 * frequency + 0.35 * salience) / (0.25 + 0.20 + 0.35)
    if law == "quadratic":
        decay = 0.1 * (1 - importance) ** 2
    elif law == "linear":
        decay = 0.1 * (1 - importance * 0.9)
    else:
        decay = 0.1 * (1 - importance) ** 2 * (1 - importance * 0.9)
    if uses == 0:
        decay *= 1.5
    elif days < 1:
        decay *= 0.5
    elif days < 7:
        decay *= 0.7
    return decay * {"episodic": 1.0, "semantic": 0.7, "procedural": 0.5, "emotional": 0.6, "system": 0.3}[kind]


def stepped(derivative: Callable[[float, float], float], strength: float, first: float, last: float) -> float:
    """Integrate by fourth-order Runge–Kutta, 400 steps between any two moments where the rate jumps."""
    stops = [first, *(jump for jump in (1.0, 7.0) if first < jump < last), last]
    for begin, end in pairwise(stops):
        step = (end - begin) / 400
        inside = (end - begin) * 1e-12  # at a jump, the rate is the one inside this interval
        for n in range(400):
            start, stop = begin + n * step + inside, begin + (n + 1) * step - inside
            middle = (start + stop) / 2
            k1 = derivative(start, strength)
            k2 = derivative(middle, strength + step / 2 * k1)
            k3 = derivative(middle, strength + step / 2 * k2)
            k4 = derivative(stop, strength + step * k3)
            strength += step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return strength


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("forgetting", ["exponential", "subtractive"])
@pytest.mark.parametrize(
    ("uses", "salience", "kind", "days"),
    [
        (0, 0.5, "episodic", (0.0, 30.0)),
        (0, 0.9, "semantic", (3.0, 60.0)),
        (3, 0.5, "episodic", (0.0, 0.9)),
        (1, 0.2, "emotional", (0.5, 12.0)),
        (10, 1.0, "procedural", (0.0, 90.0)),
        (500, 0.0, "system", (6.9, 400.0)),
    ],
)
def test_the_closed_form_is_the_rate_summed(
    law: str, forgetting: str, uses: int, salience: float, kind: str, days: tuple[float, float]
) -> None:
    """The integration shares nothing with the closed form except the seed."""
    first, last = days

    def derivative(days: float, strength: float) -> float:
        return -rate(days, uses, salience, kind, law) * (strength if forgetting == "exponential" else 1)

    dynamics = spec(law=law, forgetting=forgetting)
    state = dynamics.at_strength(memory(salience, kind, uses), after(first), 0.9)
    expected = max(stepped(derivative, 0.9, first, last), 0.0)
    assert dynamics.strength(state, after(last))[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("law", "salience", "strength"),
    [("quadratic", 0.5, 0.174160), ("linear", 0.5, 0.051893), ("product", 0.5, 0.309689), ("quadratic", 0.2, 0.077539)],
)
def test_thirty_days_without_a_use(law: str, salience: float, strength: float) -> None:
    """Seed 004 §2.1, §2.2: never accessed, episodic."""
    assert spec(law=law).strength(memory(salience), after(30))[0] == pytest.approx(strength, abs=1e-6)


def test_thirty_days_after_the_last_of_three_uses() -> None:
    """Seed 004 §2.2, access pattern."""
    assert Spec().strength(memory(uses=3), after(30))[0] == pytest.approx(0.423783, abs=1e-6)


def test_from_half_a_day_to_twelve_days_after_a_use() -> None:
    """Seed 004 §2.2, type modifier: semantic, n = 10, s = .9, S = .8 half a day after the use."""
    state = Spec().at_strength(memory(0.9, "semantic", 10), after(0.5), 0.8)
    assert Spec().strength(state, after(12))[0] == pytest.approx(0.766590, abs=1e-6)


@pytest.mark.parametrize(("threshold", "days"), [(0.30, 22.5), (0.15, 31.9), (0.05, 45.5)])
def test_an_unused_memory_reaches_each_threshold(threshold: float, days: float) -> None:
    """Seed 004 §2.4."""
    due = Spec().due_at(memory(), threshold)[0]
    assert (due - START) / DAY_SECONDS == pytest.approx(days, abs=0.05)
    assert Spec().strength(memory(), due)[0] < threshold


def test_subtractive_forgetting_ends_at_nothing() -> None:
    dynamics = spec(forgetting="subtractive")
    rates = [rate(day, 0, 0.5, "episodic", "quadratic") for day in np.arange(0.0005, 30, 0.001)]
    assert dynamics.strength(memory(), after(30))[0] == pytest.approx(max(1 - sum(rates) * 0.001, 0), abs=1e-6)
    assert dynamics.strength(memory(), after(365))[0] == 0


def test_kinds_fade_in_the_order_of_the_seed() -> None:
    """Seed 004 §2.2: episodic, semantic, emotional, procedural, system, from fast to slow."""
    order = ("episodic", "semantic", "emotional", "procedural", "system")
    strengths = [Spec().strength(memory(kind=kind), after(30))[0] for kind in order]
    assert strengths == sorted(strengths)
    assert Spec().parameters.kinds.in_order() == tuple(getattr(KindModifiers(), kind) for kind in KINDS)


def test_a_kind_that_never_fades_is_never_due() -> None:
    dynamics = spec(kinds=KindModifiers(system=0))
    assert dynamics.due_at(memory(kind="system"), 0.3)[0] == math.inf
    assert dynamics.strength(memory(kind="system"), after(36_500))[0] == 1


def test_what_is_as_important_as_can_be_is_never_due_by_the_square() -> None:
    important = Importance(ImportanceWeights(0, 0.5, 0.5, 0))
    state = memory(salience=1, uses=100)
    assert spec(importance=important).due_at(state, 0.3)[0] == math.inf
    assert math.isfinite(spec(importance=important, law="linear").due_at(state, 0.3)[0])


def test_a_use_gives_back_a_share_of_what_is_missing() -> None:
    """Seed 004 §2.3: S + 0.15·(1 - S), τ = 0, n + 1."""
    now = after(30)
    before = Spec().strength(memory(), now)[0]
    used = Spec().reinforce(memory(), Event(at=now, now=now))
    assert Spec().strength(used, now)[0] == pytest.approx(before + 0.15 * (1 - before))
    assert (used.access_count[0], used.accessed_at[0], used.anchored_at[0]) == (1, now, now)


def test_uses_in_the_order_of_time_add_up() -> None:
    one = Spec().reinforce(memory(), Event(at=after(1), now=after(9)))
    two = Spec().reinforce(one, Event(at=after(4), now=after(9)))
    assert two.access_count[0] == 2
    assert two.accessed_at[0] == after(4)
    by_hand = Spec().strength(one, after(4))[0]
    assert Spec().strength(two, after(4))[0] == pytest.approx(by_hand + 0.15 * (1 - by_hand))


def test_a_use_newer_than_the_last_but_older_than_the_anchor_counts_at_the_anchor() -> None:
    state = Spec().advance(memory(), after(10))
    used = Spec().reinforce(state, Event(at=after(8), now=after(11)))
    assert used.accessed_at[0] == used.anchored_at[0] == after(10)


def test_a_use_in_the_future_counts_as_now() -> None:
    used = Spec().reinforce(memory(), Event(at=after(50), now=after(2)))
    assert used.accessed_at[0] == after(2)


def test_a_passed_test_raises_strength_and_is_no_use() -> None:
    now = after(20)
    before = Spec().strength(memory(), now)[0]
    tested = Spec().reinforce(memory(), Event(at=now, now=now, source="test"))
    assert Spec().strength(tested, now)[0] == pytest.approx(before + 0.15 * (1 - before))
    assert (tested.access_count[0], tested.accessed_at[0]) == (0, START)


def test_a_linked_memory_s_use_changes_nothing() -> None:
    state = memory()
    assert Spec().reinforce(state, Event(at=after(1), now=after(1), source="associate")) is state


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_per_day": -0.1},
        {"base_per_day": math.nan},
        {"base_per_day": 1e-300},
        {"law": "cubic"},
        {"forgetting": "never"},
        {"reinforcement": 1.5},
        {"accessed_within_week": 1.2},
        {"accessed_within_day": 0.9, "accessed_within_week": 0.5},
        {"kinds": {"episodic": -1}},
        {"importance": {"recency_lambda_per_day": 0}},
        {"importance": {"weights": {"recency": 0, "frequency": 0, "salience": 0}}},
        {"no_such": 1},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        SpecParameters(**wrong)
