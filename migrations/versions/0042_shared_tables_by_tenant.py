"""Row-level security on the tables that workers read for all tenants.

They had none, because workers look for work of any tenant in them. A transaction of one tenant now sees only that
tenant's rows in them, too; a transaction without a tenant still sees all.

Revision: 0042, after 0041
"""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0041"

TABLES = (
    *("tenants", "api_keys", "tenant_work", "schedules", "runs", "rating_turns", "jobs"),
    "ebbing_keys.erasure_ledger",
)
SETTING = "current_setting('ebbing.tenant', true)"
OWN = f"(coalesce({SETTING}, '') = '' OR tenant_id = nullif({SETTING}, '')::uuid)"


def upgrade() -> None:
    """Add a policy to each table; the role of the drain stores memories of several tenants in one transaction."""
    op.execute("SET ROLE ebbing_owner")
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        op.execute(f"DROP POLICY IF EXISTS tenant_or_all ON {table}")  # a restored key store may be newer than the data
        op.execute(f"CREATE POLICY tenant_or_all ON {table} USING {OWN} WITH CHECK {OWN}")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Remove the policies."""
    op.execute("SET ROLE ebbing_owner")
    for table in TABLES:
        op.execute(f"DROP POLICY tenant_or_all ON {table}")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY, NO FORCE ROW LEVEL SECURITY")
    op.execute("RESET ROLE")
