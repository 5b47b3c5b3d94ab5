"""State of the lane `rights`: earliest start of jobs, deadlines of segments, remaining rows and open requests.

Revision: 0019, after 0018
"""

from __future__ import annotations

from alembic import op

revision = "0019"
down_revision = "0018"

UP = """
-- Until then it doesn't count as waiting: an erasure in its grace holds up nothing.
ALTER TABLE jobs ADD COLUMN not_before timestamptz;
UPDATE jobs SET not_before = claimed_until
WHERE status = 'queued' AND kind = 'erase' AND claim IS NULL AND claimed_until > now();

-- By when the segments of cold storage that it has touched are rewritten, and when they were; how many rows another
-- look has found, as long as it isn't done.
ALTER TABLE erasures ADD COLUMN rewrite_by timestamptz, ADD COLUMN rewritten_at timestamptz,
  ADD COLUMN residue bigint NOT NULL DEFAULT 0 CHECK (residue >= 0);
UPDATE erasures SET rewrite_by = finished_at + interval '2 days'
WHERE finished_at IS NOT NULL AND jsonb_path_exists(plan, '$[*].segments[*]');
CREATE INDEX erasures_rewrite ON erasures (tenant_id, rewrite_by) WHERE rewrite_by IS NOT NULL AND rewritten_at IS NULL;

CREATE INDEX privacy_requests_open ON privacy_requests (tenant_id, due_at) WHERE answer IS NULL;
-- Numbers of all tenants, for the metrics: nothing in it says about whom.
GRANT SELECT ON privacy_requests TO ebbing_drain;
"""

DOWN = """
REVOKE SELECT ON privacy_requests FROM ebbing_drain;
DROP INDEX privacy_requests_open, erasures_rewrite;
ALTER TABLE erasures DROP COLUMN residue, DROP COLUMN rewritten_at, DROP COLUMN rewrite_by;
ALTER TABLE jobs DROP COLUMN not_before;
"""


def upgrade() -> None:
    """Add the columns, and enter what earlier erasures have promised."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("ALTER TABLE erasures NO FORCE ROW LEVEL SECURITY")
    op.execute(UP)
    op.execute("ALTER TABLE erasures FORCE ROW LEVEL SECURITY")
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
