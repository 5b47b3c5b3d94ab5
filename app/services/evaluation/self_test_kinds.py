"""Implement each kind of self-test as a function from memories to outcomes; nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, TypeAlias
from uuid import UUID

from app.domain.consolidation import faithfulness
from app.domain.evaluation.self_test_rules import Kind, rank_of_first
from app.domain.policy.policy import Policy
from app.domain.recall.request import Message, RecallRequest
from app.domain.search.parameters import Mode
from app.domain.search.request import SearchRequest, SearchResult
from app.domain.search.spreading_activation import SpreadingSettings
from app.services.evaluation import question_generation
from app.services.recall.recall import recall_memories
from app.services.search import search
from app.services.search.spreading_activation import spread_results
from app.store import self_tests
from app.store.core import database
from app.store.self_tests import PlannedTest, SelfTestOutcome, SelfTestRun

ALONG_LINKS: Final = SpreadingSettings(("link",), factor=0.5, hops=1)
"""Spreading in connection tests: a memory linked to a top result with full weight gets half of the result's score."""
QUERY_MAX_CHARACTERS: Final = 2_000
LOOK_BACK: Final = timedelta(days=1)
"""Age above which a run's searches rank as of the run's time. A nightly run is younger: its searches rank as of now."""


Outcomes: TypeAlias = list[SelfTestOutcome]


def _connections(tenant_id: UUID, run: SelfTestRun, asked: Sequence[PlannedTest], policy: Policy) -> Outcomes:
    """Test whether a search for a linked memory's text finds each memory through the link, without using embeddings."""
    sources = {test.memory_id: test.other_id for test in asked if test.other_id is not None}
    texts = _texts(tenant_id, [*sources, *sources.values()])
    as_of = _reference_time(tenant_id, run)
    within = policy.self_tests.found_within
    outcomes = []
    for memory_id, source_id in sources.items():
        if memory_id in texts and source_id in texts:
            query = texts[source_id][:QUERY_MAX_CHARACTERS]
            request = _request(query, within, as_of, mode="lexical")
            gathered = search.gather_candidates(tenant_id, request, policy)
            ranked, _ = search.rank_gathered(tenant_id, gathered, request)
            spread = spread_results(tenant_id, ranked, request, ALONG_LINKS, gathered.probe)
            rank = rank_of_first((result.id == memory_id for result in spread), within)
            outcomes.append(SelfTestOutcome(memory_id, rank is not None, rank))
    return outcomes


def _applications(tenant_id: UUID, run: SelfTestRun, asked: Sequence[PlannedTest], policy: Policy) -> Outcomes:
    """Test whether an ordinary search finds each memory by a question about it, and measure the search time."""
    texts = _texts(tenant_id, [test.memory_id for test in asked])
    questions = question_generation.generate_questions(tenant_id, texts, policy)
    as_of = _reference_time(tenant_id, run)
    within = policy.self_tests.found_within
    outcomes = []
    for place, (memory_id, question) in enumerate(questions.items()):
        request = _request(question.text, within, as_of)
        if place == 0:  # untimed warm-up: a new process loads its embedder first
            search.search(tenant_id, request, policy)
        started_at = time.perf_counter()
        results = search.search(tenant_id, request, policy)
        elapsed_ms = 1000 * (time.perf_counter() - started_at)
        rank = rank_of_first(_is_it(results, memory_id, texts), within)
        outcomes.append(
            SelfTestOutcome(memory_id, rank is not None, rank, milliseconds=elapsed_ms, by_model=question.by_model)
        )
    return outcomes


def _other_words(tenant_id: UUID, run: SelfTestRun, asked: Sequence[PlannedTest], policy: Policy) -> Outcomes:
    """Test whether an ordinary search finds each memory by a question that paraphrases it."""
    texts = _texts(tenant_id, [test.memory_id for test in asked])
    as_of = _reference_time(tenant_id, run)
    within = policy.self_tests.found_within
    outcomes = []
    for memory_id, question in question_generation.paraphrase_questions(tenant_id, texts, policy).items():
        results = search.search(tenant_id, _request(question.text, within, as_of), policy)
        rank = rank_of_first(_is_it(results, memory_id, texts), within)
        outcomes.append(SelfTestOutcome(memory_id, rank is not None, rank, by_model=question.by_model))
    return outcomes


def _recall(tenant_id: UUID, _run: SelfTestRun, asked: Sequence[PlannedTest], policy: Policy) -> Outcomes:
    """Test whether recall returns each memory for a message that paraphrases it, and count all returned memories."""
    texts = _texts(tenant_id, [one.memory_id for one in asked])
    without_reranker = policy.model_copy(
        update={"ranking": policy.ranking.model_copy(update={"rerank": 0})}
    )  # a reranker may cost money
    outcomes = []
    for memory_id, question in question_generation.paraphrase_questions(tenant_id, texts, policy).items():
        recalled = recall_memories(
            tenant_id, RecallRequest([Message(text=question.text, role="user")]), without_reranker
        ).memories
        rank = next(
            (n for n, one in enumerate(recalled, 1) if memory_id == one.id or one.text == texts[memory_id]), None
        )
        outcomes.append(
            SelfTestOutcome(memory_id, rank is not None, rank, by_model=question.by_model, brought=len(recalled))
        )
    return outcomes


def _coherence(tenant_id: UUID, _run: SelfTestRun, asked: Sequence[PlannedTest], _policy: Policy) -> Outcomes:
    """Test whether each summary contains the key points that its sources still contain."""
    with database.tenant(tenant_id) as tx:
        summaries = self_tests.list_unchanged_summaries(tx, tenant_id, [test.memory_id for test in asked])
    shares = (
        (summary.memory_id, faithfulness.entailed_share(summary.text, summary.key_points, summary.sources))
        for summary in summaries
    )
    return [
        SelfTestOutcome(memory_id, share >= faithfulness.ENTAILED_MIN, share=share)
        for memory_id, share in shares
        if share is not None
    ]


Test = Callable[[UUID, SelfTestRun, Sequence[PlannedTest], Policy], list[SelfTestOutcome]]

TESTS: Final[Mapping[Kind, Test]] = {
    "connection": _connections,
    "application": _applications,
    "other_words": _other_words,
    "recall": _recall,
    "coherence": _coherence,
}
"""Tests by kind; a memory that can no longer be tested gets no outcome."""


def _request(query: str, within: int, as_of: datetime | None, mode: Mode | None = None) -> SearchRequest:
    """Build a search that records no use, and makes no paid call except for the query's vector."""
    return SearchRequest(query, limit=within, mode=mode, rerank=0, review_blend=0.0, reinforce=False, as_of=as_of)


def _reference_time(tenant_id: UUID, run: SelfTestRun) -> datetime | None:
    """Return the time for which searches rank, or None for the current time."""
    with database.tenant(tenant_id) as tx:
        return run.as_of if run.as_of < database.now(tx) - LOOK_BACK else None


def _is_it(found: Sequence[SearchResult], memory_id: UUID, said: Mapping[UUID, str]) -> Iterator[bool]:
    """Yield, for each result, True if the result is the memory or has exactly the memory's text."""
    return (result.id == memory_id or result.text == said[memory_id] for result in found)


_texts = database.in_tenant(self_tests.read_texts)
