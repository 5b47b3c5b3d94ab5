"""Apply corrections to search results: a newer statement takes the place of the one that it corrects."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.policy.policy import Policy
from app.domain.search import present
from app.domain.search.candidates import Candidate
from app.domain.search.present import Pair
from app.domain.search.ranking import Ranking
from app.domain.search.request import SearchRequest, SearchResult
from app.services.search.gathered import Gathered
from app.store.core import database
from app.store.enrichment import corrections as rows


def pairs(
    tx: database.Transaction, tenant_id: UUID, found: Sequence[Candidate], policy: Policy, ranking: Ranking
) -> list[Pair]:
    """Return the corrections among the candidates; none if the policy or the ranking mode doesn't apply corrections.

    A single statement looks the candidates up in an index of corrections only, which is empty for most tenants.
    """
    if not policy.supersession.corrections or ranking.mode not in present.MODES or len(found) < 2:
        return []
    return [Pair(*each) for each in rows.among(tx, tenant_id, [one.memory_id for one in found])]


def placed(results: list[SearchResult], gathered: Gathered, request: SearchRequest) -> list[SearchResult]:
    """Return the results with each correction above what it corrects, if the question asks about the present.

    A caller that ranks the candidates of `search.gather` itself must pass all of its results, in its order, before
    truncating them: a correction may rank far below what it corrects.
    """
    if not gathered.corrections:
        return results
    if present.asks_for_present(request):
        results = present.place(results, gathered.corrections, request.limit)
    return present.explained(results, gathered.corrections)
