"""Define which memories the policy protects from decay (seed 004 §5.2)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameter_types import STRICT, Days, Share
from app.domain.ingest.memory import Kind

KEEP_ABOVE: Final = 0.11
"""Default of `keep_chance_above`, chosen by the curves of `python -m ops.salience`."""
FORMER_SALIENCE: Final = 0.145
"""Former default of `salience_above`; it still judges memories that have no keep chance yet."""

Label = Annotated[str, Field(min_length=1, max_length=128)]

NEVER_FORGET_TAGS: Final = (
    "user_preference",
    "system_config",
    "explicitly_saved",
    "commitment",
    "promise",
    "decision",
    "personal_fact",
    "high_importance",
    "legal",
    "privacy",
    "procedural_knowledge",
)
NEVER_FORGET_CATEGORIES: Final = (
    "user_preference",
    "configuration",
    "explicitly_saved",
    "commitment",
    "decision",
    "personal_fact",
    "deletion_request",
    "privacy_setting",
    "consent",
)


@dataclass(frozen=True, config=STRICT)
class Protection:
    """Rules that protect memories permanently or for a time; the defaults are seed 004's, except `keep_chance_above`.

    Only tags, categories and kinds given by the caller count; inferred ones protect nothing.
    """

    never_forget_tags: Annotated[tuple[Label, ...], Field(max_length=256)] = NEVER_FORGET_TAGS
    """Memories with one of these tags are never forgotten."""
    never_forget_categories: Annotated[tuple[Label, ...], Field(max_length=256)] = NEVER_FORGET_CATEGORIES
    """Memories of one of these categories are never forgotten."""
    never_forget_kinds: tuple[Kind, ...] = ("procedural",)
    """Memories of one of these kinds are never forgotten."""
    semantic_importance_above: Share = 0.8
    """Memories of the kind `semantic` are not forgotten while their importance is above this."""
    uses_above: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Memories used more often than this are never forgotten."""
    grace_days: Days = 7.0
    """Days after acceptance or a restore in which decay neither moves nor deletes a memory."""
    grace_importance_above: Share = 0.7
    """Decay neither moves nor deletes memories while their importance is above this."""
    grace_kinds: tuple[Kind, ...] = ("system",)
    """Decay neither moves nor deletes memories of these kinds."""
    keep_chance_above: Share = KEEP_ABOVE
    """Decay neither moves nor deletes memories whose keep chance is above this, however long they are unused; 1
    disables this protection, except for memories whose salience the caller set above 0.145 (`cmm`: 0.5). The keep
    chance is the estimated probability that a careful reader would still find the memory worth knowing in a year."""
    salience_above: Share | None = None
    """If set, decay neither moves nor deletes memories whose salience is above this, and the keep chance isn't used; 1
    disables this protection. In `cmm`, where salience starts at 0.5, at least 0.5 applies."""
