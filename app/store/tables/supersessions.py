"""Tables of supersessions, and of the progress of the contradiction check."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.columns import metadata, moment, tenant

supersessions = Table(
    "supersessions",
    metadata,
    tenant(),
    Column("supersession_id", Uuid, primary_key=True, server_default=text("gen_random_uuid()")),
    Column("memory_id", Uuid, nullable=False),
    Column("superseded_id", Uuid),
    Column("named", Text),
    Column("status", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("reason", Text),
    moment("since"),
    moment("made_at", needed=True, default="now()"),
    moment("decided_at"),
    Column("decided_by", Text),
    Index("supersessions_pair", "tenant_id", "memory_id", "superseded_id", unique=True),
    Index(
        "supersessions_waiting",
        "tenant_id",
        "memory_id",
        "named",
        unique=True,
        postgresql_where=text("status = 'waiting'"),
    ),
    Index("supersessions_back", "tenant_id", "status", "superseded_id", "since"),
)

hidden_supersessions = Table(
    "hidden_supersessions",
    metadata,
    tenant(),
    Column("supersession_id", Uuid, primary_key=True),
    Column("is_added", Boolean, primary_key=True),
    Column("erasure_id", Uuid, nullable=False),
    Column("memory_id", Uuid, nullable=False),
    Column("superseded_id", Uuid),
    Column("body", JSONB, nullable=False),
    Index("hidden_supersessions_erasure", "tenant_id", "erasure_id"),
    Index("hidden_supersessions_newer", "tenant_id", "memory_id"),
    Index("hidden_supersessions_older", "tenant_id", "superseded_id"),
)

contradiction_watermarks = Table("contradiction_watermarks", metadata, tenant(), moment("accepted_until", needed=True))
