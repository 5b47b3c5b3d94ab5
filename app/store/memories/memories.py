"""Read, list, lock and update memories, and upsert them by the caller's external ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Dialect, Row, RowMapping, TextClause, func, text, update
from sqlalchemy.dialects import postgresql

from app.domain.ingest.memory import COLUMNS, CONTENT, KINDS, MemoryIn
from app.domain.ingest.roles import Role
from app.domain.ingest.sources import lowest_sql
from app.domain.search.content_filters import ANY_CONTENT, ContentFilters
from app.store import tables
from app.store.core.paging import Page, page_of
from app.store.memories.content_filters import content_conditions

_DECLARED: Final = [field.name for field in COLUMNS]
_CONTENT: Final = [field.name for field in CONTENT]
_KEPT: Final = frozenset(field.name for field in CONTENT if field.column.is_kept)
_ENRICHED: Final = [field.name for field in CONTENT if field.column.is_enriched]
ENRICHED_FIELDS: Final = frozenset(_ENRICHED)
"""Fields whose change affects the indexed words or the vector of the memory or of its neighbours."""


class StoredMemory(MemoryIn, frozen=True, kw_only=True):
    """A memory with its current state; `embedding` and `supersedes` aren't read.

    Attributes:
        seq: Sequence number: the order of acceptance within the tenant.
        indexed: The full-text index covers the current text version.
        embedded: An embedding of the current text version exists.
        criteria: The four salience components, 0 to 10 each; None before scoring or if the caller set the salience.
        inferred: Inferred values for fields that the caller omitted (`kind`, `entities`, `categories`), plus `topics`,
            `cues` and `sensitivity`, which only a model provides.
        promoted_strength: Strength at the promotion; None if the memory isn't promoted, or if an
            earlier version of Ebbing promoted it.
        note: Path of the memory's note below the notes folder; None if there is none.
    """

    memory_id: UUID
    seq: int
    created_at: datetime
    updated_at: datetime | None
    tier: str
    salience_source: str | None
    multiplier: float
    access_count: int
    accessed_at: datetime | None
    indexed: bool
    embedded: bool
    criteria: dict[str, float] | None
    inferred: dict[str, Any] | None
    cross_domain_count: int
    promoted_at: datetime | None
    promoted_for: str | None
    promoted_strength: float | None
    note: str | None
    made_by: str


@dataclass(frozen=True, slots=True)
class Filters:
    """Filters for listing memories; None matches any value."""

    subject: str | None = None
    thread: str | None = None
    tag: str | None = None
    kind: str | None = None
    tier: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    strength_above: float | None = None
    strength_below: float | None = None
    superseded: bool | None = None
    role: Role | None = None
    promoted: bool | None = None
    content: ContentFilters = ANY_CONTENT

    @property
    def by_strength(self) -> bool:
        """True if the filter includes strength."""
        return self.strength_above is not None or self.strength_below is not None


def _names(fields: Iterable[str], row: str = "") -> str:
    """Return the columns of these fields, separated by commas, with a prefix such as `memory.`."""
    return ", ".join(f"{row}{name}" for name in fields)


_COLUMNS = f"""
  memory.memory_id, memory.seq, {_names(_DECLARED, "memory.")}, memory.created_at, memory.updated_at, memory.made_by,
  state.tier, state.salience, state.salience_source, state.multiplier, state.access_count, state.accessed_at,
  state.cross_domain_count, state.promoted_at, state.promoted_for, state.promoted_strength,
  (
    SELECT concat(note.tenant_id, '/', note.memory_id, '.md') FROM notes AS note
    WHERE note.tenant_id = :tenant AND note.memory_id = memory.memory_id AND note.digest IS NOT NULL
      AND state.promoted_at IS NOT NULL
  ) AS note,
  EXISTS (
    SELECT FROM memory_words AS known WHERE known.tenant_id = :tenant AND known.memory_id = memory.memory_id
      AND known.text_version = memory.text_version
  ) AS indexed,
  EXISTS (
    SELECT FROM embeddings AS known WHERE known.tenant_id = :tenant AND known.memory_id = memory.memory_id
      AND known.space_id IN (SELECT space_id FROM embedding_spaces) AND known.text_version = memory.text_version
  ) AS embedded,
  CASE WHEN state.salience_source <> 'caller' AND score.memory_id IS NOT NULL THEN jsonb_build_object(
    'emotional', score.emotional, 'novelty', score.novelty, 'actionable', score.actionable,
    'personal', score.personal) END AS criteria,
  CASE WHEN score.memory_id IS NOT NULL THEN jsonb_build_object(
    'kind', CASE WHEN memory.kind IS NULL THEN score.inferred_kind END,
    'entities', CASE WHEN memory.entities = '{{}}' THEN score.inferred_entities ELSE '{{}}' END,
    'topics', score.inferred_topics, 'cues', score.inferred_cues,
    'categories', CASE WHEN memory.categories = '{{}}' THEN score.inferred_categories ELSE '{{}}' END,
    'sensitivity', score.sensitivity) END AS inferred
