"""Read the key figures of several tenants in one statement, without any of their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.policy.budget import DaySpending


@dataclass(frozen=True, slots=True)
class Numbers:
    """Key figures of a tenant.

    Attributes:
        dead_letters: Dead letters that await a decision; capped at 10,000.
        quota_bytes: Storage quota for texts and vectors; None for unlimited.
        quota_near: Share of the quota above which it counts as nearly exhausted; None without a policy.
        dimensions: Dimensions of the vectors used for search; 0 before the first.
        budget_tokens: The tenant's own daily token limit; None for none.
        budget_cost: The tenant's own daily cost limit; None for none.
        spent: Today's spending on models.
        enriching: Stored memories that await an enrichment stage.
        enriching_seconds: Waiting time of the oldest of these memories; None if there are none.
        night: Status of the last nightly run, or None if there was none.
        night_date: Date of the last nightly run.
        night_failed: Number of failed steps of that run.
        night_late_seconds: Seconds that the next run is overdue; None if it isn't overdue or the schedule is paused.
        deletion_id: The erasure that deletes the tenant; None while the tenant is in use.
        delete_after: End of the deletion's grace period.
        deleted_at: Time at which the deletion was finished.
    """

    tenant_id: UUID
    name: str
    active: int
    archived: int
    cold: int
    text_bytes: int
    dead_letters: int
    quota_bytes: int | None
    quota_near: float | None
    dimensions: int
    budget_tokens: int | None
    budget_cost: float | None
    spent: DaySpending
    enriching: int
    enriching_seconds: float | None
    night: str | None
    night_date: date | None
    night_failed: int
    night_late_seconds: float | None
    deletion_id: UUID | None
    delete_after: datetime | None
    deleted_at: datetime | None


def numbers(tx: Connection, tenant_ids: Sequence[UUID], task: str) -> list[Numbers]:
    """Return the figures of these tenants, in their order; unknown tenants are omitted.

    Args:
        tx: Any transaction of the service's role.
        tenant_ids: At most a few dozen.
        task: The schedule whose last run is reported.
    """
    if not tenant_ids:
        return []
    rows = tx.execute(_NUMBERS, {"ids": list(tenant_ids), "task": task})
    return [_read(row) for row in rows]


def _read(row: Any) -> Numbers:
    plain = {name: getattr(row, name) for name in Numbers.__slots__ if name != "spent"}
    return Numbers(**plain, spent=DaySpending(row.spent_tokens, row.spent_cost, row.unpriced_tokens))


_NUMBERS: Final = text("""
SELECT tenants.tenant_id, tenants.name, tenants.deletion_id, tenants.delete_after, tenants.deleted_at,
  coalesce(space.dimensions, 0) AS dimensions, abreast.*, spent.*, enriched.*, last.*, due.*
FROM tenants_abreast(CAST(:ids AS uuid[])) WITH ORDINALITY AS abreast
JOIN tenants ON tenants.tenant_id = abreast.tenant
LEFT JOIN tenant_spaces ON tenant_spaces.tenant_id = abreast.tenant
LEFT JOIN embedding_spaces AS space ON space.space_id = tenant_spaces.space_id
CROSS JOIN LATERAL (
  SELECT CAST(coalesce(sum(input_tokens + output_tokens), 0) AS bigint) AS spent_tokens,
    coalesce(sum(cost), 0.0) AS spent_cost,
    CAST(coalesce(sum(input_tokens + output_tokens) FILTER (WHERE cost IS NULL), 0) AS bigint) AS unpriced_tokens
  FROM usage WHERE usage.tenant_id = abreast.tenant AND day = CAST(now() AT TIME ZONE 'UTC' AS date)
) AS spent
CROSS JOIN LATERAL (
  SELECT CAST(coalesce(sum(cardinality(memory_ids)), 0) AS bigint) AS enriching,
    CAST(CASE WHEN count(*) > 0 THEN greatest(extract(epoch FROM now() - min(created_at)), 0) END AS float8)
      AS enriching_seconds
  FROM tenant_work WHERE tenant_work.tenant_id = abreast.tenant AND stage IN ('index', 'embed', 'score')
) AS enriched
LEFT JOIN LATERAL (
  SELECT CASE WHEN run.skipped IS NOT NULL THEN 'skipped'
      WHEN job.status = 'done' AND job.state->>'cut_short' IS NOT NULL THEN 'cut_short'
      ELSE coalesce(job.status, 'done') END AS night,
    run.local_date AS night_date,
    (SELECT count(*) FROM jsonb_object_keys(coalesce(job.state->'failed', '{}'))) AS night_failed
  FROM runs AS run LEFT JOIN jobs AS job ON job.job_id = run.job_id
  WHERE run.tenant_id = abreast.tenant AND run.task = :task ORDER BY run.scheduled_for DESC, run.run_id LIMIT 1
) AS last ON true
LEFT JOIN LATERAL (
  SELECT CAST(extract(epoch FROM now() - next_run_at) AS float8) AS night_late_seconds
  FROM schedules
  WHERE schedules.tenant_id = abreast.tenant AND task = :task AND NOT paused AND next_run_at < now()
    AND tenants.deletion_id IS NULL
) AS due ON true
ORDER BY abreast.ordinality
""")


def enriching_longest(tx: Connection, limit: int) -> list[UUID]:
    """Return the tenants with the oldest enrichment backlog, oldest first."""
    return list(tx.execute(_ENRICHING, {"limit": limit}).scalars())


_ENRICHING: Final = text("""
SELECT tenant_id FROM tenant_work GROUP BY tenant_id ORDER BY min(created_at), tenant_id LIMIT :limit
""")


def search_by_name(tx: Connection, words: str, limit: int, *, but: Sequence[UUID] = ()) -> list[UUID]:
    """Return the ids of tenants whose name contains `words`, ignoring case, sorted by name.

    Simulated tenants and those in `but` are omitted.
    """
    values = {"words": words, "limit": limit, "but": list(but)}
    return list(tx.execute(_CALLED, values).scalars())


_CALLED: Final = text("""
SELECT tenant_id FROM tenants
WHERE NOT simulated AND strpos(lower(name), lower(:words)) > 0 AND tenant_id <> ALL (CAST(:but AS uuid[]))
ORDER BY name LIMIT :limit
""")
