"""Expiry: personal memories are deleted from any tier when their retention period ends; only a hold prevents it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest

from app import failpoints
from app.domain.ingest.memory import KINDS, MemoryPatch
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.parameters import Category, Privacy
from app.errors import NotFound
from app.services.consolidation import summary_refresh
from app.services.enrichment import index
from app.services.memories import explanation, memories, recount
from app.services.privacy import categories, legal_holds
from app.services.storage import lookup
from app.services.tiers import archive, expiry, sweep
from app.services.tiers.dry_run import PredictedMove
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.memories import tenant_counts
from app.store.memories.memories import StoredMemory
from tests.service import Service
from tests.services import nights
from tests.services.aged import Aged, days
from tests.waiting import PATIENCE_SECONDS

SECOND = timedelta(seconds=1)
SECRET = "Ann's door opens with the number 4711."
OTHER = "Ann waters the garden on Sundays before breakfast."


@pytest.fixture
def aged(service: Service, monkeypatch: pytest.MonkeyPatch) -> Aged:
    return Aged(service, monkeypatch)


def labelled(aged: Aged, memory_id: UUID, *labels: str, **columns: object) -> UUID:
    """Set the caller's categories of a memory, and other columns."""
    for name, value in {"categories": list(labels), **columns}.items():
        aged.service.rows(f"UPDATE memories SET {name} = %s WHERE memory_id = %s", value, memory_id)  # noqa: S608
    return memory_id


def insert_finding(aged: Aged, memory_id: UUID, kind: str, category: str, pii: float, sensitivity: float) -> UUID:
    """Insert a privacy finding for a memory."""
    aged.service.rows(
        "INSERT INTO privacy_findings VALUES (%s, %s, 1, %s, %s, %s, %s)",
        *(aged.tenant_id, memory_id, [kind], [category], pii, sensitivity),
    )
    return memory_id


def rate(aged: Aged, memory_id: UUID, categories: list[str], sensitivity: float) -> None:
    """Insert a model's rating of a memory."""
    aged.service.rows(
        "INSERT INTO scores (tenant_id, memory_id, text_version, scorer, emotional, novelty, actionable, personal,"
        " uncertainty, inferred_categories, sensitivity) VALUES (%s, %s, 1, 'llm', 1, 1, 1, 1, 0, %s, %s)"
        " ON CONFLICT (tenant_id, memory_id) DO UPDATE SET scorer = 'llm',"
        " inferred_categories = excluded.inferred_categories, sensitivity = excluded.sensitivity",
        *(aged.tenant_id, memory_id, categories, sensitivity),
    )


def run(aged: Aged) -> Counter[str]:
    """Run an expiry job to its end, and return its counts."""
    state: dict[str, Any] = {}
    counts = Counter[str]()
    while True:
        did = expiry.run_job_slice(Job(uuid4(), aged.tenant_id, expiry.KIND, {}, state, None, 0))
        counts.update(did.counts)
        if did.finished:
            return counts
        state = did.state


def left(aged: Aged) -> set[UUID]:
    return {memory_id for (memory_id,) in aged.service.rows("SELECT memory_id FROM memories")}


def ends_on(aged: Aged, memory_id: UUID, day: float) -> bool:
    """Return True if the memory exists a second before this day begins and is gone when it begins."""
    aged.now = days(day) - SECOND
    run(aged)
    before = memory_id in left(aged)
    aged.now = days(day)
    run(aged)
    return before and memory_id not in left(aged)


@pytest.mark.acceptance(20)
@pytest.mark.parametrize(
    ("category", "limit"), [("pii", 30), ("financial", 90), ("casual", 180), ("Work", 365), ("mine", 3)]
)
def test_a_category_of_the_callers_ends_to_the_second_whatever_speaks_for_it(
    service: Service, monkeypatch: pytest.MonkeyPatch, category: str, limit: int
) -> None:
    aged = Aged(service, monkeypatch, Policy(privacy=Privacy(further=(Category("Mine", 3),))))
    [memory_id] = aged.remember(0, salience=1.0, access_count=100, kind=KINDS.index("procedural"))
    labelled(aged, memory_id, category, "decision", tags=["promise"])
    assert ends_on(aged, memory_id, limit)


