"""Count this process's PostgreSQL connections (open and in use) and the threads waiting for a connection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import QueuePool

OVERFLOW: Final = 2
"""Number of connections that may be opened temporarily beyond the pool's size."""


@dataclass(frozen=True, slots=True)
class PoolUsage:
    """Connection pool usage of a process.

    Attributes:
        limit: Maximum number of connections.
        open: Connections currently open.
        in_use: Peak number of connections in use since the previous reading.
        waiting: Peak number of threads waiting for a connection since the previous reading.
    """

    limit: int = 0
    open: int = 0
    in_use: int = 0
    waiting: int = 0


@dataclass
class _Use:
    """Current counts of this process, and their peaks since the previous reading."""

    lock: Lock = field(default_factory=Lock)
    in_use: int = 0
    in_use_most: int = 0
    waiting: int = 0
    waiting_most: int = 0


_use = _Use()


def watch_engine(engine: Engine) -> None:
    """Count checkouts and check-ins of an engine's pool."""
    event.listen(engine, "checkout", _count_checkout)
    event.listen(engine, "checkin", _count_checkin)


@contextmanager
def begin_transaction(engine: Engine) -> Iterator[Connection]:
    """Open a transaction on one of the engine's connections, waiting for a connection if the pool is exhausted."""
    with _count_waiting(wanted=_is_spent(engine)):
        connection = engine.connect()
    with connection, connection.begin():
        yield connection


def read_usage(engines: Iterable[Engine]) -> PoolUsage:
    """Return the usage of these engines' pools, and reset the peaks."""
    limit = open_connections = 0
    for engine in engines:
        if isinstance(engine.pool, QueuePool):
            limit += _limit(engine.pool)
            open_connections += engine.pool.checkedin() + engine.pool.checkedout()
    with _use.lock:
        usage = PoolUsage(limit, open_connections, _use.in_use_most, _use.waiting_most)
        _use.in_use_most, _use.waiting_most = _use.in_use, _use.waiting
    return usage


def forget() -> None:
    """Reset the counts in a forked child, which has inherited the parent's counts."""
    global _use  # noqa: PLW0603 - process-wide state
    _use = _Use()


def _limit(pool: QueuePool) -> int:
    return pool.size() + OVERFLOW


def _is_spent(engine: Engine) -> bool:
    return isinstance(engine.pool, QueuePool) and engine.pool.checkedout() >= _limit(engine.pool)


@contextmanager
def _count_waiting(*, wanted: bool) -> Iterator[None]:
    if not wanted:
        yield
        return
    with _use.lock:
        _use.waiting += 1
        _use.waiting_most = max(_use.waiting_most, _use.waiting)
    try:
        yield
    finally:
        with _use.lock:
            _use.waiting -= 1


def _count_checkout(*_: object) -> None:
    with _use.lock:
        _use.in_use += 1
        _use.in_use_most = max(_use.in_use_most, _use.in_use)


def _count_checkin(*_: object) -> None:
    with _use.lock:
        _use.in_use -= 1
