"""Decide by a memory's keep chance, or by its salience, whether decay may move and delete it.

The chance depends on the source of the memory's salience. For the rules, it is their fitted chance; for a summary, the
highest chance of its sources; for a model or the caller, the value of a calibrated curve (`chances_of_salience`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.ingest.roles import ROLES
from app.domain.tiers.decay_tier import TierThresholds
from app.domain.tiers.protection import FORMER_SALIENCE, KEEP_ABOVE, Protection

SOURCES: Final = ("heuristic", "llm", "caller", "consolidation")
"""Sources of a memory's salience; facts contain the index, -1 for none."""
SPEAKERS: Final = (*ROLES, "")
"""Roles by which a tenant's uses shift chances; the last one is for memories without a role."""
_RULES, _MODEL, CALLER, _MERGED = range(len(SOURCES))

SALIENCE_SLOPE: Final = 6.7
"""Log-odds that a salience higher by 1 adds to the keep chance; `python -m ops.salience` shows the fitted value."""
ODDS_MAX: Final = 13.8
"""Log-odds of a chance of 0.999999, beyond which chances don't differ."""

Bools = npt.NDArray[np.bool_]


def log_odds(chances: npt.ArrayLike) -> Floats:
    """Return the log-odds of chances, within plus and minus `ODDS_MAX`; NaN stays NaN."""
    chances = np.asarray(chances, np.float64)
    with np.errstate(divide="ignore"):
        odds: Floats = (np.log(chances) - np.log1p(-chances)).clip(-ODDS_MAX, ODDS_MAX)
    return odds


def chances_of_odds(odds: npt.ArrayLike) -> Floats:
    """Return the chances of log-odds, 0 to 1."""
    chances: Floats = 1 / (1 + np.exp(-np.asarray(odds, np.float64)))
    return chances


def chances_of_salience(salience: Floats) -> Floats:
    """Return the chance of memories with a salience from a model or the caller, which rises with the salience.

    The curve maps the former salience threshold (0.145) to the default keep-chance threshold (0.11).
    """
    return chances_of_odds(float(log_odds(KEEP_ABOVE)) + SALIENCE_SLOPE * (salience - FORMER_SALIENCE))


@dataclass(frozen=True, slots=True)
class KeepFacts:
    """Keep chances of memories, their sources, and the threshold in force; every array has shape (n,).

    Attributes:
        chances: Chance by the rules or of a summary's sources, 0 to 1; NaN if there is none yet.
        sources: Source of the salience, as an index in `SOURCES`; -1 without one.
        shifts: Shift of the chance in log-odds, learned from the tenant's uses; 0 for none.
        above: Threshold in force for the tenant, 0 to 1.
    """

    chances: Floats
    sources: npt.NDArray[np.int8]
    shifts: Floats
    above: Floats

    def __getitem__(self, rows: npt.NDArray[np.integer[Any]]) -> KeepFacts:
        """Return the facts of these rows."""
        return KeepFacts(*(getattr(self, field.name)[rows] for field in fields(self)))


def no_keep_facts(count: int, above: float = KEEP_ABOVE) -> KeepFacts:
    """Return the facts of memories whose chances aren't known yet."""
    unknown = np.full(count, np.nan)
    return KeepFacts(unknown, np.full(count, -1, np.int8), np.zeros(count), np.full(count, above))


class KeepVerdict(NamedTuple):
    """Protections by salience and by chance, and permission to delete, shape (n,).

    Attributes:
        by_salience: True if the salience protects the memory from decay.
        by_chance: True if the chance does.
        is_deletable: True if neither prevents the deletion of a memory that decay would delete.
    """

    by_salience: Bools
    by_chance: Bools
    is_deletable: Bools


def rate(keep: KeepFacts, salience: Floats) -> Floats:
    """Return the chance of each memory before any shift, shape (n,); NaN if it isn't known yet.

    Args:
        keep: Facts of the memories.
        salience: 0 to 1.
    """
    is_rated = (keep.sources == _MODEL) | (keep.sources == CALLER)
    chance = np.where(is_rated, chances_of_salience(salience), keep.chances)
    return np.where(keep.sources < 0, np.nan, chance)


def merge_chances(keep: KeepFacts, salience: Floats) -> float:
    """Return the chance of a summary of these memories, at least one: the highest of them.

    A memory without a chance gets the chance of a memory to which a model gave the same salience. A memory that is
    protected by the caller's salience counts as 1, so that the summary is protected at every threshold.
    """
    chance = rate(keep, salience)
    chance = np.where(np.isnan(chance), chances_of_salience(salience), chance)
    return float(np.where((keep.sources == CALLER) & (salience > FORMER_SALIENCE), 1.0, chance).max())


def shifted(keep: KeepFacts, salience: Floats) -> Floats:
    """Return the chance that is compared with the threshold, shape (n,); the caller's own salience isn't shifted."""
    chance = rate(keep, salience)
    shifts = np.where(keep.sources == CALLER, 0.0, keep.shifts)
    if not shifts.any():
        return chance
    return np.where(shifts == 0, chance, chances_of_odds(log_odds(chance) + shifts))


def judge(
    protection: Protection, tiers: TierThresholds, former: float, keep: KeepFacts, salience: Floats
) -> KeepVerdict:
    """Judge memories by their chances, or by their salience alone if the policy sets `salience_above`.

    A memory without a chance is judged by its salience and the former default. A memory whose salience the caller set
    is protected if that salience exceeds the former default; otherwise its chance decides.

    Args:
        former: Former default of `protection.salience_above`.
        keep: Facts of the same memories.
        salience: 0 to 1, shape (n,).
    """
    limit = FORMER_SALIENCE if tiers.deleted_salience_below is None else tiers.deleted_salience_below
    if protection.salience_above is not None:
        by_salience: Bools = np.asarray(salience > protection.salience_above)
        return KeepVerdict(by_salience, np.zeros_like(by_salience), np.asarray(salience < limit))
    chance = shifted(keep, salience)
    unknown = np.isnan(chance)
    by_salience = (unknown | (keep.sources == CALLER)) & (salience > former)
    by_chance = ~by_salience & ~unknown & (chance > keep.above)
    is_deletable = np.where(unknown, salience < limit, chance < tiers.deleted_keep_chance_below)
    if tiers.deleted_salience_below is not None:
        is_deletable &= salience < tiers.deleted_salience_below
    return KeepVerdict(by_salience, by_chance, np.asarray(is_deletable))
