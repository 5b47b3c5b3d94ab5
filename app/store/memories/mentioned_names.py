"""Read the texts that may mention a name, a page of memories at a time."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import driver_connection


class TextPage(NamedTuple):
    """Texts with a word, each with its subject, and the page's last memory (`last_id`, None if no memories follow)."""

    texts: list[tuple[str | None, str]]
    last_id: UUID | None


def read_page(tx: Connection, tenant_id: UUID, word: str, after: UUID | None, limit: int) -> TextPage:
    """Return the texts that contain a word among a page of visible memories, latest first.

    Texts with characters outside ASCII are always returned, because the query neither removes accents nor folds their
    case; the caller must search them.

    Args:
        word: A folded word without accents.
        after: Last memory of the previous page.
        limit: Number of memories compared.
    """
    values = {"tenant": tenant_id, "word": word, "after": after, "limit": limit}
    rows = driver_connection(tx).execute(_READ, values).fetchall()
    last_id = rows[0][2] if rows else None
    return TextPage([(subject, text) for subject, text, _ in rows if text is not None], last_id)


_READ: Final = """
WITH page AS MATERIALIZED (
  SELECT memory_id, subject, text FROM memories
  WHERE tenant_id = %(tenant)s AND deleted_at IS NULL
    AND (%(after)s::uuid IS NULL OR memory_id < %(after)s::uuid)
  ORDER BY memory_id DESC LIMIT %(limit)s
), bounds AS (
  SELECT CASE WHEN count(*) = %(limit)s THEN (SELECT memory_id FROM page ORDER BY memory_id LIMIT 1) END AS last_id
  FROM page
)
SELECT page.subject, page.text, bounds.last_id
FROM bounds LEFT JOIN page ON strpos(lower(page.text), %(word)s) > 0 OR octet_length(page.text) <> length(page.text)
"""
