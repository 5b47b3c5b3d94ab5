"""Warnings in answers to requests for a subject that no stored memory has: subjects with similar names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from app.domain.privacy.subject_names import NearName
from app.services.memories import subjects

UNKNOWN: Final = "no stored memory has this subject"


def warn_unknown(tenant_id: UUID, subject: str | None) -> dict[str, Any]:
    """Return the fields `warning` and `near` of an answer; none if memories have the subject, or it isn't given."""
    near = subjects.find_near(tenant_id, subject)
    return {} if near is None else {"warning": UNKNOWN, "near": render_names(near)}


def render_names(found: Sequence[NearName]) -> list[dict[str, Any]]:
    """Return subjects with similar names as JSON, closest first."""
    return [each._asdict() for each in found]
