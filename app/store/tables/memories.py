"""Tables of memories and their derived data."""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import REAL, TSVECTOR

from app.domain.ingest.memory import COLUMNS
from app.store.tables.columns import declared, labels, metadata, moment, tenant

envelopes = Table(
    "envelopes",
    metadata,
    tenant(),
    Column("base", Uuid, primary_key=True),
    Column("memories", Integer, nullable=False),
    moment("stored_at", needed=True, default="now()"),
)

memories = Table(
    "memories",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("seq", BigInteger, nullable=False),
    *map(declared, COLUMNS),
    Column("text_version", Integer, nullable=False, server_default=text("1")),
    moment("created_at", needed=True),
    moment("updated_at"),
    moment("deleted_at"),
    Column("made_by", Text, nullable=False, server_default=text("'caller'")),
    Column("says_change", Boolean, nullable=False, server_default=text("false")),
    Index(
        "memories_external",
        "tenant_id",
        "external_id",
        unique=True,
        postgresql_where=text("external_id IS NOT NULL AND deleted_at IS NULL"),
    ),
    Index("memories_thread", "tenant_id", "thread", "seq", postgresql_where=text("thread IS NOT NULL")),
    Index("memories_subject", "tenant_id", "subject", "memory_id", postgresql_where=text("subject IS NOT NULL")),
    Index("memories_edited", "tenant_id", "updated_at", "memory_id", postgresql_where=text("updated_at IS NOT NULL")),
    Index("memories_deleted", "tenant_id", "memory_id", postgresql_where=text("deleted_at IS NOT NULL")),
    Index(
        "memories_aside",
        "tenant_id",
        "memory_id",
        postgresql_where=text("deleted_at IS NULL AND coalesce(role, speaker) IN ('system', 'tool')"),
    ),
    Index(
        "memories_changes",
        "tenant_id",
        text("coalesce(occurred_at, created_at)"),
        postgresql_where=text("says_change"),
    ),
)

memory_state = Table(
    "memory_state",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("tier", Text, nullable=False, server_default=text("'active'")),
    Column("salience", REAL),
    Column("salience_source", Text),
    Column("multiplier", REAL, nullable=False, server_default=text("1")),
    Column("access_count", Integer, nullable=False, server_default=text("0")),
    moment("accessed_at", needed=True),
    moment("anchored_at", needed=True),
    Column("kind", SmallInteger, nullable=False, server_default=text("0")),
    Column("pace", REAL, nullable=False, server_default=text("1")),
    Column("suggested_multiplier", REAL),
    moment("created_at", needed=True),
    Column("level", Double, nullable=False, server_default=text("0")),
    Column("retrieval", Double, nullable=False, server_default=text("1")),
    Column("stability", Double, nullable=False, server_default=text("0")),
    Column("policy_version", Integer, nullable=False, server_default=text("0")),
    Column("wanted_tier", Text, nullable=False, server_default=text("'active'")),
    moment("next_due_at", needed=True, default="'-infinity'"),
    Column("cross_domain_count", Integer, nullable=False, server_default=text("0")),
    moment("promoted_at"),
    Column("promoted_for", Text),
    moment("restored_at"),
    Column("reminders", Integer),
    Index(
        "memory_state_reminders",
        "tenant_id",
        "memory_id",
        postgresql_include=["reminders"],
        postgresql_where=text("tier = 'active' AND reminders > 0"),
    ),
    Index("memory_state_unmoved", "tenant_id", "memory_id", postgresql_where=text("wanted_tier <> tier")),
    Index("memory_state_due", "tenant_id", "next_due_at", postgresql_where=text("next_due_at < 'infinity'")),
    Index("memory_state_elsewhere", "tenant_id", "memory_id", postgresql_where=text("tier <> 'active'")),
)

memory_events = Table(
    "memory_events",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("at", DateTime(timezone=True), primary_key=True),
    Column("event_id", BigInteger, Identity(always=True), primary_key=True),
    Column("kind", Text, nullable=False),
    Column("before", REAL),
    Column("after", REAL),
    Column("strength", REAL),
    Column("session", BigInteger),
    Index("memory_events_old", "tenant_id", "at"),
    Index(
        "memory_events_moves",
        "tenant_id",
        text("at DESC"),
        text("event_id DESC"),
        postgresql_where=text("kind IN ('tier', 'restored')"),
    ),
)

