"""Define the search request and its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.memory import EMBEDDING_MAX_DIMENSIONS, Kind, check_direction
from app.domain.ingest.roles import USUAL, Role
from app.domain.ingest.sources import Source
from app.domain.search.content_filters import NUL, ContentFilters
from app.domain.search.parameters import RERANK_MAX, Mode, Ranking
from app.errors import FieldError, Invalid

QUERY_MAX_CHARACTERS = 32_768
RESULTS_MAX = 100
TURN_MAX = 1_000_000_000

Tier = Literal["active", "archived", "cold"]

_Filter = Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
_Weight = Annotated[float, msgspec.Meta(ge=0, le=10)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Weights(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Weights for one search, overriding the policy's; null uses the policy's weight.

    Attributes:
        words: Words shared by query and memory, 0 to 10.
        soft_words: Closest words in meaning, 0 to 10.
        relevance: Closeness of meaning of the whole memory, 0 to 10.
        thread: Fit of the best other memory of the thread, 0 to 10.
        neighbours: Fit of the better of the previous and the next turn, 0 to 10.
        role: Match of the speaker's role: the user, or the assistant if the query asks for its words, 0 to 10.
        actor: Memory said by a speaker whom the query names, 0 to 10.
        when: Memory that states a time, if the query asks for one, 0 to 10.
        first_person: Memory in the first person, 0 to 10.
        moment: Memory that happened at a time named in the query, 0 to 10.
        now: Later memories, if the query asks for the present, 0 to 10.
        context: Weight of a word that occurs only in neighbouring turns, relative to one in the memory, 0 to 1.
        strength: Effect of current strength on the score, 0 to 1.
        recency: Effect of recent use on the score, 0 to 1.
        importance: Effect of importance on the score, 0 to 1.
    """

    words: _Weight | None = None
    soft_words: _Weight | None = None
    relevance: _Weight | None = None
    thread: _Weight | None = None
    neighbours: _Weight | None = None
    role: _Weight | None = None
    actor: _Weight | None = None
    when: _Weight | None = None
    first_person: _Weight | None = None
    moment: _Weight | None = None
    now: _Weight | None = None
    context: _Share | None = None
    strength: _Share | None = None
    recency: _Share | None = None
    importance: _Share | None = None


class SearchRequest(ContentFilters, forbid_unknown_fields=True, frozen=True):
    """A search query and its filters; those by content are inherited.

    Attributes:
        query: Plain words, up to 32,768 characters; punctuation and operators have no meaning. Required unless `vector`
            is given.
        vector: Query vector to use instead of the query text's embedding: from the tenant's embedding space, up to
            16,000 numbers, of any norm except 0. The words of `query`, if any, still count.
        limit: Maximum number of results, 1 to 100.
        subject: Only memories about this subject.
        thread: Only memories of this thread.
        exclude_thread: No memories of this thread, such as the conversation's own.
        tags: Only memories that have all of these tags.
        kinds: Only memories of one of these kinds; empty means any.
        roles: Only memories of these roles; null stands for memories without a role. If omitted, memories of the roles
            system and tool are excluded.
        after: Only memories that happened (or, if unknown, were accepted) at or after this time.
        before: Only memories that happened (or, if unknown, were accepted) before this time.
        tiers: Only memories in these tiers.
        superseded: Include superseded memories.
        as_of: Rank by strength, recency and importance as of this time, exclude memories accepted later, and include
            memories superseded later; null means now. Such a search uses no priming and reinforces nothing: `reinforce`
            must not be true.
        mode: Ranking mode; null uses the tenant's policy.
        weights: Weights that override the policy's.
        rerank: Number of top results that the configured reranker reorders, 0 to 50; null uses the tenant's policy. If
            there is no reranker or it times out, the results keep their order.
        explain: Return the partial scores.
        reinforce: Count results as used; null uses the tenant's policy.
        session: The conversation that makes the search; it reinforces a memory at most once per refractory period.
        turn: The turn of the session; results of its recent turns are primed (cmm).
        review_blend: Share of the results reserved for memories due for review, 0 to 1; defaults to 0.3 in the profile
            mnemex and to none elsewhere.
        promoted: Only promoted memories, or only others; null means both.
    """

    query: Annotated[str, msgspec.Meta(max_length=QUERY_MAX_CHARACTERS)] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=RESULTS_MAX)] = 10
    subject: _Filter | None = None
    thread: _Filter | None = None
    exclude_thread: _Filter | None = None
    tags: tuple[_Filter, ...] = ()
    kinds: tuple[Kind, ...] = ()
    after: _Moment | None = None
    before: _Moment | None = None
    tiers: Annotated[tuple[Tier, ...], msgspec.Meta(min_length=1)] = ("active",)
    superseded: bool = False
    as_of: _Moment | None = None
    mode: Mode | None = None
    weights: Weights | None = None
    rerank: Annotated[int, msgspec.Meta(ge=0, le=RERANK_MAX)] | None = None
    explain: bool = False
    reinforce: bool | None = None
    session: _Filter | None = None
    turn: Annotated[int, msgspec.Meta(ge=0, le=TURN_MAX)] | None = None
    review_blend: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    vector: Annotated[list[float], msgspec.Meta(min_length=1, max_length=EMBEDDING_MAX_DIMENSIONS)] | None = None
    roles: Annotated[tuple[Role | None, ...], msgspec.Meta(min_length=1)] = USUAL
    promoted: bool | None = None

    def __post_init__(self) -> None:
        """Reject NUL characters, which no memory can contain, and inconsistent fields.

        Raises:
            Invalid: A text contains NUL, the metadata are invalid, `turn` is set without `session`, `reinforce` is true
                with `as_of`, or the vector is all zeros or too large.
        """
        if self.vector is not None:
            check_direction(self.vector, "vector")
        errors = []
        if self.as_of is not None and self.reinforce:
            message = "must not be true with as_of: a search of a past state doesn't count as a use"
            errors.append(FieldError("reinforce", message))
        if self.turn is not None and self.session is None:
            errors.append(FieldError("turn", "needs a session"))
        texts = {"query": self.query, "subject": self.subject, "thread": self.thread}
        errors += find_nul({**texts, "exclude_thread": self.exclude_thread}, self.tags)
        errors += self.find_faults()
        if errors:
            raise Invalid(errors=errors)

    def check_request(self) -> None:
        """Reject a caller's search without a query; `request_body.decode` calls this.

        Raises:
            Invalid: The query is blank, and there is no vector.
        """
        if self.vector is None and not self.query.strip():
            raise Invalid(errors=[FieldError("query", "must be given, or `vector`")])

    def ranking(self, policy: Ranking) -> Ranking:
        """Return the policy's weights with the request's own applied."""
        own = {} if self.weights is None else msgspec.structs.asdict(self.weights)
        own |= {"mode": self.mode, "rerank": self.rerank}
        return policy.model_copy(update={name: value for name, value in own.items() if value is not None})


