"""Lanes, queues and task names; enqueue tasks by name without importing the workers.

Messages are only nudges: they may be lost, duplicated or late, because the work itself is stored in the stream or in
the database.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Final
from uuid import UUID

import structlog
from celery import Celery

from app.clients.redis.connection import NUDGE_PREFIX, PREFIX, redis_url
from app.clients.redis.stream import NUDGE_SECONDS, client
from app.lanes import EMBED, INGEST, LANES, MAINTAIN, RIGHTS, SCORE

__all__ = [
    "DRAIN",
    "EMBED",
    "EMBED_MEMORIES",
    "FIGURES",
    "GROWTH",
    "INDEX",
    "INGEST",
    "JOB",
    "LANES",
    "MAINTAIN",
    "RATE_MEMORIES",
    "RIGHTS",
    "RIGHTS_JOB",
    "RIGHTS_TICK",
    "SCORE",
    "SCORE_MEMORIES",
    "TASKS",
    "TICK",
    "WEBHOOKS",
    "Nudger",
    "broker_options",
    "clear_nudge",
    "enqueue",
    "nudge",
    "send_nudge",
]

DRAIN: Final = "ingest.drain"
INDEX: Final = "ingest.index"
EMBED_MEMORIES: Final = "enrich.embed"
SCORE_MEMORIES: Final = "enrich.score"
RATE_MEMORIES: Final = "enrich.rate"
RIGHTS_TICK: Final = "rights.tick"
RIGHTS_JOB: Final = "rights.job"
TICK: Final = "maintain.tick"
FIGURES: Final = "maintain.figures"
GROWTH: Final = "maintain.growth"
JOB: Final = "maintain.job"
WEBHOOKS: Final = "score.webhooks"

# Queue of each task.
TASKS: Final[dict[str, str]] = {
    DRAIN: INGEST,
    INDEX: INGEST,
    EMBED_MEMORIES: EMBED,
    SCORE_MEMORIES: SCORE,
    RATE_MEMORIES: SCORE,
    WEBHOOKS: SCORE,
    RIGHTS_TICK: RIGHTS,
    RIGHTS_JOB: RIGHTS,
    TICK: MAINTAIN,
    FIGURES: MAINTAIN,
    GROWTH: MAINTAIN,
    JOB: MAINTAIN,
}

log = structlog.get_logger(__name__)


def broker_options() -> dict[str, object]:
    """Return Celery's transport options, shared by senders and workers."""
    return {
        "global_keyprefix": f"{PREFIX}celery:",
        # Longer than the longest task time limit; see workers/celery_app.py.
        "visibility_timeout": 3600,
        # By default, kombu restores lost messages only every 100 s.
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_timeout": 10,
        "socket_connect_timeout": 2,
    }


@cache
def _sender() -> Celery:
    sender = Celery("ebbing", broker=redis_url(), set_as_current=False)
    sender.conf.update(
        broker_transport_options=broker_options(),
        task_serializer="json",
        accept_content=["json"],
        task_ignore_result=True,
        broker_connection_retry=False,
    )
    return sender


def enqueue(task: str, argument: UUID | None = None, *, expires_seconds: float | None = NUDGE_SECONDS) -> None:
    """Send a task by name to its queue. Blocks for a round trip: never call it on an event loop.

    Args:
        argument: An id; tasks take no other arguments.
        expires_seconds: Expiry of the message; None for no expiry.

    Raises:
        kombu.exceptions.OperationalError: The broker can't be reached.
    """
    _sender().send_task(
        task,
        args=[str(argument)] if argument is not None else [],
        queue=TASKS[task],
        expires=expires_seconds,
        retry=False,
    )


def nudge(task: str) -> bool:
    """Send a task unless a nudge for it is pending: one that no worker has claimed yet.

    Failures are logged, not raised: beat nudges again soon.

    Returns:
        Whether a nudge was pending already.
    """
    try:
        if not _set_flag(f"{NUDGE_PREFIX}{task}"):
            return True
        enqueue(task)
    except Exception as error:  # noqa: BLE001 - the work itself is stored in the stream or the database
        log.warning("nudge_failed", task=task, error=type(error).__name__)
    return False


def _set_flag(flag: str) -> bool:
    """Set a nudge flag; return false if a nudge is pending.

    A flag that was set while Redis's clock was ahead lasts until that time: for hours, nobody would be nudged.
    """
    if client().set(flag, "1", nx=True, ex=NUDGE_SECONDS):
        return True
    is_overlong = client().pttl(flag) > NUDGE_SECONDS * 1000
    return is_overlong and bool(client().set(flag, "1", ex=NUDGE_SECONDS))


def send_nudge(task: str) -> None:
    """Send a task whose nudge flag is already set. Failures are logged, not raised: beat nudges again soon."""
    try:
        enqueue(task)
    except Exception as error:  # noqa: BLE001 - the work itself is stored in the stream or the database
        log.warning("nudge_failed", task=task, error=type(error).__name__)


def clear_nudge(task: str) -> bool:
    """Clear the nudge flag. Call it before looking for work, so that later work sends a new nudge.

    Returns:
        Whether a nudge was pending.
    """
    return bool(client().delete(f"{NUDGE_PREFIX}{task}"))


class Nudger:
    """Background thread that sends nudges, so that an event loop never waits for the broker.

    Nudges requested during a send are combined into one.
    """

    def __init__(self, task: str) -> None:
        """Start the thread for a task."""
        self._task = task
        self._wanted = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"nudge {task}", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Request a nudge without blocking."""
        self._wanted.set()

    def close(self) -> None:
        """Stop the thread."""
        self._closed = True
        self._wanted.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            if self._closed:
                return
            send_nudge(self._task)
