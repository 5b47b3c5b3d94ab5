"""Count for how many other jobs a waiting export was passed over, so that it gets a turn.

Revision: 0065, after 0055
"""

from __future__ import annotations

from alembic import op

revision = "0065"
down_revision = "0062"


def upgrade() -> None:
    """Add the column; the previous version ignores it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE jobs ADD COLUMN passed_over integer NOT NULL DEFAULT 0")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the column."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE jobs DROP COLUMN passed_over")
    op.execute("RESET ROLE")
