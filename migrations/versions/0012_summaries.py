"""Summaries: what models cost that sum up.

Revision: 0012, after 0011
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"

# Not checked against the rows that are there, which all fit: the table is locked for a moment only.
PURPOSES = """
ALTER TABLE usage
  DROP CONSTRAINT usage_purpose_check,
  ADD CONSTRAINT usage_purpose_check CHECK (purpose IN ('score', 'embed', 'query', 'rerank', 'summarise')) NOT VALID
"""


def upgrade() -> None:
    """Allow the purpose."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(PURPOSES)
    op.execute("ALTER TABLE usage VALIDATE CONSTRAINT usage_purpose_check")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Forget what summaries have cost."""
    op.execute("DELETE FROM usage WHERE purpose = 'summarise'")
    op.execute(
        "ALTER TABLE usage DROP CONSTRAINT usage_purpose_check, "
        "ADD CONSTRAINT usage_purpose_check CHECK (purpose IN ('score', 'embed', 'query', 'rerank'))"
    )
