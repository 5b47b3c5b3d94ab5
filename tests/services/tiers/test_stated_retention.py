"""Retention that people state (specification, section 5.3): of a memory, of a subject, and of a subject's category."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import msgspec
import pytest

from app.domain.ingest.memory import decode_patch
from app.domain.policy.policy import Policy
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.parameters import Privacy
from app.domain.privacy.retention import NewRetention
from app.errors import Invalid, NotFound
from app.services.memories import explanation, memories
from app.services.privacy import categories, legal_holds, subject_retention
from tests.service import Service
from tests.services.aged import Aged, days
from tests.services.tiers.test_expiry import aged, ends_on, insert_finding, labelled, left, run

__all__ = ["aged"]


def keep(aged: Aged, subject: str, keep_days: float | None, category: str | None = None) -> None:
    subject_retention.set_period(aged.tenant_id, NewRetention(subject, keep_days, category), "key")


def edit(aged: Aged, memory_id: UUID, **changes: object) -> None:
    memories.edit_memory(aged.tenant_id, memory_id, decode_patch(msgspec.json.encode(changes)))


@pytest.mark.parametrize("how", ["keep_days", "expires_at"])
def test_a_memory_expires_when_its_owner_said(aged: Aged, how: str) -> None:
    [memory_id] = aged.remember(0, salience=1.0, access_count=100)
    labelled(aged, memory_id, "health")
    edit(aged, memory_id, **{how: 20 if how == "keep_days" else (aged.now + timedelta(days=20)).isoformat()})
    assert ends_on(aged, memory_id, 20)


def test_the_earliest_limit_wins(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    aged = Aged(service, monkeypatch, Policy(privacy=Privacy(health_days=50)))
    early, late, his = aged.remember(0, 0, 0)
    for memory_id, subject in ((early, "ann"), (late, "ann"), (his, "bob")):
        labelled(aged, memory_id, "health", subject=subject)
    keep(aged, "ann", 40)
    keep(aged, "bob", 10)
    keep(aged, "bob", None)
    edit(aged, early, keep_days=10)
    edit(aged, late, keep_days=45)
    assert ends_on(aged, early, 10)
    assert ends_on(aged, late, 40)
    assert ends_on(aged, his, 50)


def test_health_is_kept_as_long_as_its_subject_says(aged: Aged) -> None:
    """The specification's example: health information is retained for as long as the user wants."""
    hers, her_holiday, his = aged.remember(0, 0, 0)
    labelled(aged, hers, "Health", subject="ann")
    labelled(aged, her_holiday, "travel", subject="ann")
    labelled(aged, his, "health", subject="bob")
    keep(aged, "ann", 90, "HEALTH")
    assert ends_on(aged, hers, 90)
    assert {her_holiday, his} <= left(aged)


def test_a_category_that_was_only_detected_sets_no_period(aged: Aged) -> None:
    [memory_id] = aged.remember(0)
    labelled(aged, memory_id, subject="ann")
    insert_finding(aged, memory_id, "condition", "health", 1.0, 1.0)
    keep(aged, "ann", 5, "health")
    aged.now = days(6)
    run(aged)
    assert memory_id in left(aged)


def test_a_hold_wins_until_its_release(aged: Aged) -> None:
    [memory_id] = aged.remember(0)
    labelled(aged, memory_id, subject="ann", expires_at=days(3))
    hold = legal_holds.place_hold(aged.tenant_id, Scope(subject="ann"), "case 17", "key")
    aged.now = days(4)
    run(aged)
    assert memory_id in left(aged)
    legal_holds.release_hold(aged.tenant_id, hold.hold_id, "key")
    run(aged)
    assert memory_id not in left(aged)


def test_why_names_the_statement(aged: Aged) -> None:
    own, of_subject = aged.remember(0, 0)
    labelled(aged, own, subject="bob", expires_at=days(7))
    labelled(aged, of_subject, subject="ann")
    keep(aged, "ann", 9)
    aged.now = days(10)
    by_memory, by_subject = (explanation.explain_tier(aged.tenant_id, each) for each in (own, of_subject))
    assert by_memory.verdict.why == "its stated time of expiry has passed: it was to be kept for 7 days"
    assert by_subject.verdict.why == "the retention period of its subject is 9 days, and this memory is 10 days old"
    counted = {each.name: each.memories for each in categories.count_categories(aged.tenant_id).categories}
    assert (counted["expires_at"], counted["subject_retention"]) == (1, 1)


def test_a_new_period_applies_to_memories_that_exist_and_to_later_ones(aged: Aged) -> None:
    [earlier] = aged.remember(0)
    labelled(aged, earlier, subject="ann")
    aged.now = days(30)
    run(aged)
    keep(aged, "ann", 20)
    run(aged)
    assert earlier not in left(aged)
    [later] = aged.service.send(aged.tenant_id, {"text": "hello", "subject": "ann"})
    assert later is not None
    keep(aged, "ann", 25)
    assert [each.keep_days for each in subject_retention.list_periods(aged.tenant_id, "ann")] == [25]


def test_a_past_time_is_refused_and_changes_nothing(aged: Aged) -> None:
    [memory_id] = aged.remember(0)
    with pytest.raises(Invalid) as refused:
        edit(aged, memory_id, expires_at=(aged.now - timedelta(seconds=1)).isoformat())
    assert [(error.field, error.message) for error in refused.value.errors] == [("expires_at", "must be in the future")]
    assert aged.service.rows("SELECT expires_at FROM memories") == [(None,)]
    with pytest.raises(NotFound):
        keep(aged, "ann", None)
