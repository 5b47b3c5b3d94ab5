"""Read the turns that a memory's keep chance depends on, and write chances that changed with those turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple
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
    """Write the chances of memories that the rules have scored and whose text is unchanged since it was read.

    The memories' states are locked before their scores, as in all transactions that write both.
    """
    if chances:
        tx.execute(_WRITE, {"tenant": tenant_id, "rows": msgspec.json.encode(chances).decode()})


_WRITE = text("""
WITH found AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS found (
    memory_id uuid, text_version integer, keep_chance real)
), states AS MATERIALIZED (
  SELECT memory_id FROM memory_state
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM found))
  ORDER BY memory_id FOR UPDATE
), locked AS MATERIALIZED (
  SELECT memory_id, text_version FROM scores
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM states)) AND scorer = 'heuristic'
  ORDER BY memory_id FOR UPDATE
)
UPDATE scores AS known SET keep_chance = found.keep_chance
FROM found JOIN locked USING (memory_id, text_version)
WHERE known.tenant_id = :tenant AND known.memory_id = found.memory_id
""")


def copy_to_states(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Copy the stored chances of these memories to their states; the next sweep decides their tiers again.

    `write` has locked the states.
    Strength doesn't depend on the chance, so it stays as it is.

    Returns:
        The number of memories whose chance changed.
    """
    return tx.execute(_COPY, {"tenant": tenant_id, "ids": list(memory_ids)}).rowcount


_COPY = text("""
WITH locked AS MATERIALIZED (
  SELECT memory_id FROM memory_state
  WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND salience_source = 'heuristic'
  ORDER BY memory_id FOR UPDATE
)
UPDATE memory_state AS state SET keep_chance = score.keep_chance, next_due_at = '-infinity'
FROM scores AS score
WHERE state.tenant_id = :tenant AND state.memory_id IN (SELECT memory_id FROM locked)
  AND score.tenant_id = :tenant AND score.memory_id = state.memory_id AND score.scorer = 'heuristic'
  AND score.keep_chance IS DISTINCT FROM state.keep_chance AND state.tier <> 'deleted'
""")


class Unfilled(NamedTuple):
    """A memory to be given a keep chance.

    Attributes:
        source: Origin of its salience: `heuristic` (the rules) or `consolidation` (for summaries).
    """

    memory_id: UUID
    source: str


def list_unfilled(tx: Connection, tenant_id: UUID, after: UUID, limit: int, *, again: bool) -> list[Unfilled]:
    """Return the next memories whose state has no keep chance, though it could have one, in id order.

    The texts of cold memories can't be read in bulk; these memories are filled after a restore.

    Args:
        again: Include memories that have a chance already.
    """
    values = {"tenant": tenant_id, "after": after, "limit": limit}
    return [Unfilled(*row) for row in tx.execute(_FILLABLE if again else _UNFILLED, values)]


_LISTED = """
SELECT memory_id, salience_source FROM memory_state
WHERE tenant_id = :tenant AND memory_id > :after
  AND salience_source IN ('heuristic', 'consolidation') AND tier IN ('active', 'archived') {unfilled}
ORDER BY memory_id LIMIT :limit
"""
_UNFILLED, _FILLABLE = (text(_LISTED.format(unfilled=each)) for each in ("AND keep_chance IS NULL", ""))


def list_sources(tx: Connection, tenant_id: UUID, summary_ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    """Return, by summary, the sources of these summaries that still exist."""
    sources: dict[UUID, list[UUID]] = defaultdict(list)
    for summary_id, memory_id in tx.execute(_SOURCES, {"tenant": tenant_id, "ids": list(summary_ids)}):
        sources[summary_id].append(memory_id)
    return sources


_SOURCES = text("""
SELECT link.memory_id, link.other_id FROM links AS link
WHERE link.tenant_id = :tenant AND link.memory_id = ANY (CAST(:ids AS uuid[])) AND link.kind = 'summarises'
ORDER BY link.memory_id, link.other_id
""")


def write_summaries(tx: Connection, tenant_id: UUID, chances: Mapping[UUID, float]) -> int:
    """Write the chances of summaries that have none or a lower one yet; return their number.

    Decay may have deleted the source with the highest chance, so no chance is lowered.
    """
    if not chances:
        return 0
    values = {"tenant": tenant_id, "ids": list(chances), "chances": list(chances.values())}
    return tx.execute(_WRITE_SUMMARIES, values).rowcount


_WRITE_SUMMARIES = text("""
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(CAST(:ids AS uuid[]), CAST(:chances AS real[])) AS given (memory_id, keep_chance)
), locked AS MATERIALIZED (
  SELECT memory_id FROM memory_state
  WHERE tenant_id = :tenant AND memory_id IN (SELECT memory_id FROM given) AND salience_source = 'consolidation'
  ORDER BY memory_id FOR UPDATE
)
UPDATE memory_state AS state SET keep_chance = given.keep_chance, next_due_at = '-infinity'
FROM given JOIN locked USING (memory_id)
WHERE state.tenant_id = :tenant AND state.memory_id = given.memory_id AND state.tier <> 'deleted'
  AND (state.keep_chance IS NULL OR state.keep_chance < given.keep_chance)
""")


def read(tx: Connection, tenant_id: UUID, memory_id: UUID) -> float | None:
    """Return the chance stored with a memory's score; None without a score, or if a model or older rules scored it."""
    return tx.execute(_READ, {"tenant": tenant_id, "memory_id": memory_id}).scalar()


_READ = text("SELECT keep_chance FROM scores WHERE tenant_id = :tenant AND memory_id = :memory_id")
