"""Erasures of a summary's sources: it is regenerated without them, and a deleted summary stays deleted."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import chain
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from app.domain.ingest.memory import MemoryPatch
from app.domain.ingest.sources import Writer
from app.domain.jobs import ERASE, Job
from app.domain.privacy.legal_hold import Scope
from app.errors import NotFound
from app.services.consolidation import summary_refresh, supersession
from app.services.erasure import execution, requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories, recount
from app.services.privacy import legal_holds
from app.services.storage import lookup
from app.services.tiers import decay_deletion
from app.store.core import database
from app.store.erasure import hidden_memories
from app.store.memories import tenant_counts
from tests.service import Service
from tests.services.aged import days
from tests.services.due_deletions import worked
from tests.services.mergeable import LIKE, Alike


class Made(Alike):
    """A summary about Ann, and its sources."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self.remember(*LIKE, days=40, subject="ann")
        self.run()
        [self.summary] = self.summaries()
        found = service.rows("SELECT memory_id FROM lineage WHERE part = 'source' ORDER BY memory_id")
        self.sources: list[UUID] = [memory_id for (memory_id,) in found]

    def ask(self, grace_days: int = 7, **scope: Any) -> UUID:
        asked = ErasureOptions(Scope(**scope), "gdpr", grace_days)
        return requests.request(self.tenant_id, asked, "key").erasure_id

    def status(self, erasure_id: UUID) -> str:
        return requests.get(self.tenant_id, erasure_id).status

    def is_seen(self, memory_id: UUID) -> bool:
        try:
            lookup.get(self.tenant_id, memory_id)
        except NotFound:
            return False
        return True

    def text(self) -> str:
        found: str = self.service.one("SELECT text FROM memories WHERE memory_id = %s", self.summary)
        return found

    def made_of(self) -> set[UUID]:
        found = self.service.rows("SELECT memory_id FROM lineage WHERE part = 'source'")
        return {memory_id for (memory_id,) in found}


@pytest.fixture
def made(service: Service) -> Made:
    return Made(service)


def test_one_that_was_deleted_itself_doesnt_come_back_when_it_is_made_again(made: Made) -> None:
    memories.delete(made.tenant_id, made.summary)
    memories.delete(made.tenant_id, made.sources[0])
    made.rederive()
    assert not made.is_seen(made.summary)
    assert made.service.one("SELECT count(*) FROM memory_words WHERE memory_id = %s", made.summary) == 0
    [deletion] = [
        each for each in requests.page(made.tenant_id, None, None, 9) if each.scope.memory_ids == [made.summary]
    ]
    requests.cancel(made.tenant_id, deletion.erasure_id, "key")
    assert made.is_seen(made.summary)
    assert made.sources[0] not in made.made_of()


@pytest.mark.acceptance(9)
def test_one_of_what_another_erasure_is_of_is_hidden_when_one_is_cancelled(made: Made) -> None:
    asked = made.ask(subject="ann")
    made.ask(memory_ids=[made.sources[0]])
    requests.cancel(made.tenant_id, asked, "key")
    assert [made.is_seen(each) for each in (made.summary, *made.sources)] == [False, False] + [True] * (
        len(made.sources) - 1
    )
    worked(made.service)
    assert made.is_seen(made.summary)
    assert made.sources[0] not in made.made_of()


def test_one_is_made_again_before_what_it_was_made_of_goes(made: Made) -> None:
    erasure_id = made.ask(0, memory_ids=[made.sources[0]])
    state: dict[str, Any] = {}
    for _ in range(30):
        job = Job(uuid4(), made.tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0)
        state = execution.run_slice(job).state
    assert made.status(erasure_id) == "verified"
    assert made.is_seen(made.summary)
    assert made.made_of() == set(made.sources[1:])


