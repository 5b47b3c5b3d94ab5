"""States for testing the models of forgetting: any that a row may hold, and many random ones."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from app.domain.dynamics.cmm import Cmm, CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecay, MemoryDecayParameters
from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.spec import Spec, SpecParameters
from app.domain.dynamics.state import DAY_SECONDS, Row, State, new
from app.domain.strength.importance import Importance, ImportanceWeights
from tests.variants import variants

START = 1_760_000_000.0
YEAR_SECONDS = 365 * DAY_SECONDS

_SPEC: dict[str, dict[str, Any]] = {
    "spec": {},
    "spec linear": {"law": "linear"},
    "spec product": {"law": "product"},
    "spec subtractive": {"forgetting": "subtractive"},
    "spec subtractive linear": {"forgetting": "subtractive", "law": "linear"},
    "spec subtractive product": {"forgetting": "subtractive", "law": "product"},
    "spec neutral": {"importance": Importance(background_relevance="neutral")},
    "spec hasty": {"base_per_day": 100.0, "importance": Importance(recency_lambda_per_day=5)},
    "spec without recency": {"importance": Importance(ImportanceWeights(0, 0.5, 0.5, 0))},
    "spec all recency": {"law": "product", "importance": Importance(ImportanceWeights(1, 0, 0, 0), 0.001)},
}
_MNEMEX: dict[str, dict[str, Any]] = {
    "mnemex": {},
    "mnemex exponential": {"curve": "exponential"},
    "mnemex two-component": {"curve": "two_component"},
    "mnemex flat": {"alpha": 0.05},
    "mnemex hasty": {"curve": "exponential", "half_life_days": 0.001, "beta": 1},
}
_MEMORY_DECAY: dict[str, dict[str, Any]] = {
    "memory_decay": {},
    "memory_decay power law": {"curve": "power_law"},
    "memory_decay soft floor": {"curve": "soft_floor"},
    "memory_decay by the week": {"tick_seconds": 7 * DAY_SECONDS, "stability_decay": 0.5},
}
CLOSED: dict[str, Dynamics] = {
    **{name: Spec(SpecParameters(**given)) for name, given in _SPEC.items()},
    **{name: Mnemex(MnemexParameters(**given)) for name, given in _MNEMEX.items()},
    "cmm": Cmm(),
    "cmm without grace": Cmm(CmmParameters(grace_days=0, lock_accesses_per_week=20)),
    "cmm hasty": Cmm(CmmParameters(lambda_per_second=1e-2, grace_days=0, lock_accesses_per_week=1e6)),
}
"""Models whose strength is a closed form, by a name for the test's output."""
TICKING: dict[str, Dynamics] = {
    name: MemoryDecay(MemoryDecayParameters(**given)) for name, given in _MEMORY_DECAY.items()
}
"""Models that advance from tick to tick."""
ALL = CLOSED | TICKING
USUAL = frozenset(
    {
        "spec",
        "spec linear",
        "spec product",
        "spec subtractive",
        "mnemex",
        "mnemex exponential",
        "mnemex two-component",
        "cmm",
        "memory_decay",
        "memory_decay power law",
        "memory_decay soft floor",
    }
)
"""Every curve and law once; `make test-long` tests the models with other parameters too."""


def each_model(models: Mapping[str, Dynamics] = ALL, usual: AbstractSet[str] = USUAL) -> pytest.MarkDecorator:
    """Run a test with each of these models as `dynamics`."""
    return pytest.mark.parametrize("dynamics", variants(models, usual & models.keys()))


_EDGES = [0.0, 1.0, DAY_SECONDS, 7 * DAY_SECONDS, 14 * DAY_SECONDS, YEAR_SECONDS]
GAPS = st.sampled_from(_EDGES) | st.floats(0, 3 * YEAR_SECONDS)
"""Seconds between two moments, many of them where a formula changes."""
SHARES = st.sampled_from([0.0, 1.0, 0.5]) | st.floats(0, 1, width=32)
_ROWS = st.tuples(
    st.integers(0, 4),
    SHARES,
    st.sampled_from([1.0, 0.0, 2.0]) | st.floats(0, 2, width=32),
    st.sampled_from([1.0, 0.5, 2.0]),
    st.sampled_from([0, 1, 2, 100, 2**31 - 1]) | st.integers(0, 30),
    GAPS,
    GAPS,
    SHARES,
    SHARES,
    SHARES,
)
BATCHES = st.lists(_ROWS, min_size=1, max_size=3)
"""Rows for `batch`."""


def batch(dynamics: Dynamics, rows: list[tuple[float, ...]]) -> State:
    """Return states anchored at `START` or later with the given strength; unused ones date from their creation."""
    kind, salience, multiplier, pace, count, used, waited, strength, retrieval, stability = (
        np.array(column, np.float64) for column in zip(*rows, strict=True)
    )
    used = np.where(count == 0, 0, used)
    state = new(np.full(len(rows), START), salience=salience, kind=kind.astype(int), multiplier=multiplier, pace=pace)
    state = replace(state, access_count=count, accessed_at=START + used, anchored_at=START + used)
    state = replace(state, retrieval=retrieval, stability=stability)
    state = dynamics.advance(state, START)
    return dynamics.at_strength(replace(state, anchored_at=state.anchored_at + waited), START, strength)


def many(dynamics: Dynamics, rows: int, seed: int = 7) -> State:
    """Return random states, from new to long unused, some of them later than `START`."""
    random = np.random.default_rng(seed)

    def gaps() -> Floats:
        spread = np.exp(random.uniform(-3, np.log(3 * YEAR_SECONDS), rows))
        gaps: Floats = np.where(random.random(rows) < 0.1, random.choice(_EDGES, rows), spread)
        return gaps.round(6)

    count = np.floor(np.exp(random.uniform(0, 8, rows)) - 1)
    created = np.round(START + random.normal(0, YEAR_SECONDS, rows), 6)
    accessed = np.round(created + np.where(count == 0, 0, gaps()), 6)
    state = new(
        created,
        salience=_real(random.choice([0, 1e-44, 1, *random.random(20)], rows)),
        kind=random.integers(0, 5, rows),
        multiplier=_real(random.choice([1, 0, 2, 1e-44, *random.uniform(0, 2, 20)], rows)),
        pace=random.choice([1, 0.5, 2], rows),
    )
    state = replace(
        state,
        access_count=count,
        accessed_at=accessed,
        anchored_at=np.round(accessed + np.where(random.random(rows) < 0.5, 0, gaps()), 6),
        retrieval=random.random(rows),
        stability=random.random(rows) * (random.random(rows) < 0.5),
    )
    strength = random.choice([1, 0, 1e-300, *random.random(50)], rows)
    return dynamics.at_strength(state, -np.inf, strength)


def assert_same(state: State, other: State) -> None:
    for field in fields(Row):
        np.testing.assert_array_equal(getattr(state, field.name), getattr(other, field.name), field.name)


def _real(values: Any) -> Floats:
    """Round to the precision of a column of type real."""
    return np.asarray(values, np.float32).astype(np.float64)
