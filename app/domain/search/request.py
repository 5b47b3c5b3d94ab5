"""What is searched for, and what is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.memory import EMBEDDING_MAX_DIMENSIONS, Kind, check_direction
from app.domain.ingest.roles import USUAL, Role
from app.domain.search.ranking import RERANK_MAX, Mode, Ranking
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
    """Weights of one search in place of the policy's; null leaves one as it is there.

    Attributes:
        words: Of the words that query and memory share, 0 to 10.
        soft_words: Of the closest words in meaning, 0 to 10.
        relevance: Of the closeness of the whole memory's meaning, 0 to 10.
        thread: Of how well another memory of its thread fits, 0 to 10.
        neighbours: Of how well the turn before or after it fits, 0 to 10.
        role: Of who speaks: the user, or the assistant where the query asks for its words, 0 to 10.
        actor: Of the speaker whom the query names, 0 to 10.
        when: Of a time that the memory tells and the query asks for, 0 to 10.
        first_person: Of telling of oneself, 0 to 10.
        moment: Of having happened at a time that the query names, 0 to 10.
        now: Of being late, where the query asks for the present, 0 to 10.
        context: Worth of a word that only neighbouring turns say, 0 to 1 of one of the memory's own.
        strength: By how much live strength lifts the score, 0 to 1.
        recency: By how much a use of late lifts it, 0 to 1.
        importance: By how much importance lifts it, 0 to 1.
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


class SearchRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is searched for, and among which memories.

    Attributes:
        query: Plain words, up to 32,768 characters; signs and operators have no meaning. Empty, with no `vector`
            either, it finds nothing.
        vector: What the meaning is compared with in place of the query's own vector: of the tenant's embedding space,
            up to 16,000 numbers, of any length but 0. With a query as well, its words count too.
        limit: Most results, 1 to 100.
        subject: Only memories about this subject.
        thread: Only memories of this thread.
        exclude_thread: No memories of this thread: the conversation's own, say.
        tags: Only memories that have all of these tags.
        kinds: Only memories of one of these kinds; empty means any.
        roles: Only memories of these roles; null stands for memories without a role. Left out, memories of the roles
            system and tool aren't found.
        after: Only memories that happened (else: were accepted) at this moment or later.
        before: Only memories that happened (else: were accepted) before this moment.
        tiers: Only memories that are kept in one of these.
        superseded: Find also memories that others have superseded.
        as_of: Rank by strength, recency and importance as of this moment, leave out what was accepted after it, and
            find what was superseded after it; null for now. Nothing is primed then, and nothing counts as used:
            `reinforce` mustn't be true.
        mode: How results are ranked; null leaves it to the tenant's policy.
        weights: In place of the policy's.
        rerank: How many of the best results the operator's reranker re-orders, 0 to 50; null leaves it to the tenant's
            policy. Where there is no reranker, or it gives no scores in time, the results stay as they were.
        explain: Give the partial scores.
        reinforce: Whether what is found counts as used; null leaves it to the tenant's policy.
        session: The conversation that it is used in: a memory is reinforced at most once in a while by one.
        turn: Which turn of the session this is: what its turns have found lately counts more (cmm).
        review_blend: Share of the results that goes to memories that want review, 0 to 1; left out, 0.3 in the
            profile mnemex and none elsewhere.
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

    def __post_init__(self) -> None:
        """Refuse NUL characters, which no memory can hold, and what makes no sense together.

        Raises:
            Invalid: One of the texts has one, there is a turn of no session, a use at another moment, or a vector that
                is all zero or too large.
        """
        if self.vector is not None:
            check_direction(self.vector, "vector")
        if self.as_of is not None and self.reinforce:
            raise Invalid(errors=[FieldError("reinforce", "must not be true with as_of: a look back is no use")])
        if self.turn is not None and self.session is None:
            raise Invalid(errors=[FieldError("turn", "needs a session")])
        texts = {"query": self.query, "subject": self.subject, "thread": self.thread}
        refuse_nul({**texts, "exclude_thread": self.exclude_thread}, self.tags)

    def ranking(self, policy: Ranking) -> Ranking:
        """The policy's weights with the request's own in their places."""
        own = {} if self.weights is None else msgspec.structs.asdict(self.weights)
        own |= {"mode": self.mode, "rerank": self.rerank}
        return policy.model_copy(update={name: value for name, value in own.items() if value is not None})


def refuse_nul(texts: Mapping[str, str | None], tags: Sequence[str] = ()) -> None:
    """Refuse texts with a NUL character, by the names of their fields.

    Raises:
        Invalid: One has one; names it.
    """
    for name, text in {**texts, **{f"tags[{place}]": tag for place, tag in enumerate(tags)}}.items():
        if text and "\0" in text:
            raise Invalid(errors=[FieldError(name, "has a NUL character, which can't be searched for")])


_EXPLAINED = msgspec.Meta(
    description="Why it was found. The numbers are the parts of its relevance by the names of their weights, each "
    "weighted; their sum, multiplied by all `factors`, is the score. A memory that a better one has brought along has "
    "the part `spread` alone: `spread_from` says which one, `spread_by` how. `ranks` are its places among the "
    "candidates by each base score alone, from 1, null where it has none. `matched` are the query's words that are the "
    "memory's own, with their rarity (idf), and `near` those that only its neighbours in the thread have. `vitals` is "
    "what time has made of it, each 0 to 1. `reranker` is its name and the score that it gave. `corrects` are earlier "
    "memories of which it says something else now, and `corrected_by` later ones that say so of it; where the question "
    "asks for the present, the two change places and scores, and `placed` has the `own_score`.",
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
        }
    ],
)


class SearchResult(msgspec.Struct, frozen=True):
    """A memory found.

    `score` is at least 0 and compares results of one search. `strength` is live, 0 to 1. `explain` is None unless
    asked. `for_review` marks what `review_blend` gives places to. `supersedes` are older memories that it has taken the
    place of, and `superseded_by` newer ones that have taken its own, each directly. `role` is the speaker's, null where
    it is unknown. `highlight` is the part of a long text that holds most of the query's words, about 300 characters of
    whole sentences; null where the text isn't longer.
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
