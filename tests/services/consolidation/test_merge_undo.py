"""Merges after the fact: undo, approval, refusal, regeneration, and concurrent changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from app import metrics
from app.domain.consolidation.parameters import Consolidation
from app.domain.ingest.memory import MemoryPatch
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict, NotFound
from app.services.consolidation import approval, consolidation_run, merge_log, merge_undo
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories, recount
from app.services.privacy import legal_holds
from app.services.storage import lookup
from tests.service import Service
from tests.services import archived_memories
from tests.services.due_deletions import erased, worked
from tests.services.mergeable import LIKE, Alike, alike

__all__ = ["alike"]

ASKING = Policy(consolidation=Consolidation(rule="cohesion", merged_from=1.0, asked_from=0.5))


def approve(tenant_id: UUID, merge_id: UUID) -> Any:
    return approval.run_job_slice(
        Job(uuid4(), tenant_id, "approve", approval.job_parameters(tenant_id, merge_id, "me"), {}, None, 0)
    )


def text_of(alike: Alike, memory_id: UUID) -> str:
    found: str = alike.service.one("SELECT text FROM memories WHERE memory_id = %s", memory_id)
    return found


def test_undone_all_is_as_it_was(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann", thread="t")
    before = alike.whole(ids)
    alike.run()
    [summary_id] = alike.summaries()
    assert alike.whole(ids) != before
    undone = merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    assert (undone.status, undone.summary_id, undone.decided_by) == ("undone", None, "me")
    alike.settle()
    archived_memories.swept(alike.tenant_id)
    assert alike.whole(ids) == before
    assert not alike.summaries()
    for table in ("links", "embeddings", "memory_words", "memory_state"):
        assert not alike.service.rows(f"SELECT FROM {table} WHERE memory_id = %s", summary_id), table
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
    alike.again()
    assert "summaries" not in alike.run(), "an undone merge isn't repeated"
    with pytest.raises(Conflict, match="undone"):
        merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    assert metrics.read_counters()["merges_undone"] == 1


def test_with_a_new_memory_an_undone_group_is_merged_again(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.run()
    merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    alike.settle()
    alike.remember("the boat lies in the harbour and waits for the rain again", subject="ann")
    alike.again()
    assert alike.run()["summaries"] == 1


def test_a_source_that_was_used_meanwhile_stays_as_it_is(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    used = next(each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived")
    archived_memories.act_on(alike.tenant_id, used, "use")
    alike.settle()
    state = alike.whole([used])
    merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    alike.settle()
    assert alike.whole([used])["state"] == state["state"]
    assert alike.tiers(ids) == ["active"] * len(ids)
    alike.check()


def test_links_are_undone_too(alike: Alike) -> None:
    alike.remember(*LIKE[:2])
    alike.run()
    merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    assert not alike.service.rows("SELECT FROM links")


def test_what_is_held_or_in_cold_storage_stands_against_it(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    hold = legal_holds.place_hold(alike.tenant_id, Scope(subject="ann"), "case", "me")
    with pytest.raises(Conflict, match=str(hold.hold_id)):
        merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")
    legal_holds.release_hold(alike.tenant_id, hold.hold_id, "me")
    away = next(each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived")
    alike.service.rows("UPDATE memory_state SET tier = 'cold' WHERE memory_id = %s", away)
    with pytest.raises(Conflict, match=f"{away}.*restore"):
        merge_undo.undo_merge(alike.tenant_id, alike.merge_id(), "me")


def test_an_edit_of_a_source_makes_its_summary_again(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    edited = next(each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived")
    memories.edit_memory(
        alike.tenant_id, edited, MemoryPatch(text="Zaragoza is the harbour of the boat that waits for rain")
    )
    assert merge_log.get(alike.tenant_id, alike.merge_id()).merge.is_stale
    assert alike.service.one("SELECT kind FROM jobs") == "rederive"
    assert alike.rederive()["summaries"] == 1
    shown = merge_log.get(alike.tenant_id, alike.merge_id())
    assert not shown.merge.is_stale
    assert {each.text_version for each in shown.ancestors if each.memory_id == edited} == {2}
    assert alike.summaries() == [summary_id]
    assert summary_id in {
        result.id for result in archived_memories.search_tiers(alike.tenant_id, text_of(alike, summary_id))
    }
    alike.check()


def test_what_was_deleted_is_in_no_summary(alike: Alike) -> None:
    texts = [text.replace("boat", f"boat of Quentin{n}") for n, text in enumerate(LIKE)]
    ids = alike.remember(*texts, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    gone = [each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived"]
    memories.delete(alike.tenant_id, gone[0])
    said = text_of(alike, gone[0]).split("Quentin")[1][0]
    alike.rederive()
    assert f"Quentin{said}" not in text_of(alike, summary_id)
    assert gone[0] not in {each.memory_id for each in merge_log.get(alike.tenant_id, alike.merge_id()).ancestors}
    for memory_id in gone[1:]:
        memories.delete(alike.tenant_id, memory_id)
    alike.rederive()
    with pytest.raises(NotFound):
        lookup.get(alike.tenant_id, summary_id)
    erased(alike.tenant_id)
    assert not alike.summaries()
    assert alike.merges()[0][1] == "gone"
    assert not any(recount.recount_tenant(alike.tenant_id))


def test_what_is_about_somebody_else_by_now_leaves_the_summary(alike: Alike) -> None:
    ids = alike.remember(*(text.replace("boat", f"boat of Quentin{n}") for n, text in enumerate(LIKE)), subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    moved = next(each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived")
    said = text_of(alike, moved).split("Quentin")[1][0]
    memories.edit_memory(alike.tenant_id, moved, MemoryPatch(subject="bob", categories=("health",)))
    alike.rederive()
    assert f"Quentin{said}" not in text_of(alike, summary_id)
    assert alike.service.one("SELECT categories FROM memories WHERE memory_id = %s", summary_id) == []


def test_what_somebody_has_written_into_a_summary_stays_until_a_source_is_deleted(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    memories.edit_memory(alike.tenant_id, summary_id, MemoryPatch(text="my own words"))
    gone = [each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived"]
    memories.edit_memory(alike.tenant_id, gone[0], MemoryPatch(text="another boat in the harbour"))
    alike.rederive()
    assert text_of(alike, summary_id) == "my own words"
    memories.delete(alike.tenant_id, gone[1])
    alike.rederive()
    assert text_of(alike, summary_id) != "my own words"


def test_what_waits_is_shown_and_merged_by_a_yes(service: Service) -> None:
    alike = Alike(service, ASKING)
    ids = alike.remember(*LIKE, subject="ann")
    assert alike.run()["waiting"] == 1
    counted = metrics.read_counters()
    assert (counted["merges_put_off"], counted["summaries_made"]) == (1, 0)
    assert alike.tiers(ids) == ["active"] * len(ids)
    reported = merge_log.preview_merge(alike.tenant_id, alike.merge_id())
    assert reported.summary is not None
    assert "harbour" in reported.summary.text
    assert len(reported.texts) == len(ids)
    assert approve(alike.tenant_id, alike.merge_id()).finished
    alike.settle()
    merge = merge_log.get(alike.tenant_id, alike.merge_id()).merge
    assert (merge.status, merge.decided_by, merge.action) == ("done", "me", "duplicates")
    counted = metrics.read_counters()
    assert (counted["merges_put_off"], counted["summaries_made"]) == (1, 1)
    assert counted["merged_memories"] == merge.sources
    assert alike.summaries() == [merge.summary_id]
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()
    with pytest.raises(Conflict):
        approval.reject_merge(alike.tenant_id, merge.merge_id, "me")


def test_what_was_refused_does_not_come_again(service: Service) -> None:
    alike = Alike(service, ASKING)
    alike.remember(*LIKE, subject="ann")
    alike.run()
    assert approval.reject_merge(alike.tenant_id, alike.merge_id(), "me").status == "rejected"
    alike.again()
    assert "waiting" not in alike.run()
    with pytest.raises(NotFound):
        approval.reject_merge(alike.tenant_id, uuid4(), "me")


ACTS: dict[str, Callable[[Alike, UUID], Any]] = {
    "edit": lambda alike, memory_id: archived_memories.act_on(alike.tenant_id, memory_id, "edit"),
    "delete": lambda alike, memory_id: archived_memories.act_on(alike.tenant_id, memory_id, "delete"),
    "hold": lambda alike, memory_id: legal_holds.place_hold(
        alike.tenant_id, Scope(memory_ids=[memory_id]), "case", "me"
    ),
    "use": lambda alike, memory_id: archived_memories.act_on(alike.tenant_id, memory_id, "use"),
}


@pytest.mark.parametrize("act", ACTS)
def test_what_happens_while_a_summary_is_written_wins(alike: Alike, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    made_of = consolidation_run.attach_summaries

    def interrupted(tenant_id: UUID, plans: Any) -> Any:
        made = made_of(tenant_id, plans)
        ACTS[act](alike, plans[0].taken_ids[0])
        return made

    monkeypatch.setattr(consolidation_run, "attach_summaries", interrupted)
    alike.run()
    assert not alike.summaries()
    assert alike.tiers(ids).count("archived") == 0
    monkeypatch.undo()
    alike.again()
    alike.settle()
    alike.run()
    assert len(alike.summaries()) == 1
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()


def test_an_erased_source_leaves_its_summary_which_says_nothing_of_it(alike: Alike) -> None:
    ids = alike.remember(*LIKE, subject="ann")
    alike.run()
    [summary_id] = alike.summaries()
    gone = next(each for each, tier in zip(ids, alike.tiers(ids), strict=True) if tier == "archived")
    said = text_of(alike, gone)
    asked = requests.request(alike.tenant_id, ErasureOptions(Scope(memory_ids=[gone]), "gdpr", 0), "key")
    with pytest.raises(NotFound):
        lookup.get(alike.tenant_id, summary_id)
    worked(alike.service)
    assert requests.get(alike.tenant_id, asked.erasure_id).status == "verified"
    assert alike.summaries() == [summary_id]
    assert lookup.get(alike.tenant_id, summary_id).memory_id == summary_id
    assert said not in text_of(alike, summary_id)
    assert alike.service.rows("SELECT FROM lineage WHERE memory_id = %s", gone) == []
    assert not any(recount.recount_tenant(alike.tenant_id))
    alike.check()


def test_with_all_of_its_sources_a_summary_is_erased(alike: Alike) -> None:
    alike.remember(*LIKE, subject="ann")
    alike.run()
    asked = requests.request(alike.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key")
    worked(alike.service)
    assert requests.get(alike.tenant_id, asked.erasure_id).status == "verified"
    assert alike.service.rows("SELECT FROM memories") == []
    assert alike.service.rows("SELECT FROM merges WHERE key_points <> '{}'") == []
