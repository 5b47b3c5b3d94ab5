"""Tier decisions: the tier that a memory should have, the time of its last restore, and legal holds.

Revision: 0006, after 0005
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

# A decision includes the protections of a memory and is only a hint: the worker that moves the memory decides again.
STATE = """
ALTER TABLE memory_state RENAME COLUMN decay_tier TO wanted_tier;
ALTER TABLE memory_state ADD COLUMN restored_at timestamptz CHECK (isfinite(restored_at));
UPDATE memory_state SET next_due_at = '-infinity' WHERE next_due_at < 'infinity' AND wanted_tier <> tier;
CREATE INDEX memory_state_unmoved ON memory_state (tenant_id, memory_id) WHERE wanted_tier <> tier;
ALTER TABLE memory_events DROP CONSTRAINT memory_events_kind_check;
UPDATE memory_events SET kind = 'wanted_tier' WHERE kind = 'decay_tier';
ALTER TABLE memory_events ADD CONSTRAINT memory_events_kind_check CHECK (kind IN (
  'use', 'late_use', 'associate', 'test', 'review_passed', 'review_failed', 'salience', 'kind', 'multiplier',
  'pace', 'wanted_tier', 'tier', 'promoted', 'restored'));
"""

# All conditions that a hold has must be met; NULL is none.
HOLDS = """
CREATE TABLE holds (
  tenant_id uuid NOT NULL,
  hold_id uuid NOT NULL,
  memory_ids uuid[],
  subject text,
  thread text,
  tags text[],
  categories text[],
  kinds text[],
  after timestamptz,
  before timestamptz,
  reason text NOT NULL,
  placed_at timestamptz NOT NULL DEFAULT now(),
  placed_by text NOT NULL,
  released_at timestamptz,
  released_by text,
  PRIMARY KEY (tenant_id, hold_id),
  CHECK (coalesce(subject, thread) IS NOT NULL OR coalesce(memory_ids[1]::text, tags[1], categories[1], kinds[1])
    IS NOT NULL OR coalesce(after, before) IS NOT NULL)
);
"""

# What is deleted for good leaves no row behind; by its aliases neither.
REMOVAL = """
GRANT DELETE ON memories, memory_state TO ebbing_app;
CREATE INDEX memory_aliases_memory ON memory_aliases (tenant_id, memory_id);
"""

TENANT_TABLE_NAMES = ("holds",)


def upgrade() -> None:
    """Add the columns, and the table."""
    # The owner is under row-level security; these rows are of all tenants.
    op.execute(STATE)
    op.execute("SET ROLE ebbing_owner")
    op.execute(HOLDS)
    op.execute(REMOVAL)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
        op.execute(f"GRANT SELECT, INSERT, UPDATE ON {table} TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: what is held, and what was brought back when, is forgotten."""
    for table in TENANT_TABLE_NAMES:
        op.execute(f"DROP TABLE {table}")
    op.execute("REVOKE DELETE ON memories, memory_state FROM ebbing_app")
    op.execute("DROP INDEX memory_aliases_memory")
    op.execute("DROP INDEX memory_state_unmoved")
    op.execute("ALTER TABLE memory_state DROP COLUMN restored_at")
    op.execute("ALTER TABLE memory_state RENAME COLUMN wanted_tier TO decay_tier")
    op.execute("ALTER TABLE memory_events DROP CONSTRAINT memory_events_kind_check")
    op.execute("UPDATE memory_events SET kind = 'decay_tier' WHERE kind = 'wanted_tier'")
    op.execute(
        "ALTER TABLE memory_events ADD CONSTRAINT memory_events_kind_check CHECK (kind IN ("
        "'use', 'late_use', 'associate', 'test', 'review_passed', 'review_failed', 'salience', 'kind', 'multiplier', "
        "'pace', 'decay_tier', 'tier', 'promoted', 'restored'))"
    )
