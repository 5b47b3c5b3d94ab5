"""Spreading activation: what lies near the best results comes along, at a share of their score (seeds 002, 003)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecayParameters
from app.domain.search.modes import parameters_of
from app.domain.search.ranking import Mode

Way = Literal["vector", "entity", "link"]
"""By closeness of meaning, by an entity that both name, by a link."""

SEEDS_MAX: Final = 5
"""So many of the best results have neighbours."""
NEIGHBOURS_MAX: Final = 5
"""So many neighbours has each, by each way."""
COSINE_MIN: Final = 0.5
"""From here on vectors are neighbours; what has none so near is novel (cmm)."""
CARRIERS_MAX: Final = 100
"""An entity that more memories name makes none of them neighbours: it tells too little."""


@dataclass(frozen=True, slots=True)
class Spreading:
    """How a search spreads.

    Attributes:
        ways: To which neighbours.
        factor: What a neighbour gets of the score, per hop, 0 to 1.
        hops: How far.
        strength_min: Weaker memories aren't reached.
    """

    ways: tuple[Way, ...]
    factor: float
    hops: int
    strength_min: float = 0.0


@dataclass(frozen=True, slots=True)
class Near:
    """A memory and that it is a neighbour of a parent; the weight is a link's, else 1."""

    parent_id: UUID
    memory_id: UUID
    way: Way
    weight: float


@dataclass(frozen=True, slots=True)
class Reached:
    """What a search has spread to: with which score, from which memory, and by which way."""

    score: float
    parent_id: UUID
    way: Way


def spreading(mode: Mode, own: object) -> Spreading | None:
    """How a mode spreads, by these parameters of the tenant's model or else the seed's; None where it doesn't."""
    match mode:
        case "cmm":
            cmm = parameters_of(own, CmmParameters)
            chosen = Spreading(("vector", "entity", "link"), cmm.spread_factor, cmm.spread_hops)
        case "memory_decay":
            decay = parameters_of(own, MemoryDecayParameters)
            chosen = Spreading(("link",), decay.spread_factor, 1, decay.storage_threshold)
        case _:
            return None
    return chosen if chosen.factor and chosen.hops else None


def raised(scores: Mapping[UUID, float], near: Iterable[Near], factor: float) -> dict[UUID, Reached]:
    """The neighbours that get a better score than they have, each from its best parent: score · factor · weight.

    Args:
        scores: Of all memories found so far.
        near: Neighbours of some of them.
        factor: 0 to 1.
    """
    best: dict[UUID, Reached] = {}
    for pair in near:
        score = scores[pair.parent_id] * factor * pair.weight
        known = best.get(pair.memory_id)
        if score > (known.score if known else scores.get(pair.memory_id, 0.0)):
            best[pair.memory_id] = Reached(score, pair.parent_id, pair.way)
    return best
