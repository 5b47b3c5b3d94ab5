"""Links of memories in cold storage, for updates, dumps and exports, which don't read the records' links.

Revision: 0073, after 0072
"""

from __future__ import annotations

from alembic import op

revision = "0073"
down_revision = "0072"

# A link is deleted with the location of its memory's record, also by processes of the previous version.
TABLE = """
CREATE TABLE cold_links (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  other_id uuid NOT NULL CHECK (other_id <> memory_id),
  kind text NOT NULL,
  weight real NOT NULL CHECK (weight BETWEEN 0 AND 1),
  source text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, memory_id, other_id, kind),
  FOREIGN KEY (tenant_id, memory_id) REFERENCES cold_memories ON DELETE CASCADE
);
CREATE INDEX cold_links_back ON cold_links (tenant_id, other_id);
ALTER TABLE cold_links ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON cold_links
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE ON cold_links TO ebbing_app;
"""


def upgrade() -> None:
    """Create the table; links of memories that are cold already are only in their records."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLE)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: the records have the same links."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE cold_links")
    op.execute("RESET ROLE")
