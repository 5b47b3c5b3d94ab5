"""Numbers of several tenants side by side: none of their text, and one statement for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.policy.budget import Spent


@dataclass(frozen=True, slots=True)
class Numbers:
    """A tenant's.

    Attributes:
        dead_letters: That wait for a person; 10,000 at most.
        quota_bytes: What its texts and vectors may take up; None for any.
        quota_near: Share of that from which on it is nearly used up; None where it has no policy.
        dimensions: Of the vectors that it is searched by; 0 before the first.
        budget_tokens: Its own limit of a day; None for none.
        budget_cost: The same of money.
        spent: On models, today.
        enriching: Memories that wait for a stage after being stored.
        enriching_seconds: Since the oldest of them came to it; None where none waits.
        night: How its last night stands: a word, or None where there was none.
        night_date: Of that night.
        night_failed: Steps of it that failed.
        night_late_seconds: Since its next night was due, where it hasn't begun; None where it isn't overdue, or rests.
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
    spent: Spent
    enriching: int
    enriching_seconds: float | None
    night: str | None
    night_date: date | None
    night_failed: int
    night_late_seconds: float | None


def numbers(tx: Connection, tenant_ids: Sequence[UUID], task: str) -> list[Numbers]:
    """The numbers of these tenants, in their order; without those that aren't there.

    Args:
        tx: Any transaction of the service's role.
        tenant_ids: Some tens of them.
        task: The schedule whose last run is told.
    """
    if not tenant_ids:
        return []
    found = tx.execute(_NUMBERS, {"ids": list(tenant_ids), "task": task})
    return [_read(row) for row in found]


def _read(row: Any) -> Numbers:
    plain = {name: getattr(row, name) for name in Numbers.__slots__ if name != "spent"}
    return Numbers(**plain, spent=Spent(row.spent_tokens, row.spent_cost, row.unpriced_tokens))


_NUMBERS: Final = text("""
SELECT tenants.tenant_id, tenants.name, coalesce(space.dimensions, 0) AS dimensions, abreast.*, spent.*, enriched.*,
  last.*, due.*
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
  FROM schedules WHERE schedules.tenant_id = abreast.tenant AND task = :task AND NOT paused AND next_run_at < now()
) AS due ON true
ORDER BY abreast.ordinality
""")


def enriching_longest(tx: Connection, limit: int) -> list[UUID]:
    """The tenants whose memories wait longest for a stage after being stored."""
    return list(tx.execute(_ENRICHING, {"limit": limit}).scalars())


_ENRICHING: Final = text("""
SELECT tenant_id FROM tenant_work GROUP BY tenant_id ORDER BY min(created_at), tenant_id LIMIT :limit
""")


def called(tx: Connection, words: str, limit: int, *, but: Sequence[UUID] = ()) -> list[UUID]:
    """Tenants whose name has these words in it, in whatever case, by name; but simulated ones, and those given."""
    values = {"words": words, "limit": limit, "but": list(but)}
    return list(tx.execute(_CALLED, values).scalars())


_CALLED: Final = text("""
SELECT tenant_id FROM tenants
WHERE NOT simulated AND strpos(lower(name), lower(:words)) > 0 AND tenant_id <> ALL (CAST(:but AS uuid[]))
ORDER BY name LIMIT :limit
""")
