"""Spread activation: add the neighbours of the best results at a share of their score (seeds 002, 003)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecayParameters
from app.domain.search.parameters import Mode
from app.domain.search.scoring import mode_parameters

Way = Literal["vector", "entity", "link"]
"""Kind of neighbour: close in meaning, naming the same entity, or linked."""

SEEDS_MAX: Final = 5
"""Number of top results that activation spreads from."""
NEIGHBOURS_MAX: Final = 5
"""Maximum number of neighbours per result and way."""
COSINE_MIN: Final = 0.5
"""Minimum cosine of vector neighbours; cmm treats a memory without any such neighbour as novel."""
CARRIERS_MAX: Final = 100
"""Maximum number of memories that an entity connects; an entity named by more memories is too unspecific."""


@dataclass(frozen=True, slots=True)
class SpreadingSettings:
    """Settings of spreading activation.

    Attributes:
        ways: Kinds of neighbours.
        factor: Share of the score passed on per hop, 0 to 1.
        hops: Maximum number of hops.
        strength_min: Minimum strength of a memory to be reached.
    """

    ways: tuple[Way, ...]
    factor: float
    hops: int
    strength_min: float = 0.0


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A neighbour of a parent memory; the weight is the link's weight, or 1 for other kinds of neighbours."""

    parent_id: UUID
    memory_id: UUID
    way: Way
    weight: float


@dataclass(frozen=True, slots=True)
class ReachedMemory:
    """Score of a memory reached by spreading, its parent, and the way it was reached."""

    score: float
    parent_id: UUID
    way: Way


def spreading_settings(mode: Mode, own: object) -> SpreadingSettings | None:
    """Return a mode's spreading settings, from the tenant's model or the seed's defaults; None for no spreading."""
    match mode:
        case "cmm":
            cmm = mode_parameters(own, CmmParameters)
            settings = SpreadingSettings(("vector", "entity", "link"), cmm.spread_factor, cmm.spread_hops)
        case "memory_decay":
            decay = mode_parameters(own, MemoryDecayParameters)
            settings = SpreadingSettings(("link",), decay.spread_factor, 1, decay.storage_threshold)
        case _:
            return None
    return settings if settings.factor and settings.hops else None


def spread_scores(scores: Mapping[UUID, float], near: Iterable[Neighbour], factor: float) -> dict[UUID, ReachedMemory]:
    """Return the neighbours whose score rises by spreading, each from its best parent: score · factor · weight.

    Args:
        scores: Scores of all memories found so far.
        near: Neighbours of some of these memories.
        factor: 0 to 1.
    """
    best: dict[UUID, ReachedMemory] = {}
    for pair in near:
        score = scores[pair.parent_id] * factor * pair.weight
        current = best.get(pair.memory_id)
        if score > (current.score if current else scores.get(pair.memory_id, 0.0)):
            best[pair.memory_id] = ReachedMemory(score, pair.parent_id, pair.way)
    return best
