"""The calibration of a tenant's keep chances: the threshold found for a share of its memories, and shifts by role.

Revision: 0050, after 0049
"""

from __future__ import annotations

from alembic import op

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    """Add the column; a tenant without a calibration has the policy's threshold and no shifts."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE tenants ADD COLUMN keep_calibration jsonb")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE tenants DROP COLUMN keep_calibration")
    op.execute("RESET ROLE")
