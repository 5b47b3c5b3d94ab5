"""The explanation of a memory's tier: the deciding rule, its numbers, and the next change."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from app.domain.policy.policy import Policy
from app.domain.tiers.protection import Protection
from app.errors import NotFound
from app.services.memories import explanation
from app.services.memories.explanation import TierExplanation
from tests.service import Service
from tests.services import nights
from tests.services.aged import START, Aged, days


@pytest.fixture
def aged(service: Service, monkeypatch: pytest.MonkeyPatch) -> Aged:
    return Aged(service, monkeypatch)


def explained(aged: Aged, memory_id: UUID, day: float | None = None) -> TierExplanation:
    return explanation.explain_tier(aged.tenant_id, memory_id, None if day is None else days(day))


def mark(aged: Aged, memory_id: UUID, **columns: object) -> None:
    for name, value in columns.items():
        aged.service.rows(f"UPDATE memories SET {name} = %s WHERE memory_id = %s", value, memory_id)  # noqa: S608


def test_salience_protects_for_as_long_as_it_is_above_the_policys(aged: Aged) -> None:
    [mattering, idle] = aged.remember(-25, -25, salience=[0.5, 0.1])
    aged.decide(Policy(protection=Protection(salience_above=0.4)), -1)
    found = explained(aged, mattering)
    assert (found.verdict.tier, found.verdict.rule) == ("active", "salience")
    assert found.verdict.why == "salience 0.5 is above 0.4"
    assert found.change_at is None
    assert explained(aged, idle).verdict.rule == "decay"
    aged.change([mattering], salience=0.3)
    assert explained(aged, mattering).verdict.rule == "decay"


def test_decay_decides_where_nothing_protects(aged: Aged) -> None:
    [faded] = aged.remember(-25)
    found = explained(aged, faded)
    assert (found.tier, found.verdict.tier, found.verdict.rule) == ("active", "archived", "decay")
    assert found.verdict.why == f"strength {found.case.strength:.4g} is below 0.3"
    assert found.as_of == START


@pytest.mark.parametrize(
    ("columns", "rule", "words"),
    [
        ({"tags": ["commitment"]}, "never_forget", "a tag or category protects it permanently"),
        ({"categories": ["consent"]}, "never_forget", "a tag or category protects it permanently"),
        ({"kind": "procedural"}, "never_forget", "memories of the kind procedural are protected permanently"),
        ({"kind": "system"}, "grace", "decay doesn't move memories of the kind system"),
        ({"created_at": days(-6)}, "grace", "for lack of use in their first 7 days; this one was received 6 days ago"),
        ({"kind": "semantic"}, "decay", "is below 0.3"),
        ({"tags": ["holiday"]}, "decay", "is below 0.3"),
    ],
)
def test_what_the_caller_says_protects(aged: Aged, columns: dict[str, object], rule: str, words: str) -> None:
    [faded] = aged.remember(-25)
    mark(aged, faded, **columns)
    found = explained(aged, faded)
    assert found.verdict.rule == rule
    assert words in found.verdict.why
    assert found.verdict.tier == ("archived" if rule == "decay" else "active")


def test_an_inferred_kind_protects_nothing(aged: Aged) -> None:
    [faded] = aged.remember(-25, kind=2)
    assert explained(aged, faded).verdict.rule == "decay"


def test_a_hold_beats_everything(aged: Aged) -> None:
    held, other = aged.remember(-25, -25)
    aged.service.rows(
        "INSERT INTO holds (tenant_id, hold_id, memory_ids, reason, placed_by) VALUES (%s, %s, %s, 'court', 'k')",
        aged.tenant_id,
        uuid4(),
        [held],
    )
    assert explained(aged, held).verdict.rule == "hold"
    assert explained(aged, other).verdict.rule == "decay"
    assert nights.run(aged.tenant_id)["sweep"] == 2
    assert aged.tiers() == ["active", "archived"]


def test_the_next_change_is_told_and_then_happens(aged: Aged) -> None:
    """Seed 004 §2.4: below .30 after 22.5 days."""
    [fresh] = aged.remember(0)
    found = explained(aged, fresh)
    assert found.verdict.rule == "grace"
    assert found.change is not None
    assert found.change_at is not None
    assert (found.change.tier, found.change.rule) == ("archived", "decay")
    assert days(22) < found.change_at < days(23)
    before = explanation.explain_tier(aged.tenant_id, fresh, found.change_at - timedelta(seconds=1))
    assert before.verdict.tier == "active"
    assert explanation.explain_tier(aged.tenant_id, fresh, found.change_at).verdict.tier == "archived"


def test_what_is_never_forgotten_has_no_next_change(aged: Aged) -> None:
    [kept] = aged.remember(-400)
    mark(aged, kept, tags=["promise"])
    found = explained(aged, kept)
    assert (found.change_at, found.change) == (None, None)


def test_an_unknown_memory_is_not_found(aged: Aged) -> None:
    with pytest.raises(NotFound):
        explained(aged, uuid4())
