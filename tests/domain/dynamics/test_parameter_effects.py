"""No parameter of a profile is without effect: each one, changed alone, changes a number that the service uses.

A new parameter without an effect fails here; if its effect is outside the model, add that to `behaviour`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from app.domain.dynamics import mnemex
from app.domain.dynamics.cmm import Cmm, priming
from app.domain.dynamics.memory_decay import MemoryDecay
from app.domain.dynamics.mnemex import Mnemex, MnemexParameters
from app.domain.dynamics.profiles import PROFILES, profile
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new
from app.domain.ingest.memory import KINDS
from app.domain.policy.policy import Policy
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.parameters import Ranking
from app.domain.search.scoring import blend_scores
from app.domain.search.signals import ScoreParts
from app.domain.search.spreading_activation import spreading_settings
from tests.alternatives import leaves, merged, nested, others
from tests.domain.dynamics.batches import START

BUILT_IN = ["spec", "mnemex", "cmm", "memory_decay"]
BASES: dict[str, list[dict[str, Any]]] = {
    "spec": [{}, {"importance": {"background_relevance": "neutral"}}],
    "mnemex": [{}, {"curve": "two_component"}],
    "cmm": [{}],
    "memory_decay": [
        {},
        {"curve": "power_law"},
        {"curve": "soft_floor"},
        {"consolidation": "retrieval_capped_fraction"},
        {"consolidation": "retrieval_margin_bm25_fraction"},
    ],
}
"""Parameters that switch on those that apply to one curve or mode alone."""
ROWS = 40
AT = datetime(2026, 3, 1, tzinfo=UTC)
CANDIDATES = [
    Candidate(UUID(int=row), "", None, None, None, None, None, [], None, AT, "active", 1 - row / ROWS, 1.0, row / ROWS)
    for row in range(1, ROWS)
]


def memories() -> State:
    """Return memories of every kind, new and old, used and unused, with any salience and multiplier."""
    random = np.random.default_rng(3)
    state = new(
        np.full(ROWS, START),
        salience=random.random(ROWS),
        kind=np.arange(ROWS) % len(KINDS),
        multiplier=random.uniform(0, 2, ROWS),
    )
    used = random.integers(0, 6, ROWS).astype(np.float64)
    accessed_at = START + np.where(used > 0, random.uniform(0, 20, ROWS) * DAY_SECONDS, 0)
    state = replace(state, access_count=used, accessed_at=accessed_at, anchored_at=accessed_at)
    return replace(
        state,
        stability=random.random(ROWS) * 0.5,
        retrieval=random.random(ROWS),
        level=np.log(random.uniform(0.2, 1, ROWS)),
    )


def behaviour(dynamics: Dynamics) -> Iterator[Any]:
    """Yield the numbers that follow from a model: its curve, its uses, its thresholds and its searches."""
    state, own = memories(), dynamics.parameters
    for days in (0.2, 1.5, 6, 15, 25, 60, 200):
        now = START + days * DAY_SECONDS
        yield dynamics.score(state, now)
        for event in (
            Event(now, now, boost=True),
            Event(now, now, place=2.0, margin=np.linspace(-1, 1, ROWS), lexical=True),
            Event(now, now, source="associate"),
            Event(now, now, source="test"),
        ):
            after = dynamics.reinforce(state, event)
            yield from (after.multiplier, after.stability, after.retrieval, dynamics.score(after, now + DAY_SECONDS))
    yield dynamics.due_at(state, 0.3)
    yield dynamics.refresh_seconds
    seen = np.linspace(0, 1, len(CANDIDATES))
    vitals = CandidateStrength(seen, seen, seen, seen, 1 - seen)
    for mode in ("cmm", "memory_decay"):
        parts = ScoreParts({"relevance": seen})
        yield blend_scores(CANDIDATES, parts, vitals, Ranking(mode=mode), parameters=own).scores
        yield repr(spreading_settings(mode, own))
    if isinstance(dynamics, Mnemex):
        yield from (dynamics.promoted(replace(state, level=state.level - 1), START + DAY_SECONDS * d) for d in (3, 10))
        yield mnemex.is_other_domain(dynamics.parameters, ["a", "b"], ["b", "c", "d"])
        policy = Policy.model_validate({"forgetting": {"profile": "mnemex", "parameters": _given(dynamics.parameters)}})
        yield policy.rules.tiers.deleted_below
    if isinstance(dynamics, Cmm):
        yield priming(dynamics.parameters, np.arange(15.0))
    if isinstance(dynamics, MemoryDecay):
        yield dynamics.retrieval(state, START + 40 * DAY_SECONDS)


def _given(parameters: MnemexParameters) -> Any:
    return TypeAdapter(MnemexParameters).dump_python(parameters, mode="json")


def fingerprint(name: str, given: dict[str, Any]) -> list[bytes]:
    return [repr(np.asarray(each).tolist()).encode() for each in behaviour(profile(name, given))]


CASES = [
    pytest.param(name, path, value, hint, id=f"{name}-{path}")
    for name in BUILT_IN
    for path, value, hint in leaves(PROFILES[name].parameters())
]


@pytest.fixture(scope="module")
def usual() -> dict[tuple[str, int], list[bytes]]:
    """Behaviour of every profile under each of its `BASES`."""
    return {(name, place): fingerprint(name, base) for name in BUILT_IN for place, base in enumerate(BASES[name])}


@pytest.mark.parametrize(("name", "path", "value", "hint"), CASES)
def test_every_parameter_has_an_effect(
    usual: dict[tuple[str, int], list[bytes]], name: str, path: str, value: Any, hint: Any
) -> None:
    """Seeds 000, 002, 003 and 004, parameter references."""
    for place, base in enumerate(BASES[name]):
        for other in others(value, hint):
            try:
                found = fingerprint(name, merged(base, nested(path, other)))
            except (ValidationError, ValueError):
                continue
            if found != usual[name, place]:
                return
    pytest.fail(f"{name}'s parameter {path} changes nothing")


def test_a_parameter_without_effect_is_found(usual: dict[tuple[str, int], list[bytes]]) -> None:
    policy = {
        "forgetting": {"profile": "mnemex", "parameters": {"forget_below": 0.1}},
        "tiers": {"deleted_below": 0.01},
    }
    assert Policy.model_validate(policy).rules.tiers.deleted_below == 0.01
    assert fingerprint("mnemex", {"slow_lambda_per_second": 1e-7}) == usual["mnemex", 0], "the power law has none"