links = Table(
    "links",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("other_id", Uuid, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("weight", REAL, nullable=False, server_default=text("1")),
    Column("source", Text, nullable=False, server_default=text("'caller'")),
    moment("created_at", needed=True, default="now()"),
    Index("links_back", "tenant_id", "other_id"),
    Index("links_corrections", "tenant_id", "other_id", postgresql_where=text("kind = 'corrects'")),
)

reviews = Table(
    "reviews",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    moment("due_at", needed=True),
    Column("interval_days", REAL, nullable=False),
    moment("reviewed_at", needed=True),
    Column("review_count", Integer, nullable=False, server_default=text("1")),
    Column("flagged", Boolean, nullable=False, server_default=text("false")),
    Index("reviews_flagged", "tenant_id", text("due_at DESC"), "memory_id", postgresql_where=text("flagged")),
)

holds = Table(
    "holds",
    metadata,
    tenant(),
    Column("hold_id", Uuid, primary_key=True),
    Column("memory_ids", ARRAY(Uuid)),
    Column("subject", Text),
    Column("thread", Text),
    *(Column(name, ARRAY(Text)) for name in ("tags", "categories", "kinds")),
    moment("after"),
    moment("before"),
    Column("reason", Text, nullable=False),
    moment("placed_at", needed=True, default="now()"),
    Column("placed_by", Text, nullable=False),
    moment("released_at"),
    Column("released_by", Text),
)

memory_aliases = Table(
    "memory_aliases",
    metadata,
    tenant(),
    Column("alias_id", Uuid, primary_key=True),
    Column("memory_id", Uuid, nullable=False),
    Index("memory_aliases_memory", "tenant_id", "memory_id"),
)

memory_words = Table(
    "memory_words",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("own", TSVECTOR, nullable=False),
    Column("words", TSVECTOR, nullable=False),
)

words = Table(
    "words",
    metadata,
    tenant(),
    Column("word", Text, primary_key=True),
    Column("documents", Integer, nullable=False),
    Column("word_id", BigInteger, Identity(always=True, cache=100), nullable=False),
)

embeddings = Table(
    "embeddings",
    metadata,
    tenant(),
    Column("space_id", SmallInteger, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("embedding", HALFVEC, nullable=False),
    Column("by_caller", Boolean, nullable=False, server_default=text("false")),
    Column("grafted", Boolean, nullable=False, server_default=text("false")),
)

memory_windows = Table(
    "memory_windows",
    metadata,
    tenant(),
    Column("space_id", SmallInteger, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("place", SmallInteger, primary_key=True),
    Column("from_char", Integer, nullable=False),
    Column("to_char", Integer, nullable=False),
    Column("embedding", HALFVEC, nullable=False),
    Column("grafted", Boolean, nullable=False, server_default=text("false")),
    ForeignKeyConstraint(
        ["tenant_id", "space_id", "memory_id"],
        ["embeddings.tenant_id", "embeddings.space_id", "embeddings.memory_id"],
        ondelete="CASCADE",
    ),
)

scores = Table(
    "scores",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("scorer", Text, nullable=False),
    Column("emotional", REAL, nullable=False),
    Column("novelty", REAL, nullable=False),
    Column("actionable", REAL, nullable=False),
    Column("personal", REAL, nullable=False),
    Column("uncertainty", REAL, nullable=False),
    Column("inferred_kind", Text),
    labels("inferred_entities"),
    moment("scored_at", needed=True, default="now()"),
    Column("version", Text),
    Column("digest", LargeBinary),
    labels("inferred_topics"),
    labels("inferred_categories"),
    Column("sensitivity", REAL),
    Column("asks", SmallInteger, nullable=False, server_default=text("0")),
    Column("refused_by", Text),
    labels("inferred_cues"),
    labels("cue_stems"),
    Index(
        "scores_cues",
        text("cue_keys(tenant_id, cue_stems)"),
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
        postgresql_where=text("cue_stems <> '{}'"),
    ),
    Index("scores_unrated", "tenant_id", text("uncertainty DESC"), postgresql_where=text("scorer = 'heuristic'")),
    Index("scores_known", "tenant_id", "digest", postgresql_where=text("scorer = 'llm'")),
)

archived_memories = Table(
    "archived_memories",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("text_version", Integer, nullable=False),
    Column("own", TSVECTOR),
    Column("space_id", SmallInteger),
    Column("basis_id", BigInteger),
    Column("vector", HALFVEC),
    Column("by_caller", Boolean, nullable=False, server_default=text("false")),
    moment("archived_at", needed=True, default="now()"),
    Index("archived_memories_basis", "tenant_id", "space_id", "basis_id"),
)

pca_bases = Table(
    "pca_bases",
    metadata,
    tenant(),
    Column("basis_id", BigInteger, Identity(always=True), primary_key=True),
    Column("space_id", SmallInteger, nullable=False),
    Column("matrix", LargeBinary, nullable=False),
    Column("mean", LargeBinary, nullable=False),
    Column("variance_kept", REAL, nullable=False),
    Column("samples", Integer, nullable=False),
    moment("made_at", needed=True, default="now()"),
    Column("draw_id", Uuid),
    moment("checked_at"),
)

pca_samples = Table(
    "pca_samples",
    metadata,
    tenant(),
    Column("space_id", SmallInteger, primary_key=True),
    Column("memory_id", Uuid, primary_key=True),
    Column("subject", Text),
    Column("vector", HALFVEC, nullable=False),
    Column("draw_id", Uuid),
    Column("share_id", Uuid),
)

pca_shares = Table(
    "pca_shares",
    metadata,
    tenant(),
    Column("space_id", SmallInteger, primary_key=True),
    Column("share_id", Uuid, nullable=False),
    Column("samples", Integer, nullable=False),
    moment("drawn_at", needed=True),
    moment("checked_at"),
)
