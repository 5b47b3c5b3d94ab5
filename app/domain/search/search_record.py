"""Record the parts of a search's scores, so that its candidates can be ranked again with other weights."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np

from app.domain.dynamics.ops import Floats
from app.domain.policy.policy import Policy
from app.domain.search import correction_order, scoring
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest, Weights
from app.domain.search.scoring import BlendedScores
from app.domain.search.signals import SIGNALS, ScoreParts

CANDIDATES_MAX: Final = 50
"""Maximum number of candidates recorded per search, best first."""
BASES: Final = ("words", "soft_words", "relevance")
"""Parts that select the candidates of a search and from which the thread and neighbours parts are derived."""
PARTS: Final = (*BASES, *SIGNALS)
"""Parts of relevance, by the names of their weights."""
RESULTS_USUAL: Final = SearchRequest(query="").limit
VITALS: Final = tuple(field.name for field in fields(CandidateStrength))
COLUMNS: Final = (*PARTS, "cosine", *VITALS)
"""Columns of the recorded numbers."""
LAYOUT: Final = zlib.crc32(",".join(COLUMNS).encode())
"""Checksum of this version's columns; a record with other columns cannot be read."""

_weights = msgspec.json.Decoder(Weights)
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class RecordedCandidates:
    """Candidates of a search with the numbers behind their ranking.

    Attributes:
        memory_ids: The candidates, shape (n,).
        columns: Unweighted parts, cosine and time-dependent scores in the order of `COLUMNS`, shape (columns, n).
        bases: Base parts with a weight; the others are 0 for every candidate.
        has_vector: True if the query had a vector.
        corrections: Index pairs of a candidate and an earlier candidate that it corrects; empty unless the query asks
            for the present.
    """

    memory_ids: Sequence[UUID]
    columns: Floats
    bases: frozenset[str]
    has_vector: bool
    corrections: Sequence[tuple[int, int]] = ()

    def column(self, name: str) -> Floats:
        """Return a column by name, shape (n,)."""
        return np.asarray(self.columns[COLUMNS.index(name)], np.float64)

    @property
    def vitals(self) -> CandidateStrength:
        """Time-dependent scores of the candidates at the time of the search."""
        return CandidateStrength(**{name: self.column(name) for name in VITALS})

    def only(self, places: Sequence[int]) -> RecordedCandidates:
        """Return the record restricted to these candidates, in the given order."""
        new_index = {place: n for n, place in enumerate(places)}
        pairs = [
            (new_index[newer], new_index[older])
            for newer, older in self.corrections
            if newer in new_index and older in new_index
        ]
        ids = [self.memory_ids[place] for place in places]
        return RecordedCandidates(ids, self.columns[:, list(places)], self.bases, self.has_vector, pairs)


def unit_weights(ranking: Ranking) -> Ranking:
    """Return the ranking with a weight of 1 for every part, except base parts that have a weight of 0.

    Searches are recorded with these weights. Base parts with a weight of 0 stay at 0 because the other parts depend on
    which base parts have a weight.
    """
    bases = {name: 1.0 if getattr(ranking, name) else 0.0 for name in BASES}
    return ranking.model_copy(update=bases | dict.fromkeys(SIGNALS, 1.0))


def request_fields(request: SearchRequest) -> dict[str, Any]:
    """Return the fields of a request as JSON, without its query, vector, subject, threads and session.

    Default values are omitted. An excluded thread is recorded only as `true`: erasures find a record
    by its candidates, none of which is in that thread.
    """
    values = msgspec.to_builtins(request)
    defaults = msgspec.to_builtins(SearchRequest(query=""))
    recorded = {name: values[name] for name in _REQUEST if values[name] != defaults[name]}
    if "weights" in recorded:
        recorded["weights"] = {name: weight for name, weight in recorded["weights"].items() if weight is not None}
    return recorded | ({} if request.exclude_thread is None else {"excludes_thread": True})


_REQUEST: Final = (
    *("limit", "tags", "kinds", "roles", "after", "before", "tiers", "superseded"),
    *("mode", "weights", "rerank", "review_blend"),
)


