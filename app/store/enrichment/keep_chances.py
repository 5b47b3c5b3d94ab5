"""Read the turns that a memory's keep chance depends on, and write chances that changed with those turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.salience.criteria import Turn
from app.domain.salience.keep_features import TURNS_BEFORE


class KeepChance(msgspec.Struct, frozen=True):
    """A memory's chance that it should be kept, 0 to 1, and the version of its text."""

    memory_id: UUID
    text_version: int
    keep_chance: float


def list_turns_before(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, list[Turn]]:
    """Return the turns before these memories in their threads, nearest first; memories without any are missing."""
    values = {"tenant": tenant_id, "ids": list(memory_ids), "turns": TURNS_BEFORE}
    turns: dict[UUID, list[Turn]] = defaultdict(list)
    for memory_id, *turn in tx.execute(_BEFORE, values):
        turns[memory_id].append(Turn(*turn))
    return turns


_BEFORE = text("""
SELECT centre.memory_id, coalesce(turn.text, ''), turn.speaker, turn.role
FROM memories AS centre CROSS JOIN LATERAL (
  SELECT text, speaker, role, seq FROM memories
  WHERE tenant_id = :tenant AND thread = centre.thread AND seq < centre.seq
    AND made_by = 'caller' AND deleted_at IS NULL
  ORDER BY seq DESC LIMIT :turns
) AS turn
WHERE centre.tenant_id = :tenant AND centre.made_by = 'caller' AND centre.memory_id = ANY (CAST(:ids AS uuid[]))
ORDER BY centre.memory_id, turn.seq DESC
""")


def list_followers(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return other memories that the rules scored already and whose chance depends on these memories, in id order.

    Turns of a thread usually arrive in their order; then there are none.
    """
    values = {"tenant": tenant_id, "ids": list(memory_ids), "turns": TURNS_BEFORE}
    return list(tx.execute(_FOLLOWERS, values).scalars())


_FOLLOWERS = text("""
SELECT DISTINCT turn.memory_id
FROM memories AS centre CROSS JOIN LATERAL (
  SELECT memory_id FROM memories
  WHERE tenant_id = :tenant AND thread = centre.thread AND seq > centre.seq
    AND made_by = 'caller' AND deleted_at IS NULL
  ORDER BY seq LIMIT :turns
) AS turn
WHERE centre.tenant_id = :tenant AND centre.made_by = 'caller' AND centre.memory_id = ANY (CAST(:ids AS uuid[]))
  AND turn.memory_id <> ALL (CAST(:ids AS uuid[]))
  AND EXISTS (
    SELECT FROM scores WHERE tenant_id = :tenant AND scores.memory_id = turn.memory_id AND scorer = 'heuristic')
ORDER BY turn.memory_id
""")


def write(tx: Connection, tenant_id: UUID, chances: Sequence[KeepChance]) -> None:
    """Write the chances of memories that the rules have scored and whose text is unchanged since it was read."""
    if chances:
        tx.execute(_WRITE, {"tenant": tenant_id, "rows": msgspec.json.encode(chances).decode()})


_WRITE = text("""
WITH found AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS found (
    memory_id uuid, text_version integer, keep_chance real)
), locked AS MATERIALIZED (
  SELECT memory_id, text_version FROM scores
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM found)) AND scorer = 'heuristic'
  ORDER BY memory_id FOR UPDATE
)
UPDATE scores AS known SET keep_chance = found.keep_chance
FROM found JOIN locked USING (memory_id, text_version)
WHERE known.tenant_id = :tenant AND known.memory_id = found.memory_id
""")


def read(tx: Connection, tenant_id: UUID, memory_id: UUID) -> float | None:
    """Return a memory's stored chance; None if a model or nobody scored it, or an earlier version of the rules did."""
    return tx.execute(_READ, {"tenant": tenant_id, "memory_id": memory_id}).scalar()


_READ = text("SELECT keep_chance FROM scores WHERE tenant_id = :tenant AND memory_id = :memory_id")
