"""Salience of memories by criteria, with the source of each score.

Revision: 0002, after 0001
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

SCORES = """
CREATE TABLE scores (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  text_version integer NOT NULL,
  scorer text NOT NULL CHECK (scorer IN ('llm', 'heuristic')),
  emotional real NOT NULL CHECK (emotional BETWEEN 0 AND 10),
  novelty real NOT NULL CHECK (novelty BETWEEN 0 AND 10),
  actionable real NOT NULL CHECK (actionable BETWEEN 0 AND 10),
  personal real NOT NULL CHECK (personal BETWEEN 0 AND 10),
  uncertainty real NOT NULL CHECK (uncertainty BETWEEN 0 AND 1),
  inferred_kind text CHECK (inferred_kind IN ('episodic', 'semantic', 'procedural', 'emotional')),
  inferred_entities text[] NOT NULL DEFAULT '{}',
  scored_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id)
);
ALTER TABLE scores ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON scores
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON scores TO ebbing_app;
"""

# What was stored before this version waits to be scored like everything new; in items of the usual size.
QUEUE = """
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT 'score', tenant_id, array_agg(memory_id ORDER BY memory_id)
FROM (
  SELECT tenant_id, memory_id, row_number() OVER (PARTITION BY tenant_id ORDER BY memory_id) / 1000 AS item
  FROM memories WHERE deleted_at IS NULL
) AS numbered
GROUP BY tenant_id, item
"""


def upgrade() -> None:
    """Make the table, and queue what is there."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(SCORES)
    op.execute("RESET ROLE")
    op.execute(QUEUE)


def downgrade() -> None:
    """Drop the table and the work that led to it."""
    op.execute("DELETE FROM tenant_work WHERE stage = 'score'")
    op.execute("DROP TABLE scores")
