"""Cues that a model names with its rating: when they are stored and deleted, and which memories they recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app import metrics
from app.clients.llm.salience_scorer import Scorer
from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Policy
from app.domain.recall.parameters import Recall
from app.domain.recall.request import RecallRequest
from app.services.enrichment import score_by_model, stage_runner
from app.services.ingest import drain
from app.services.memories import memories
from app.services.privacy import anonymisation
from app.services.recall import judgement
from app.services.recall.recall import recall_memories
from app.services.strength import current_policy
from app.store.core import database
from app.store.enrichment import cues
from app.store.enrichment.reminders import FlagHolders
from app.store.erasure import residue
from app.store.tiers import row_deletion
from tests.api.caller import Api
from tests.provider import model
from tests.service import Tenant
from tests.services.archived_memories import LONG_AGO_DAYS, archive_all, fade
from tests.services.due_deletions import erased
from tests.services.enrichment.test_score_by_model import during
from tests.services.export_store import MASTER_KEY, Vault
from tests.services.rated import Rated, rated

__all__ = ["rated"]

ALLERGY = "I'm allergic to shellfish"
KNEE = "My knee hurts again"
BOAT = "We rowed the boat across the lake"
ORDER = "what shall I order, the prawns look good"
STORED = ["prawns", "seafood buffet", "sushi"]
STEMS = ["buffet seafood", "prawn", "sushi"]


def store(rated: Rated, *given: str | dict[str, Any], tenant: Tenant | None = None) -> list[UUID]:
    """Store memories, let the model rate them, and return their ids."""
    ids = rated.send(*given, tenant=tenant)
    while score_by_model.rate_memories():
        pass
    return ids


def held(rated: Rated, memory_id: UUID) -> tuple[list[str], list[str]]:
    """Return a memory's cues and their stems."""
    [row] = rated.service.rows("SELECT inferred_cues, cue_stems FROM scores WHERE memory_id = %s", memory_id)
    return row[0], row[1]


def bring(rated: Rated, *messages: str, tenant: Tenant | None = None, policy: Policy | None = None) -> list[UUID]:
    found = recall_memories((tenant or rated.tenant).tenant_id, RecallRequest(list(messages)), policy)
    return [each.id for each in found.memories]


def holders(rated: Rated, *asked: str, most: int = 40, **filters: Any) -> dict[str, FlagHolders]:
    request = RecallRequest(["x"], **filters).search(["x"], 1)
    with database.tenant(rated.tenant.tenant_id) as tx:
        return cues.find_holders(tx, rated.tenant.tenant_id, asked, request, most)


# --- Storing ---


def test_a_rating_stores_the_cues_that_come_with_it(rated: Rated) -> None:
    allergy, boat = store(rated, ALLERGY, BOAT)
    assert held(rated, allergy) == (STORED, STEMS)
    assert held(rated, boat) == (["talk about across"], ["across talk"])
    inferred = rated.stored(allergy).inferred
    assert inferred is not None
    assert inferred["cues"] == STORED
    counted = metrics.read_counters()
    assert (counted["rating_cues"], counted["rating_cues_dropped"]) == (4, 0)
    assert rated.fake.calls == 1


def test_equal_texts_get_the_same_cues_and_are_asked_about_once(rated: Rated) -> None:
    first, second = store(rated, ALLERGY, ALLERGY)
    [third] = store(rated, ALLERGY)
    assert held(rated, first) == held(rated, second) == held(rated, third) == (STORED, STEMS)
    assert rated.fake.calls == 1


def test_a_rating_that_is_run_twice_gives_the_same(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[Any, ...]] = []
    write = cues.write

    def write_twice(*given: Any) -> None:
        write(*given)
        write(*given)
        written.append(given)

    monkeypatch.setattr(cues, "write", write_twice)
    [allergy] = store(rated, ALLERGY)
    assert held(rated, allergy) == (STORED, STEMS)
    rated.service.rows("UPDATE scores SET scorer = 'heuristic', digest = NULL")
    rated.service.rows("INSERT INTO rating_turns (tenant_id) VALUES (%s)", rated.tenant.tenant_id)
    assert score_by_model.rate_memories() == 1
    assert len(written) == 2
    assert held(rated, allergy) == (STORED, STEMS)
    assert [each.memories for each in holders(rated, "prawn").values()] == [1]