def effective_ranking(request: Mapping[str, Any], policy: Ranking, *, has_vector: bool) -> Ranking:
    """Return the weights of a recorded search under a policy, including the request's own weights."""
    weights = _weights.decode(msgspec.json.encode(request["weights"])) if "weights" in request else None
    search = SearchRequest(query="", mode=request.get("mode"), weights=weights)
    return scoring.selection_weights(search.ranking(policy), has_vector=has_vector)


def is_comparable(recorded: RecordedCandidates, ranking: Ranking) -> bool:
    """Return true if the recorded numbers determine the ranking under these weights.

    A base part whose weight was 0 has no recorded numbers. In the mode `hybrid`, a different set of base parts would
    also change the thread and neighbours parts.
    """
    counted = frozenset(name for name in BASES if getattr(ranking, name))
    return recorded.bases == counted if ranking.mode == "hybrid" else counted <= recorded.bases


def order_candidates(
    recorded: RecordedCandidates,
    ranking: Ranking,
    policy: Policy,
    vitals: CandidateStrength | None = None,
    *,
    shown: int = RESULTS_USUAL,
) -> list[int]:
    """Return the indexes of the candidates as ranked by these weights, best first.

    As in a search, ties are broken by the higher id, candidates with a score of 0 are dropped, and corrections rank
    above the memories that they correct. Reranking, review results, spreading and priming are not replayed.

    Args:
        ranking: The weights, including the request's own.
        vitals: Time-dependent scores; defaults to those at the time of the search.
        shown: Number of results that the search returns.
    """
    scores = _scores(recorded, ranking, policy, vitals or recorded.vitals)
    ids = recorded.memory_ids
    best = sorted(range(len(ids)), key=lambda n: (scores[n], ids[n]), reverse=True)
    scored = [n for n in best if scores[n] > 0]
    if policy.supersession.corrections and ranking.mode in correction_order.MODES:
        scored_indexes = set(scored)
        pairs = [pair for pair in recorded.corrections if scored_indexes.issuperset(pair)]
        return correction_order.reorder_results(scored, pairs, shown)[0]
    return scored


def part_features(recorded: RecordedCandidates, ranking: Ranking, policy: Policy) -> Floats:
    """Return each candidate's features for fitting the weights: its unweighted parts times its factors.

    Args:
        ranking: Weights of the mode `hybrid`, whose scores are the features times the weights of the parts.

    Returns:
        Shape (n, parts), in the order of `PARTS`.
    """
    factors = _blended(recorded, ranking, policy, recorded.vitals).factors.values()
    parts = np.array([recorded.column(name) for name in PARTS])
    return np.asarray(np.prod([parts, *(np.broadcast_to(factor, parts.shape) for factor in factors)], axis=0).T)


def _scores(recorded: RecordedCandidates, ranking: Ranking, policy: Policy, vitals: CandidateStrength) -> Floats:
    return _blended(recorded, ranking, policy, vitals).scores


def _blended(
    recorded: RecordedCandidates, ranking: Ranking, policy: Policy, vitals: CandidateStrength
) -> BlendedScores:
    parts = ScoreParts({name: float(getattr(ranking, name)) * recorded.column(name) for name in PARTS})
    needs_candidates = ranking.mode not in correction_order.MODES or ranking.in_context
    candidates = _candidates(recorded) if needs_candidates else []
    vitals = scoring.apply_context(vitals, candidates, ranking, policy.importance)
    return scoring.blend_scores(candidates, parts, vitals, ranking, parameters=policy.known_parameters)


def _candidates(recorded: RecordedCandidates) -> list[Candidate]:
    """Rebuild candidates with only their base scores, for modes that need them."""
    return [
        Candidate(
            memory_id=memory_id,
            text="",
            subject=None,
            thread=None,
            speaker=None,
            external_id=None,
            kind=None,
            tags=[],
            occurred_at=None,
            created_at=_LONG_AGO,
            tier="active",
            words=words,
            relevance=relevance,
            cosine=cosine,
        )
        for memory_id, words, relevance, cosine in zip(
            recorded.memory_ids,
            recorded.column("words").tolist(),
            recorded.column("relevance").tolist(),
            recorded.column("cosine").tolist(),
            strict=True,
        )
    ]
