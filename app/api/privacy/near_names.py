"""Fields of answers about a subject: similar names if no stored memory has it, and its other spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from app.api.http import responses
from app.domain.privacy.name_parts.name_matching import NearName
from app.services.memories import subjects

UNKNOWN: Final = "no stored memory has this subject"


def warn_unknown(tenant_id: UUID, subject: str | None) -> dict[str, Any]:
    """Return the fields `warning` and `near` of an answer; none if memories have the subject, or it isn't given."""
    near = subjects.find_near(tenant_id, subject)
    return {} if near is None else {"warning": UNKNOWN, "near": render_names(near)}


def describe_names(tenant_id: UUID, subject: str | None, *, to_erase: bool = False) -> dict[str, Any]:
    """Return the fields that a preview has about a subject's name: those of `warn_unknown`, or `other_spellings`.

    Args:
        to_erase: Omit spellings that an open erasure covers completely.
    """
    if known := warn_unknown(tenant_id, subject):
        return known
    others = subjects.find_other_spellings(tenant_id, subject, to_erase=to_erase)
    return {"other_spellings": render_names(others)} if others else {}


def render_names(found: Sequence[NearName]) -> list[dict[str, Any]]:
    """Return subjects with similar names as JSON, closest first."""
    return [responses.pick(each, "subject", "likeness", "memories") for each in found]
