"""Every name in the schedule can be run: a wrong one would stop the tick for all tenants."""

from __future__ import annotations

import pytest

from app.services.jobs.runner import KINDS
from app.services.jobs.schedule import DEFAULT_SCHEDULE


@pytest.mark.parametrize("task", DEFAULT_SCHEDULE)
def test_every_row_names_a_kind_of_job(task: str) -> None:
    assert task in KINDS
