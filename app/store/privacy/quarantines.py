"""Store quarantines, and find the memories that they cover.

A quarantine hides its memories as an open erasure does: they are rows of `hidden_memories` with its id as `erasure_id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app.domain.ingest.json_input import precompile
from app.domain.ingest.quarantine import Terms
from app.domain.ingest.sources import Source
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column
from app.store.core.paging import Latest, Page, Place
from app.store.privacy.holds import HOLDS

Status = Literal["placing", "placed", "lifting", "lifted"]


@precompile
@dataclass(frozen=True, slots=True)
class Quarantine:
    """A quarantine.

    Attributes:
        status: `placing` and `lifting` while a job hides or shows further memories.
        placed_by: Id of the caller's API key.
        memories: Number of memories that it hides now, summaries included.
    """

    quarantine_id: UUID
    terms: Terms
    status: Status
    placed_at: datetime
    placed_by: str
    lifted_at: datetime | None = None
    lifted_by: str | None = None
    memories: int = 0


class Covered(NamedTuple):
    """Numbers of memories that a quarantine would hide, of those among them under a legal hold, and of their summaries.

    `hidden` counts memories that match and are hidden already, by an erasure or another quarantine.
    """

    memories: int
    held: int
    summaries: int
    hidden: int


_GIVEN: Final = "quarantine_id, key_id, source, after, before, status, placed_at, placed_by"
_COLUMNS: Final = f"""{_GIVEN}, lifted_at, lifted_by, (
  SELECT count(*) FROM hidden_memories AS hidden
  WHERE hidden.tenant_id = quarantines.tenant_id AND hidden.erasure_id = quarantines.quarantine_id) AS memories"""  # noqa: S608 - constants only
_IN_PERIOD: Final = "{at} < {row}.before AND ({row}.after IS NULL OR {at} >= {row}.after)"
_WRITTEN: Final = """EXISTS (
  SELECT FROM memory_writers AS writer
  WHERE writer.tenant_id = memory.tenant_id AND writer.memory_id = memory.memory_id
    AND ({row}.key_id IS NULL OR writer.key_id = {row}.key_id)
    AND writer.first_at < {row}.before AND ({row}.after IS NULL OR writer.last_at >= {row}.after))"""
MATCHES: Final = f"""made_by = 'caller' AND (
  ({{row}}.key_id IS NOT NULL AND (
    (memory.written_by = {{row}}.key_id AND {_IN_PERIOD.format(at="memory.created_at", row="{row}")}) OR {_WRITTEN}))
  OR (coalesce(memory.source, 'unknown') = {{row}}.source AND (
    ({_IN_PERIOD.format(at="memory.created_at", row="{row}")}) OR {_WRITTEN})))"""
"""SQL condition that a row `memory` matches the conditions in {row}."""
_TERMS: Final = """(
  SELECT CAST(:key_id AS text) AS key_id, CAST(:source AS text) AS source, CAST(:after AS timestamptz) AS after,
    CAST(:before AS timestamptz) AS before) AS terms"""


def _values(tenant_id: UUID, terms: Terms) -> dict[str, Any]:
    return {"tenant": tenant_id, **{name: getattr(terms, name) for name in terms.__slots__}}


def count(tx: Connection, tenant_id: UUID, terms: Terms) -> Covered:
    """Count the memories that a quarantine with these conditions would hide."""
    return Covered(*tx.execute(_COUNT, _values(tenant_id, terms)).one())


_COUNT: Final = text(f"""
WITH matching AS MATERIALIZED (
  SELECT memory.memory_id, deleted_at, EXISTS (
    SELECT FROM holds AS hold WHERE hold.tenant_id = :tenant AND {HOLDS}) AS is_held
  FROM memories AS memory CROSS JOIN {_TERMS} WHERE memory.tenant_id = :tenant AND {MATCHES.format(row="terms")}
)
SELECT count(*) FILTER (WHERE deleted_at IS NULL), count(*) FILTER (WHERE deleted_at IS NULL AND is_held), (
    SELECT count(DISTINCT summary_id) FROM merges JOIN lineage USING (tenant_id, merge_id)
    WHERE tenant_id = :tenant AND status = 'done' AND part = 'source' AND summary_id IS NOT NULL
      AND lineage.memory_id IN (SELECT memory_id FROM matching WHERE deleted_at IS NULL)
  ), count(*) FILTER (WHERE deleted_at IS NOT NULL)
