"""Windows of long memories: a vector for each part of a memory that is too long for one.

Revision: 0032, after 0031
"""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"

# A window belongs to the row of its memory's vector: whatever deletes that one deletes it too.
TABLE = """
CREATE TABLE memory_windows (
  tenant_id uuid NOT NULL,
  space_id smallint NOT NULL,
  memory_id uuid NOT NULL,
  place smallint NOT NULL,
  from_char integer NOT NULL,
  to_char integer NOT NULL CHECK (to_char > from_char),
  embedding halfvec NOT NULL,
  grafted boolean NOT NULL DEFAULT false,
  PRIMARY KEY (tenant_id, space_id, memory_id, place),
  FOREIGN KEY (tenant_id, space_id, memory_id) REFERENCES embeddings ON DELETE CASCADE
);
ALTER TABLE memory_windows ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON memory_windows
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_windows TO ebbing_app;
"""

# The service owns no table, so these make and drop the indexes of the transaction's own tenant, those of its windows
# too. A large tenant has its indexes already: the windows' are made beside them while the table is empty.
GRAPHS = """
CREATE FUNCTION make_window_graph(space smallint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := nullif(current_setting('ebbing.tenant', true), '')::uuid;
  size integer := (SELECT dimensions FROM embedding_spaces WHERE space_id = space AND dimensions <= 4000);
  own text := replace(tenant::text, '-', '');
BEGIN
  IF tenant IS NULL OR size IS NULL THEN
    RAISE EXCEPTION 'the transaction has no tenant, or the space has no dimensions for a graph';
  END IF;
  IF EXISTS (SELECT FROM memory_windows WHERE tenant_id = tenant AND space_id = space AND grafted) THEN
    RAISE EXCEPTION 'windows are grafted already';
  END IF;
  EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON memory_windows (memory_id) '
    'WHERE tenant_id = %L AND space_id = %s AND NOT grafted', format('window_tail_%s_%s', space, own), tenant, space);
  EXECUTE format('CREATE INDEX IF NOT EXISTS %I ON memory_windows '
    'USING hnsw ((embedding::halfvec(%s)) halfvec_ip_ops) WHERE tenant_id = %L AND space_id = %s AND grafted',
    format('window_graph_%s_%s', space, own), size, tenant, space);
END $$;

CREATE FUNCTION drop_window_graph(space smallint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  tenant uuid := nullif(current_setting('ebbing.tenant', true), '')::uuid;
  own text := replace(tenant::text, '-', '');
BEGIN
  IF tenant IS NULL THEN
    RAISE EXCEPTION 'the transaction has no tenant';
  END IF;
  EXECUTE format('DROP INDEX IF EXISTS public.%I, public.%I',
    format('window_tail_%s_%s', space, own), format('window_graph_%s_%s', space, own));
END $$;

REVOKE EXECUTE ON FUNCTION make_window_graph, drop_window_graph FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_window_graph, drop_window_graph TO ebbing_app;
"""

PRESENT = """
DO $$
DECLARE
  there record;
BEGIN
  FOR there IN SELECT tenant_id, graph_space_id FROM tenant_spaces WHERE graph_space_id IS NOT NULL LOOP
    PERFORM set_config('ebbing.tenant', there.tenant_id::text, true);
    PERFORM make_window_graph(there.graph_space_id);
  END LOOP;
  PERFORM set_config('ebbing.tenant', '', true);
END $$
"""

# The embed stage makes windows. Memories that have a vector and a text of more than 1,000 bytes, whose number is known
# without decompressing it, wait for it like new ones, in items of the usual size. A caller's own vector stands for the
# whole memory.
QUEUE = """
INSERT INTO tenant_work (stage, tenant_id, memory_ids)
SELECT 'embed', tenant_id, array_agg(memory_id ORDER BY memory_id)
FROM (
  SELECT tenant_id, memory_id, row_number() OVER (PARTITION BY tenant_id ORDER BY memory_id) / 1000 AS item
  FROM memories WHERE deleted_at IS NULL AND octet_length(text) > 1000 AND EXISTS (
    SELECT FROM embeddings JOIN embedding_spaces USING (space_id)
    WHERE embeddings.tenant_id = memories.tenant_id AND embeddings.memory_id = memories.memory_id AND NOT by_caller)
) AS numbered
GROUP BY tenant_id, item
"""


def upgrade() -> None:
    """Make the table and the functions, and queue the long memories that are stored."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLE)
    op.execute(GRAPHS)
    op.execute(PRESENT)
    op.execute("RESET ROLE")
    op.execute(QUEUE)


def downgrade() -> None:
    """Drop them: long memories are found by their one vector again. Queued work is harmless."""
    op.execute("DROP FUNCTION make_window_graph, drop_window_graph")
    op.execute("DROP TABLE memory_windows")
