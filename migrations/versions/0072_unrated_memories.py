"""Rights to count the memories of all tenants that wait for a rating.

Revision: 0072, after 0071
"""

from __future__ import annotations

from alembic import op

revision = "0072"
down_revision = "0071"

# Ids, versions and states; the role has no right to any text.
COLUMNS = {
    "scores": "tenant_id, memory_id, text_version, refused_by",
    "memories": "tenant_id, memory_id, text_version, deleted_at",
    "memory_state": "tenant_id, memory_id, salience_source",
    "rating_turns": "tenant_id",
}


def upgrade() -> None:
    """Grant the rights; the previous version doesn't use them."""
    op.execute("SET ROLE ebbing_owner")
    for table, columns in COLUMNS.items():
        op.execute(f"GRANT SELECT ({columns}) ON {table} TO ebbing_drain")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Revoke them."""
    op.execute("SET ROLE ebbing_owner")
    for table, columns in COLUMNS.items():
        op.execute(f"REVOKE SELECT ({columns}) ON {table} FROM ebbing_drain")  # noqa: S608 - constants
    op.execute("RESET ROLE")
