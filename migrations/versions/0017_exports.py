"""Exports of a subject's data, and the log of privacy requests.

Revision: 0017, after 0016
"""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"

UP = """
-- What was asked for, and how far it is. Whose it is stands here until it expires, or they are erased.
CREATE TABLE exports (
  tenant_id uuid NOT NULL,
  export_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('access', 'portable')),
  status text NOT NULL CHECK (status IN ('running', 'ready', 'expired')),
  subject text,
  reason text,
  law text NOT NULL CHECK (law IN ('user', 'gdpr', 'ccpa')),
  requested_at timestamptz NOT NULL,
  requested_by text NOT NULL,
  job_id uuid NOT NULL,
  finished_at timestamptz,
  expires_at timestamptz NOT NULL,
  place jsonb NOT NULL DEFAULT '{"section": 0, "after": null}',
  parts jsonb NOT NULL DEFAULT '[]',
  counts jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (tenant_id, export_id)
);
CREATE INDEX exports_newest ON exports (tenant_id, requested_at DESC, export_id);
CREATE INDEX exports_subject ON exports (tenant_id, subject) WHERE subject IS NOT NULL;

-- What was asked, when, and what was answered, kept 24 months; nothing in it says about whom.
CREATE TABLE privacy_requests (
  tenant_id uuid NOT NULL,
  request_id uuid NOT NULL,
  nature text NOT NULL CHECK (nature IN ('erasure', 'access', 'portable', 'correction', 'restriction', 'objection')),
  law text NOT NULL CHECK (law IN ('user', 'gdpr', 'ccpa')),
  manner text NOT NULL CHECK (manner IN ('api', 'mail', 'letter', 'telephone', 'form', 'person')),
  received_at timestamptz NOT NULL,
  confirm_by timestamptz,
  due_at timestamptz,
  confirmed_at timestamptz,
  answered_at timestamptz,
  answer text CHECK (answer IN ('done', 'cancelled', 'denied')),
  basis text,
  CHECK ((answer IS NULL) = (answered_at IS NULL)),
  CHECK ((basis IS NOT NULL) = (answer IS NOT DISTINCT FROM 'denied')),
  PRIMARY KEY (tenant_id, request_id)
);
CREATE INDEX privacy_requests_newest ON privacy_requests (tenant_id, received_at DESC, request_id);

CREATE VIEW privacy_request_days WITH (security_invoker = true) AS
SELECT tenant_id, request_id, nature, law, received_at, answer,
  extract(epoch FROM answered_at - received_at)::float8 / 86400 AS days,
  extract(epoch FROM confirmed_at - received_at)::float8 / 86400 AS days_to_confirm,
  coalesce(coalesce(confirmed_at, answered_at, now()) > confirm_by, false) AS confirmed_late,
  coalesce(coalesce(answered_at, now()) > due_at, false) AS late
FROM privacy_requests;
"""

TENANT_TABLE_NAMES = ("exports", "privacy_requests")

GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON exports, privacy_requests TO ebbing_app;
GRANT SELECT ON privacy_request_days TO ebbing_app;
"""


def upgrade() -> None:
    """Make the tables and the view."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(GRANTS)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: exports that are there can't be fetched any more, and the log is gone."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP VIEW privacy_request_days; DROP TABLE privacy_requests, exports")
    op.execute("RESET ROLE")
