"""Imports: uploaded files, their progress, and what was skipped. The files are encrypted objects beside the exports.

Revision: 0067, after 0065
"""

from __future__ import annotations

from alembic import op

revision = "0067"
down_revision = "0065"

UP = """
-- No name and no text: the options, which may name a subject, are sealed with the file.
CREATE TABLE imports (
  tenant_id uuid NOT NULL,
  import_id uuid NOT NULL,
  job_id uuid NOT NULL,
  format text NOT NULL,
  dry_run boolean NOT NULL,
  status text NOT NULL CHECK (status IN ('running', 'done', 'failed', 'ended')),
  requested_at timestamptz NOT NULL,
  requested_by text NOT NULL,
  finished_at timestamptz,
  size_bytes bigint NOT NULL,
  objects text[] NOT NULL,
  position bigint NOT NULL DEFAULT 0,
  counts jsonb NOT NULL DEFAULT '{}',
  reasons jsonb NOT NULL DEFAULT '{}',
  skipped jsonb NOT NULL DEFAULT '[]',
  failure text,
  PRIMARY KEY (tenant_id, import_id)
);
CREATE INDEX imports_newest ON imports (tenant_id, requested_at DESC, import_id);
CREATE INDEX imports_open ON imports (tenant_id) WHERE status = 'running';
ALTER TABLE imports ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON imports
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON imports TO ebbing_app;
-- COPY and the progress are one transaction, so that a killed import stores nothing twice.
GRANT SELECT, UPDATE ON imports TO ebbing_drain;
"""


def upgrade() -> None:
    """Create the table; the previous version ignores it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: unfinished imports end, and nothing can decrypt their files."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE imports")
    op.execute("RESET ROLE")
