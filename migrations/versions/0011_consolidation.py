"""Consolidation: merges with their source memories, progress marks, and the results of runs.

Revision: 0011, after 0010
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"

UP = """
-- What a memory comes from: a caller, or a summary of others. A constant default: no row is written anew.
ALTER TABLE memories ADD COLUMN made_by text NOT NULL DEFAULT 'caller'
  CHECK (made_by IN ('caller', 'consolidation'));
ALTER TABLE memory_state DROP CONSTRAINT memory_state_salience_source_check;
ALTER TABLE memory_state ADD CONSTRAINT memory_state_salience_source_check
  CHECK (salience_source IN ('caller', 'llm', 'heuristic', 'consolidation'));
CREATE INDEX memories_edited ON memories (tenant_id, updated_at, memory_id) WHERE updated_at IS NOT NULL;

-- A group of memories that belong together and what became of them. Only `key_points` say something of them.
CREATE TABLE merges (
  tenant_id uuid NOT NULL,
  merge_id uuid NOT NULL,
  run_id uuid NOT NULL,
  action text NOT NULL CHECK (action IN ('link', 'summary', 'support', 'narrative', 'duplicates')),
  status text NOT NULL CHECK (status IN ('waiting', 'done', 'rejected', 'undone', 'gone')),
  level text NOT NULL CHECK (level IN ('light', 'medium', 'aggressive')),
  cohesion real NOT NULL CHECK (cohesion BETWEEN -1 AND 1),
  sources integer NOT NULL CHECK (sources > 0),
  summary_id uuid,
  summary_version integer,
  method text CHECK (method IN ('llm', 'extractive')),
  model text,
  key_points text[] NOT NULL DEFAULT '{}',
  is_stale boolean NOT NULL DEFAULT false,
  characters_before integer NOT NULL DEFAULT 0 CHECK (characters_before >= 0),
  characters_after integer NOT NULL DEFAULT 0 CHECK (characters_after >= 0),
  created_at timestamptz NOT NULL,
  decided_at timestamptz,
  decided_by text,
  PRIMARY KEY (tenant_id, merge_id)
);
CREATE INDEX merges_stale ON merges (tenant_id, merge_id) WHERE is_stale;
CREATE INDEX merges_newest ON merges (tenant_id, created_at DESC, merge_id);
CREATE UNIQUE INDEX merges_summary ON merges (tenant_id, summary_id) WHERE summary_id IS NOT NULL;

-- Which memories a merge took, and as what: its text went into the summary, it was kept beside it, or only linked.
CREATE TABLE lineage (
  tenant_id uuid NOT NULL,
  merge_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  text_version integer NOT NULL,
  part text NOT NULL CHECK (part IN ('source', 'kept', 'linked')),
  PRIMARY KEY (tenant_id, merge_id, memory_id)
);
CREATE INDEX lineage_memory ON lineage (tenant_id, memory_id);

CREATE TABLE consolidation_runs (
  tenant_id uuid NOT NULL,
  run_id uuid NOT NULL,
  started_by text NOT NULL CHECK (started_by IN ('night', 'count', 'quota', 'hand')),
  level text NOT NULL CHECK (level IN ('light', 'medium', 'aggressive')),
  as_of timestamptz NOT NULL,
  started_at timestamptz NOT NULL DEFAULT now(),
  finished_at timestamptz,
  looked_at integer NOT NULL DEFAULT 0,
  clusters integer NOT NULL DEFAULT 0,
  linked integer NOT NULL DEFAULT 0,
  merged integer NOT NULL DEFAULT 0,
  summaries integer NOT NULL DEFAULT 0,
  by_model integer NOT NULL DEFAULT 0,
  waiting integer NOT NULL DEFAULT 0,
  characters_before bigint NOT NULL DEFAULT 0,
  characters_after bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant_id, run_id)
);
CREATE INDEX consolidation_runs_newest ON consolidation_runs (tenant_id, started_at DESC, run_id);

-- How far a tenant's memories have been compared, by age: each is looked at when it is no longer kept in full, and
-- again when it is old; and those that were edited since.
CREATE TABLE consolidation_marks (
  tenant_id uuid NOT NULL,
  age text NOT NULL CHECK (age IN ('settled', 'old', 'edited')),
  after_id uuid NOT NULL,
  after_at timestamptz NOT NULL DEFAULT '-infinity',
  PRIMARY KEY (tenant_id, age)
);
"""

TENANT_TABLE_NAMES = ("merges", "lineage", "consolidation_runs", "consolidation_marks")

GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON merges, lineage, consolidation_runs, consolidation_marks TO ebbing_app;
GRANT SELECT ON lineage, consolidation_runs, consolidation_marks TO ebbing_ops;
"""

DOWN = """
DROP TABLE consolidation_marks, consolidation_runs, lineage, merges;
DROP INDEX memories_edited;
UPDATE memory_state SET salience_source = 'heuristic' WHERE salience_source = 'consolidation';
ALTER TABLE memory_state DROP CONSTRAINT memory_state_salience_source_check;
ALTER TABLE memory_state ADD CONSTRAINT memory_state_salience_source_check
  CHECK (salience_source IN ('caller', 'llm', 'heuristic'));
ALTER TABLE memories DROP COLUMN made_by;
"""


def upgrade() -> None:
    """Make the tables."""
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


def downgrade() -> None:
    """Drop the tables: summaries remain as ordinary memories, without a record of their sources."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
