"""The archive: memories with their words and reduced vectors, and the bases of the reduction.

Revision: 0007, after 0006
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"

# A vector without a basis is kept whole. A basis of the nil tenant is shared: RLS lets a tenant see its own alone.
TABLES = """
CREATE TABLE archived_memories (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  text_version integer NOT NULL,
  own tsvector,
  space_id smallint,
  basis_id bigint,
  vector halfvec,
  by_caller boolean NOT NULL DEFAULT false,
  archived_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id),
  CHECK ((vector IS NULL) = (space_id IS NULL)),
  CHECK (basis_id IS NULL OR vector IS NOT NULL)
);
CREATE INDEX archived_memories_basis ON archived_memories (tenant_id, space_id, basis_id);

CREATE TABLE pca_bases (
  tenant_id uuid NOT NULL,
  basis_id bigint GENERATED ALWAYS AS IDENTITY,
  space_id smallint NOT NULL,
  matrix bytea NOT NULL,
  mean bytea NOT NULL,
  variance_kept real NOT NULL CHECK (variance_kept BETWEEN 0 AND 1),
  samples integer NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, basis_id)
);

CREATE TABLE pca_samples (
  tenant_id uuid NOT NULL,
  space_id smallint NOT NULL,
  memory_id uuid NOT NULL,
  subject text,
  vector halfvec NOT NULL,
  PRIMARY KEY (tenant_id, space_id, memory_id)
);
"""

TENANT_TABLE_NAMES = ("archived_memories", "pca_bases", "pca_samples")

# Searches find archived memories again once they are indexed and embedded again.
RETURN = """
WITH back AS (
  UPDATE memory_state SET tier = 'active', next_due_at = '-infinity' WHERE tier = 'archived'
  RETURNING tenant_id, memory_id
)
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT stage, tenant_id, array_agg(memory_id)
FROM back CROSS JOIN unnest(ARRAY['index', 'embed']) AS stage GROUP BY stage, tenant_id;
"""


def upgrade() -> None:
    """Add the tables."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Bring what is archived back, and drop the tables."""
    op.execute(RETURN)
    for table in reversed(TENANT_TABLE_NAMES):
        op.execute(f"DROP TABLE {table}")
