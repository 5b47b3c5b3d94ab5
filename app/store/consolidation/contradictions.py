"""Select new memories with earlier similar ones for the contradiction check, and store each tenant's watermark."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.consolidation.contradiction_prompt import (
    COSINE_MIN,
    NEIGHBOURS_MAX,
    ContradictionQuestion,
    ContradictionText,
)
from app.store.core.binary_arrays import driver_connection

AMONG: Final = 2000
"""Maximum number of earlier memories of the same subject, latest first, with which a new memory is compared."""


def read_watermark(tx: Connection, tenant_id: UUID) -> datetime | None:
    """Return the acceptance time up to which memories were checked, or None before the first check."""
    watermark: datetime | None = tx.execute(_WATERMARK, {"tenant": tenant_id}).scalar()
    return watermark


_WATERMARK: Final = text("SELECT accepted_until FROM contradiction_watermarks WHERE tenant_id = :tenant")


def move_watermark(tx: Connection, tenant_id: UUID, accepted_until: datetime) -> None:
    """Advance the watermark: memories accepted up to this time were checked."""
    tx.execute(_MOVE, {"tenant": tenant_id, "until": accepted_until})


_MOVE: Final = text("""
INSERT INTO contradiction_watermarks AS known (tenant_id, accepted_until) VALUES (:tenant, :until)
ON CONFLICT (tenant_id) DO UPDATE SET accepted_until = greatest(known.accepted_until, excluded.accepted_until)
""")


def list_new(tx: Connection, tenant_id: UUID, after: UUID, until: datetime, limit: int) -> list[tuple[UUID, datetime]]:
    """Return current memories with ids above `after`, accepted up to `until`, with their acceptance times, by id."""
    values = {"tenant": tenant_id, "after": after, "until": until, "limit": limit}
    return [(row.memory_id, row.created_at) for row in tx.execute(_NEW, values)]


_CURRENT: Final = """deleted_at IS NULL AND NOT EXISTS (
    SELECT FROM supersessions AS newer WHERE newer.tenant_id = {tenant} AND newer.status = 'active'
      AND newer.superseded_id = memories.memory_id)"""

_NEW: Final = text(f"""
SELECT memory_id, created_at FROM memories
WHERE tenant_id = :tenant AND memory_id > :after AND created_at <= :until AND {_CURRENT.format(tenant=":tenant")}
ORDER BY memory_id LIMIT :limit
""")  # noqa: S608 - constants only


def find_questions(
    tx: Connection, tenant_id: UUID, space_id: int, memory_ids: list[UUID]
) -> list[ContradictionQuestion]:
    """Return these memories with their nearest earlier memories of the same subject; memories without any are omitted.

    Superseded memories and pairs with an earlier decision are excluded.
    """
    values = {"tenant": tenant_id, "space": space_id, "ids": memory_ids, "among": AMONG}
    values |= {"cosine_min": COSINE_MIN, "most": NEIGHBOURS_MAX}
    questions: dict[UUID, ContradictionQuestion] = {}
    for memory_id, new_text, earlier_id, earlier_text in driver_connection(tx).execute(_QUESTIONS, values, binary=True):
        question = questions.get(memory_id, ContradictionQuestion(ContradictionText(memory_id, new_text), ()))
        questions[memory_id] = ContradictionQuestion(
            question.memory, (*question.earlier, ContradictionText(earlier_id, earlier_text))
        )
    return list(questions.values())


_EARLIER: Final = f"""
    SELECT memory_id, text FROM memories
    WHERE tenant_id = %(tenant)s AND memory_id < given.id AND {{same}}
      AND {_CURRENT.format(tenant="%(tenant)s")}
      AND NOT EXISTS (
        SELECT FROM supersessions AS decided WHERE decided.tenant_id = %(tenant)s
          AND decided.memory_id = given.id AND decided.superseded_id = memories.memory_id)
    ORDER BY memory_id DESC LIMIT %(among)s
"""  # noqa: S608 - constants only

# One lookup per row: for a tenant without statistics a join would read all of its rows.
_QUESTIONS: Final = f"""
SELECT new.memory_id, new.text, near.memory_id, near.text
FROM unnest(%(ids)s::uuid[]) AS given (id)
CROSS JOIN LATERAL (
  SELECT memory_id, text, subject FROM memories WHERE tenant_id = %(tenant)s AND memory_id = given.id OFFSET 0
) AS new
CROSS JOIN LATERAL (
  SELECT embedding AS vector FROM embeddings
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = given.id OFFSET 0
) AS own
CROSS JOIN LATERAL (
  SELECT latest.memory_id, latest.text, -(known.embedding <#> own.vector) AS cosine FROM (
    ({_EARLIER.format(same="subject = new.subject")})
    UNION ALL
    ({_EARLIER.format(same="subject IS NULL AND new.subject IS NULL")})
  ) AS latest
  CROSS JOIN LATERAL (
    SELECT embedding FROM embeddings
    WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND embeddings.memory_id = latest.memory_id OFFSET 0
  ) AS known
  WHERE -(known.embedding <#> own.vector) >= %(cosine_min)s
  ORDER BY cosine DESC, latest.memory_id DESC LIMIT %(most)s
) AS near
ORDER BY new.memory_id, near.cosine DESC, near.memory_id DESC
"""  # noqa: S608 - constants only
