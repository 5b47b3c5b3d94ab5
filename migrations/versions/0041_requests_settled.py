"""Names of an erased person in texts of operators, grounds of legal holds, and notices of extended deadlines.

Revision: 0041, after 0040
"""

from __future__ import annotations

from alembic import op

revision = "0041"
down_revision = "0040"

# `aliases` is empty again once the erasure is finished.
COLUMNS = """
ALTER TABLE erasures ADD COLUMN aliases text[], ADD COLUMN texts_redacted integer NOT NULL DEFAULT 0;

ALTER TABLE holds ADD COLUMN ground text, ADD COLUMN release_reason text;

ALTER TABLE privacy_requests
  ADD COLUMN notice_sent_at timestamptz, ADD COLUMN notice_recorded_at timestamptz, ADD COLUMN notice_recorded_by text;

GRANT UPDATE (reason) ON operator_acts TO ebbing_app;
"""

# The version before recorded an extension with its notice, and an answer with a confirmation that nobody had sent.
FACTS = """
ALTER TABLE privacy_requests NO FORCE ROW LEVEL SECURITY;
UPDATE privacy_requests SET notice_sent_at = extended_at WHERE extended_at IS NOT NULL;
UPDATE privacy_requests SET confirmed_at = NULL WHERE confirmed_at = answered_at;
ALTER TABLE privacy_requests FORCE ROW LEVEL SECURITY;
"""

DOWN = """
REVOKE UPDATE (reason) ON operator_acts FROM ebbing_app;
ALTER TABLE privacy_requests
  DROP COLUMN notice_sent_at, DROP COLUMN notice_recorded_at, DROP COLUMN notice_recorded_by;
ALTER TABLE holds DROP COLUMN ground, DROP COLUMN release_reason;
ALTER TABLE erasures DROP COLUMN aliases, DROP COLUMN texts_redacted;
"""


def upgrade() -> None:
    """Add the columns, which the previous version leaves empty, and let the service redact reasons of operators."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(COLUMNS)
    op.execute(FACTS)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop the columns: grounds and reasons of holds, notices and numbers of redacted texts are lost."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(DOWN)
    op.execute("RESET ROLE")
