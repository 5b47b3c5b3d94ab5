"""Personal data found in texts, and the tenants that were notified of their first expiry.

Revision: 0016, after 0015
"""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"

UP = """
-- Kinds and how sure, never the pieces themselves; a text in which nothing was found has no row.
CREATE TABLE privacy_findings (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  text_version integer NOT NULL,
  kinds text[] NOT NULL,
  categories text[] NOT NULL,
  pii real NOT NULL CHECK (pii BETWEEN 0 AND 1),
  sensitivity real NOT NULL CHECK (sensitivity BETWEEN 0 AND 1),
  PRIMARY KEY (tenant_id, memory_id)
);

-- The first night that finds something expired only tells of it; from the next on it goes.
CREATE TABLE expiry_notices (
  tenant_id uuid PRIMARY KEY,
  noticed_at timestamptz NOT NULL,
  memories integer NOT NULL CHECK (memories >= 0)
);
"""

# What was stored before is looked through like everything new; in items of the usual size.
QUEUE = """
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT 'index', tenant_id, array_agg(memory_id ORDER BY memory_id)
FROM (
  SELECT tenant_id, memory_id, row_number() OVER (PARTITION BY tenant_id ORDER BY memory_id) / 1000 AS item
  FROM memories WHERE deleted_at IS NULL
) AS numbered
GROUP BY tenant_id, item
"""

TENANT_TABLE_NAMES = ("privacy_findings", "expiry_notices")

GRANTS = "GRANT SELECT, INSERT, UPDATE, DELETE ON privacy_findings, expiry_notices TO ebbing_app"


def upgrade() -> None:
    """Make the tables, and queue what is there."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(GRANTS)
    op.execute("RESET ROLE")
    op.execute(QUEUE)


def downgrade() -> None:
    """Drop them; a later upgrade looks through all texts again."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE privacy_findings, expiry_notices")
    op.execute("RESET ROLE")
