"""The input of ranking: the query, the candidates and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.policy.policy import Policy
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.correction_order import CorrectionPair
from app.domain.search.parameters import Ranking
from app.domain.search.terms import QueryTerm, WeighedQuery
from app.store.search.candidate_selection import SearchProbe


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """The candidates of a search with the query that found them.

    Attributes:
        policy: The tenant's policy.
        ranking: The ranking mode and its weights, from the policy and the request; parts that can't be computed have
            weight 0.
        asked: The query's terms with their document counts.
        query: The query's terms weighted by rarity.
        total: Number of the tenant's memories with words, in the searched tiers.
        probe: The query's words and vectors, with which memories were compared.
        found: The candidates.
        vitals: The candidates' strength, recency, importance, salience and retrieval, in the order of `found`.
        soft_words: How closely the candidates' words match the query's, at least 0, shape (n,).
        corrections: Corrections among the candidates.
    """

    policy: Policy
    ranking: Ranking
    asked: Sequence[QueryTerm]
    query: WeighedQuery
    total: int
    probe: SearchProbe
    found: Sequence[Candidate]
    vitals: CandidateStrength
    soft_words: Floats
    corrections: Sequence[CorrectionPair] = ()
