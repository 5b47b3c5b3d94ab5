"""Define the policy's ranking weights for searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from app.domain.policy.stored_policy import is_stored

Weight = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
RERANK_MAX = 50
"""Maximum number of results passed to a reranker."""
Reranked = Annotated[int, Field(ge=0, le=RERANK_MAX)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

REMOVED: Final = frozenset({"statement"})
"""Weights that existed in earlier versions."""

Mode = Literal["hybrid", "lexical", "dense", "cmm", "memory_decay"]
"""Ranking mode: words and meaning, either one alone, or the formula of one of two forgetting models."""


class Ranking(BaseModel):
    """Ranking mode and the weights of its parts.

    Parts of relevance have weights from 0 to 10. Words, soft words, relevance, thread and neighbours are first divided
    by the best candidate's value. Strength, recency and importance then raise the sum by up to 100 % each. The defaults
    were fitted jointly to three kinds of conversation with leave-one-out validation (`ops/decisions/0034`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, given: object, info: ValidationInfo) -> object:
        """Drop weights of a stored policy that no longer exist."""
        if isinstance(given, Mapping) and is_stored(info):
            return {name: value for name, value in given.items() if name not in REMOVED}
        return given

    mode: Mode = "hybrid"
    """Ranking mode, unless the search sets one."""
    words: Weight = 0.2
    """Weight of words shared by query and memory (by rarity, frequency in the memory, and the memory's length)."""
    soft_words: Weight = 0.6
    """Weight of the closest word in meaning for each query word (by rarity), among the memory's first forty words."""
    relevance: Weight = 0.5
    """Weight of closeness of meaning: the cosine of the two vectors."""
    thread: Weight = 0.4
    """Weight of the best fit to the query among the other memories of the thread; the memory's own fit if there are
    none."""
    neighbours: Weight = 0.35
    """Weight of the better fit to the query of the previous and the next turn in the thread."""
    role: Weight = 0.75
    """Added to memories said by the user, or by the assistant if the query asks for its words (in English)."""
    actor: Weight = 0.5
    """Added if the query names the memory's speaker."""
    when: Weight = 0.2
    """Added if the query asks for a time (in English) and the memory's text states one."""
    first_person: Weight = 0.2
    """Added if the memory's text is in the first person (in English: I, my, we)."""
    moment: Weight = 0.7
    """Added if the memory happened at or near a time named in the query (in English, or as 2023-05-07)."""
    now: Weight = 0.4
    """Added in proportion to how late a memory is among the candidates, if the query asks for the present."""
    context: Share = 0.6
    """Weight of a word that occurs only in neighbouring turns, relative to one in the memory itself."""
    strength: Share = 0.03
    """Effect of current strength: the score is multiplied by 1 + this · strength."""
    recency: Share = 0.0
    """Effect of recency of use: the score is multiplied by 1 + this · recency."""
    importance: Share = 0.06
    """Effect of importance: the score is multiplied by 1 + this · importance."""
    in_context: bool = False
    """In the effect of importance, use the query as context (seed 004 §1.4; weight `importance.weights.relevance`)."""
    rerank: Reranked = 0
    """Number of top results that the configured reranker reorders, 0 to 50, unless the search sets it."""
