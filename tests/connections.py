"""Connections that outlive a test: connecting, and compiling statements, takes longer than most tests."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from weakref import WeakKeyDictionary, WeakSet

import psycopg
import redis.asyncio
import sqlalchemy
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, event

from app.clients.redis.connection import connect_async, redis_url
from app.clients.redis.connection_check import registered_check
from app.settings import settings
from app.store.core import database
from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")
Work = Callable[[redis.asyncio.Redis], Awaitable[T]]

IDLE_SECONDS = 5.0
_owners: dict[str, psycopg.Connection[Any]] = {}
_kept: dict[database.Role, Engine] = {}
_settings: WeakKeyDictionary[Engine, tuple[object, ...]] = WeakKeyDictionary()
_connections: WeakKeyDictionary[Engine, WeakSet[psycopg.Connection[Any]]] = WeakKeyDictionary()
_loops: dict[int, asyncio.Runner] = {}  # by process: a fork must not use its parent's
_clients: dict[tuple[int, str], redis.asyncio.Redis] = {}


def owner(url: str) -> psycopg.Connection[Any]:
    """Return a connection of the database's owner in autocommit mode, without what an earlier test changed in it."""
    held = _owners.pop(url, None)
    if held is not None and held.info.transaction_status == TransactionStatus.IDLE and not _has_news(held):
        held.execute("RESET ALL; RESET ROLE")
    else:
        if held is not None:
            held.close()
        held = psycopg.connect(url, autocommit=True, prepare_threshold=None)  # a plan must not outlive a table
    _owners[url] = held
    return held


def create(url: str, *, connect_args: dict[str, Any], **given: Any) -> Engine:
    """Create an engine that waits for a connection as long as tests wait for anything."""
    connect_args = {**connect_args, "connect_timeout": int(PATIENCE_SECONDS)}
    engine = sqlalchemy.create_engine(url, **given | {"connect_args": connect_args, "pool_timeout": PATIENCE_SECONDS})
    opened: WeakSet[psycopg.Connection[Any]] = WeakSet()
    event.listen(engine, "connect", lambda connection, _: opened.add(connection))
    _settings[engine], _connections[engine] = _relevant_settings(), opened
    return engine


def keep() -> None:
    """Take the service's engines for the next test; close those with connections in use."""
    for role, engine in database._engines.items():
        if engine in _settings and role not in _kept and _is_idle(engine):
            _kept[role] = engine
        else:
            engine.dispose()
    database._engines.clear()


def _is_idle(engine: Engine) -> bool:
    """Return whether an engine's connections are unused, after waiting for threads that the test's end interrupted."""
    deadline = time.monotonic() + IDLE_SECONDS
    while engine.pool.checkedout() and time.monotonic() < deadline:  # type: ignore[attr-defined]
        time.sleep(0.01)
    return not engine.pool.checkedout()  # type: ignore[attr-defined]


def lend(database_url: str) -> None:
    """Give the service the engines of earlier tests if they have its settings and all their connections are alive.

    Closes the connections of the owners of other databases.
    """
    for url in _owners.keys() - {database_url}:
        _owners.pop(url).close()
    for role, engine in _kept.items():
        if _settings[engine] == _relevant_settings() and not any(map(_has_news, _connections[engine])):
            database._engines[role] = engine
        else:
            engine.dispose()
    _kept.clear()
    database._count_opening()  # so that the service remembers nothing about the database's earlier rows


def run_with_redis(work: Work[T]) -> T:
    """Run a coroutine function with an asynchronous client of the service's Redis, connected since an earlier call.

    In other threads, and where connections are verified when they open, the client is new.
    """
    if threading.current_thread() is not threading.main_thread() or registered_check() is not None:
        return asyncio.run(_run_with_new_client(work))
    if os.getpid() not in _loops:
        _loops[os.getpid()] = asyncio.Runner()
    return _loops[os.getpid()].run(_run_with_kept_client(work))


async def _run_with_new_client(work: Work[T]) -> T:
    client = connect_async()
    try:
        return await work(client)
    finally:
        await client.aclose()


async def _run_with_kept_client(work: Work[T]) -> T:
    key = os.getpid(), redis_url()
    if key not in _clients:
        _clients[key] = connect_async()
    return await work(_clients[key])


def _close_redis() -> None:
    if (runner := _loops.pop(os.getpid(), None)) is not None:
        for key in [key for key in _clients if key[0] == os.getpid()]:
            runner.run(_clients.pop(key).aclose())
        runner.close()


def close() -> None:
    """Close the connections that no test uses."""
    _close_redis()
    close_owners()
    for engine in _kept.values():
        engine.dispose()
    _kept.clear()


def close_owners() -> None:
    """Close the owner's connections."""
    for connection in _owners.values():
        connection.close()
    _owners.clear()


def _relevant_settings() -> tuple[object, ...]:
    config = settings()
    return config.database_url, config.database_pool_size, config.statement_timeout_seconds


def _has_news(connection: psycopg.Connection[Any]) -> bool:
    """Return True if the server has sent something to an idle connection: it does so only when it ends it."""
    return not connection.closed and bool(select.select([connection.fileno()], [], [], 0)[0])
