"""A function that returns the numbers of several tenants in one call, for operators of all tenants.

Revision: 0023, after 0022
"""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"

# The function runs with the rights of its caller and under row-level security: it sets each tenant in turn, as its
# caller could, and saves a round trip for each. It returns numbers, never text.
UP = """
CREATE FUNCTION tenants_abreast(wanted uuid[])
RETURNS TABLE (tenant uuid, active bigint, archived bigint, cold bigint, text_bytes bigint, dead_letters bigint,
  quota_bytes bigint, quota_near float8, budget_tokens bigint, budget_cost float8)
LANGUAGE plpgsql VOLATILE STRICT SECURITY INVOKER
SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  before text := coalesce(current_setting('ebbing.tenant', true), '');
BEGIN
  FOREACH tenant IN ARRAY wanted LOOP
    PERFORM set_config('ebbing.tenant', tenant::text, true);
    SELECT coalesce(sum(known.active), 0), coalesce(sum(known.archived), 0), coalesce(sum(known.cold), 0),
      coalesce(sum(known.text_bytes), 0)
    INTO active, archived, cold, text_bytes FROM tenant_counts AS known WHERE known.tenant_id = tenant;
    SELECT count(*) INTO dead_letters FROM (
      SELECT FROM dead_letters AS letter
      WHERE letter.tenant_id = tenant AND letter.discarded_at IS NULL LIMIT 10000) AS waiting;
    SELECT (body ->> 'quota_bytes')::bigint, coalesce((body ->> 'quota_near')::float8, 0.8),
      (body #>> '{budget,tokens}')::bigint, (body #>> '{budget,cost}')::float8
    INTO quota_bytes, quota_near, budget_tokens, budget_cost FROM policies AS policy
    WHERE policy.tenant_id = tenant AND policy.effective_at <= now() ORDER BY policy.version DESC LIMIT 1;
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('ebbing.tenant', before, true);
END $$;
REVOKE EXECUTE ON FUNCTION tenants_abreast FROM PUBLIC;
GRANT EXECUTE ON FUNCTION tenants_abreast TO ebbing_app;
"""


def upgrade() -> None:
    """Make the function."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP FUNCTION tenants_abreast(uuid[])")
    op.execute("RESET ROLE")
