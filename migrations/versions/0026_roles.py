"""Roles of speakers: a column of `memories`, and an index of the memories that searches leave out unless asked.

Revision: 0026, after 0025
"""

from __future__ import annotations

from alembic import op

revision = "0026"
down_revision = "0025"

# `coalesce(role, speaker)` is the effective role where it is a role's name: a speaker may be named `system` too.
UP = """
ALTER TABLE memories ADD COLUMN role text CHECK (role IN ('user', 'assistant', 'system', 'tool'));
CREATE INDEX memories_aside ON memories (tenant_id, memory_id)
  WHERE deleted_at IS NULL AND coalesce(role, speaker) IN ('system', 'tool');
"""

DOWN = """
DROP INDEX memories_aside;
ALTER TABLE memories DROP COLUMN role;
"""


def upgrade() -> None:
    """Add the column, which is null for all stored memories, and the index."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(UP)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop both: roles are lost, and memories of the roles system and tool are found like any other."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
