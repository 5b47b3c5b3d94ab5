"""Strength: what it is worked out from, what happened to it, links along which it spreads, and reviews.

Revision: 0004, after 0003
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

# NaN is above every number in PostgreSQL, so that an upper bound refuses it.
STATE = """
ALTER TABLE memory_state
  ADD CONSTRAINT memory_state_access_count_check CHECK (access_count >= 0),
  ADD COLUMN kind smallint NOT NULL DEFAULT 0 CHECK (kind BETWEEN 0 AND 4),
  ADD COLUMN pace real NOT NULL DEFAULT 1 CHECK (pace > 0 AND pace <= 1000),
  ADD COLUMN suggested_multiplier real CHECK (suggested_multiplier BETWEEN 0 AND 2),
  ADD COLUMN created_at timestamptz,
  ADD COLUMN level double precision NOT NULL DEFAULT 0 CHECK (level BETWEEN -1e9 AND 1e9),
  ADD COLUMN retrieval double precision NOT NULL DEFAULT 1 CHECK (retrieval BETWEEN 0 AND 1),
  ADD COLUMN stability double precision NOT NULL DEFAULT 0 CHECK (stability BETWEEN 0 AND 1),
  ADD COLUMN policy_version integer NOT NULL DEFAULT 0,
  ADD COLUMN decay_tier text NOT NULL DEFAULT 'active'
    CHECK (decay_tier IN ('active', 'archived', 'cold', 'deleted')),
  ADD COLUMN next_due_at timestamptz NOT NULL DEFAULT '-infinity',
  ADD COLUMN cross_domain_count integer NOT NULL DEFAULT 0,
  ADD COLUMN promoted_at timestamptz,
  ADD COLUMN promoted_for text CHECK (promoted_for IN ('score', 'uses')),
  DROP CONSTRAINT memory_state_tier_check,
  ADD CONSTRAINT memory_state_tier_check CHECK (tier IN ('active', 'archived', 'cold', 'deleted')),
  ADD CHECK (isfinite(created_at) AND isfinite(accessed_at) AND isfinite(anchored_at));
UPDATE memory_state AS state SET
  tier = CASE WHEN memory.deleted_at IS NULL THEN state.tier ELSE 'deleted' END,
  next_due_at = CASE WHEN memory.deleted_at IS NULL THEN timestamptz '-infinity' ELSE timestamptz 'infinity' END,
  created_at = memory.created_at,
  accessed_at = coalesce(state.accessed_at, memory.created_at),
  kind = coalesce(array_position(
    ARRAY['episodic', 'semantic', 'procedural', 'emotional', 'system'],
    coalesce(memory.kind, (
      SELECT score.inferred_kind FROM scores AS score
      WHERE score.tenant_id = memory.tenant_id AND score.memory_id = memory.memory_id))) - 1, 0)
FROM memories AS memory
WHERE memory.tenant_id = state.tenant_id AND memory.memory_id = state.memory_id;
ALTER TABLE memory_state
  ALTER COLUMN created_at SET NOT NULL,
  ALTER COLUMN accessed_at SET NOT NULL;
CREATE INDEX memory_state_due ON memory_state (tenant_id, next_due_at) WHERE next_due_at < 'infinity';
"""

# When no memory was left under an older version.
POLICIES = "ALTER TABLE policies ADD COLUMN rebased_at timestamptz"

# Numbers alone: strengths, saliences, places of tiers.
EVENTS = """
CREATE TABLE memory_events (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  at timestamptz NOT NULL,
  event_id bigint GENERATED ALWAYS AS IDENTITY,
  kind text NOT NULL CHECK (kind IN (
    'use', 'late_use', 'associate', 'test', 'review_passed', 'review_failed', 'salience', 'kind', 'multiplier',
    'pace', 'decay_tier', 'tier', 'promoted', 'restored')),
  before real,
  after real,
  strength real,
  session bigint,
  PRIMARY KEY (tenant_id, memory_id, at, event_id)
);
CREATE INDEX memory_events_old ON memory_events (tenant_id, at);
"""

LINKS = """
CREATE TABLE links (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  other_id uuid NOT NULL CHECK (other_id <> memory_id),
  kind text NOT NULL,
  weight real NOT NULL DEFAULT 1 CHECK (weight BETWEEN 0 AND 1),
  source text NOT NULL DEFAULT 'caller' CHECK (source IN ('caller', 'consolidation', 'recall')),
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, memory_id, other_id, kind)
);
CREATE INDEX links_back ON links (tenant_id, other_id);
"""

# A memory without a row was never reviewed: it is due after the first interval of the policy.
REVIEWS = """
CREATE TABLE reviews (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  due_at timestamptz NOT NULL,
  interval_days real NOT NULL,
  reviewed_at timestamptz NOT NULL,
  review_count integer NOT NULL DEFAULT 1,
  flagged boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, memory_id)
);
"""

# Searches leave the deleted ones out; there are few, and without it they are looked for among all.
DELETED = """
CREATE INDEX memories_deleted ON memories (tenant_id, memory_id) WHERE deleted_at IS NOT NULL;
"""

TENANT_TABLE_NAMES = ("memory_events", "links", "reviews")


def upgrade() -> None:
    """Add the columns, and fill them for what is there."""
    # The owner is under row-level security; these rows are of all tenants.
    op.execute(STATE)
    op.execute(DELETED)
    op.execute("SET ROLE ebbing_owner")
    for statement in (POLICIES, EVENTS, LINKS, REVIEWS):
        op.execute(statement)
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
    """Drop them: strength can't be worked out without."""
    for table in TENANT_TABLE_NAMES:
        op.execute(f"DROP TABLE {table}")
    op.execute("ALTER TABLE policies DROP COLUMN rebased_at")
    op.execute("DROP INDEX memories_deleted")
    op.execute("DROP INDEX memory_state_due")
    op.execute("UPDATE memory_state SET tier = 'active' WHERE tier = 'deleted'")
    op.execute(
        "ALTER TABLE memory_state DROP CONSTRAINT memory_state_tier_check, "
        "ADD CONSTRAINT memory_state_tier_check CHECK (tier IN ('active', 'archived', 'cold'))"
    )
    op.execute("ALTER TABLE memory_state ALTER COLUMN accessed_at DROP NOT NULL")
    op.execute("UPDATE memory_state SET accessed_at = NULL WHERE access_count = 0")
    op.execute("ALTER TABLE memory_state DROP CONSTRAINT memory_state_check")
    columns = (
        "kind pace suggested_multiplier created_at level retrieval stability policy_version decay_tier next_due_at "
        "cross_domain_count promoted_at promoted_for"
    )
    for column in columns.split():
        op.execute(f"ALTER TABLE memory_state DROP COLUMN {column}")
    op.execute("ALTER TABLE memory_state DROP CONSTRAINT memory_state_access_count_check")
