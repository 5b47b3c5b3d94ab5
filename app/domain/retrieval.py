"""Search: what is asked, how rare words are, and how partial scores become one ranking."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt

from app.domain.memory import Kind
from app.domain.policy import Ranking
from app.domain.touch import Use
from app.domain.wording import asks_when, is_named, names, speaker_of, tells_when
from app.errors import FieldError, Invalid

QUERY_MAX_CHARACTERS = 8192
RESULTS_MAX = 100
TURN_MAX = 1_000_000_000
TERMS_MAX = 32
"""Words of a query that are looked up; of a longer one, the rarest."""
PARTS = ("words", "relevance", "actor", "when")
"""The parts of a score, each named for its weight in the policy's ranking."""

_Filter = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class SearchRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is searched for, and among which memories.

    Attributes:
        query: Plain words, up to 8192 characters; signs and operators have no meaning.
        limit: Most results, 1 to 100.
        subject: Only memories about this subject.
        thread: Only memories of this thread.
        tags: Only memories that have all of these tags.
        kinds: Only memories of one of these kinds; empty means any.
        after: Only memories that happened (else: were accepted) at this moment or later.
        before: Only memories that happened (else: were accepted) before this moment.
        explain: Give the partial scores.
        reinforce: Whether what is found counts as used; null leaves it to the tenant's policy.
        session: The conversation that it is used in: a memory is reinforced at most once in a while by one.
        turn: Which turn of the session this is: what its turns have found lately counts more (cmm).
        review_blend: Share of the results that goes to memories that want review, 0 to 1; left out, 0.3 in the
            profile mnemex and none elsewhere.
    """

    query: Annotated[str, msgspec.Meta(max_length=QUERY_MAX_CHARACTERS)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=RESULTS_MAX)] = 10
    subject: _Filter | None = None
    thread: _Filter | None = None
    tags: tuple[_Filter, ...] = ()
    kinds: tuple[Kind, ...] = ()
    after: _Moment | None = None
    before: _Moment | None = None
    explain: bool = False
    reinforce: bool | None = None
    session: _Filter | None = None
    turn: Annotated[int, msgspec.Meta(ge=0, le=TURN_MAX)] | None = None
    review_blend: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None

    def __post_init__(self) -> None:
        """Refuse NUL characters, which no memory can hold, and a turn of no session.

        Raises:
            ValueError: One of the texts has one; a `ValidationError` while decoding.
            Invalid: There is a turn alone.
        """
        if self.turn is not None and self.session is None:
            raise Invalid(errors=[FieldError("turn", "needs a session")])
        for text in (self.query, self.subject, self.thread, *self.tags):
            if text and "\0" in text:
                raise ValueError("a NUL character can't be searched for")


class SearchResult(msgspec.Struct, frozen=True):
    """A memory found.

    `score` is at least 0 and at most the sum of the ranking's weights; it compares results of one search.
    `explain` holds its `PARTS` by name, each weighted; None unless asked. In a session of `cmm`, it holds `priming`
    too, by which their sum is multiplied. `for_review` marks what `review_blend` gives
    places to.
    """

    id: UUID
    text: str
    score: float
    subject: str | None
    thread: str | None
    speaker: str | None
    external_id: str | None
    kind: str | None
    tags: list[str]
    occurred_at: datetime | None
    created_at: datetime
    explain: dict[str, float] | None = None
    for_review: bool = False


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory that the store found, with its base scores.

    Attributes:
        words: Weighted share of the query's words, 0 to 1; the best memory of the search has 1.
        relevance: Cosine to the query, 0 to 1; the best memory of the search has 1.
    """

    memory_id: UUID
    text: str
    subject: str | None
    thread: str | None
    speaker: str | None
    external_id: str | None
    kind: str | None
    tags: list[str]
    occurred_at: datetime | None
    created_at: datetime
    words: float
    relevance: float


@dataclass(frozen=True, slots=True)
class Term:
    """A lexeme of the query, and in how many of the tenant's memories it is.

    Attributes:
        lexeme: As the full-text index has it.
        documents: Memories that contain it.
        spelling: The word of the query it came from; None for a lexeme of the query as a whole.
    """

    lexeme: str
    documents: int
    spelling: str | None


