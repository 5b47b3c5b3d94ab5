"""Draws of the samples that PCA bases are fitted on, and each tenant's share in the shared bases.

Revision: 0037, after 0036
"""

from __future__ import annotations

from alembic import op

revision = "0037"
down_revision = "0036"

# Existing bases have no draw: the first erasure of each tenant replaces them, because their sample isn't known.
TABLES = """
ALTER TABLE pca_bases ADD COLUMN draw_id uuid, ADD COLUMN checked_at timestamptz;
ALTER TABLE pca_samples ADD COLUMN draw_id uuid, ADD COLUMN share_id uuid;

CREATE TABLE pca_shares (
  tenant_id uuid NOT NULL,
  space_id smallint NOT NULL,
  share_id uuid NOT NULL,
  samples integer NOT NULL,
  drawn_at timestamptz NOT NULL,
  checked_at timestamptz,
  PRIMARY KEY (tenant_id, space_id)
);
ALTER TABLE pca_shares ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON pca_shares
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON pca_shares TO ebbing_app;
"""


def upgrade() -> None:
    """Add the columns and the table; the previous version leaves them empty, and its bases have no draw."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: the previous version counts a sample's rows of any draw."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE pca_shares")
    op.execute("ALTER TABLE pca_samples DROP COLUMN draw_id, DROP COLUMN share_id")
    op.execute("ALTER TABLE pca_bases DROP COLUMN draw_id, DROP COLUMN checked_at")
    op.execute("RESET ROLE")