FROM matching
""")  # noqa: S608 - constants only


def has_key(tx: Connection, tenant_id: UUID, key_id: str) -> bool:
    """Return whether the tenant has, or had, an API key with this id."""
    return bool(tx.execute(_HAS_KEY, {"tenant": tenant_id, "key_id": key_id}).scalar())


_HAS_KEY: Final = text("SELECT EXISTS (SELECT FROM api_keys WHERE tenant_id = :tenant AND key_id = :key_id)")


def add(tx: Connection, tenant_id: UUID, new: Quarantine) -> None:
    """Insert a quarantine."""
    values = {name: getattr(new, name) for name in ("quarantine_id", "status", "placed_at", "placed_by")}
    tx.execute(_ADD, _values(tenant_id, new.terms) | values)


_ADD: Final = text(f"""
INSERT INTO quarantines (tenant_id, {_GIVEN})
VALUES (:tenant, {", ".join(f":{name}" for name in _GIVEN.split(", "))})
""")  # noqa: S608 - constants only


def get(tx: Connection, tenant_id: UUID, quarantine_id: UUID, *, locked: bool = False) -> Quarantine | None:
    """Return a quarantine by its id, or None if it doesn't exist."""
    statement = _GET_LOCKED if locked else _GET
    row = tx.execute(statement, {"tenant": tenant_id, "id": quarantine_id}).one_or_none()
    return None if row is None else _quarantine(row)


_GET: Final = text(f"SELECT {_COLUMNS} FROM quarantines WHERE tenant_id = :tenant AND quarantine_id = :id")  # noqa: S608
_GET_LOCKED: Final = text(f"{_GET.text} FOR UPDATE")


def find_same(tx: Connection, tenant_id: UUID, terms: Terms) -> Quarantine | None:
    """Return a quarantine in force with exactly these conditions, or None."""
    row = tx.execute(_FIND_SAME, _values(tenant_id, terms)).first()
    return None if row is None else _quarantine(row)


_FIND_SAME: Final = text(f"""
SELECT {_COLUMNS} FROM quarantines
WHERE tenant_id = :tenant AND status IN ('placing', 'placed') AND before = :before
  AND (key_id, source, after) IS NOT DISTINCT FROM
    (CAST(:key_id AS text), CAST(:source AS text), CAST(:after AS timestamptz))
ORDER BY placed_at LIMIT 1
""")  # noqa: S608 - constants only


def list_quarantines(
    tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int, *, lifted: bool
) -> Page[Quarantine]:
    """Return a page of quarantines, latest first; `lifted` includes lifted ones."""
    return _PAGES.read(tx, _quarantine, older_than, limit, tenant=tenant_id, lifted=lifted)


_PAGES: Final = Latest(f"""
SELECT {_COLUMNS} FROM quarantines WHERE tenant_id = :tenant AND (:lifted OR status <> 'lifted')
ORDER BY placed_at DESC, quarantine_id DESC""")  # noqa: S608 - constants only


def _quarantine(row: Row[Any]) -> Quarantine:
    fields = dict(row._mapping)  # noqa: SLF001 - public in SQLAlchemy in spite of its name
    terms = Terms(*(fields.pop(name) for name in Terms.__slots__))
    return Quarantine(terms=terms, **fields)


def set_status(
    tx: Connection, tenant_id: UUID, quarantine_id: UUID, status: Status, lifted_by: str | None = None
) -> None:
    """Set the status of a quarantine; `lifted_by` also records the lift."""
    tx.execute(_SET, {"tenant": tenant_id, "id": quarantine_id, "status": status, "by": lifted_by})


_SET: Final = text("""
UPDATE quarantines SET status = :status, lifted_by = coalesce(CAST(:by AS text), lifted_by),
  lifted_at = CASE WHEN CAST(:by AS text) IS NULL THEN lifted_at ELSE clock_timestamp() END
WHERE tenant_id = :tenant AND quarantine_id = :id
""")


