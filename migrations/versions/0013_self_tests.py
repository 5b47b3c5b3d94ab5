"""Self-tests: what the service asks its own memory, and how that went.

Revision: 0013, after 0012
"""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

# Numbers alone: neither a question nor an answer is kept. What a run came to stays when memories of it are deleted.
TABLES = """
CREATE TABLE self_test_runs (
  tenant_id uuid NOT NULL,
  run_id uuid NOT NULL,
  as_of timestamptz NOT NULL CHECK (isfinite(as_of)),
  seed bigint NOT NULL,
  target_ms real NOT NULL,
  p50_ms real,
  p95_ms real,
  results jsonb NOT NULL DEFAULT '{}',
  started_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  PRIMARY KEY (tenant_id, run_id)
);
CREATE UNIQUE INDEX self_test_runs_unfinished ON self_test_runs (tenant_id) WHERE finished_at IS NULL;
CREATE INDEX self_test_runs_tenant ON self_test_runs (tenant_id, started_at DESC, run_id);

CREATE TABLE self_tests (
  tenant_id uuid NOT NULL,
  run_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('connection', 'application', 'coherence')),
  memory_id uuid NOT NULL,
  other_id uuid,
  passed boolean,
  place smallint,
  share real,
  milliseconds real,
  by_model boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, run_id, kind, memory_id)
);
CREATE INDEX self_tests_memory ON self_tests (tenant_id, memory_id);
CREATE INDEX self_tests_other ON self_tests (tenant_id, other_id) WHERE other_id IS NOT NULL;
"""

NAMES = ("self_test_runs", "self_tests")


def upgrade() -> None:
    """Make the tables."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    for table in NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ebbing_app")
        op.execute(f"GRANT SELECT ON {table} TO ebbing_ops")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: what tests have shown so far, and have cost, is forgotten."""
    op.execute("DELETE FROM usage WHERE purpose = 'self_test'")
    op.execute("SET ROLE ebbing_owner")
    for table in NAMES:
        op.execute(f"DROP TABLE {table}")
    op.execute("RESET ROLE")
