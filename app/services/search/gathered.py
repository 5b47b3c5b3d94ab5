"""What a search ranks, between gathering and ranking it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.policy.policy import Policy
from app.domain.search.candidates import Candidate, Vitals
from app.domain.search.present import Pair
from app.domain.search.ranking import Ranking
from app.domain.search.terms import Term, WeighedQuery
from app.store.search.search import Probe


@dataclass(frozen=True, slots=True)
class Gathered:
    """What a search ranks, and what it was found by.

    Attributes:
        policy: The tenant's.
        ranking: The weights: the policy's, with the request's own in their places, by the mode.
        asked: The query's words, with their counts.
        query: The same by rarity.
        total: All of the tenant's memories that have words, in the tiers that are searched.
        probe: What memories were compared with.
        found: Candidates.
        vitals: What time has made of them, in their order.
        soft_words: How closely their words match the query's, at least 0, shape (n,).
        corrections: Of candidates, which corrects which.
    """

    policy: Policy
    ranking: Ranking
    asked: Sequence[Term]
    query: WeighedQuery
    total: int
    probe: Probe
    found: Sequence[Candidate]
    vitals: Vitals
    soft_words: Floats
    corrections: Sequence[Pair] = ()
