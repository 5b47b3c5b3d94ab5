"""Ask a conversation's questions: over any part of the memories, and of a tenant as it is."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final
from unittest import mock
from uuid import UUID

import numpy as np
from msgspec import structs

from app.domain.search import scoring
from app.domain.search.candidate_types import CandidateStrength
from app.domain.search.request import SearchRequest
from app.domain.simulation.measures import tells_fact
from app.services.search import search
from app.services.search.ranking_input import CandidateSet
from app.store.consolidation import merges
from app.store.core import database
from app.store.search import candidate_selection
from ops.forgetting import clock
from ops.forgetting.curves import Bools, Floats
from ops.forgetting.life import Life
from ops.recall.dataset import Question

RESULTS: Final = 10
_EVERYTHING: Final = 1_000_000


class AskedTenant:
    """A conversation's questions, asked of a tenant that has forgotten nothing.

    The candidates of each question are gathered once, without the usual limit of their number. A ranking over a part of
    the memories ranks the candidates of that part, by the service's own code, scaled and limited as a search would.
    It differs from a search of a tenant that stores only this part in the rarity of words and in the contexts of turns,
    which are those of all memories.
    """

    def __init__(self, life: Life, questions: Sequence[Question]) -> None:
        """Gather the candidates of these questions, which have evidence."""
        places = {memory.id: place for place, memory in enumerate(life.memories)}
        self.evidence = [[places[each] for each in question.evidence] for question in questions]
        self._tenant_id = life.tenant_id
        self._requests = [_request(question) for question in questions]
        self._limit = candidate_selection.CANDIDATES
        with (
            clock.at(life.tenant_id, life.end),
            mock.patch.object(candidate_selection, "CANDIDATES", _EVERYTHING),
        ):
            self._gathered = [
                search.gather_candidates(life.tenant_id, request, life.policy) for request in self._requests
            ]
        self._found = [
            np.array([life.places[candidate.memory_id] for candidate in gathered.found], np.intp)
            for gathered in self._gathered
        ]
        self._ids, self._end = life.places, life.end

    def recall(self, kept: Bools) -> Floats:
        """Return the share of each question's evidence among the first ten results over the kept memories."""
        with clock.at(self._tenant_id, self._end):
            return np.array(list(self._shares(kept)))

    def _shares(self, kept: Bools) -> Iterator[float]:
        for request, gathered, places, evidence in zip(
            self._requests, self._gathered, self._found, self.evidence, strict=True
        ):
            part = _restrict(gathered, np.flatnonzero(kept[places]), self._limit)
            results, _ = search.rank_gathered(self._tenant_id, part, request) if part.found else ([], False)
            found = {self._ids[result.id] for result in results}
            yield len(found.intersection(evidence)) / len(evidence)


def ask_tenant(life: Life, questions: Sequence[Question], evidence: Sequence[Collection[int]]) -> Floats:
    """Return the share of each question's evidence among the first ten results of a default search.

    A summary among the results counts for each of its sources that it still tells.
    """
    shares = []
    with clock.at(life.tenant_id, life.end):
        for question, wanted in zip(questions, evidence, strict=True):
            results = search.search(life.tenant_id, _request(question), life.policy)
            found = {life.places[result.id] for result in results if result.id in life.places}
            summaries = {result.id: result.text for result in results if result.id not in life.places}
            found |= _told(life, summaries)
            shares.append(len(found.intersection(wanted)) / len(wanted))
    return np.array(shares)


def _told(life: Life, summaries: dict[UUID, str]) -> set[int]:
    if not summaries:
        return set()
    with database.tenant(life.tenant_id) as tx:
        sources = merges.list_sources(tx, life.tenant_id, list(summaries))
    return {
        life.places[source]
        for summary_id, text in summaries.items()
        for source in sources.get(summary_id, ())
        if source in life.places and tells_fact(text, life.memories[life.places[source]].text)
    }


def _request(question: Question) -> SearchRequest:
    return SearchRequest(query=question.question, limit=RESULTS, reinforce=False)


def _restrict(gathered: CandidateSet, rows: np.ndarray, limit: int) -> CandidateSet:
    """Return the candidates in these rows as a search over these memories would have gathered them."""
    found = [gathered.found[row] for row in rows.tolist()]
    words = np.array([candidate.words for candidate in found])
    relevance = np.array([candidate.relevance for candidate in found])
    words /= words.max(initial=0.0) or 1.0
    relevance /= relevance.max(initial=0.0) or 1.0
    words_weight, relevance_weight = scoring.selection(gathered.ranking)
    best = np.argsort(-(words * words_weight + relevance * relevance_weight), kind="stable")[:limit]
    chosen = rows[best]
    vitals = gathered.vitals
    ids = {gathered.found[row].memory_id for row in chosen.tolist()}
    return replace(
        gathered,
        found=[
            structs.replace(found[place], words=float(words[place]), relevance=float(relevance[place]))
            for place in best.tolist()
        ],
        vitals=CandidateStrength(*(getattr(vitals, name)[chosen] for name in CandidateStrength.__slots__)),
        soft_words=gathered.soft_words[chosen],
        corrections=[pair for pair in gathered.corrections if ids.issuperset(pair[:2])],
    )
