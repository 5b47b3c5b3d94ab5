"""Answers to erasures that wait for a legal hold: when they were sent, and the deadline that they meet.

Revision: 0043, after 0042
"""

from __future__ import annotations

from alembic import op

revision = "0043"
down_revision = "0042"

COLUMNS = """
ALTER TABLE privacy_requests
  ADD COLUMN partial_sent_at timestamptz, ADD COLUMN partial_recorded_at timestamptz,
  ADD COLUMN partial_recorded_by text;
"""
DOWN = """
ALTER TABLE privacy_requests
  DROP COLUMN partial_sent_at, DROP COLUMN partial_recorded_at, DROP COLUMN partial_recorded_by;
"""


def days(met_at: str) -> str:
    """Return the statement that replaces the view, given the expression of the time at which the deadline was met."""
    return f"""
CREATE OR REPLACE VIEW privacy_request_days WITH (security_invoker = true) AS
SELECT tenant_id, request_id, nature, law, received_at, answer,
  extract(epoch FROM answered_at - received_at)::float8 / 86400 AS days,
  extract(epoch FROM confirmed_at - received_at)::float8 / 86400 AS days_to_confirm,
  coalesce(coalesce(confirmed_at, answered_at, now()) > confirm_by, false) AS confirmed_late,
  coalesce({met_at} > due_at, false) AS late
FROM privacy_requests;
"""  # noqa: S608 - constants only


def upgrade() -> None:
    """Add the columns, which the previous version leaves empty; a partial answer meets the deadline in the view."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(COLUMNS)
    op.execute(days("coalesce(partial_sent_at, answered_at, now())"))
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the columns: the records of partial answers are lost."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(days("coalesce(answered_at, now())"))
    op.execute(DOWN)
    op.execute("RESET ROLE")
