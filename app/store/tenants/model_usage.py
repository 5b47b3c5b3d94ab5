"""Record model usage and cost: one row per tenant, UTC day, purpose, host and model. Numbers only, no content.

The table has no row-level security, because the limit on all tenants together needs a sum over them. Every statement
restricts the tenant, except those that sum over all tenants.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.policy.budget import DaySpending

_TODAY = "CAST(now() AT TIME ZONE 'UTC' AS date)"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One day's calls of one model for one purpose.

    Attributes:
        input_tokens: Tokens sent, including cached ones.
        memories: Memories that were rated or embedded.
        cache_hits: Memories that reused an identical memory's result, without a call.
        cost: Cost in money; None if any part of it is unknown, since a partial sum would look complete.
    """

    day: date
    purpose: str
    host: str
    model: str
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    memories: int
    cache_hits: int
    cost: float | None


def add(
    tx: Connection,
    tenant_id: UUID,
    *,
    purpose: str,
    host: str,
    model: str,
    counts: dict[str, int],
    cost: float | None,
) -> UsageRow:
    """Add to today's row. Return the updated row, locked until the transaction ends.

    Args:
        counts: Calls, tokens, memories and cache hits, by the field names of `UsageRow`.
        cost: None if unknown, which makes the cost of the whole row unknown.
    """
    values = {"tenant_id": tenant_id, "purpose": purpose, "host": host, "model": model, "cost": cost, **counts}
    return UsageRow(*tx.execute(_ADD, values).one())


COUNTED: Final = ("calls", "input_tokens", "cached_tokens", "output_tokens", "memories", "cache_hits")
_COLUMNS = f"day, purpose, host, model, {', '.join(COUNTED)}, cost"

_ADD = text(f"""
INSERT INTO usage (tenant_id, {_COLUMNS})
VALUES (:tenant_id, {_TODAY}, :purpose, :host, :model, {", ".join(f":{name}" for name in COUNTED)}, :cost)
ON CONFLICT (tenant_id, day, purpose, host, model) DO UPDATE SET
  {", ".join(f"{name} = usage.{name} + excluded.{name}" for name in (*COUNTED, "cost"))}
RETURNING {_COLUMNS}
""")  # noqa: S608 - constants


def set_cost(tx: Connection, tenant_id: UUID, row: UsageRow, cost: float) -> None:
    """Set a row's cost once it is known."""
    values = {"tenant_id": tenant_id, "cost": cost}
    for name in ("day", "purpose", "host", "model"):
        values[name] = getattr(row, name)
    tx.execute(_SET_COST, values)


_SET_COST = text("""
UPDATE usage SET cost = :cost
WHERE tenant_id = :tenant_id AND day = :day AND purpose = :purpose AND host = :host AND model = :model
""")


def read_today(tx: Connection, tenant_id: UUID, *, total: bool) -> tuple[date, DaySpending, DaySpending]:
    """Return the UTC day, the tenant's spending on it, and the spending of all tenants.

    Args:
        total: Compute the sum over all tenants; otherwise it is 0 and no other tenant's row is read.
    """
    day, *sums = tx.execute(_SPENT_TODAY, {"tenant_id": tenant_id, "total": total}).one()
    return day, DaySpending(*sums[:3]), DaySpending(*sums[3:])


_SUMS = """
  SELECT CAST(coalesce(sum(input_tokens + output_tokens), 0) AS bigint) AS tokens, coalesce(sum(cost), 0.0) AS cost,
    CAST(coalesce(sum(input_tokens + output_tokens) FILTER (WHERE cost IS NULL), 0) AS bigint) AS unpriced
  FROM usage WHERE day =
"""

_SPENT_TODAY = text(f"""
SELECT {_TODAY}, own.tokens, own.cost, own.unpriced, total.tokens, total.cost, total.unpriced
FROM ({_SUMS} {_TODAY} AND tenant_id = :tenant_id) AS own, ({_SUMS} {_TODAY} AND :total) AS total
""")  # noqa: S608 - constants


def list_between(tx: Connection, tenant_id: UUID, first: date, last: date) -> list[UsageRow]:
    """Return a tenant's rows between two days, both inclusive, in key order."""
    values = {"tenant_id": tenant_id, "first": first, "last": last}
    return [UsageRow(*row) for row in tx.execute(_BETWEEN, values)]


_BETWEEN = text(f"""
SELECT {_COLUMNS} FROM usage WHERE tenant_id = :tenant_id AND day BETWEEN :first AND :last
ORDER BY day, purpose, host, model
""")  # noqa: S608 - constants


def list_totals_between(tx: Connection, first: date, last: date) -> list[UsageRow]:
    """Return usage summed over all tenants, by day, purpose, host and model, without tenant ids."""
    return [UsageRow(*row) for row in tx.execute(_OF_ALL_BETWEEN, {"first": first, "last": last})]


_OF_ALL_BETWEEN = text(f"""
SELECT day, purpose, host, model, {", ".join(f"CAST(sum({name}) AS bigint)" for name in COUNTED)},
  CASE WHEN count(cost) = count(*) THEN sum(cost) END AS cost
FROM usage WHERE day BETWEEN :first AND :last
GROUP BY day, purpose, host, model ORDER BY day, purpose, host, model
""")  # noqa: S608 - constants
