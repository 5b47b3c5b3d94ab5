"""Erasure: requests and their plans, what is hidden meanwhile, tombstones, and the ledger that outlives a restore.

Revision: 0015, after 0014
"""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"

UP = """
-- What was asked for and how far it is. Its scope is as its caller gave it until it is over; then it is emptied.
CREATE TABLE erasures (
  tenant_id uuid NOT NULL,
  erasure_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('user', 'gdpr', 'ccpa')),
  status text NOT NULL CHECK (status IN ('grace', 'running', 'held', 'verified', 'cancelled')),
  scope jsonb NOT NULL,
  reason text,
  requested_at timestamptz NOT NULL,
  requested_by text NOT NULL,
  due_at timestamptz,
  erase_after timestamptz NOT NULL,
  hidden integer NOT NULL DEFAULT 0 CHECK (hidden >= 0),
  cut text,
  plan jsonb,
  executed jsonb NOT NULL DEFAULT '[]',
  started_at timestamptz,
  finished_at timestamptz,
  verified_at timestamptz,
  cancelled_at timestamptz,
  report jsonb,
  PRIMARY KEY (tenant_id, erasure_id)
);
CREATE INDEX erasures_newest ON erasures (tenant_id, requested_at DESC, erasure_id);
CREATE INDEX erasures_open ON erasures (tenant_id, erase_after) WHERE status IN ('grace', 'running', 'held');
-- Those that what is yet to come may be of; a deletion of one memory isn't.
CREATE INDEX erasures_coming ON erasures (tenant_id)
  WHERE status IN ('grace', 'running', 'held') AND NOT scope ? 'memory_ids';

-- Memories that an open erasure has hidden, and the tier that they come back to when it is cancelled.
CREATE TABLE hidden_memories (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  erasure_id uuid NOT NULL,
  tier text NOT NULL CHECK (tier IN ('active', 'archived', 'cold')),
  PRIMARY KEY (tenant_id, memory_id)
);
CREATE INDEX hidden_memories_erasure ON hidden_memories (tenant_id, erasure_id);

-- Their callers' own vectors, which nobody could make again.
CREATE TABLE hidden_vectors (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  space_id smallint NOT NULL,
  text_version integer NOT NULL,
  vector halfvec NOT NULL,
  PRIMARY KEY (tenant_id, memory_id, space_id)
);

-- What came in up to a place of the stream about somebody, or in a thread, who was erased is dropped, however late.
CREATE TABLE tombstones (
  tenant_id uuid NOT NULL,
  what text NOT NULL CHECK (what IN ('subject', 'thread')),
  digest bytea NOT NULL CHECK (length(digest) = 32),
  cut text NOT NULL,
  cut_ms bigint NOT NULL,
  erasure_id uuid NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, what, digest)
);
CREATE INDEX tombstones_cut ON tombstones (tenant_id, cut_ms);

-- Up to which entry of the ledger this database has done what it says; less than there is after a restore.
CREATE TABLE ledger_mark (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  seq bigint NOT NULL
);
INSERT INTO ledger_mark (seq) VALUES (0);
"""

# Apart from what is dumped with the data, as the keys of cold storage are: an older dump of the data knows nothing of
# an erasure, and this does.
LEDGER = """
CREATE TABLE ebbing_keys.digest_keys (
  tenant_id uuid PRIMARY KEY,
  key bytea NOT NULL CHECK (length(key) = 32)
);

CREATE TABLE ebbing_keys.erasure_ledger (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id uuid NOT NULL,
  erasure_id uuid NOT NULL,
  subject bytea CHECK (length(subject) = 32),
  thread bytea CHECK (length(thread) = 32),
  memory_ids uuid[],
  cut text NOT NULL,
  entered_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (tenant_id, erasure_id)
);
"""

TENANT_TABLE_NAMES = ("erasures", "hidden_memories", "hidden_vectors", "tombstones", "ebbing_keys.digest_keys")

GRANTS = """
GRANT SELECT, INSERT, UPDATE, DELETE ON erasures, hidden_memories, hidden_vectors, tombstones TO ebbing_app;
GRANT SELECT, UPDATE ON ledger_mark TO ebbing_app;
GRANT SELECT ON erasures, tombstones TO ebbing_drain;
GRANT SELECT ON hidden_memories, tombstones, ledger_mark TO ebbing_ops;
GRANT SELECT, INSERT ON ebbing_keys.digest_keys TO ebbing_app;
GRANT SELECT, INSERT, UPDATE ON ebbing_keys.erasure_ledger TO ebbing_app;
"""

DOWN = """
DROP TABLE ebbing_keys.erasure_ledger, ebbing_keys.digest_keys;
DROP TABLE ledger_mark, tombstones, hidden_vectors, hidden_memories, erasures;
"""


def upgrade() -> None:
    """Make the tables."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute(LEDGER)
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
    """Drop them: what is hidden stays hidden, and nobody knows any more what was erased."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
