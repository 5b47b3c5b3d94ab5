"""The policy's choice of what is worth bringing up."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

RECALLED_MAX: Final = 20
TOKENS_MAX: Final = 32_768

_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Recall(BaseModel):
    """What is worth bringing up, and how much of it; the defaults are seed 004's (§4.2)."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    relevance_above: _Share = 0.6
    """Only memories of more relevance to the conversation, 0 to 1, come up."""
    most: Annotated[int, Field(ge=1, le=RECALLED_MAX)] = 5
    """Most memories that come up at once."""
    review_boost: Annotated[float, Field(ge=1, le=10, allow_inf_nan=False)] = 1.2
    """By what relevance is multiplied, for the order of those that come up, when a memory is due for review."""
    token_budget: Annotated[int, Field(ge=1, le=TOKENS_MAX)] = 1_000
    """Most tokens of the context, unless the request says otherwise; estimated from above."""
