"""The policy's weights of a search, and what a request may say about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from app.domain.policy.stored_policy import is_stored

Weight = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
RERANK_MAX = 50
"""Most results that a reranker is shown."""
Reranked = Annotated[int, Field(ge=0, le=RERANK_MAX)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

REMOVED: Final = frozenset({"statement"})
"""Weights of earlier versions."""

Mode = Literal["hybrid", "lexical", "dense", "cmm", "memory_decay"]
"""How results are ranked: words and meaning, one of them alone, or the ways of two models of forgetting."""


class Ranking(BaseModel):
    """How a search ranks: by which mode, and what each part weighs.

    Parts of relevance weigh 0 to 10. Words, soft words, relevance, thread and neighbours are divided by the best
    candidate's first. Strength, recency and importance then lift the sum by 0 to 1 of it. The defaults were fitted to
    three kinds of conversation together, each left out in turn (`ops/decisions/0034`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _without_removed(cls, given: object, info: ValidationInfo) -> object:
        """Drop weights that a stored policy has and that no longer exist."""
        if isinstance(given, Mapping) and is_stored(info):
            return {name: value for name, value in given.items() if name not in REMOVED}
        return given

    mode: Mode = "hybrid"
    """How results are ranked, unless the search says otherwise."""
    words: Weight = 0.2
    """Words that query and memory share, by rarity, how often the memory says them, and its length."""
    soft_words: Weight = 0.6
    """For each word of the query, by rarity, the closest word in meaning among the memory's first forty."""
    relevance: Weight = 0.5
    """Closeness of meaning: the cosine of the two vectors."""
    thread: Weight = 0.4
    """How well the best other memory of its thread fits the query; without one, the memory itself."""
    neighbours: Weight = 0.35
    """How well the better of the turns before and after it in its thread fits the query."""
    role: Weight = 0.75
    """Added for what the user said, or for what the assistant said when the query asks for that (in English)."""
    actor: Weight = 0.5
    """Added when the query names the memory's speaker."""
    when: Weight = 0.2
    """Added when the query asks for a time (in English) and the memory's text tells one."""
    first_person: Weight = 0.2
    """Added when the memory's text is in the first person (in English: I, my, we)."""
    moment: Weight = 0.7
    """Added when the memory happened at a time that the query names (in English, or 2023-05-07), or near it."""
    now: Weight = 0.4
    """Added in proportion to how late a memory is among the candidates, when the query asks for the present."""
    context: Share = 0.6
    """Worth of a word that only the neighbouring turns say, as a share of one of the memory's own."""
    strength: Share = 0.03
    """By how much live strength lifts the score: it is multiplied by 1 + this · strength."""
    recency: Share = 0.0
    """The same of how lately a memory was used."""
    importance: Share = 0.06
    """The same of importance."""
    rerank: Reranked = 0
    """How many of the best results the operator's reranker re-orders, 0 to 50, unless the search says otherwise."""
