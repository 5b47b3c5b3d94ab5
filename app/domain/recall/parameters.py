"""The policy's choice of what is worth bringing up."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

RECALLED_MAX: Final = 20
TOKENS_MAX: Final = 32_768

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Recall(BaseModel):
    """Which memories a conversation brings up, and how many."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    relevance_above: _Share = 0.12
    """Only memories of more relevance to the conversation, 0 to 1, come up."""
    relevance_above_for_questions: _Share = 0.03
    """The same where the newest message asks about a person whom the memories know, or is sent alone and asks about its
    speaker."""
    most: Annotated[int, Field(ge=1, le=RECALLED_MAX)] = 5
    """Most memories that come up at once, unless the request says otherwise."""
    review_boost: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] = 1.2
    """Factor of relevance, in the order of those that come up, for a memory that is due for review."""
    cues: bool = True
    """Ask the model that rates memories for up to five cues each, words and situations that should bring the memory to
    mind, and match messages with them. False asks for none and ignores the stored ones. Without a model that rates
    there are none and they cost nothing; with one they cost about 80 tokens a call and 25 a memory. Memories that were
    rated before have none."""
    token_budget: Annotated[int, Field(ge=1, le=TOKENS_MAX)] = 1_000
    """Most tokens of the context, unless the request says otherwise; estimated from above."""
