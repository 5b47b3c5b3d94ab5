"""How a process uses its connections to PostgreSQL: how many there are, are in use, and are waited for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.pool import QueuePool

OVERFLOW: Final = 2
"""Connections beyond the pool's size that may be opened for a while."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A process's connections.

    Attributes:
        limit: The most there may be.
        open: Those there are.
        in_use: The most in use at once since it was last asked about.
        waiting: The most threads at once that waited for one, likewise.
    """

    limit: int = 0
    open: int = 0
    in_use: int = 0
    waiting: int = 0


@dataclass
class _Use:
    """Numbers of this process, and their most since they were last asked for."""

    lock: Lock = field(default_factory=Lock)
    in_use: int = 0
    in_use_most: int = 0
    waiting: int = 0
    waiting_most: int = 0


_use = _Use()


def watch(engine: Engine) -> None:
    """Count what is taken from an engine's pool and given back."""
    event.listen(engine, "checkout", _taken)
    event.listen(engine, "checkin", _given_back)


@contextmanager
def begun(engine: Engine) -> Iterator[Connection]:
    """A transaction on a connection of an engine's, which may have to be waited for."""
    with _waited(wanted=_is_spent(engine)):
        connection = engine.connect()
    with connection, connection.begin():
        yield connection


def state(engines: Iterable[Engine]) -> Pool:
    """How these engines' pools are used; what was the most begins anew."""
    limit = there = 0
    for engine in engines:
        if isinstance(engine.pool, QueuePool):
            limit += _limit(engine.pool)
            there += engine.pool.checkedin() + engine.pool.checkedout()
    with _use.lock:
        found = Pool(limit, there, _use.in_use_most, _use.waiting_most)
        _use.in_use_most, _use.waiting_most = _use.in_use, _use.waiting
    return found


def forget() -> None:
    """Begin anew, in a child that has inherited numbers that aren't its own."""
    global _use  # noqa: PLW0603 - numbers of the process
    _use = _Use()


def _limit(pool: QueuePool) -> int:
    return pool.size() + OVERFLOW


def _is_spent(engine: Engine) -> bool:
    return isinstance(engine.pool, QueuePool) and engine.pool.checkedout() >= _limit(engine.pool)


@contextmanager
def _waited(*, wanted: bool) -> Iterator[None]:
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


def _taken(*_: object) -> None:
    with _use.lock:
        _use.in_use += 1
        _use.in_use_most = max(_use.in_use_most, _use.in_use)


def _given_back(*_: object) -> None:
    with _use.lock:
        _use.in_use -= 1