@pytest.mark.parametrize(
    ("kind", "category", "pii", "sensitivity", "ends"),
    [
        ("iban", "financial", 0.99, 1.0, 90),
        ("secret", "credentials", 0.95, 1.0, 30),
        ("phone", "pii", 0.75, 0.7, 0.6 * 365),
        ("email", "pii", 1.0, 0.7, 0.1 * 365),
    ],
)
def test_what_was_found_ends_once_the_risk_is_above_its_threshold_and_the_limit_is_over(
    aged: Aged, kind: str, category: str, pii: float, sensitivity: float, ends: float
) -> None:
    [memory_id] = aged.remember(0, salience=1.0, access_count=100)
    insert_finding(aged, memory_id, kind, category, pii, sensitivity)
    assert ends_on(aged, memory_id, np.ceil(ends * 86_400) / 86_400)


def test_a_models_rating_neither_keeps_nor_shortens(aged: Aged) -> None:
    answers: list[tuple[list[str], float | None]] = [
        *(([], None), ([], 0.0), ([], 1.0), (["health"], 0.0), (["financial"], 1.0), (["casual"], 0.5))
    ]
    memory_ids = aged.remember(*(0 for _ in answers), salience=1.0)
    for memory_id, (inferred, sensitivity) in zip(memory_ids, answers, strict=True):
        insert_finding(aged, memory_id, "phone", "pii", 0.9, 0.7)
        if sensitivity is not None:
            rate(aged, memory_id, inferred, sensitivity)
    unfounded, *_ = aged.remember(0, salience=1.0)
    rate(aged, unfounded, ["financial"], 1.0)
    aged.now = days(109)
    assert run(aged) == {}
    aged.now = days(110)  # 0.3 years by the rules
    run(aged)
    assert left(aged) == {unfounded}, "a rating without a finding doesn't expire a memory"


def test_a_risk_that_stays_below_lets_decay_decide(aged: Aged) -> None:
    [memory_id] = aged.remember(0, salience=1.0)
    insert_finding(aged, memory_id, "phone", "pii", 0.55, 0.7)
    aged.now = days(1000)
    assert run(aged) == {}


def test_the_callers_category_takes_the_place_of_what_was_found(aged: Aged) -> None:
    longer, shorter, none = aged.remember(0, 0, 0)
    for memory_id in (longer, shorter, none):
        insert_finding(aged, memory_id, "iban", "financial", 0.99, 1.0)
    labelled(aged, longer, "work")
    labelled(aged, shorter, "pii")
    labelled(aged, none, "unheard of")
    aged.now = days(31)
    run(aged)
    assert left(aged) == {longer, none}
    aged.now = days(91)
    run(aged)
    assert left(aged) == {longer}, "a label that the policy doesn't know says nothing about privacy"


def test_health_stays_as_the_person_said(aged: Aged) -> None:
    given, inferred = aged.remember(0, 0)
    labelled(aged, given, "health")
    for memory_id in (given, inferred):
        insert_finding(aged, memory_id, "national_id", "pii", 0.99, 1.0)
    aged.service.rows("UPDATE privacy_findings SET categories = '{pii,health}' WHERE memory_id = %s", inferred)
    aged.now = days(5000)
    assert run(aged) == {}
    aged.decide(Policy(privacy=Privacy(health_days=10)), 5000)
    assert run(aged)["deleted"] == 2


def test_turns_of_a_thread_end_two_years_on_once_they_are_archived(aged: Aged) -> None:
    talk, alone, active = aged.remember(0, 0, 0, tier=["archived", "archived", "active"], salience=1.0)
    for memory_id in (talk, active):
        labelled(aged, memory_id, thread="t")
    aged.now = days(730) - SECOND
    assert run(aged) == {}
    aged.now = days(730)
    run(aged)
    assert left(aged) == {alone, active}


def test_a_memory_that_is_archived_after_two_years_goes_with_the_next_night(aged: Aged) -> None:
    [memory_id] = aged.remember(0, salience=0.1)
    labelled(aged, memory_id, thread="t")
    aged.now = days(800)
    assert run(aged) == {}
    archive.move_slice(aged.tenant_id, None, None)
    assert run(aged)["deleted"] == 1


def test_holds_win_and_release_lets_it_go(aged: Aged) -> None:
    held, _ = (labelled(aged, each, "pii") for each in aged.remember(0, 0))
    hold = legal_holds.place_hold(aged.tenant_id, Scope(memory_ids=[held]), "a case", "k")
    aged.now = days(40)
    run(aged)
    assert left(aged) == {held}
    legal_holds.release_hold(aged.tenant_id, hold.hold_id, "k")
    aged.service.rows("UPDATE memory_state SET next_due_at = '-infinity'")  # as the job that releases the hold does
    run(aged)
    assert left(aged) == set()


