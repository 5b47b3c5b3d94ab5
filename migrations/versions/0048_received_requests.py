"""The time at which the request for an erasure was received, and the key that recorded an extension.

Statements of the previous version join erasures with the request log, whose `received_at` must stay unambiguous.

Revision: 0048, after 0047
"""

from __future__ import annotations

from alembic import op

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    """Add the columns, which the previous version leaves empty."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE erasures ADD COLUMN arrived_at timestamptz")
    op.execute("ALTER TABLE privacy_requests ADD COLUMN extended_by text")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the columns; the request log retains the time of receipt for 24 months after the answer."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE erasures DROP COLUMN arrived_at")
    op.execute("ALTER TABLE privacy_requests DROP COLUMN extended_by")
    op.execute("RESET ROLE")
