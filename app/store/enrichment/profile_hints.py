"""Write a profile's suggestions into the states of memories, without overriding the caller's values."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.ingest.memory import KINDS
from app.domain.strength.profile_hints import SuggestedValues


def write(
    tx: Connection, tenant_id: UUID, texts: Sequence[tuple[UUID, int]], suggested: Sequence[SuggestedValues]
) -> None:
    """Write suggestions for memories whose text is unchanged since it was read; the caller has locked their states.

    A kind is written if the caller gave none, a salience if the current salience was computed by rules. A multiplier is
    written if the current multiplier is 1 or an earlier suggestion: any other value was set by the caller or raised by
    uses. A pace is always written.

    Args:
        texts: Memory ids, with the text versions from which the suggestions were derived.
        suggested: One suggestion per entry of `texts`; if the sequence is empty, nothing is written.
    """
    if not suggested:
        return
    rows = [
        {"memory_id": memory_id, "text_version": version, **suggestion._asdict()}
        for (memory_id, version), suggestion in zip(texts, suggested, strict=True)
    ]
    tx.execute(_WRITE, {"tenant": tenant_id, "rows": msgspec.json.encode(rows).decode(), "kinds": list(KINDS)})


_WRITE = text("""
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given (
    memory_id uuid, text_version integer, kind text, salience real, multiplier real, pace real)
), suggested AS MATERIALIZED (
  SELECT state.memory_id,
    CASE WHEN memory.kind IS NULL THEN array_position(CAST(:kinds AS text[]), given.kind) - 1 END AS kind,
    CASE WHEN state.salience_source = 'heuristic' THEN given.salience END AS salience,
    CASE WHEN state.multiplier = coalesce(state.suggested_multiplier, 1) THEN given.multiplier END AS multiplier,
    given.pace
  FROM given
  CROSS JOIN LATERAL (
    SELECT kind FROM memories WHERE tenant_id = :tenant AND memories.memory_id = given.memory_id
      AND text_version = given.text_version AND deleted_at IS NULL OFFSET 0
  ) AS memory
  CROSS JOIN LATERAL (
    SELECT memory_id, salience_source, multiplier, suggested_multiplier FROM memory_state
    WHERE tenant_id = :tenant AND memory_state.memory_id = given.memory_id OFFSET 0
  ) AS state
)
UPDATE memory_state AS state SET
  kind = coalesce(suggested.kind, state.kind), salience = coalesce(suggested.salience, state.salience),
  multiplier = coalesce(suggested.multiplier, state.multiplier),
  suggested_multiplier = coalesce(suggested.multiplier, state.suggested_multiplier),
  pace = coalesce(suggested.pace, state.pace)
FROM suggested
WHERE state.tenant_id = :tenant AND state.memory_id = suggested.memory_id
  AND (suggested.kind <> state.kind OR suggested.salience <> state.salience
    OR suggested.multiplier <> state.multiplier OR suggested.pace <> state.pace)
""")
