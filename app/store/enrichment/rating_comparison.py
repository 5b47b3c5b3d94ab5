"""Read ratings by a model beside the salience that the rules gave the same text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.salience.agreement import ComparedRating

# `version` is checked too, because a worker of an earlier version of the service leaves the former `rules_salience` in
# the row when it scores an edited text by rules.
_IS_COMPARED = "rules_salience IS NOT NULL AND version IS NOT NULL"
_SALIENCE = "CAST((emotional + novelty + actionable + personal) / 40 AS float8)"
_COMPARED = f"SELECT version, {_SALIENCE}, CAST(rules_salience AS float8) FROM scores"  # noqa: S608 - a constant


@dataclass(frozen=True, slots=True)
class StoredRating:
    """A model's rating of a memory's present text.

    Attributes:
        version: Model and prompt version, from `scorer_version`.
        salience: The model's salience, 0 to 1.
        rules_salience: The rules' salience of the same text; None if it wasn't stored, as by earlier versions.
    """

    version: str
    rated_at: datetime
    salience: float
    rules_salience: float | None


def list_last(tx: Connection, tenant_id: UUID, limit: int) -> list[ComparedRating]:
    """Return a tenant's last ratings, newest first."""
    return [ComparedRating(*row) for row in tx.execute(_LAST, {"tenant": tenant_id, "limit": limit})]


_LAST = text(f"""
{_COMPARED} WHERE tenant_id = :tenant AND {_IS_COMPARED} ORDER BY scored_at DESC LIMIT :limit
""")


def list_last_of_all(tx: Connection, limit: int) -> list[ComparedRating]:
    """Return the last ratings of all tenants, newest first; `tx` is from `database.drain()`."""
    return [ComparedRating(*row) for row in tx.execute(_LAST_OF_ALL, {"limit": limit})]


_LAST_OF_ALL = text(f"{_COMPARED} WHERE {_IS_COMPARED} ORDER BY scored_at DESC LIMIT :limit")


def read(tx: Connection, tenant_id: UUID, memory_id: UUID) -> StoredRating | None:
    """Return a model's rating of a memory's present text, or None."""
    row = tx.execute(_READ, {"tenant": tenant_id, "memory_id": memory_id}).one_or_none()
    return None if row is None else StoredRating(*row)


_READ = text(f"""
SELECT version, scored_at, {_SALIENCE}, CAST(rules_salience AS float8) FROM scores
WHERE tenant_id = :tenant AND memory_id = :memory_id AND scorer = 'llm' AND text_version = (
  SELECT text_version FROM memories WHERE tenant_id = :tenant AND memory_id = :memory_id)
""")  # noqa: S608 - constants
