"""The queue's identity, and a witness of accepted requests outside Redis.

Revision: 0036, after 0035
"""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"

# `accepted_requests` has a row for each second in which a process accepted requests, and only until all of them are
# accounted for. The arrays are parallel: tenant, base, number of memories, and the id of the stream entry.
TABLES = """
CREATE TABLE queue_identity (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  epoch uuid NOT NULL,
  beat bigint NOT NULL DEFAULT 0,
  claimed_at timestamptz
);
GRANT SELECT, INSERT, UPDATE ON queue_identity TO ebbing_app;

CREATE TABLE accepted_requests (
  witness_id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
  accepted_at timestamptz NOT NULL DEFAULT now(),
  looked_at timestamptz,
  missed boolean NOT NULL DEFAULT false,
  tenant_ids uuid[] NOT NULL,
  bases uuid[] NOT NULL,
  memories integer[] NOT NULL,
  entry_ids text[] NOT NULL
);
GRANT SELECT, INSERT, DELETE ON accepted_requests TO ebbing_drain;

CREATE TABLE queue_gaps (
  tenant_id uuid NOT NULL,
  found_at timestamptz NOT NULL DEFAULT now(),
  requests integer NOT NULL CHECK (requests > 0),
  memories integer NOT NULL,
  first_at timestamptz NOT NULL,
  last_at timestamptz NOT NULL,
  noticed_at timestamptz,
  PRIMARY KEY (tenant_id, found_at)
);
ALTER TABLE queue_gaps ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_rows ON queue_gaps
  USING (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid)
  WITH CHECK (tenant_id = nullif(current_setting('ebbing.tenant', true), '')::uuid);
GRANT SELECT ON queue_gaps TO ebbing_app;
GRANT SELECT, INSERT, UPDATE ON queue_gaps TO ebbing_drain;
GRANT SELECT (tenant_id, stage, header) ON dead_letters TO ebbing_drain;
GRANT SELECT (tenant_id, name) ON tenants TO ebbing_drain;
"""


def upgrade() -> None:
    """Create the tables."""
    op.execute("SET ROLE ebbing_owner")
    op.execute(TABLES)
    op.execute("RESET ROLE")


def downgrade() -> None:
    """Drop them; the previous version doesn't look at the mark in Redis."""
    op.execute("SET ROLE ebbing_owner")
    op.execute("REVOKE SELECT (tenant_id, name) ON tenants FROM ebbing_drain")
    op.execute("REVOKE SELECT (tenant_id, stage, header) ON dead_letters FROM ebbing_drain")
    op.execute("DROP TABLE queue_gaps, accepted_requests, queue_identity")
    op.execute("RESET ROLE")