def page_matching(tx: Connection, tenant_id: UUID, terms: Terms, after: UUID, limit: int) -> list[UUID]:
    """Return a page of the visible memories that match, in id order."""
    return list(tx.execute(_PAGE, _values(tenant_id, terms) | {"later_than": after, "limit": limit}).scalars())


_PAGE: Final = text(f"""
SELECT memory.memory_id FROM memories AS memory CROSS JOIN {_TERMS}
WHERE memory.tenant_id = :tenant AND memory.memory_id > :later_than AND deleted_at IS NULL
  AND {MATCHES.format(row="terms")}
ORDER BY memory.memory_id LIMIT :limit
""")  # noqa: S608 - constants only


def find_matching(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, list[UUID]]:
    """Return the visible memories among these that a quarantine in force covers, by the earliest such quarantine."""
    rows = driver_connection(tx).execute(_MATCHING.encode(), {"tenant": tenant_id, "ids": Uuids(memory_ids)})
    found: dict[UUID, list[UUID]] = {}
    for memory_id, quarantine_id in rows:
        found.setdefault(quarantine_id, []).append(memory_id)
    return found


_MATCHING: Final = f"""
SELECT DISTINCT ON (memory.memory_id) memory.memory_id, terms.quarantine_id
FROM (SELECT * FROM quarantines WHERE tenant_id = %(tenant)s AND status IN ('placing', 'placed') OFFSET 0) AS terms
CROSS JOIN LATERAL (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND deleted_at IS NULL OFFSET 0
) AS memory
WHERE {MATCHES.format(row="terms")}
ORDER BY memory.memory_id, terms.placed_at, terms.quarantine_id
"""  # noqa: S608 - constants only


def list_summaries_of_decayed(tx: Connection, tenant_id: UUID, terms: Terms) -> list[UUID]:
    """Return the summaries of which at least one source memory matches and was deleted by decay, in id order."""
    return list(tx.execute(_DECAYED, _values(tenant_id, terms)).scalars())


_DECAYED: Final = text(f"""
SELECT DISTINCT decayed.memory_id FROM decayed_sources AS decayed CROSS JOIN {_TERMS}
WHERE decayed.tenant_id = :tenant AND (decayed.written_by = terms.key_id
    OR coalesce(decayed.source, 'unknown') = terms.source)
  AND {_IN_PERIOD.format(at="decayed.created_at", row="terms")}
ORDER BY decayed.memory_id
""")  # noqa: S608 - constants only


def filter_hidden(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of these memories that a quarantine hides."""
    return set(fetch_column(tx, _HIDDEN, {"tenant": tenant_id, "ids": Uuids(memory_ids)}))


_HIDDEN: Final = """
SELECT memory_id FROM hidden_memories JOIN quarantines
  ON quarantines.tenant_id = hidden_memories.tenant_id AND quarantine_id = erasure_id
WHERE hidden_memories.tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def page_all_hidden(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return a page of the memories that quarantines hide, in id order."""
    return fetch_column(tx, _ALL_HIDDEN, {"tenant": tenant_id, "after": after, "limit": limit})


_ALL_HIDDEN: Final = """
SELECT memory_id FROM hidden_memories
WHERE tenant_id = %(tenant)s AND memory_id > %(after)s AND erasure_id = ANY (ARRAY(
  SELECT quarantine_id FROM quarantines WHERE tenant_id = %(tenant)s AND status <> 'lifted'))
ORDER BY memory_id LIMIT %(limit)s
"""


def find_hiding(tx: Connection, tenant_id: UUID, memory_id: UUID) -> tuple[Quarantine, Source] | None:
    """Return the quarantine that hides a memory, and the memory's source; None if no quarantine hides it."""
    hiding = tx.execute(_HIDING, {"tenant": tenant_id, "memory_id": memory_id}).one_or_none()
    found = None if hiding is None else get(tx, tenant_id, hiding.erasure_id)
    return None if hiding is None or found is None else (found, hiding.source)


_HIDING: Final = text("""
SELECT erasure_id, coalesce(source, 'unknown') AS source
FROM hidden_memories JOIN memories USING (tenant_id, memory_id)
WHERE tenant_id = :tenant AND memory_id = coalesce((
  SELECT memory_id FROM memory_aliases WHERE tenant_id = :tenant AND alias_id = :memory_id), :memory_id)
""")
