"""Over a simulated year the service puts every memory where the reference does, however irregularly nights run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from app.domain.policy.policy import Policy
from app.domain.tiers.decay_tier import DECAY_TIERS
from tests.lifecycle import reference
from tests.lifecycle.reference import Memory, Numbers
from tests.lifecycle.year import NIGHTS, QUIET, Lived, Year, policy
from tests.service import Service
from tests.services.aged import Aged

MEMORIES = 10_000
SOME = 1_000


@lru_cache(maxsize=3)
def year(memories: int, profile: str = "spec") -> Year:
    return Year(memories, profile)


def every_night(_: int) -> int:
    return 1


def badly(day: int) -> int:
    """Skip nights for weeks, and run every third night twice."""
    return 0 if any(first <= day < last for first, last in QUIET) else 2 if day % 3 == 0 else 1


def lived(service: Service, monkeypatch: pytest.MonkeyPatch, year: Year) -> Lived:
    return Lived(Aged(service, monkeypatch, policy(year.numbers)), year)


def test_the_reference_has_the_defaults_of_the_policy() -> None:
    found, expected = policy(Numbers()), Policy()
    # The reference judges by salience alone, as a policy does that sets `salience_above`.
    assert replace(found.tiers, deleted_salience_below=None) == expected.tiers
    for name in ("grace_days", "grace_importance_above", "semantic_importance_above", "uses_above"):
        assert getattr(found.protection, name) == getattr(expected.protection, name)
    for name in ("never_forget_tags", "never_forget_categories"):
        assert set(getattr(found.protection, name)) == set(getattr(expected.protection, name))


def test_a_year_leads_through_all_tiers_and_back() -> None:
    """Otherwise the tests below would prove nothing."""
    tiers = year(SOME).tiers
    steps = np.diff(tiers, axis=0)
    assert (np.bincount(tiers[-1], minlength=4) >= SOME // 100).all()
    assert (steps < 0).sum() > SOME // 10, "enough memories were restored"
    assert (steps > 0).sum() > SOME // 2


def test_none_falls_back_within_the_grace_after_its_restore() -> None:
    """Checks the reference, which the service matches on every night."""
    found = year(SOME)
    restores = [each for each in found.happenings if each.what == "restore"]
    assert restores
    for each in restores:
        nights = [place for place, night in enumerate(NIGHTS) if each.day < night < each.day + 7]
        assert (found.tiers[np.ix_(nights, each.places)] == 0).all()


def test_some_would_without_that_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    def restore(numbers: Numbers, memory: Memory, now: float) -> None:
        real(numbers, memory, now)
        memory.restored = -np.inf

    real, with_it = reference.restore, year(SOME).tiers  # cached for other tests, so computed before the change
    monkeypatch.setattr(reference, "restore", restore)
    assert (Year(SOME).tiers != with_it).any()


@pytest.mark.long
@pytest.mark.no_cover  # covered by other tests; tracing would double its time
@pytest.mark.parametrize(("runs", "memories"), [(badly, MEMORIES), (every_night, SOME)])
def test_memories_are_where_the_reference_has_them(
    service: Service, monkeypatch: pytest.MonkeyPatch, runs: Callable[[int], int], memories: int
) -> None:
    """Moves and restores are made by the service itself; deleted memories have no row."""
    found = year(memories)
    assert lived(service, monkeypatch, found).through(runs) == []
    left = service.one("SELECT count(*) FROM memories")
    assert left == np.count_nonzero(found.tiers[-1] != DECAY_TIERS.index("deleted"))
    assert 0 < left < memories


@pytest.mark.long
@pytest.mark.no_cover  # covered by other tests; tracing would double its time
@pytest.mark.parametrize("profile", ["mnemex", "cmm"])
def test_so_they_are_in_other_profiles(service: Service, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    assert lived(service, monkeypatch, year(SOME, profile)).through(badly) == []
