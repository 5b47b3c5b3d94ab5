"""Read the state of Celery's process pool, which Celery doesn't publish."""

from __future__ import annotations

from typing import Any


def list_tasks(pool: Any) -> dict[int, int | None]:
    """Return the number of each pool process's current task, by process id; None if the process is idle.

    A task counts from when it is sent to the process, because a process that hangs never accepts it.
    """
    processes = pool._pool  # noqa: SLF001 - no public attribute has it
    if processes is None:  # Celery is stopping or restarting the pool
        return {}
    tasks: dict[int, int | None] = {process.pid: None for process in processes._pool}  # noqa: SLF001
    for number, job in list(processes._cache.items()):  # noqa: SLF001
        process = job._write_to or job._scheduled_for  # noqa: SLF001
        pid = job._worker_pid or (process.pid if process else None)  # noqa: SLF001
        if pid in tasks:
            tasks[pid] = number
    return tasks
