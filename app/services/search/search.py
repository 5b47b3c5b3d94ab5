"""Search a tenant's memories by words and by meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from app.domain.ingest.uses import Use
from app.domain.policy.policy import Policy
from app.domain.search import result_list, scoring, terms
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.correction_order import CorrectionPair
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest, SearchResult
from app.domain.search.spreading_activation import spreading_settings
from app.domain.search.terms import QueryTerm, WeighedQuery
from app.domain.strength import review
from app.domain.text.highlight import WINDOW_CHARACTERS, find_highlights, join_excerpt
from app.domain.text.inflection import irregular_forms
from app.domain.text.words import content_words
from app.services.embedding import spaces, tenant_indexes
from app.services.embedding.soft_words import match_words
from app.services.search import archive_query, candidate_strength, correction_placement, priming, search_context_cache
from app.services.search.ranking_input import CandidateSet
from app.services.search.rerank import rerank_results
from app.services.search.result_explanation import add_explanations
from app.services.search.spreading_activation import spread_results
from app.services.strength import memory_strength
from app.services.uses import reviews
from app.store.core import database
from app.store.embedding.embedding_spaces import Space
from app.store.enrichment import word_index
from app.store.search import candidate_selection, search_context
from app.store.search.query_parts import ReducedVector
from app.store.search.search_context import SearchContext
from app.store.strength.states import StoredStates


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of a search.

    Attributes:
        results: Best first.
        uses: Uses to record. The request decides whether results count as used; by default, the policy decides.
        reranked: Whether a reranker was applied to the results.
        gathered: The candidates, if the policy records searches and the search has no `as_of`.
    """

    results: list[SearchResult]
    uses: list[Use]
    reranked: bool = False
    gathered: CandidateSet | None = None


def search(tenant_id: UUID, request: SearchRequest, policy: Policy | None = None) -> list[SearchResult]:
    """Return only the results of `find_memories`, without the uses to record."""
    return find_memories(tenant_id, request, policy).results


def find_memories(tenant_id: UUID, request: SearchRequest, policy: Policy | None = None) -> SearchOutcome:
    """Return the best results for the request.

    There are none if no memory has a word of the query, or a vector with a positive cosine to the query's vector.

    Args:
        policy: Overrides the tenant's policy.

    Raises:
        Invalid: The request's vector has another number of dimensions than the tenant's embedding space.
    """
    gathered = gather_candidates(tenant_id, request, policy)
    policy = gathered.policy
    results, reranked = rank_gathered(tenant_id, gathered, request)
    if request.explain:
        results = add_explanations(tenant_id, results, gathered, request.as_of)
    results = [_add_highlight(result, gathered.query.spellings) for result in results]
    priming.activate_results(tenant_id, results, request, policy)
    reinforces = policy.reinforcement.by_search if request.reinforce is None else request.reinforce
    reinforces = reinforces and request.as_of is None
    used = _used_results(results, policy.reinforcement.by_search_share) if reinforces else []
    recorded = gathered if policy.record_searches and request.as_of is None else None
    return SearchOutcome(results, result_list.list_uses(used, gathered.found), reranked, recorded)


def _add_highlight(result: SearchResult, rarity: Mapping[str, float]) -> SearchResult:
    """Add the best-matching excerpt to a result whose text is long."""
    if len(result.text) <= WINDOW_CHARACTERS:
        return result
    return structs.replace(result, highlight=join_excerpt(result.text, find_highlights(result.text, rarity)))


def _used_results(results: list[SearchResult], share: float) -> list[SearchResult]:
    """Return the active results whose score is at least this share of the best score.

    Archived memories are left out, because appearing in results doesn't restore them.
    """
    score_min = share * max((result.score for result in results), default=0.0)
    return [result for result in results if result.tier == "active" and result.score >= score_min]


def gather_candidates(
    tenant_id: UUID,
    request: SearchRequest,
    policy: Policy | None = None,
    emphasis: Mapping[str, float] = terms.EVEN,
) -> CandidateSet:
    """Find the candidates of a search and all values that ranking needs.

    Args:
        policy: Overrides the tenant's policy.
        emphasis: Factor for the rarity of each word of the query; words that aren't listed have factor 1.
    """
    resolved, compared = _find_candidates(tenant_id, request, policy, emphasis)
    if compared.mark != resolved.around.mark or _is_in_another_era(resolved.around, compared.now):
        # The cached context is out of date, for one of two reasons. The tenant's policies or spaces have changed, and
        # vectors of its former space may no longer exist. Or this process's clock stopped while the machine was
        # suspended: the database's clock is then ahead of it, and another policy is in force.
        search_context_cache.forget(tenant_id)
        resolved, compared = _find_candidates(tenant_id, request, policy, emphasis)
    around = resolved.around._replace(now=compared.now)
    if compared.mark != around.mark:
        with database.tenant(tenant_id) as tx:
            around = search_context.read(tx, tenant_id)
    vitals = (
        candidate_strength.strengths_of_states(tenant_id, compared.held, around, request.as_of)
        if compared.candidates
        else CandidateStrength.empty()
    )
    query, ranking = resolved.query, compared.ranking
    soft_words = (
        match_words(query.soft, compared.candidates) if ranking.soft_words else np.zeros(len(compared.candidates))
    )
    return CandidateSet(
        resolved.policy,
        ranking,
        resolved.asked,
        query,
        resolved.total,
        compared.probe,
        compared.candidates,
        vitals,
        soft_words,
        compared.pairs,
    )


