"""Rates of forgetting that were learned from uses: their author in policy versions, and the tenant's latest result.

Revision: 0062, after 0055
"""

from __future__ import annotations

from alembic import op

revision = "0062"
down_revision = "0061"


def upgrade() -> None:
    """Add the columns; null means that a person or the service's own defaults wrote the version, and no result."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE policies ADD COLUMN author text CHECK (author IN ('learned'))")
    op.execute("ALTER TABLE tenants ADD COLUMN learned_rates jsonb")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE tenants DROP COLUMN learned_rates")
    op.execute("ALTER TABLE policies DROP COLUMN author")
    op.execute("RESET ROLE")
