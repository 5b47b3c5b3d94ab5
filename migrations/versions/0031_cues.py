"""Cues: words and situations that a model named, by which a conversation finds a memory that shares no word with it.

Revision: 0031, after 0030
"""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"

# A stem is the lexemes of a cue, in order, with blanks between. All of them must be asked for, so the first one is
# enough to find it by. The tenant is hashed into the key, so that a look into the index meets no other tenant. Without
# `fastupdate = off`, every reader would go through the list of pending entries.
COLUMNS = """
ALTER TABLE scores
  ADD COLUMN inferred_cues text[] NOT NULL DEFAULT '{}',
  ADD COLUMN cue_stems text[] NOT NULL DEFAULT '{}';

CREATE FUNCTION cue_keys(tenant uuid, stems text[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT hashtextextended(tenant::text || ' ' || split_part(stem, ' ', 1), 0) FROM unnest(stems) AS stem);

CREATE INDEX scores_cues ON scores USING gin (cue_keys(tenant_id, cue_stems)) WITH (fastupdate = off)
  WHERE cue_stems <> '{}';
GRANT SELECT (tenant_id, memory_id, cue_stems) ON scores TO ebbing_finder;
"""

# Row-level security keeps PostgreSQL from using a GIN index for `&&`, so this function is beyond it and names the
# tenant itself: the transaction's own, whatever it is given. The inner query has no condition on the tenant, so that
# the planner takes the index of the cues and not that of the tenant.
HELD = """
CREATE FUNCTION cues_held(asked text[]) RETURNS TABLE (memory_id uuid, cue text)
LANGUAGE plpgsql STABLE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_indexscan = off
SET max_parallel_workers_per_gather = 0
AS $$
DECLARE
  tenant uuid := nullif(current_setting('ebbing.tenant', true), '')::uuid;
  keys bigint[];
BEGIN
  IF tenant IS NULL THEN
    RETURN;
  END IF;
  keys := public.cue_keys(tenant, asked);
  RETURN QUERY
    SELECT score.memory_id, score.stem
    FROM (
      SELECT scores.tenant_id, scores.memory_id, unnest(scores.cue_stems) AS stem FROM public.scores
      WHERE scores.cue_stems <> '{}' AND public.cue_keys(scores.tenant_id, scores.cue_stems) && keys OFFSET 0
    ) AS score
    WHERE score.tenant_id = tenant AND string_to_array(score.stem, ' ') <@ asked;
END $$;
REVOKE EXECUTE ON FUNCTION cues_held FROM PUBLIC;
GRANT EXECUTE ON FUNCTION cues_held TO ebbing_app;
"""


def upgrade() -> None:
    """Add the columns, their index, and the function that reads it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(COLUMNS)
    op.execute("RESET ROLE")
    op.execute("GRANT CREATE ON SCHEMA public TO ebbing_finder")
    op.execute("SET ROLE ebbing_finder")
    op.execute(HELD)
    op.execute("RESET ROLE")
    op.execute("REVOKE CREATE ON SCHEMA public FROM ebbing_finder")


def downgrade() -> None:
    """Drop them; the cues are lost."""
    op.execute("DROP FUNCTION cues_held")
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP INDEX scores_cues")
    op.execute("DROP FUNCTION cue_keys")
    op.execute("ALTER TABLE scores DROP COLUMN inferred_cues, DROP COLUMN cue_stems")
    op.execute("RESET ROLE")
