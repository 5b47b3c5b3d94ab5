"""Properties of the sources of summaries that decay has deleted, for erasures.

Revision: 0052, after 0051
"""

from __future__ import annotations

from alembic import op

revision = "0052"
down_revision = "0051"

UP = """
-- A summary keeps the content of such a source, so an erasure whose conditions match the source concerns the summary.
CREATE TABLE decayed_sources (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  source_id uuid NOT NULL,
  subject text,
  thread text,
  kind text,
  tags text[] NOT NULL,
  categories text[] NOT NULL,
  occurred_at timestamptz,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, memory_id, source_id)
);
CREATE INDEX decayed_sources_source ON decayed_sources (tenant_id, source_id);
ALTER TABLE decayed_sources ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON decayed_sources
USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON decayed_sources TO ebbing_app;
"""


def upgrade() -> None:
    """Create the table; of sources that were deleted before, nothing is known."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE decayed_sources")
    op.execute("RESET ROLE")
