"""Lanes, queues and task names, and how the service enqueues: by name, without importing the workers.

A message is only a nudge. It may be lost, doubled or late: what is to be done stands in the stream or in a row.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Final
from uuid import UUID

import structlog
from celery import Celery

from app.clients.redis.redis import NUDGE_PREFIX, PREFIX, redis_url
from app.clients.redis.stream import NUDGE_MILLISECONDS, client

INGEST: Final = "ingest"
EMBED: Final = "embed"
SCORE: Final = "score"
RIGHTS: Final = "rights"
MAINTAIN: Final = "maintain"

# Each lane is a worker process of its own, and each queue belongs to one lane: shared workers let ingest wait
# for seconds behind maintenance, and whoever wants to be erased behind a night.
LANES: Final[dict[str, tuple[str, ...]]] = {
    "ingest": (INGEST,),
    "embed": (EMBED,),
    "score": (SCORE,),
    "rights": (RIGHTS,),
    "maintain": (MAINTAIN,),
}

DRAIN: Final = "ingest.drain"
INDEX: Final = "ingest.index"
EMBED_MEMORIES: Final = "enrich.embed"
SCORE_MEMORIES: Final = "enrich.score"
RATE_MEMORIES: Final = "enrich.rate"
RIGHTS_TICK: Final = "rights.tick"
RIGHTS_JOB: Final = "rights.job"
TICK: Final = "maintain.tick"
FIGURES: Final = "maintain.figures"
JOB: Final = "maintain.job"

# Which queue carries which task.
TASKS: Final[dict[str, str]] = {
    DRAIN: INGEST,
    INDEX: INGEST,
    EMBED_MEMORIES: EMBED,
    SCORE_MEMORIES: SCORE,
    RATE_MEMORIES: SCORE,
    RIGHTS_TICK: RIGHTS,
    RIGHTS_JOB: RIGHTS,
    TICK: MAINTAIN,
    FIGURES: MAINTAIN,
    JOB: MAINTAIN,
}

# A nudge that nobody took for this long is worth nothing: beat sends another.
NUDGE_EXPIRES_SECONDS: Final = 30

log = structlog.get_logger(__name__)


def broker_options() -> dict[str, object]:
    """Celery's transport settings, shared by who sends and who receives."""
    return {
        "global_keyprefix": f"{PREFIX}celery:",
        # Longer than the longest task time limit; see workers/celery_app.py.
        "visibility_timeout": 3600,
        # Without these two, kombu looks for lost messages every 100 s.
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


def enqueue(task: str, argument: UUID | None = None, *, expires_seconds: float | None = NUDGE_EXPIRES_SECONDS) -> None:
    """Send a task by name to its queue. Blocks for a round trip: never call it on an event loop.

    Args:
        argument: An id, the only thing that a task may be told.
        expires_seconds: After this the message is dropped unread; None keeps it.

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


def nudge(task: str) -> None:
    """Send a task unless a nudge for it is on its way already. Never raises: beat nudges again in a moment."""
    try:
        if client().set(f"{NUDGE_PREFIX}{task}", "1", nx=True, px=NUDGE_MILLISECONDS):
            enqueue(task)
    except Exception as error:  # noqa: BLE001 - what is to be done stands in the stream or in a row
        log.warning("nudge_failed", task=task, error=type(error).__name__)


def wake(task: str) -> None:
    """Send a task whose flag is up already. Never raises: beat does the same in a moment."""
    try:
        enqueue(task)
    except Exception as error:  # noqa: BLE001 - what is to be done stands in the stream or in a row
        log.warning("nudge_failed", task=task, error=type(error).__name__)


def nudged(task: str) -> None:
    """Take the flag down, before the first look for work: what comes later sends a nudge of its own."""
    client().delete(f"{NUDGE_PREFIX}{task}")


class Nudger:
    """Sends nudges from a thread of its own, so that an event loop never waits for the broker.

    Nudges that come while one is being sent collapse into one.
    """

    def __init__(self, task: str) -> None:
        """Nudge this task's queue."""
        self._task = task
        self._wanted = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=f"nudge {task}", daemon=True)
        self._thread.start()

    def nudge(self) -> None:
        """Ask for a nudge and return at once."""
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
            wake(self._task)
