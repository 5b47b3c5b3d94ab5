"""The service's internals in this process: an empty database, an empty Redis, and access past the API."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, TypeVar, cast
from uuid import UUID

import msgspec
import psycopg
import pytest
import redis
import structlog
from psycopg import sql

from app import failpoints, queues
from app.api.http.auth import cache
from app.clients.llm.model_clients import model_clients
from app.clients.redis import stream
from app.clients.redis.accept_arguments import Idempotency
from app.clients.redis.connection import BACKLOG, HELD, RING, RING_MEMBERS, stream_key
from app.clients.redis.connection_check import verify_connections
from app.clients.redis.stream import AppendResult, StreamWriter
from app.domain.ingest.envelope import Form
from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids
from app.domain.policy import api_keys
from app.domain.policy.policy import Policy
from app.services.embedding import spaces
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.tenants import budget, tenants
from app.settings import settings
from app.store.core import database
from tests import connections
from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")
_NUMBERS = count(1)

# Timeouts that only a fault reaches. With the defaults, a slow machine would end a slice early, which in production
# the next slice compensates, or time out a working call. A test of a limit sets its own.
PATIENT_SETTINGS = {
    "SLICE_SECONDS": PATIENCE_SECONDS,
    "STATEMENT_TIMEOUT_SECONDS": PATIENCE_SECONDS,
    "CLAIM_IDLE_SECONDS": PATIENCE_SECONDS,
    "LEASE_SECONDS": PATIENCE_SECONDS,
    "REQUEST_BODY_TIMEOUT_SECONDS": PATIENCE_SECONDS,
    "WAIT_MAX_SECONDS": PATIENCE_SECONDS,
    "LLM_TIMEOUT_SECONDS": 120,
    "LLM_QUERY_TIMEOUT_SECONDS": 120,
    "RERANK_TIMEOUT_SECONDS": 30,
    "COLD_TIMEOUT_SECONDS": 120,
}
PATIENT_CONSTANTS = (
    "app.services.tiers.archive.STEP_SECONDS",
    "app.services.tiers.cold_storage.STEP_SECONDS",
    "app.services.tiers.segment_compaction.STEP_SECONDS",
    "app.services.consolidation.consolidation_run.STEP_SECONDS",
    "app.services.erasure.execution.STEP_SECONDS",
    "app.services.erasure.index_removal.STEP_SECONDS",
    "app.services.privacy.export_job.STEP_SECONDS",
    "app.services.embedding.tenant_indexes.STEP_SECONDS",
    "app.services.privacy.legal_holds.STEP_SECONDS",
    "app.services.night.night_run.STEP_SECONDS",
    "app.services.strength.rebase.STEP_SECONDS",
    "app.services.consolidation.summary_refresh.STEP_SECONDS",
    "app.services.embedding.reembed.STEP_SECONDS",
    "app.services.tiers.decay_deletion.STEP_SECONDS",
    "app.services.evaluation.self_tests.STEP_SECONDS",
    "app.services.privacy.categories.SECONDS_MAX",
    "app.services.security.audit_verification.SECONDS_MAX",
    "app.services.tenants.policy_impact.SECONDS_MAX",
    "app.services.tiers.forecast.SECONDS_MAX",
    "app.services.search.search_replays.SECONDS_MAX",
    "app.services.night.night_preview.SECONDS",
    "app.services.tiers.dry_run.SECONDS",
    "app.services.monitoring.status.FRESH_SECONDS",
    "app.domain.health_findings.SILENT_SECONDS",
    "app.clients.redis.stream.APPEND_TIMEOUT_SECONDS",
)

LARGE_BYTES = 1024**2
SIZES = """
SELECT relname, pg_relation_size(oid) FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'alembic_version'
  AND pg_relation_size(oid) > 0
