"""Ratings by a model see the turns around a memory: of its tenant, thread and subject, and none that is deleted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.clients.llm.salience_scorer import Scorer
from app.domain.privacy.legal_hold import Scope
from app.services.enrichment import score_by_model
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.memories import memories
from app.store.core import database
from app.store.enrichment import rating_context
from tests.services.due_deletions import erased
from tests.services.rated import Rated, rated

__all__ = ["rated"]

TALK = ["Where do you live?", "In Porto, since May.", "Do you like it?", "Yes, a lot.", "Shall I look for schools?"]


def turns(*texts: str, **known: Any) -> list[dict[str, Any]]:
    return [{"text": text, "thread": "t", **known} for text in texts]


def rate_again(rated: Rated, *memory_ids: UUID) -> list[str]:
    """Let only these memories await a rating, rate them, and return the lines of the last call."""
    rated.service.rows("UPDATE scores SET scorer = 'llm', version = 'x', digest = ''")
    rated.service.rows("UPDATE scores SET scorer = 'heuristic' WHERE memory_id = ANY (%s)", list(memory_ids))
    rated.service.rows(
        "INSERT INTO rating_turns (tenant_id) VALUES (%s) ON CONFLICT DO NOTHING", rated.tenant.tenant_id
    )
    rated.lapse()
    assert score_by_model.rate_memories() == len(memory_ids)
    return rated.shown()[-1]


def test_a_thread_is_rated_as_it_was_said(rated: Rated) -> None:
    rated.send(*turns(*TALK))
    assert score_by_model.rate_memories() == 5
    assert rated.shown() == [TALK]


def test_two_turns_before_and_one_after_are_shown_and_not_rated(rated: Rated) -> None:
    ids = rated.send(*turns(*TALK, speaker="Ann"))
    assert rate_again(rated, ids[2]) == [
        "> Ann: " + TALK[0],
        "> Ann: " + TALK[1],
        "Ann: " + TALK[2],
        "> Ann: " + TALK[3],
    ]
    scored = rated.service.rows("SELECT memory_id FROM scores WHERE version <> 'x'")
    assert scored == [(ids[2],)]


def test_turns_around_the_least_certain_are_rated_with_them(rated: Rated) -> None:
    rated.service.configure(score_batch_memories=4)
    ids = rated.send(*turns(*TALK), "alone", "apart")
    for memory_id, doubt in zip(ids, (0.1, 0.1, 0.1, 0.9, 0.1, 0.8, 0.7), strict=True):
        rated.service.rows("UPDATE scores SET uncertainty = %s WHERE memory_id = %s", doubt, memory_id)
    assert score_by_model.rate_memories() == 7
    assert rated.asked() == [TALK[1:], ["alone", "apart", TALK[0]]]


def test_a_deleted_and_a_hidden_turn_are_not_shown(rated: Rated) -> None:
    ids = rated.send(*turns(*TALK))
    memories.delete(rated.tenant.tenant_id, ids[1])
    assert rate_again(rated, ids[2]) == ["> " + TALK[0], TALK[2], "> " + TALK[3]]
    erased(rated.tenant.tenant_id)
    assert rate_again(rated, ids[2]) == ["> " + TALK[0], TALK[2], "> " + TALK[3]]


def test_a_subject_that_is_to_be_erased_is_in_no_context(rated: Rated) -> None:
    ids = rated.send(*turns(*TALK, subject="ann"))
    with database.tenant(rated.tenant.tenant_id) as tx:
        assert len(rating_context.list_around(tx, rated.tenant.tenant_id, [ids[2]])[ids[2]]) == 3
    requests.request(rated.tenant.tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 7), "key")
    with database.tenant(rated.tenant.tenant_id) as tx:
        assert rating_context.list_around(tx, rated.tenant.tenant_id, [ids[2]]) == {}


def test_turns_of_other_subjects_threads_and_tenants_are_not_shown(rated: Rated) -> None:
    other = rated.service.tenant()
    rated.send(*turns("another tenant", subject="ann"), tenant=other)
    ids = rated.send(
        *turns("about Ann", subject="ann"),
        *turns("about Bob", subject="bob"),
        *turns("about nobody"),
        *turns("the centre", subject="ann"),
        {"text": "another thread", "thread": "u", "subject": "ann"},
    )
    assert rate_again(rated, ids[3]) == ["the centre"], "the turn about Ann is further away than two turns"
    assert rate_again(rated, ids[0]) == ["about Ann"]
    with database.tenant(other.tenant_id) as tx:
        assert rating_context.list_around(tx, other.tenant_id, ids) == {}


def test_subjects_of_one_thread_are_apart_in_one_call(rated: Rated) -> None:
    rated.send(*turns("about Ann", subject="ann"), *turns("about Bob", subject="bob"))
    assert score_by_model.rate_memories() == 2
    assert rated.shown() == [["about Ann", "about Bob"]] or rated.shown() == [["about Bob", "about Ann"]]
    [body] = rated.fake.control.bodies
    assert '"conversation": 1' not in body["messages"][-1]["content"]


def test_the_same_answer_to_other_questions_is_rated_for_each(rated: Rated) -> None:
    for thread, question in (("a", "Do you like it?"), ("b", "Does it hurt?"), ("c", "Do you like it?")):
        rated.send({"text": question, "thread": thread}, {"text": "Yes, a lot.", "thread": thread})
    assert score_by_model.rate_memories() == 6
    [asked] = rated.asked()
    assert sorted(asked) == ["Do you like it?", "Does it hurt?", "Yes, a lot.", "Yes, a lot."]


def test_a_turn_that_spoils_the_answer_leaves_its_neighbours_ratings(rated: Rated) -> None:
    ids = rated.send(*turns(*TALK))
    rated.fake.control.set(mode="refusal", poison="Porto")
    score_by_model.rate_memories()
    assert rated.sources(*ids) == ["llm", "heuristic", "llm", "llm", "llm"]
    rated.fake.control.bodies.clear()
    lines = rate_again(rated, ids[2])
    assert lines == [TALK[2]], "asked again without the context that the model refuses"


def test_context_tokens_are_part_of_the_cost(rated: Rated, monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[int] = []
    score = Scorer.score

    def noted(scorer: Scorer, *given: Any, **more: Any) -> Any:
        found = score(scorer, *given, **more)
        spent.append(found.usage.input_tokens)
        return found

    monkeypatch.setattr(Scorer, "score", noted)
    ids = rated.send(
        "Yes, a lot.", *turns("Do you like Porto, where you have lived since last year in May?", "Yes, a lot.")
    )
    rate_again(rated, ids[0])
    rate_again(rated, ids[2])
    assert spent[1] - spent[0] >= 15
    used = rated.service.one("SELECT sum(input_tokens) FROM usage WHERE purpose = 'score'")
    assert used == sum(spent)
