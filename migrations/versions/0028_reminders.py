"""Flags of a memory that a conversation can ask for without sharing a word with it: bridges, days and months.

Revision: 0028, after 0027
"""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"

FLAGS = """
ALTER TABLE memory_state ADD COLUMN reminders integer;
CREATE INDEX memory_state_reminders ON memory_state (tenant_id, memory_id) INCLUDE (reminders)
  WHERE tier = 'active' AND reminders > 0;
"""

# The index stage sets the flags: memories stored before this version wait for it like new ones, in items of the usual
# size.
QUEUE = """
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT 'index', tenant_id, array_agg(memory_id ORDER BY memory_id)
FROM (
  SELECT tenant_id, memory_id, row_number() OVER (PARTITION BY tenant_id ORDER BY memory_id) / 1000 AS item
  FROM memories WHERE deleted_at IS NULL
) AS numbered
GROUP BY tenant_id, item
"""


def upgrade() -> None:
    """Add the column, and queue the stored memories."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(FLAGS)
    op.execute("RESET ROLE")
    op.execute(QUEUE)


def downgrade() -> None:
    """Drop the column; queued work is harmless."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP INDEX memory_state_reminders")
    op.execute("ALTER TABLE memory_state DROP COLUMN reminders")
    op.execute("RESET ROLE")
