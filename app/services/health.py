"""Whether the service and what it leans on are well."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from app import queues
from app.clients.redis import HEARTBEATS, RedisError, check_settings, connect
from app.clients.stream import backlog, client
from app.errors import Misconfigured
from app.services import ledger
from app.store import database

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Dependency:
    """One thing that the service needs: its name, whether it is well, and what to do if not."""

    name: str
    well: bool
    detail: str


def check_redis() -> None:
    """Refuse to start on a Redis that would lose memories; one that is away now is waited for.

    Raises:
        Misconfigured: A setting of it would lose what was accepted; also in the log, with the way out.
    """
    try:
        for remark in check_settings(connect()):
            log.warning("redis_settings", remark=remark)
    except RedisError as error:
        log.warning("redis_away", error=type(error).__name__)
    except Misconfigured as error:
        log.critical("misconfigured", what=str(error))
        raise


def beat(queue: str) -> None:
    """Note that a queue's worker is alive, by Redis's clock."""
    client().hset(HEARTBEATS, queue, backlog().now_ms())


def heartbeat_ages() -> dict[str, float | None]:
    """Seconds since each queue's worker was last heard of; None if never."""
    now = backlog().now_ms()
    heard = client().hmget(HEARTBEATS, list(queues.HEARTBEATS))
    return {
        queue: None if moment is None else max(now - int(moment), 0) / 1000
        for queue, moment in zip(queues.HEARTBEATS, heard, strict=True)
    }


def dependencies() -> list[Dependency]:
    """PostgreSQL, its schema and role, and Redis, asked now."""
    return [*_database(), _redis()]


def _database() -> list[Dependency]:
    from app.store import migrate  # noqa: PLC0415 - Alembic takes a while to import, and no worker needs it

    try:
        with database.shared() as tx:
            revision = migrate.current(tx)
        bypasses = database.bypasses_row_security()
    except database.DatabaseError as error:
        return [Dependency("postgresql", well=False, detail=f"can't be reached: {type(error).__name__}")]
    found = [Dependency("postgresql", well=True, detail="answers")]
    wanted = migrate.head()
    if revision != wanted:
        detail = f"the schema is {revision or 'empty'}, this version needs {wanted}: run `ebbing migrate`"
        found.append(Dependency("schema", well=False, detail=detail))
    else:
        found.append(Dependency("schema", well=True, detail=f"revision {revision}"))
        wrong = ledger.remedy(ledger.standing())
        found.append(Dependency("erasures", well=wrong is None, detail=wrong or "none to replay"))
    if bypasses:
        detail = "the service's role can bypass row-level security: tenants aren't kept apart"
        found.append(Dependency("row-level security", well=False, detail=detail))
    return found


def _redis() -> Dependency:
    try:
        client().ping()
    except RedisError as error:
        return Dependency("redis", well=False, detail=f"can't be reached: {type(error).__name__}")
    return Dependency("redis", well=True, detail="answers")