def test_a_step_ends_in_time_among_summaries_that_stay_and_reads_each_once(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    for clause in ("goat climbs up every hill and looks for grass", "train leaves its station before noon on sundays"):
        texts = (f"the {colour} {clause}" for colour in ("red", "blue", "old", "new"))
        made.remember(*texts, f"the {clause}", f"a {clause}", days=40, subject="ann")
    made.again()
    made.run()
    assert len(made.summaries()) == 3
    erasure_id = made.ask(0, subject="ann")
    seen: list[list[UUID]] = []
    rederive = summary_refresh.refresh_summary

    def noted(tenant_id: UUID, run_id: UUID | None, merge_id: UUID) -> Counter[str]:
        seen[-1].append(merge_id)
        counts = rederive(tenant_id, run_id, merge_id)
        assert not counts, "nothing is left to rewrite it from"
        return counts

    monkeypatch.setattr(summary_refresh, "refresh_summary", noted)
    monkeypatch.setattr(execution, "STEP_SECONDS", 0)
    state: dict[str, Any] = {}
    for _ in range(30):
        seen.append([])
        job = Job(uuid4(), made.tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0)
        state = execution.run_slice(job).state
    assert made.status(erasure_id) == "verified"
    read = [ids for ids in seen if ids]
    assert [len(ids) for ids in read] == [1, 1, 1]
    assert len({*chain.from_iterable(read)}) == 3


@pytest.mark.acceptance(14)
@pytest.mark.parametrize("hidden_by", ["this", "another"])
def test_a_held_one_is_listed_and_made_again_once_it_is_released(made: Made, hidden_by: str) -> None:
    held = legal_holds.place_hold(made.tenant_id, Scope(memory_ids=[made.summary]), "court", "key")
    if hidden_by == "another":
        made.ask(memory_ids=[made.sources[1]])
    erasure_id = made.ask(0, memory_ids=[made.sources[0]])
    worked(made.service)
    found = requests.get(made.tenant_id, erasure_id)
    assert (found.status, (found.report or {})["kept"][0]["count"]) == ("held", 1)
    assert [made.is_seen(each) for each in (made.sources[0], made.sources[2], made.summary)] == [False, True, False]
    legal_holds.release_hold(made.tenant_id, held.hold_id, "key")
    worked(made.service)
    assert made.status(erasure_id) == "verified"
    assert made.is_seen(made.summary)
    assert made.sources[0] not in made.made_of()


def test_one_is_about_whom_its_sources_are_about(made: Made) -> None:
    for each in made.sources:
        memories.edit_memory(made.tenant_id, each, MemoryPatch(subject="bob"))
    made.rederive()
    assert made.service.rows("SELECT subject FROM memories WHERE made_by = 'consolidation'") == [("bob",)]


@pytest.mark.parametrize("is_deletion", [False, True])
def test_one_that_is_made_again_supersedes_what_it_did(made: Made, is_deletion: bool) -> None:
    [older] = made.remember("the boats are all at sea", subject="ann")
    supersession.make_supersession(made.tenant_id, str(made.summary), str(older), Writer("key", "unknown"))
    if is_deletion:
        memories.delete(made.tenant_id, made.sources[0])
    else:
        made.ask(memory_ids=[made.sources[0]])
    [erasure_id] = [each.erasure_id for each in requests.page(made.tenant_id, None, None, 9)]
    assert made.service.one("SELECT count(*) FROM memory_words WHERE memory_id = %s", made.summary) == 1 - is_deletion
    held = [each.status for each in supersession.list_supersessions(made.tenant_id, None, older, None, 9)]
    assert held == []
    made.rederive()
    held = [each.status for each in supersession.list_supersessions(made.tenant_id, None, older, None, 9)]
    assert held == ["active"]
    requests.cancel(made.tenant_id, erasure_id, "key")
    assert [each.memory_id for each in supersession.list_supersessions(made.tenant_id, "active", older, None, 9)] == [
        made.summary
    ]
    assert made.service.one("SELECT count(*) FROM hidden_supersessions") == 0


@pytest.mark.acceptance(9)
def test_one_is_made_again_without_what_is_edited_into_an_erasure(made: Made) -> None:
    made.ask(thread="t")
    memories.edit_memory(made.tenant_id, made.sources[0], MemoryPatch(thread="t"))
    assert not made.is_seen(made.summary)
    assert not any(recount.recount_tenant(made.tenant_id))
    made.rederive()
    assert made.is_seen(made.summary)
    assert not any(recount.recount_tenant(made.tenant_id))
    assert made.made_of() == set(made.sources[1:])


@pytest.mark.acceptance(9)
def test_a_summary_keeps_what_decay_deleted_until_another_source_is_erased(made: Made) -> None:
    before = made.text()
    faded = made.service.one("SELECT memory_id FROM memories WHERE made_by = 'caller' AND text || '.' = %s", before)
    other, *left = [each for each in made.sources if each != faded]
    made.service.rows(
        "UPDATE memory_state SET tier = 'cold', wanted_tier = 'deleted', salience = 0 WHERE memory_id = %s", faded
    )
    assert decay_deletion.delete(made.tenant_id, days(4000))[1] == {"deleted": 1}
    assert not made.rederive()
    assert made.text() == before
    memories.delete(made.tenant_id, other)
    assert not made.is_seen(made.summary)
    made.rederive()
    assert made.is_seen(made.summary)
    assert made.made_of() == set(left)
    assert made.text() != before


def test_a_summary_that_is_seen_until_its_sources_are_erased_leaves_the_counts(made: Made) -> None:
    erasure_id = made.ask(0, memory_ids=made.sources)
    with database.tenant(made.tenant_id) as tx:  # as if it had been merged while a hold protected the sources
        shown = hidden_memories.unhide(tx, made.tenant_id, among=[made.summary])
        tenant_counts.add(tx, made.tenant_id, shown.counts)
        tx.execute(text("UPDATE merges SET is_stale = false"))
    assert made.is_seen(made.summary)
    worked(made.service)
    assert made.status(erasure_id) == "verified"
    assert not made.is_seen(made.summary)
    assert not any(recount.recount_tenant(made.tenant_id))


# --- Sources that decay has deleted ---


def decay(made: Made, *memory_ids: UUID) -> None:
    made.service.rows(
        "UPDATE memory_state SET tier = 'cold', wanted_tier = 'deleted', salience = 0 WHERE memory_id = ANY (%s)",
        list(memory_ids),
    )
    assert decay_deletion.delete(made.tenant_id, days(600))[1] == {"deleted": len(memory_ids)}
    recount.recount_tenant(made.tenant_id)  # the tiers were set in the rows


@pytest.fixture
def decayed(made: Made) -> Made:
    """A summary that has outlived its sources, of which the first had a thread, a tag, a category and a kind."""
    made.service.rows(
        "UPDATE memories SET thread = 't', tags = '{boat,red}', categories = '{hobby}', kind = 'emotional', "
        "occurred_at = '2001-02-03Z' WHERE memory_id = %s",
        made.sources[0],
    )
    decay(made, *made.sources)
    assert made.is_seen(made.summary)
    return made


@pytest.mark.acceptance(9)
@pytest.mark.parametrize("condition", ["thread", "tags", "categories", "kinds", "before", "memory_ids"])
def test_a_summary_goes_with_a_source_that_decay_has_deleted(decayed: Made, condition: str) -> None:
    scopes: dict[str, Any] = {
        "thread": "t",
        "tags": ["red"],
        "categories": ["hobby"],
        "kinds": ["emotional"],
        "before": datetime(2001, 2, 4, tzinfo=UTC),
        "memory_ids": [decayed.sources[0]],
    }
    erasure_id = decayed.ask(0, **{condition: scopes[condition]})
    assert not decayed.is_seen(decayed.summary)
    worked(decayed.service)
    assert decayed.status(erasure_id) == "verified"
    assert decayed.summaries() == []
    assert decayed.service.one("SELECT count(*) FROM decayed_sources") == 0
    assert not any(recount.recount_tenant(decayed.tenant_id))


def test_a_summary_stays_if_no_deleted_source_matches(decayed: Made) -> None:
    for scope in ({"thread": "u"}, {"tags": ["boat", "blue"]}, {"subject": "bob"}, {"memory_ids": [uuid4()]}):
        erasure_id = decayed.ask(0, **scope)
        worked(decayed.service)
        assert decayed.status(erasure_id) == "verified"
        assert decayed.is_seen(decayed.summary), scope


def test_a_summary_of_deleted_sources_is_as_it_was_after_a_cancellation(decayed: Made) -> None:
    before = decayed.text()
    erasure_id = decayed.ask(thread="t")
    worked(decayed.service)
    assert not decayed.is_seen(decayed.summary)
    requests.cancel(decayed.tenant_id, erasure_id, "key")
    assert not decayed.rederive()
    assert decayed.is_seen(decayed.summary)
    assert decayed.text() == before
    assert not any(recount.recount_tenant(decayed.tenant_id))


def test_a_summary_that_another_erasure_hides_goes_with_its_deleted_source(decayed: Made) -> None:
    hiding = decayed.ask(subject="ann")
    erasure_id = decayed.ask(0, thread="t")
    worked(decayed.service)
    assert decayed.status(erasure_id) == "verified"
    requests.cancel(decayed.tenant_id, hiding, "key")
    assert decayed.summaries() == []


@pytest.mark.acceptance(9)
@pytest.mark.parametrize("grace_days", [0, 7])
def test_a_summary_is_rewritten_without_a_source_that_decay_has_deleted(made: Made, grace_days: int) -> None:
    before = made.text()
    source = made.service.one("SELECT memory_id FROM memories WHERE made_by = 'caller' AND text || '.' = %s", before)
    made.service.rows("UPDATE memories SET thread = 't' WHERE memory_id = %s", source)
    decay(made, source)
    erasure_id = made.ask(grace_days, thread="t")
    assert not made.is_seen(made.summary)
    worked(made.service)
    assert made.status(erasure_id) == ("grace" if grace_days else "verified")
    assert made.is_seen(made.summary)
    assert made.text() != before
    assert made.made_of() == set(made.sources) - {source}
    assert made.service.one("SELECT count(*) FROM decayed_sources") == 0
    assert not any(recount.recount_tenant(made.tenant_id))
