"""Tables of self-test runs and outcomes."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, SmallInteger, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB, REAL

from app.store.tables.columns import metadata, moment, tenant

self_test_runs = Table(
    "self_test_runs",
    metadata,
    tenant(),
    Column("run_id", Uuid, primary_key=True),
    moment("as_of", needed=True),
    Column("seed", BigInteger, nullable=False),
    Column("target_ms", REAL, nullable=False),
    Column("p50_ms", REAL),
    Column("p95_ms", REAL),
    Column("results", JSONB, nullable=False, server_default=text("'{}'")),
    moment("started_at", needed=True, default="now()"),
    moment("finished_at"),
    Index("self_test_runs_unfinished", "tenant_id", unique=True, postgresql_where=text("finished_at IS NULL")),
    Index("self_test_runs_tenant", "tenant_id", text("started_at DESC"), "run_id"),
)

self_tests = Table(
    "self_tests",
    metadata,
    tenant(),
    Column("run_id", Uuid, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("other_id", Uuid),
    Column("passed", Boolean),
    Column("place", SmallInteger),
    Column("share", REAL),
    Column("milliseconds", REAL),
    Column("by_model", Boolean, nullable=False, server_default=text("false")),
    Column("brought", SmallInteger),
    Index("self_tests_memory", "tenant_id", "memory_id"),
    Index("self_tests_other", "tenant_id", "other_id", postgresql_where=text("other_id IS NOT NULL")),
)
