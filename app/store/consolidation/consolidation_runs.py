"""Record consolidation runs and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.core.paging import Latest, Page, Place

Trigger = Literal["night", "count", "quota", "hand"]


@dataclass(frozen=True, slots=True)
class ConsolidationRun:
    """A consolidation run with its progress.

    Attributes:
        looked_at: Number of new or changed memories.
        clusters: Number of groups that contain these memories.
        linked: Number of groups that were linked.
        merged: Number of memories merged into summaries.
        summaries: Number of summaries written, including refreshed ones.
        by_model: Number of summaries written by a model.
        waiting: Number of groups that await approval.
        characters_before: Total length of the summarised texts.
        characters_after: Total length of the summaries.
    """

    run_id: UUID
    started_by: Trigger
    level: str
    as_of: datetime
    started_at: datetime
    finished_at: datetime | None
    looked_at: int
    clusters: int
    linked: int
    merged: int
    summaries: int
    by_model: int
    waiting: int
    characters_before: int
    characters_after: int

    @property
    def reduction(self) -> float | None:
        """Share by which summarising shortened the texts; None if no text was summarised."""
        return 1 - self.characters_after / self.characters_before if self.characters_before else None


_NAMES: Final = [each.name for each in fields(ConsolidationRun)]
_COUNTS: Final = _NAMES[6:]


def start_run(tx: Connection, tenant_id: UUID, run_id: UUID, started_by: Trigger, level: str, as_of: datetime) -> UUID:
    """Insert a run, or resume an unfinished run with the same arguments. Return its id."""
    values = {"tenant": tenant_id, "run_id": run_id, "started_by": started_by, "level": level, "as_of": as_of}
    current_id: UUID = tx.execute(_BEGIN, values).scalar_one()
    return current_id


_BEGIN: Final = text("""
WITH left_off AS (
  SELECT run_id FROM consolidation_runs
  WHERE tenant_id = :tenant AND started_by = :started_by AND level = :level AND as_of = :as_of AND finished_at IS NULL
  LIMIT 1
), begun AS (
  INSERT INTO consolidation_runs (tenant_id, run_id, started_by, level, as_of)
  SELECT :tenant, :run_id, :started_by, :level, :as_of WHERE NOT EXISTS (SELECT FROM left_off)
  RETURNING run_id
)
SELECT run_id FROM left_off UNION ALL SELECT run_id FROM begun
""")


def has_recent_by_size(tx: Connection, tenant_id: UUID, as_of: datetime) -> bool:
    """Return whether, in the day before `as_of`, a run started because of the tenant's size."""
    return bool(tx.execute(_RECENT, {"tenant": tenant_id, "as_of": as_of}).scalar_one())


_RECENT: Final = text("""
SELECT EXISTS (
  SELECT FROM consolidation_runs
  WHERE tenant_id = :tenant AND started_by IN ('count', 'quota')
    AND started_at > CAST(:as_of AS timestamptz) - interval '1 day'
)
""")


def count(tx: Connection, tenant_id: UUID, run_id: UUID, counts: Mapping[str, int]) -> None:
    """Add to a run's counts."""
    added = {name: counts[name] for name in _COUNTS if counts.get(name)}
    if added:
        assignments = ", ".join(f"{name} = {name} + :{name}" for name in added)
        statement = f"UPDATE consolidation_runs SET {assignments} WHERE tenant_id = :tenant AND run_id = :run_id"  # noqa: S608
        tx.execute(text(statement), {**added, "tenant": tenant_id, "run_id": run_id})


def finish_run(tx: Connection, tenant_id: UUID, run_id: UUID) -> None:
    """Mark a run as finished."""
    tx.execute(_FINISH, {"tenant": tenant_id, "run_id": run_id})


_FINISH: Final = text("""
UPDATE consolidation_runs SET finished_at = clock_timestamp()
WHERE tenant_id = :tenant AND run_id = :run_id AND finished_at IS NULL
""")


def list_runs(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[ConsolidationRun]:
    """Return a page of runs, newest first."""
    return _PAGES.read(tx, lambda row: ConsolidationRun(*row), older_than, limit, tenant=tenant_id)


_PAGES: Final = Latest(f"""
SELECT {", ".join(_NAMES)} FROM consolidation_runs WHERE tenant_id = :tenant
ORDER BY started_at DESC, run_id""")  # noqa: S608 - constants only
