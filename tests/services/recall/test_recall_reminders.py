"""Reminder flags bring up memories that share no word with the conversation: when they are set, and what they find."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Policy
from app.domain.recall.bridges import read_flags
from app.domain.recall.parameters import Recall
from app.domain.recall.request import RecallRequest
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.memories import memories
from app.services.recall import judgement
from app.services.recall.recall import recall_memories
from app.store.core import database
from app.store.enrichment import reminders, work_queue
from app.store.enrichment.reminders import ReminderFlags
from app.store.erasure import residue
from app.store.tiers import row_deletion
from tests.service import Service, Tenant
from tests.services.archived_memories import LONG_AGO_DAYS, archive_all, fade
from tests.services.mergeable import LIKE, Alike

ALLERGY = "Triin swells up from shellfish, she is allergic"
PILLS = "The doctor put me on 20 mg of something"
DAYS = "Jodie is off on Tuesdays"
BOAT = "We rowed the boat across the lake"
QUESTION = "I invite friends on Tuesday, what shall I cook for dinner?"


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def store(service: Service, tenant: Tenant, *given: str | dict[str, Any]) -> list[UUID]:
    ids = service.send(tenant.tenant_id, *given)
    service.work()
    return ids


def flags(service: Service, *memory_ids: UUID) -> list[int | None]:
    found = dict(service.rows("SELECT memory_id, reminders FROM memory_state"))
    return [found.get(memory_id) for memory_id in memory_ids]


def bring(tenant: Tenant, *messages: str, **more: Any) -> list[UUID]:
    request = RecallRequest(list(messages), **more)
    return [each.id for each in recall_memories(tenant.tenant_id, request, Policy()).memories]


# --- Setting ---


def test_they_are_set_once_a_memory_is_indexed_also_where_the_caller_scored_it(
    service: Service, tenant: Tenant
) -> None:
    ids = service.send(tenant.tenant_id, ALLERGY, DAYS, BOAT, {"text": PILLS, "salience": 0.9})
    drain.drain_streams()
    assert flags(service, *ids) == [None] * 4
    stage_runner.run_index_stage()
    allergy, days, boat, pills = flags(service, *ids)
    assert (allergy, days, boat, pills) == (read_flags(ALLERGY), read_flags(DAYS), None, read_flags(PILLS))
    assert len({allergy, days, pills}) == 3


def test_an_edit_sets_them_by_the_new_text_and_an_update_too(service: Service, tenant: Tenant) -> None:
    [edited, updated] = store(service, tenant, ALLERGY, {"text": DAYS, "external_id": "x"})
    memories.edit_memory(tenant.tenant_id, edited, MemoryPatch(text=DAYS))
    store(service, tenant, {"text": BOAT, "external_id": "x"})
    assert flags(service, edited, updated) == [read_flags(DAYS), None]
    memories.edit_memory(tenant.tenant_id, edited, MemoryPatch(tags=("a",)))
    assert flags(service, edited) == [read_flags(DAYS)]


def test_flags_of_an_older_text_are_not_written(service: Service, tenant: Tenant) -> None:
    [memory_id] = store(service, tenant, BOAT)
    memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text=DAYS))
    with database.tenant(tenant.tenant_id) as tx:
        reminders.write(tx, tenant.tenant_id, [ReminderFlags(memory_id, 1, read_flags(ALLERGY))])
    assert flags(service, memory_id) == [read_flags(DAYS)]


def test_memories_that_are_indexed_again_get_flags_they_lack(service: Service, tenant: Tenant) -> None:
    """The migration queues older memories for indexing in this way."""
    ids = store(service, tenant, ALLERGY, BOAT)
    service.rows("UPDATE memory_state SET reminders = NULL")
    with database.tenant(tenant.tenant_id) as tx:
        work_queue.add(tx, [work_queue.INDEX], tenant.tenant_id, ids)
    stage_runner.run_index_stage()
    assert flags(service, *ids) == [read_flags(ALLERGY), None]


def test_what_is_removed_leaves_none_behind(service: Service, tenant: Tenant) -> None:
    gone, stays = store(service, tenant, ALLERGY, ALLERGY)
    with database.tenant(tenant.tenant_id) as tx:
        row_deletion.remove(tx, tenant.tenant_id, [gone])
        assert set(residue.by_id(tx, tenant.tenant_id, [gone]).values()) == {0}
    assert flags(service, gone, stays) == [None, read_flags(ALLERGY)]
    assert held(tenant, read_flags(ALLERGY) & 1) == (1, [stays])


def test_a_summary_has_those_of_its_own_text_when_it_is_made_and_made_again(service: Service) -> None:
    alike = Alike(service)
    alike.remember(*(f"{text} on Mondays" for text in LIKE), days=40, subject="ann")
    alike.run()
    [summary] = alike.summaries()
    assert flags(service, summary) == [read_flags("on Mondays")]
    service.rows("UPDATE memory_state SET reminders = NULL")
    [source, *_] = service.rows("SELECT memory_id FROM lineage WHERE part = 'source' ORDER BY memory_id")
    memories.delete(alike.tenant_id, source[0])
    assert alike.rederive()
    assert flags(service, summary) == [read_flags("on Mondays")]


# --- Lookup ---


def held(tenant: Tenant, flag: int, most: int = 40, **filters: Any) -> tuple[int, list[UUID]]:
    request = RecallRequest(["x"], **filters).search(["x"], 1)
    with database.tenant(tenant.tenant_id) as tx:
        return reminders.find_holders(tx, tenant.tenant_id, [flag], request, most)[flag]


EAT = read_flags(ALLERGY) & ~read_flags(PILLS)


def test_holders_are_counted_and_listed_the_newest_first(service: Service, tenant: Tenant) -> None:
    ids = store(service, tenant, ALLERGY, BOAT, f"{ALLERGY}!", f"{ALLERGY}?")
    assert held(tenant, EAT) == (3, [ids[3], ids[2], ids[0]])
    assert held(tenant, EAT, most=2) == (3, [ids[3], ids[2]])
    assert held(tenant, read_flags(DAYS)) == (0, [])


def test_holders_pass_the_filters_of_the_request(service: Service, tenant: Tenant) -> None:
    given: list[dict[str, Any]] = [{"text": ALLERGY, "subject": name, "thread": name, "tags": [name]} for name in "ab"]
    first, second = store(service, tenant, *given)
    for filters in ({"subject": "a"}, {"thread": "a"}, {"tags": ("a",)}, {"exclude_thread": "b"}):
        assert held(tenant, EAT, **filters) == (2, [first]), filters
    assert held(tenant, EAT) == (2, [second, first])


def test_the_deleted_the_archived_and_those_of_others_are_no_holders(service: Service, tenant: Tenant) -> None:
    [gone, away, there] = store(service, tenant, ALLERGY, ALLERGY, ALLERGY)
    store(service, service.tenant(), ALLERGY)
    memories.delete(tenant.tenant_id, gone)
    fade(service, [away], days=LONG_AGO_DAYS)
    archive_all(tenant.tenant_id)
    assert held(tenant, EAT) == (1, [there])
    assert flags(service, away) == [read_flags(ALLERGY)]
    memories.edit_memory(tenant.tenant_id, away, MemoryPatch(tags=("back",)))
    assert held(tenant, EAT) == (2, [there, away])


# --- Effect on a recall ---


def test_a_memory_without_a_word_or_a_meaning_in_common_comes_up_by_a_bridge(service: Service, tenant: Tenant) -> None:
    fillers = [f"On Tuesday friends of mine rowed the boat after dinner, {n} miles" for n in range(60)]
    [allergy, *_] = store(service, tenant, ALLERGY, *fillers)
    assert allergy in bring(tenant, QUESTION)
    assert allergy not in bring(tenant, "I invite friends on Tuesday, how shall we row the boat?", least=0.0, limit=20)


def test_holders_of_the_rarest_flag_join_first_and_only_so_many(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judgement, "POOL", 3)
    rare, *many = store(service, tenant, ALLERGY, *[f"{DAYS}, it is number {n}" for n in range(8)])
    found = bring(tenant, QUESTION, least=0.0, limit=20)
    assert rare in found
    assert len(found) <= 6
    assert not set(found).isdisjoint(many[-3:])


def test_a_bridge_that_many_hold_says_less(service: Service, tenant: Tenant) -> None:
    def bridge(tenant: Tenant) -> float:
        request = RecallRequest([QUESTION], least=0.0, limit=20, explain=True)
        found = recall_memories(tenant.tenant_id, request, Policy(recall=Recall(most=20))).memories
        [first] = [each for each in found if each.text == ALLERGY]
        assert first.explain is not None
        return float(first.explain["memory"]["bridge"])

    store(service, tenant, ALLERGY, *[f"{BOAT} {n}" for n in range(20)])
    crowded = service.tenant()
    store(service, crowded, ALLERGY, *[f"Guest {n} is vegan" for n in range(20)])
    assert bridge(tenant) > bridge(crowded) > 0
