"""Tables of tenants, their keys, jobs and pending work."""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.columns import metadata, moment, tenant

tenants = Table(
    "tenants",
    metadata,
    tenant(),
    Column("name", Text, nullable=False, unique=True),
    moment("created_at", needed=True, default="now()"),
    Column("simulated", Boolean, nullable=False, server_default=text("false")),
    Column("defaults", SmallInteger, nullable=False, server_default=text("0")),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("tenant_id", Uuid, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    moment("created_at", needed=True, default="now()"),
    moment("expires_at"),
    moment("revoked_at"),
    Column("last_used_on", Date),
    Index("api_keys_tenant", "tenant_id"),
)

embedding_spaces = Table(
    "embedding_spaces",
    metadata,
    Column("space_id", SmallInteger, Identity(always=True), primary_key=True),
    Column("model", Text, nullable=False),
    Column("dimensions", Integer, nullable=False),
    Column("normalised", Boolean, nullable=False),
    Column("embedder", Text, nullable=False),
    UniqueConstraint("model", "dimensions"),
)

tenant_spaces = Table(
    "tenant_spaces",
    metadata,
    tenant(),
    Column("space_id", SmallInteger, ForeignKey("embedding_spaces.space_id"), nullable=False),
    Column("target_space_id", SmallInteger, ForeignKey("embedding_spaces.space_id")),
    moment("switched_at", needed=True, default="now()"),
    Column("graph_space_id", SmallInteger, ForeignKey("embedding_spaces.space_id")),
)

tenant_work = Table(
    "tenant_work",
    metadata,
    Column("stage", Text, primary_key=True),
    tenant(),
    Column("work_id", BigInteger, Identity(always=True), primary_key=True),
    Column("memory_ids", ARRAY(Uuid), nullable=False),
    moment("created_at", needed=True, default="now()"),
    moment("claimed_until", needed=True, default="'-infinity'"),
    Column("claim", Uuid),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
)

schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Uuid, primary_key=True),
    Column("tenant_id", Uuid, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("task", Text, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    moment("next_run_at", needed=True),
    Column("last_date", Date, nullable=False),
    UniqueConstraint("tenant_id", "task"),
    Index("schedules_due", "next_run_at", postgresql_where=text("NOT paused")),
)

runs = Table(
    "runs",
    metadata,
    Column("run_id", Uuid, primary_key=True),
    Column("schedule_id", Uuid, ForeignKey("schedules.schedule_id"), nullable=False),
    Column("tenant_id", Uuid, nullable=False),
    Column("task", Text, nullable=False),
    Column("kind", Text, nullable=False),
    moment("scheduled_for", needed=True),
    Column("coalesced", Integer, nullable=False, server_default=text("0")),
    Column("local_date", Date, nullable=False),
    Column("job_id", Uuid),
    Column("skipped", Text),
    moment("entered_at", needed=True, default="now()"),
    Index("runs_of_date", "schedule_id", "local_date", unique=True, postgresql_where=text("kind = 'scheduled'")),
    Index("runs_tenant", "tenant_id", "task", text("scheduled_for DESC"), "run_id"),
)

policies = Table(
    "policies",
    metadata,
    tenant(),
    Column("version", Integer, primary_key=True),
    Column("body", JSONB, nullable=False),
    moment("effective_at", needed=True, default="now()"),
    moment("rebased_at"),
)

rating_turns = Table(
    "rating_turns",
    metadata,
    tenant(),
    Column("wanted", BigInteger, nullable=False, server_default=text("1")),
    moment("created_at", needed=True, default="now()"),
    moment("claimed_until", needed=True, default="'-infinity'"),
    Column("claim", Uuid),
)

usage = Table(
    "usage",
    metadata,
    tenant(),
    Column("day", Date, primary_key=True),
    Column("purpose", Text, primary_key=True),
    Column("host", Text, primary_key=True),
    Column("model", Text, primary_key=True),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in ("calls", "input_tokens", "cached_tokens", "output_tokens", "memories", "cache_hits")
    ),
    Column("cost", Double),
    Index("usage_day", "day"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("job_id", Uuid, primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("lone", Boolean, nullable=False, server_default=text("false")),
    Column("status", Text, nullable=False, server_default=text("'queued'")),
    Column("parameters", JSONB, nullable=False, server_default=text("'{}'")),
    Column("state", JSONB, nullable=False, server_default=text("'{}'")),
    Column("total", BigInteger),
    Column("done", BigInteger, nullable=False, server_default=text("0")),
    Column("counts", JSONB, nullable=False, server_default=text("'{}'")),
    Column("log", JSONB, nullable=False, server_default=text("'[]'")),
    Column("cancel_wanted", Boolean, nullable=False, server_default=text("false")),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
    Column("claim", Uuid),
    moment("claimed_until"),
    moment("created_at", needed=True, default="now()"),
    moment("started_at"),
    moment("finished_at"),
    Column("error", Text),
    moment("not_before"),
    Index("jobs_tenant", "tenant_id", text("created_at DESC"), "job_id"),
    Index("jobs_unfinished", "created_at", postgresql_where=text("status IN ('queued', 'running')")),
    Index(
        "jobs_lone",
        "tenant_id",
        "kind",
        unique=True,
        postgresql_where=text("lone AND status IN ('queued', 'running')"),
    ),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    tenant(),
    Column("letter_id", Uuid, primary_key=True),
    Column("stage", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("entry_id", Text),
    Column("memory_ids", ARRAY(Uuid), nullable=False, server_default=text("'{}'")),
    Column("payload", LargeBinary),
    moment("created_at", needed=True, default="now()"),
    Column("header", LargeBinary),
    Column("memories", Integer, nullable=False, server_default=text("0")),
    moment("discarded_at"),
    Column("discard_reason", Text),
    Index(
        "dead_letters_waiting",
        "tenant_id",
        "created_at",
        "letter_id",
        postgresql_where=text("discarded_at IS NULL"),
    ),
)

audit = Table(
    "audit",
    metadata,
    tenant(),
    Column("seq", BigInteger, primary_key=True),
    moment("at", needed=True),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", LargeBinary),
    Column("items", Integer, nullable=False),
    Column("digest", LargeBinary),
    Column("details", JSONB, nullable=False, server_default=text("'{}'")),
    Column("previous", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
)

audit_heads = Table(
    "audit_heads",
    metadata,
    tenant(),
    Column("seq", BigInteger, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    Column("subject_key", LargeBinary, nullable=False),
)

tenant_counts = Table(
    "tenant_counts",
    metadata,
    tenant(),
    Column("slot", SmallInteger, primary_key=True),
    *(
        Column(name, BigInteger, nullable=False, server_default=text("0"))
        for name in ("active", "archived", "cold", "text_bytes")
    ),
)

tier_moves = Table(
    "tier_moves",
    metadata,
    tenant(),
    Column("day", Date, primary_key=True),
    Column("move", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("memories", BigInteger, nullable=False),
)

operator_acts = Table(
    "operator_acts",
    metadata,
    tenant(),
    Column("act_id", Uuid, primary_key=True),
    moment("at", needed=True),
    Column("actor", Text, nullable=False),
    Column("act", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Index("operator_acts_newest", "tenant_id", text("at DESC"), text("act_id DESC")),
)

queue_identity = Table(
    "queue_identity",
    metadata,
    Column("one", Boolean, primary_key=True, server_default=text("true")),
    Column("epoch", Uuid, nullable=False),
    Column("beat", BigInteger, nullable=False, server_default=text("0")),
    moment("claimed_at"),
)

accepted_requests = Table(
    "accepted_requests",
    metadata,
    Column("witness_id", BigInteger, Identity(always=True), primary_key=True),
    moment("accepted_at", needed=True, default="now()"),
    moment("looked_at"),
    Column("missed", Boolean, nullable=False, server_default=text("false")),
    Column("tenant_ids", ARRAY(Uuid), nullable=False),
    Column("bases", ARRAY(Uuid), nullable=False),
    Column("memories", ARRAY(Integer), nullable=False),
    Column("entry_ids", ARRAY(Text), nullable=False),
)

queue_gaps = Table(
    "queue_gaps",
    metadata,
    tenant(),
    Column("found_at", DateTime(timezone=True), primary_key=True, server_default=text("now()")),
    Column("requests", Integer, nullable=False),
    Column("memories", Integer, nullable=False),
    moment("first_at", needed=True),
    moment("last_at", needed=True),
    moment("noticed_at"),
)