FROM memories AS memory
LEFT JOIN scores AS score ON score.tenant_id = :tenant AND score.memory_id = memory.memory_id
  AND score.text_version = memory.text_version
JOIN memory_state AS state ON state.tenant_id = :tenant AND state.memory_id = memory.memory_id
"""  # noqa: S608 - constants only

_GET = text(f"""
SELECT {_COLUMNS}
WHERE memory.tenant_id = :tenant AND memory.memory_id = :memory_id AND memory.deleted_at IS NULL
""")

_PAGE = f"""
SELECT {_COLUMNS}
WHERE memory.tenant_id = :tenant AND memory.deleted_at IS NULL
  AND (CAST(:subject AS text) IS NULL OR memory.subject = :subject)
  AND (CAST(:thread AS text) IS NULL OR memory.thread = :thread)
  AND (CAST(:tag AS text) IS NULL OR CAST(:tag AS text) = ANY (memory.tags))
  AND (CAST(:kind AS text) IS NULL OR memory.kind = :kind)
  AND (CAST(:role AS text) IS NULL OR coalesce(memory.role, memory.speaker) = :role)
  AND (CAST(:tier AS text) IS NULL OR state.tier = :tier)
  AND (CAST(:promoted AS boolean) IS NULL OR (state.promoted_at IS NOT NULL) = :promoted)
  AND (CAST(:after AS timestamptz) IS NULL OR coalesce(memory.occurred_at, memory.created_at) >= :after)
  AND (CAST(:before AS timestamptz) IS NULL OR coalesce(memory.occurred_at, memory.created_at) < :before)
  AND (CAST(:superseded AS boolean) IS NULL OR :superseded = EXISTS (SELECT FROM supersessions AS newer
    WHERE newer.tenant_id = :tenant AND newer.status = 'active' AND newer.superseded_id = memory.memory_id))
"""  # noqa: S608 - constants only

ListOrder = Literal["newest", "thread", "thread_newest"]
"""Newest first; the order of acceptance, which is the order of turns within a thread; or the reverse of that order."""
_PAGES: Final[dict[ListOrder, str]] = {
    "newest": """(CAST(:page_after AS uuid) IS NULL OR memory.memory_id < :page_after)
ORDER BY memory.memory_id DESC LIMIT :limit""",
    "thread": "(CAST(:page_after AS bigint) IS NULL OR memory.seq > :page_after) ORDER BY memory.seq LIMIT :limit",
    "thread_newest": """(CAST(:page_after AS bigint) IS NULL OR memory.seq < :page_after)
ORDER BY memory.seq DESC LIMIT :limit""",
}

_BY_STRENGTH: Final = """(CAST(:strength_above AS float8) IS NULL OR state.strength > :strength_above)
  AND (CAST(:strength_below AS float8) IS NULL OR state.strength < :strength_below)"""


def get(tx: Connection, tenant_id: UUID, memory_id: UUID) -> StoredMemory | None:
    """Return a memory by its id, or None if it doesn't exist or was deleted."""
    row = tx.execute(_GET, {"tenant": tenant_id, "memory_id": memory_id}).mappings().one_or_none()
    return None if row is None else _stored(row)


def _stored(row: RowMapping) -> StoredMemory:
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    values["source"] = values["source"] or "unknown"
    return StoredMemory(**values)


def list_memories(
    tx: Connection,
    tenant_id: UUID,
    wanted: Filters,
    after: UUID | int | None,
    limit: int,
    *,
    state: str = "memory_state",
    order: ListOrder = "newest",
) -> Page[StoredMemory]:
    """Return a page of memories.

    Args:
        after: The previous page's last id or, in the order of the thread, its sequence number.
        state: The relation to read states from; to filter by strength, pass `live_strength_sql.strength_relation`.
    """
    values = {
        "tenant": tenant_id,
        "page_after": after,
        "limit": limit,
        **{name: getattr(wanted, name) for name in wanted.__slots__ if name != "content"},
    }
    content = content_conditions(wanted.content, values, row="memory.", parameter=":{}")
    conditions = (_BY_STRENGTH, *content) if wanted.by_strength else tuple(content)
    rows = [_stored(row) for row in tx.execute(_list_page(state, conditions, order), values).mappings()]
    return page_of(rows, limit, lambda row: row.memory_id if order == "newest" else row.seq)


