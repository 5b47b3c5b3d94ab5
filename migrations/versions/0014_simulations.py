"""Tenants that live through a simulated year.

Revision: 0014, after 0013
"""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Mark them; there are none yet."""
    op.execute("ALTER TABLE tenants ADD COLUMN simulated boolean NOT NULL DEFAULT false")


def downgrade() -> None:
    """Take the mark away: those that were kept are tenants like any other."""
    op.execute("ALTER TABLE tenants DROP COLUMN simulated")
