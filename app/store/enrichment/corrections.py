"""SQL of corrections: links from a memory to the earlier one that it corrects, and the memories to compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.roles import Role
from app.store.core.packed import Uuids, driver
from app.store.memories import roles
from app.store.search.probe import quoted

KIND: Final = "corrects"
SOURCE: Final = "correction"
WEIGHT: Final = 0.0
"""Along links of this weight nothing spreads: to use what is right now doesn't strengthen what was before."""
LATER_MAX: Final = 50
"""Later memories that are looked at again where an earlier one comes late."""


@dataclass(frozen=True, slots=True)
class Said:
    """A memory that a caller has given, as far as a correction needs it.

    Attributes:
        moment: When it happened, or was accepted where that is unknown.
        seq: Its place in the order of speaking.
        role: The speaker's effective role; None where it is unknown.
    """

    memory_id: UUID
    text: str
    subject: str | None
    speaker: str | None
    moment: datetime
    seq: int
    role: Role | None


@dataclass(frozen=True, slots=True)
class Probe:
    """A later memory and the words by which earlier ones are looked up.

    Attributes:
        said: The later memory.
        lexemes: Any of which an earlier one must have.
    """

    said: Said
    lexemes: Sequence[str]


_COLUMNS: Final = f"memory_id, text, subject, speaker, coalesce(occurred_at, created_at), seq, {roles.EFFECTIVE}"
_GIVEN: Final = """deleted_at IS NULL AND made_by = 'caller' AND NOT EXISTS (
    SELECT FROM cold_memories AS cold WHERE cold.tenant_id = %(tenant)s AND cold.memory_id = memories.memory_id)"""


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[Said]:
    """Return these memories; those that are deleted, in cold storage or made here left out."""
    rows = driver(tx).execute(_READ, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [Said(*row) for row in rows]


_READ: Final = f"""
SELECT {_COLUMNS} FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND {_GIVEN}
"""  # noqa: S608 - constants alone


def mark(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], saying: Sequence[UUID]) -> None:
    """Note which of these memories say that something has changed."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "saying": Uuids(saying)}
    driver(tx).execute(_MARK, values)


_MARK: Final = """
UPDATE memories SET says_change = NOT says_change
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND says_change <> (memory_id = ANY (%(saying)s))
"""


def concerned(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], since: Mapping[str | None, datetime]
) -> list[UUID]:
    """Return later memories whose corrections may be others now: those that correct one of these, or may do so.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        memory_ids: Memories that are new or have changed.
        since: The earliest moment of these by subject.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "subjects": list(since),
        "moments": list(since.values()),
        "most": LATER_MAX,
    }
    return [memory_id for (memory_id,) in driver(tx).execute(_CONCERNED, values).fetchall()]


_CONCERNED: Final = f"""
SELECT memory_id FROM links
WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s) AND source = '{SOURCE}'
UNION
SELECT later.memory_id FROM unnest(%(subjects)s::text[], %(moments)s::timestamptz[]) AS since (subject, moment)
CROSS JOIN LATERAL (
  SELECT memory_id FROM memories
  WHERE tenant_id = %(tenant)s AND says_change AND deleted_at IS NULL
    AND coalesce(occurred_at, created_at) > since.moment AND subject IS NOT DISTINCT FROM since.subject
    AND memory_id <> ALL (%(ids)s)
  ORDER BY coalesce(occurred_at, created_at) LIMIT %(most)s
) AS later
"""  # noqa: S608 - constants alone


def earlier(
    tx: Connection,
    tenant_id: UUID,
    probes: Sequence[Probe],
    beside: Sequence[UUID],
    *,
    window: int,
    most: int,
) -> list[tuple[UUID, Said]]:
    """Return earlier memories of the same subject that share a word with a later one, the latest first.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        probes: The later ones, with their words.
        beside: Memories that are looked at wherever they stand.
        window: How many of each subject's memories are looked at, from the newest of the later ones back.
        most: Most earlier memories of each.

    Returns:
        Pairs of a later memory's id and an earlier memory.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids([probe.said.memory_id for probe in probes]),
        "subjects": [probe.said.subject for probe in probes],
        "moments": [probe.said.moment for probe in probes],
        "seqs": [probe.said.seq for probe in probes],
        "queries": [" | ".join(map(quoted, probe.lexemes)) for probe in probes],
        "beside": Uuids(beside),
        "window": window,
        "most": most,
    }
    return [(row[0], Said(*row[1:])) for row in driver(tx).execute(_EARLIER, values).fetchall()]


# One window for each subject, not one for each memory; what a correction links already stays in sight. The ids are
# asked for apart from the order: with both, the planner goes through all of the tenant's memories to the limit.
_EARLIER: Final = f"""
WITH probes AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s, %(subjects)s::text[], %(moments)s::timestamptz[], %(seqs)s::bigint[],
    %(queries)s::text[]) AS probe (memory_id, subject, moment, seq, query)
),
subjects AS MATERIALIZED (SELECT subject, max(memory_id) AS newest FROM (
  SELECT subject, CAST(memory_id AS text) AS memory_id FROM probes) AS each GROUP BY subject),
