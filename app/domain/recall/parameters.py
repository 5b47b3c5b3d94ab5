"""Define the recall section of the policy: thresholds, limits and cues."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.domain.ingest.sources import SOURCES, Source

RECALLED_MAX: Final = 20
TOKENS_MAX: Final = 32_768

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Recall(BaseModel):
    """Thresholds, limits and budget of recall."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    by: Literal["relevance", "importance"] = "relevance"
    """Number by which the recalled memories are sorted, and selected if more than `most` are relevant: relevance, or
    importance with the conversation as its context (seed 004 §1.5). With importance, no reranker is applied."""
    relevance_above: _Share = 0.12
    """Minimum relevance of a recalled memory (exclusive), 0 to 1. A memory must also have 45 % of the best one's
    relevance; if this threshold is below .12, the share is lower in proportion."""
    relevance_above_for_questions: _Share = 0.03
    """Minimum relevance (exclusive) if the newest message asks about a person named in the memories, or if it is the
    only one since the assistant's last message and asks about its speaker; the share of the best doesn't apply then."""
    best_above_for_questions: _Share = 0.005
    """Minimum relevance (exclusive) of the first search result, which is also recalled for a question about the user if
    the question is the only message of the request, or if it is the only message since the assistant's last one and no
    memory exceeds `relevance_above_for_questions`."""
    most: Annotated[int, Field(ge=1, le=RECALLED_MAX)] = 5
    """Maximum number of memories per recall, unless the request sets `limit`."""
    review_boost: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] = 1.2
    """Factor on the relevance of memories that are due for review; it only affects the order of the recalled
    memories."""
    cues: bool = True
    """Ask the rating model for up to five cues per memory (words and situations that should trigger it) and match
    messages against them. False requests none and ignores the stored ones. Without a rating model there are no cues and
    no cost; with one they cost about 80 tokens per call and 25 per memory. Memories rated before this was enabled have
    none."""
    sources: Annotated[tuple[Source, ...], Field(min_length=1, max_length=len(SOURCES))] = SOURCES
    """Sources of the memories that are recalled; a request may restrict them further. Default: all."""
    token_budget: Annotated[int, Field(ge=1, le=TOKENS_MAX)] = 1_000
    """Maximum number of tokens in the context, unless the request sets `token_budget`; token counts are
    overestimates."""
