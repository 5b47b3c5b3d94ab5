"""The neighbours' length in word scores is divided as a double, which takes less time than a numeric.

Revision: 0038, after 0037
"""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0037"

# Equal to the function of 0029 but for the divisor; the quotient is exact in both types, so the scores are the same.
FUNCTION = """
CREATE OR REPLACE FUNCTION words_weighed(wanted tsquery, lexemes tsquery[], rarities float8[], context float8)
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
    'CASE WHEN words @@ %1$L::tsquery THEN CASE WHEN own @@ %1$L::tsquery '
    'THEN %2$L::float8 * public.word_worth(own, %1$L::tsquery, room) ELSE %3$L::float8 * near END ELSE 0 END',
    lexeme, rarity, context * rarity), ' + ')
  INTO scores FROM unnest(lexemes, rarities) AS said (lexeme, rarity);
  RETURN QUERY EXECUTE format(
    'SELECT found.memory_id, found.score FROM (SELECT known.memory_id, %s AS score FROM ('
    'SELECT memory_id, own, words, public.word_room(length(own) - 3) AS room, '
    'public.near_worth(length(own) - 3, (length(words) - length(own)) / DIVISOR) AS near FROM public.memory_words '
    'WHERE tenant_id = %L AND words @@ %L::tsquery OFFSET 0) AS known OFFSET 0) AS found ORDER BY 2 DESC, 1 DESC',
    coalesce(scores, '0::float8'), tenant, wanted);
END $$;
"""


def upgrade() -> None:
    """Replace the function; the previous version may keep using it."""
    _replace("4::float8")


def downgrade() -> None:
    """Restore the function of the previous version."""
    _replace("4.0")


def _replace(divisor: str) -> None:
    op.execute("GRANT CREATE ON SCHEMA public TO ebbing_finder")
    op.execute("SET ROLE ebbing_finder")
    op.execute(FUNCTION.replace("DIVISOR", divisor))
    op.execute("RESET ROLE")
    op.execute("REVOKE CREATE ON SCHEMA public FROM ebbing_finder")
