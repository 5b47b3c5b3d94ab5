"""F21: migrations under load, behind a lock, and killed halfway: writers go on, and the next run finishes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from secrets import token_hex
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from app.store.core import migrate
from tests.processes import ROOT
from tests.servers import Servers
from tests.waiting import PATIENCE_SECONDS, until

UPGRADE = "import sys; from app.store.core.migrate import upgrade; upgrade(sys.argv[1])"
OLD = "0006"
TENANT = uuid4()


@pytest.fixture
def old_url(servers: Servers) -> Iterator[str]:
    """Owner's URL of a database with an old schema and some rows."""
    name = f"old_{token_hex(6)}"
    with psycopg.connect(servers.database_url, autocommit=True) as server:
        server.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        url = servers.database_url.rpartition("/")[0] + f"/{name}"
        migrate.upgrade(url, OLD)
        for number in range(20):
            insert(url, number)
        yield url
        server.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def insert(url: str, number: int) -> None:
    """Store a memory as the previous version does, which knows none of the later columns."""
    with psycopg.connect(url) as tx:
        tx.execute(
            "INSERT INTO memories (tenant_id, memory_id, seq, text, created_at) VALUES (%s, %s, %s, 'x', now())",
            (TENANT, uuid4(), number),
        )


def revision(url: str) -> str:
    with psycopg.connect(url) as tx:
        [found] = tx.execute("SELECT version_num FROM alembic_version").fetchone() or [""]
        return str(found)


def start_upgrade(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", UPGRADE, url], cwd=ROOT, env=os.environ, stderr=subprocess.PIPE)


@contextmanager
def lock_held(url: str) -> Iterator[None]:
    """Read `memories` in an open transaction, so that every migration that changes the table has to wait."""
    with psycopg.connect(url) as holder:
        holder.execute("SELECT count(*) FROM memories")
        yield


def waits_for_lock(url: str) -> bool:
    with psycopg.connect(url) as tx:
        found = tx.execute(
            "SELECT count(*) FROM pg_locks JOIN pg_database ON oid = database "
            "WHERE datname = current_database() AND NOT granted AND locktype = 'relation'"
        ).fetchone()
    return found is not None and found[0] > 0


def check_newest(url: str, rows: int) -> None:
    assert revision(url) == migrate.newest_revision()
    with psycopg.connect(url) as tx:
        assert tx.execute("SELECT count(*), count(DISTINCT seq) FROM memories").fetchone() == (rows, rows)
        assert tx.execute("SELECT sum(active + archived + cold) FROM tenant_counts").fetchone() is not None


def test_a_migration_killed_while_it_waits_for_a_lock_leaves_a_whole_step_and_the_next_run_finishes(
    old_url: str,
) -> None:
    with lock_held(old_url):
        upgrade = start_upgrade(old_url)
        until(lambda: waits_for_lock(old_url), "the migration waits for the lock")
        upgrade.send_signal(signal.SIGKILL)
        upgrade.communicate()
        before = revision(old_url)
        assert migrate.is_known(before)
        assert before < migrate.newest_revision()
    migrate.upgrade(old_url)
    check_newest(old_url, 20)


@pytest.mark.parametrize("seed", ["first", "second", "third", "fourth", "fifth"])
def test_a_migration_killed_at_any_moment_is_finished_by_the_next_run(old_url: str, seed: str) -> None:
    target = random.Random(seed).randrange(int(OLD) + 1, int(migrate.newest_revision()))
    upgrade = start_upgrade(old_url)
    until(lambda: int(revision(old_url)) >= target or upgrade.poll() is not None, f"revision {target} is reached")
    upgrade.send_signal(signal.SIGKILL)
    upgrade.communicate()
    assert migrate.is_known(revision(old_url))
    migrate.upgrade(old_url)
    check_newest(old_url, 20)


def test_writers_wait_no_longer_than_the_migrations_lock_timeout_and_lose_nothing(old_url: str) -> None:
    """A reader holds a lock, the migration waits behind it, and writers behind the migration until it gives up."""
    stop, numbers, failures = threading.Event(), iter(range(20, 100_000)), list[BaseException]()
    written: list[int] = []

    def write() -> None:
        try:
            while not stop.is_set():
                number = next(numbers)
                insert(old_url, number)
                written.append(number)
        except BaseException as failure:  # noqa: BLE001 - raised below, in the test's own thread
            failures.append(failure)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        until(lambda: len(written) >= 5, "the previous version writes")
        with lock_held(old_url):
            blocked = start_upgrade(old_url)
            until(lambda: waits_for_lock(old_url), "the migration waits for the lock")
            error = blocked.communicate(timeout=PATIENCE_SECONDS)[1].decode()
            assert blocked.returncode != 0
            assert "LockNotAvailable" in error
            count = len(written)
            until(lambda: len(written) > count, "writers go on while the lock is still held")
        upgraded = start_upgrade(old_url)
        error = upgraded.communicate(timeout=PATIENCE_SECONDS)[1].decode()
        assert upgraded.returncode == 0, error
        count = len(written)
        until(lambda: len(written) > count, "the previous version still writes to the new schema")
    finally:
        stop.set()
        writer.join(PATIENCE_SECONDS)
    assert failures == []
    check_newest(old_url, 20 + len(written))