@lru_cache(maxsize=1024)
def _list_page(state: str, conditions: Sequence[str], order: ListOrder) -> TextClause:
    statement = _PAGE + "".join(f"  AND {condition}\n" for condition in (*conditions, _PAGES[order]))
    return text(statement.replace("JOIN memory_state AS", f"JOIN {state} AS"))


def lock(tx: Connection, tenant_id: UUID, memory_id: UUID) -> bool:
    """Lock a memory's row until the transaction ends. Return False if it doesn't exist or was deleted."""
    return tx.execute(_LOCK, {"tenant": tenant_id, "memory_id": memory_id}).scalar() is not None


_LOCK = text("""
SELECT memory_id FROM memories
WHERE tenant_id = :tenant AND memory_id = :memory_id AND deleted_at IS NULL FOR UPDATE
""")


def update_memory(tx: Connection, tenant_id: UUID, memory_id: UUID, changes: Mapping[str, object]) -> None:
    """Update columns of a memory that the caller has locked.

    Args:
        changes: The new values by column. A change to `ENRICHED_FIELDS` increments the text version, so that enrichment
            results computed from the old text aren't written afterwards.
    """
    table = tables.memories
    values: dict[str, Any] = {**changes, "updated_at": func.now()}
    if ENRICHED_FIELDS & changes.keys():
        values["text_version"] = table.c.text_version + 1
    tx.execute(update(table).where(table.c.tenant_id == tenant_id, table.c.memory_id == memory_id).values(values))


def update_state(tx: Connection, tenant_id: UUID, memory_id: UUID, changes: Mapping[str, object]) -> None:
    """Update columns of a memory's state; the caller has locked its row in `memories`."""
    table = tables.memory_state
    values = {name: _real(value) if isinstance(value, float) else value for name, value in changes.items()}
    tx.execute(update(table).where(table.c.tenant_id == tenant_id, table.c.memory_id == memory_id).values(values))


class NewMemory(msgspec.Struct, frozen=True):
    """A memory to be inserted.

    Attributes:
        seq: Sequence number: the order of acceptance within the tenant.
        accepted_ms: Time of acceptance in milliseconds since 1970.
        given: The caller's input, with the source to be stored.
        written_by: Id of the API key that sent it; None if it is unknown.
    """

    memory_id: UUID
    seq: int
    accepted_ms: int
    given: MemoryIn
    written_by: str | None = None


@dataclass(frozen=True, slots=True)
class UpsertResult:
    """The result of an upsert.

    Attributes:
        versions: The text version by stored id, for every memory in the input.
        changed: Stored ids of new and changed memories.
        aliases: Stored id by input id, for input ids that became aliases of existing memories.
    """

    versions: dict[UUID, int]
    changed: set[UUID]
    aliases: dict[UUID, UUID]


def lock_external(tx: Connection, tenant_id: UUID, external_ids: Sequence[str]) -> dict[UUID, Row[Any]]:
    """Lock the memories with these external ids, in id order. Return, by id, their rows with the `ENRICHED_FIELDS`."""
    values = {"tenant": tenant_id, "external_ids": list(external_ids)}
    return {row.memory_id: row for row in tx.execute(_LOCK_EXTERNAL, values)}


_LOCK_EXTERNAL = text(f"""
SELECT memory_id, external_id, {_names(_ENRICHED)} FROM memories
WHERE tenant_id = :tenant AND external_id = ANY (CAST(:external_ids AS text[])) AND deleted_at IS NULL
ORDER BY memory_id FOR UPDATE
""")  # noqa: S608 - constants only


def upsert(tx: Connection, tenant_id: UUID, rows: Sequence[NewMemory]) -> UpsertResult:
    """Insert memories, or update those whose external id exists and whose content differs.

    Args:
        rows: The memories; each external id may occur at most once.
    """
    encoded = msgspec.json.encode([as_json(row) for row in rows]).decode()
    written = tx.execute(_UPSERT, {"tenant": tenant_id, "rows": encoded}).all()
    known = {row.external_id: row.memory_id for row in written if row.external_id is not None}
    aliases = {
        row.memory_id: known[row.given.external_id]
        for row in rows
        if row.given.external_id is not None and known[row.given.external_id] != row.memory_id
    }
    versions = {row.memory_id: row.text_version for row in written}
    return UpsertResult(versions, {row.memory_id for row in written if row.is_changed}, aliases)


def _changes(fields: Sequence[str], row: str = "excluded") -> str:
    """Return an SQL condition that row `known` differs from another row in at least one of these fields."""
    updated = ", ".join(_updated(name, row) for name in fields)
    return f"({_names(fields, 'known.')}) IS DISTINCT FROM ({updated})"


