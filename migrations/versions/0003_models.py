"""Models that are asked: their scores, what they cost, the spaces of their vectors, long work, and what failed.

Revision: 0003, after 0002
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

# What a model found is kept with the digest of the text it read: the same words again needn't be asked about.
SCORES = """
ALTER TABLE scores
  ADD COLUMN version text,
  ADD COLUMN digest bytea,
  ADD COLUMN inferred_topics text[] NOT NULL DEFAULT '{}',
  ADD COLUMN inferred_categories text[] NOT NULL DEFAULT '{}',
  ADD COLUMN sensitivity real CHECK (sensitivity BETWEEN 0 AND 1),
  ADD COLUMN asks smallint NOT NULL DEFAULT 0,
  ADD COLUMN refused_by text;
CREATE INDEX scores_unrated ON scores (tenant_id, uncertainty DESC) WHERE scorer = 'heuristic';
CREATE INDEX scores_known ON scores (tenant_id, digest) WHERE scorer = 'llm';

-- Tenants with memories that only the rules have scored; one row each, and a lease.
CREATE TABLE rating_turns (
  tenant_id uuid PRIMARY KEY,
  wanted bigint NOT NULL DEFAULT 1,
  created_at timestamptz NOT NULL DEFAULT now(),
  claimed_until timestamptz NOT NULL DEFAULT '-infinity',
  claim uuid
);
GRANT SELECT, INSERT, UPDATE, DELETE ON rating_turns TO ebbing_app;
GRANT SELECT ON rating_turns TO ebbing_ops;
"""

TURNS = "INSERT INTO rating_turns (tenant_id) SELECT DISTINCT tenant_id FROM scores WHERE scorer = 'heuristic'"

# Numbers without content; the limit on all tenants together is a sum over them, so it has no row-level security.
USAGE = """
CREATE TABLE usage (
  tenant_id uuid NOT NULL,
  day date NOT NULL,
  purpose text NOT NULL CHECK (purpose IN ('score', 'embed', 'query')),
  host text NOT NULL,
  model text NOT NULL,
  calls bigint NOT NULL DEFAULT 0,
  input_tokens bigint NOT NULL DEFAULT 0,
  cached_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL DEFAULT 0,
  memories bigint NOT NULL DEFAULT 0,
  cache_hits bigint NOT NULL DEFAULT 0,
  cost double precision,
  PRIMARY KEY (tenant_id, day, purpose, host, model)
);
CREATE INDEX usage_day ON usage (day);
GRANT SELECT, INSERT, UPDATE, DELETE ON usage TO ebbing_app;
GRANT SELECT ON usage TO ebbing_ops;
"""

# Nobody may delete a space, so the check of each vector's only cost: as much as writing it.
VECTORS = "ALTER TABLE embeddings DROP CONSTRAINT embeddings_space_id_fkey"

# Which space a tenant is searched in, and the one it is moving to.
SPACES = """
ALTER TABLE embedding_spaces ADD COLUMN embedder text NOT NULL DEFAULT 'local';
UPDATE embedding_spaces SET embedder = 'openai' WHERE model NOT LIKE 'wordllama-%';
ALTER TABLE embedding_spaces ALTER COLUMN embedder DROP DEFAULT;

CREATE TABLE tenant_spaces (
  tenant_id uuid PRIMARY KEY,
  space_id smallint NOT NULL REFERENCES embedding_spaces,
  target_space_id smallint REFERENCES embedding_spaces CHECK (target_space_id <> space_id),
  switched_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT, INSERT, UPDATE, DELETE ON tenant_spaces TO ebbing_app;
GRANT SELECT ON tenant_spaces TO ebbing_ops;
"""

# Before this version a tenant was searched in the settings' space alone; the fullest one is the best guess at it.
SETTLE = """
INSERT INTO tenant_spaces (tenant_id, space_id)
SELECT DISTINCT ON (tenant_id) tenant_id, space_id
FROM (SELECT tenant_id, space_id, count(*) AS vectors FROM embeddings GROUP BY 1, 2) AS counted
ORDER BY tenant_id, vectors DESC, space_id
"""

JOBS = """
CREATE TABLE jobs (
  job_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  kind text NOT NULL,
  lone boolean NOT NULL DEFAULT false,
  status text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'done', 'failed', 'cancelled')),
  parameters jsonb NOT NULL DEFAULT '{}',
  state jsonb NOT NULL DEFAULT '{}',
  total bigint,
  done bigint NOT NULL DEFAULT 0,
  counts jsonb NOT NULL DEFAULT '{}',
  log jsonb NOT NULL DEFAULT '[]',
  cancel_wanted boolean NOT NULL DEFAULT false,
  attempts smallint NOT NULL DEFAULT 0,
  claim uuid,
  claimed_until timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  started_at timestamptz,
  finished_at timestamptz,
  error text
) WITH (fillfactor = 70);
CREATE INDEX jobs_tenant ON jobs (tenant_id, created_at DESC, job_id);
CREATE INDEX jobs_unfinished ON jobs (created_at) WHERE status IN ('queued', 'running');
-- Of a lone kind a tenant has one unfinished job at most.
CREATE UNIQUE INDEX jobs_lone ON jobs (tenant_id, kind) WHERE lone AND status IN ('queued', 'running');
GRANT SELECT, INSERT, UPDATE, DELETE ON jobs TO ebbing_app;
GRANT SELECT ON jobs TO ebbing_ops;
"""

DEAD_LETTERS = """
ALTER TABLE dead_letters
  ADD COLUMN header bytea,
  ADD COLUMN memories integer NOT NULL DEFAULT 0,
  ADD COLUMN discarded_at timestamptz,
  ADD COLUMN discard_reason text;
CREATE INDEX dead_letters_waiting ON dead_letters (tenant_id, created_at, letter_id) WHERE discarded_at IS NULL;
"""


def upgrade() -> None:
    """Add the columns and tables, and see that what is there is known to them."""
    op.execute("SET ROLE ebbing_owner")
    for statement in (SCORES, USAGE, VECTORS, SPACES, JOBS, DEAD_LETTERS):
        op.execute(statement)
    op.execute("RESET ROLE")
    op.execute(TURNS)
    op.execute(SETTLE)


def downgrade() -> None:
    """Drop the tables; scores given by a model remain, without a record of that model."""
    for table in ("jobs", "tenant_spaces", "usage", "rating_turns"):
        op.execute(f"DROP TABLE {table}")
    op.execute("DROP INDEX dead_letters_waiting")
    op.execute(
        "ALTER TABLE dead_letters DROP COLUMN header, DROP COLUMN memories, DROP COLUMN discarded_at, "
        "DROP COLUMN discard_reason"
    )
    op.execute("ALTER TABLE embedding_spaces DROP COLUMN embedder")
    op.execute("ALTER TABLE embeddings ADD FOREIGN KEY (space_id) REFERENCES embedding_spaces")
    op.execute("DROP INDEX scores_known, scores_unrated")
    op.execute(
        "ALTER TABLE scores DROP COLUMN version, DROP COLUMN digest, DROP COLUMN inferred_topics, "
        "DROP COLUMN inferred_categories, DROP COLUMN sensitivity, DROP COLUMN asks, DROP COLUMN refused_by"
    )
