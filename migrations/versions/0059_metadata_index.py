"""An index on metadata, and the function that uses it.

Revision: 0059, after 0058
"""

from __future__ import annotations

from alembic import op

revision = "0059"
down_revision = "0058"

# The metadata are indexed below the tenant's id, so that an entry of the index belongs to one tenant. Memories without
# metadata aren't in the index.
INDEX = """
CREATE INDEX memories_metadata ON memories
  USING gin (jsonb_set('{}', ARRAY[CAST(tenant_id AS text)], metadata) jsonb_path_ops)
  WHERE metadata IS NOT NULL AND deleted_at IS NULL;
GRANT SELECT (tenant_id, memory_id, metadata, deleted_at) ON memories TO ebbing_finder;
"""

# Row-level security keeps PostgreSQL from using the index for `@>`, so this function is beyond it and names the
# transaction's own tenant itself.
FUNCTION = """
CREATE FUNCTION metadata_matches(wanted jsonb, most integer) RETURNS SETOF uuid
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
AS $$
DECLARE
  tenant uuid := nullif(current_setting('ebbing.tenant', true), '')::uuid;
BEGIN
  IF tenant IS NULL THEN
    RETURN;
  END IF;
  RETURN QUERY EXECUTE format(
    'SELECT memory_id FROM public.memories WHERE tenant_id = %1$L::uuid AND metadata IS NOT NULL '
    'AND deleted_at IS NULL AND jsonb_set(''{}'', ARRAY[CAST(tenant_id AS text)], metadata) @> %2$L::jsonb LIMIT %3$s',
    tenant, jsonb_build_object(tenant::text, wanted), most);
END $$;
REVOKE EXECUTE ON FUNCTION metadata_matches FROM PUBLIC;
GRANT EXECUTE ON FUNCTION metadata_matches TO ebbing_app;
"""


def upgrade() -> None:
    """Create the index and the function; building the index reads all memories once and blocks writes meanwhile."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(INDEX)
    op.execute("RESET ROLE")
    op.execute("GRANT CREATE ON SCHEMA public TO ebbing_finder")
    op.execute("SET ROLE ebbing_finder")
    op.execute(FUNCTION)
    op.execute("RESET ROLE")
    op.execute("REVOKE CREATE ON SCHEMA public FROM ebbing_finder")


def downgrade() -> None:
    """Drop both."""
    op.execute("DROP FUNCTION metadata_matches")
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP INDEX memories_metadata")
    op.execute("REVOKE SELECT (tenant_id, memory_id, metadata, deleted_at) ON memories FROM ebbing_finder")
    op.execute("RESET ROLE")