def _is_in_another_era(around: SearchContext, now: float) -> bool:
    """Return True if another policy is in force at `now` than at the context's own time."""
    times = memory_strength.build_timeline(around.policies)
    return times.at(now).version != times.at(around.now).version


@dataclass(frozen=True, slots=True)
class _ResolvedQuery:
    """A query with the tenant's policy, ranking weights and word counts.

    Attributes:
        around: The tenant's search context, possibly cached.
        policy: The policy in force for this search.
        wanted: The policy's ranking weights, overridden by the request's.
        asked: The query's terms with their document counts.
        query: The query's terms weighted by rarity.
        active: Number of active memories in the word index.
        total: Number of memories whose words are indexed, in the searched tiers.
    """

    around: SearchContext
    policy: Policy
    wanted: Ranking
    asked: Sequence[QueryTerm]
    query: WeighedQuery
    active: int
    total: int


@dataclass(frozen=True, slots=True)
class _ComparedCandidates:
    """The candidates, and the words and vectors of the query that they were compared with.

    Attributes:
        candidates: In the order of the SQL statement.
        held: The candidates' strength states.
        now: Time of the read, in seconds since 1970.
        mark: Version stamp of the tenant's search context at that time.
        pairs: Corrections among the candidates.
        probe: The words and vectors of the query.
        ranking: The ranking weights; parts that can't be computed have weight 0.
    """

    candidates: Sequence[Candidate]
    held: StoredStates
    now: float
    mark: str
    pairs: Sequence[CorrectionPair]
    probe: candidate_selection.SearchProbe
    ranking: Ranking


def _find_candidates(
    tenant_id: UUID, request: SearchRequest, policy: Policy | None, emphasis: Mapping[str, float]
) -> tuple[_ResolvedQuery, _ComparedCandidates]:
    """Look up the query's words and find candidates.

    This takes one transaction, or two if the archive is searched or the query's vector can't be computed locally. The
    computation of the vectors may take further ones between the two.
    """
    in_archive = "archived" in request.tiers
    expected = candidate_selection.expected_settings(request, has_graph=search_context_cache.has_graph(tenant_id))
    with database.tenant(tenant_id, "" if in_archive else expected) as tx:
        resolved = _resolve_query(tx, tenant_id, request, policy, emphasis)
        if not in_archive and spaces.is_at_hand(resolved.around.spaces, request.vector):
            return resolved, _compare_candidates(
                tx, tenant_id, request, resolved, *_vectors(tenant_id, request, resolved)
            )
    vectors = _vectors(tenant_id, request, resolved)
    with database.tenant(tenant_id, expected) as tx:
        return resolved, _compare_candidates(tx, tenant_id, request, resolved, *vectors)


def _resolve_query(
    tx: database.Transaction,
    tenant_id: UUID,
    request: SearchRequest,
    policy: Policy | None,
    emphasis: Mapping[str, float],
) -> _ResolvedQuery:
    spellings = list(dict.fromkeys(content_words(request.query)))
    around = search_context_cache.read(tx, tenant_id)
    policy = policy or memory_strength.build_timeline(around.policies).at(around.now).policy
    forms = irregular_forms(spellings) if policy.language == "english" else {}
    spellings_and_forms = list(dict.fromkeys([*spellings, *chain.from_iterable(forms.values())]))
    in_archive = "archived" in request.tiers
    query_terms, active = word_index.count_terms(
        tx, tenant_id, request.query, spellings_and_forms, policy.language, every=in_archive
    )
    query_terms, total = (
        archive_query.add_archive_counts(tx, tenant_id, query_terms, active) if in_archive else (query_terms, active)
    )
    query = terms.weigh_query(query_terms, total, forms, emphasis)
    return _ResolvedQuery(around, policy, request.ranking(policy.ranking), query_terms, query, active, total)


