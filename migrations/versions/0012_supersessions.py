"""Supersessions: memories that supersede older ones, and proposals of such pairs.

Revision: 0012, after 0011
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"

# A reference that names no memory yet is `waiting`; all others are pairs of memories. By the index of the status and
# the older memory, searches leave out what isn't current; `since` is the moment from which on it isn't.
TABLES = """
CREATE TABLE supersessions (
  tenant_id uuid NOT NULL,
  supersession_id uuid NOT NULL DEFAULT gen_random_uuid(),
  memory_id uuid NOT NULL,
  superseded_id uuid,
  named text,
  status text NOT NULL CHECK (status IN ('active', 'waiting', 'proposed', 'rejected')),
  source text NOT NULL CHECK (source IN ('caller', 'model', 'person')),
  reason text,
  since timestamptz,
  made_at timestamptz NOT NULL DEFAULT now(),
  decided_at timestamptz,
  decided_by text,
  PRIMARY KEY (tenant_id, supersession_id),
  CHECK (memory_id <> superseded_id),
  CHECK (CASE WHEN status = 'waiting' THEN named IS NOT NULL AND superseded_id IS NULL
    ELSE named IS NULL AND superseded_id IS NOT NULL AND since IS NOT NULL END)
);
CREATE UNIQUE INDEX supersessions_pair ON supersessions (tenant_id, memory_id, superseded_id);
CREATE UNIQUE INDEX supersessions_waiting ON supersessions (tenant_id, memory_id, named) WHERE status = 'waiting';
CREATE INDEX supersessions_back ON supersessions (tenant_id, status, superseded_id, since);

-- Up to when a tenant's memories were looked at for contradictions.
CREATE TABLE contradiction_watermarks (
  tenant_id uuid PRIMARY KEY,
  accepted_until timestamptz NOT NULL
);
"""

TENANT_TABLE_NAMES = ("supersessions", "contradiction_watermarks")

# What a model may be asked for is said in one place, the code: a list here would have to change with each purpose.
PURPOSES = """
ALTER TABLE usage
  DROP CONSTRAINT usage_purpose_check,
  ADD CONSTRAINT usage_purpose_check CHECK (purpose ~ '^[a-z_]{1,32}$') NOT VALID
"""

GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON supersessions TO ebbing_app;
GRANT SELECT, INSERT, UPDATE ON contradiction_watermarks TO ebbing_app;
GRANT SELECT ON contradiction_watermarks TO ebbing_ops;
"""


def upgrade() -> None:
    """Make the tables; nothing is superseded yet."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(GRANTS)
    op.execute(PURPOSES)
    op.execute("ALTER TABLE usage VALIDATE CONSTRAINT usage_purpose_check")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: every memory is current again, and what was proposed or decided is forgotten."""
    op.execute("SET ROLE ebbing_owner")
    for table in TENANT_TABLE_NAMES:
        op.execute(f"DROP TABLE {table}")
    op.execute("DELETE FROM usage WHERE purpose NOT IN ('score', 'embed', 'query', 'rerank')")
    op.execute(
        "ALTER TABLE usage DROP CONSTRAINT usage_purpose_check, "
        "ADD CONSTRAINT usage_purpose_check CHECK (purpose IN ('score', 'embed', 'query', 'rerank'))"
    )
    op.execute("RESET ROLE")
