"""The night gives keep chances to memories that an earlier version scored: in slices, repeatably, without a jump."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.tiers import keep_calibration
from app.services.enrichment import keep_chance_fill
from app.services.memories import memories
from app.services.memories.explanation import explain_tier
from app.store.core import database
from app.store.strength import states
from tests.service import Service, Tenant

FACT = "I'm allergic to penicillin, and Ines Okafor is my doctor."
CHATTER = "ok thanks"


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def stored(service: Service, tenant: Tenant, *given: dict[str, Any]) -> list[UUID]:
    """Store memories as an earlier version would have: scored, without chances, and looked at by a sweep."""
    ids = service.send(tenant.tenant_id, *given)
    service.work()
    service.rows("UPDATE scores SET keep_chance = NULL")
    service.rows("UPDATE memory_state SET keep_chance = NULL, next_due_at = 'infinity'")
    return ids


def chances(service: Service, ids: list[UUID]) -> list[float | None]:
    found = dict(service.rows("SELECT memory_id, keep_chance FROM memory_state"))
    return [found[memory_id] for memory_id in ids]


def fill(tenant: Tenant) -> tuple[int, int]:
    """Fill in chances in as many slices as needed, each of one page; return the number of memories and of slices."""
    filled, slices, state = 0, 0, dict[str, Any]()
    while True:
        step = keep_chance_fill.run_slice(tenant.tenant_id, None, state, time.monotonic())
        filled, slices, state = filled + step.done, slices + 1, step.state
        if step.finished:
            return filled, slices


def test_chances_are_filled_in_and_equal_those_of_a_new_score(service: Service, tenant: Tenant) -> None:
    given = [{"text": FACT, "role": "user", "thread": "t"}, {"text": CHATTER, "role": "assistant", "thread": "t"}]
    new = service.send(tenant.tenant_id, *given)
    service.work()
    expected = chances(service, new)
    assert None not in expected
    service.rows("UPDATE scores SET keep_chance = NULL")
    service.rows("UPDATE memory_state SET keep_chance = NULL")
    assert fill(tenant) == (2, 1)
    assert chances(service, new) == expected
    assert fill(tenant) == (0, 1), "a second run finds nothing to do"


def test_until_then_the_salience_decides_and_afterwards_the_sweep_decides_again(
    service: Service, tenant: Tenant
) -> None:
    [memory_id] = stored(service, tenant, {"text": FACT, "role": "user"})
    service.rows("UPDATE memories SET created_at = created_at - interval '300 days'")
    service.rows(
        "UPDATE memory_state SET created_at = created_at - interval '300 days', accessed_at = accessed_at - "
        "interval '300 days', anchored_at = anchored_at - interval '300 days'"
    )
    assert explain_tier(tenant.tenant_id, memory_id).verdict.rule == "salience"
    with database.tenant(tenant.tenant_id) as tx:
        before = states.read(tx, tenant.tenant_id, [memory_id])
    fill(tenant)
    with database.tenant(tenant.tenant_id) as tx:
        after = states.read(tx, tenant.tenant_id, [memory_id])
    assert before.state == after.state, "neither the anchor nor another input of strength changes"
    assert after.next_due_at[0] == float("-inf")
    assert explain_tier(tenant.tenant_id, memory_id).verdict.rule == "keep_chance"


def test_a_fill_resumes_where_it_stopped(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = stored(service, tenant, *({"text": f"{FACT} {number}"} for number in range(5)))
    monkeypatch.setattr(keep_chance_fill, "ROWS", 2)
    first = keep_chance_fill.run_slice(tenant.tenant_id, None, {}, time.monotonic())
    assert (first.done, first.finished) == (2, False)
    assert [chance is None for chance in chances(service, sorted(ids))] == [False, False, True, True, True]
    second = keep_chance_fill.run_slice(tenant.tenant_id, None, first.state, time.monotonic())
    assert (second.done, second.finished) == (2, False)
    assert fill(tenant)[0] == 1
    assert None not in chances(service, ids)


def test_what_the_caller_or_a_model_rated_has_no_chance_of_the_rules(service: Service, tenant: Tenant) -> None:
    ids = stored(service, tenant, {"text": FACT, "salience": 0.4}, {"text": CHATTER})
    service.rows("UPDATE memory_state SET salience_source = 'llm' WHERE memory_id = %s", ids[1])
    service.rows("UPDATE scores SET scorer = 'llm'")
    assert fill(tenant) == (0, 1)
    assert chances(service, ids) == [None, None]
    assert explain_tier(tenant.tenant_id, ids[0]).case.keep_chance is not None, "it follows from the salience"


def test_a_summary_has_the_highest_chance_of_its_sources(service: Service, tenant: Tenant) -> None:
    *sources, summary = stored(service, tenant, {"text": FACT}, {"text": CHATTER}, {"text": "A summary."})
    service.rows("UPDATE memory_state SET salience_source = 'consolidation' WHERE memory_id = %s", summary)
    for source in sources:
        service.rows(
            "INSERT INTO links (tenant_id, memory_id, other_id, kind, weight, source) "
            "VALUES (%s, %s, %s, 'summarises', 1, 'consolidation')",
            *(tenant.tenant_id, summary, source),
        )
    assert fill(tenant) == (3, 1)
    *of_sources, of_summary = chances(service, [*sources, summary])
    assert of_summary == max(chance for chance in of_sources if chance is not None)


def test_chances_of_an_earlier_version_are_computed_again_once(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = stored(service, tenant, {"text": FACT}, {"text": CHATTER})
    fill(tenant)
    expected = chances(service, ids)
    service.rows("UPDATE scores SET keep_chance = 0.5")
    service.rows("UPDATE memory_state SET keep_chance = 0.5, next_due_at = 'infinity'")
    assert fill(tenant) == (0, 1), "the tenant's chances have the current version"
    assert chances(service, ids) == [0.5, 0.5]
    monkeypatch.setattr(keep_calibration, "CHANCES_VERSION", keep_calibration.CHANCES_VERSION + 1)
    monkeypatch.setattr(keep_chance_fill, "ROWS", 1)
    first = keep_chance_fill.run_slice(tenant.tenant_id, None, {}, time.monotonic())
    assert (first.done, first.finished) == (1, False)
    assert fill(tenant)[0] == 1, "an interrupted night starts again, and finds one memory with another chance"
    assert chances(service, ids) == expected
    assert service.rows("SELECT DISTINCT next_due_at = '-infinity' FROM memory_state") == [(True,)]
    service.rows("UPDATE memory_state SET keep_chance = 0.5")
    assert fill(tenant)[0] == 0, "the new version is recorded"


def test_a_summary_keeps_the_chance_of_a_source_that_is_gone(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, summary = stored(service, tenant, {"text": CHATTER}, {"text": "A summary."})
    service.rows(
        "UPDATE memory_state SET salience_source = 'consolidation', keep_chance = 0.6 WHERE memory_id = %s", summary
    )
    service.rows(
        "INSERT INTO links (tenant_id, memory_id, other_id, kind, weight, source) "
        "VALUES (%s, %s, %s, 'summarises', 1, 'consolidation')",
        *(tenant.tenant_id, summary, source),
    )
    monkeypatch.setattr(keep_calibration, "CHANCES_VERSION", keep_calibration.CHANCES_VERSION + 1)
    fill(tenant)
    assert chances(service, [summary]) == [pytest.approx(0.6)]


def test_an_edited_text_waits_for_its_new_score(service: Service, tenant: Tenant) -> None:
    [memory_id] = stored(service, tenant, {"text": FACT})
    memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text=CHATTER))
    assert fill(tenant) == (0, 1)
    service.work()
    assert chances(service, [memory_id])[0] is not None
