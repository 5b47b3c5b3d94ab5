"""Search: indexes of a large tenant's own with who may use them, and what a second look at results costs.

Revision: 0005, after 0004
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

# It reads words of all tenants, so all that it may do is said here: one table, one function.
FINDER = """
DO $$
BEGIN
  CREATE ROLE ebbing_finder NOLOGIN BYPASSRLS;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
  NULL;  -- roles belong to the whole server: another database may have made it
END $$;
GRANT ebbing_finder TO CURRENT_USER;
GRANT USAGE, CREATE ON SCHEMA public TO ebbing_finder;
"""

TABLES = """
ALTER TABLE embeddings ADD COLUMN grafted boolean NOT NULL DEFAULT false;
ALTER TABLE tenant_spaces ADD COLUMN graph_space_id smallint REFERENCES embedding_spaces;
GRANT SELECT (tenant_id, memory_id, own, words) ON memory_words TO ebbing_finder;
"""

# Searches leave out what isn't active; mostly that is little, and without it they look for it among all.
ELSEWHERE = "CREATE INDEX memory_state_elsewhere ON memory_state (tenant_id, memory_id) WHERE tier <> 'active'"

# Row-level security keeps PostgreSQL from using a GIN index for `@@`, so this function is beyond it and names the
# tenant itself: the transaction's own, whatever it is given. The scores are put together as text of typed
# arguments, each quoted. A tenant without an index of its own is scanned.
MATCHES = """
CREATE FUNCTION words_matching(wanted tsquery, lexemes tsquery[], own_scores float8[], near_scores float8[])
RETURNS TABLE (memory_id uuid, score float8)
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
AS $$
DECLARE
  tenant uuid := nullif(current_setting('ebbing.tenant', true), '')::uuid;
  scores text;
BEGIN
  IF tenant IS NULL THEN
    RETURN;
  END IF;
  SELECT string_agg(format(
    'CASE WHEN words @@ %1$L::tsquery THEN CASE WHEN own @@ %1$L::tsquery THEN %2$L::float8 ELSE %3$L::float8 END '
    'ELSE 0 END', lexeme, own_score, near_score), ' + ')
  INTO scores FROM unnest(lexemes, own_scores, near_scores) AS said (lexeme, own_score, near_score);
  RETURN QUERY EXECUTE format(
    'SELECT found.memory_id, found.score FROM (SELECT memory_id, %s AS score FROM public.memory_words '
    'WHERE tenant_id = %L AND words @@ %L::tsquery OFFSET 0) AS found ORDER BY 2 DESC, 1 DESC',
    coalesce(scores, '0::float8'), tenant, wanted);
END $$;
REVOKE EXECUTE ON FUNCTION words_matching FROM PUBLIC;
GRANT EXECUTE ON FUNCTION words_matching TO ebbing_app;
"""

# The service owns no table, so these make and drop the indexes of the transaction's own tenant. Building reads the
# table once with its writers waiting, so no row may be in the graph yet: vectors are grafted later, some at a time.
GRAPHS = """
CREATE FUNCTION make_graph(space smallint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := nullif(current_setting('ebbing.tenant', true), '')::uuid;
  size integer := (SELECT dimensions FROM embedding_spaces WHERE space_id = space AND dimensions <= 4000);
  own text := replace(tenant::text, '-', '');
BEGIN
  IF tenant IS NULL OR size IS NULL THEN
    RAISE EXCEPTION 'there is no tenant, or no such space that a graph could be of';
  END IF;
  IF EXISTS (SELECT FROM embeddings WHERE tenant_id = tenant AND space_id = space AND grafted) THEN
    RAISE EXCEPTION 'vectors are grafted already';
  END IF;
  EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON memory_words USING gin (words) '
    'WITH (gin_pending_list_limit = 256) WHERE tenant_id = %L', 'words_' || own, tenant);
  EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON embeddings (memory_id) '
    'WHERE tenant_id = %L AND space_id = %s AND NOT grafted', format('tail_%s_%s', space, own), tenant, space);
  EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON embeddings USING hnsw ((embedding::halfvec(%s)) halfvec_ip_ops) '
    'WHERE tenant_id = %L AND space_id = %s AND grafted', format('graph_%s_%s', space, own), size, tenant, space);
END $$;

CREATE FUNCTION drop_graph(space smallint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  own text := replace(nullif(current_setting('ebbing.tenant', true), ''), '-', '');
BEGIN
  EXECUTE format('DROP INDEX IF EXISTS public.%I, public.%I, public.%I',
    'words_' || own, format('tail_%s_%s', space, own), format('graph_%s_%s', space, own));
END $$;

REVOKE EXECUTE ON FUNCTION make_graph, drop_graph FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_graph, drop_graph TO ebbing_app;
"""

# Not checked against the rows that are there, which all fit: the table is locked for a moment only.
PURPOSES = """
ALTER TABLE usage
  DROP CONSTRAINT usage_purpose_check,
  ADD CONSTRAINT usage_purpose_check CHECK (purpose IN ('score', 'embed', 'query', 'rerank')) NOT VALID
"""

OWN_INDEXES = r"""
DO $$
DECLARE
  name text;
BEGIN
  FOR name IN
    SELECT indexname FROM pg_indexes WHERE schemaname = 'public' AND tablename IN ('memory_words', 'embeddings')
      AND indexname ~ '^(words|(graph|tail)_\d+)_[0-9a-f]{32}$'
  LOOP
    EXECUTE format('DROP INDEX public.%I', name);
  END LOOP;
END $$
"""


def upgrade() -> None:
    """Add the column, the role and the functions; no tenant has indexes of its own yet."""
    op.execute(FINDER)
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    op.execute(ELSEWHERE)
    op.execute(GRAPHS)
    op.execute(PURPOSES)
    op.execute("ALTER TABLE usage VALIDATE CONSTRAINT usage_purpose_check")
    op.execute("SET ROLE ebbing_finder")
    op.execute(MATCHES)
    op.execute("RESET ROLE")
    op.execute("REVOKE CREATE ON SCHEMA public FROM ebbing_finder")


def downgrade() -> None:
    """Drop them with every tenant's own indexes; searches look at all memories again. The role stays."""
    op.execute("DELETE FROM usage WHERE purpose = 'rerank'")
    op.execute(
        "ALTER TABLE usage DROP CONSTRAINT usage_purpose_check, "
        "ADD CONSTRAINT usage_purpose_check CHECK (purpose IN ('score', 'embed', 'query'))"
    )
    op.execute("DROP FUNCTION words_matching")
    op.execute("DROP FUNCTION make_graph")
    op.execute("DROP FUNCTION drop_graph")
    op.execute(OWN_INDEXES)
    op.execute("DROP INDEX memory_state_elsewhere")
    op.execute("REVOKE SELECT (tenant_id, memory_id, own, words) ON memory_words FROM ebbing_finder")
    op.execute("REVOKE USAGE ON SCHEMA public FROM ebbing_finder")
    op.execute("ALTER TABLE tenant_spaces DROP COLUMN graph_space_id")
    op.execute("ALTER TABLE embeddings DROP COLUMN grafted")
