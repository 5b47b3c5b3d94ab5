"""The threshold for a wanted share, and what uses teach about chances."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from app.domain.policy.policy import Policy
from app.domain.tiers.decay_tier import TierThresholds
from app.domain.tiers.keep_calibration import (
    NONE,
    SHIFT_MAX,
    THRESHOLD_MAX,
    THRESHOLD_MIN,
    KeepCalibration,
    UseCount,
    decode_calibration,
    find_threshold,
    learn_shifts,
)
from app.domain.tiers.keep_rule import SPEAKERS
from app.domain.tiers.protection import KEEP_ABOVE


def test_the_wanted_share_is_above_the_found_threshold() -> None:
    chances = np.random.default_rng(1).uniform(0.02, 0.6, 900)
    for target in (0.2, 0.4, 0.8):
        found = find_threshold(target, chances, 100, 1000)
        assert found.share == pytest.approx(target, abs=0.002)
        assert not found.is_limited
        assert 100 + int((chances > found.threshold).sum()) == round(found.share * 1000)


def test_protection_comes_first_and_the_threshold_stays_within_its_limits() -> None:
    plain, certain = np.full(100, 0.001), np.full(100, 0.99)
    assert find_threshold(0.9, plain, 0, 100) == (THRESHOLD_MIN, 0, 100, True)
    assert find_threshold(0.1, certain, 0, 100) == (THRESHOLD_MAX, 1, 100, True)
    found = find_threshold(0.1, np.linspace(0.1, 0.5, 60), 40, 100)
    assert (found.share, found.is_limited) == (0.4, True), "what is protected otherwise stays"
    assert find_threshold(0.5, np.empty(0), 0, 0).memories == 0


def counts(**used: tuple[int, int]) -> list[UseCount]:
    """Return counts of 1,000 memories by role: used ones below and above the threshold; chances of 50 and 300."""
    return [
        UseCount(speaker, is_above, 1000, number, 300.0 if is_above else 50.0)
        for speaker, pair in used.items()
        for is_above, number in zip((False, True), pair, strict=True)
    ]


def test_uses_in_proportion_to_the_chances_shift_nothing() -> None:
    assert learn_shifts(counts(user=(50, 300), assistant=(50, 300))) == {}
    assert learn_shifts(counts(user=(0, 0), assistant=(0, 0))) == {}
    assert learn_shifts([]) == {}


def test_a_role_that_is_used_more_than_its_chances_promise_is_raised_and_the_other_lowered() -> None:
    found = learn_shifts(counts(user=(25, 150), assistant=(50, 300)))
    assert found["assistant"] > 0.1
    assert found["user"] < -0.1


def test_uses_below_the_threshold_raise_all_roles_within_the_limit() -> None:
    found = learn_shifts(counts(user=(200, 300)))
    assert 0.3 < found["user"] <= SHIFT_MAX
    assert learn_shifts(counts(user=(1000, 300)))["user"] == SHIFT_MAX
    assert learn_shifts(counts(user=(0, 3000)))["user"] == -SHIFT_MAX


def test_few_uses_shift_little() -> None:
    few = [UseCount("user", False, 30, 3, 1.5), UseCount("user", True, 30, 9, 9.0)]
    assert abs(learn_shifts(few).get("user", 0.0)) < 0.1


def test_a_calibration_is_applied_to_its_own_target_only() -> None:
    calibration = KeepCalibration(target=0.4, threshold=0.3, share=0.4, shifts={"user": 0.2})
    speakers = np.array([SPEAKERS.index("user"), SPEAKERS.index("")], np.int8)
    shifts, above = calibration.apply(Policy(tiers=TierThresholds(target_active_share=0.4)).rules, speakers)
    assert (shifts.tolist(), above.tolist()) == ([0.2, 0.0], [0.3, 0.3])
    for tiers in (TierThresholds(), TierThresholds(target_active_share=0.5)):
        assert calibration.read_threshold(Policy(tiers=tiers).rules) == KEEP_ABOVE


def test_a_small_difference_replaces_no_calibration() -> None:
    stored = KeepCalibration(target=0.4, threshold=0.300, shifts={"user": 0.2})
    assert not stored.differs(KeepCalibration(target=0.4, threshold=0.305, shifts={"user": 0.22}))
    assert stored.differs(KeepCalibration(target=0.4, threshold=0.32, shifts={"user": 0.2}))
    assert stored.differs(KeepCalibration(target=0.4, threshold=0.3))
    assert stored.differs(NONE)


def test_a_stored_calibration_is_read_back() -> None:
    calibration = KeepCalibration(target=0.4, threshold=0.3, shifts={"": -0.1}, former=NONE)
    assert decode_calibration(msgspec.json.encode(calibration).decode()) == calibration
    assert decode_calibration(None) == NONE
