"""Store corrections, and select the memories that are compared to detect them.

A correction is a link from a memory to the earlier memory that it corrects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.roles import Role
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column, fetch_value
from app.store.memories import roles
from app.store.search.query_parts import quote_lexeme

KIND: Final = "corrects"
SOURCE: Final = "correction"
WEIGHT: Final = 0.0
"""Weight of corrections; at 0, activation doesn't spread along them from the current fact to the outdated fact."""
LATER_MAX: Final = 50
"""Maximum number of later memories per subject that are checked again when an earlier memory arrives late."""


@dataclass(frozen=True, slots=True)
class CorrectionInput:
    """The part of a caller's memory that is needed to detect corrections.

    Attributes:
        moment: Time of the event; time of acceptance if the event's time is unknown.
        seq: Sequence number: the order of acceptance within the tenant.
        role: The speaker's effective role; None if unknown.
    """

    memory_id: UUID
    text: str
    subject: str | None
    speaker: str | None
    moment: datetime
    seq: int
    role: Role | None


@dataclass(frozen=True, slots=True)
class CorrectionProbe:
    """A later memory with the words used to look up earlier memories.

    Attributes:
        said: The later memory.
        lexemes: Lexemes of which an earlier memory must contain at least one.
    """

    said: CorrectionInput
    lexemes: Sequence[str]


_COLUMNS: Final = f"memory_id, text, subject, speaker, coalesce(occurred_at, created_at), seq, {roles.EFFECTIVE}"
_GIVEN: Final = """deleted_at IS NULL AND made_by = 'caller' AND NOT EXISTS (
    SELECT FROM cold_memories AS cold WHERE cold.tenant_id = %(tenant)s AND cold.memory_id = memories.memory_id)"""


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[CorrectionInput]:
    """Return these memories, omitting deleted and cold ones and those that no caller sent (summaries)."""
    rows = driver_connection(tx).execute(_READ, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [CorrectionInput(*row) for row in rows]


_READ: Final = f"""
SELECT {_COLUMNS} FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND {_GIVEN}
"""  # noqa: S608 - constants only


def mark_changes(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], saying: Sequence[UUID]) -> None:
    """Set the flag `says_change` of the memories in `saying`, and clear the flag of the others in `memory_ids`."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "saying": Uuids(saying)}
    driver_connection(tx).execute(_MARK, values)


_MARK: Final = """
UPDATE memories SET says_change = NOT says_change
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND says_change <> (memory_id = ANY (%(saying)s))
"""


def has_corrections(tx: Connection, tenant_id: UUID) -> bool:
    """Return whether the tenant has any correction; a partial index makes the lookup cheap."""
    return bool(fetch_value(tx, f"SELECT {ANY}", {"tenant": tenant_id}))


def list_concerned(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    since: Mapping[str | None, datetime],
    *,
    are_linked: bool,
) -> list[UUID]:
    """Return the memories whose corrections must be detected again because of these new or changed memories.

    The result contains the memories that correct one of these memories, and the first `LATER_MAX` later memories per
    subject that state a change.

    Args:
        memory_ids: New or changed memories.
        since: The earliest time of these memories by subject.
        are_linked: False if the tenant has no correction (`has_corrections`); existing links aren't read then.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "linked": Uuids(memory_ids if are_linked else ()),
        "subjects": list(since),
        "moments": list(since.values()),
        "most": LATER_MAX,
    }
    return fetch_column(tx, _CONCERNED, values)


_CONCERNED: Final = f"""
SELECT memory_id FROM links
WHERE tenant_id = %(tenant)s AND other_id = ANY (%(linked)s) AND kind = '{KIND}' AND source = '{SOURCE}'
UNION
SELECT later.memory_id FROM unnest(%(subjects)s::text[], %(moments)s::timestamptz[]) AS since (subject, moment)
CROSS JOIN LATERAL (
  SELECT memory_id FROM memories
  WHERE tenant_id = %(tenant)s AND says_change AND deleted_at IS NULL
    AND coalesce(occurred_at, created_at) > since.moment AND subject IS NOT DISTINCT FROM since.subject
    AND memory_id <> ALL (%(ids)s)
  ORDER BY coalesce(occurred_at, created_at) LIMIT %(most)s
) AS later
"""  # noqa: S608 - constants only