def find_nul(texts: Mapping[str, str | None], tags: Sequence[str] = ()) -> list[FieldError]:
    """Return an error for each text with a NUL character.

    Args:
        texts: Texts by the names of their fields.
        tags: Texts of the field `tags`.
    """
    return [
        FieldError(name, NUL)
        for name, text in {**texts, **{f"tags[{place}]": tag for place, tag in enumerate(tags)}}.items()
        if text and "\0" in text
    ]


_EXPLAINED = msgspec.Meta(
    description="Why the result was found. The numbers are the weighted parts of its relevance, by the names of their "
    "weights; the score is their sum multiplied by all `factors`. A neighbour added by spreading has only the part "
    "`spread`; `spread_from` names the result that added it and `spread_by` the kind of link. `ranks`: its rank among "
    "the candidates by each base score alone, from 1, or null. `matched`: the query's words in the memory, with their "
    "rarity (idf); `near`: the query's words that occur only in neighbouring turns. `vitals`: time-dependent scores, 0 "
    "to 1. `importance`: importance with the query as its context, and its four factors before their weights. "
    "`reranker`: its name and score. `corrects` and `corrected_by`: earlier memories that this one corrects, and later "
    "ones that correct it; if the query asks for the present, the two exchange ranks and scores, and "
    "`placed.own_score` is the score before the exchange.",
    examples=[
        {
            "words": 1.0,
            "relevance": 0.41,
            "actor": 0.4,
            "when": 0.0,
            "factors": {"strength": 1.04, "importance": 1.06},
            "ranks": {"words": 1, "relevance": 3},
            "matched": {"tea": 3.2},
            "near": {"cup": 1.7},
            "vitals": {"strength": 0.8, "importance": 0.6, "recency": 0.9, "salience": 0.5},
            "importance": {
                "in_context": 0.68,
                "recency": 0.9,
                "frequency": 0.15,
                "salience": 0.5,
                "relevance": 0.8,
            },
        }
    ],
)


class SearchResult(msgspec.Struct, frozen=True):
    """A search result.

    `score` is at least 0 and comparable only within one search. `strength` is the current strength, 0 to 1. `explain`
    is null unless requested. `for_review` marks results placed by `review_blend`. `supersedes` lists older memories
    that it directly supersedes, and `superseded_by` newer ones that directly supersede it. `role` is the speaker's
    role, null if unknown. `highlight` is the part of a long text that contains most of the query's words, about 300
    characters of whole sentences; null if the text isn't longer. `categories`, `entities` and `metadata` are those
    sent with the memory. `source` says who wrote the memory.
    """

    id: UUID
    text: str
    score: float
    strength: float
    tier: str
    subject: str | None
    thread: str | None
    speaker: str | None
    external_id: str | None
    kind: str | None
    tags: list[str]
    occurred_at: datetime | None
    created_at: datetime
    explain: Annotated[dict[str, Any], _EXPLAINED] | None = None
    for_review: bool = False
    supersedes: list[UUID] = []
    superseded_by: list[UUID] = []
    role: Role | None = None
    highlight: str | None = None
    categories: list[str] = []
    entities: list[str] = []
    metadata: dict[str, Any] = {}
    source: Source = "unknown"
