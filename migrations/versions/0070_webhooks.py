"""Webhooks: endpoints with their position in the change feed, and deliveries.

Revision: 0070, after 0069
"""

from __future__ import annotations

from alembic import op

revision = "0070"
down_revision = "0069"

UP = """
-- The secrets are in ebbing_keys.record_keys, wrapped by the tenant's key; `secret_id` and `old_secret_id` name them.
-- `next_at` is the time of the earliest attempt that is possible; NULL if nothing is pending.
CREATE TABLE webhooks (
  tenant_id uuid NOT NULL,
  webhook_id uuid NOT NULL,
  url text NOT NULL,
  description text NOT NULL DEFAULT '',
  types text[],
  format text NOT NULL CHECK (format IN ('standard', 'cloudevents')),
  status text NOT NULL DEFAULT 'enabled' CHECK (status IN ('enabled', 'paused', 'disabled')),
  reason text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  secret_id uuid NOT NULL,
  old_secret_id uuid,
  old_secret_until timestamptz,
  cursor bigint NOT NULL,
  missed bigint NOT NULL DEFAULT 0,
  failures integer NOT NULL DEFAULT 0,
  failing_since timestamptz,
  succeeded_at timestamptz,
  rest_until timestamptz NOT NULL DEFAULT 'epoch',
  next_at timestamptz,
  claim uuid,
  claimed_until timestamptz NOT NULL DEFAULT 'epoch',
  turned_at timestamptz NOT NULL DEFAULT 'epoch',
  PRIMARY KEY (tenant_id, webhook_id)
);

-- Ids, types and positions only. `cursor` is 0 for tests. Rows outlive their webhook until their retention ends.
CREATE TABLE webhook_deliveries (
  tenant_id uuid NOT NULL,
  webhook_id uuid NOT NULL,
  delivery_id uuid NOT NULL,
  cursor bigint NOT NULL,
  type text NOT NULL,
  changed_id uuid NOT NULL,
  changed_at timestamptz NOT NULL,
  status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  next_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  attempted_at timestamptz,
  response smallint,
  outcome text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant_id, webhook_id, delivery_id)
);
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (tenant_id, webhook_id, changed_id, cursor)
  WHERE status = 'pending';
CREATE INDEX webhook_deliveries_newest ON webhook_deliveries (tenant_id, webhook_id, created_at DESC, delivery_id);
CREATE INDEX webhook_deliveries_age ON webhook_deliveries (tenant_id, created_at);

-- A worker finds the webhooks of all tenants that have something to send; their URLs and secrets stay hidden from it.
GRANT SELECT (tenant_id, webhook_id, status, claimed_until, rest_until, next_at, cursor, turned_at, failing_since)
  ON webhooks TO ebbing_drain;
GRANT SELECT (tenant_id, last) ON changes TO ebbing_drain;
GRANT SELECT (deletion_id) ON tenants TO ebbing_drain;
"""

TABLES = ("webhooks", "webhook_deliveries")


def upgrade() -> None:
    """Create the tables; the previous version ignores them."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY tenant_rows ON {table} "
            "USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid) "
            "WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)"
        )
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO ebbing_app")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the tables: webhooks stop, and their secrets are lost."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP TABLE webhook_deliveries, webhooks")
    op.execute("REVOKE SELECT (deletion_id) ON tenants FROM ebbing_drain")
    op.execute("REVOKE SELECT (tenant_id, last) ON changes FROM ebbing_drain")
    op.execute("RESET ROLE")
