"""The Celery application: how tasks are received, acknowledged and limited."""

from __future__ import annotations

import gc
import os
import time
from typing import Any, Final

import structlog
from celery import Celery, signals
from kombu.entity import Exchange, Queue

from app import heartbeats, logs, queues, tracing
from app.clients.redis import stream
from app.clients.redis.connection import redis_url
from app.errors import Misconfigured
from app.secret_settings import warn_of_exposed
from app.services.ingest import witness
from app.settings import Settings, settings
from workers import pool, stop_signals
from workers.schedule import beat_entries

# Far below the broker's visibility timeout (an hour), after which a task still running would be started again.
TIME_LIMIT_SECONDS: Final = 300

log = structlog.get_logger(__name__)
celery = Celery("ebbing", include=["workers.tasks"])
celery.conf.update(
    accept_content=["json"],
    result_accept_content=["json"],
    event_serializer="json",
    task_serializer="json",
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_time_limit=TIME_LIMIT_SECONDS,
    task_soft_time_limit=TIME_LIMIT_SECONDS - 30,
    # One exchange per queue: with a shared exchange, each message would be delivered to every queue bound to it.
    task_queues=[
        Queue(name, Exchange(name, type="direct"), routing_key=name) for lane in queues.LANES.values() for name in lane
    ],
    task_create_missing_queues=False,
    task_default_queue=queues.MAINTAIN,
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    worker_enable_soft_shutdown_on_idle=False,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    # Otherwise a worker ends if Redis is full when it receives a message, because it can't record the delivery.
    broker_channel_error_retry=True,
    broker_transport="workers.broker:Transport",
    broker_transport_options=queues.broker_options(),
    beat_schedule=beat_entries(),
    timezone="UTC",
)


def read_settings() -> dict[str, object]:
    """Return the configuration that depends on settings; Celery calls this function only when it needs a value."""
    return {"broker_url": redis_url(), "worker_soft_shutdown_timeout": settings().shutdown_seconds}


celery.add_defaults(read_settings)


@signals.worker_init.connect
def _check(**_: Any) -> None:
    from app.services.monitoring import probes  # noqa: PLC0415 - lazy, like database below, to save beat 40 MB
    from app.services.security import master_keys  # noqa: PLC0415 - lazy, like database below, to save beat 40 MB
    from app.services.strength import dynamics_plugins  # noqa: PLC0415 - lazy, like database below, to save beat 40 MB
    from app.services.tenants import budget  # noqa: PLC0415 - lazy, like database below, to save beat 40 MB

    logs.configure("worker")
    witness.guard_connections()
    try:
        probes.check_redis()
        master_keys.check_at_start()
        dynamics_plugins.check_plugins()
        tracing.check_packages()
    except Misconfigured:
        raise SystemExit(1) from None  # Celery's signals swallow other exceptions
    warn_of_exposed(Settings)
    budget.log_warnings()
    gc.collect()
    gc.freeze()  # a collection in a pool process would otherwise copy every page with an object of this process


_starts: list[str] = []
"""Ids of this worker's start, one per lane."""


def record_stop() -> None:
    """Record that this worker stops as requested."""
    for start in _starts:
        heartbeats.record_stop(start)


@signals.worker_ready.connect
def _say_so(sender: Any, **_: Any) -> None:
    """Send heartbeats from now on, even while a task occupies the lane, and watch the pool processes.

    From now on, a stop signal also waits until the task that is being written to a pool process is written.
    """
    from app.services.monitoring.stuck_processes import PoolWatch  # noqa: PLC0415 - lazy, as above
    from app.store.core import database  # noqa: PLC0415 - lazy, as above

    watches = {lane: PoolWatch(lane) for lane in sender.app.amqp.queues.consume_from}

    def beat() -> None:
        for lane in watches:  # first: an error while reading the internals of Celery's pool must not prevent it
            heartbeats.record_heartbeat(lane)
        tasks = pool.list_tasks(sender.pool)
        for watch in watches.values():
            watch.publish(watch.observe(tasks, time.monotonic()))

    if sender.hub is not None:
        stop_signals.defer_while_writing(sender.hub.call_soon)
    # Celery's loop sends the first heartbeat, to keep this function short: a stop signal before the loop's start causes
    # an error.
    sender.timer.call_after(0, beat)
    sender.timer.call_after(0, lambda: log.info("worker_started", lanes=list(watches), pid=os.getpid()))
    sender.timer.call_after(0, lambda: _starts.extend(map(heartbeats.record_start, watches)))
    sender.timer.call_repeatedly(heartbeats.EVERY_SECONDS, beat)
    # Reading Redis's mark has opened a database connection; from now on, only the pool processes need connections. The
    # loop closes it later, also to keep this function short.
    sender.timer.call_after(heartbeats.EVERY_SECONDS, database.close)


@signals.beat_init.connect
def _say_that_beat_lives(**_: Any) -> None:
    """Send beat's heartbeats when it publishes tasks, since its nudges are a second apart."""
    said_at = -heartbeats.EVERY_SECONDS

    def beat(**_: Any) -> None:
        nonlocal said_at
        if time.monotonic() - said_at >= heartbeats.EVERY_SECONDS:
            said_at = time.monotonic()
            heartbeats.record_heartbeat(heartbeats.BEAT)

    signals.after_task_publish.connect(beat, weak=False)


@signals.setup_logging.connect
def _configure_logs(**_: Any) -> None:
    logs.configure("worker")


@signals.worker_process_init.connect
def _start_clean(**_: Any) -> None:
    """Close connections opened before the fork, which must not be used after it."""
    stream.close()
    tracing.start("worker")


@signals.worker_process_shutdown.connect
def _close(**_: Any) -> None:
    from app.store.core import database  # noqa: PLC0415

    tracing.stop()
    stream.close()
    database.close()
