"""Supersessions that a cancelled erasure restores, and the legal grounds for retaining anonymised memories.

Revision: 0020, after 0019
"""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"

# `body` is the row as it was. What was added to close a chain stands here too: it goes when the chain is whole again.
UP = """
CREATE TABLE hidden_supersessions (
  tenant_id uuid NOT NULL,
  supersession_id uuid NOT NULL,
  is_added boolean NOT NULL,
  erasure_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  superseded_id uuid,
  body jsonb NOT NULL,
  PRIMARY KEY (tenant_id, supersession_id, is_added)
);
CREATE INDEX hidden_supersessions_erasure ON hidden_supersessions (tenant_id, erasure_id);
CREATE INDEX hidden_supersessions_newer ON hidden_supersessions (tenant_id, memory_id);
CREATE INDEX hidden_supersessions_older ON hidden_supersessions (tenant_id, superseded_id);

-- How many memories of a subject or thread, by the digest of its name, were made anonymous, and why they are kept.
-- Which they are isn't said: that would lead back to whom they were about.
CREATE TABLE anonymised (
  tenant_id uuid NOT NULL,
  digest bytea NOT NULL,
  ground text NOT NULL,
  memories integer NOT NULL,
  last_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, digest, ground)
);
"""

TENANT_TABLE_NAMES = ("hidden_supersessions", "anonymised")


def upgrade() -> None:
    """Make the tables; what is hidden by now has lost its supersessions, or still has them."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON hidden_supersessions, anonymised TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: deletions that are cancelled later bring memories back without what they superseded."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE hidden_supersessions, anonymised")
    op.execute("RESET ROLE")
