"""Promotion by hand, demotion, and notes: which notes of promoted memories are written, and who has copies of them.

Revision: 0056, after 0055
"""

from __future__ import annotations

from alembic import op

revision = "0056"
down_revision = "0055"

UP = """
ALTER TABLE memory_state
  ADD COLUMN promoted_strength real,
  ADD COLUMN demoted_at timestamptz,
  DROP CONSTRAINT memory_state_promoted_for_check,
  ADD CONSTRAINT memory_state_promoted_for_check CHECK (promoted_for IN ('score', 'uses', 'manual')) NOT VALID;
CREATE INDEX memory_state_promoted ON memory_state (tenant_id, memory_id) WHERE promoted_at IS NOT NULL;
ALTER TABLE memory_events
  DROP CONSTRAINT memory_events_kind_check,
  ADD CONSTRAINT memory_events_kind_check CHECK (kind IN (
    'use', 'late_use', 'associate', 'test', 'review_passed', 'review_failed', 'salience', 'kind', 'multiplier',
    'pace', 'wanted_tier', 'tier', 'promoted', 'demoted', 'restored')) NOT VALID;
-- A note without a digest is outdated and must be replaced or removed, even if somebody has edited it.
CREATE TABLE notes (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  digest bytea CHECK (octet_length(digest) = 32),
  written_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id)
);
-- Folders of notes on the machines of API clients.
CREATE TABLE note_copies (
  tenant_id uuid NOT NULL,
  copy_id uuid NOT NULL,
  name text NOT NULL,
  runs integer NOT NULL DEFAULT 1,
  first_at timestamptz NOT NULL DEFAULT now(),
  last_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, copy_id)
);
"""
TENANT_TABLE_NAMES = ("notes", "note_copies")
TENANT_ROWS = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON {table}
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO ebbing_app;
"""


DOWN = """
DROP TABLE note_copies, notes;
DELETE FROM memory_events WHERE kind = 'demoted';
UPDATE memory_events SET before = 1, after = 1 WHERE kind = 'promoted' AND after = 2;
ALTER TABLE memory_events
  DROP CONSTRAINT memory_events_kind_check,
  ADD CONSTRAINT memory_events_kind_check CHECK (kind IN (
    'use', 'late_use', 'associate', 'test', 'review_passed', 'review_failed', 'salience', 'kind', 'multiplier',
    'pace', 'wanted_tier', 'tier', 'promoted', 'restored'));
UPDATE memory_state SET promoted_for = 'uses' WHERE promoted_for = 'manual';
DROP INDEX memory_state_promoted;
ALTER TABLE memory_state
  DROP COLUMN promoted_strength,
  DROP COLUMN demoted_at,
  DROP CONSTRAINT memory_state_promoted_for_check,
  ADD CONSTRAINT memory_state_promoted_for_check CHECK (promoted_for IN ('score', 'uses'));
"""
VALIDATE = """
ALTER TABLE memory_state VALIDATE CONSTRAINT memory_state_promoted_for_check;
ALTER TABLE memory_events VALIDATE CONSTRAINT memory_events_kind_check;
"""
CHANGED = ("memory_state", "memory_events")


def upgrade() -> None:
    """Add columns and tables; the previous version writes and reads neither, and its values remain allowed."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TENANT_TABLE_NAMES:
        op.execute(TENANT_ROWS.format(table=table))
    op.execute(VALIDATE)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them: memories promoted by hand count as promoted by uses, demotions and the list of notes are lost."""
    op.execute("SET ROLE ebbing_owner")
    for table in CHANGED:
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
    op.execute(DOWN)
    for table in CHANGED:
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute("RESET ROLE")
