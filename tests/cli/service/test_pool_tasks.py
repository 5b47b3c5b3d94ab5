"""Tasks of Celery's process pool."""

from __future__ import annotations

from types import SimpleNamespace

from workers.pool import list_tasks


def test_a_pool_that_is_being_replaced_has_no_processes() -> None:
    assert list_tasks(SimpleNamespace(_pool=None)) == {}
