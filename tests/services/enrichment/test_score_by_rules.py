"""Rule-based salience: computed in the background, never over the caller's value or for a changed text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from app.domain.ingest.memory import MemoryPatch
from app.domain.salience import Judgement, ScoringEvidence, judge
from app.domain.text.embedding_input import normalise_rows
from app.services.enrichment import score_by_rules, stage_runner
from app.services.ingest import drain
from app.services.memories import memories
from app.services.storage import lookup
from app.store.memories.memories import StoredMemory
from tests.service import Service, Tenant
from tests.services.due_deletions import erased

DECISION = "We decided: from Monday on, all backups go to the second site, and Ines signs off each week."
CHATTER = "haha ok"


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def stored(tenant: Tenant, memory_id: UUID) -> StoredMemory:
    found = lookup.get(tenant.tenant_id, memory_id)
    assert isinstance(found, StoredMemory)
    return found


def scored(service: Service, tenant: Tenant, *sent: str | dict[str, Any]) -> list[StoredMemory]:
    """Store memories, run every stage, and return them as stored."""
    ids = service.send(tenant.tenant_id, *sent)
    service.work()
    stage_runner.run_score_stage()
    return [stored(tenant, memory_id) for memory_id in ids]


def test_what_matters_scores_higher_and_says_why(service: Service, tenant: Tenant) -> None:
    decision, chatter = scored(service, tenant, DECISION, CHATTER)
    assert decision.salience_source == chatter.salience_source == "heuristic"
    assert decision.salience is not None
    assert chatter.salience is not None
    assert decision.salience > 2 * chatter.salience
    assert decision.criteria is not None
    assert decision.criteria.keys() == {"emotional", "novelty", "actionable", "personal"}
    assert sum(decision.criteria.values()) / 40 == pytest.approx(decision.salience, abs=1e-5)
    assert decision.criteria["actionable"] > 5
    assert decision.inferred is not None
    assert "Ines" in decision.inferred["entities"]


def test_the_nearest_earlier_vector_is_found_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = normalise_rows(np.random.default_rng(5).normal(size=(10, 6)).astype(np.float32))
    expected = [max(0.0, *(float(vector @ each) for each in vectors[:n])) for n, vector in enumerate(vectors) if n]
    for rows in (1, 3, 9, 256):
        monkeypatch.setattr(score_by_rules, "ROWS_AT_ONCE", rows)
        [first, *others] = score_by_rules._nearest_earlier(vectors)
        assert first is None
        assert others == pytest.approx(expected, abs=1e-6)
    assert score_by_rules._nearest_earlier(vectors[:1]) == [None]
    assert score_by_rules._nearest_earlier(vectors[:0]) == []


def test_the_callers_word_stands(service: Service, tenant: Tenant) -> None:
    [memory] = scored(service, tenant, {"text": DECISION, "salience": 0.1})
    assert memory.salience == pytest.approx(0.1)
    assert (memory.salience_source, memory.criteria) == ("caller", None)


def test_a_salience_given_while_the_rules_judge_stands(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = service.send(tenant.tenant_id, DECISION)
    service.work()

    def judge_late(batch: Sequence[ScoringEvidence]) -> list[Judgement]:
        memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(salience=0.2))
        return judge(batch)

    monkeypatch.setattr(score_by_rules, "judge", judge_late)
    assert score_by_rules.score_memories(tenant.tenant_id, [memory_id]) == 0
    assert stored(tenant, memory_id).salience_source == "caller"


def test_a_text_that_changes_meanwhile_is_judged_again(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    [memory_id] = service.send(tenant.tenant_id, CHATTER)
    service.work()

    def judge_late(batch: Sequence[ScoringEvidence]) -> list[Judgement]:
        memories.edit_memory(tenant.tenant_id, memory_id, MemoryPatch(text=DECISION))
        return judge(batch)

    monkeypatch.setattr(score_by_rules, "judge", judge_late)
    assert score_by_rules.score_memories(tenant.tenant_id, [memory_id]) == 0
    monkeypatch.undo()
    stage_runner.run_score_stage()
    memory = stored(tenant, memory_id)
    assert memory.criteria is not None
    assert memory.criteria["actionable"] > 5


def test_to_take_ones_salience_back_lets_the_rules_judge(service: Service, tenant: Tenant) -> None:
    [memory] = scored(service, tenant, {"text": DECISION, "salience": 0.1})
    memories.edit_memory(tenant.tenant_id, memory.memory_id, MemoryPatch(salience=None))
    stage_runner.run_score_stage()
    assert stored(tenant, memory.memory_id).salience_source == "heuristic"


def test_what_was_said_before_is_less_new(service: Service, tenant: Tenant) -> None:
    said = "The lighthouse keeper painted the lantern room in ox blood red."
    first, *_ = scored(service, tenant, said, "Nothing much today.", "The bakery opens at seven.")
    [again] = scored(service, tenant, said)
    assert first.criteria is not None
    assert again.criteria is not None
    assert again.criteria["novelty"] < first.criteria["novelty"]


def test_it_works_before_words_and_vectors_are_there_and_when_run_twice(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, DECISION)
    drain.drain_streams()
    assert score_by_rules.score_memories(tenant.tenant_id, [memory_id]) == 1
    assert score_by_rules.score_memories(tenant.tenant_id, [memory_id]) == 1
    assert service.one("SELECT count(*) FROM scores WHERE memory_id = %s", memory_id) == 1
    assert stored(tenant, memory_id).salience_source == "heuristic"


def test_every_time_the_rules_have_scored_the_tenant_wants_a_rating(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, DECISION)
    wanted = []
    for _ in range(2):
        service.work()
        score_by_rules.score_memories(tenant.tenant_id, [memory_id])
        wanted += service.rows("SELECT tenant_id, wanted FROM rating_turns")
    assert wanted == [(tenant.tenant_id, 2), (tenant.tenant_id, 3)]
    service.rows("DELETE FROM rating_turns")
    scored(service, tenant, {"text": DECISION, "salience": 0.1})
    assert service.rows("SELECT * FROM rating_turns") == []


def test_one_that_was_queued_twice_is_scored_once(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, DECISION)
    drain.drain_streams()
    assert score_by_rules.score_memories(tenant.tenant_id, [memory_id, memory_id]) == 1


def test_a_deleted_memory_keeps_no_score(service: Service, tenant: Tenant) -> None:
    [memory] = scored(service, tenant, DECISION)
    memories.delete(tenant.tenant_id, memory.memory_id)
    erased(tenant.tenant_id)
    assert service.one("SELECT count(*) FROM scores") == 0
    assert score_by_rules.score_memories(tenant.tenant_id, [memory.memory_id]) == 0


def test_a_kind_is_guessed_only_where_none_was_given(service: Service, tenant: Tenant) -> None:
    how = "To restart the pump: close valve two, wait a minute, then press the green button twice."
    given, guessed = scored(service, tenant, {"text": how, "kind": "semantic"}, how)
    assert given.kind == "semantic"
    assert given.inferred is not None
    assert given.inferred["kind"] is None
    assert guessed.kind is None
    assert guessed.inferred is not None
    assert guessed.inferred["kind"] == "procedural"


def test_waiting_for_a_score_keeps_nobody_from_being_searchable(service: Service, tenant: Tenant) -> None:
    [memory_id] = service.send(tenant.tenant_id, DECISION)
    drain.drain_streams()
    stage_runner.run_index_stage()
    stage_runner.embed()
    assert stored(tenant, memory_id).salience is None
    base = memory_id.bytes[:-2] + bytes(2)
    assert memories.are_searchable(tenant.tenant_id, base, [memory_id])
