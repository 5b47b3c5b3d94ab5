"""Read the turns around memories that a model rates: of the same tenant, thread and subject, and not deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.salience.rating_batches import TURNS_AFTER, TURNS_BEFORE, ContextTurn, excerpt
from app.domain.text.words import format_line


def list_around(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, list[ContextTurn]]:
    """Return the turns next to these memories in their threads, in order; memories without any are missing.

    Memories that an erasure hides count as deleted. A turn about another subject is omitted and not replaced by a turn
    further away. Texts are shortened by `excerpt`.
    """
    if not memory_ids:
        return {}
    values = {"tenant": tenant_id, "ids": list(memory_ids), "before": TURNS_BEFORE, "after": TURNS_AFTER}
    turns: dict[UUID, list[ContextTurn]] = defaultdict(list)
    for centre, memory_id, seq, turn, speaker in tx.execute(_AROUND, values):
        turns[centre].append(ContextTurn(memory_id, seq, excerpt(format_line(turn, speaker))))
    return turns


_SIDE = """SELECT memory_id, seq, text, coalesce(speaker, role) AS speaker, subject FROM memories
    WHERE tenant_id = :tenant AND thread = centre.thread AND made_by = 'caller' AND deleted_at IS NULL AND seq"""
_AROUND = text(f"""
SELECT centre.memory_id, turn.memory_id, turn.seq, turn.text, turn.speaker
FROM memories AS centre CROSS JOIN LATERAL (
  ({_SIDE} < centre.seq ORDER BY seq DESC LIMIT :before)
  UNION ALL ({_SIDE} > centre.seq ORDER BY seq LIMIT :after)
) AS turn
WHERE centre.tenant_id = :tenant AND centre.made_by = 'caller' AND centre.memory_id = ANY (CAST(:ids AS uuid[]))
  AND turn.subject IS NOT DISTINCT FROM centre.subject AND turn.text <> ''
ORDER BY centre.memory_id, turn.seq
""")  # noqa: S608 - constants
