"""The tables as SQLAlchemy Core sees them. A test holds them equal to what the migrations make."""

from __future__ import annotations

from typing import Any

from pgvector.sqlalchemy import HALFVEC
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
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, REAL, TSVECTOR

metadata = MetaData()


def _moment(name: str, *, needed: bool = False, default: str | None = None) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=not needed, server_default=text(default) if default else None)


def _tenant() -> Column[Any]:
    return Column("tenant_id", Uuid, primary_key=True)


def _labels(name: str) -> Column[Any]:
    return Column(name, ARRAY(Text), nullable=False, server_default=text("'{}'"))


tenants = Table(
    "tenants",
    metadata,
    _tenant(),
    Column("name", Text, nullable=False, unique=True),
    _moment("created_at", needed=True, default="now()"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("tenant_id", Uuid, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    _moment("created_at", needed=True, default="now()"),
    _moment("expires_at"),
    _moment("revoked_at"),
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
    _tenant(),
    Column("space_id", SmallInteger, ForeignKey("embedding_spaces.space_id"), nullable=False),
    Column("target_space_id", SmallInteger, ForeignKey("embedding_spaces.space_id")),
    _moment("switched_at", needed=True, default="now()"),
)

tenant_work = Table(
    "tenant_work",
    metadata,
    Column("stage", Text, primary_key=True),
    _tenant(),
    Column("work_id", BigInteger, Identity(always=True), primary_key=True),
    Column("memory_ids", ARRAY(Uuid), nullable=False),
    _moment("created_at", needed=True, default="now()"),
    _moment("claimed_until", needed=True, default="'-infinity'"),
    Column("claim", Uuid),
    Column("attempts", SmallInteger, nullable=False, server_default=text("0")),
)

schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Uuid, primary_key=True),
    Column("tenant_id", Uuid, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("task", Text, nullable=False),
    Column("cron", Text, nullable=False),
    Column("time_zone", Text, nullable=False),
    Column("jitter_seconds", Integer, nullable=False),
    Column("grace_seconds", Integer, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("run_now", Boolean, nullable=False, server_default=text("false")),
    _moment("next_run_at", needed=True),
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
    _moment("scheduled_for", needed=True),
    Column("coalesced", Integer, nullable=False, server_default=text("0")),
    Column("status", Text, nullable=False, server_default=text("'queued'")),
    _moment("claimed_until"),
    _moment("started_at"),
    _moment("finished_at"),
    Column("rows", Integer, nullable=False, server_default=text("0")),
    Column("error", Text),
    UniqueConstraint("schedule_id", "scheduled_for", "kind"),
    Index("runs_unfinished", "scheduled_for", postgresql_where=text("status IN ('queued', 'running')")),
)

outbox = Table(
    "outbox",
    metadata,
    Column("outbox_id", BigInteger, Identity(always=True), primary_key=True),
    Column("task", Text, nullable=False),
    Column("argument", Uuid, nullable=False),
    _moment("created_at", needed=True, default="now()"),
)

policies = Table(
    "policies",
    metadata,
    _tenant(),
    Column("version", Integer, primary_key=True),
    Column("body", JSONB, nullable=False),
    _moment("effective_at", needed=True, default="now()"),
)

envelopes = Table(
    "envelopes",
    metadata,
    _tenant(),
    Column("base", Uuid, primary_key=True),
    Column("memories", Integer, nullable=False),
    _moment("stored_at", needed=True, default="now()"),
)

memories = Table(
    "memories",
    metadata,
    _tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("subject", Text),
    Column("thread", Text),
    Column("speaker", Text),
    Column("external_id", Text),
    Column("kind", Text),
    Column("text", Text, nullable=False),
    Column("text_version", Integer, nullable=False, server_default=text("1")),
    _labels("tags"),
    _labels("categories"),
    _labels("entities"),
    Column("metadata", JSONB),
    _moment("occurred_at"),
    _moment("created_at", needed=True),
    _moment("updated_at"),
    _moment("deleted_at"),
    Index(
        "memories_external",
        "tenant_id",
        "external_id",
        unique=True,
        postgresql_where=text("external_id IS NOT NULL AND deleted_at IS NULL"),
    ),
    Index("memories_thread", "tenant_id", "thread", "seq", postgresql_where=text("thread IS NOT NULL")),
    Index("memories_subject", "tenant_id", "subject", "memory_id", postgresql_where=text("subject IS NOT NULL")),
)

memory_state = Table(
    "memory_state",
    metadata,
    _tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("tier", Text, nullable=False, server_default=text("'active'")),
    Column("salience", REAL),
    Column("salience_source", Text),
    Column("multiplier", REAL, nullable=False, server_default=text("1")),
    Column("access_count", Integer, nullable=False, server_default=text("0")),
    _moment("accessed_at"),
    _moment("anchored_at", needed=True),
)

memory_aliases = Table(
    "memory_aliases",
    metadata,
    _tenant(),
    Column("alias_id", Uuid, primary_key=True),
    Column("memory_id", Uuid, nullable=False),
)

memory_words = Table(
    "memory_words",
    metadata,
    _tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("own", TSVECTOR, nullable=False),
    Column("words", TSVECTOR, nullable=False),
)

words = Table(
    "words",
    metadata,
    _tenant(),
    Column("word", Text, primary_key=True),
    Column("documents", Integer, nullable=False),
)

embeddings = Table(
    "embeddings",
    metadata,
    _tenant(),
    Column("space_id", SmallInteger, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("embedding", HALFVEC, nullable=False),
    Column("by_caller", Boolean, nullable=False, server_default=text("false")),
)

scores = Table(
    "scores",
    metadata,
    _tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("scorer", Text, nullable=False),
    Column("emotional", REAL, nullable=False),
    Column("novelty", REAL, nullable=False),
    Column("actionable", REAL, nullable=False),
    Column("personal", REAL, nullable=False),
    Column("uncertainty", REAL, nullable=False),
    Column("inferred_kind", Text),
    _labels("inferred_entities"),
    _moment("scored_at", needed=True, default="now()"),
    Column("version", Text),
    Column("digest", LargeBinary),
    _labels("inferred_topics"),
    _labels("inferred_categories"),
    Column("sensitivity", REAL),
    Column("asks", SmallInteger, nullable=False, server_default=text("0")),
    Column("refused_by", Text),
    Index("scores_unrated", "tenant_id", text("uncertainty DESC"), postgresql_where=text("scorer = 'heuristic'")),
    Index("scores_known", "tenant_id", "digest", postgresql_where=text("scorer = 'llm'")),
)

rating_turns = Table(
    "rating_turns",
    metadata,
    _tenant(),
    Column("wanted", BigInteger, nullable=False, server_default=text("1")),
    _moment("created_at", needed=True, default="now()"),
    _moment("claimed_until", needed=True, default="'-infinity'"),
    Column("claim", Uuid),
)

usage = Table(
    "usage",
    metadata,
    _tenant(),
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
    _moment("claimed_until"),
    _moment("created_at", needed=True, default="now()"),
    _moment("started_at"),
    _moment("finished_at"),
    Column("error", Text),
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
    _tenant(),
    Column("letter_id", Uuid, primary_key=True),
    Column("stage", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("entry_id", Text),
    Column("memory_ids", ARRAY(Uuid), nullable=False, server_default=text("'{}'")),
    Column("payload", LargeBinary),
    _moment("created_at", needed=True, default="now()"),
    Column("header", LargeBinary),
    Column("memories", Integer, nullable=False, server_default=text("0")),
    _moment("discarded_at"),
    Column("discard_reason", Text),
    Index(
        "dead_letters_waiting",
        "tenant_id",
        "created_at",
        "letter_id",
        postgresql_where=text("discarded_at IS NULL"),
    ),
)