"""


@dataclass(frozen=True)
class Tenant:
    """A tenant and its key, which has every scope but `admin`."""

    tenant_id: UUID
    key: str

    @property
    def key_id(self) -> str:
        parsed = api_keys.parse(self.key)
        assert parsed is not None
        return parsed.key_id


@dataclass
class Service:
    """Test access to the service's settings, database and Redis."""

    database_url: str
    redis_url: str
    redis: redis.Redis
    monkeypatch: pytest.MonkeyPatch

    def configure(self, **values: object) -> None:
        """Change settings, given by lower-case name."""
        for name, value in values.items():
            self.monkeypatch.setenv(f"EBBING_{name.upper()}", str(value))
        settings.cache_clear()

    def tenant(self, policy: Policy | None = None, scopes: Sequence[str] = tenants.TENANT_SCOPES) -> Tenant:
        made, key = tenants.create(f"tenant {next(_NUMBERS)}", policy, scopes)
        return Tenant(made.tenant_id, key)

    def rows(self, statement: str, *values: object) -> list[Any]:
        """Execute a statement as the database owner and return its rows; `%s` marks values."""
        done = self._owner.execute(statement.encode(), values)
        return done.fetchall() if done.description is not None else []

    def one(self, statement: str, *values: object) -> Any:
        """Return the single value of a single row."""
        [[value]] = self.rows(statement, *values)
        return value

    def send(self, tenant_id: UUID, *memories: str | dict[str, Any], days: float = 0) -> list[UUID]:
        """Append one request to the tenant's stream as if accepted `days` ago, and return its memories' ids."""
        bodies = [{"text": memory} if isinstance(memory, str) else memory for memory in memories]
        base = generate_base(time.time_ns() // 1_000_000 - int(days * 86_400_000), os.urandom(RANDOM_BYTES))
        self.post(tenant_id, msgspec.json.encode(bodies), memories=len(bodies), base=base)
        return [UUID(memory_id) for memory_id in memory_uuids(base, len(bodies))]

    def post(
        self,
        tenant_id: UUID,
        body: bytes,
        *,
        memories: int = 1,
        base: bytes | None = None,
        form: Form = "json",
        idempotency: Idempotency | None = None,
    ) -> AppendResult:
        """Append bytes to the tenant's stream without validation, counted like any request."""
        base = base or generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))

        async def knock(door: StreamWriter) -> AppendResult:
            return await door.append(
                tenant_id,
                base=base,
                memories=memories,
                form=form,
                trace="",
                body=body,
                idempotency=idempotency,
            )

        return at_door(knock)

    def push(self, tenant_id: UUID, fields: dict[bytes, bytes]) -> None:
        """Append an arbitrary entry to the tenant's stream and put the tenant on the ring."""
        self.redis.xadd(stream_key(tenant_id), fields)  # type: ignore[arg-type]  # redis-py's dict is invariant
        self.redis.hincrby(BACKLOG, "entries", 1)
        if self.redis.sadd(RING_MEMBERS, str(tenant_id)):
            self.redis.rpush(RING, str(tenant_id))

    def work(self) -> None:
        """Store, index, embed and score all pending work."""
        drain.drain_streams()
        stage_runner.run_index_stage()
        stage_runner.embed()
        stage_runner.run_score_stage()

    def texts(self, tenant_id: UUID) -> list[str]:
        """Return the texts of a tenant's memories in conversation order."""
        found = self.rows("SELECT text FROM memories WHERE tenant_id = %s ORDER BY seq", tenant_id)
        return [text for (text,) in found]

    def letters(self, tenant_id: UUID) -> list[tuple[str, str, int]]:
        """Return stage, reason and attempts of a tenant's dead letters, oldest first."""
        return [
            tuple(row)
            for row in self.rows(
                "SELECT stage, reason, attempts FROM dead_letters WHERE tenant_id = %s ORDER BY created_at", tenant_id
            )
        ]

    def backlog(self) -> dict[str, int]:
        """Return the backlog counters."""
        held = cast("dict[bytes, bytes]", self.redis.hgetall(BACKLOG))
        return {name.decode(): int(value) for name, value in held.items()}

    def count_lock_waits(self) -> int:
        """Return the number of connections that wait for a lock of PostgreSQL."""
        return int(
            self.one(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    def is_idle(self) -> bool:
        """Return true if nothing is pending, no tenant is claimed, and every counter is zero."""
        return not any(self.backlog().values()) and not any(map(self.redis.exists, (RING, RING_MEMBERS, HELD)))

    def close(self) -> None:
        """Close the owner's connection; the next statement opens a new one."""
        connections.close_owners()
        self.__dict__.pop("_owner", None)

    @cached_property
    def _owner(self) -> psycopg.Connection[Any]:
        return connections.owner(self.database_url)


def at_door(knock: Callable[[StreamWriter], Awaitable[T]]) -> T:
    """Run a coroutine function with a door that is open for the duration."""
    return connections.run_with_redis(lambda client: knock(StreamWriter(client)))


def empty(database_url: str) -> None:
    """Delete every row except the schema's revision.

    On small tables, DELETE takes a fifth of the time of TRUNCATE, which recreates each table and index.
    """
    owner = connections.owner(database_url)
    with owner.transaction():
        sizes: dict[str, int] = dict(owner.execute(SIZES).fetchall())
        owner.execute("SET LOCAL session_replication_role = replica")  # otherwise the audit log refuses to be deleted
        large = [sql.Identifier(name) for name, size in sizes.items() if size > LARGE_BYTES]
        if large:
            owner.execute(sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(large)))
        kept = ("erasure_ledger", "erasure_requests", "kept_holds", "owner_keys", "master_keys")
        emptied = [sql.Identifier(name) for name in sizes] + [sql.Identifier("ebbing_keys", name) for name in kept]
        owner.execute(sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(name) for name in emptied))
        owner.execute("INSERT INTO ledger_mark (seq) VALUES (0)")  # belongs to the schema
        owner.execute("UPDATE ebbing_keys.request_mark SET seq = 0")


