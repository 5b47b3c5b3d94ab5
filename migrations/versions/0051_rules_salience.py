"""The rules' salience of memories that a model rated, to compare both.

Revision: 0051, after 0050
"""

from __future__ import annotations

from alembic import op

revision = "0051"
down_revision = "0050"


# Numbers and versions for figures over all tenants; the role has no right to any other column of these.
READ = "version, scored_at, emotional, novelty, actionable, personal"


def upgrade() -> None:
    """Add the column; memories that a model rated before have no value. The indexes list the last ratings."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE scores ADD COLUMN rules_salience real CHECK (rules_salience BETWEEN 0 AND 1)")
    op.execute("CREATE INDEX scores_compared ON scores (tenant_id, scored_at) WHERE rules_salience IS NOT NULL")
    op.execute("CREATE INDEX scores_compared_all ON scores (scored_at) WHERE rules_salience IS NOT NULL")
    op.execute(f"GRANT SELECT ({READ}, rules_salience) ON scores TO ebbing_drain")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop it with its indexes."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(f"REVOKE SELECT ({READ}) ON scores FROM ebbing_drain")  # noqa: S608 - a constant
    op.execute("ALTER TABLE scores DROP COLUMN rules_salience")
    op.execute("RESET ROLE")
