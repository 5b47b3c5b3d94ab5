"""Tables of merges with their lineage, and of consolidation's progress."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import REAL

from app.store.tables.columns import labels, metadata, moment, tenant

merges = Table(
    "merges",
    metadata,
    tenant(),
    Column("merge_id", Uuid, primary_key=True),
    Column("run_id", Uuid, nullable=False),
    *(Column(name, Text, nullable=False) for name in ("action", "status", "level")),
    Column("cohesion", REAL, nullable=False),
    Column("sources", Integer, nullable=False),
    Column("summary_id", Uuid),
    Column("summary_version", Integer),
    Column("method", Text),
    Column("model", Text),
    labels("key_points"),
    Column("is_stale", Boolean, nullable=False, server_default=text("false")),
    *(
        Column(name, Integer, nullable=False, server_default=text("0"))
        for name in ("characters_before", "characters_after")
    ),
    moment("created_at", needed=True),
    moment("decided_at"),
    Column("decided_by", Text),
    Index("merges_stale", "tenant_id", "merge_id", postgresql_where=text("is_stale")),
    Index("merges_newest", "tenant_id", text("created_at DESC"), "merge_id"),
    Index("merges_summary", "tenant_id", "summary_id", unique=True, postgresql_where=text("summary_id IS NOT NULL")),
)

lineage = Table(
    "lineage",
    metadata,
    tenant(),
    Column("merge_id", Uuid, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("part", Text, nullable=False),
    Index("lineage_memory", "tenant_id", "memory_id"),
)

consolidation_runs = Table(
    "consolidation_runs",
    metadata,
    tenant(),
    Column("run_id", Uuid, primary_key=True),
    Column("started_by", Text, nullable=False),
    Column("level", Text, nullable=False),
    moment("as_of", needed=True),
    moment("started_at", needed=True, default="now()"),
    moment("finished_at"),
    *(
        Column(name, Integer, nullable=False, server_default=text("0"))
        for name in ("looked_at", "clusters", "linked", "merged", "summaries", "by_model", "waiting")
    ),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in ("characters_before", "characters_after")
    ),
    Index("consolidation_runs_newest", "tenant_id", text("started_at DESC"), "run_id"),
)

consolidation_marks = Table(
    "consolidation_marks",
    metadata,
    tenant(),
    Column("age", Text, primary_key=True),
    Column("after_id", Uuid, nullable=False),
    moment("after_at", needed=True, default="'-infinity'"),
)
