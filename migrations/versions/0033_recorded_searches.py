"""Recorded searches, and ids of the tenant's words.

Revision: 0033, after 0032
"""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"

# A record holds ids and numbers. Its query is a vector and ids of rows in `words`; `parts` are the candidates' scores
# by part, doubles column after column; `results`, `corrections` and `used` are places among `memory_ids`.
TABLES = """
ALTER TABLE words ADD COLUMN word_id bigint NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 100);

CREATE TABLE recorded_searches (
  tenant_id uuid NOT NULL,
  search_id uuid NOT NULL,
  searched_at timestamptz NOT NULL CHECK (isfinite(searched_at)),
  session bigint NOT NULL,
  subject text,
  thread text,
  request jsonb NOT NULL,
  space_id smallint,
  vector halfvec,
  term_ids bigint[] NOT NULL,
  memory_ids uuid[] NOT NULL,
  layout bigint NOT NULL,
  parts bytea NOT NULL,
  bases text[] NOT NULL,
  results smallint[] NOT NULL,
  corrections smallint[] NOT NULL,
  used smallint[] NOT NULL DEFAULT '{}',
  PRIMARY KEY (tenant_id, search_id)
);
CREATE INDEX recorded_searches_age ON recorded_searches (tenant_id, searched_at, search_id);
ALTER TABLE recorded_searches ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON recorded_searches
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON recorded_searches TO ebbing_app;
"""


def upgrade() -> None:
    """Make the table, and number the words."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop both; recorded searches are lost."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE recorded_searches")
    op.execute("ALTER TABLE words DROP COLUMN word_id")
    op.execute("RESET ROLE")
