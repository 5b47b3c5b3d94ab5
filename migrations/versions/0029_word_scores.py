"""Word scores that know how often a memory says a word, and how long the memory is.

Revision: 0029, after 0028
"""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"

# BM25 with k1 = 0.9 and b = 0.75 against a fixed length of 20 content words, so that a score means the same in every
# tenant. A memory's length is estimated from its distinct lexemes. ts_rank() of a lexeme with n positions is
# 6/pi^2 times the sum of 1/k^2 for k = 1 … n, of which 1/(1 - rank) * 6/pi^2 - 1/2 is n, nearly; a lexeme without
# positions counts as one.
FUNCTIONS = """
CREATE FUNCTION content_length(lexemes float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN power(greatest(lexemes, 1::float8), 1.1::float8);

CREATE FUNCTION word_room(lexemes float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 0.225::float8 + 0.03375::float8 * greatest(content_length(lexemes), 8::float8);

CREATE FUNCTION word_worth(own tsvector, lexeme tsquery, room float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 1.495::float8 / (1 + room / (0.6079271::float8 / (1.0000001::float8 - ts_rank('{1,1,1,1}', own, lexeme)) - 0.5));

CREATE FUNCTION near_worth(own_lexemes float8, near_lexemes float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN least(1::float8, 25 / content_length(own_lexemes)) * 1.495::float8 / (1 + word_room(near_lexemes));
"""

# Row-level security keeps PostgreSQL from using a GIN index for `@@`, so this function is beyond it and names the
# tenant itself: the transaction's own, whatever it is given. The scores are put together as text of typed arguments,
# each quoted. A tenant without an index of its own is scanned. The function it follows stays for processes of the
# version before.
MATCHES = """
CREATE FUNCTION words_weighed(wanted tsquery, lexemes tsquery[], rarities float8[], context float8)
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
    'public.near_worth(length(own) - 3, (length(words) - length(own)) / 4.0) AS near FROM public.memory_words '
    'WHERE tenant_id = %L AND words @@ %L::tsquery OFFSET 0) AS known OFFSET 0) AS found ORDER BY 2 DESC, 1 DESC',
    coalesce(scores, '0::float8'), tenant, wanted);
END $$;
REVOKE EXECUTE ON FUNCTION words_weighed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION words_weighed TO ebbing_app;
"""


def upgrade() -> None:
    """Make the functions."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(FUNCTIONS)
    op.execute("RESET ROLE")
    op.execute("GRANT CREATE ON SCHEMA public TO ebbing_finder")
    op.execute("SET ROLE ebbing_finder")
    op.execute(MATCHES)
    op.execute("RESET ROLE")
    op.execute("REVOKE CREATE ON SCHEMA public FROM ebbing_finder")


def downgrade() -> None:
    """Drop them."""
    op.execute("DROP FUNCTION words_weighed")
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP FUNCTION near_worth, word_worth, word_room, content_length")
    op.execute("RESET ROLE")
