"""Tables of subject data exports and of the request log."""

from __future__ import annotations

from sqlalchemy import Column, Index, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import JSONB

from app.store.tables.columns import metadata, moment, tenant

exports = Table(
    "exports",
    metadata,
    tenant(),
    Column("export_id", Uuid, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("kind", "status")),
    *(Column(name, Text) for name in ("subject", "reason")),
    Column("law", Text, nullable=False),
    moment("requested_at", needed=True),
    Column("requested_by", Text, nullable=False),
    Column("job_id", Uuid, nullable=False),
    moment("finished_at"),
    moment("expires_at", needed=True),
    Column("place", JSONB, nullable=False, server_default=text('\'{"section": 0, "after": null}\'')),
    Column("parts", JSONB, nullable=False, server_default=text("'[]'")),
    Column("counts", JSONB, nullable=False, server_default=text("'{}'")),
    Index("exports_newest", "tenant_id", text("requested_at DESC"), "export_id"),
    Index("exports_subject", "tenant_id", "subject", postgresql_where=text("subject IS NOT NULL")),
)

privacy_requests = Table(
    "privacy_requests",
    metadata,
    tenant(),
    Column("request_id", Uuid, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("nature", "law", "manner")),
    moment("received_at", needed=True),
    *(moment(name) for name in ("confirm_by", "due_at", "confirmed_at", "answered_at")),
    *(Column(name, Text) for name in ("answer", "basis")),
    Index("privacy_requests_newest", "tenant_id", text("received_at DESC"), "request_id"),
    Index("privacy_requests_open", "tenant_id", "due_at", postgresql_where=text("answer IS NULL")),
)
