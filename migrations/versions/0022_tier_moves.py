"""Number of memories that moved between tiers, by day and reason.

Revision: 0022, after 0021
"""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"

UP = """
-- Written by the transactions that move memories. Days are of UTC, so that no change of a policy moves them.
CREATE TABLE tier_moves (
  tenant_id uuid NOT NULL,
  day date NOT NULL,
  move text NOT NULL,
  rule text NOT NULL,
  memories bigint NOT NULL,
  PRIMARY KEY (tenant_id, day, move, rule)
);
ALTER TABLE tier_moves ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON tier_moves
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON tier_moves TO ebbing_app;
-- The last moves among very many uses.
CREATE INDEX memory_events_moves ON memory_events (tenant_id, at DESC, event_id DESC)
  WHERE kind IN ('tier', 'restored');
CREATE INDEX reviews_flagged ON reviews (tenant_id, due_at DESC, memory_id) WHERE flagged;
"""

DOWN = """
DROP INDEX reviews_flagged;
DROP INDEX memory_events_moves;
DROP TABLE tier_moves;
"""


def upgrade() -> None:
    """Make the table, and the indexes."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: the memories are where they are, and the audit says how they came there."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
