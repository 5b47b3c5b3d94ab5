"""Job kinds that a test adds or replaces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.domain.jobs import KINDS, RIGHTS_KINDS, Job, Step
from app.services.jobs import runner


def set_kind(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    step: Callable[[Job], Step],
    cancelled: Callable[[Job], None] | None = None,
    *,
    in_rights: bool = False,
) -> None:
    """Register a job kind with these functions for this test; in the lane `rights` if `in_rights`."""
    monkeypatch.setitem(runner.KINDS, name, runner.JobKind(step, cancelled))
    monkeypatch.setitem(KINDS, name, ())
    if in_rights:
        monkeypatch.setitem(RIGHTS_KINDS, name, ())
    else:
        monkeypatch.delitem(RIGHTS_KINDS, name, raising=False)