def _vectors(
    tenant_id: UUID, request: SearchRequest, looked_for: _ResolvedQuery
) -> tuple[NDArray[np.float32] | None, tuple[ReducedVector, ...]]:
    """Return the query's vector for active memories, and its vectors for archived ones."""
    tenant_spaces, idf = looked_for.around.spaces, looked_for.query.spellings
    space = tenant_spaces.searched if tenant_spaces else None
    ranking = looked_for.wanted
    vector = _vector(tenant_id, space, request, idf) if scoring.selection_weights(ranking).relevance else None
    return vector, _archive_vectors(tenant_id, space, request, idf, ranking) if "archived" in request.tiers else ()


def _compare_candidates(
    tx: database.Transaction,
    tenant_id: UUID,
    request: SearchRequest,
    looked_for: _ResolvedQuery,
    vector: NDArray[np.float32] | None,
    short: tuple[ReducedVector, ...],
) -> _ComparedCandidates:
    tenant_spaces = looked_for.around.spaces
    ranking = scoring.selection_weights(
        looked_for.wanted, has_vector=bool(short) or (vector is not None and bool(vector.any()))
    )
    indexed_memories = looked_for.active if tenant_indexes.has_graph(tenant_spaces, looked_for.active) else None
    lexemes = looked_for.query.lexemes if scoring.selection(ranking)[0] else {}
    space_id, has_windows = tenant_spaces.searched.space_id if tenant_spaces else None, looked_for.around.has_windows
    probe = candidate_selection.SearchProbe(lexemes, space_id, vector, indexed_memories, short, has_windows)
    selected = candidate_selection.find_candidates(tx, tenant_id, probe, request, ranking)
    pairs = (
        correction_placement.find_pairs(tx, tenant_id, selected.candidates, looked_for.policy, ranking)
        if selected.has_corrections
        else ()
    )
    now, mark = selected.now, selected.mark
    if not mark:
        around = search_context.read(tx, tenant_id)
        now, mark = around.now, around.mark
    return _ComparedCandidates(selected.candidates, selected.held, now, mark, pairs, probe, ranking)


def rank_gathered(tenant_id: UUID, gathered: CandidateSet, request: SearchRequest) -> tuple[list[SearchResult], bool]:
    """Rank the candidates; return at most `request.limit` results, best first, and whether a reranker was applied."""
    policy, ranking = gathered.policy, gathered.ranking
    parameters = policy.known_parameters
    spreads = spreading_settings(ranking.mode, parameters)
    review_share = review.blend_share(request.review_blend, policy.review, policy.forgetting.profile)
    limit = (
        candidate_selection.CANDIDATES
        if review_share or spreads or gathered.corrections
        else max(request.limit, ranking.rerank)
    )
    results = result_list.rank_candidates(
        gathered.found,
        scoring.apply_context(gathered.vitals, gathered.found, ranking, policy.importance),
        structs.replace(request, limit=limit),
        ranking,
        priming=priming.priming_factors(tenant_id, gathered.found, request, policy),
        now=_reference_time(request, policy),
        parameters=parameters,
        soft_words=gathered.soft_words,
    )
    if spreads:
        results = spread_results(tenant_id, results, request, spreads, gathered.probe)
    best = results[0].score if results else 0.0
    results, reranked = rerank_results(tenant_id, request.query, results, ranking.rerank)
    results = correction_placement.place_corrections(results, gathered, request)
    if review_share:
        # The threshold is a share of the best score before reranking. Reranking raises only the scores of the results
        # passed to the reranker, so a share of the raised best score could exceed the scores of other relevant results.
        score_min = review.BLEND_SCORE_MIN * best
        results = reviews.blend_reviews(
            tenant_id, results, policy.review, review_share, request.limit, least=score_min, as_of=request.as_of
        )
    return results[: request.limit], reranked


def _reference_time(request: SearchRequest, policy: Policy) -> datetime | None:
    """Return the reference time for expressions like "yesterday", in the tenant's time zone; None if out of range."""
    try:
        return (request.as_of or datetime.now(UTC)).astimezone(ZoneInfo(policy.time_zone))
    except OverflowError:
        return None


def _vector(
    tenant_id: UUID, space: Space | None, request: SearchRequest, idf: Mapping[str, float]
) -> NDArray[np.float32] | None:
    """Return the request's own vector or the query's embedding; None to search by words only."""
    if request.vector is not None:
        return spaces.scale_given_vector(tenant_id, space, request.vector)
    return spaces.query_vector(tenant_id, space, request.query, idf) if space else None


def _archive_vectors(
    tenant_id: UUID, searched: Space | None, request: SearchRequest, idf: Mapping[str, float], wanted: Ranking
) -> tuple[ReducedVector, ...]:
    """Return the query's vectors for archived memories; the request's own vector applies only to `searched`."""

    def asked(space: Space) -> NDArray[np.float32] | None:
        if request.vector is not None and space != searched:
            return None
        return _vector(tenant_id, space, request, idf)

    return archive_query.archive_probes(tenant_id, asked) if scoring.selection_weights(wanted).relevance else ()
