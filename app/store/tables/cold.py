"""Tables of cold storage: segments, the records in them, and keys, which have a schema of their own."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, Table, Text, Uuid, text

from app.store.tables.columns import metadata, moment, tenant

segments = Table(
    "segments",
    metadata,
    tenant(),
    Column("segment_id", Uuid, primary_key=True),
    Column("status", Text, nullable=False, server_default=text("'writing'")),
    Column("path", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("checksum", LargeBinary, nullable=False),
    Column("records", Integer, nullable=False),
    Column("live", Integer, nullable=False, server_default=text("0")),
    moment("created_at", needed=True, default="now()"),
)

cold_memories = Table(
    "cold_memories",
    metadata,
    tenant(),
    Column("memory_id", Uuid, primary_key=True),
    Column("segment_id", Uuid, nullable=False),
    Column("start", BigInteger, nullable=False),
    Column("length", Integer, nullable=False),
    Column("checksum", LargeBinary, nullable=False),
    Column("key_id", Uuid, nullable=False),
    Column("text_version", Integer, nullable=False),
    moment("moved_at", needed=True, default="now()"),
    Index("cold_memories_segment", "tenant_id", "segment_id"),
)

owner_keys = Table(
    "owner_keys",
    metadata,
    tenant(),
    Column("owner", LargeBinary, primary_key=True),
    Column("wrapped", LargeBinary, nullable=False),
    moment("created_at", needed=True, default="now()"),
    schema="ebbing_keys",
)

record_keys = Table(
    "record_keys",
    metadata,
    tenant(),
    Column("key_id", Uuid, primary_key=True),
    Column("owner", LargeBinary, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Index("record_keys_owner", "tenant_id", "owner"),
    schema="ebbing_keys",
)
