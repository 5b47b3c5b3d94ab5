"""Tables of erasures: requests, hidden data, and backups that survive a restore of the data."""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    Column,
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

_OPEN = text("status IN ('grace', 'running', 'held')")

erasures = Table(
    "erasures",
    metadata,
    tenant(),
    Column("erasure_id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("scope", JSONB, nullable=False),
    Column("reason", Text),
    moment("requested_at", needed=True),
    Column("requested_by", Text, nullable=False),
    moment("due_at"),
    moment("erase_after", needed=True),
    Column("hidden", Integer, nullable=False, server_default=text("0")),
    Column("cut", Text),
    Column("plan", JSONB),
    Column("executed", JSONB, nullable=False, server_default=text("'[]'")),
    *(moment(name) for name in ("started_at", "finished_at", "verified_at", "cancelled_at")),
    Column("report", JSONB),
    moment("rewrite_by"),
    moment("rewritten_at"),
    Column("residue", BigInteger, nullable=False, server_default=text("0")),
    Column("batch_id", Uuid),
    Index("erasures_newest", "tenant_id", text("requested_at DESC"), "erasure_id"),
    Index("erasures_open", "tenant_id", "erase_after", postgresql_where=_OPEN),
    Index(
        "erasures_rewrite",
        "tenant_id",
        "rewrite_by",
        postgresql_where=text("rewrite_by IS NOT NULL AND rewritten_at IS NULL"),
    ),
    Index(
        "erasures_coming",
        "tenant_id",
        postgresql_where=text("status IN ('grace', 'running', 'held') AND NOT scope ? 'memory_ids'"),
    ),
)

hidden_memories = Table(
    "hidden_memories",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("erasure_id", Uuid, nullable=False),
    Column("tier", Text, nullable=False),
    Index("hidden_memories_erasure", "tenant_id", "erasure_id"),
)

hidden_vectors = Table(
    "hidden_vectors",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("space_id", SmallInteger, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("vector", HALFVEC, nullable=False),
)

tombstones = Table(
    "tombstones",
    metadata,
    tenant(),
    Column("what", Text, primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("cut", Text, nullable=False),
    Column("cut_ms", BigInteger, nullable=False),
    Column("erasure_id", Uuid, nullable=False),
    moment("made_at", needed=True, default="now()"),
    Index("tombstones_cut", "tenant_id", "cut_ms"),
)

ledger_mark = Table(
    "ledger_mark",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("seq", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False, server_default=text("0")),
)

privacy_findings = Table(
    "privacy_findings",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("kinds", ARRAY(Text), nullable=False),
    Column("categories", ARRAY(Text), nullable=False),
    Column("pii", REAL, nullable=False),
    Column("sensitivity", REAL, nullable=False),
)

expiry_notices = Table(
    "expiry_notices",
    metadata,
    tenant(),
    moment("noticed_at", needed=True),
    Column("memories", Integer, nullable=False),
)

digest_keys = Table(
    "digest_keys",
    metadata,
    tenant(),
    Column("key", LargeBinary, nullable=False),
    schema="ebbing_keys",
)

erasure_ledger = Table(
    "erasure_ledger",
    metadata,
    Column("seq", BigInteger, Identity(always=True), primary_key=True),
    Column("tenant_id", Uuid, nullable=False),
    Column("erasure_id", Uuid, nullable=False),
    Column("subject", LargeBinary),
    Column("thread", LargeBinary),
    Column("memory_ids", ARRAY(Uuid)),
    Column("cut", Text, nullable=False),
    moment("entered_at", needed=True, default="now()"),
    UniqueConstraint("tenant_id", "erasure_id"),
    schema="ebbing_keys",
)

erasure_requests = Table(
    "erasure_requests",
    metadata,
    tenant(),
    Column("erasure_id", Uuid, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    Column("asked", JSONB, nullable=False),
    Column("logged", JSONB),
    schema="ebbing_keys",
)

kept_holds = Table(
    "kept_holds",
    metadata,
    tenant(),
    Column("hold_id", Uuid, primary_key=True),
    Column("placed", JSONB, nullable=False),
    schema="ebbing_keys",
)

request_mark = Table(
    "request_mark",
    metadata,
    Column("only_row", Boolean, primary_key=True, server_default=text("true")),
    Column("seq", BigInteger, nullable=False),
    schema="ebbing_keys",
)

anonymised = Table(
    "anonymised",
    metadata,
    tenant(),
    Column("digest", LargeBinary, primary_key=True),
    Column("ground", Text, primary_key=True),
    Column("memories", Integer, nullable=False),
    moment("last_at", needed=True, default="now()"),
)
