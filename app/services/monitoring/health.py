"""Probe the service's dependencies: PostgreSQL, Redis, disks and backups."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import structlog

from app.clients.redis.identity import QueueReplaced
from app.clients.redis.redis import PROBE, RedisError, ResponseError, check_settings, connect
from app.clients.redis.stream import client
from app.errors import Misconfigured
from app.services.erasure import ledger
from app.settings import settings
from app.store.core import database

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Dependency:
    """A dependency's name, whether it is healthy, and its state or remedy."""

    name: str
    well: bool
    detail: str


def check_redis() -> None:
    """Refuse to start on a Redis whose settings could lose memories; only warn if Redis is unreachable.

    Raises:
        Misconfigured: A Redis setting could lose accepted data. The remedy is logged, too.
    """
    try:
        for remark in check_settings(connect()):
            log.warning("redis_settings", remark=remark)
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
    except Misconfigured as error:
        log.critical("misconfigured", what=str(error))
        raise


@dataclass(frozen=True)
class RedisRoom:
    """Redis's memory use and limit in bytes (`limit` is 0 if there is none), and whether it rejects writes."""

    used: int
    limit: int
    refuses: bool


def redis_room() -> RedisRoom:
    """Return Redis's memory use and whether it accepts writes, tested by writing a key that expires."""
    used, limit = redis_memory()
    try:
        client().set(PROBE, 1, ex=60)
        refuses = False
    except ResponseError:  # out of memory, can't write its append-only file, or demoted to a replica
        refuses = True
    return RedisRoom(used, limit, refuses)


def redis_memory() -> tuple[int, int]:
    """Return Redis's memory use and its limit in bytes; the limit is 0 if there is none."""
    memory = cast("dict[str, int]", client().info("memory"))
    return memory["used_memory"], memory["maxmemory"]


def disks_free() -> dict[str, float]:
    """Return the free share, 0 to 1, of each disk that this process sees, by the data stored there."""
    config = settings()
    home = config.home.absolute()
    folders = {
        "home": next(each for each in (home, *home.parents) if each.is_dir()),
        "postgresql": home / "postgres",
    }
    cold = urlsplit(config.cold_url or "")
    folders["cold"] = Path(cold.path) if cold.scheme == "file" else home / "cold"
    found = {}
    for name, folder in folders.items():
        if folder.is_dir():
            usage = shutil.disk_usage(folder)
            found[name] = usage.free / usage.total
    return found


def backup_age_seconds() -> float | None:
    """Return the seconds since the last backup finished: infinity if none did, None if no backup mark is configured."""
    mark = settings().backup_mark
    if mark is None:
        return None
    try:
        return max(time.time() - mark.stat().st_mtime, 0.0)
    except OSError:
        return float("inf")


def dependencies() -> list[Dependency]:
    """Probe PostgreSQL, its schema and role, and Redis now."""
    return [*_database(), _redis()]


def _database() -> list[Dependency]:
    from app.store.core import migrate  # noqa: PLC0415 - Alembic is slow to import, and no worker needs it

    try:
        with database.shared() as tx:
            revision = migrate.current(tx)
        bypasses = database.bypasses_row_security()
    except database.DatabaseError as error:
        return [Dependency("postgresql", well=False, detail=f"can't be reached: {type(error).__name__}")]
    found = [Dependency("postgresql", well=True, detail="answers")]
    wanted = migrate.head()
    if revision is None or (revision != wanted and migrate.knows(revision)):
        detail = f"the schema is {revision or 'empty'}, this version needs {wanted}: run `ebbing migrate`"
        found.append(Dependency("schema", well=False, detail=detail))
    else:  # rolling upgrades need the previous version to run on a newer schema
        detail = f"revision {revision}" if revision == wanted else f"revision {revision}, from a newer version"
        found.append(Dependency("schema", well=True, detail=detail))
        wrong = ledger.diagnose(ledger.standing())
        found.append(Dependency("erasures", well=wrong is None, detail=wrong or "none to replay"))
    if bypasses:
        detail = "the service's role can bypass row-level security: tenants aren't isolated"
        found.append(Dependency("row-level security", well=False, detail=detail))
    return found


def _redis() -> Dependency:
    try:
        client().ping()
    except QueueReplaced as error:
        return Dependency("redis", well=False, detail=str(error))
    except RedisError as error:
        return Dependency("redis", well=False, detail=f"can't be reached: {type(error).__name__}")
    return Dependency("redis", well=True, detail="answers")
