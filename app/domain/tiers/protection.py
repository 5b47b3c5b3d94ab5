"""What keeps a memory from what decay asks for (seed 004 §5.2)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameters import STRICT, Days, Share
from app.domain.ingest.memory import Kind

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
    """Which memories are never forgotten, and which not yet; the defaults are seed 004's, but for `salience_above`.

    Tags, categories and kinds count where the caller gave them: what was inferred protects nothing.
    """

    never_forget_tags: Annotated[tuple[Label, ...], Field(max_length=256)] = NEVER_FORGET_TAGS
    """A memory with one of these tags is never forgotten."""
    never_forget_categories: Annotated[tuple[Label, ...], Field(max_length=256)] = NEVER_FORGET_CATEGORIES
    """Nor is one of these categories."""
    never_forget_kinds: tuple[Kind, ...] = ("procedural",)
    """Nor one of these kinds."""
    semantic_importance_above: Share = 0.8
    """Nor one of the kind `semantic` while its importance is above this."""
    uses_above: Annotated[int, Field(ge=0, le=1_000_000)] = 50
    """Nor one that was used more often than this."""
    grace_days: Days = 7.0
    """Days since it was accepted, or restored, in which decay moves and deletes nothing."""
    grace_importance_above: Share = 0.7
    """Nor does it while importance is above this."""
    grace_kinds: tuple[Kind, ...] = ("system",)
    """Nor those of these kinds."""
    salience_above: Share = 0.145
    """Nor those whose salience, 0 to 1, is above this, however long they aren't used; 1 for none. In `cmm`, whose
    salience begins at 0.5, at least that."""
