"""Sum up model costs for a dashboard page, by day and by purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final, TypeVar
from uuid import UUID

from app.services.tenants import budget
from app.services.tenants.budget import CostReport
from app.store.core import database
from app.store.tenants import model_usage
from app.store.tenants.model_usage import UsageRow

K = TypeVar("K")

DAYS: Final = 30


@dataclass(slots=True)
class UsageSum:
    """The total of several rows.

    Attributes:
        input_tokens: Includes cached tokens.
        cache_hits: Number of memories that reused an identical memory's result, without a call.
        cost: In the currency of the prices; None if the cost of any part is unknown.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    memories: int = 0
    cache_hits: int = 0
    cost: float | None = 0.0

    def add(self, row: UsageRow) -> None:
        """Add a row."""
        for name in model_usage.COUNTED:
            setattr(self, name, getattr(self, name) + getattr(row, name))
        self.cost = None if self.cost is None or row.cost is None else self.cost + row.cost

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class UsageReport:
    """The spending of the last `DAYS` days.

    Attributes:
        days: Spending on each day, including days without spending; the last day is today.
        purposes: Spending by purpose, host and model, most tokens first.
        whole: The total.
        report: The tenant's cost report, with today's budget state.
    """

    days: list[tuple[date, UsageSum]]
    purposes: list[tuple[tuple[str, str, str], UsageSum]]
    whole: UsageSum
    report: CostReport

    @property
    def today(self) -> UsageSum:
        """Today's spending."""
        return self.days[-1][1]


def report_usage(tenant_id: UUID, *, every: bool = False) -> UsageReport:
    """Return the model costs of the last `DAYS` days.

    Args:
        tenant_id: The tenant whose budget is shown.
        every: Sum up the spending of all tenants instead of this tenant's.
    """
    with database.shared() as tx:
        today, _, _ = model_usage.read_today(tx, tenant_id, total=False)
    first = today - timedelta(days=DAYS - 1)
    report = budget.report_costs(tenant_id, first, today)
    rows = report.rows
    if every:
        with database.shared() as tx:
            rows = model_usage.list_totals_between(tx, first, today)
    by_day = _sum_rows(rows, lambda row: row.day)
    by_purpose = _sum_rows(rows, lambda row: (row.purpose, row.host, row.model))
    days = [first + timedelta(days=offset) for offset in range(DAYS)]
    return UsageReport(
        [(day, by_day.get(day, UsageSum())) for day in days],
        sorted(by_purpose.items(), key=lambda each: (-each[1].tokens, each[0])),
        _sum_rows(rows, lambda _: None).get(None, UsageSum()),
        report,
    )


def _sum_rows(rows: Iterable[UsageRow], key: Callable[[UsageRow], K]) -> dict[K, UsageSum]:
    sums: dict[K, UsageSum] = {}
    for row in rows:
        sums.setdefault(key(row), UsageSum()).add(row)
    return sums