def find_earlier(
    tx: Connection,
    tenant_id: UUID,
    probes: Sequence[CorrectionProbe],
    beside: Sequence[UUID],
    *,
    window: int,
    most: int,
) -> list[tuple[UUID, CorrectionInput]]:
    """Return, for each later memory, earlier memories about the same subject that share a word with it.

    Args:
        probes: The later memories with their words.
        beside: Memories that are compared even if they are outside the window.
        window: Number of memories compared per subject, counted back from the newest later memory.
        most: Maximum number of earlier memories per later memory.

    Returns:
        Pairs of a later memory's id and an earlier memory; the earlier memories of a later memory are ordered latest
        first.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids([probe.said.memory_id for probe in probes]),
        "subjects": [probe.said.subject for probe in probes],
        "moments": [probe.said.moment for probe in probes],
        "seqs": [probe.said.seq for probe in probes],
        "queries": [" | ".join(map(quote_lexeme, probe.lexemes)) for probe in probes],
        "beside": Uuids(beside),
        "window": window,
        "most": most,
    }
    return [(row[0], CorrectionInput(*row[1:])) for row in driver_connection(tx).execute(_EARLIER, values).fetchall()]


# The window is selected per subject, not per memory; targets of existing corrections are always compared. The window is
# selected by id, and the results are ordered by time in a separate step: in a single step, the planner would scan all
# of the tenant's memories up to the limit.
_EARLIER: Final = f"""
WITH probes AS MATERIALIZED (
  SELECT memory_id, subject, moment, seq, CAST(query AS tsquery) AS query
  FROM unnest(%(ids)s, %(subjects)s::text[], %(moments)s::timestamptz[], %(seqs)s::bigint[], %(queries)s::text[])
    AS probe (memory_id, subject, moment, seq, query)
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
  SELECT memory_id, own FROM memory_words
  WHERE tenant_id = %(tenant)s AND memory_id = ANY (ARRAY(SELECT memory_id FROM near))
),
hits AS MATERIALIZED (
  SELECT probes.memory_id AS later_id, worded.memory_id AS earlier_id FROM probes JOIN worded
    ON worded.own @@ probes.query AND worded.memory_id <> probes.memory_id
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
"""  # noqa: S608 - constants only


def replace_corrections(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    later_ids: Sequence[UUID],
    pairs: Sequence[tuple[UUID, UUID]],
    *,
    are_linked: bool,
) -> None:
    """Replace the detected corrections of memories with these pairs; links created by callers remain.

    Args:
        memory_ids: New or changed memories; their corrections in either direction are deleted unless in `pairs`.
        later_ids: Memories whose outgoing corrections are deleted unless in `pairs`.
        pairs: Ids of a later memory and of the earlier memory that it corrects.
        are_linked: False if the tenant has no correction (`has_corrections`); nothing is deleted then.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "later": Uuids(later_ids),
        "from_ids": Uuids([pair[0] for pair in pairs]),
        "to_ids": Uuids([pair[1] for pair in pairs]),
        "weight": WEIGHT,
    }
    if are_linked:
        driver_connection(tx).execute(_TAKE_BACK, values)
    if pairs:
        driver_connection(tx).execute(_PUT, values)


_TAKE_BACK: Final = f"""
DELETE FROM links
WHERE tenant_id = %(tenant)s AND kind = '{KIND}' AND source = '{SOURCE}'
  AND (memory_id = ANY (%(ids)s) OR other_id = ANY (%(ids)s) OR memory_id = ANY (%(later)s))
  AND (memory_id, other_id) NOT IN (SELECT * FROM unnest(%(from_ids)s, %(to_ids)s))
"""  # noqa: S608 - constants only
_PUT: Final = f"""
INSERT INTO links (tenant_id, memory_id, other_id, kind, weight, source)
SELECT %(tenant)s, memory_id, other_id, '{KIND}', %(weight)s, '{SOURCE}'
FROM unnest(%(from_ids)s, %(to_ids)s) AS given (memory_id, other_id) ORDER BY memory_id, other_id
ON CONFLICT DO NOTHING
"""  # noqa: S608 - constants only


def list_among(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """Return the corrections between these memories as pairs of the later and the earlier id.

    Links of this kind that callers created are included.
    """
    rows = driver_connection(tx).execute(_AMONG, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [(later, older) for later, older in rows]


_AMONG: Final = f"""
SELECT memory_id, other_id FROM links
WHERE tenant_id = %(tenant)s AND kind = '{KIND}' AND other_id = ANY (%(ids)s) AND memory_id = ANY (%(ids)s)
ORDER BY memory_id, other_id
"""  # noqa: S608 - constants only


ANY: Final = f"(SELECT EXISTS (SELECT FROM links WHERE tenant_id = %(tenant)s AND kind = '{KIND}'))"  # noqa: S608
"""SQL expression that is true if the tenant has any correction; evaluated once per statement."""


def list_around(tx: Connection, tenant_id: UUID, memory_id: UUID) -> tuple[list[UUID], list[UUID]]:
    """Return the ids of the memories that a memory corrects and of the memories that correct it, without deleted ones.

    Both lists are empty if the memory itself is deleted.
    """
    rows = driver_connection(tx).execute(_AROUND, {"tenant": tenant_id, "memory_id": memory_id}).fetchall()
    corrects = [older for later, older in rows if later == memory_id]
    return corrects, [later for later, older in rows if older == memory_id]


_AROUND: Final = f"""
SELECT link.memory_id, link.other_id FROM links AS link
WHERE tenant_id = %(tenant)s AND kind = '{KIND}' AND (memory_id = %(memory_id)s OR other_id = %(memory_id)s)
  AND (SELECT count(*) FROM memories WHERE memories.tenant_id = %(tenant)s
    AND memories.memory_id IN (link.memory_id, link.other_id) AND deleted_at IS NULL) = 2
ORDER BY link.memory_id, link.other_id
"""  # noqa: S608 - constants only
