"""Retention that callers state: for a memory, its time of expiry; for a subject, days by category.

Revision: 0055, after 0052
"""

from __future__ import annotations

from alembic import op

revision = "0055"
down_revision = "0052"

UP = """
ALTER TABLE memories ADD COLUMN expires_at timestamptz;
CREATE INDEX memories_stated_expiry ON memories (tenant_id, memory_id) WHERE expires_at IS NOT NULL;
-- The category is in lower case; the empty category applies to all memories of the subject.
CREATE TABLE subject_retention (
  tenant_id uuid NOT NULL,
  subject text NOT NULL,
  category text NOT NULL,
  keep_days double precision NOT NULL CHECK (keep_days > 0 AND keep_days <= 36500),
  set_at timestamptz NOT NULL DEFAULT now(),
  set_by text NOT NULL,
  PRIMARY KEY (tenant_id, subject, category)
);
ALTER TABLE subject_retention ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON subject_retention
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE, UPDATE (keep_days, set_at, set_by) ON subject_retention TO ebbing_app;
"""


def upgrade() -> None:
    """Add the column and the table; the previous version writes and reads neither."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop both: stated times of expiry are lost."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE subject_retention")
    op.execute("ALTER TABLE memories DROP COLUMN expires_at")
    op.execute("RESET ROLE")