def _updated(name: str, row: str = "excluded") -> str:
    """Return an SQL expression for the value of a field after another row has updated row `known`."""
    if name == "source":
        return lowest_sql(f"known.{name}", f"{row}.{name}")
    return f"coalesce({row}.{name}, known.{name})" if name in _KEPT else f"{row}.{name}"


CONTENT_CHANGES: Final = _changes(_CONTENT, "given")
_DIALECT: Final[Dialect] = postgresql.dialect()  # type: ignore[no-untyped-call]
_TYPES: Final = ", ".join(
    f"{name} {tables.memories.c[name].type.compile(_DIALECT)}"
    for name in ("memory_id", "seq", "created_at", "written_by", *_DECLARED)
)
_UPSERT = text(f"""
WITH given AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given (
    {_TYPES}, salience real, multiplier real, kind_number smallint)
), policy AS (
  SELECT version, body->>'decay_from' = 'occurred' AS from_occurred FROM policies
  WHERE tenant_id = :tenant AND effective_at <= now() ORDER BY version DESC LIMIT 1
), written AS (
  INSERT INTO memories AS known (tenant_id, memory_id, seq, created_at, written_by, {_names(_DECLARED)})
  SELECT :tenant, memory_id, seq, least(created_at, now()), written_by, {_names(_DECLARED)}
  FROM given ORDER BY memory_id
  ON CONFLICT (tenant_id, external_id) WHERE external_id IS NOT NULL AND deleted_at IS NULL DO UPDATE
  SET {", ".join(f"{name} = {_updated(name)}" for name in _CONTENT)},
    text_version = known.text_version + CAST({_changes(_ENRICHED)} AS integer), updated_at = now()
  WHERE {_changes(_CONTENT)}
  RETURNING known.memory_id, known.external_id, known.text_version
), settled AS (
  SELECT memory_id, external_id, text_version, true AS is_changed FROM written
  UNION ALL
  SELECT memory_id, external_id, text_version, false FROM memories
  WHERE tenant_id = :tenant AND deleted_at IS NULL
    AND external_id IN (SELECT external_id FROM given WHERE external_id IS NOT NULL)
    AND external_id NOT IN (SELECT external_id FROM written WHERE external_id IS NOT NULL)
), weighed AS (
  SELECT settled.memory_id FROM given JOIN settled USING (external_id) WHERE given.multiplier IS NOT NULL
), scored AS (
  INSERT INTO memory_state AS known (
    tenant_id, memory_id, kind, salience, salience_source, multiplier, created_at, accessed_at, anchored_at,
    policy_version)
  SELECT :tenant, settled.memory_id, coalesce(given.kind_number, 0), given.salience,
    CASE WHEN given.salience IS NOT NULL THEN 'caller' END, coalesce(given.multiplier, 1), began.at, began.at,
    began.at, coalesce(policy.version, 0)
  FROM given LEFT JOIN policy ON true
  CROSS JOIN LATERAL (SELECT least(
    CASE WHEN policy.from_occurred THEN given.occurred_at END, given.created_at, now()) AS at) AS began
  JOIN settled
    ON settled.external_id = given.external_id OR (given.external_id IS NULL AND settled.memory_id = given.memory_id)
  ORDER BY settled.memory_id
  ON CONFLICT (tenant_id, memory_id) DO UPDATE
  SET salience = coalesce(excluded.salience, known.salience),
    salience_source = coalesce(excluded.salience_source, known.salience_source),
    multiplier = CASE WHEN known.memory_id IN (SELECT memory_id FROM weighed) THEN excluded.multiplier
      ELSE known.multiplier END
  WHERE (excluded.salience IS NOT NULL AND excluded.salience IS DISTINCT FROM known.salience)
    OR (excluded.multiplier <> known.multiplier AND known.memory_id IN (SELECT memory_id FROM weighed))
)
SELECT memory_id, external_id, text_version, is_changed FROM settled
""")  # noqa: S608 - constants only


def as_json(row: NewMemory) -> dict[str, object]:
    """Convert a row to the JSON form that the upsert statement reads."""
    given = row.given
    fields = {name: getattr(given, name) for name in _DECLARED}
    # Converted to UTC, because PostgreSQL rejects UTC offsets of 16 hours or more.
    fields |= {name: value.astimezone(UTC) for name, value in fields.items() if isinstance(value, datetime)}
    return fields | {
        "memory_id": row.memory_id,
        "seq": row.seq,
        "written_by": row.written_by,
        "created_at": datetime.fromtimestamp(row.accepted_ms / 1000, UTC),
        "salience": _real(given.salience),
        "multiplier": _real(given.multiplier),
        "kind_number": None if given.kind is None else KINDS.index(given.kind),
    }


def _real(value: float | None) -> float | None:
    """Round a value for a `real` column; PostgreSQL rejects tiny values instead of storing 0."""
    return value and round(value, 40)
