"""The default schedule can be read: one wrong line would stop the tick for every tenant."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.services.cron import next_time
from app.services.schedule import Row
from workers.schedule import DEFAULT_SCHEDULE


@pytest.mark.parametrize("row", DEFAULT_SCHEDULE, ids=lambda row: row.task)
def test_every_row_names_a_time_to_come(row: Row) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    following = next_time(row.cron, "Europe/Berlin", now)
    assert following is not None
    assert following > now
    assert row.grace_seconds > 0
