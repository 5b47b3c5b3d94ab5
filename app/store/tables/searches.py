"""Table of recorded searches."""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import ARRAY, BigInteger, Column, Index, LargeBinary, SmallInteger, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.columns import metadata, moment, tenant

recorded_searches = Table(
    "recorded_searches",
    metadata,
    tenant(),
    Column("search_id", Uuid, primary_key=True),
    moment("searched_at", needed=True),
    Column("session", BigInteger, nullable=False),
    Column("subject", Text),
    Column("thread", Text),
    Column("request", JSONB, nullable=False),
    Column("space_id", SmallInteger),
    Column("vector", HALFVEC),
    Column("term_ids", ARRAY(BigInteger), nullable=False),
    Column("memory_ids", ARRAY(Uuid), nullable=False),
    Column("layout", BigInteger, nullable=False),
    Column("parts", LargeBinary, nullable=False),
    Column("bases", ARRAY(Text), nullable=False),
    Column("results", ARRAY(SmallInteger), nullable=False),
    Column("corrections", ARRAY(SmallInteger), nullable=False),
    Column("used", ARRAY(SmallInteger), nullable=False, server_default=text("'{}'")),
    Index("recorded_searches_age", "tenant_id", "searched_at", "search_id"),
)
