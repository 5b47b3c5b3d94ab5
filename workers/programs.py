"""Run a lane's worker or beat in this process, as Celery's command line would, which takes longer to import."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NoReturn

import structlog
from celery import signals
from celery.apps import worker as celery_worker
from celery.utils.nodenames import default_nodename, host_format

from app import heartbeats, logs
from app.lanes import MAINTAIN, RIGHTS
from workers.celery_app import celery, read_settings, record_stop

LOG_LEVEL: Final = "WARNING"
REPLACED_LANES: Final = (MAINTAIN, RIGHTS)
"""Lanes with rare, large tasks. Their pool processes are replaced by new forks once they have grown."""
GROWTH_KIB: Final = 48 << 10
"""Growth above which a pool process is replaced: far more than a tick needs, so few tasks cause a replacement."""

log = structlog.get_logger(__name__)
_shutdowns: list[str] = []
"""The kinds of shutdown that signals have requested, `cold` or `warm`."""


def silence_celery() -> None:
    """Let Celery print nothing when it stops: its lines aren't JSON, and advise to press Ctrl+C again."""
    celery_worker.safe_say = lambda *_: None


@signals.worker_shutting_down.connect
def _note_shutdown(how: str, **_: Any) -> None:
    _shutdowns.append(how.lower())  # not logged here: a signal may have interrupted the writing of another line


def run_worker(lane: str, queues: Sequence[str], processes: int) -> NoReturn:
    """Process these queues until a signal stops the worker, then exit."""
    logs.configure("worker")  # before Celery's own warnings
    celery.conf.update(read_settings())  # a preloaded parent may have configured Celery by its own settings
    worker = celery.Worker(
        hostname=host_format(default_nodename(f"{lane}@%h")),
        queues=list(queues),
        concurrency=processes,
        pool="prefork",
        loglevel=LOG_LEVEL,
        quiet=True,
        max_memory_per_child=_memory_limit(lane),
        without_gossip=True,
        without_mingle=True,
    )
    silence_celery()
    worker.start()
    log.info("worker_stopped", lane=lane, pid=os.getpid(), how=_shutdowns[0] if _shutdowns else "by itself")
    if not worker.exitcode:  # otherwise an error has ended it
        record_stop()
    sys.exit(worker.exitcode)


def _memory_limit(lane: str) -> int | None:
    """Return the memory in KiB above which a pool process is replaced after its task; None for no limit."""
    if lane not in REPLACED_LANES or sys.platform != "linux":
        return None
    celery.loader.import_default_modules()  # the pool processes begin with what this process has loaded
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + GROWTH_KIB


def run_beat() -> NoReturn:
    """Send the periodic tasks until a signal stops beat, then exit."""
    logs.configure("beat")
    celery.conf.update(read_settings())
    celery.conf.include = ()  # beat only needs the task names; importing the tasks takes a second and some 30 MB
    # No schedule file: due times are stored in PostgreSQL, and triggers are only seconds apart.
    start = heartbeats.record_start(heartbeats.BEAT)
    log.info("beat_started", pid=os.getpid())
    with suppress(SystemExit):  # raised by Celery's handler of stop signals
        celery.Beat(scheduler_cls="celery.beat:Scheduler", loglevel=LOG_LEVEL, quiet=True).run()
    heartbeats.record_stop(start)
    log.info("beat_stopped", pid=os.getpid())
    sys.exit(0)
