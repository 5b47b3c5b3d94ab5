"""Deletions of single memories that one erasure, a batch, carries out.

Revision: 0035, after 0034
"""

from __future__ import annotations

from alembic import op

revision = "0035"
down_revision = "0034"


def upgrade() -> None:
    """Add the column; it is empty except while a batch runs. The previous version leaves it empty."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE erasures ADD COLUMN batch_id uuid")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it: the deletions of a running batch continue individually, and the batch remains as an erasure."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE erasures DROP COLUMN batch_id")
    op.execute("RESET ROLE")