@contextmanager
def inside(database_url: str, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """Yield the service on these servers, with generous timeouts and every other setting at its default.

    Closes its connections afterwards, except those that `connections` keeps for the next test.
    """
    for name in os.environ:
        if name.startswith("EBBING_") and not name.startswith("EBBING_TEST_"):
            monkeypatch.delenv(name)
    for name, seconds in PATIENT_SETTINGS.items():
        monkeypatch.setenv(f"EBBING_{name}", str(seconds))
    for constant in PATIENT_CONSTANTS:
        monkeypatch.setattr(constant, PATIENCE_SECONDS)
    monkeypatch.setattr("app.store.core.database.create_engine", connections.create)
    monkeypatch.setenv("EBBING_DATABASE_URL", database_url)
    monkeypatch.setenv("EBBING_REDIS_URL", redis_url)
    monkeypatch.setattr(stage_runner, "_turn_sizes", stage_runner.start_turn_sizes())
    # Otherwise loggers would retain the output stream of the first test that logged.
    monkeypatch.setattr("app.logs.configure", lambda _: None)
    structlog.configure(processors=[structlog.processors.JSONRenderer(default=repr)])
    forget()
    connections.lend(database_url)
    empty(database_url)
    with redis.Redis.from_url(redis_url) as client:
        service = Service(database_url, redis_url, client, monkeypatch)
        yield service
    connections.keep()
    forget()
    structlog.reset_defaults()


def forget() -> None:
    """Clear the process's caches and close its connections."""
    settings.cache_clear()
    failpoints._planned.cache_clear()
    database.close()
    verify_connections(None)  # an application or worker that ran in this process has registered a check
    stream.close()
    if queues._sender.cache_info().currsize:
        queues._sender().close()
    queues._sender.cache_clear()
    model_clients.close()
    cache._held.clear()
    cache._underway.clear()
    budget._memo = budget._BudgetCache()
    spaces._cache.cache_clear()
