"""Corrections of legal holds: the ground and the reason as they were before.

Revision: 0061, after 0060
"""

from __future__ import annotations

from alembic import op

revision = "0061"
down_revision = "0060"

UP = """
CREATE TABLE hold_changes (
  tenant_id uuid NOT NULL,
  change_id uuid NOT NULL DEFAULT gen_random_uuid(),
  hold_id uuid NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_by text NOT NULL,
  ground text,
  reason text NOT NULL,
  PRIMARY KEY (tenant_id, change_id)
);
CREATE INDEX hold_changes_hold ON hold_changes (tenant_id, hold_id, changed_at);
ALTER TABLE hold_changes ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON hold_changes
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE, UPDATE (reason) ON hold_changes TO ebbing_app;
"""


def upgrade() -> None:
    """Create the table, which the previous version neither reads nor writes."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: what was corrected is forgotten."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE hold_changes")
    op.execute("RESET ROLE")
