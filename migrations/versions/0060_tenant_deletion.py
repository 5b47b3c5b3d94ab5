"""Deletion of tenants: an erasure of everything, after which the tenant's row remains as a tombstone.

Revision: 0060, after 0055
"""

from __future__ import annotations

from alembic import op

revision = "0060"
down_revision = "0059"

UP = """
-- The tenant's deletion: requests are refused from then on, and the name is replaced by the id when it is finished.
ALTER TABLE tenants
  ADD COLUMN deletion_id uuid, ADD COLUMN delete_after timestamptz, ADD COLUMN deleted_at timestamptz;
CREATE INDEX tenants_deletion ON tenants (tenant_id) WHERE deletion_id IS NOT NULL AND deleted_at IS NULL;
ALTER TABLE erasures ADD COLUMN whole_tenant boolean NOT NULL DEFAULT false;
CREATE INDEX erasures_whole ON erasures (tenant_id) WHERE whole_tenant;
GRANT DELETE ON api_keys, policies, tenant_counts, contradiction_watermarks, queue_gaps TO ebbing_app;
GRANT DELETE ON ebbing_keys.digest_keys TO ebbing_app;

-- The service's role can't delete legal holds, except those of a tenant whose deletion has started.
CREATE FUNCTION delete_holds_of_tenant(wanted uuid) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp
AS $$
DECLARE
  deleted bigint;
BEGIN
  DELETE FROM holds WHERE tenant_id = wanted AND EXISTS (
    SELECT FROM erasures AS deletion
    WHERE deletion.tenant_id = wanted AND deletion.whole_tenant AND deletion.status = 'running');
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END $$;
REVOKE EXECUTE ON FUNCTION delete_holds_of_tenant FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delete_holds_of_tenant TO ebbing_app;
"""
# A restored key store has the column already when a copy of the data from before this revision is migrated.
KEYS = "ALTER TABLE ebbing_keys.erasure_ledger ADD COLUMN IF NOT EXISTS whole_tenant boolean NOT NULL DEFAULT false"

DOWN = """
DROP FUNCTION delete_holds_of_tenant;
REVOKE DELETE ON api_keys, policies, tenant_counts, contradiction_watermarks, queue_gaps FROM ebbing_app;
REVOKE DELETE ON ebbing_keys.digest_keys FROM ebbing_app;
ALTER TABLE ebbing_keys.erasure_ledger DROP COLUMN whole_tenant;
DROP INDEX erasures_whole;
ALTER TABLE erasures DROP COLUMN whole_tenant;
DROP INDEX tenants_deletion;
ALTER TABLE tenants DROP COLUMN deletion_id, DROP COLUMN delete_after, DROP COLUMN deleted_at;
"""


def upgrade() -> None:
    """Add the columns; the previous version reads and writes none of them."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute(KEYS)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the columns: tenants that are being deleted accept requests again."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
