"""Apply corrections to search results: a newer statement takes the rank of the statement that it corrects."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.policy.policy import Policy
from app.domain.search import correction_order
from app.domain.search.candidate_types import Candidate
from app.domain.search.correction_order import CorrectionPair
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest, SearchResult
from app.services.search.ranking_input import CandidateSet
from app.store.core import database
from app.store.enrichment import corrections


def find_pairs(
    tx: database.Transaction, tenant_id: UUID, found: Sequence[Candidate], policy: Policy, ranking: Ranking
) -> list[CorrectionPair]:
    """Return the corrections among the candidates; none if the policy or the ranking mode doesn't apply corrections.

    One SQL statement looks up the candidates in a partial index of corrections, which is empty for most tenants.
    """
    if not policy.supersession.corrections or ranking.mode not in correction_order.MODES or len(found) < 2:
        return []
    return [
        CorrectionPair(*pair)
        for pair in corrections.list_among(tx, tenant_id, [candidate.memory_id for candidate in found])
    ]


def place_corrections(
    results: list[SearchResult], gathered: CandidateSet, request: SearchRequest
) -> list[SearchResult]:
    """Return the results with each correction above the memory that it corrects, if the query asks about the present.

    A caller that ranks the candidates of `search.gather_candidates` itself must pass all results in its own order and
    truncate them afterwards: a correction may rank far below the memory that it corrects.
    """
    if not gathered.corrections:
        return results
    if correction_order.asks_for_present(request):
        results = correction_order.place_corrections(results, gathered.corrections, request.limit)
    return correction_order.explain_corrections(results, gathered.corrections)
