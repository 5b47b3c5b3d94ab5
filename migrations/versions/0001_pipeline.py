"""Tenants, keys, roles, and the tables of the way from POST to search.

Revision: 0001

Every tenant table has forced row-level security on a transaction-local setting. Bulk tables have no foreign
keys: the check would cost every row of the drain, and rows are removed by tenant or by memory id anyway.
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

ROLES = """
DO $$
DECLARE
  wanted text;
  attributes text;
BEGIN
  FOR wanted, attributes IN VALUES
    ('ebbing_owner', 'NOLOGIN NOBYPASSRLS'),
    ('ebbing_app', 'NOLOGIN NOBYPASSRLS'),
    ('ebbing_drain', 'NOLOGIN BYPASSRLS'),
    ('ebbing_ops', 'NOLOGIN NOBYPASSRLS')
  LOOP
    BEGIN
      EXECUTE format('CREATE ROLE %I %s', wanted, attributes);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;  -- roles belong to the whole server: another database may have made them
    END;
    EXECUTE format('GRANT %I TO CURRENT_USER', wanted);
  END LOOP;
  IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'ebbing_service') THEN
    GRANT ebbing_app, ebbing_drain TO ebbing_service;
  END IF;
END $$;
GRANT USAGE, CREATE ON SCHEMA public TO ebbing_owner;
GRANT USAGE ON SCHEMA public TO ebbing_app, ebbing_drain, ebbing_ops;
CREATE EXTENSION IF NOT EXISTS vector;
"""

SHARED_TABLES = """
CREATE TABLE tenants (
  tenant_id uuid PRIMARY KEY,
  name text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 200),
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
  key_id text PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  name text NOT NULL,
  digest bytea NOT NULL CHECK (length(digest) = 32),
  scopes text[] NOT NULL CHECK (scopes <@ ARRAY['ingest', 'read', 'maintain', 'privacy', 'admin']),
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_on date
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id);

CREATE TABLE embedding_spaces (
  space_id smallint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  model text NOT NULL,
  dimensions integer NOT NULL CHECK (dimensions BETWEEN 1 AND 4000),
  normalised boolean NOT NULL,
  UNIQUE (model, dimensions)
);

-- Which memories wait for which stage of enrichment. Ids alone, so that any worker may look for work.
CREATE TABLE tenant_work (
  stage text NOT NULL,
  tenant_id uuid NOT NULL,
  work_id bigint GENERATED ALWAYS AS IDENTITY,
  memory_ids uuid[] NOT NULL CHECK (cardinality(memory_ids) > 0),
  created_at timestamptz NOT NULL DEFAULT now(),
  claimed_until timestamptz NOT NULL DEFAULT '-infinity',
  claim uuid,
  attempts smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (stage, tenant_id, work_id)
) WITH (fillfactor = 70);
-- Short-lived: packing the ids would cost more than it saves.
ALTER TABLE tenant_work ALTER COLUMN memory_ids SET STORAGE EXTERNAL;

CREATE TABLE schedules (
  schedule_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants,
  task text NOT NULL,
  cron text NOT NULL,
  time_zone text NOT NULL,
  jitter_seconds integer NOT NULL CHECK (jitter_seconds >= 0),
  grace_seconds integer NOT NULL CHECK (grace_seconds > 0),
  paused boolean NOT NULL DEFAULT false,
  run_now boolean NOT NULL DEFAULT false,
  next_run_at timestamptz NOT NULL,
  UNIQUE (tenant_id, task)
);
CREATE INDEX schedules_due ON schedules (next_run_at) WHERE NOT paused;

CREATE TABLE runs (
  run_id uuid PRIMARY KEY,
  schedule_id uuid NOT NULL REFERENCES schedules,
  tenant_id uuid NOT NULL,
  task text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('scheduled', 'by_hand')),
  scheduled_for timestamptz NOT NULL,
  coalesced integer NOT NULL DEFAULT 0,
  status text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'running', 'done', 'failed', 'skipped')),
  claimed_until timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  rows integer NOT NULL DEFAULT 0,
  error text,
  UNIQUE (schedule_id, scheduled_for, kind)
);
CREATE INDEX runs_unfinished ON runs (scheduled_for) WHERE status IN ('queued', 'running');

CREATE TABLE outbox (
  outbox_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task text NOT NULL,
  argument uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
"""

TENANT_TABLES = """
CREATE TABLE policies (
  tenant_id uuid NOT NULL,
  version integer NOT NULL CHECK (version > 0),
  body jsonb NOT NULL,
  effective_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, version)
);

-- The ledger: an envelope that is here has been stored, so a replay stores nothing.
CREATE TABLE envelopes (
  tenant_id uuid NOT NULL,
  base uuid NOT NULL,
  memories integer NOT NULL,
  stored_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, base)
);