@dataclass(frozen=True, slots=True)
class WeighedQuery:
    """A query's words by rarity (`idf`): `lexemes` for the full-text index, `spellings` for the embedder."""

    lexemes: dict[str, float]
    spellings: dict[str, float]


def idf(documents: int, total: int) -> float:
    """Rarity of a word: ln(1 + (N - n + ½) / (n + ½)), above 0 (Robertson and Spärck Jones, as in BM25).

    Args:
        documents: Memories that contain it, n, at least 0.
        total: All memories, N; taken as n where it is less.
    """
    return math.log1p((max(total - documents, 0) + 0.5) / (documents + 0.5))


def weigh(terms: Sequence[Term], total: int) -> WeighedQuery:
    """The query's words by rarity among `total` memories.

    A lexeme in no memory can't find any and is left out; a spelling in no memory counts as the rarest, since
    its meaning may be near. Of many lexemes, the `TERMS_MAX` rarest stay.
    """
    lexemes: dict[str, float] = {}
    spellings: dict[str, float] = {}
    for term in terms:
        rarity = idf(term.documents, total)
        if term.spelling is not None:
            spellings[term.spelling] = max(rarity, spellings.get(term.spelling, 0.0))
        elif term.documents > 0:
            lexemes[term.lexeme] = rarity
    rarest = sorted(lexemes.items(), key=lambda item: (-item[1], item[0]))[:TERMS_MAX]
    return WeighedQuery(dict(rarest), spellings)


def rank(
    candidates: Sequence[Candidate],
    request: SearchRequest,
    ranking: Ranking,
    priming: npt.NDArray[np.float64] | None = None,
) -> list[SearchResult]:
    """The best of the candidates, best first.

    The score is words and relevance by weight, and more where the query names the speaker, or asks for a time
    that the text tells. Ties go to the later memory id. Candidates without any score are left out.

    Args:
        candidates: What was found.
        request: What was looked for.
        ranking: The weights.
        priming: Factor for each candidate's score, 1 or more, shape (n,); None where nothing is primed.
    """
    if not candidates:
        return []
    named, timed = names(request.query), asks_when(request.query)
    parts = np.array(
        [
            (
                found.words * ranking.words,
                found.relevance * ranking.relevance,
                ranking.actor * is_named(speaker_of(found.text, found.speaker), named),
                ranking.when * (timed and tells_when(found.text)),
            )
            for found in candidates
        ]
    )
    scores = parts.sum(axis=1)
    explained = [dict(zip(PARTS, row, strict=True)) for row in parts.tolist()]
    if priming is not None:
        scores = scores * priming
        explained = [part | {"priming": factor} for part, factor in zip(explained, priming.tolist(), strict=True)]
    order = sorted(range(len(candidates)), key=lambda n: (scores[n], candidates[n].memory_id), reverse=True)
    return [
        _result(candidates[n], float(scores[n]), explained[n] if request.explain else None)
        for n in order[: request.limit]
        if scores[n] > 0
    ]


def uses(results: Sequence[SearchResult], candidates: Sequence[Candidate]) -> list[Use]:
    """The results as uses of their memories.

    The margin is by how much a result's relevance, of which the best candidate has 1, is above that of all that come
    after it, shown or not.
    """
    by_id = {found.memory_id: found for found in candidates}
    shown = [by_id[result.id] for result in results]
    left = by_id.keys() - {found.memory_id for found in shown}
    after = max((by_id[memory_id].relevance for memory_id in left), default=0.0)
    told = []
    for place in range(len(shown) - 1, -1, -1):
        found = shown[place]
        margin = min(max(found.relevance - after, -1.0), 1.0)
        told.append(Use(found.memory_id, place=place, margin=margin, lexical=found.words > 0))
        after = max(after, found.relevance)
    return told[::-1]


def _result(found: Candidate, score: float, explained: dict[str, float] | None) -> SearchResult:
    return SearchResult(
        id=found.memory_id,
        text=found.text,
        score=score,
        subject=found.subject,
        thread=found.thread,
        speaker=found.speaker,
        external_id=found.external_id,
        kind=found.kind,
        tags=found.tags,
        occurred_at=found.occurred_at,
        created_at=found.created_at,
        explain=explained,
    )
