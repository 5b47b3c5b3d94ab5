"""The rules' chance that a memory should be kept, beside their criteria.

Revision: 0046, after 0044
"""

from __future__ import annotations

from alembic import op

revision = "0046"
down_revision = "0044"


def upgrade() -> None:
    """Add the column; rows that the rules scored before have no chance."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE scores ADD COLUMN keep_chance real CHECK (keep_chance BETWEEN 0 AND 1)")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE scores DROP COLUMN keep_chance")
    op.execute("RESET ROLE")