CREATE TABLE memories (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  seq bigint NOT NULL,
  subject text,
  thread text,
  speaker text,
  external_id text,
  kind text CHECK (kind IN ('episodic', 'semantic', 'procedural', 'emotional', 'system')),
  text text NOT NULL,
  text_version integer NOT NULL DEFAULT 1,
  tags text[] NOT NULL DEFAULT '{}',
  categories text[] NOT NULL DEFAULT '{}',
  entities text[] NOT NULL DEFAULT '{}',
  metadata jsonb,
  occurred_at timestamptz,
  created_at timestamptz NOT NULL,
  updated_at timestamptz,
  deleted_at timestamptz,
  PRIMARY KEY (tenant_id, memory_id)
);
CREATE UNIQUE INDEX memories_external ON memories (tenant_id, external_id)
  WHERE external_id IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX memories_thread ON memories (tenant_id, thread, seq) WHERE thread IS NOT NULL;
CREATE INDEX memories_subject ON memories (tenant_id, subject, memory_id) WHERE subject IS NOT NULL;

-- Narrow and hot: what changes when a memory is used or fades.
CREATE TABLE memory_state (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  tier text NOT NULL DEFAULT 'active' CHECK (tier IN ('active', 'archived', 'cold')),
  salience real CHECK (salience BETWEEN 0 AND 1),
  salience_source text CHECK (salience_source IN ('caller', 'llm', 'heuristic')),
  multiplier real NOT NULL DEFAULT 1 CHECK (multiplier BETWEEN 0 AND 2),
  access_count integer NOT NULL DEFAULT 0,
  accessed_at timestamptz,
  anchored_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, memory_id)
) WITH (fillfactor = 80);

-- Ids that were answered for a memory that its external id had brought before.
CREATE TABLE memory_aliases (
  tenant_id uuid NOT NULL,
  alias_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  PRIMARY KEY (tenant_id, alias_id)
);

CREATE TABLE memory_words (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  text_version integer NOT NULL,
  own tsvector NOT NULL,
  words tsvector NOT NULL,
  PRIMARY KEY (tenant_id, memory_id)
);

CREATE TABLE words (
  tenant_id uuid NOT NULL,
  word text NOT NULL,
  documents integer NOT NULL CHECK (documents >= 0),
  PRIMARY KEY (tenant_id, word)
) WITH (fillfactor = 50);

CREATE TABLE embeddings (
  tenant_id uuid NOT NULL,
  memory_id uuid NOT NULL,
  space_id smallint NOT NULL REFERENCES embedding_spaces,
  text_version integer NOT NULL,
  embedding halfvec NOT NULL,
  by_caller boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, space_id, memory_id)
);

CREATE TABLE dead_letters (
  tenant_id uuid NOT NULL,
  letter_id uuid NOT NULL,
  stage text NOT NULL,
  reason text NOT NULL,
  attempts integer NOT NULL,
  entry_id text,
  memory_ids uuid[] NOT NULL DEFAULT '{}',
  payload bytea,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (tenant_id, letter_id)
);
"""

TENANT_TABLE_NAMES = (
    "policies",
    "envelopes",
    "memories",
    "memory_state",
    "memory_aliases",
    "memory_words",
    "words",
    "embeddings",
    "dead_letters",
)

GRANTS = """
GRANT SELECT, INSERT, UPDATE ON
  tenants, api_keys, policies, memories, memory_state, embedding_spaces TO ebbing_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON
  tenant_work, schedules, runs, outbox, memory_aliases, memory_words, words, embeddings, dead_letters TO ebbing_app;
GRANT SELECT, INSERT, DELETE ON envelopes TO ebbing_app;

GRANT SELECT, INSERT ON envelopes TO ebbing_drain;
GRANT INSERT ON memories, memory_state, dead_letters TO ebbing_drain;
GRANT SELECT, INSERT, UPDATE ON tenant_work TO ebbing_drain;
GRANT SELECT ON policies TO ebbing_drain;

GRANT SELECT ON tenants, embedding_spaces, tenant_work, schedules, runs, outbox, envelopes TO ebbing_ops;
"""


def upgrade() -> None:
    """Make roles, tables, row-level security and grants."""
    op.execute(ROLES)
    op.execute("SET ROLE ebbing_owner")
    op.execute(SHARED_TABLES)
    op.execute(TENANT_TABLES)
    for table in TENANT_TABLE_NAMES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(GRANTS)
    op.execute("RESET ROLE")
    op.execute("GRANT SELECT ON alembic_version TO ebbing_app")


def downgrade() -> None:
    """Drop the tables; the roles stay, since other databases of the server may use them."""
    for table in (*TENANT_TABLE_NAMES, "outbox", "runs", "schedules", "tenant_work", "api_keys", "tenants"):
        op.execute(f"DROP TABLE {table}")
    op.execute("DROP TABLE embedding_spaces")
