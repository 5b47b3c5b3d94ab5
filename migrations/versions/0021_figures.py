"""Figures of all tenants together: how many dead letters wait, how many memories only the rules have judged.

The role that is not under row-level security may read the two columns that this takes, and nothing else of those rows.

Revision: 0021, after 0020
"""

from __future__ import annotations

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Grant the columns."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("GRANT SELECT (discarded_at) ON dead_letters TO ebbing_drain")
    op.execute("GRANT SELECT (scorer) ON scores TO ebbing_drain")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Take them back."""
    op.execute("REVOKE SELECT (discarded_at) ON dead_letters FROM ebbing_drain")
    op.execute("REVOKE SELECT (scorer) ON scores FROM ebbing_drain")
