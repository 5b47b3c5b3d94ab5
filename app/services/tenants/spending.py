"""Sum up model costs for a dashboard page, by day and by purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, TypeVar
from uuid import UUID

from app.services.tenants import budget
from app.services.tenants.budget import Report
from app.store.core import database
from app.store.tenants import usage
from app.store.tenants.usage import Row

K = TypeVar("K")

DAYS: Final = 30


@dataclass(slots=True)
class Sum:
    """The total of several rows.

    Attributes:
        input_tokens: Includes cached tokens.
        cache_hits: Memories that reused an equal memory's result without a call.
        cost: In money; None if any part of it is unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    memories: int = 0
    cache_hits: int = 0
    cost: float | None = 0.0

    def add(self, row: Row) -> None:
        """Add a row."""
        self.calls += row.calls
        self.input_tokens += row.input_tokens
        self.cached_tokens += row.cached_tokens
        self.output_tokens += row.output_tokens
        self.memories += row.memories
        self.cache_hits += row.cache_hits
        self.cost = None if self.cost is None or row.cost is None else self.cost + row.cost

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Spending:
    """The spending of the last `DAYS` days.

    Attributes:
        days: Every day, including days without spending; today is the last.
        purposes: By purpose, host and model, most tokens first.
        whole: The total.
        report: The tenant's budget today.
    """

    days: list[tuple[date, Sum]]
    purposes: list[tuple[tuple[str, str, str], Sum]]
    whole: Sum
    report: Report

    @property
    def today(self) -> Sum:
        """Today's spending."""
        return self.days[-1][1]


def report(tenant_id: UUID, *, every: bool = False) -> Spending:
    """Return the model costs of the last `DAYS` days.

    Args:
        tenant_id: The tenant whose budget is shown.
        every: Sum up the spending of all tenants instead of this tenant's.
    """
    with database.shared() as tx:
        today, _, _ = usage.spent_today(tx, tenant_id, total=False)
    first = today - timedelta(days=DAYS - 1)
    report = budget.report(tenant_id, first, today)
    rows = report.rows
    if every:
        with database.shared() as tx:
            rows = usage.of_all_between(tx, first, today)
    by_day = _summed(rows, lambda row: row.day)
    by_purpose = _summed(rows, lambda row: (row.purpose, row.host, row.model))
    days = [first + timedelta(days=place) for place in range(DAYS)]
    return Spending(
        [(day, by_day.get(day, Sum())) for day in days],
        sorted(by_purpose.items(), key=lambda each: (-each[1].tokens, each[0])),
        _summed(rows, lambda _: None).get(None, Sum()),
        report,
    )


def _summed(rows: Iterable[Row], key: Callable[[Row], K]) -> dict[K, Sum]:
    found: dict[K, Sum] = {}
    for row in rows:
        found.setdefault(key(row), Sum()).add(row)
    return found
