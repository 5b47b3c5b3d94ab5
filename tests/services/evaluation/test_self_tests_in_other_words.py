"""Self-tests by paraphrase and by recall: which defects of a tenant they reveal, and that they change no memory."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from app.domain.evaluation.self_test_rules import SelfTests, is_recall_empty
from app.domain.jobs import Job
from app.domain.policy.policy import Policy
from app.domain.recall.parameters import Recall
from app.domain.search.parameters import Ranking
from app.services.evaluation import question_generation, self_tests
from app.services.monitoring import fleet_gauges, status
from app.services.uses import reviews
from app.store.self_tests import SelfTestRun
from tests.service import Service
from tests.services.backdated import age

TEXTS = (
    "My sister bakes bread for her neighbours every other weekend",
    "I bought a second-hand bicycle and painted the frame green",
    "The doctor changed my medicine because the old pills made me dizzy",
    "We planted apple trees behind the garage last autumn",
    "My landlord wants to raise the rent again next summer",
    "I am afraid of flying and always take the train to meetings",
    "The children learn to swim at the lake with their grandfather",
    "I sold my guitar to pay for the repair of the roof",
    "My brother lost his job at the factory and studies nursing now",
    "We adopted an old dog from the shelter near the harbour",
    "I am allergic to peanuts and carry a syringe in my bag",
    "The church choir sings on Thursday evenings and needs a tenor",
)
MUTE = Recall(relevance_above=1.0, relevance_above_for_questions=1.0, best_above_for_questions=1.0)
EVERY = SelfTests(sample=2 * len(TEXTS), found_within=1)


def remember(service: Service, policy: Policy) -> UUID:
    tenant_id = service.tenant(policy).tenant_id
    ids = service.send(tenant_id, *({"text": text, "role": "user"} for text in TEXTS))
    service.work()
    age(service, 20, *ids)
    return tenant_id


def run(tenant_id: UUID) -> SelfTestRun:
    job = Job(uuid4(), tenant_id, self_tests.KIND, {}, {}, None, 0)
    while not (step := self_tests.run_job_slice(job)).finished:
        job = replace(job, state=step.state)
    [last] = self_tests.list_runs(tenant_id, None, 1)
    return last


def test_most_is_found_in_other_words_and_some_is_brought_up(service: Service) -> None:
    tenant_id = remember(service, Policy(self_tests=EVERY))
    results = run(tenant_id).results
    assert results["application"] == {"passed": len(TEXTS), "failed": 0}
    assert results["other_words"]["passed"] >= len(TEXTS) / 2
    recall = results["recall"]
    assert recall["passed"] + recall["failed"] == len(TEXTS)
    assert recall["passed"] >= 1
    assert recall["empty"] <= recall["failed"], "an empty recall counts as failed"
    brought = service.rows("SELECT brought, passed, place FROM self_tests WHERE kind = 'recall'")
    assert sum(number == 0 for number, _, _ in brought) == recall["empty"]
    assert all(place is not None and place <= number for number, passed, place in brought if passed)
    assert service.one("SELECT count(*) FROM self_tests WHERE kind <> 'recall' AND brought IS NOT NULL") == 0


def test_half_of_those_asked_for_by_their_own_words_are_asked_for_in_others(service: Service) -> None:
    tenant_id = remember(service, Policy(self_tests=SelfTests(sample=7)))
    shown = [(one.kind, one.memory_id) for one in self_tests.preview_run(tenant_id, None)]
    by_kind = {kind: {key for of, key in shown if of == kind} for kind, _ in shown}
    assert {kind: len(found) for kind, found in by_kind.items()} == {"application": 7, "other_words": 4, "recall": 4}
    assert by_kind["other_words"] == by_kind["recall"] <= by_kind["application"]
    assert [(one.kind, one.memory_id) for one in self_tests.preview_run(tenant_id, None)] == shown, (
        "the seed determines the sample"
    )


def test_they_neither_strengthen_nor_flag_nor_count_as_a_use(service: Service) -> None:
    tenant_id = remember(service, Policy(self_tests=EVERY, recall=MUTE))
    columns = "memory_id, access_count, accessed_at"
    before = service.rows(f"SELECT {columns} FROM memory_state ORDER BY memory_id")  # noqa: S608 - a constant
    results = run(tenant_id).results
    assert results["recall"]["failed"] == len(TEXTS)
    assert reviews.build_session(tenant_id, by="flagged").entries == []
    assert service.rows(f"SELECT {columns} FROM memory_state ORDER BY memory_id") == before  # noqa: S608 - as above
    raised = service.rows("SELECT memory_id, count(*) FROM memory_events WHERE kind = 'test' GROUP BY memory_id")
    assert {count for _, count in raised} == {1}, "raised once, by the test in its own words"
    assert service.redis.xlen("ebbing:{s0}:stream:" + str(tenant_id)) == 0


def test_a_tenant_with_broken_vectors_shows_up(service: Service) -> None:
    tenant_id = remember(service, Policy(self_tests=EVERY, ranking=Ranking(mode="dense")))
    well = run(tenant_id).results["other_words"]["passed"]
    service.rows(
        "UPDATE embeddings AS own SET embedding = other.embedding FROM ("
        "  SELECT memory_id, coalesce(lead(embedding, 6) OVER them, lag(embedding, 6) OVER them) AS embedding"
        "  FROM embeddings WINDOW them AS (ORDER BY memory_id)) AS other "
        "WHERE own.memory_id = other.memory_id"
    )
    assert run(tenant_id).results["other_words"]["passed"] < well / 2


def test_a_tenant_whose_recall_brings_nothing_is_seen(service: Service) -> None:
    remember(service, Policy(self_tests=EVERY))
    mute = remember(service, Policy(self_tests=EVERY, recall=MUTE))
    last = run(mute)
    assert last.results["recall"]["empty"] == len(TEXTS)
    assert is_recall_empty(last.results)
    status.forget()
    assert "recall_empty" in {one.code for one in status.now(mute).findings}
    assert fleet_gauges.refresh(thoroughly=True).recall_empty == 1
    assert int(service.redis.hget("ebbing:{s0}:counters", "self_tests_recall_empty") or 0) == len(TEXTS)


def test_the_same_memory_is_asked_for_by_the_same_question(service: Service) -> None:
    tenant_id = remember(service, Policy())
    texts = {uuid4(): text for text in TEXTS}
    asked = [question_generation.paraphrase_questions(tenant_id, texts, Policy()) for _ in range(2)]
    assert asked[0] == asked[1]
    assert not any(question.by_model for question in asked[0].values())
    assert question_generation.paraphrase_questions(tenant_id, {uuid4(): "hm"}, Policy()) == {}
