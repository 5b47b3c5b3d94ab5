"""Provenance: the source of memories and API keys, the key that wrote a memory, and quarantines.

Revision: 0071, after 0068
"""

from __future__ import annotations

from alembic import op

revision = "0071"
down_revision = "0070"

# A missing source means `unknown`: that of every key and memory from before, and of those that the version before adds.
UP = """
ALTER TABLE api_keys ADD COLUMN source text CHECK (source IN ('user', 'agent', 'document', 'tool', 'import'));
ALTER TABLE memories ADD COLUMN source text, ADD COLUMN written_by text;
ALTER TABLE decayed_sources ADD COLUMN source text, ADD COLUMN written_by text;

-- Other keys that have changed a memory since; one row for each key.
CREATE TABLE memory_writers (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  key_id text NOT NULL,
  first_at timestamptz NOT NULL,
  last_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, memory_id, key_id)
);
CREATE INDEX memory_writers_key ON memory_writers (tenant_id, key_id, last_at);

CREATE TABLE quarantines (
  tenant_id uuid NOT NULL,
  quarantine_id uuid NOT NULL,
  key_id text,
  source text CHECK (source IN ('user', 'agent', 'document', 'tool', 'import', 'unknown')),
  after timestamptz,
  before timestamptz NOT NULL,
  status text NOT NULL CHECK (status IN ('placing', 'placed', 'lifting', 'lifted')),
  placed_at timestamptz NOT NULL,
  placed_by text NOT NULL,
  lifted_at timestamptz,
  lifted_by text,
  PRIMARY KEY (tenant_id, quarantine_id),
  CHECK ((key_id IS NULL) <> (source IS NULL))
);
CREATE INDEX quarantines_newest ON quarantines (tenant_id, placed_at DESC, quarantine_id);
"""

TABLES = ("memory_writers", "quarantines")


def upgrade() -> None:
    """Add the columns and tables; the previous version ignores them."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO ebbing_app")
    op.execute("GRANT SELECT ON quarantines TO ebbing_drain")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them, which fails while memories are in quarantine: lift the quarantines first."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("""
DO $$ BEGIN
  IF EXISTS (SELECT FROM quarantines WHERE status <> 'lifted') THEN
    RAISE EXCEPTION 'lift all quarantines before the downgrade: their memories would stay hidden';
  END IF;
END $$
""")
    op.execute("DROP TABLE quarantines, memory_writers")
    op.execute("ALTER TABLE decayed_sources DROP COLUMN source, DROP COLUMN written_by")
    op.execute("ALTER TABLE memories DROP COLUMN source, DROP COLUMN written_by")
    op.execute("ALTER TABLE api_keys DROP COLUMN source")
    op.execute("RESET ROLE")
