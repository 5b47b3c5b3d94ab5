"""Job kinds that a test adds or replaces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.domain.jobs import Job, Step
from app.services.jobs import jobs, runner


def set_kind(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    step: Callable[[Job], Step],
    cancelled: Callable[[Job], None] | None = None,
    *,
    in_rights: bool = False,
) -> None:
    """Register a job kind with these functions for this test; in the lane `rights` if `in_rights`."""
    monkeypatch.setitem(runner.KINDS, name, runner.Kind(step, cancelled))
    monkeypatch.setattr(jobs, "KINDS", jobs.KINDS | {name})
    others = jobs.RIGHTS_KINDS - {name}
    monkeypatch.setattr(jobs, "RIGHTS_KINDS", others | {name} if in_rights else others)
