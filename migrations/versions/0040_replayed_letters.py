"""Number of replays of the work in a dead letter.

Revision: 0040, after 0039
"""

from __future__ import annotations

from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    """Add the column; the previous version leaves it at 0."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE dead_letters ADD COLUMN replays integer NOT NULL DEFAULT 0")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it, and the letters that were replayed: the previous version deletes a letter when it is replayed."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DELETE FROM dead_letters WHERE discarded_at IS NOT NULL AND discard_reason IS NULL")
    op.execute("ALTER TABLE dead_letters DROP COLUMN replays")
    op.execute("RESET ROLE")
