"""Corrections: links of a source of their own, and which memories speak of a change.

Revision: 0027, after 0026
"""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"

# What a memory corrects is a link with a source of its own. Both indexes hold few rows: a tenant without corrections
# has none in either.
UP = """
ALTER TABLE memories ADD COLUMN says_change boolean NOT NULL DEFAULT false;
CREATE INDEX memories_changes ON memories (tenant_id, coalesce(occurred_at, created_at)) WHERE says_change;
CREATE INDEX links_corrections ON links (tenant_id, other_id) WHERE kind = 'corrects';
ALTER TABLE links DROP CONSTRAINT links_source_check,
  ADD CONSTRAINT links_source_check CHECK (source IN ('caller', 'consolidation', 'recall', 'correction')) NOT VALID;
"""

DOWN = """
DELETE FROM links WHERE source = 'correction';
DROP INDEX links_corrections;
DROP INDEX memories_changes;
ALTER TABLE memories DROP COLUMN says_change;
ALTER TABLE links DROP CONSTRAINT links_source_check,
  ADD CONSTRAINT links_source_check CHECK (source IN ('caller', 'consolidation', 'recall'));
"""


def upgrade() -> None:
    """Add the column and the indexes; what is stored already corrects nothing until it is indexed again."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("ALTER TABLE links VALIDATE CONSTRAINT links_source_check")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Remove them, and every correction that was found."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE links NO FORCE ROW LEVEL SECURITY")
    op.execute(DOWN)
    op.execute("ALTER TABLE links FORCE ROW LEVEL SECURITY")
    op.execute("RESET ROLE")
