"""Register tasks with the names and queues of `app.queues`, and handle their failures without losing work.

Celery doesn't retry failed tasks: the pending work is still recorded in the stream or in a row, and the next nudge or
beat entry processes it. So no message can repeatedly kill a worker, and no retries need counting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import structlog
from celery import current_task

from app import memory_release, metrics, queues
from app.errors import NotReplayed
from app.services.erasure import ledger
from app.services.monitoring import pool_usage
from app.services.transient_errors import is_transient
from app.store.core import database
from workers.celery_app import celery

WORKED_SECONDS: Final = 0.1
"""Duration above which a task releases unused memory when it ends; the release takes a few milliseconds."""
WORKED_LONG_SECONDS: Final = 2.0
"""Duration from which a task's connections are closed, too. Opening one again takes some 50 milliseconds."""

log = structlog.get_logger(__name__)


def task(name: str) -> Callable[[Callable[..., None]], Any]:
    """Register a function as the task of this name, which must be listed in `app.queues.TASKS`.

    Infrastructure errors end the task with a warning; other errors are logged as errors.
    """
    queue = queues.TASKS[name]
    lane = metrics.LANE_OF_TASK[name]

    def register(function: Callable[..., None]) -> Any:
        def run(*arguments: str) -> None:
            began = time.monotonic()
            _begin(name, lane)
            with metrics.buffer_counts():
                outcome = "failed"  # remains if the task raises something other than an `Exception`
                try:
                    outcome = _done(name, function, arguments)
                finally:
                    metrics.count("tasks", task=name, lane=lane, outcome=outcome)
                    metrics.observe_duration("task_seconds", time.monotonic() - began, task=name, lane=lane)
            pool_usage.publish_pool_usage(lane)
            took = time.monotonic() - began
            if took > WORKED_LONG_SECONDS:
                database.close_idle()
            if took > WORKED_SECONDS:
                memory_release.release_unused()

        run.__name__ = function.__name__
        run.__doc__ = function.__doc__
        return celery.task(name=name, queue=queue)(run)

    return register


def _begin(name: str, lane: str) -> None:
    """Count a task before it runs, so that a task whose worker is killed is counted, too."""
    with metrics.buffer_counts():
        metrics.count("tasks_started", task=name, lane=lane)
        if (current_task.request.delivery_info or {}).get("redelivered"):
            metrics.count("tasks_retried", task=name, lane=lane)


def _done(name: str, function: Callable[..., None], arguments: tuple[str, ...]) -> str:
    """Run a task and return its outcome."""
    try:
        ledger.check()
        function(*arguments)
    except NotReplayed as error:
        log.warning("task_waits", task=name, reason=error.detail)
        return "put_off"
    except Exception as error:  # noqa: BLE001 - logged; beat triggers the work again
        passing = is_transient(error)
        say = log.warning if passing else log.error
        say("task_failed", task=name, error=type(error).__name__, passing=passing, exc_info=error)
        return "put_off" if passing else "failed"
    return "succeeded"
