"""Links that callers submit with a memory: those that couldn't be added, by the target's name.

Revision: 0058, after 0055
"""

from __future__ import annotations

from alembic import op

revision = "0058"
down_revision: str | None = "0056"

UP = """
-- `named` is an id or external id as submitted. The link is added when a memory with that external id arrives.
CREATE TABLE missing_links (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  named text NOT NULL,
  kind text NOT NULL,
  weight real NOT NULL CHECK (weight BETWEEN 0 AND 1),
  reason text NOT NULL CHECK (reason IN ('missing', 'itself', 'full')),
  made_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id, named, kind)
);
CREATE INDEX missing_links_named ON missing_links (tenant_id, named);
ALTER TABLE missing_links ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON missing_links
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE, UPDATE (weight, reason) ON missing_links TO ebbing_app;
"""


def upgrade() -> None:
    """Create the table; the previous version refuses the field `links` and needs no table."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the table: links that waited for their target are lost."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE missing_links")
    op.execute("RESET ROLE")
