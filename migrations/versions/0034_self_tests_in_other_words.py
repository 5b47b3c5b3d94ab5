"""Self-tests in other words, and by recall.

Revision: 0034, after 0033
"""

from __future__ import annotations

from alembic import op

revision = "0034"
down_revision = "0033"

KINDS = """
ALTER TABLE self_tests DROP CONSTRAINT self_tests_kind_check,
  ADD CONSTRAINT self_tests_kind_check CHECK (kind IN ({}))
"""


def upgrade() -> None:
    """Allow the new kinds, add the number of memories that a recall brought up, and let the drain's role count."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(KINDS.format("'connection', 'application', 'other_words', 'recall', 'coherence'"))
    op.execute("ALTER TABLE self_tests ADD COLUMN brought smallint")
    op.execute("GRANT SELECT (tenant_id, started_at, finished_at, results) ON self_test_runs TO ebbing_drain")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Delete the new kinds' outcomes, and restore the rest."""
    op.execute("DELETE FROM self_tests WHERE kind IN ('other_words', 'recall')")
    op.execute("UPDATE self_test_runs SET results = results - 'other_words' - 'recall'")
    op.execute("SET ROLE ebbing_owner")
    op.execute("REVOKE SELECT (tenant_id, started_at, finished_at, results) ON self_test_runs FROM ebbing_drain")
    op.execute("ALTER TABLE self_tests DROP COLUMN brought")
    op.execute(KINDS.format("'connection', 'application', 'coherence'"))
    op.execute("RESET ROLE")
