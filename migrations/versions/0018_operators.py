"""Manual actions of operators on the dashboard, with their reasons.

Revision: 0018, after 0017
"""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"

UP = """
-- The reason is somebody's words: it stands here for a limited time, and not in the audit's chain.
CREATE TABLE operator_acts (
  tenant_id uuid NOT NULL,
  act_id uuid NOT NULL,
  at timestamptz NOT NULL,
  actor text NOT NULL,
  act text NOT NULL,
  target text NOT NULL,
  reason text NOT NULL,
  PRIMARY KEY (tenant_id, act_id)
);
CREATE INDEX operator_acts_newest ON operator_acts (tenant_id, at DESC, act_id DESC);
ALTER TABLE operator_acts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON operator_acts
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON operator_acts TO ebbing_app;
"""


def upgrade() -> None:
    """Make the table."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: what was done stays in the audit, the reasons are gone."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE operator_acts")
    op.execute("RESET ROLE")
