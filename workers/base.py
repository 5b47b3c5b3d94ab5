"""What every task has: its name and queue from `app.queues`, and a way to fail that loses nothing.

A failed task isn't retried by Celery: what it was to do still stands in the stream or in a row, and the next
nudge or beat's takes it up. So there is no message that can poison a worker, and no retry to count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from app import queues
from app.errors import NotReplayed
from app.services import health, ledger
from app.services.passing import is_passing
from workers.celery_app import celery

log = structlog.get_logger(__name__)


def task(name: str) -> Callable[[Callable[..., None]], Any]:
    """Register a function as the task of this name, which `app.queues.TASKS` must know.

    Infrastructure errors end the task with a warning; any other error is logged as one.
    """
    queue = queues.TASKS[name]

    def register(function: Callable[..., None]) -> Any:
        def run(*arguments: str) -> None:
            try:
                health.beat(queue)  # a busy lane lets its heartbeat tasks expire unread
                if name not in queues.HEARTBEATS.values():
                    ledger.check()
                function(*arguments)
            except NotReplayed as error:
                log.warning("task_waits", task=name, reason=error.detail)
            except Exception as error:  # noqa: BLE001 - logged; beat takes the work up again
                passing = is_passing(error)
                say = log.warning if passing else log.error
                say("task_failed", task=name, error=type(error).__name__, passing=passing, exc_info=error)

        run.__name__ = function.__name__
        run.__doc__ = function.__doc__
        return celery.task(name=name, queue=queue)(run)

    return register