def test_another_policy_moves_the_dates(aged: Aged) -> None:
    [memory_id] = aged.remember(0, salience=1.0)
    labelled(aged, memory_id, "pii")
    run(aged)
    aged.decide(Policy(privacy=Privacy(pii_days=50)), 20)
    assert ends_on(aged, memory_id, 50)


def test_why_tells_the_limit_and_the_risk(aged: Aged) -> None:
    given, risky = aged.remember(0, 0, salience=1.0)
    labelled(aged, given, "pii")
    insert_finding(aged, risky, "card", "financial", 0.97, 1.0)
    aged.now = days(10)
    early = explanation.explain_tier(aged.tenant_id, given)
    assert (early.change_at, early.change and early.change.rule) == (days(30), "expiry")
    late = explanation.explain_tier(aged.tenant_id, given, days(30.5))
    assert late.verdict.why == (
        "the retention period of memories of the category pii is 30 days, and this memory is 30.5 days old"
    )
    reported = explanation.explain_tier(aged.tenant_id, risky, days(91))
    assert (reported.verdict.tier, reported.verdict.rule) == ("deleted", "expiry")
    assert reported.verdict.why.startswith(
        "privacy risk 0.8379 is above 0.7: the retention period of memories of the category financial"
    )


@pytest.mark.acceptance(20)
def test_a_dry_run_says_what_the_run_does(aged: Aged) -> None:
    made = aged.remember(*[-5.0 * place for place in range(40)], salience=0.4)
    for place, memory_id in enumerate(made):
        if place % 3 == 0:
            labelled(aged, memory_id, ["pii", "financial", "casual"][place % 9 // 3])
        if place % 4 == 0:
            insert_finding(aged, memory_id, "iban", "financial", 0.99, 1.0)
    reported = {
        move.memory_id: move.rule
        for move in expiry.preview_expiry(aged.tenant_id, days(3), None, 1000).moves
        if move.after == "deleted"
    }
    assert set(reported.values()) == {"expiry"}
    assert len(left(aged)) == 40, "nothing is written"
    aged.now = days(3)
    assert run(aged)["deleted"] == len(reported)
    assert set(made) - left(aged) == set(reported)
    [(items, details)] = aged.service.rows("SELECT items, details FROM audit WHERE action = 'memories_expired'")
    assert (items, details["rule"], details["by_category"] + details["by_risk"]) == (
        len(reported),
        "expiry",
        len(reported),
    )


def test_the_first_night_only_tells_of_it(aged: Aged) -> None:
    [memory_id] = aged.remember(-40, salience=0.1)
    labelled(aged, memory_id, "pii")
    counts = nights.run(aged.tenant_id, aged.now)
    assert (counts["expire.noticed"], left(aged)) == (1, {memory_id})
    assert aged.service.one("SELECT tier FROM memory_state") == "active", "no other rule moves it either"
    assert nights.run(aged.tenant_id, aged.now)["expire.deleted"] == 1
    assert left(aged) == set()


@pytest.mark.parametrize("page", [1, 1000])
def test_a_dry_run_lists_the_summaries_that_go_or_are_made_again(aged: Aged, page: int) -> None:
    sources = aged.remember(0, 0, 0, 0, salience=1.0)
    whole, partly, alone, held, faded = aged.remember(1, 1, 1, 1, 1, salience=1.0)
    labelled(aged, sources[1], "pii")
    labelled(aged, sources[2], "pii")
    for summary, of in (
        (whole, sources[1:3]),
        (partly, sources[:3]),
        (alone, sources[3:]),
        (held, sources[1:2]),
        (faded, sources[:2]),
    ):
        summarised(aged, summary, of)
    legal_holds.place_hold(aged.tenant_id, Scope(memory_ids=[held]), "a case", "k")
    aged.service.rows("UPDATE memory_state SET tier = 'archived' WHERE memory_id = %s", faded)
    reported: list[PredictedMove] = []
    after = None
    while True:
        found = expiry.preview_expiry(aged.tenant_id, days(31), after, page)
        reported += found.summaries
        if (after := found.following) is None:
            break
    assert {(each.memory_id, each.before, each.after) for each in reported} == {
        (whole, "active", "deleted"),
        (partly, "active", "active"),
        (faded, "archived", "deleted"),
    }
    assert len(reported) == 3, "each listed once"
    assert next(each.why for each in reported if each.memory_id == partly).endswith(
        "regenerated from the 1 remaining sources"
    )
    assert len(left(aged)) == 9


def summarised(aged: Aged, summary: UUID, sources: Sequence[UUID]) -> None:
    """Make a memory the summary of others."""
    merge = uuid4()
    aged.service.rows(
        "INSERT INTO merges "
        "(tenant_id, merge_id, run_id, action, status, level, cohesion, sources, summary_id, created_at) "
        "VALUES (%s, %s, %s, 'summary', 'done', 'medium', 1, 2, %s, now())",
        *(aged.tenant_id, merge, uuid4(), summary),
    )
    for memory_id in sources:
        aged.service.rows(
            "INSERT INTO lineage (tenant_id, merge_id, memory_id, text_version, part) VALUES (%s, %s, %s, 1, 'source')",
            *(aged.tenant_id, merge, memory_id),
        )


def summed(aged: Aged) -> tuple[UUID, UUID, UUID]:
    """Store two sources and their summary."""
    source, other, summary = aged.remember(0, 0, 0, salience=1.0)
    for memory_id, text in zip((source, other, summary), (SECRET, OTHER, f"{SECRET} {OTHER}"), strict=True):
        aged.service.rows("UPDATE memories SET text = %s WHERE memory_id = %s", text, memory_id)
    index.index_memories(aged.tenant_id, [source, other, summary])
    recount.recount_tenant(aged.tenant_id)
    merge = uuid4()
    aged.service.rows(
        "INSERT INTO merges "
        "(tenant_id, merge_id, run_id, action, status, level, cohesion, sources, summary_id, created_at) "
        "VALUES (%s, %s, %s, 'summary', 'done', 'medium', 1, 2, %s, now())",
        *(aged.tenant_id, merge, uuid4(), summary),
    )
    for memory_id in (source, other):
        aged.service.rows(
            "INSERT INTO lineage (tenant_id, merge_id, memory_id, text_version, part) VALUES (%s, %s, %s, 1, 'source')",
            *(aged.tenant_id, merge, memory_id),
        )
    return source, other, summary


def rederived(aged: Aged) -> Counter[str]:
    return summary_refresh.run_slice(aged.tenant_id, None, NIL, time.monotonic() + PATIENCE_SECONDS)[0]


def test_a_summary_of_what_expired_is_hidden_and_made_again_of_what_remains(aged: Aged) -> None:
    source, other, summary = summed(aged)
    labelled(aged, source, "pii")
    labelled(aged, summary, "work")
    aged.now = days(30)
    assert run(aged) == {"deleted": 1, "again": 1}
    assert left(aged) == {other, summary}
    [(details,)] = aged.service.rows("SELECT details FROM audit WHERE action = 'memories_expired'")
    assert (details["summaries"], details["made_again"]) == (0, 1)
    with pytest.raises(NotFound):
        lookup.get(aged.tenant_id, summary)
    assert aged.service.one("SELECT count(*) FROM memory_words WHERE memory_id = %s", summary) == 0
    assert aged.service.one("SELECT kind FROM jobs") == summary_refresh.KIND
    assert rederived(aged)["summaries"] == 1
    shown = lookup.get(aged.tenant_id, summary)
    assert isinstance(shown, StoredMemory)
    assert "4711" not in shown.text
    assert "garden" in shown.text
    assert aged.service.one("SELECT count(*) FROM memory_words WHERE words::text LIKE '%%4711%%'") == 0
    assert aged.service.one("SELECT count(*) FROM hidden_memories") == 0
    assert recount.recount_tenant(aged.tenant_id) == tenant_counts.NONE
    moved = aged.service.rows("SELECT move, rule, memories FROM tier_moves ORDER BY move")
    assert moved == [("expired", "category", 1), ("hidden", "source_expired", 1), ("restored", "made_again", 1)]
    aged.now = days(31)
    assert run(aged) == {}, "once is enough"


@pytest.mark.parametrize("gone", ["expired", "deleted"])
def test_a_summary_goes_where_nothing_remains_to_make_it_of(aged: Aged, gone: str) -> None:
    source, other, summary = summed(aged)
    labelled(aged, source, "pii")
    if gone == "expired":
        labelled(aged, other, "pii")
    aged.now = days(30)
    if gone == "deleted":
        expiry.expire_slice(aged.tenant_id, aged.now)
        run(aged)
        memories.delete(aged.tenant_id, other, "key")
        assert rederived(aged)["removed"] == 1
        assert left(aged) == {other}, "hidden during its grace period"
    else:
        assert run(aged) == {"deleted": 3, "summaries": 1}
        assert left(aged) == set()
    assert summary not in left(aged)


def test_a_held_summary_stays_as_it_is(aged: Aged) -> None:
    source, other, summary = summed(aged)
    labelled(aged, source, "pii")
    legal_holds.place_hold(aged.tenant_id, Scope(memory_ids=[summary]), "a case", "k")
    aged.now = days(30)
    assert run(aged) == {"deleted": 1}
    assert left(aged) == {other, summary}
    assert rederived(aged) == {}
    assert "4711" in lookup.get(aged.tenant_id, summary).text  # type: ignore[union-attr]


@pytest.mark.acceptance(20)
def test_the_categories_told_are_the_policys_and_the_jobs(aged: Aged) -> None:
    given, risky, held = aged.remember(0, 0, -1, salience=1.0)
    labelled(aged, given, "pii")
    labelled(aged, held, "pii")
    insert_finding(aged, risky, "secret", "credentials", 0.95, 1.0)
    legal_holds.place_hold(aged.tenant_id, Scope(memory_ids=[held]), "a case", "k")
    aged.decide(Policy(privacy=Privacy(pii_days=20)), 0)
    reported = {each.name: each for each in categories.count_categories(aged.tenant_id).categories}
    assert (reported["pii"].max_days, reported["pii"].memories, reported["pii"].next_expiry_at) == (20, 2, days(20))
    assert (reported[None].memories, reported[None].next_expiry_at) == (1, days(30)), (
        "the retention period that follows from its risk"
    )
    assert reported["credentials"].memories == 1
    assert ends_on(aged, given, 20)
    assert ends_on(aged, risky, 30)
    assert left(aged) == {held}


def test_other_tenants_memories_stay(service: Service, aged: Aged) -> None:
    [mine] = aged.remember(0)
    labelled(aged, mine, "pii")
    other = service.tenant().tenant_id
    service.rows("UPDATE policies SET effective_at = %s", days(-10_000))
    aged.now = days(50)
    assert expiry.preview_expiry(other, None, None, 10).moves == []
    assert categories.count_categories(other).categories[0].memories == 0
    sweep.sweep(other)
    assert expiry.expire_slice(other) == (Counter(), None)
    assert left(aged) == {mine}


# --- Stored findings ---


def findings(service: Service) -> list[tuple[Any, ...]]:
    return service.rows("SELECT memory_id, kinds, categories, round(pii::numeric, 2)::float FROM privacy_findings")


def test_what_is_personal_is_found_as_it_comes_in_and_struck_out_as_it_goes(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    personal, _ = service.send(tenant_id, {"text": "write to a.b@posteo.de"}, {"text": "the cat sleeps"})
    service.work()
    assert findings(service) == [(personal, ["email"], ["pii"], 0.99)]
    text = "pay DE89 3704 0044 0532 0130 00 instead"
    memories.edit_memory(tenant_id, personal, MemoryPatch(text=text))
    assert findings(service) == [(personal, ["iban"], ["financial"], 0.99)]
    service.rows("UPDATE memory_state SET next_due_at = 'infinity'")
    memories.edit_memory(tenant_id, personal, MemoryPatch(text="no number any more"))
    assert findings(service) == []
    assert service.one("SELECT next_due_at = '-infinity' FROM memory_state WHERE memory_id = %s", personal)
    index.index_memories(tenant_id, [personal])
    assert findings(service) == []


def test_an_update_by_its_key_is_looked_through_too(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    [first] = service.send(tenant_id, {"text": "hello", "external_id": "k"})
    service.work()
    service.send(tenant_id, {"text": "mail a.b@posteo.de", "external_id": "k"})
    service.work()
    assert [row[0] for row in findings(service)] == [first]


def test_numbers_are_read_as_those_of_the_time_zones_country_or_the_policys(service: Service) -> None:
    text = "Her phone is 030 901820, ask for Petra"
    berlin, chosen = Policy(time_zone="Europe/Berlin"), Policy(privacy=Privacy(regions=("DE",)))
    for policy, many in ((Policy(), 0), (berlin, 1), (chosen, 2)):
        tenant_id = service.tenant(policy).tenant_id
        service.send(tenant_id, {"text": text})
        service.work()
        assert len(findings(service)) == many


def test_a_slice_that_dies_leaves_all_as_it_was(aged: Aged, monkeypatch: pytest.MonkeyPatch) -> None:
    [memory_id] = aged.remember(-40)
    labelled(aged, memory_id, "pii")
    nights.swept(aged.tenant_id)

    def die(name: str) -> None:
        raise RuntimeError(name)

    monkeypatch.setattr(failpoints, "trigger", die)
    with pytest.raises(RuntimeError):
        expiry.expire_slice(aged.tenant_id)
    assert left(aged) == {memory_id}
    with database.tenant(aged.tenant_id) as tx:
        assert database.now(tx) == aged.now