near AS MATERIALIZED (
  SELECT recent.memory_id FROM subjects CROSS JOIN LATERAL (
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant)s AND subject = subjects.subject AND memory_id <= CAST(newest AS uuid)
    ORDER BY memory_id DESC LIMIT %(window)s
  ) AS recent WHERE subjects.subject IS NOT NULL
  UNION
  SELECT recent.memory_id FROM subjects CROSS JOIN LATERAL (
    SELECT memory_id FROM memories
    WHERE tenant_id = %(tenant)s AND subject IS NULL AND memory_id <= CAST(newest AS uuid)
    ORDER BY memory_id DESC LIMIT %(window)s
  ) AS recent WHERE subjects.subject IS NULL
  UNION
  SELECT unnest(%(beside)s)
  UNION
  SELECT other_id FROM links
  WHERE tenant_id = %(tenant)s AND memory_id IN (SELECT memory_id FROM probes) AND source = '{SOURCE}'
),
worded AS MATERIALIZED (
  SELECT near.memory_id, known.own FROM near CROSS JOIN LATERAL (
    SELECT own FROM memory_words WHERE tenant_id = %(tenant)s AND memory_words.memory_id = near.memory_id OFFSET 0
  ) AS known
),
hits AS MATERIALIZED (
  SELECT probes.memory_id AS later_id, worded.memory_id AS earlier_id FROM probes JOIN worded
    ON worded.own @@ CAST(probes.query AS tsquery) AND worded.memory_id <> probes.memory_id
)
SELECT later_id, one.* FROM (
  SELECT hits.later_id, memory.*, row_number() OVER (
    PARTITION BY hits.later_id ORDER BY memory.moment DESC, memory.seq DESC) AS place
  FROM hits JOIN probes ON probes.memory_id = hits.later_id CROSS JOIN LATERAL (
    SELECT memory_id, text, subject, speaker, coalesce(occurred_at, created_at) AS moment, seq,
      {roles.EFFECTIVE} AS role
    FROM memories
    WHERE tenant_id = %(tenant)s AND memories.memory_id = hits.earlier_id AND {_GIVEN} OFFSET 0
  ) AS memory
  WHERE memory.subject IS NOT DISTINCT FROM probes.subject
    AND (memory.moment, memory.seq) < (probes.moment, probes.seq)
) AS found CROSS JOIN LATERAL (
  SELECT found.memory_id, found.text, found.subject, found.speaker, found.moment, found.seq, found.role
) AS one
WHERE place <= %(most)s ORDER BY later_id, moment DESC, seq DESC
"""  # noqa: S608 - constants alone


def put(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    later_ids: Sequence[UUID],
    pairs: Sequence[tuple[UUID, UUID]],
) -> None:
    """Let the corrections of memories be these; what a caller has linked stays.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        memory_ids: Memories that are new or have changed: no other correction leads to or from them.
        later_ids: Memories from which no other correction leads.
        pairs: A later memory's id, and that of the one it corrects.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "later": Uuids(later_ids),
        "from_ids": Uuids([pair[0] for pair in pairs]),
        "to_ids": Uuids([pair[1] for pair in pairs]),
        "weight": WEIGHT,
    }
    driver(tx).execute(_TAKE_BACK, values)
    if pairs:
        driver(tx).execute(_PUT, values)


_TAKE_BACK: Final = f"""
DELETE FROM links
WHERE tenant_id = %(tenant)s AND source = '{SOURCE}'
  AND (memory_id = ANY (%(ids)s) OR other_id = ANY (%(ids)s) OR memory_id = ANY (%(later)s))
  AND (memory_id, other_id) NOT IN (SELECT * FROM unnest(%(from_ids)s, %(to_ids)s))
"""  # noqa: S608 - constants alone
_PUT: Final = f"""
INSERT INTO links (tenant_id, memory_id, other_id, kind, weight, source)
SELECT %(tenant)s, memory_id, other_id, '{KIND}', %(weight)s, '{SOURCE}'
FROM unnest(%(from_ids)s, %(to_ids)s) AS given (memory_id, other_id) ORDER BY memory_id, other_id
ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants alone


def among(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Return the corrections between memories that are all among these, as pairs of the later and the earlier.

    A link of this kind that a caller has made counts as one.
    """
    rows = driver(tx).execute(_AMONG, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [(later, older) for later, older in rows]


_AMONG: Final = f"""
SELECT memory_id, other_id FROM links
WHERE tenant_id = %(tenant)s AND kind = '{KIND}' AND other_id = ANY (%(ids)s) AND memory_id = ANY (%(ids)s)
ORDER BY memory_id, other_id
"""  # noqa: S608 - constants alone


ANY: Final = f"(SELECT EXISTS (SELECT FROM links WHERE tenant_id = %(tenant)s AND kind = '{KIND}'))"  # noqa: S608
"""Column that tells whether the tenant has any correction; worked out once in a statement."""


def around(tx: Connection, tenant_id: UUID, memory_id: UUID) -> tuple[list[UUID], list[UUID]]:
    """Return what a memory corrects, and what corrects it; of what is deleted neither."""
    rows = driver(tx).execute(_AROUND, {"tenant": tenant_id, "memory_id": memory_id}).fetchall()
    corrects = [older for later, older in rows if later == memory_id]
    return corrects, [later for later, older in rows if older == memory_id]


_AROUND: Final = f"""
SELECT link.memory_id, link.other_id FROM links AS link
WHERE tenant_id = %(tenant)s AND kind = '{KIND}' AND (memory_id = %(memory_id)s OR other_id = %(memory_id)s)
  AND (SELECT count(*) FROM memories WHERE memories.tenant_id = %(tenant)s
    AND memories.memory_id IN (link.memory_id, link.other_id) AND deleted_at IS NULL) = 2
ORDER BY link.memory_id, link.other_id
"""  # noqa: S608 - constants alone
