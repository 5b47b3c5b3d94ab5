"""Expiry times match a plain implementation of the rules, one memory at a time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.domain.dynamics.state import DAY_SECONDS
from app.domain.policy.policy import Policy
from app.domain.privacy.parameters import KNOWN, Category, Privacy
from app.domain.privacy.pii_detection import CATEGORY, detect_pii
from app.domain.privacy.retention import (
    OF_SUBJECT,
    ROUNDING,
    STATED,
    PersonalData,
    category_days,
    category_name,
    compute_expiry,
    no_expiry,
    privacy_risk,
)

ACCEPTED = 1_767_225_600.0
LIMITS = {"pii": 30.0, "financial": 90.0, "casual": 180.0, "work": 365.0, "mine": 3.0}
SENSITIVITIES = {
    "pii": 0.7,
    "financial": 1.0,
    "casual": 0.1,
    "work": 0.3,
    "health": 1.0,
    "credentials": 1.0,
    "mine": 0.5,
}
NAMES = (*KNOWN, "mine")
POLICY = Privacy(further=(Category("Mine", 3, 0.5),))


@dataclass(frozen=True)
class Memory:
    given: frozenset[str]
    found: frozenset[str]
    pii: float
    is_talk: bool
    stated_days: float
    subject_days: float


SURE = st.sampled_from([0.0, 0.25, 0.5, 0.6, 0.75, 0.9, 0.99, 1.0])
STATED_DAYS = st.sampled_from([math.inf, 2.0, 45.0, 500.0])
CATEGORIES = st.frozensets(st.sampled_from(NAMES), max_size=3)
MEMORIES = st.builds(Memory, CATEGORIES, CATEGORIES, SURE, st.booleans(), STATED_DAYS, STATED_DAYS)


def reference(memory: Memory) -> float:
    """Return the days until the memory expires, by the rules of ops/decisions/0026 in order."""
    of = memory.given or memory.found
    shortest = min((LIMITS[name] for name in of if name in LIMITS), default=None)
    sensitivity = max((SENSITIVITIES[name] for name in of), default=0.0)
    pii = 1.0 if "pii" in memory.given else memory.pii
    ends = [memory.stated_days, memory.subject_days]
    if memory.given and shortest is not None:
        ends.append(shortest)
    missing = 0.7 - 0.4 * pii - 0.4 * sensitivity
    if missing < 0.2 - ROUNDING and not ("health" in of and (memory.found is of or shortest is None)):
        days = 30.0 if shortest is None else shortest
        ends.append(max(days, 0.0 if missing < -ROUNDING else missing / 0.2 * 365))
    if memory.is_talk and not memory.given and "health" not in of:
        ends.append(730.0)
    return min(ends)


def bits(names: frozenset[str]) -> int:
    return sum(1 << NAMES.index(name) for name in names)


@given(st.lists(MEMORIES, max_size=30))
def test_a_batch_expires_as_each_memory_by_itself(memories: list[Memory]) -> None:
    personal = PersonalData(
        np.array([bits(each.given) for each in memories], np.int64),
        np.array([bits(each.found) for each in memories], np.int64),
        np.array([each.pii for each in memories], float),
        np.array([each.is_talk for each in memories], bool),
        np.array([ACCEPTED + each.stated_days * DAY_SECONDS for each in memories], float),
        np.array([each.subject_days for each in memories], float),
    )
    reported = compute_expiry(POLICY, personal, np.full(len(memories), ACCEPTED))
    wanted = [ACCEPTED + reference(each) * DAY_SECONDS for each in memories]
    np.testing.assert_allclose(reported.at, wanted, atol=0.5, rtol=0)
    for row in np.flatnonzero(np.isfinite(reported.at)):
        if reported.category[row] in {STATED, OF_SUBJECT}:
            assert not reported.by_risk[row]
            continue
        limit = category_days(POLICY, reported.category[row])
        assert limit is not None
        assert reported.at[row] >= ACCEPTED + limit * DAY_SECONDS, category_name(POLICY, reported.category[row])
        age = (reported.at[row] - ACCEPTED) / DAY_SECONDS + 1
        risk = privacy_risk(POLICY, reported.pii[row], reported.sensitivity[row], np.array(age))
        assert not reported.by_risk[row] or risk > POLICY.risk_above


def test_nothing_known_never_expires() -> None:
    assert np.isinf(no_expiry(3).at).all()


@pytest.mark.parametrize("name", ["pii", "PII", "archived_conversations"])
def test_a_category_has_one_limit(name: str) -> None:
    with pytest.raises(ValidationError, match="already exists"):
        Policy(privacy=Privacy(further=(Category(name, 3),)))


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValidationError, match="already exists"):
        Privacy(further=(Category("a", 3), Category("A", 4)))


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("a password", "The router's password is Tr0ub4dor&3"),
        ("an e-mail address", "Write to orla.byrne@proton.me"),
        ("a telephone number with `+`", "Call +49 30 901820 instead"),
        ("a date of birth", "She was born on 4 March 1986"),
        ("a card number, a bank account", "My card number is 4539 1488 0343 6467"),
        ("a card number, a bank account", "My IBAN is DE89 3704 0044 0532 0130 00"),
    ],
)
def test_detected_data_is_deleted_on_the_day_in_the_table(row: str, text: str) -> None:
    found = detect_pii(text)
    personal = PersonalData(
        given=np.zeros(1, np.int64),
        found=np.array([bits(frozenset(CATEGORY[each.kind] for each in found))]),
        pii=np.array([max(each.confidence for each in found)]),
        is_talk=np.zeros(1, bool),
        expires_at=np.full(1, np.inf),
        subject_days=np.full(1, np.inf),
    )
    days = compute_expiry(Privacy(), personal, np.zeros(1)).at[0] / DAY_SECONDS
    page = (Path(__file__).parents[2] / "ops" / "privacy.md").read_text()
    written = re.search(rf"^\| {re.escape(row)} \| (\d+) \|$", page, re.MULTILINE)
    assert written is not None
    assert int(written[1]) == math.floor(days) + 1
