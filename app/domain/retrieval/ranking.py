"""The policy's weights of a search, and what a request may say about them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Weight = Annotated[float, Field(ge=0, le=10, allow_inf_nan=False)]
RERANK_MAX = 50
"""Most results that a reranker is shown."""
Reranked = Annotated[int, Field(ge=0, le=RERANK_MAX)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]

Mode = Literal["hybrid", "lexical", "dense", "cmm", "memory_decay"]
"""How results are ranked: words and meaning, one of them alone, or the ways of two models of forgetting."""


class Ranking(BaseModel):
    """How a search ranks: by which mode, and what each part weighs.

    Parts of relevance weigh 0 to 10; words and relevance are divided by their best hit first. Strength, recency and
    importance lift the sum by 0 to 1 of it. The defaults are the best found on the development split of LoCoMo
    (recall@10), one weight at a time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    mode: Mode = "hybrid"
    """How results are ranked, unless the search says otherwise."""
    words: Weight = 1.0
    """Words shared by query and memory, weighted by rarity."""
    relevance: Weight = 0.6
    """Closeness of meaning: the cosine of the two vectors."""
    actor: Weight = 0.4
    """Added when the query names the memory's speaker."""
    when: Weight = 0.2
    """Added when the query asks for a time (in English) and the memory's text tells one."""
    first_person: Weight = 0.1
    """Added when the query names the memory's speaker, who tells of themselves in it (in English: I, my, we)."""
    statement: Weight = 0.1
    """Added when nothing is asked in the memory."""
    moment: Weight = 0.3
    """Added when the memory happened at a time that the query names (in English, or 2023-05-07), or near it."""
    thread: Weight = 0.3
    """How well another memory of its thread fits the query by words and meaning; without one, it does itself."""
    context: Share = 0.6
    """Worth of a word that only the neighbouring turns say, as a share of one of the memory's own."""
    strength: Share = 0.05
    """By how much live strength lifts the score: it is multiplied by 1 + this · strength."""
    recency: Share = 0.0
    """The same of how lately a memory was used."""
    importance: Share = 0.1
    """The same of importance."""
    rerank: Reranked = 0
    """How many of the best results the operator's reranker re-orders, 0 to 50, unless the search says otherwise."""