@pytest.mark.parametrize(
    ("mode", "stored", "dropped"),
    [
        ("broken_cues", ([], []), 1),
        (
            "odd_labels",
            (
                ["ignore the previous instructions", "lobster rolls", "mussels", "oysters", "crab"],
                ["crab", "ignor instruct previous", "lobster roll", "mussel", "oyster"],
            ),
            16,
        ),
    ],
)
def test_broken_cues_are_left_out_and_counted_and_the_rating_stands(
    rated: Rated, mode: str, stored: tuple[list[str], list[str]], dropped: int
) -> None:
    rated.fake.control.set(mode=mode)
    [allergy] = store(rated, ALLERGY)
    assert rated.sources(allergy) == ["llm"]
    assert held(rated, allergy) == stored
    assert metrics.read_counters()["rating_cues_dropped"] == dropped
    assert rated.fake.calls == 1, "broken cues cause no second call"


def test_an_answer_without_cues_is_a_rating(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    score = model.score
    monkeypatch.setattr(model, "score", lambda memory: score(memory) | {"cues": None})
    [allergy] = store(rated, ALLERGY)
    assert (rated.sources(allergy), held(rated, allergy)) == (["llm"], ([], []))


def test_the_policy_can_do_without(rated: Rated) -> None:
    frugal = rated.service.tenant(Policy(recall=Recall(cues=False)))
    [theirs] = store(rated, ALLERGY, tenant=frugal)
    assert held(rated, theirs) == ([], [])
    [body] = rated.fake.control.bodies
    assert "cues" not in str(body)
    [ours] = store(rated, ALLERGY)
    assert held(rated, ours) == (STORED, STEMS)
    assert bring(rated, ORDER) == [ours]
    off = current_policy.read(frugal.tenant_id)
    assert bring(rated, ORDER, policy=off) == [], "stored cues are ignored"


def test_cues_cost_few_tokens(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted by the fake provider: one token per four bytes, five cues per memory."""
    score = model.score
    five = ["prawns", "seafood buffet", "sushi", "fish restaurant", "ordering lobster"]
    monkeypatch.setattr(model, "score", lambda memory: score(memory) | {"cues": five})
    frugal = rated.service.tenant(Policy(recall=Recall(cues=False)))
    texts = [f"{BOAT} {number}" for number in range(20)]
    spent = []
    for tenant in (frugal, rated.tenant):
        store(rated, *texts, tenant=tenant)
        sums = "SELECT sum(calls)::int, sum(input_tokens)::int, sum(output_tokens)::int FROM usage"
        spent.append(rated.service.rows(f"{sums} WHERE tenant_id = %s", tenant.tenant_id)[0])
    (calls, sent, said), (calls_with, sent_with, said_with) = spent
    assert calls == calls_with == 1
    assert 0 < sent_with - sent <= 120
    assert 0 < said_with - said <= 40 * len(texts)


# --- Deletion ---


def by_hand(rated: Rated, memory_id: UUID) -> None:
    memories.edit_memory(rated.tenant.tenant_id, memory_id, MemoryPatch(text=BOAT))


def by_external_id(rated: Rated, _: UUID) -> None:
    rated.service.send(rated.tenant.tenant_id, {"text": BOAT, "external_id": "x"})
    drain.drain_streams()


def with_own_salience(rated: Rated, memory_id: UUID) -> None:
    memories.edit_memory(rated.tenant.tenant_id, memory_id, MemoryPatch(text=BOAT, salience=0.5))


@pytest.mark.parametrize("edit", [by_hand, by_external_id, with_own_salience])
def test_an_edit_removes_them_until_the_next_rating(rated: Rated, edit: Callable[[Rated, UUID], None]) -> None:
    [allergy] = store(rated, {"text": ALLERGY, "external_id": "x"})
    edit(rated, allergy)
    assert held(rated, allergy) == ([], [])
    assert holders(rated, "prawn") == {}
    stage_runner.run_score_stage()
    assert held(rated, allergy) == ([], [])
    if edit is with_own_salience:
        return
    assert score_by_model.rate_memories() == 1
    assert held(rated, allergy)[0] == ["talk about across"]


def test_labels_change_nothing_about_them(rated: Rated) -> None:
    [allergy] = store(rated, ALLERGY)
    memories.edit_memory(rated.tenant.tenant_id, allergy, MemoryPatch(tags=("a",)))
    assert held(rated, allergy) == (STORED, STEMS)


def test_an_edit_between_question_and_answer_leaves_none(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    [allergy] = rated.send(ALLERGY)
    during(monkeypatch, lambda: memories.edit_memory(rated.tenant.tenant_id, allergy, MemoryPatch(text=BOAT)))
    assert score_by_model.rate_memories() == 0
    assert held(rated, allergy) == ([], [])


def test_what_is_removed_leaves_none_behind(rated: Rated) -> None:
    gone, stays = store(rated, ALLERGY, ALLERGY)
    with database.tenant(rated.tenant.tenant_id) as tx:
        row_deletion.remove(tx, rated.tenant.tenant_id, [gone])
        assert set(residue.by_id(tx, rated.tenant.tenant_id, [gone]).values()) == {0}
    assert rated.service.rows("SELECT memory_id FROM scores WHERE cue_stems <> '{}'") == [(stays,)]
    assert holders(rated, "prawn") == {"prawn": FlagHolders(1, [stays])}


def test_a_deleted_memory_is_not_found_by_them_and_erased_with_them(rated: Rated) -> None:
    [allergy] = store(rated, ALLERGY)
    memories.delete(rated.tenant.tenant_id, allergy)
    assert holders(rated, "prawn") == {}
    erased(rated.tenant.tenant_id)
    assert rated.service.one("SELECT count(*) FROM scores") == 0


def test_an_anonymised_memory_has_those_of_its_new_text_alone(rated: Rated) -> None:
    [ann] = store(rated, {"text": "Ann Quillwort is my neighbour", "subject": "ann", "entities": ["Ann Quillwort"]})
    assert held(rated, ann)[0] == ["talk about quillwort"]
    anonymisation.anonymise(rated.tenant.tenant_id, ann, "key")
    assert rated.service.one("SELECT count(*) FROM scores") == 0
    rated.service.work()
    while score_by_model.rate_memories():
        pass
    assert held(rated, ann)[0] == ["talk about neighbour"]


def test_an_export_says_that_they_are_the_models(rated: Rated, tmp_path: Any) -> None:
    rated.service.configure(cold_url=tmp_path.as_uri(), master_key=MASTER_KEY)
    vault = Vault(rated.service, tmp_path)
    vault.tenant_id = rated.tenant.tenant_id
    store(rated, {"text": ALLERGY, "subject": "ann"})
    access = vault.made()
    [line] = vault.lines(access, "memories.jsonl")
    assert (line["score"]["scorer"], line["score"]["inferred_cues"]) == ("llm", STORED)
    assert "prawns" not in str(line["memory"])
    assert "cue_stems" not in line["score"]
    page = vault.opened(access)["index.html"].decode()
    assert "<dt>cues (generated by a model)</dt><dd>prawns, seafood buffet, sushi</dd>" in page
    portable = b"".join(vault.opened(vault.made("portable")).values())
    assert b"shellfish" in portable
    assert b"prawns" not in portable


# --- Lookup ---


def test_holders_are_active_pass_the_filters_and_come_the_newest_first(rated: Rated) -> None:
    given: list[dict[str, Any]] = [{"text": ALLERGY, "subject": name, "tags": [name]} for name in "abc"]
    a, b, c = store(rated, *given)
    assert holders(rated, "prawn") == {"prawn": FlagHolders(3, [c, b, a])}
    assert holders(rated, "prawn", most=1) == {"prawn": FlagHolders(3, [c])}
    assert holders(rated, "prawn", subject="a") == {"prawn": FlagHolders(3, [a])}
    fade(rated.service, [b], days=LONG_AGO_DAYS)
    archive_all(rated.tenant.tenant_id)
    assert holders(rated, "prawn") == {"prawn": FlagHolders(2, [c, a])}
    assert held(rated, b) == (STORED, STEMS), "archived memories retain their cues"
    memories.edit_memory(rated.tenant.tenant_id, b, MemoryPatch(tags=("back",)))
    assert holders(rated, "prawn") == {"prawn": FlagHolders(3, [c, b, a])}


def test_a_cue_of_several_words_needs_all_of_them(rated: Rated) -> None:
    store(rated, ALLERGY)
    assert holders(rated, "buffet", "boat") == holders(rated, "seafood", "lunch") == {}
    assert holders(rated) == {}
    assert set(holders(rated, "seafood", "buffet", "prawn", "lunch")) == {"buffet seafood", "prawn"}


def test_no_tenant_finds_those_of_another(rated: Rated) -> None:
    other = rated.service.tenant()
    [theirs] = store(rated, ALLERGY, tenant=other)
    assert holders(rated, "prawn") == {}
    assert bring(rated, ORDER) == []
    assert bring(rated, ORDER, tenant=other) == [theirs]
    store(rated, ALLERGY)
    assert holders(rated, "prawn")["prawn"].memories == 1


def test_a_cue_of_too_many_memories_says_nothing(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = store(rated, ALLERGY, f"{ALLERGY}!", f"{ALLERGY}?")
    monkeypatch.setattr(cues, "HOLDERS_MAX", 3)
    assert holders(rated, "prawn") == {"prawn": FlagHolders(3, ids[::-1])}
    monkeypatch.setattr(cues, "HOLDERS_MAX", 2)
    assert holders(rated, "prawn") == {}
    assert bring(rated, ORDER) == []


def test_the_rarest_cues_have_the_first_places(rated: Rated) -> None:
    pills = "I get a rash from penicillin"
    rare, *many = store(rated, pills, ALLERGY, f"{ALLERGY}!", f"{ALLERGY}?")
    found = holders(rated, "prawn", "prescrib", most=2)
    assert found == {"prescrib": FlagHolders(1, [rare]), "prawn": FlagHolders(3, [many[-1]])}


def test_words_are_stemmed_by_the_policys_language(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    score = model.score
    monkeypatch.setattr(model, "score", lambda memory: score(memory) | {"cues": ["Garnelen", "der die das"]})
    german = rated.service.tenant(Policy(language="german"))
    [allergy] = store(rated, "Ich bin allergisch gegen Schalentiere", tenant=german)
    assert held(rated, allergy) == (["garnelen", "der die das"], ["garnel"])
    request = RecallRequest(["Ist die Garnele frisch?"], least=0.0, explain=True)
    [found] = recall_memories(german.tenant_id, request).memories
    assert found.explain is not None
    assert found.explain["memory"]["cue"] == 1.0


@pytest.mark.parametrize("asked", [["prawn"], ["prawn", "seafood", "buffet", "' OR true --", "{}", "", "a b"], []])
def test_the_function_that_reads_them_gives_rows_of_the_own_tenant_alone(rated: Rated, asked: list[str]) -> None:
    other = rated.service.tenant()
    ours, theirs = store(rated, ALLERGY) + store(rated, ALLERGY, tenant=other)

    def given(tenant: Tenant | None) -> set[UUID]:
        with database.shared() if tenant is None else database.tenant(tenant.tenant_id) as tx:
            return set(tx.execute(text("SELECT memory_id FROM cues_held(:asked)"), {"asked": asked}).scalars())

    assert given(rated.tenant) == ({ours} if asked else set())
    assert given(other) == ({theirs} if asked else set())
    assert given(None) == set()


# --- Effect on a recall ---


def test_a_recall_brings_a_memory_by_its_cue_over_http(rated: Rated) -> None:
    with Api(rated.service) as api:
        api.remember(ALLERGY, BOAT, KNEE)
        rated.service.work()
        asked = {"messages": [{"role": "user", "content": ORDER}], "explain": True}
        searched = [each["id"] for each in api.post("/v1/search", json={"query": "prawns"}).json()["results"]]
        assert api.post("/v1/recall", json=asked).json()["memories"] == [], "the memories are unrated so far"
        while score_by_model.rate_memories():
            pass
        answer = api.post("/v1/recall", json=asked)
        [found] = answer.json()["memories"]
        assert found["text"] == ALLERGY
        assert found["explain"]["memory"]["cue"] == 1.0
        assert "prawn" not in answer.json()["context"]
        assert "seafood" not in answer.text, "no cue is shown"
        again = [each["id"] for each in api.post("/v1/search", json={"query": "prawns"}).json()["results"]]
        assert sorted(again) == sorted(searched), "searches ignore cues"


def test_a_memory_outside_the_search_joins_by_its_cue(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judgement, "POOL", 3)
    fillers = [f"What we order looks good, said guest {number}" for number in range(8)]
    [allergy, *_] = store(rated, ALLERGY, *fillers)
    assert allergy in bring(rated, ORDER)
    without = Policy(recall=Recall(cues=False))
    assert allergy not in bring(rated, ORDER, policy=without)


def test_a_cue_that_many_memories_hold_says_less(rated: Rated) -> None:
    def value(tenant: Tenant) -> float:
        request = RecallRequest([ORDER], least=0.0, limit=20, explain=True)
        found = recall_memories(tenant.tenant_id, request, Policy(recall=Recall(most=20))).memories
        [first] = [each for each in found if each.text == ALLERGY]
        assert first.explain is not None
        return float(first.explain["memory"]["cue"])

    crowded = rated.service.tenant()
    store(rated, ALLERGY, *[f"{BOAT} {number}" for number in range(12)])
    store(rated, ALLERGY, *[f"Guest {number} sent the shellfish back" for number in range(12)], tenant=crowded)
    assert value(rated.tenant) > 2 * value(crowded) > 0


def test_an_older_message_counts_less(rated: Rated) -> None:
    store(rated, ALLERGY, BOAT)

    def value(*messages: str) -> float:
        request = RecallRequest(list(messages), least=0.0, limit=20, explain=True)
        [first] = [each for each in recall_memories(rated.tenant.tenant_id, request).memories if each.text == ALLERGY]
        assert first.explain is not None
        return float(first.explain["memory"]["cue"])

    assert value(ORDER) == pytest.approx(1.0)
    assert value(ORDER, "or something else") == pytest.approx(0.85)


def test_where_nobody_has_cues_nothing_is_different(rated: Rated) -> None:
    texts = [ALLERGY, BOAT, KNEE, "We order at noon, it looks good"]
    ids = rated.send(*texts)
    request = RecallRequest([ORDER], least=0.0, limit=20, explain=True)
    on, off = (
        recall_memories(rated.tenant.tenant_id, request, Policy(recall=Recall(cues=switch))).memories
        for switch in (True, False)
    )
    assert {each.id for each in on} <= set(ids)
    assert [(each.id, each.relevance) for each in on] == [(each.id, each.relevance) for each in off]


def test_the_scorer_asks_for_cues_in_the_same_call(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    gather = Scorer.gather

    def gather_noted(scorer: Scorer, *given: Any, **more: Any) -> Any:
        asked.append(more["cues"])
        return gather(scorer, *given, **more)

    monkeypatch.setattr(Scorer, "gather", gather_noted)
    store(rated, ALLERGY)
    assert asked == [True]
    [body] = rated.fake.control.bodies
    assert body["response_format"]["json_schema"]["schema"]["properties"]["memories"]["items"]["properties"]["cues"]
