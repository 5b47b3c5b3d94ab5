"""The keep chance by which protection decides, beside the salience: the rules' chance, or the highest of the sources.

Revision: 0049, after 0048
"""

from __future__ import annotations

from alembic import op

revision = "0049"
down_revision = "0048"

CHANCES = """
ALTER TABLE memory_state ADD COLUMN keep_chance real CHECK (keep_chance BETWEEN 0 AND 1);
CREATE INDEX memory_state_without_chance ON memory_state (tenant_id, memory_id)
  WHERE keep_chance IS NULL AND salience_source IN ('heuristic', 'consolidation') AND tier IN ('active', 'archived');
"""


def upgrade() -> None:
    """Add the column; the night fills it, and until then a memory is judged by its salience."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(CHANCES)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("DROP INDEX memory_state_without_chance")
    op.execute("ALTER TABLE memory_state DROP COLUMN keep_chance")
    op.execute("RESET ROLE")
