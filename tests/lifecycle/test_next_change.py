"""The predicted next change of a memory equals the one the reference finds by sampling every quarter of a day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest

from app.domain.policy.policy import Forgetting, Policy
from app.domain.tiers.decay_tier import DECAY_TIERS, TierThresholds
from app.domain.tiers.protection import Protection
from app.errors import NotFound, Unavailable
from app.services.memories import explanation, memories
from app.services.memories.explanation import TierExplanation
from tests.lifecycle import reference
from tests.lifecycle.year import NIGHT, Lived, Year, policy
from tests.service import Service
from tests.services.aged import START, Aged, aged, days
from tests.variants import variants

__all__ = ["aged"]

AHEAD_DAYS = 120
SECOND = 1 / 86_400
ENDS = (
    datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime.max.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
)


def explained(aged: Aged, memory_id: UUID, day: float | None = None) -> TierExplanation:
    return explanation.explain_tier(aged.tenant_id, memory_id, None if day is None else days(day))


@pytest.mark.parametrize("profile", variants(["spec", "mnemex", "cmm"], {"spec"}))
def test_the_next_change_is_the_references(service: Service, monkeypatch: pytest.MonkeyPatch, profile: str) -> None:
    """Covers memories of all kinds, labels and uses, held and restored ones, in every tier."""
    year = Year(300, profile, last=30)
    aged = Aged(service, monkeypatch, policy(year.numbers))
    lived = Lived(aged, year)
    lived.through(lambda _: 1, 30)
    now, reported = 30 + NIGHT + 0.1, 0
    for memory_id, memory in zip(lived.ids, year.lived, strict=True):
        if memory.tier == "deleted" or memory.accepted > now:
            continue
        found = explained(aged, memory_id, now)
        assert (found.verdict.tier, found.verdict.rule) == reference.decide(year.numbers, memory, now)
        expected = reference.next_change(year.numbers, memory, now, AHEAD_DAYS)
        if expected is None:
            assert found.change_at is None or found.change_at > days(now + AHEAD_DAYS - SECOND)
            continue
        reported += 1
        assert found.change_at is not None
        assert found.change is not None
        assert abs(found.change_at - days(expected)) < timedelta(milliseconds=5)
        assert (found.change.tier, found.change.rule) == reference.decide(year.numbers, memory, expected + SECOND)
    assert reported > 5, "too few changes: the test proves little"


@pytest.mark.parametrize("curve", ["exponential", "power_law", "soft_floor"])
def test_so_it_is_of_a_model_in_ticks(service: Service, monkeypatch: pytest.MonkeyPatch, curve: str) -> None:
    parameters = {"curve": curve, "lambda_episode": 0.2}
    aged = Aged(service, monkeypatch, Policy(forgetting=Forgetting(profile="memory_decay", parameters=parameters)))
    [fresh] = aged.remember(0, salience=0.1)
    found = explained(aged, fresh)
    assert found.change_at is not None
    assert found.change is not None
    assert found.change.tier == "archived"
    assert (
        explanation.explain_tier(aged.tenant_id, fresh, found.change_at - timedelta(seconds=1)).verdict.tier == "active"
    )
    assert (
        explanation.explain_tier(aged.tenant_id, fresh, found.change_at + timedelta(seconds=1)).verdict.tier
        == "archived"
    )


def test_a_policy_that_is_yet_to_begin_may_bring_it(aged: Aged) -> None:
    [marked, plain] = aged.remember(-400, -12)
    aged.service.rows("UPDATE memories SET tags = '{decision}' WHERE memory_id = %s", marked)
    assert explained(aged, marked).change_at is None
    aged.decide(Policy(protection=Protection(never_forget_tags=()), tiers=TierThresholds(archived_below=0.7)), 3)
    for memory_id, tier in ((marked, "cold"), (plain, "archived")):
        found = explained(aged, memory_id)
        assert found.verdict.tier == "active"
        assert found.change is not None
        assert (found.change_at, found.change.tier) == (days(3), tier)
        assert explained(aged, memory_id, 3 + SECOND).verdict.tier == tier


@pytest.mark.parametrize("tier", ["archived", "cold"])
def test_a_memory_that_was_moved_is_explained_where_it_is(aged: Aged, tier: str) -> None:
    [moved] = aged.remember(-30)
    aged.service.rows("UPDATE memory_state SET tier = %s, wanted_tier = %s", tier, tier)
    found = explained(aged, moved)
    assert (found.tier, found.verdict.tier, found.verdict.rule) == (tier, tier, "decay")
    if tier == "archived":
        assert found.change is not None
        assert found.change.tier == "cold"


def test_neither_a_deleted_memory_nor_one_in_the_queue_has_a_place(aged: Aged) -> None:
    [gone, faded] = aged.remember(-30, -300)
    memories.delete(aged.tenant_id, gone)
    with pytest.raises(NotFound):
        explained(aged, gone)
    aged.service.rows("UPDATE memory_state SET tier = 'deleted' WHERE memory_id = %s", faded)
    with pytest.raises(NotFound):
        explained(aged, faded)
    [waiting] = aged.service.send(aged.tenant_id, "not yet")
    with pytest.raises(Unavailable):
        explained(aged, waiting)


def test_the_past_is_as_it_was_at_the_last_change_of_a_memory(aged: Aged) -> None:
    [used] = aged.remember(-30)
    aged.use([used])
    found = explained(aged, used, -10)
    assert (found.as_of, found.case.uses) == (START, 1)
    assert explained(aged, used, 10).as_of == days(10)
    assert explained(aged, used, 10).case.strength < found.case.strength


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("profile", ["spec", "mnemex", "cmm", "memory_decay"])
def test_the_ends_of_the_calendar_are_moments_too(
    service: Service, monkeypatch: pytest.MonkeyPatch, profile: str, end: datetime
) -> None:
    aged = Aged(service, monkeypatch, Policy(forgetting=Forgetting(profile=profile)))
    [memory_id] = aged.remember(-3, salience=0.0)
    found = explanation.explain_tier(aged.tenant_id, memory_id, end)
    if end > START:
        assert found.as_of == end
        assert (found.verdict.tier, found.change_at) == (DECAY_TIERS[-1], None)
    else:
        assert found.as_of == days(-3)
        assert found.verdict.rule == "grace"
