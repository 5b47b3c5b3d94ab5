"""People who log in to the dashboard through an OpenID Connect provider.

Revision: 0044, after 0043
"""

from __future__ import annotations

from alembic import op

revision = "0044"
down_revision = "0043"

UP = """
-- Audit entries and other records hold the id only, so deleting a row removes the person from all of them.
CREATE TABLE operators (
  tenant_id uuid NOT NULL,
  operator_id uuid NOT NULL,
  issuer text NOT NULL,
  sub text NOT NULL,
  name text NOT NULL,
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, operator_id),
  UNIQUE (tenant_id, issuer, sub)
);
ALTER TABLE operators ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON operators
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, DELETE, UPDATE (name, seen_at) ON operators TO ebbing_app;
"""


def upgrade() -> None:
    """Add the table, which the previous version doesn't use."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: records then show the ids of people without their names."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE operators")
    op.execute("RESET ROLE")
