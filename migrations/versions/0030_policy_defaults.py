"""The number of the defaults that a tenant's policies were written under.

Revision: 0030, after 0029
"""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Add the column; the policies that are there were written under the first defaults."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE tenants ADD COLUMN defaults smallint NOT NULL DEFAULT 0")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE tenants DROP COLUMN defaults")
    op.execute("RESET ROLE")
