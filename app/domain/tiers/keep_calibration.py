"""Calibrate keep chances by a tenant's memories and uses: a threshold for a wanted share, and shifts by role.

A night computes the calibration; decisions read it. It never changes stored chances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.tiers.keep_rule import SPEAKERS
from app.domain.tiers.tier_decision import TierRules

CHANCES_VERSION: Final = 2
"""Version of the rules' chances; the night recomputes chances stored by an earlier version. Increment it after a change
of weights, word lists or features that changes the chances of texts."""
THRESHOLD_MIN: Final = 0.02
THRESHOLD_MAX: Final = 0.6
"""Limits of a found threshold, so that no target share keeps plain chatter or forgets what most likely matters."""
SHIFT_MAX: Final = 0.7
"""Limit of a shift in log-odds: a threshold of 0.11 acts like one between 0.06 and 0.2."""
PRIOR_USES: Final = 20.0
"""Number added to the observed and to the expected uses, so that few uses cause only a small shift."""
CHANGE_MIN: Final = 0.05
"""Smallest change, in log-odds, for which a calibration is replaced, so that tiers don't change back and forth."""


class FoundThreshold(NamedTuple):
    """A threshold of the keep chance for a share of memories.

    Attributes:
        threshold: `THRESHOLD_MIN` to `THRESHOLD_MAX`.
        share: Share of the memories that is above it or protected otherwise, 0 to 1.
        memories: Number of memories, including those that decay has deleted.
        is_limited: True if a limit of the threshold, or other protections, prevent the wanted share.
    """

    threshold: float
    share: float
    memories: int
    is_limited: bool


def find_threshold(target: float, chances: Floats, kept: int, memories: int) -> FoundThreshold:
    """Find the threshold at which the memories above it and those protected otherwise are the wanted share of all.

    Args:
        target: Wanted share, 0 to 1.
        chances: Known keep chances of the memories that aren't protected otherwise, in any order.
        kept: Number of memories that are protected otherwise.
        memories: Number of all memories, including those that decay has deleted: otherwise, each deletion would raise
            the threshold, until few memories are left.
    """
    falling = np.sort(chances)[::-1]
    wanted = min(max(round(target * memories) - kept, 0), falling.size)
    ideal = float(falling[wanted]) if wanted < falling.size else 0.0
    threshold = min(max(ideal, THRESHOLD_MIN), THRESHOLD_MAX)
    share = (kept + int((falling > threshold).sum())) / max(memories, 1)
    return FoundThreshold(threshold, share, memories, is_limited=threshold != ideal or kept > round(target * memories))


class UseCount(NamedTuple):
    """Uses of memories with one role on one side of the threshold.

    Attributes:
        speaker: The role, one of `SPEAKERS`.
        is_above: True if their chance is above the threshold.
        memories: Number of memories.
        used: Number of them that were used or reviewed, and not superseded.
        chance: Sum of their chances, before any shift.
    """

    speaker: str
    is_above: bool
    memories: int
    used: int
    chance: float


def learn_shifts(counts: Sequence[UseCount]) -> dict[str, float]:
    """Return the shift of each role's chances, in log-odds, from uses; roles without a shift are missing.

    If chances are right, memories are used in proportion to them. The shift is the sum of two log-ratios of observed to
    expected uses. The first compares the role's memories with all memories; the second, equal for all roles, compares
    the memories below the threshold with those above it. `PRIOR_USES` shrinks both; `SHIFT_MAX` limits their sum.
    """
    total, above = _add(counts), _add([count for count in counts if count.is_above])
    if not total.used:
        return {}
    common = 0.0
    if above.used:
        below = _add([count for count in counts if not count.is_above])
        common = _log_ratio(below.used, below.chance * above.used / above.chance)
    shifts = {}
    for speaker in SPEAKERS:
        own = _add([count for count in counts if count.speaker == speaker])
        shift = common + _log_ratio(own.used, own.chance * total.used / total.chance)
        if own.memories and abs(shift) >= CHANGE_MIN:
            shifts[speaker] = round(min(max(shift, -SHIFT_MAX), SHIFT_MAX), 3)
    return shifts


def _add(counts: Sequence[UseCount]) -> UseCount:
    """Return the sums of these counts."""
    memories, used = sum(count.memories for count in counts), sum(count.used for count in counts)
    return UseCount(speaker="", is_above=True, memories=memories, used=used, chance=sum(c.chance for c in counts))


def _log_ratio(used: float, expected: float) -> float:
    return math.log((used + PRIOR_USES) / (expected + PRIOR_USES))


class KeepCalibration(msgspec.Struct, frozen=True):
    """A tenant's stored calibration.

    Attributes:
        target: The share for which the threshold was found; None if the policy has no target.
        threshold: The found threshold; None without a target.
        share: Share of the memories above it or protected otherwise, when it was found.
        shifts: Shift of chances in log-odds, by role; the empty role stands for memories without one.
        deleted: Number of memories that decay has deleted, which count towards a wanted share.
        version: Version of the rules' chances that the tenant's memories have (`CHANCES_VERSION`).
        former: The previous calibration, until all memories that the two judge differently are marked for the sweep;
            then None.
    """

    target: float | None = None
    threshold: float | None = None
    share: float | None = None
    shifts: dict[str, float] = {}
    deleted: int = 0
    version: int = 0
    former: KeepCalibration | None = None

    def read_threshold(self, rules: TierRules) -> float:
        """Return the threshold in force under these rules."""
        target = rules.tiers.target_active_share
        if target is None or target != self.target or self.threshold is None:
            return rules.protection.keep_chance_above
        return self.threshold

    def apply(self, rules: TierRules, speakers: npt.NDArray[np.int8]) -> tuple[Floats, Floats]:
        """Return shift and threshold of each memory, shape (n,).

        Args:
            rules: The policy's rules.
            speakers: Roles, as indexes in `SPEAKERS`.
        """
        by_speaker = np.array([self.shifts.get(speaker, 0.0) for speaker in SPEAKERS])
        return by_speaker[speakers], np.full(speakers.size, self.read_threshold(rules))

    def differs(self, other: KeepCalibration) -> bool:
        """Return whether the other calibration differs by enough to replace this one."""
        if self.target != other.target or (self.threshold is None) != (other.threshold is None):
            return True
        moved = abs(_odds(self.threshold) - _odds(other.threshold))
        pairs = [(self.shifts.get(name, 0.0), other.shifts.get(name, 0.0)) for name in SPEAKERS]
        return moved >= CHANGE_MIN or any(abs(ours - theirs) >= CHANGE_MIN for ours, theirs in pairs)


def _odds(threshold: float | None) -> float:
    return 0.0 if threshold is None else math.log(threshold / (1 - threshold))


NONE: Final = KeepCalibration()
_DECODER: Final = msgspec.json.Decoder(KeepCalibration)


def decode_calibration(body: str | bytes | None) -> KeepCalibration:
    """Return the stored calibration; `NONE` if there is none."""
    if body is None:
        return NONE
    return _DECODER.decode(body)
